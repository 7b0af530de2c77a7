package registry

import (
	"context"
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"varco/route"
)

const (
	webA     = `route add web /web http://10.0.0.1:8001/`
	webB     = `route add web /web http://10.0.0.2:8002/`
	downA    = "# down: " + webA
	downB    = "# down: " + webB
	dbRoute  = `route add db :3306 tcp://10.0.0.3:3306`
	settled  = time.Second // more than any pause of a healthy watch
	aService = "GET /v1/catalog/service/"
)

// twoServices has web on two nodes, db on one, and one that is not routed.
func twoServices() *fake {
	f := newFake()
	f.register("n1", "web-1", "10.0.0.1", 8001, "urlprefix-/web")
	f.register("n2", "web-1", "10.0.0.2", 8002, "urlprefix-/web")
	f.register("n1", "db-1", "10.0.0.3", 3306, "urlprefix-:3306 proto=tcp")
	f.register("n1", "other-1", "10.0.0.4", 80, "v1")
	return f
}

func TestFirstSnapshotIsComplete(t *testing.T) {
	for _, late := range []string{"/v1/health/", "/v1/catalog/service/db", "/v1/kv/fabio/config", "/v1/kv/fabio/noroute"} {
		t.Run(late, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := twoServices()
				f.put("fabio/config", "route del db")
				f.put("fabio/noroute.html", "<p>none")
				f.faults(func(w http.ResponseWriter, r *http.Request) bool {
					if strings.HasPrefix(r.URL.Path, late) {
						time.Sleep(5 * time.Second)
					}
					return false
				})
				w := watch(t, f)
				if n := w.updates(4 * time.Second); n != 0 {
					t.Fatalf("%d updates although %s is not known", n, late)
				}
				if n := w.updates(2 * time.Second); n != 1 {
					t.Fatalf("%d updates, want the first", n)
				}
				w.want(dbRoute, webB, webA, "override: route del db")
				if s := w.last(); s.NoRoute != "<p>none" || s.Services[0].Name != "db" || s.Services[1].Name != "web" {
					t.Errorf("snapshot %+v", s)
				}
			})
		})
	}
}

func TestFlipCostsTwoRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := twoServices()
		w := watch(t, f)
		w.updates(settled)
		f.requests("")
		for i, c := range []struct{ status, web1 string }{{"critical", downA}, {"passing", webA}, {"warning", downA}, {"passing", webA}} {
			f.status("n1", "web-1", c.status)
			if n := w.updates(settled); n != 1 {
				t.Errorf("flip %d: %d updates, want 1", i, n)
			}
			w.want(dbRoute, webB, c.web1)
			if n := f.requests(aService); n != 1 {
				t.Errorf("flip %d: %d catalog queries, want 1", i, n)
			}
			if n := f.requests(""); n != 1 { // the next long poll
				t.Errorf("flip %d: %d other requests, want 1", i, n)
			}
		}
		f.status("n1", "web-1", "warning")
		w.updates(settled)
		f.requests("")
		f.status("n1", "web-1", "critical") // as bad as before
		if n := w.updates(settled); n != 0 || f.requests(aService) != 0 {
			t.Errorf("from warning to critical: %d updates or a catalog query, want none", n)
		}
	})
}

func TestInstanceLeavesWithinASecondThoughLookupsHang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := twoServices()
		w := watch(t, f)
		w.updates(settled)
		f.faults(func(w http.ResponseWriter, r *http.Request) bool {
			if strings.HasPrefix(r.URL.Path, "/v1/catalog/service/") {
				<-r.Context().Done()
			}
			return false
		})
		f.status("n1", "web-1", "critical")
		if n := w.updates(settled); n != 1 {
			t.Errorf("%d updates, want 1", n)
		}
		w.want(dbRoute, webB, downA)
		f.faults(nil)
	})
}

func TestIrrelevantChangesDoNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := twoServices()
		w := watch(t, f, "registry.consul.refresh=0")
		w.updates(settled)
		f.requests("")
		for name, change := range map[string]func(){
			"unrouted service fails": func() { f.status("n1", "other-1", "critical") },
			"unrouted service comes": func() { f.register("n5", "other-2", "10.0.0.9", 1, "v1") },
			"unrouted service goes":  func() { f.deregister("n5", "other-2") },
			"output of a check": func() {
				f.change(func(i uint64) { f.checksAt = i; f.checks[0].Output, f.checks[0].ModifyIndex = "new", i })
			},
			"check of a node": func() {
				f.change(func(i uint64) {
					f.checksAt = i
					f.checks = append(f.checks, check{Node: "n1", CheckID: "disk", Status: "critical"})
				})
			},
			"key next to the overrides": func() { f.put("fabio/config-old", "route del web") },
			"wake-up for nothing":       func() { f.change(func(i uint64) { f.checksAt, f.kvAt = i, i }) },
		} {
			change()
			if n := w.updates(settled); n != 0 {
				t.Errorf("%s: %d updates, want none", name, n)
			}
			if n := f.requests(aService); n != 0 {
				t.Errorf("%s: %d catalog queries, want none", name, n)
			}
		}
	})
}

func TestServicesComeAndGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		w := watch(t, f)
		if n := w.updates(settled); n != 1 || w.text() != "" {
			t.Fatalf("%d updates of an empty catalog: %q", n, w.text())
		}
		f.register("n1", "web-1", "10.0.0.1", 8001, "urlprefix-/web")
		w.updates(settled)
		w.want(webA)
		f.register("n2", "web-1", "10.0.0.2", 8002, "urlprefix-/web") // the same ID on another node is another instance
		w.updates(settled)
		w.want(webB, webA)
		f.register("n2", "web-1", "10.0.0.2", 8002, "urlprefix-/new", "v2")
		w.updates(settled)
		w.want(webA, `route add web /new http://10.0.0.2:8002/ tags "v2"`)
		f.register("n2", "web-1", "10.0.0.2", 8002, "v2")
		w.updates(settled)
		w.want(webA)
		f.deregister("n1", "web-1")
		w.updates(settled)
		w.want()
		if s := w.last(); len(s.Services) != 0 {
			t.Errorf("services left: %+v", s.Services)
		}
	})
}

// A service of which no instance passes keeps its routes, without targets: 503 and not 404.
func TestRoutesOfFailedServicesAreKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := twoServices()
		f.status("n1", "db-1", "critical")
		w := watch(t, f)
		w.updates(settled)
		w.want("# down: "+dbRoute, webB, webA)
		f.change(func(i uint64) {
			f.checksAt = i
			f.checks = append(f.checks, check{Node: "n1", CheckID: "_node_maintenance", Status: "critical"})
		})
		w.updates(settled)
		w.want("# down: "+dbRoute, webB, downA)
		for _, s := range w.last().Services {
			for _, c := range s.Commands {
				if got := c.Down; got != (c.Origin.Node == "n1") {
					t.Errorf("%v: down %v", c, got)
				}
			}
		}
	})
}

