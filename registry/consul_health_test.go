package registry

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
)

// check is a check as Consul's API shows it.
type check struct {
	Node, CheckID, Name, Status, Notes, Output string
	ServiceID, ServiceName                     string
	ServiceTags                                []string
	Type                                       string
	Definition                                 map[string]any
	CreateIndex, ModifyIndex                   uint64
}

// checks reads checks from lines "node checkID status [serviceID [tag…]]"; the service's name is its ID up to the
// first dash. An instance without tags gets one that makes it a route.
func checks(t testing.TB, text string) []check {
	t.Helper()
	list := []check{}
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) == 0 {
			continue
		}
		if len(f) < 3 {
			t.Fatalf("check %q: want node, check ID and status", line)
		}
		c := check{Node: f[0], CheckID: f[1], Status: f[2], ServiceTags: []string{}, CreateIndex: 1, ModifyIndex: 1, Definition: map[string]any{}}
		if len(f) > 3 {
			c.ServiceID = f[3]
			c.ServiceName, _, _ = strings.Cut(f[3], "-")
			c.ServiceTags = []string{"urlprefix-/" + c.ServiceName}
		}
		if len(f) > 4 {
			c.ServiceTags = f[4:]
		}
		list = append(list, c)
	}
	return list
}

func encode(t testing.TB, list []check) []byte {
	t.Helper()
	b, err := json.Marshal(list)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// up returns the instances that pass, as "node/id", sorted.
func up(h health) string {
	var l []string
	for _, i := range h.instances {
		if i.up {
			l = append(l, i.node+"/"+i.id)
		}
	}
	slices.Sort(l)
	return strings.Join(l, " ")
}

func TestHealthPassing(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, status, checks string
		one, all             string // who is up with checksRequired=one and =all; all = "same": like one
	}{
		{"nothing", "passing", "", "", "same"},
		{"node only", "passing", "n serfHealth passing", "", "same"},
		{"one check", "passing", "n c passing web-1", "n/web-1", "same"},
		{"critical", "passing", "n c critical web-1", "", "same"},
		{"warning", "passing", "n c warning web-1", "", "same"},
		{"warning is good", "passing,warning", "n c warning web-1", "n/web-1", "same"},
		{"critical is good", "critical", "n c critical web-1", "n/web-1", "same"},
		{"serf passing", "passing", "n serfHealth passing \n n c passing web-1", "n/web-1", "same"},
		{"serf critical", "passing", "n serfHealth critical \n n c passing web-1", "", "same"},
		{"serf critical last", "passing", "n c passing web-1 \n n serfHealth critical", "", "same"},
		{"serf warning is alive", "passing", "n serfHealth warning \n n c passing web-1", "n/web-1", "same"},
		{"serf of another node", "passing", "m serfHealth critical \n n c passing web-1", "n/web-1", "same"},
		{"node maintenance", "passing", "n _node_maintenance critical \n n c passing web-1", "", "same"},
		{"node maintenance, any status", "passing", "n c passing web-1 \n n _node_maintenance passing", "", "same"},
		{"node maintenance elsewhere", "passing", "m _node_maintenance critical \n n c passing web-1", "n/web-1", "same"},
		{"service maintenance", "passing", "n _service_maintenance:web-1 critical web-1 \n n c passing web-1", "", "same"},
		{"service maintenance last", "passing", "n c passing web-1 \n n _service_maintenance:web-1 critical web-1", "", "same"},
		{"service maintenance not critical", "passing", "n _service_maintenance:web-1 warning web-1 \n n c passing web-1", "n/web-1", "same"},
		{"maintenance of another instance", "passing", "n _service_maintenance:web-2 critical web-2 \n n c passing web-1", "n/web-1", "same"},
		{"maintenance of an ID with the same start", "passing", "n _service_maintenance:web-1 critical web-1 \n n c passing web-10", "n/web-10", "same"},
		{"maintenance on another node", "passing", "m _service_maintenance:web-1 critical web-1 \n n c passing web-1", "n/web-1", "same"},
		{"maintenance is no check", "passing,critical", "n _service_maintenance:web-1 critical web-1 \n n c passing web-1", "", "same"},
		{"only a maintenance", "passing,critical", "n _service_maintenance:web-1 warning web-1", "", "same"},
		{"two checks, one fails", "passing", "n a passing web-1 \n n b critical web-1", "n/web-1", ""},
		{"two checks, the other fails", "passing", "n a critical web-1 \n n b passing web-1", "n/web-1", ""},
		{"two checks fail", "passing", "n a critical web-1 \n n b warning web-1", "", "same"},
		{"two checks pass", "passing", "n a passing web-1 \n n b passing web-1", "n/web-1", "same"},
		{"two checks, both states are good", "passing,warning", "n a passing web-1 \n n b warning web-1", "n/web-1", "same"},
		{"two instances", "passing", "n a passing web-1 \n n b critical web-2", "n/web-1", "same"},
		{"same ID on two nodes", "passing", "n a passing web-1 \n m a critical web-1", "n/web-1", "same"},
		{"same ID on two nodes, both", "passing", "n a passing web-1 \n m a passing web-1", "m/web-1 n/web-1", "same"},
		{"checks of a node do not count", "passing", "n disk critical \n n c passing web-1", "n/web-1", "same"},
		{"no tag of ours", "passing", "n c passing web-1 other", "", "same"},
		{"blanks around", "passing", "n serfHealth passing", "", "same"},
		{"tag is not first", "passing", "n c passing web-1 v1 urlprefix-/x", "n/web-1", "same"},
		{"check without tag is dropped", "passing", "n a passing web-1 \n n b critical web-1 v1", "n/web-1", "same"},
		{"unknown state", "passing", "n c unknown web-1", "", "same"},
		{"serf with other case is a check of the node", "passing", "n serfhealth critical \n n c passing web-1", "n/web-1", "same"},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, all := range []bool{false, true} {
				want := c.one
				if all && c.all != "same" {
					want = c.all
				}
				list := checks(t, c.checks)
				for range 4 {
					r := newHealthReader([]string{"urlprefix-"}, list2(c.status), all)
					h, err := r.read(bytes.NewReader(encode(t, list)))
					if err != nil {
						t.Fatal(err)
					}
					if got := up(h); got != want {
						t.Errorf("all=%v: up %q, want %q", all, got, want)
					}
					rand.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
				}
			}
		})
	}
}

