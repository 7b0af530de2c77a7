package admin

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"varco/route"
)

// hostile are texts that a service's name, tags and addresses may hold.
var hostile = []string{
	`<img src=x onerror=alert(1)>`,
	`</script><script>alert(1)</script>`,
	`"'><svg/onload=alert(1)>`,
	`javascript:alert(1)`,
	`{{constructor.constructor('alert(1)')()}}`,
	"\u2028\u2029\u202e\u0000\x1b[31m\r\nX-Header: 1",
	`__proto__`,
	"\xff\xfe not UTF-8",
}

func TestRoutesLikeFabio(t *testing.T) {
	x := newTables(t)
	x.set(`
route add web example.com/shop http://10.0.0.1:8080/ weight 0.25 tags "a,b" opts "strip=/shop allow=ip:10.0.0.0/8"
route add web example.com/shop http://10.0.0.2:8080/
route add db :3306 tcp://10.0.0.3:3306
route add all / http://10.0.0.4/
`)
	*x.stat("http://10.0.0.1:8080/") = Stat{Requests: 10, P99: 1500 * time.Microsecond}
	h := newServer(t, testConfig(t), Deps{Table: x.get, Stats: statsOf}).Handler()
	want := `[{"service":"all","host":"","path":"/","src":"/","dst":"http://10.0.0.4/","opts":"","cmd":"route add","weight":1,"rate1":0,"pct99":0},` +
		`{"service":"db","host":":3306","path":"","src":":3306","dst":"tcp://10.0.0.3:3306","opts":"","cmd":"route add","weight":1,"rate1":0,"pct99":0},` +
		`{"service":"web","host":"example.com","path":"/shop","src":"example.com/shop","dst":"http://10.0.0.1:8080/","opts":"allow=ip:10.0.0.0/8 strip=/shop","cmd":"route add","tags":["a","b"],"weight":0.25,"rate1":0,"pct99":1500000},` +
		`{"service":"web","host":"example.com","path":"/shop","src":"example.com/shop","dst":"http://10.0.0.2:8080/","opts":"","cmd":"route add","weight":0.75,"rate1":0,"pct99":0}]`
	w := ask(h, "GET", "/api/routes", "")
	if got := w.Body.String(); got != want {
		t.Errorf("/api/routes =\n%s\nwant\n%s", got, want)
	}
	if got := w.Header().Get("Content-Type"); got != "application/json; charset=utf-8" {
		t.Errorf("Content-Type = %q", got)
	}

	var pretty bytes.Buffer
	if err := json.Indent(&pretty, []byte(want), "", "    "); err != nil {
		t.Fatal(err)
	}
	if got := ask(h, "GET", "/api/routes?pretty", "").Body.String(); got != pretty.String() {
		t.Errorf("?pretty =\n%s\nwant\n%s", got, pretty.String())
	}

	w = ask(h, "GET", "/api/routes?raw", "")
	if got, want := w.Body.String(), x.get().String()+"\n"; got != want {
		t.Errorf("?raw =\n%s\nwant\n%s", got, want)
	}
	if got := w.Header().Get("Content-Type"); !strings.HasPrefix(got, "text/plain") {
		t.Errorf("?raw: Content-Type = %q", got)
	}
}

func TestNoRoutesAreNull(t *testing.T) {
	empty := newTables(t)
	empty.set("")
	for name, table := range map[string]func() *route.Table{
		"no function": nil,
		"no table":    func() *route.Table { return nil },
		"empty":       empty.get,
	} {
		h := newServer(t, testConfig(t), Deps{Table: table}).Handler()
		for _, path := range []string{"/api/routes", "/api/routes?pretty"} {
			if w := ask(h, "GET", path, ""); w.Code != 200 || w.Body.String() != "null" {
				t.Errorf("%s: %s = %d %q, want null", name, path, w.Code, w.Body)
			}
		}
		if w := ask(h, "GET", "/api/routes?raw", ""); w.Code != 200 || w.Body.String() != "\n" {
			t.Errorf("%s: ?raw = %d %q, want an empty line", name, w.Code, w.Body)
		}
		if w := ask(h, "GET", "/api/table", ""); w.Code != 200 || !strings.Contains(w.Body.String(), `"rows":[]`) {
			t.Errorf("%s: /api/table = %d %q, want no rows", name, w.Code, w.Body)
		}
	}
}

// hostileSnapshot has each hostile text in every place of a command that will have it.
func hostileSnapshot() route.Snapshot {
	var s route.Snapshot
	for i, text := range hostile {
		o := route.Origin{Service: text, Node: text, Instance: text, Tag: text, Source: text}
		s.Services = append(s.Services, route.Service{Name: fmt.Sprint(i), Commands: []route.Command{{
			Verb: route.Add, Service: fmt.Sprintf("svc-%d", i), Src: fmt.Sprintf("evil-%d.test/", i), Dst: fmt.Sprintf("http://10.0.0.1:%d/", i+1),
			Tags: []string{text}, Opts: route.NewOptions(map[string]string{text: text}), Origin: o,
		}}})
		s.Problems = append(s.Problems, route.Problem{Origin: o, Text: text, Reason: text, Hint: text})
	}
	return s
}

