package admin

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"varco/route"
)

func readTable(t *testing.T, h http.Handler, query string) tablePage {
	t.Helper()
	w := ask(h, "GET", "/api/table?"+query, "")
	wantStatus(t, w, 200)
	var p tablePage
	if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil {
		t.Fatalf("body %q: %v", w.Body, err)
	}
	return p
}

// dsts are the last parts of the targets' addresses, to compare with.
func dsts(p tablePage) string {
	var all []string
	for _, r := range p.Rows {
		all = append(all, strings.TrimSuffix(r.Dst[strings.LastIndex(r.Dst, ".")+1:], "/"))
	}
	return strings.Join(all, " ")
}

func TestTablePages(t *testing.T) {
	x := newTables(t)
	x.set(`
route add Web a.example.com/ http://10.0.0.1/ tags "Prod,v1"
route add Web a.example.com/ http://10.0.0.2/ tags "v2"
route add shop b.example.com/cart http://10.0.0.3/ weight 1
route add shop b.example.com/cart http://10.0.0.4/
route add mail /mail http://10.0.0.5/ opts "strip=/mail"
route add mail /mailbox http://10.0.0.6/
`)
	*x.stat("http://10.0.0.1/") = Stat{Requests: 5, Errors: 1, InFlight: 2, P99: 3 * time.Millisecond}
	*x.stat("http://10.0.0.5/") = Stat{Requests: 9, InFlight: 1, P99: 7 * time.Millisecond}
	h := newServer(t, testConfig(t), Deps{
		Table: x.get, Stats: statsOf,
		Problems: func() []route.Problem { return make([]route.Problem, 3) },
		Trouble:  func() error { return errors.New("consul: no answer for 40s") },
		Ready:    func() error { return nil },
		Updated:  func() time.Time { return time.Unix(1e9, 0).UTC() },
	}).Handler()
	p := readTable(t, h, "")
	if got := dsts(p); got != "6 5 1 2 3 4" {
		t.Errorf("rows = %s, want the order of the table", got)
	}
	if p.Routes != 4 || p.Targets != 6 || p.Matched != 6 || p.Problems != 3 || p.InFlight != 3 || p.Trouble != "consul: no answer for 40s" || p.NotReady != "" || !p.Updated.Equal(time.Unix(1e9, 0)) {
		t.Errorf("page = %+v", p)
	}
	r := p.Rows[2]
	if r.Service != "Web" || r.Host != "a.example.com" || r.Path != "/" || r.Match != "prefix" || r.Weight != 0.5 || r.Requests != 5 || r.Errors != 1 || r.InFlight != 2 || r.P99 != 3 || r.Rate != nil || r.State != "up" || r.N != 3 || r.Origin.Line != 2 {
		t.Errorf("row = %+v", r)
	}
	if p.Rows[5].State != "idle" {
		t.Errorf("state of a target without a share = %q, want idle", p.Rows[5].State)
	}

	for query, want := range map[string]string{
		"limit=2":                     "6 5",
		"offset=2&limit=2":            "1 2",
		"offset=5":                    "4",
		"offset=6":                    "",
		"offset=99":                   "",
		"limit=0":                     "",
		"limit=9999":                  "6 5 1 2 3 4",
		"sort=route":                  "6 5 1 2 3 4",
		"sort=-route":                 "4 3 2 1 5 6",
		"sort=service":                "1 2 6 5 3 4",
		"sort=-service":               "3 4 6 5 1 2",
		"sort=dst":                    "1 2 3 4 5 6",
		"sort=-requests":              "5 1 6 2 3 4",
		"sort=requests":               "6 2 3 4 1 5",
		"sort=-inflight":              "1 5 6 2 3 4",
		"sort=-p99":                   "5 1 6 2 3 4",
		"sort=-weight":                "6 5 3 1 2 4",
		"q=web":                       "1 2",
		"q=WEB+v2":                    "2",
		"q=prod":                      "1",
		"q=example.com/c":             "3 4",
		"q=a.example.com/":            "1 2",
		"q=service:mail":              "6 5",
		"q=path:mail":                 "6 5",
		"q=path:mailbox":              "6",
		"q=host:mail":                 "",
		"q=opt:strip":                 "5",
		"q=strip=/mail":               "5",
		"q=tag:v":                     "1 2",
		"q=dst:10.0.0.3":              "3",
		"q=http://10.0.0.3":           "3",
		"q=is:idle":                   "4",
		"q=is:up+service:shop":        "3",
		"q=is:down":                   "",
		"q=nothing":                   "",
		"q=web&sort=-dst&limit=1":     "2",
		"q=++&limit=1":                "6",
		"q=host:":                     "",
		"q=service:web+host:a+tag:v1": "1",
	} {
		if got := dsts(readTable(t, h, query)); got != want {
			t.Errorf("?%s = %q, want %q", query, got, want)
		}
	}
	for _, query := range []string{"offset=-1", "offset=x", "limit=-1", "limit=1e3", "sort=color"} {
		w := ask(h, "GET", "/api/table?"+query, "")
		if w.Code != 400 || !strings.Contains(w.Body.String(), `"error":`) {
			t.Errorf("?%s = %d %q, want 400", query, w.Code, w.Body)
		}
	}
}