func list2(s string) []string { return strings.Split(s, ",") }

func TestHealthTrimsTagsFirst(t *testing.T) {
	for _, c := range []struct {
		tags []string
		want bool
	}{
		{[]string{" urlprefix-/x"}, true},
		{[]string{"\turlprefix-/x "}, true},
		{[]string{"x", "\n urlprefix-"}, true},
		{[]string{"x-urlprefix-/x"}, false},
		{[]string{"url", "prefix-"}, false},
		{[]string{"team-/y"}, true},
		{[]string{"Urlprefix-/x"}, false},
		{[]string{"ürlprefix-/<&>"}, false},
		{[]string{`a\`, `"urlprefix-/x`}, false},
		{[]string{`a"`, `urlprefix-/x`}, true},
		{nil, false},
	} {
		list := checks(t, "n c passing web-1")
		list[0].ServiceTags = c.tags
		r := newHealthReader([]string{"urlprefix-", "team-"}, []string{"passing"}, false)
		h, err := r.read(bytes.NewReader(encode(t, list)))
		if err != nil {
			t.Fatal(err)
		}
		if got := len(h.instances) == 1; got != c.want {
			t.Errorf("tags %q: routed %v, want %v", c.tags, got, c.want)
		}
		if len(h.instances) == 1 && slices.ContainsFunc(h.instances[0].tags, func(s string) bool { return s != strings.TrimSpace(s) }) {
			t.Errorf("tags %q: kept as %q, want them trimmed", c.tags, h.instances[0].tags)
		}
	}
}

func TestHealthReadsOnlyProperAnswers(t *testing.T) {
	good := `[{"Node":"n","CheckID":"c","Status":"passing","ServiceID":"s","ServiceName":"s","ServiceTags":["urlprefix-/"]}]`
	for _, c := range []struct {
		name, body string
		ok         bool
	}{
		{"good", good, true},
		{"white space", " \n" + strings.ReplaceAll(good, ",", " ,\n") + "\n ", true},
		{"empty list", "[]", true},
		{"unknown members", `[{"X":{"Y":[1,{"Node":"no"}]},"Node":"n","CheckID":"serfHealth","Status":"passing"}]`, true},
		{"null members", `[{"Node":null,"CheckID":null,"Status":null,"ServiceID":null,"ServiceName":null,"ServiceTags":null}]`, true},
		{"escaped names", `[{"\u004eode":"n","CheckID":"c","Status":"passin\u0067","ServiceID":"s","ServiceName":"s","ServiceTags":["\u0075rlprefix-/"]}]`, true},
		{"no name", strings.Replace(good, `"ServiceName":"s"`, `"ServiceName":""`, 1), true},
		{"nothing", "", false},
		{"null", "null", false},
		{"object", "{}", false},
		{"text", "no leader", false},
		{"cut", good[:len(good)-1], false},
		{"cut in a check", good[:40], false},
		{"cut in a tag", good[:len(good)-5], false},
		{"more behind", good + good, false},
		{"list in list", "[[]]", false},
		{"number", "[1]", false},
		{"node is a number", strings.Replace(good, `"n"`, `1`, 1), false},
		{"ID is a list", strings.Replace(good, `"ServiceID":"s"`, `"ServiceID":["s"]`, 1), false},
		{"tags is a text", strings.Replace(good, `["urlprefix-/"]`, `"urlprefix-/"`, 1), false},
		{"tags is another text", strings.Replace(good, `["urlprefix-/"]`, `"x"`, 1), false},
		{"a tag is a number", strings.Replace(good, `["urlprefix-/"]`, `["urlprefix-/",1]`, 1), false},
		{"NUL", good[:20] + "\x00" + good[20:], false},
	} {
		r := newHealthReader([]string{"urlprefix-"}, []string{"passing"}, false)
		h, err := r.read(strings.NewReader(c.body))
		if (err == nil) != c.ok {
			t.Errorf("%s: error %v, want ok = %v", c.name, err, c.ok)
		}
		if err != nil && h.instances != nil {
			t.Errorf("%s: an error and instances", c.name)
		}
		// A reader that has seen garbage reads the next answer.
		if h, err := r.read(iotest.HalfReader(strings.NewReader(good))); err != nil || up(h) != "n/s" {
			t.Errorf("after %s: up %q, %v", c.name, up(h), err)
		}
	}
	boom := errors.New("boom")
	r := newHealthReader([]string{"urlprefix-"}, []string{"passing"}, false)
	if _, err := r.read(io.MultiReader(strings.NewReader(good[:30]), iotest.ErrReader(boom))); !errors.Is(err, boom) {
		t.Errorf("error of the body: %v, want boom", err)
	}
}

// naive is fabio's way: every check against every other one.
func naive(list []check, prefix string, status []string, all bool) string {
	var kept []check
	for _, c := range list {
		tagged := slices.ContainsFunc(c.ServiceTags, func(s string) bool { return strings.HasPrefix(strings.TrimSpace(s), prefix) })
		if tagged || c.CheckID == "serfHealth" || c.CheckID == "_node_maintenance" || strings.HasPrefix(c.CheckID, "_service_maintenance") {
			kept = append(kept, c)
		}
	}
	special := func(c check) bool {
		return c.CheckID == "serfHealth" || c.CheckID == "_node_maintenance" || strings.HasPrefix(c.CheckID, "_service_maintenance")
	}
	found := map[string]bool{}
next:
	for _, s := range kept {
		if s.ServiceID == "" || special(s) {
			continue
		}
		total, passing := 0, 0
		for _, c := range kept {
			if c.Node != s.Node {
				continue
			}
			if c.CheckID == "serfHealth" && c.Status == "critical" || c.CheckID == "_node_maintenance" ||
				c.CheckID == "_service_maintenance:"+s.ServiceID && c.Status == "critical" {
				continue next
			}
			if c.ServiceID == s.ServiceID && !special(c) {
				total++
				if slices.Contains(status, c.Status) {
					passing++
				}
			}
		}
		if passing > 0 && (!all || passing == total) {
			found[s.Node+"/"+s.ServiceID] = true
		}
	}
	var l []string
	for k := range found {
		l = append(l, k)
	}
	slices.Sort(l)
	return strings.Join(l, " ")
}

// randomChecks makes a small catalog full of coincidences.
func randomChecks(rng *rand.Rand) []check {
	list := []check{}
	states := []string{"passing", "passing", "passing", "warning", "critical"}
	for range rng.IntN(30) {
		c := check{Node: fmt.Sprint("n", rng.IntN(3)), Status: states[rng.IntN(len(states))], CreateIndex: rng.Uint64N(9), ModifyIndex: rng.Uint64N(9)}
		id := fmt.Sprint("web-", rng.IntN(3))
		switch rng.IntN(9) {
		case 0:
			c.CheckID = "serfHealth"
		case 1:
			c.CheckID = "_node_maintenance"
		case 2:
			c.CheckID, c.ServiceID, c.ServiceName = "_service_maintenance:"+id, id, "web"
		case 3:
			c.CheckID = "disk"
		default:
			c.CheckID, c.ServiceID, c.ServiceName = fmt.Sprint("c", rng.IntN(2)), id, fmt.Sprint("web", rng.IntN(2))
			c.ServiceTags = [][]string{{"urlprefix-/x"}, {"v1", " urlprefix-/y"}, {"v1"}, nil}[rng.IntN(4)]
		}
		list = append(list, c)
	}
	return list
}

func TestHealthAgreesWithNaive(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 2))
	r := map[bool]*healthReader{}
	status := []string{"passing", "warning"}
	for _, all := range []bool{false, true} {
		r[all] = newHealthReader([]string{"urlprefix-"}, status, all)
	}
	for range 300 {
		list := randomChecks(rng)
		for all, r := range r {
			want := naive(list, "urlprefix-", status, all)
			h, err := r.read(bytes.NewReader(encode(t, list)))
			if err != nil {
				t.Fatal(err)
			}
			if got := up(h); got != want {
				t.Fatalf("all=%v: up %q, want %q of\n%s", all, got, want, encode(t, list))
			}
			rng.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
			again, err := r.read(bytes.NewReader(encode(t, list)))
			if err != nil || !slices.EqualFunc(h.instances, again.instances, func(a, b instance) bool { return a.same(&b) }) {
				t.Fatalf("another order gives another answer: %v\n%+v\n%+v", err, h.instances, again.instances)
			}
		}
	}
}