// TestHostileTextIsInert wants JSON that says what was registered, and nothing a browser would take for markup.
func TestHostileTextIsInert(t *testing.T) {
	x := newTables(t)
	s := hostileSnapshot()
	x.build(s)
	h := newServer(t, testConfig(t, func(c *Config) { c.Title = hostile[1] }), Deps{
		Table: x.get, Stats: statsOf, Version: hostile[0],
		Problems: func() []route.Problem { return s.Problems },
		Config:   func() []Setting { return []Setting{{hostile[0], hostile[1], hostile[2], hostile[3]}} },
		Options:  []Help{{hostile[0], hostile[1], hostile[2]}},
	}).Handler()
	for _, path := range []string{"/api/routes", "/api/routes?pretty", "/api/table", "/api/table?q=" + "%3Cimg", "/api/problems", "/api/config", "/api/info", "/routes", "/api/table?sort=%3Cimg", "/api/table?limit=%3Cimg"} {
		w := ask(h, "GET", path, "")
		body := w.Body.String()
		for _, bad := range []string{"<img src=x", "<script>alert", "<svg/", "</script><script>", "\u2028", "\x1b", "\x00"} {
			if strings.Contains(body, bad) {
				t.Errorf("%s: the answer contains %q", path, bad)
			}
		}
		if strings.HasPrefix(path, "/api/") {
			if got := w.Header().Get("Content-Type"); got != "application/json; charset=utf-8" {
				t.Errorf("%s: Content-Type = %q, want JSON", path, got)
			}
			if !json.Valid(w.Body.Bytes()) {
				t.Errorf("%s: not JSON: %q", path, body)
			}
		}
	}
	// Text answers are text whatever they hold.
	for _, path := range []string{"/api/routes?raw", "/api/version", "/api/manual/%3Cimg%3E//"} {
		if got := ask(h, "GET", path, "").Header().Get("Content-Type"); !strings.HasPrefix(got, "text/plain") {
			t.Errorf("%s: Content-Type = %q, want text/plain", path, got)
		}
	}
	var p tablePage
	if err := json.Unmarshal(ask(h, "GET", "/api/table", "").Body.Bytes(), &p); err != nil {
		t.Fatal(err)
	}
	if p.Rows[0].Opts[0] != [2]string{hostile[0], hostile[0]} || p.Rows[0].Tags[0] != hostile[0] {
		t.Errorf("row = %+v, want the text as it was registered", p.Rows[0])
	}
}

// TestRoutesAreStreamed writes a big table to a reader that takes little, and counts what is held in between.
func TestRoutesAreStreamed(t *testing.T) {
	x := newTables(t)
	x.build(bigSnapshot(8000))
	s := newServer(t, testConfig(t), Deps{Table: x.get, Stats: statsOf})
	var sizes sizeWriter
	if err := writeRoutes(bufio.NewWriterSize(&sizes, 64<<10), s.frames.current(), false); err != nil {
		t.Fatal(err)
	}
	if sizes.largest > 64<<10 || sizes.total < 1<<20 {
		t.Errorf("largest write = %d of %d bytes, want at most 64 KiB", sizes.largest, sizes.total)
	}
}

type sizeWriter struct{ largest, total int }

func (w *sizeWriter) Write(p []byte) (int, error) {
	w.largest, w.total = max(w.largest, len(p)), w.total+len(p)
	return len(p), nil
}

// bigSnapshot has n targets, four to a route.
func bigSnapshot(n int) route.Snapshot {
	var s route.Snapshot
	for i := 0; i < n; i += 4 {
		name := fmt.Sprintf("svc-%06d", i)
		svc := route.Service{Name: name}
		for j := i; j < min(i+4, n); j++ {
			svc.Commands = append(svc.Commands, route.Command{
				Verb: route.Add, Service: name, Src: fmt.Sprintf("h%d.example.com/%s", i%5000, name),
				Dst: fmt.Sprintf("http://10.%d.%d.%d:8080/", j>>16&255, j>>8&255, j&255), Tags: []string{"prod"},
				Origin: route.Origin{Service: name, Node: fmt.Sprintf("node-%d", j%97)},
			})
		}
		s.Services = append(s.Services, svc)
	}
	return s
}

func TestStreamEndsWithTheClient(t *testing.T) {
	x := newTables(t)
	x.build(bigSnapshot(100))
	fr := newServer(t, testConfig(t), Deps{Table: x.get}).frames.current()
	if err := writeRoutes(bufio.NewWriterSize(goneWriter{}, 16), fr, false); err == nil {
		t.Error("writeRoutes to a client that is gone = nil, want its error")
	}
}

type goneWriter struct{}

func (goneWriter) Write([]byte) (int, error) { return 0, http.ErrHandlerTimeout }
