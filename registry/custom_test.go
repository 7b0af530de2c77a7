package registry

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"varco/route"
)

// customServer serves one answer, which can be changed.
type customServer struct {
	*httptest.Server
	mu     sync.Mutex
	answer func(w http.ResponseWriter, r *http.Request)
}

func newCustomServer(t *testing.T, body string) *customServer {
	s := &customServer{}
	s.set(body)
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		answer := s.answer
		s.mu.Unlock()
		answer(w, r)
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *customServer) set(body string) {
	s.does(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, body) })
}

func (s *customServer) does(answer func(w http.ResponseWriter, r *http.Request)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answer = answer
}

func (s *customServer) open(t *testing.T, flags ...string) Backend {
	t.Helper()
	flags = append([]string{
		"registry.backend=custom", "registry.custom.scheme=http", "registry.custom.host=" + s.Listener.Addr().String(),
		"registry.custom.pollinterval=5ms", "registry.retry=5ms",
	}, flags...)
	b, err := Open(testConfig(t, flags...), testEnv(t))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestCustom(t *testing.T) {
	t.Parallel()
	const one = `{"cmd":"route add","service":"a","src":"Foo.com/P","dst":"http://a/","weight":0.5,"tags":["x","y"],"opts":{"strip":"/P","allow":"ip:::1"}}`
	srv := newCustomServer(t, `[`+one+`, {"cmd":" route  del ","service":"b"}, {"cmd":"route weight","service":"a","src":"/","weight":0.1}]`)
	b := srv.open(t, "registry.custom.path=/v1/routes", "registry.custom.queryparams=key="+canary, "registry.custom.noroutehtml=<p>")
	srv.does(func(answer func(w http.ResponseWriter, r *http.Request)) func(w http.ResponseWriter, r *http.Request) {
		return func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/v1/routes" || r.URL.RawQuery != "key="+canary || r.Method != http.MethodGet {
				w.WriteHeader(404)
				return
			}
			answer(w, r)
		}
	}(srv.answer))
	w := backendWatch(t, b)
	s := w.wantServices("a b a")
	var got []string
	for _, c := range s.Overrides {
		got = append(got, c.String())
		if strings.Contains(c.Origin.Source, canary) {
			t.Errorf("the query is in the origin: %v", c.Origin)
		}
	}
	want := []string{`route add a foo.com/P http://a/ weight 0.5 tags "x,y" opts "allow=ip:::1 strip=/P"`, `route del b`, `route weight a / weight 0.1`}
	if !slices.Equal(got, want) || s.NoRoute != "<p>" || len(s.Problems) != 0 {
		t.Errorf("commands %q, want %q; page %q, problems %v", got, want, s.NoRoute, s.Problems)
	}
	srv.set(`[]`)
	w.wantServices("")
}