func TestFailedLookupKeepsRoutesAndIsRetried(t *testing.T) {
	for _, fault := range []string{"500", "garbage", "cut", "no index", "hang"} {
		t.Run(fault, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := twoServices()
				w := watch(t, f)
				w.updates(settled)
				f.faults(func(w http.ResponseWriter, r *http.Request) bool {
					if !strings.HasPrefix(r.URL.Path, "/v1/catalog/service/web") {
						return false
					}
					switch fault {
					case "500":
						w.WriteHeader(500)
					case "garbage":
						w.Header().Set("X-Consul-Index", "7")
						fmt.Fprint(w, "rpc error")
					case "cut":
						w.Header().Set("X-Consul-Index", "7")
						w.Header().Set("X-Fake-Cut", "7")
						fmt.Fprint(w, `[{"Node":"n1"}]`)
					case "no index":
						fmt.Fprint(w, "[]")
					case "hang":
						<-r.Context().Done()
					}
					return true
				})
				// An instance comes that nobody can look up; the others stay, another service goes on.
				f.register("n3", "web-1", "10.0.0.5", 8005, "urlprefix-/web")
				f.status("n1", "db-1", "critical")
				w.updates(15 * time.Second)
				text := w.text()
				if !strings.HasPrefix(text, "# down: "+dbRoute+"\n"+webB+"\n"+webA+"\nproblem: service web: look-up in Consul's catalog fails: ") {
					t.Errorf("routes:\n%s", text)
				}
				if n := w.updates(time.Minute); n != 0 {
					t.Errorf("%d updates although only the retries go on", n)
				}
				if n := f.requests(aService + "web"); n < 5 {
					t.Errorf("%d look-ups in a minute, want it retried", n)
				}
				f.faults(nil)
				w.updates(2 * maxBackoff) // without another change
				w.want("# down: "+dbRoute, `route add web /web http://10.0.0.5:8005/`, webB, webA)
			})
		})
	}
}

// An instance that comes back waits for the catalog: it may have another port now.
func TestInstanceComesBackOnAnotherPort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := twoServices()
		w := watch(t, f, "registry.consul.refresh=0")
		w.updates(settled)
		f.status("n1", "web-1", "critical")
		w.updates(settled)
		f.moved("n1", "web-1", 9001)
		slow := func(w http.ResponseWriter, r *http.Request) bool {
			if strings.HasPrefix(r.URL.Path, "/v1/catalog/service/web") {
				time.Sleep(3 * time.Second)
			}
			return false
		}
		f.faults(slow)
		f.status("n1", "web-1", "passing")
		w.updates(settled)
		w.want(dbRoute, webB, downA)
		w.updates(4 * time.Second)
		w.want(dbRoute, webB, `route add web /web http://10.0.0.1:9001/`)
		// If the catalog cannot be asked, what is known has to do.
		f.status("n1", "web-1", "critical")
		w.updates(5 * time.Second)
		f.faults(func(w http.ResponseWriter, r *http.Request) bool {
			if strings.HasPrefix(r.URL.Path, "/v1/catalog/service/") {
				w.WriteHeader(500)
				return true
			}
			return false
		})
		f.status("n1", "web-1", "passing")
		w.updates(settled)
		if got, want := w.text(), dbRoute+"\n"+webB+"\nroute add web /web http://10.0.0.1:9001/\nproblem: "; !strings.HasPrefix(got, want) {
			t.Errorf("routes:\n%s\nwant:\n%s", got, want)
		}
	})
}

// A registration that shows in no check is found by looking up the routed services once more.
func TestMovedPortIsSeenWithoutACheck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := twoServices()
		w := watch(t, f)
		w.updates(settled)
		f.requests("")
		f.moved("n1", "web-1", 9001)
		if n := w.updates(settled); n != 1 {
			t.Errorf("%d updates, want 1", n)
		}
		w.want(dbRoute, webB, `route add web /web http://10.0.0.1:9001/`)
		if n := f.requests(aService); n != 2 {
			t.Errorf("%d look-ups, want each of the two routed services once", n)
		}
		if n := w.updates(time.Hour); n != 0 || f.requests(aService) != 0 {
			t.Errorf("%d updates or more look-ups after that", n)
		}
	})
}

func TestRefreshIsPaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		for i := range 100 {
			f.register("n1", fmt.Sprintf("s%d-1", i), "10.0.0.1", 80, fmt.Sprintf("urlprefix-/%d", i))
		}
		w := watch(t, f)
		w.updates(settled)
		f.requests("")
		f.register("n1", "other-1", "10.0.0.9", 1)
		w.updates(5 * time.Second)
		if n := f.requests(aService); n < 45 || n > 55 {
			t.Errorf("%d look-ups in 5 s, want about 50", n)
		}
		w.updates(time.Minute)
		if n := f.requests(aService); n < 45 || n > 55 {
			t.Errorf("%d look-ups after that, want the other half", n)
		}
	})
}