func TestDownRouteIsShown(t *testing.T) {
	x := newTables(t)
	x.build(route.Snapshot{Services: []route.Service{{Name: "web", Commands: []route.Command{{Verb: route.Add, Service: "web", Src: "a.example.com/", Down: true}}}}})
	h := newServer(t, testConfig(t), Deps{Table: x.get, Stats: statsOf}).Handler()
	p := readTable(t, h, "q=is:down&sort=-rate")
	if len(p.Rows) != 1 || p.Rows[0].State != "down" || p.Rows[0].Host != "a.example.com" || p.Rows[0].Service != "" {
		t.Errorf("rows = %+v, want the route without a target", p.Rows)
	}
	if got := ask(h, "GET", "/api/routes", "").Body.String(); got != "null" {
		t.Errorf("/api/routes = %s, want null", got)
	}
}

func TestETag(t *testing.T) {
	x := newTables(t)
	x.set("route add web / http://10.0.0.1/")
	s := newServer(t, testConfig(t), Deps{Table: x.get, Stats: statsOf})
	now := time.Unix(1000, 0)
	s.frames.now = func() time.Time { return now }
	h := s.Handler()
	tick := func() { now = now.Add(time.Second) }
	ask(h, "GET", "/api/table", "")
	tick() // rates are known from the second look on
	tag := ask(h, "GET", "/api/table", "").Header().Get("ETag")
	if tag == "" {
		t.Fatal("no ETag")
	}
	tick()
	w := ask(h, "GET", "/api/table", "", "If-None-Match: "+tag)
	if w.Code != 304 || w.Body.Len() > 0 {
		t.Errorf("unchanged = %d %q, want 304", w.Code, w.Body)
	}
	if w := ask(h, "GET", "/api/table?q=web2", "", "If-None-Match: "+tag); w.Code != 200 {
		t.Errorf("another query = %d, want 200", w.Code)
	}
	x.stat("http://10.0.0.1/").Requests++
	tick()
	if w := ask(h, "GET", "/api/table", "", "If-None-Match: "+tag); w.Code != 200 {
		t.Errorf("after a request = %d, want 200", w.Code)
	}
}

func TestRates(t *testing.T) {
	x := newTables(t)
	x.set("route add web a/ http://10.0.0.1/\nroute add web a/ http://10.0.0.2/")
	s := newServer(t, testConfig(t), Deps{Table: x.get, Stats: statsOf})
	now := time.Unix(1000, 0)
	s.frames.now = func() time.Time { return now }
	h := s.Handler()
	rate := func(i int) string {
		t.Helper()
		r := readTable(t, h, "").Rows[i]
		if r.Rate == nil {
			return "unknown"
		}
		return fmt.Sprintf("%v %v", *r.Rate, *r.ErrorRate)
	}
	one := x.stat("http://10.0.0.1/")
	one.Requests = 1000
	if got := rate(0); got != "unknown" {
		t.Errorf("first look = %s, want unknown", got)
	}
	now = now.Add(2 * time.Second)
	one.Requests += 50
	one.Errors += 1
	if got := rate(0); got != "25 0.5" {
		t.Errorf("after two seconds = %s, want 25 requests and 0.5 errors", got)
	}
	p := readTable(t, h, "")
	if p.Rate == nil || *p.Rate != 25 || *p.ErrorRate != 0.5 {
		t.Errorf("total = %v, want 25", p.Rate)
	}

	// Another look within the same second sees the same numbers.
	now = now.Add(500 * time.Millisecond)
	one.Requests += 1000
	if got := rate(0); got != "25 0.5" {
		t.Errorf("half a second later = %s, want the same", got)
	}
	one.Requests -= 1000

	// The table changes; the target lives on with another share, and so does its rate.
	x.set("route add web a/ http://10.0.0.1/\nroute add web a/ http://10.0.0.3/\nroute add web a/ http://10.0.0.4/")
	if x.stat("http://10.0.0.1/") != one {
		t.Fatal("the target lost its numbers")
	}
	now = now.Add(time.Second)
	one.Requests += 30
	if got := rate(0); got != "20 0" {
		t.Errorf("after a new table = %s, want 20 (30 in 1.5 s)", got)
	}
	if got := rate(1); got != "unknown" {
		t.Errorf("new target = %s, want unknown", got)
	}

	// Counters that fall are those of another life.
	now = now.Add(time.Second)
	one.Requests = 3
	if got := rate(0); got != "unknown" {
		t.Errorf("after a fall = %s, want unknown", got)
	}
	// An average over a night says nothing.
	now = now.Add(8 * time.Hour)
	one.Requests = 1e6
	if got := rate(0); got != "unknown" {
		t.Errorf("after a night = %s, want unknown", got)
	}
}