func TestCustomBadEntryCostsItself(t *testing.T) {
	t.Parallel()
	good := `{"cmd":"route add","service":"good","src":"/","dst":"http://a/"}`
	for _, c := range []struct {
		entry, reason string
		known         bool
	}{
		{`{"cmd":"route foo","service":"a"}`, `invalid command "route foo": want route add, route del or route weight`, false},
		{`{}`, "invalid command", false},
		{`null`, "invalid command", false},
		{`7`, "cannot unmarshal", false},
		{`{"cmd":"route add","service":"a","src":"/","dst":"http://a/","weight":"1"}`, "cannot unmarshal", false},
		{`{"cmd":"route add","service":"a b","src":"/","dst":"http://a/"}`, "white space", true},
		{`{"cmd":"route add","service":"a","src":"/x\nroute add evil","dst":"http://a/"}`, "white space", false},
		{`{"cmd":"route add","service":"a","dst":"http://a/"}`, "missing", false},
		{`{"cmd":"route add","service":"a","src":"/"}`, "missing", true},
		{`{"cmd":"route add","service":"a","src":"/","dst":"ftp://a/"}`, "scheme", true},
		{`{"cmd":"route add","service":"a","src":"/","dst":"http://a/","opts":{"host":"a\r\nb"}}`, "control character", true},
		{`{"cmd":"route add","service":"a","src":"/","dst":"http://a/","tags":["a\u0000"]}`, "control character", true},
		{`{"cmd":"route del"}`, "missing", false},
	} {
		srv := newCustomServer(t, `[`+c.entry+`,`+good+`]`)
		b := srv.open(t)
		s := backendWatch(t, b).until("the good one", func(s route.Snapshot) bool { return strings.HasSuffix(services(s), "good") })
		if len(s.Problems) != 1 || !strings.Contains(s.Problems[0].Reason, c.reason) || s.Problems[0].Origin.Line != 1 || s.Problems[0].Text == "" {
			t.Errorf("%s: problems %+v, want one with %q", c.entry, s.Problems, c.reason)
		}
		if known := len(s.Overrides) == 2 && s.Overrides[0].Down; known != c.known || s.Overrides[len(s.Overrides)-1].Down {
			t.Errorf("%s: commands %+v, want the route known: %v", c.entry, s.Overrides, c.known)
		}
		srv.Close()
	}
}

func TestCustomFailureKeepsTheOldRoutes(t *testing.T) {
	t.Parallel()
	good := `[{"cmd":"route add","service":"a","src":"/","dst":"http://a/"}]`
	for name, fault := range map[string]func(w http.ResponseWriter, r *http.Request){
		"500":      func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(500); fmt.Fprint(w, "[]") },
		"204":      func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(204) },
		"redirect": func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/other", http.StatusFound) },
		"garbage":  func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "<html>") },
		"null":     func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "null") },
		"object":   func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "{}") },
		"more":     func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, good+"x") },
		"cut":      func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, good[:20]) },
		"too long": func(w http.ResponseWriter, r *http.Request) { endless(w) },
		"hang":     func(w http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
		"gone":     func(w http.ResponseWriter, r *http.Request) { panic(http.ErrAbortHandler) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := newCustomServer(t, good)
			timeout := "registry.custom.timeout=5s"
			if name == "hang" {
				timeout = "registry.custom.timeout=50ms"
			}
			b := srv.open(t, timeout, "registry.custom.queryparams="+canary)
			b.(*custom).limit = 1 << 16
			w := backendWatch(t, b)
			w.wantServices("a")
			srv.does(fault)
			s := w.until("a problem", func(s route.Snapshot) bool { return len(s.Problems) > 0 })
			if services(s) != "a" || len(s.Problems) != 1 || strings.Contains(s.Problems[0].Error(), canary) {
				t.Errorf("services %q, problems %v, want the old service and one problem", services(s), s.Problems)
			}
			if err := b.(Troubled).Trouble(); err == nil || strings.Contains(err.Error(), canary) {
				t.Errorf("Trouble() = %v", err)
			}
			srv.set(good)
			s = w.until("no problem", func(s route.Snapshot) bool { return len(s.Problems) == 0 })
			if services(s) != "a" {
				t.Errorf("services %q", services(s))
			}
		})
	}
}

// Until the first good answer there is no Snapshot at all.
func TestCustomWaitsForAGoodAnswer(t *testing.T) {
	t.Parallel()
	srv := newCustomServer(t, "starting")
	asked := make(chan bool, 1000)
	srv.does(func(w http.ResponseWriter, r *http.Request) {
		asked <- true
		w.WriteHeader(503)
	})
	w := backendWatch(t, srv.open(t))
	for range 3 {
		<-asked
	}
	if len(w.got) > 0 {
		t.Fatalf("Snapshot %+v without an answer", <-w.got)
	}
	srv.set(`[{"cmd":"route add","service":"a","src":"/","dst":"http://a/"}]`)
	w.wantServices("a")
}