func TestCatalogLacksAPassingInstance(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := twoServices()
		w := watch(t, f)
		w.updates(settled)
		// A lying or lagging server: the catalog is empty, the checks say otherwise.
		var empty atomic.Bool
		empty.Store(true)
		f.faults(func(w http.ResponseWriter, r *http.Request) bool {
			if !empty.Load() || !strings.HasPrefix(r.URL.Path, "/v1/catalog/service/") {
				return false
			}
			w.Header().Set("X-Consul-Index", "9")
			fmt.Fprint(w, "[]")
			return true
		})
		f.register("n3", "web-1", "10.0.0.5", 8005, "urlprefix-/web")
		w.updates(settled)
		w.want(dbRoute, webB, webA)
		empty.Store(false)
		w.updates(2 * maxBackoff)
		w.want(dbRoute, `route add web /web http://10.0.0.5:8005/`, webB, webA)
		f.requests("")
		empty.Store(true)
		f.register("n4", "web-1", "10.0.0.6", 8006, "urlprefix-/web")
		w.updates(time.Hour)
		if n := f.requests(aService + "web"); n > 2*maxMissing+2 {
			t.Errorf("%d look-ups in an hour for an instance that is not there", n)
		}
	})
}

func TestPoisonedServiceDoesNotHoldUpTheFirstTable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := twoServices()
		f.register("n1", "x/../y-1", "10.0.0.7", 80, "urlprefix-/x")
		f.faults(func(w http.ResponseWriter, r *http.Request) bool {
			if strings.HasPrefix(r.URL.Path, "/v1/catalog/service/x") {
				w.Header().Set("Location", "/v1/catalog/service/y")
				w.WriteHeader(301)
				return true
			}
			return false
		})
		w := watch(t, f)
		if n := w.updates(9 * time.Second); n != 0 {
			t.Fatalf("%d updates before registry.timeout", n)
		}
		w.updates(2 * time.Second)
		w.want(dbRoute, webB, webA, "problem: service x/../y: look-up in Consul's catalog fails: answered 301; redirects are not followed (the last good routes of the service stay)")
	})
}

func TestNoTableWhileTheCatalogFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := twoServices()
		f.faults(func(w http.ResponseWriter, r *http.Request) bool {
			if strings.HasPrefix(r.URL.Path, "/v1/catalog/service/") {
				w.WriteHeader(500)
				return true
			}
			return false
		})
		w := watch(t, f)
		if n := w.updates(time.Minute); n != 0 {
			t.Fatalf("%d updates although no service is known", n)
		}
		f.faults(nil)
		w.updates(2 * maxBackoff)
		w.want(dbRoute, webB, webA)
	})
}