// TestRoutesAreNew wants /api/routes to show a table at once, whatever the page has been shown.
func TestRoutesAreNew(t *testing.T) {
	x := newTables(t)
	x.set("route add web a/ http://10.0.0.1/")
	s := newServer(t, testConfig(t), Deps{Table: x.get, Stats: statsOf})
	now := time.Unix(1000, 0)
	s.frames.now = func() time.Time { return now }
	h := s.Handler()
	ask(h, "GET", "/api/table", "")
	x.set("route add web a/ http://10.0.0.2/")
	if got := ask(h, "GET", "/api/routes", "").Body.String(); !strings.Contains(got, "http://10.0.0.2/") {
		t.Errorf("/api/routes = %s, want the new target", got)
	}
}

// TestFramesAreCheap wants few frames when one takes long.
func TestFramesAreCheap(t *testing.T) {
	x := newTables(t)
	x.set("route add web a/ http://10.0.0.1/")
	now, frames := time.Unix(1000, 0), 0
	slow := func(*route.Target) (Stat, bool) {
		frames++
		now = now.Add(200 * time.Millisecond) // what a look at a million targets takes
		return Stat{}, true
	}
	s := newServer(t, testConfig(t), Deps{Table: x.get, Stats: slow})
	s.frames.now = func() time.Time { return now }
	start := now
	for now.Sub(start) < time.Minute {
		s.frames.latest()
		now = now.Add(10 * time.Millisecond)
	}
	if busy := time.Duration(frames) * 200 * time.Millisecond; busy > time.Minute/15 {
		t.Errorf("%v of a minute were spent on %d frames, want a twentieth", busy, frames)
	}
}

func TestNewTableIsShownSoon(t *testing.T) {
	x := newTables(t)
	x.set("route add web a/ http://10.0.0.1/")
	s := newServer(t, testConfig(t), Deps{Table: x.get, Stats: statsOf})
	now := time.Unix(1000, 0)
	s.frames.now = func() time.Time { return now }
	first := s.frames.latest()
	x.set("route add web a/ http://10.0.0.2/")
	now = now.Add(newTableAge)
	if next := s.frames.latest(); next.version != first.version+1 || next.rows[0].target.Dst != "http://10.0.0.2/" {
		t.Errorf("the new table is not shown after %v", newTableAge)
	}
}

// TestTableIsLetGo wants no old table to be kept for pages that are not open any more.
func TestTableIsLetGo(t *testing.T) {
	x := newTables(t)
	x.set("route add web a/ http://10.0.0.1/")
	synctest.Test(t, func(t *testing.T) {
		f := &frames{table: x.get, stats: statsOf, now: time.Now}
		last := func() *frame {
			synctest.Wait()
			f.mu.Lock()
			defer f.mu.Unlock()
			return f.last
		}
		f.latest()
		time.Sleep(rateAge - time.Second)
		if last() == nil {
			t.Error("the frame was forgotten too early")
		}
		f.latest()
		time.Sleep(rateAge - time.Second)
		if last() == nil {
			t.Error("the frame was forgotten although somebody looked")
		}
		time.Sleep(2 * time.Second)
		if last() != nil {
			t.Error("the frame was kept")
		}
		f.latest()
		f.forget()
	})
}

