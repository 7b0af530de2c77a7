package integration

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

func TestOverridesAreObeyed(t *testing.T) {
	t.Parallel()
	v := start(t, nil)
	a, b, extra := newOrigin(t, "a"), newOrigin(t, "b"), newOrigin(t, "extra")
	shared.consul.register(t, v.name+"-a", a, v.prefix+"/web")
	shared.consul.register(t, v.name+"-b", b, v.prefix+"/web")
	v.reaches(5*time.Second, "/web", "a", "b")

	shared.consul.put(t, v.kvpath, fmt.Sprintf("route del %s-a /web", v.name))
	v.reaches(time.Second, "/web", "b")

	shared.consul.put(t, v.kvpath, fmt.Sprintf("# a canary\nroute weight %s-b /web weight 0.1", v.name))
	v.routed("weight 0.1000")
	before := b.hits.Load()
	for range 100 {
		v.get("/web")
	}
	if n := b.hits.Load() - before; n < 9 || n > 11 {
		t.Errorf("%d of 100 requests reached the target with weight 0.1", n)
	}

	// A second key below the path is read too.
	shared.consul.put(t, v.kvpath+"/more", fmt.Sprintf("route add extra /extra %s opts \"strip=/extra\"", extra.url()))
	v.reaches(time.Second, "/extra", "extra")
	if got := v.get("/extra/x").echo(t).URI; got != "/x" {
		t.Errorf("GET /extra/x with strip=/extra reaches %s, want /x", got)
	}

	shared.consul.delete(t, v.kvpath)
	shared.consul.delete(t, v.kvpath+"/more")
	v.answers(2*time.Second, "/extra", http.StatusNotFound)
	v.reaches(time.Second, "/web", "a", "b")
}

func TestNonsenseInOverridesCostsOnlyItself(t *testing.T) {
	t.Parallel()
	v := start(t, nil)
	shared.consul.register(t, v.name+"-web", newOrigin(t, "a"), v.prefix+"/web")
	v.reaches(5*time.Second, "/web", "a")

	good := newOrigin(t, "good")
	shared.consul.put(t, v.kvpath, fmt.Sprintf("route add first /first %[1]s\n"+
		"route ad nonsense /x http://127.0.0.1:1/\n"+
		"route add broken /y http://127.0.0.1:1/ weight much\n"+
		"route weight nosuch /nowhere weight 0.5\n"+
		"route add last /last %[1]s\n", good.url()))
	v.reaches(2*time.Second, "/first", "good")
	v.reaches(time.Second, "/last", "good")
	v.reaches(time.Second, "/web", "a")

	p := v.problemWith("route ad nonsense")
	if p.Origin.Line != 2 || p.Origin.Column == 0 || p.Reason == "" || !strings.Contains(p.Origin.Source, strings.Trim(v.kvpath, "/")) {
		t.Errorf("problem of line 2: %+v, want its line, a column, a reason and the key", p)
	}
	if p := v.problemWith("weight much"); p.Origin.Line != 3 {
		t.Errorf("problem of line 3: %+v", p)
	}

	// Services go on changing.
	i := shared.consul.register(t, v.name+"-later", newOrigin(t, "b"), v.prefix+"/later")
	v.reaches(time.Second, "/later", "b")
	i.deregister()
	v.answers(time.Second, "/later", http.StatusNotFound)
}

func TestNoRoutePageComesFromKV(t *testing.T) {
	t.Parallel()
	v := start(t, flags{"proxy.noroutestatus": "404"})
	v.answers(time.Second, "/nowhere", http.StatusNotFound)
	shared.consul.put(t, v.noPage, "<h1>nothing here</h1>")
	eventually(t, 2*time.Second, "the page is shown", func() error {
		r := v.get("/nowhere")
		if r.status != http.StatusNotFound || r.body != "<h1>nothing here</h1>" {
			return fmt.Errorf("%d %q", r.status, r.body)
		}
		if ct := r.header.Get("Content-Type"); !strings.HasPrefix(ct, "text/html") {
			return fmt.Errorf("Content-Type %q", ct)
		}
		return nil
	})
	shared.consul.delete(t, v.noPage)
	eventually(t, 2*time.Second, "the page is gone", func() error {
		if r := v.get("/nowhere"); strings.Contains(r.body, "nothing here") {
			return fmt.Errorf("%q", r.body)
		}
		return nil
	})
}