func TestIndexRules(t *testing.T) {
	t.Run("falls", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			f := twoServices()
			f.restore(1000, func() {})
			w := watch(t, f)
			w.updates(settled)
			// Restored from an old snapshot: the parked queries return with a low index.
			f.restore(20, func() {})
			if n := w.updates(settled); n != 0 {
				t.Errorf("%d updates, want none: nothing else has changed", n)
			}
			w.want(dbRoute, webB, webA)
			f.status("n1", "web-1", "critical") // index 21, far below the old one
			w.updates(settled)
			w.want(dbRoute, webB, downA)
			f.put("fabio/config", "route del db")
			w.updates(settled)
			w.want(dbRoute, webB, downA, "override: route del db")
		})
	})
	t.Run("answer with a fallen index does not count", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			f := twoServices()
			w := watch(t, f)
			w.updates(settled)
			var checks []check
			f.restore(2, func() { checks, f.checks = f.checks, nil })
			time.AfterFunc(minPause/2, func() {
				f.mu.Lock()
				defer f.mu.Unlock()
				f.checks = checks
			})
			if n := w.updates(settled); n != 0 {
				t.Errorf("%d updates of an answer from another history", n)
			}
			w.want(dbRoute, webB, webA)
		})
	})
	for _, index := range []string{"0", "NaN", "", "-1", "18446744073709551616", "1e3"} {
		t.Run("bad index "+index, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := twoServices()
				w := watch(t, f, "registry.consul.refresh=0")
				w.updates(settled)
				f.requests("")
				f.faults(func(w http.ResponseWriter, r *http.Request) bool {
					w.Header().Set("X-Consul-Index", index)
					fmt.Fprint(w, "[]")
					return true
				})
				f.change(func(i uint64) { f.checksAt, f.kvAt, f.listAt = i, i, i })
				if n := w.updates(time.Minute); n != 0 {
					t.Errorf("%d updates", n)
				}
				w.want(dbRoute, webB, webA)
				if n := f.requests("GET /v1/health"); n > 20 || n < 5 {
					t.Errorf("%d requests in a minute, want them to go on, with pauses", n)
				}
				if err := w.b.Trouble(); err == nil || !strings.Contains(err.Error(), "health for ") {
					t.Errorf("Trouble() = %v", err)
				}
				f.faults(nil)
				f.status("n1", "web-1", "critical")
				w.updates(2 * maxBackoff)
				w.want(dbRoute, webB, downA)
				if err := w.b.Trouble(); err != nil {
					t.Errorf("Trouble() = %v after recovery", err)
				}
			})
		})
	}
	t.Run("answers at once", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			f := twoServices()
			w := watch(t, f)
			w.updates(settled)
			f.requests("")
			f.faults(func(w http.ResponseWriter, r *http.Request) bool { // a proxy that does not know blocking queries
				r.URL.RawQuery = ""
				return false
			})
			f.change(func(i uint64) { f.checksAt, f.kvAt, f.listAt = i, i, i })
			w.updates(10 * time.Second)
			if n := f.requests("GET /v1/health"); n > 101 {
				t.Errorf("%d requests in 10 s, want a pause of %v", n, minPause)
			}
		})
	})
}

// An answer that takes away nearly everything is asked for once more.
func TestMassLossIsConfirmed(t *testing.T) {
	for _, c := range []struct {
		name     string
		times    int32 // how often the bad answer comes
		header   string
		restrict bool // the token never saw everything
		want     string
		trouble  bool
	}{
		{"once", 1, "", false, "kept", false},
		{"twice", 2, "", false, "gone", false},
		{"filtered by ACLs", 1000, "true", false, "kept", true},
		{"filtered as ever", 1000, "true", true, "gone", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := twoServices()
				var bad atomic.Int32
				f.faults(func(w http.ResponseWriter, r *http.Request) bool {
					if !strings.HasPrefix(r.URL.Path, "/v1/health/") {
						return false
					}
					if c.restrict {
						w.Header().Set("X-Consul-Results-Filtered-By-ACLs", "true")
					}
					if bad.Add(-1) < 0 {
						return false
					}
					if c.header != "" {
						w.Header().Set("X-Consul-Results-Filtered-By-ACLs", c.header)
					}
					w.Header().Set("X-Consul-Index", "500")
					fmt.Fprint(w, `[{"Node":"n1","CheckID":"serfHealth","Status":"passing"}]`)
					return true
				})
				w := watch(t, f)
				w.updates(settled)
				bad.Store(c.times)
				f.status("n1", "other-1", "critical") // wakes the parked query; the next one gets the bad answer
				w.updates(5 * time.Second)
				if c.want == "kept" {
					w.want(dbRoute, webB, webA)
				} else {
					w.want()
				}
				if err := w.b.Trouble(); (err != nil) != c.trouble {
					t.Errorf("Trouble() = %v", err)
				}
				bad.Store(0)
				f.restore(600, func() {})
				f.register("n3", "web-1", "10.0.0.5", 8005, "urlprefix-/web")
				w.updates(3 * maxBackoff)
				w.want(dbRoute, `route add web /web http://10.0.0.5:8005/`, webB, webA)
			})
		})
	}
}