// TestFilterAndSortAgainstOracle compares with the obvious way, over random tables and queries.
func TestFilterAndSortAgainstOracle(t *testing.T) {
	rnd := rand.New(rand.NewSource(1))
	word := func() string { return []string{"a", "b", "AB", "ba", "abc", "ü"}[rnd.Intn(6)] }
	for range 50 {
		var s route.Snapshot
		svc := route.Service{Name: "x"}
		for i := range 40 {
			svc.Commands = append(svc.Commands, route.Command{
				Verb: route.Add, Service: word(), Src: word() + ".test/" + word(), Dst: fmt.Sprintf("http://10.0.0.%d/%s", i, word()),
				Tags: []string{word(), word()}, Origin: route.Origin{Node: word()},
			})
		}
		s.Services = []route.Service{svc}
		x := newTables(t)
		x.build(s)
		fr := newServer(t, testConfig(t), Deps{Table: x.get}).frames.current()
		for range 20 {
			field, w := append([]string{""}, "host", "path", "service", "tag", "dst", "node")[rnd.Intn(7)], word()
			query := w
			if field != "" {
				query = field + ":" + w
			}
			by := []string{"", "-route", "service", "-dst"}[rnd.Intn(4)]
			got, err := fr.sort(query, by)
			if err != nil {
				t.Fatal(err)
			}
			var want []int32
			for i, r := range fr.rows {
				texts := map[string]string{
					"host": r.route.Host, "path": r.route.Path, "service": r.target.Service, "dst": r.target.Dst,
					"tag": strings.Join(r.target.Tags, "\n"), "node": r.target.Origin.Node,
				}
				text := texts[field]
				if field == "" {
					text = texts["host"] + texts["path"] + "\n" + texts["service"] + "\n" + texts["dst"] + "\n" + texts["tag"] + "\n" + texts["node"]
				}
				if strings.Contains(strings.ToLower(text), strings.ToLower(w)) {
					want = append(want, int32(i))
				}
			}
			slices.SortStableFunc(want, func(i, j int32) int {
				a, b := fr.rows[i].target, fr.rows[j].target
				switch by {
				case "-route":
					return int(j - i)
				case "service":
					return strings.Compare(a.Service, b.Service)
				case "-dst":
					return strings.Compare(b.Dst, a.Dst)
				}
				return 0
			})
			if !slices.Equal(got, want) {
				t.Fatalf("sort(%q, %q) = %v, want %v", query, by, got, want)
			}
		}
	}
}

// TestBigTablePages asks for pages of 100,000 targets: an answer is as long as its page, and the whole table is looked
// at once for all of them. BenchmarkTable says how long that takes.
func TestBigTablePages(t *testing.T) {
	const size = 100000
	x := newTables(t)
	x.build(bigSnapshot(size))
	looks := 0
	stats := func(target *route.Target) (Stat, bool) {
		looks++
		return statsOf(target)
	}
	s := newServer(t, testConfig(t), Deps{Table: x.get, Stats: stats})
	now := time.Unix(1000, 0)
	s.frames.now = func() time.Time { return now }
	h := s.Handler()
	for _, query := range []string{"", "offset=99000", "q=svc-0999", "sort=-rate", "q=node-7&sort=dst", "sort=-rate&offset=50000"} {
		w := ask(h, "GET", "/api/table?limit=100&"+query, "")
		wantStatus(t, w, 200)
		if w.Body.Len() > 64<<10 {
			t.Errorf("?%s: %d bytes, want a page", query, w.Body.Len())
		}
	}
	p := readTable(t, h, "offset=99990&limit=100")
	if len(p.Rows) != 10 || p.Matched != size || p.Rows[9].N != size {
		t.Errorf("last page: %d rows of %d", len(p.Rows), p.Matched)
	}
	if looks != size {
		t.Errorf("%d targets were looked at for 7 pages, want each of %d once", looks, size)
	}
}

func BenchmarkTable(b *testing.B) {
	for _, size := range []int{1000, 100000} {
		x := newTables(b)
		x.build(bigSnapshot(size))
		for name, query := range map[string]string{"first": "", "filter": "q=svc-0999", "rate": "sort=-rate"} {
			b.Run(fmt.Sprintf("%d/%s", size, name), func(b *testing.B) {
				s := newServer(b, testConfig(b), Deps{Table: x.get, Stats: statsOf})
				now := time.Unix(1000, 0)
				s.frames.now = func() time.Time { return now }
				h := s.Handler()
				for b.Loop() {
					now = now.Add(time.Second) // each poll makes a frame
					ask(h, "GET", "/api/table?limit=100&"+query, "")
				}
			})
		}
	}
}

