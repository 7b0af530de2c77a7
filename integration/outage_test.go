package integration

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

// TestListenersWaitForTheFirstCompleteTable holds back or fails one kind of query after the other: while it lasts,
// nothing is served; after it, the very first answer is right.
func TestListenersWaitForTheFirstCompleteTable(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		rule func(service string) *rule
	}{
		{"health is slow", func(string) *rule { return hold(aboutHealth) }},
		{"one catalog query is slow", func(s string) *rule { return hold(aboutService(s)) }},
		{"one catalog query fails", func(s string) *rule { return fail(500, aboutService(s)) }},
		{"overrides are slow", func(string) *rule { return hold(aboutKV) }},
		{"overrides fail", func(string) *rule { return fail(500, aboutKV) }},
		{"Consul answers 403", func(string) *rule { return fail(403, anyRequest) }},
		{"Consul is slow", func(string) *rule { return hold(anyRequest) }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			f := settings(t)
			faulty := newFaulty(t, shared.consul)
			f["registry.consul.addr"] = faulty.addr
			prefix := f["registry.consul.tagprefix"]
			service := strings.TrimSuffix(prefix, "-") + "-web"
			shared.consul.register(t, service+"0", newOrigin(t, "other"), prefix+"/other")
			shared.consul.register(t, service, newOrigin(t, "a"), prefix+"/web")
			shared.consul.put(t, f["registry.consul.kvpath"], "route add manual /manual "+newOrigin(t, "m").url())
			rule := tt.rule(service)
			faulty.set(rule)

			v := launchVarco(t, f)
			eventually(t, 10*time.Second, "varco asks Consul", func() error {
				if len(faulty.requests()) == 0 {
					return fmt.Errorf("no request")
				}
				return nil
			})
			throughout(t, time.Second, "nothing listens before the first table", func() error {
				if v.listening() == nil {
					return fmt.Errorf("the listener is open; requests: %v", faulty.requests())
				}
				if r, err := v.ask("GET", "/health"); err == nil && r.status == http.StatusOK {
					return fmt.Errorf("/health says OK")
				}
				return nil
			})

			faulty.set()
			if rule.until != nil {
				close(rule.until)
			}
			v.listens(15 * time.Second)
			for _, path := range []string{"/web", "/other", "/manual"} {
				if r := v.get(path); r.status != http.StatusOK {
					t.Errorf("GET %s as soon as it listens: %d", path, r.status)
				}
			}
		})
	}
}

// TestFailingCatalogQueryKeepsGoodRoutes: when the instances of one service can't be read, this service keeps those it
// had, and every other service goes on changing.
func TestFailingCatalogQueryKeepsGoodRoutes(t *testing.T) {
	t.Parallel()
	f := settings(t)
	faulty := newFaulty(t, shared.consul)
	f["registry.consul.addr"] = faulty.addr
	v := launchVarco(t, f)
	v.serving()
	web, other := v.name+"-web", v.name+"-other"
	shared.consul.register(t, web, newOrigin(t, "a"), v.prefix+"/web")
	shared.consul.register(t, web, newOrigin(t, "b"), v.prefix+"/web")
	v.reaches(5*time.Second, "/web", "a", "b")

	for _, broken := range []*rule{fail(500, aboutService(web)), hold(aboutService(web))} {
		faulty.set(broken)
		c := newOrigin(t, fmt.Sprintf("c%d", broken.status))
		shared.consul.register(t, web, c, v.prefix+"/web")
		eventually(t, 5*time.Second, "varco asks for the service", func() error {
			last := faulty.requests()
			for _, r := range last[max(0, len(last)-5):] {
				if strings.Contains(r, "/"+web) {
					return nil
				}
			}
			return fmt.Errorf("requests: %v", last)
		})
		throughout(t, 500*time.Millisecond, "the service keeps its routes", func() error {
			for range 2 {
				if r := v.get("/web"); r.status != http.StatusOK {
					return fmt.Errorf("GET /web: %d %s", r.status, r.body)
				}
			}
			return nil
		})
		if broken.status != 0 {
			i := shared.consul.register(t, other, newOrigin(t, "other"), v.prefix+"/other")
			v.reaches(2*time.Second, "/other", "other")
			i.status("critical")
			v.answers(2*time.Second, "/other", http.StatusServiceUnavailable)
			i.deregister()
			v.answers(2*time.Second, "/other", http.StatusNotFound)
		}

		faulty.set()
		if broken.until != nil {
			close(broken.until)
		}
		eventually(t, 12*time.Second, "the new instance is reached", func() error {
			for range 4 {
				v.get("/web")
			}
			if c.hits.Load() == 0 {
				return fmt.Errorf("table:\n%s", v.table())
			}
			return nil
		})
	}
}

// TestRefusedConsulKeepsRoutes: errors of every kind in place of every answer, for some time, lose nothing.
func TestRefusedConsulKeepsRoutes(t *testing.T) {
	t.Parallel()
	for _, status := range []int{403, 429, 500, 503} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			t.Parallel()
			f := settings(t)
			faulty := newFaulty(t, shared.consul)
			f["registry.consul.addr"] = faulty.addr
			v := launchVarco(t, f)
			v.serving()
			i := shared.consul.register(t, v.name+"-web", newOrigin(t, "a"), v.prefix+"/web")
			v.reaches(5*time.Second, "/web", "a")
			faulty.set(fail(status, anyRequest))
			before := len(faulty.requests())
			i.addCheck("-wake", "passing") // the parked query answers now, and the next ones fail
			throughout(t, 1500*time.Millisecond, "the route stays", func() error {
				if r := v.get("/web"); r.status != http.StatusOK {
					return fmt.Errorf("GET /web: %d", r.status)
				}
				return nil
			})
			if n := len(faulty.requests()) - before; n > 40 {
				t.Errorf("%d requests to a Consul that answers %d, want a pause between them", n, status)
			}
			faulty.set()
			shared.consul.register(t, v.name+"-web", newOrigin(t, "b"), v.prefix+"/web")
			v.reaches(15*time.Second, "/web", "a", "b")
		})
	}
}