// The second read is one that the leader has verified, even where stale reads are allowed.
func TestSecondReadIsConsistent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := twoServices()
		w := watch(t, f, "registry.consul.requireConsistent=false", "registry.consul.allowStale=true")
		w.updates(settled)
		var asked []string
		f.faults(func(w http.ResponseWriter, r *http.Request) bool {
			if strings.HasPrefix(r.URL.Path, "/v1/health/") {
				q := r.URL.Query()
				asked = append(asked, fmt.Sprint(q.Has("index"), q.Has("stale"), q.Has("consistent")))
			}
			return false
		})
		f.change(func(i uint64) { f.checksAt, f.checks = i, nil })
		w.updates(settled)
		w.want()
		if got, want := strings.Join(asked, ", "), "false false true, true true false"; got != want {
			t.Errorf("asked (index, stale, consistent) %s, want %s", got, want)
		}
	})
}

// What is small, or said by a check, is believed at once.
func TestOrdinaryLossIsImmediate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := twoServices()
		f.register("n3", "api-1", "10.0.0.8", 80, "urlprefix-/api")
		w := watch(t, f)
		w.updates(settled)
		f.deregister("n1", "db-1")
		w.updates(minPause / 2)
		w.want(`route add api /api http://10.0.0.8:80/`, webB, webA)
		w.updates(settled)
		// Everything fails at once: the checks say so.
		f.change(func(i uint64) {
			f.checksAt = i
			for n := range f.checks {
				f.checks[n].Status = "critical"
			}
		})
		w.updates(minPause / 2)
		w.want(`# down: route add api /api http://10.0.0.8:80/`, downB, downA)
	})
}

func TestFaultsOfTheHealthWatch(t *testing.T) {
	for name, fault := range map[string]func(w http.ResponseWriter, r *http.Request){
		"500": func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(500) },
		"403": func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(403) },
		"404": func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(404) },
		"redirect": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Location", "http://evil/")
			w.WriteHeader(302)
		},
		"hang": func(w http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
		"garbage": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("X-Consul-Index", "99")
			fmt.Fprint(w, "<html>")
		},
		"null": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("X-Consul-Index", "99")
			fmt.Fprint(w, "null")
		},
		"cut": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("X-Consul-Index", "99")
			w.Header().Set("X-Fake-Cut", "30")
			fmt.Fprint(w, `[]`, strings.Repeat(" ", 100))
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := twoServices()
				w := watch(t, f)
				w.updates(settled)
				f.requests("")
				f.faults(func(w http.ResponseWriter, r *http.Request) bool {
					if !strings.HasPrefix(r.URL.Path, "/v1/health/") {
						return false
					}
					fault(w, r)
					return true
				})
				f.status("n1", "web-1", "critical")
				if n := w.updates(2 * time.Minute); name != "hang" && n > 1 {
					t.Errorf("%d updates", n)
				}
				f.faults(nil)
				f.status("n2", "web-1", "critical")
				w.updates(7 * time.Minute) // within one period
				w.want(dbRoute, downB, downA)
			})
		})
	}
}

func TestDeadlineOfABlockingQuery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := twoServices()
		w := watch(t, f, "registry.consul.wait=1m")
		w.updates(settled)
		var began, ended time.Time
		f.faults(func(w http.ResponseWriter, r *http.Request) bool {
			if !strings.HasPrefix(r.URL.Path, "/v1/health/") || r.URL.Query().Get("index") == "" || !began.IsZero() {
				return false
			}
			if got := r.URL.Query().Get("wait"); got != "60000ms" {
				t.Errorf("wait=%s", got)
			}
			began = time.Now()
			<-r.Context().Done() // a connection that died without a word
			ended = time.Now()
			return true
		})
		f.change(func(i uint64) { f.checksAt = i })
		w.updates(2 * time.Minute)
		if d, want := ended.Sub(began), time.Minute+time.Minute/16+slack; d != want {
			t.Errorf("the query was given up after %v, want %v", d, want)
		}
		f.status("n1", "web-1", "critical")
		w.updates(settled)
		w.want(dbRoute, webB, downA)
	})
}