// TestPollingLeaksNothing opens and closes many pages' connections, some in the middle of an answer.
func TestPollingLeaksNothing(t *testing.T) {
	defer goleak.VerifyNone(t)
	x := newTables(t)
	x.build(bigSnapshot(2000))
	s := newServer(t, testConfig(t), Deps{Table: x.get, Stats: statsOf})
	if err := s.Listen(); err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve() }()
	for i := range 60 {
		transport := &http.Transport{}
		client := &http.Client{Transport: transport}
		path := []string{"/api/table?limit=100", "/api/routes", "/routes"}[i%3]
		res, err := client.Get("http://" + s.Addr().String() + path)
		if err != nil {
			t.Fatal(err)
		}
		if i%2 == 0 {
			io.Copy(io.Discard, res.Body)
		}
		res.Body.Close()
		transport.CloseIdleConnections()
	}
	if err := s.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	if err := <-served; err != nil {
		t.Error(err)
	}
}

func TestProblems(t *testing.T) {
	var all []route.Problem
	for i := range 25 {
		all = append(all, route.Problem{
			Origin: route.Origin{Service: fmt.Sprintf("svc-%d", i), Node: "node-1", Instance: "i", Tag: "urlprefix-/x"},
			Text:   "urlprefix-/x", Reason: "option strp: unknown", Hint: "did you mean strip?",
		})
	}
	all[24].Text = strings.Repeat("ü", 1<<20)
	h := newServer(t, testConfig(t), Deps{Problems: func() []route.Problem { return all }}).Handler()
	for query, want := range map[string]string{
		"":                  "25 of 25",
		"limit=10":          "10 of 25",
		"offset=20":         "5 of 25",
		"offset=99":         "0 of 25",
		"q=svc-2+NODE-1":    "6 of 6",
		"q=strip&limit=1":   "1 of 25",
		"q=nothing":         "0 of 0",
		"limit=5000":        "25 of 25",
		"q=svc-7&offset=-1": "400",
		"limit=x":           "400",
	} {
		w := ask(h, "GET", "/api/problems?"+query, "")
		got := fmt.Sprint(w.Code)
		if w.Code == 200 {
			var list []route.Problem
			if err := json.Unmarshal(w.Body.Bytes(), &list); err != nil || list == nil {
				t.Fatalf("?%s: %v %s", query, err, w.Body)
			}
			got = fmt.Sprintf("%d of %s", len(list), w.Header().Get("X-Total-Count"))
		}
		if got != want {
			t.Errorf("?%s = %s, want %s", query, got, want)
		}
	}
	w := ask(h, "GET", "/api/problems?offset=23", "")
	var list []route.Problem
	if err := json.Unmarshal(w.Body.Bytes(), &list); err != nil {
		t.Fatal(err)
	}
	if list[0] != all[23] {
		t.Errorf("problem = %+v, want %+v", list[0], all[23])
	}
	if w.Body.Len() > 10<<10 || !strings.HasSuffix(list[1].Text, "ü…") {
		t.Errorf("a text of 2 MiB became %d bytes", w.Body.Len())
	}
	if got := ask(newServer(t, testConfig(t), Deps{}).Handler(), "GET", "/api/problems", "").Body.String(); got != "[]" {
		t.Errorf("no problems = %s, want []", got)
	}
}

func FuzzQuery(f *testing.F) {
	for _, s := range []string{"", "a b", "host:x", "is:up", "::", "ü:Ü", "tag:"} {
		f.Add(s)
	}
	x := newTables(f)
	x.set("route add web example.com/ http://10.0.0.1/ tags \"a\" opts \"strip=/x\"")
	s, err := New(testConfig(f), Deps{Table: x.get})
	if err != nil {
		f.Fatal(err)
	}
	h := s.Handler()
	f.Fuzz(func(t *testing.T, q string) {
		r := httptest.NewRequest("GET", "/api/table?q="+url.QueryEscape(q), nil)
		r.Host = "localhost"
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != 200 || !json.Valid(w.Body.Bytes()) {
			t.Errorf("q=%q: %d %q", q, w.Code, w.Body)
		}
	})
}