func TestWithout(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(5, 6))
	random := func() (h health) {
		for s := range 4 {
			for n := range 3 {
				if rng.IntN(3) > 0 {
					h.instances = append(h.instances, instance{service: fmt.Sprint("s", s), node: fmt.Sprint("n", n), id: "i", up: rng.IntN(2) > 0})
				}
			}
		}
		return h
	}
	for range 2000 {
		a, b := random(), random()
		there, left := map[string]bool{}, map[string]bool{}
		for _, i := range b.instances {
			there[i.service+i.node], left[i.service] = true, true
		}
		gone, vanished := 0, map[string]bool{}
		for _, i := range a.instances {
			gone += btoi(!there[i.service+i.node])
			if !left[i.service] {
				vanished[i.service] = true
			}
		}
		if g, s := a.without(&b); g != gone || s != len(vanished) {
			t.Fatalf("without = %d, %d, want %d, %d of\n%+v\n%+v", g, s, gone, len(vanished), a.instances, b.instances)
		}
	}
}

func FuzzHealth(f *testing.F) {
	rng := rand.New(rand.NewPCG(3, 4))
	for range 20 {
		f.Add(encode(f, randomChecks(rng)))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		r := newHealthReader([]string{"urlprefix-"}, []string{"passing"}, false)
		h, err := r.read(bytes.NewReader(body))
		var list []json.RawMessage
		if json.Unmarshal(body, &list) != nil && err == nil {
			t.Fatalf("accepted %q", body)
		}
		if err != nil {
			return
		}
		if h.total != len(list) || h.kept > h.total || len(h.instances) > h.kept {
			t.Fatalf("total %d, kept %d, instances %d of %d checks", h.total, h.kept, len(h.instances), len(list))
		}
		again, err := r.read(iotest.OneByteReader(bytes.NewReader(body)))
		if err != nil || !slices.EqualFunc(h.instances, again.instances, func(a, b instance) bool { return a.same(&b) }) {
			t.Fatalf("bytewise: %v, %+v, want %+v", err, again.instances, h.instances)
		}
	})
}