// manual is the body of /api/manual.
type manual struct {
	Value   string `json:"value"`
	Version string `json:"version"`
}

func TestOverridesThroughTheAPI(t *testing.T) {
	t.Parallel()
	v := start(t, nil)
	o := newOrigin(t, "a")
	read := func() manual {
		t.Helper()
		var m manual
		if err := json.Unmarshal([]byte(v.api("/api/manual")), &m); err != nil {
			t.Fatal(err)
		}
		return m
	}
	write := func(m manual, header ...string) reply {
		t.Helper()
		body, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		r, err := v.send(v.ui, "PUT", "/api/manual", string(body), append(header, "Content-Type", "application/json")...)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}

	empty := read()
	if empty.Value != "" {
		t.Fatalf("overrides before any: %+v", empty)
	}
	good := "route add manual /manual " + o.url()
	if r := write(manual{"route ad nonsense", empty.Version}); r.status != http.StatusBadRequest && r.status != http.StatusUnprocessableEntity {
		t.Errorf("PUT of a bad line: %d %s, want it refused", r.status, r.body)
	}
	if r := write(manual{good + "\n" + good + " weight much", empty.Version}); r.status < 400 || !strings.Contains(r.body, "2") {
		t.Errorf("PUT with a bad second line: %d %s, want its place", r.status, r.body)
	}
	if m := read(); m.Value != "" {
		t.Fatalf("a refused text was saved: %+v", m)
	}
	if r := write(manual{good, empty.Version}, "Origin", "http://evil.example", "Sec-Fetch-Site", "cross-site"); r.status != http.StatusForbidden {
		t.Errorf("PUT from another site: %d, want 403", r.status)
	}
	if r := write(manual{good, empty.Version}); r.status != http.StatusOK {
		t.Fatalf("PUT: %d %s", r.status, r.body)
	}
	v.reaches(2*time.Second, "/manual", "a")
	saved := read()
	if saved.Value != good {
		t.Errorf("saved %+v, want %q", saved, good)
	}
	if r := write(manual{good + "\n# lost update", empty.Version}); r.status != http.StatusConflict {
		t.Errorf("PUT with an old version: %d, want 409", r.status)
	}
	if r, err := v.ask("DELETE", "/api/manual?version="+empty.Version); err != nil || r.status != http.StatusConflict {
		t.Errorf("DELETE with an old version: %d %s %v, want 409", r.status, r.body, err)
	}
	if r, err := v.ask("DELETE", "/api/manual?version="+saved.Version); err != nil || r.status >= 300 {
		t.Errorf("DELETE: %d %s %v", r.status, r.body, err)
	}
	v.answers(2*time.Second, "/manual", http.StatusNotFound)

	if r, err := v.ask("GET", "/api/manual", "Host", "evil.example"); err != nil || r.status < 400 {
		t.Errorf("request with a foreign Host: %d, want it refused", r.status)
	}
}

func TestReadOnlyAdminRefusesOverrides(t *testing.T) {
	t.Parallel()
	v := start(t, flags{"ui.access": "ro"})
	for _, path := range []string{"/api/paths", "/api/manual"} {
		if r, err := v.ask("GET", path); err != nil || r.status != http.StatusForbidden {
			t.Errorf("GET %s: %d %v, want 403", path, r.status, err)
		}
	}
	r, err := v.send(v.ui, "PUT", "/api/manual", `{"value":"","version":"0"}`, "Content-Type", "application/json")
	if err != nil || r.status != http.StatusForbidden {
		t.Errorf("PUT /api/manual: %d %v, want 403", r.status, err)
	}
	v.api("/api/routes")
}