// TestEmptyAnswerIsNotBelieved: an answer that makes everything vanish is asked for a second time; and one that says
// that it was filtered by ACLs is no answer at all.
func TestEmptyAnswerIsNotBelieved(t *testing.T) {
	t.Parallel()
	filtered := http.Header{"X-Consul-Results-Filtered-By-Acls": {"true"}}
	for _, tt := range []struct {
		name string
		rule func() *rule
	}{
		{"empty once", func() *rule { r := empty(aboutHealth, nil); r.times = 1; return r }},
		{"empty once with a lower index", func() *rule {
			r := empty(aboutHealth, http.Header{"X-Consul-Index": {"1"}})
			r.times = 1
			return r
		}},
		{"filtered by ACLs", func() *rule { return empty(aboutHealth, filtered) }},
		{"catalog filtered by ACLs", func() *rule { return empty(aboutService(""), filtered) }},
		{"garbage", func() *rule { r := empty(anyRequest, nil); r.body = "\x00\xff{]"; return r }},
		{"index 0", func() *rule { return empty(anyRequest, http.Header{"X-Consul-Index": {"0"}}) }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			f := settings(t)
			faulty := newFaulty(t, shared.consul)
			f["registry.consul.addr"] = faulty.addr
			v := launchVarco(t, f)
			v.serving()
			a := shared.consul.register(t, v.name+"-web", newOrigin(t, "a"), v.prefix+"/web")
			shared.consul.register(t, v.name+"-other", newOrigin(t, "other"), v.prefix+"/other")
			v.reaches(5*time.Second, "/web", "a")
			v.reaches(5*time.Second, "/other", "other")
			before := faulty.count(aboutHealth)
			faulty.set(tt.rule())
			a.addCheck("-wake", "passing")
			throughout(t, 1500*time.Millisecond, "the routes stay", func() error {
				for _, path := range []string{"/web", "/other"} {
					if r := v.get(path); r.status != http.StatusOK {
						return fmt.Errorf("GET %s: %d", path, r.status)
					}
				}
				return nil
			})
			if n := faulty.count(aboutHealth) - before; n > 30 {
				t.Errorf("%d queries in 1.5 s, want pauses", n)
			}
			faulty.set()
			shared.consul.register(t, v.name+"-web", newOrigin(t, "b"), v.prefix+"/web")
			v.reaches(15*time.Second, "/web", "a", "b")
		})
	}
}

// TestConsulKilledAndBack kills an agent that keeps its data for a few seconds, under steady requests.
func TestConsulKilledAndBack(t *testing.T) {
	t.Parallel()
	a := ownAgent(t, t.TempDir())
	f := settings(t).with(flags{"registry.consul.addr": a.addr})
	v := launchVarco(t, f)
	v.serving()
	web := a.register(t, v.name+"-web", newOrigin(t, "a"), v.prefix+"/web")
	other := a.register(t, v.name+"-web", newOrigin(t, "b"), v.prefix+"/web")
	// An agent keeps the state of a check that was reported; one that never was is critical after a restart.
	web.status("passing")
	other.status("passing")
	a.put(t, v.kvpath, "route add manual /manual "+newOrigin(t, "m").url())
	v.reaches(5*time.Second, "/web", "a", "b")
	v.reaches(5*time.Second, "/manual", "m")

	steady := func(span time.Duration) {
		t.Helper()
		throughout(t, span, "no route is lost", func() error {
			for _, path := range []string{"/web", "/web", "/manual"} {
				if r := v.get(path); r.status != http.StatusOK {
					return fmt.Errorf("GET %s: %d %s", path, r.status, r.body)
				}
			}
			return nil
		})
	}
	a.stop()
	steady(3 * time.Second)
	restarted := make(chan error, 1)
	go func() { restarted <- a.start() }()
	steady(3 * time.Second)
	if err := <-restarted; err != nil {
		t.Fatal(err)
	}
	web.status("critical")
	took := v.reaches(15*time.Second, "/web", "b")
	t.Logf("news after the agent is back: %v", took)
	web.status("passing")
	v.reaches(2*time.Second, "/web", "a", "b")
}

// TestConsulThatForgot starts an agent anew without its data: the indexes that varco knows are from another life. The
// new truth must be seen soon all the same, not when the parked query of the old life times out.
func TestConsulThatForgot(t *testing.T) {
	t.Parallel()
	a := ownAgent(t, "")
	f := settings(t).with(flags{"registry.consul.addr": a.addr})
	v := launchVarco(t, f)
	v.serving()
	o := newOrigin(t, "a")
	for n := range 20 { // drives the index up, well above where the new agent begins
		a.put(t, fmt.Sprintf("/filler/%d", n), "x")
	}
	i := a.register(t, v.name+"-web", o, v.prefix+"/web")
	i.addCheck("-second", "passing")
	v.reaches(5*time.Second, "/web", "a")
	a.stop()
	if err := a.start(); err != nil {
		t.Fatal(err)
	}
	a.register(t, v.name+"-web", o, v.prefix+"/web")
	a.register(t, v.name+"-new", newOrigin(t, "new"), v.prefix+"/new")
	took := v.reaches(15*time.Second, "/new", "new")
	t.Logf("the new truth is applied %v after it is there", took)
	v.reaches(time.Second, "/web", "a")
	a.put(t, v.kvpath, "route add manual /manual "+newOrigin(t, "m").url())
	v.reaches(15*time.Second, "/manual", "m")
}