// bigAnswer has 39 checks on each node, 12 of them with a route tag, 3 routed services for each node. With 1,000 nodes it
// is as big as that of reference catalogs: 39,000 checks, more than 21 MB.
func bigAnswer(tb testing.TB, nodes int) []byte {
	var list []check
	output := strings.Repeat(`HTTP GET http://10.0.0.1:8000/health: 200 OK Output: {"status":"ok"} `, 4)
	for n := range nodes {
		node := fmt.Sprintf("node-%04d.dc1.example.com", n)
		for i := range 39 {
			c := check{Node: node, Status: "passing", Output: output, Type: "http", CreateIndex: uint64(n*39 + i), ModifyIndex: uint64(n*39 + i)}
			if i < 12 {
				c.ServiceName = fmt.Sprintf("routed-%04d", (n*12+i)%(3*nodes))
				c.ServiceTags = []string{"urlprefix-" + c.ServiceName + ".example.com/api", "v1", "env=prod"}
			} else {
				c.ServiceName = fmt.Sprintf("other-%04d", (n*39+i)%(7*nodes))
				c.ServiceTags = []string{"v1", "env=prod"}
			}
			c.ServiceID = fmt.Sprintf("%s-%d", c.ServiceName, n*39+i)
			c.CheckID, c.Name = "service:"+c.ServiceID, "Service '"+c.ServiceName+"' check"
			list = append(list, c)
		}
	}
	b, err := json.MarshalIndent(list, "", " ")
	if err != nil {
		tb.Fatal(err)
	}
	return b
}