func TestRetryAfterIsHonoured(t *testing.T) {
	for _, what := range []string{"/v1/health/", "/v1/catalog/service/"} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := twoServices()
				w := watch(t, f)
				w.updates(settled)
				var told atomic.Int32
				f.faults(func(w http.ResponseWriter, r *http.Request) bool {
					if !strings.HasPrefix(r.URL.Path, what) || told.Add(1) > 1 {
						return false
					}
					w.Header().Set("Retry-After", "25")
					w.WriteHeader(429)
					return true
				})
				f.status("n1", "web-1", "critical")
				f.status("n1", "db-1", "critical")
				w.updates(20 * time.Second)
				f.requests("")
				w.updates(4 * time.Second)
				if n := f.requests("GET " + what); n > 0 {
					t.Errorf("%d requests within Retry-After", n)
				}
				w.updates(20 * time.Second)
				w.want("# down: "+dbRoute, webB, downA)
			})
		})
	}
}

func TestPollInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := twoServices()
		f.faults(func(_ http.ResponseWriter, r *http.Request) bool {
			if r.URL.Query().Has("index") {
				t.Errorf("a blocking query: %v", r.URL)
			}
			return false
		})
		w := watch(t, f, "registry.consul.pollinterval=30s")
		w.updates(settled)
		f.requests("")
		f.status("n1", "web-1", "critical")
		if n := w.updates(20 * time.Second); n != 0 {
			t.Errorf("%d updates before the interval", n)
		}
		w.updates(10 * time.Second)
		w.want(dbRoute, webB, downA)
		f.requests("")
		w.updates(5 * time.Minute)
		if n := f.requests("GET /v1/health"); n != 10 {
			t.Errorf("%d health queries in 5 min, want 10", n)
		}
	})
}

func TestConnectProxiesAreNoTargets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := twoServices()
		f.register("n1", "web_proxy-1", "10.0.0.1", 21000, "urlprefix-/web")
		f.catalog["web_proxy"][0]["ServiceKind"] = "connect-proxy"
		w := watch(t, f)
		w.updates(settled)
		w.want(dbRoute, webB, webA)
		f.status("n1", "web_proxy-1", "critical")
		if n := w.updates(settled); n != 0 {
			t.Errorf("%d updates", n)
		}
	})
}

func TestProblemsNameTheInstance(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := twoServices()
		f.register("n7", "bad-1", "user@10.0.0.1", 80, "urlprefix-/bad", "urlprefix-/weight weight=x", "urlprefix-")
		w := watch(t, f)
		w.updates(settled)
		got := w.last().Problems
		want := []route.Problem{
			{Origin: route.Origin{Service: "bad", Node: "n7", Instance: "bad-1", Tag: "urlprefix-/bad"}, Text: "urlprefix-/bad", Reason: `service address "user@10.0.0.1" is no IP address and no host name`, Hint: "want an address without scheme, port, brackets or user"},
			{Origin: route.Origin{Service: "bad", Node: "n7", Instance: "bad-1", Tag: "urlprefix-/weight weight=x"}, Text: "urlprefix-/weight weight=x", Reason: `weight "x" is not a number`, Hint: "want a share such as weight=0.2"},
			{Origin: route.Origin{Service: "bad", Node: "n7", Instance: "bad-1", Tag: "urlprefix-"}, Text: "urlprefix-", Reason: "tag without a route", Hint: "want host/path, /path or :port behind the prefix"},
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("problems\n%+v\nwant\n%+v", got, want)
		}
		w.want(`# down: route add bad /weight`, `# down: route add bad /bad`, dbRoute, webB, webA,
			"problem: "+want[0].Error(), "problem: "+want[1].Error(), "problem: "+want[2].Error())
	})
}