// TestHealthIsCheap bounds what one more answer costs: nearly all that is not routed must not even be
// allocated.
func TestHealthIsCheap(t *testing.T) {
	body := bigAnswer(t, 100)
	r := newHealthReader([]string{"urlprefix-"}, []string{"passing"}, false)
	h, err := r.read(bytes.NewReader(body))
	if err != nil || h.total != 3900 || h.kept != 1200 || len(h.instances) != 1200 {
		t.Fatalf("%d checks, %d kept, %d instances, %v", h.total, h.kept, len(h.instances), err)
	}
	if _, err := r.read(bytes.NewReader(body)); err != nil { // both halves of the reader's memory are warm now
		t.Fatal(err)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if _, err := r.read(bytes.NewReader(body)); err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	size, n := after.TotalAlloc-before.TotalAlloc, after.Mallocs-before.Mallocs
	t.Logf("%.1f MB of JSON: %d allocations, %d kB", float64(len(body))/1e6, n, size/1000)
	if size > 200<<10 || n > 50 {
		t.Errorf("a further read of %d bytes allocates %d bytes in %d pieces, want at most 200 KiB in 50", len(body), size, n)
	}
}

func BenchmarkHealth(b *testing.B) {
	body := bigAnswer(b, 1000)
	if real, err := os.ReadFile(os.Getenv("HEALTH_JSON")); err == nil {
		body = real
	}
	r := newHealthReader([]string{"urlprefix-"}, []string{"passing"}, false)
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := r.read(bytes.NewReader(body)); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Milliseconds())/float64(b.N), "ms/answer")
}