func TestSeveralTagPrefixes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := twoServices()
		f.register("n1", "team-1", "10.0.0.9", 80, "team-/t", "urlprefix-/u", "other-/x")
		w := watch(t, f, "registry.consul.tagprefix=team-, urlprefix-")
		w.updates(settled)
		w.want(dbRoute, `route add team /u http://10.0.0.9:80/ tags "other-/x"`, `route add team /t http://10.0.0.9:80/ tags "other-/x"`, webB, webA)
	})
}

func TestLookupsAreBounded(t *testing.T) {
	for monitors, want := range map[string]int{"8": 8, "3": 3, "0": 1} {
		synctest.Test(t, func(t *testing.T) {
			f := newFake()
			for i := range 50 {
				f.register("n1", fmt.Sprintf("s%d-1", i), "10.0.0.1", 80, fmt.Sprintf("urlprefix-/%d", i))
			}
			f.faults(func(_ http.ResponseWriter, r *http.Request) bool {
				if strings.HasPrefix(r.URL.Path, "/v1/catalog/service/") {
					time.Sleep(10 * time.Millisecond)
				}
				return false
			})
			w := watch(t, f, "registry.consul.serviceMonitors="+monitors)
			if n := w.updates(5 * time.Second); n != 1 || len(w.last().Services) != 50 {
				t.Errorf("%d updates", n)
			}
			if f.most != want {
				t.Errorf("serviceMonitors=%s: %d look-ups at a time, want %d", monitors, f.most, want)
			}
		})
	}
}

func TestOrderDoesNotDependOnArrival(t *testing.T) {
	var first string
	for range 5 {
		synctest.Test(t, func(t *testing.T) {
			f := newFake()
			f.shuffle = true
			for i := range 40 {
				f.register(fmt.Sprintf("n%d", i%7), fmt.Sprintf("s%d-%d", i%5, i), fmt.Sprintf("10.0.0.%d", i), 80, "urlprefix-/a", "urlprefix-/b strip=/b", "v1", "urlprefix-/bad weight=x")
			}
			w := watch(t, f)
			w.updates(settled)
			f.status("n1", "s1-1", "critical")
			w.updates(settled)
			if text := w.text(); first == "" {
				first = text
			} else if text != first {
				t.Errorf("another order of arrival gives\n%s\nnot\n%s", text, first)
			}
		})
	}
}

func TestWatchEndsInTheMiddle(t *testing.T) {
	for _, after := range []time.Duration{0, time.Millisecond, 50 * time.Millisecond, time.Second} {
		synctest.Test(t, func(t *testing.T) {
			f := twoServices()
			f.faults(func(_ http.ResponseWriter, r *http.Request) bool {
				select {
				case <-r.Context().Done():
				case <-time.After(30 * time.Millisecond):
				}
				return false
			})
			b, err := newConsul(testConfig(t), testEnv(t), f)
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), after)
			defer cancel()
			if err := b.Watch(ctx, func(route.Snapshot) {}); err != nil {
				t.Errorf("Watch = %v", err)
			}
			// The bubble fails the test if a goroutine is left.
		})
	}
}

func TestUpstreamAddrs(t *testing.T) {
	for addr, want := range map[string]string{
		"localhost:8500":             "localhost:8500 127.0.0.1:8500 [::1]:8500",
		"10.0.0.1:8500":              "10.0.0.1:8500",
		"https://Consul.example.com": "consul.example.com:443",
		"http://[fd00::1]:80/pre":    "[fd00::1]:80",
		"unix:///run/consul.sock":    "",
	} {
		b, err := newConsul(testConfig(t, "registry.consul.addr="+addr), testEnv(t), nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(b.UpstreamAddrs(), " "); got != want {
			t.Errorf("%s: %q, want %q", addr, got, want)
		}
	}
}
