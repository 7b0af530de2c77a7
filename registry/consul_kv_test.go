package registry

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestOverridesAndPageAreFollowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		w := watch(t, f)
		w.updates(settled)
		f.put("fabio/config/b", "route add b /b http://b/")
		f.put("fabio/config", "  # a comment\nroute add a /a http://a/\nnonsense\nroute add c /c\n")
		f.put("fabio/config-old", "route add old / http://old/")
		f.put("fabio/config/a/deep", "route add d /d http://d/")
		w.updates(settled)
		w.want("override: route add a /a http://a/", "override: route add d /d http://d/", "override: route add b /b http://b/",
			"problem: "+w.last().Problems[0].Error(), "problem: "+w.last().Problems[1].Error())
		for i, line := range []int{3, 4} {
			if o := w.last().Problems[i].Origin; o.Source != "fabio/config" || o.Line != line || o.Column == 0 {
				t.Errorf("problem %d at %+v, want fabio/config:%d", i, o, line)
			}
		}
		if o := w.last().Overrides[0].Origin; o.Source != "fabio/config" || o.Line != 2 {
			t.Errorf("command at %+v, want fabio/config:2", o)
		}
		f.put("fabio/config", "")
		w.updates(settled)
		w.want("override: route add d /d http://d/", "override: route add b /b http://b/")

		f.put("fabio/noroute.html", "<p>none</p>\n")
		f.put("fabio/noroute.html/x", "not this")
		w.updates(settled)
		if got := w.last().NoRoute; got != "<p>none</p>" {
			t.Errorf("NoRoute = %q", got)
		}
		f.put("fabio/noroute.html", strings.Repeat("x", maxNoRoute+1))
		w.updates(settled)
		if s := w.last(); s.NoRoute != "<p>none</p>" || len(s.Problems) != 1 || s.Problems[0].Origin.Source != "fabio/noroute.html" {
			t.Errorf("after a page that is too long: NoRoute %.20q, problems %v", s.NoRoute, s.Problems)
		}
		f.change(func(i uint64) { f.kvAt = i; delete(f.kv, "fabio/noroute.html") })
		w.updates(settled)
		if s := w.last(); s.NoRoute != "" || len(s.Problems) != 0 {
			t.Errorf("after the page went: %q, %v", s.NoRoute, s.Problems)
		}
	})
}

func TestFailingKVKeepsOverrides(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := twoServices()
		f.put("fabio/config", "route del db")
		w := watch(t, f)
		w.updates(settled)
		f.faults(func(w http.ResponseWriter, r *http.Request) bool {
			if strings.HasPrefix(r.URL.Path, "/v1/kv/") {
				w.WriteHeader(403)
				return true
			}
			return false
		})
		f.change(func(i uint64) { f.kvAt = i }) // the parked query returns before the fault
		w.updates(settled)
		f.put("fabio/config", "")
		f.status("n1", "web-1", "critical")
		w.updates(time.Minute)
		w.want(dbRoute, webB, downA, "override: route del db")
		if err := w.b.Trouble(); err == nil || !strings.Contains(err.Error(), "overrides for") || !strings.Contains(err.Error(), "403") {
			t.Errorf("Trouble() = %v", err)
		}
		f.faults(nil)
		w.updates(2 * maxBackoff)
		w.want(dbRoute, webB, downA)
	})
}

// A token that lost its rights sees no overrides: that does not mean there are none.
func TestFilteredOverridesStay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := twoServices()
		f.put("fabio/config", "route del db")
		w := watch(t, f)
		w.updates(settled)
		f.faults(func(w http.ResponseWriter, r *http.Request) bool {
			if !strings.HasPrefix(r.URL.Path, "/v1/kv/") {
				return false
			}
			w.Header().Set("X-Consul-Results-Filtered-By-ACLs", "true")
			w.Header().Set("X-Consul-Index", "99")
			w.WriteHeader(404)
			return true
		})
		f.change(func(i uint64) { f.kvAt = i })
		w.updates(time.Minute)
		w.want(dbRoute, webB, webA, "override: route del db")
		if err := w.b.Trouble(); err == nil || !strings.Contains(err.Error(), "Filtered-By-ACLs") {
			t.Errorf("Trouble() = %v", err)
		}
		// Really deleted: gone within a second.
		f.faults(nil)
		w.updates(2 * maxBackoff)
		f.change(func(i uint64) { f.kvAt = i; clear(f.kv) })
		w.updates(settled)
		w.want(dbRoute, webB, webA)
	})
}

func TestOverridesTurnedOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := twoServices()
		f.put("fabio/config", "route del db")
		w := watch(t, f, "registry.consul.kvpath=", "registry.consul.noroutehtmlpath=")
		w.updates(settled)
		w.want(dbRoute, webB, webA)
		if n := f.requests("GET /v1/kv"); n > 0 {
			t.Errorf("%d KV queries", n)
		}
		if _, err := w.b.Get(t.Context(), ""); !errors.Is(err, ErrNoOverrides) {
			t.Errorf("Get: %v, want ErrNoOverrides", err)
		}
		if paths, err := w.b.Paths(t.Context()); paths != nil || err != nil {
			t.Errorf("Paths: %v, %v", paths, err)
		}
	})
}

func TestEditOverrides(t *testing.T) {
	t.Parallel()
	f := newFake()
	b, err := newConsul(testConfig(t), testEnv(t), f)
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	get := func(path string) Manual {
		t.Helper()
		m, err := b.Get(ctx, path)
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	missing := get("/a")
	if missing.Value != "" || missing.Version != f.kvAt {
		t.Errorf("a key that is not there: %+v, want the index of the answer", missing)
	}
	for _, c := range []struct {
		name, path string
		m          Manual
		err        error
	}{
		{"create", "/a", Manual{"one", missing.Version}, nil},
		{"create what is there by now", "/a", Manual{"two", missing.Version}, ErrConflict},
		{"create with version 0 what is there", "/a", Manual{"two", 0}, ErrConflict},
		{"create at the root", "", Manual{"root", 0}, nil},
		{"create deep", "/b/c", Manual{"deep", 0}, nil},
		{"odd but harmless name", "/b c?d=%2e&é", Manual{"odd", 0}, nil},
		{"too long", "/l", Manual{strings.Repeat("x", maxValue+1), 0}, ErrTooLarge},
	} {
		if err := b.Put(ctx, c.path, c.m); !errors.Is(err, c.err) {
			t.Errorf("%s: Put = %v, want %v", c.name, err, c.err)
		}
	}
	old := get("/a")
	if old.Value != "one" {
		t.Errorf("/a = %+v", old)
	}
	if err := b.Put(ctx, "/a", Manual{"new", old.Version}); err != nil {
		t.Errorf("Put: %v", err)
	}
	if err := b.Put(ctx, "/a", Manual{"newer", old.Version}); !errors.Is(err, ErrConflict) {
		t.Errorf("Put with an old version: %v, want ErrConflict", err)
	}
	f.put("fabio/config-old", "x")
	paths, err := b.Paths(ctx)
	if want := []string{"", "/a", "/b c?d=%2e&é", "/b/c"}; err != nil || !slices.Equal(paths, want) {
		t.Errorf("Paths = %q, %v, want %q", paths, err, want)
	}
	if err := b.Delete(ctx, "/a", old.Version); !errors.Is(err, ErrConflict) {
		t.Errorf("Delete with an old version: %v, want ErrConflict", err)
	}
	if err := b.Delete(ctx, "/a", get("/a").Version); err != nil {
		t.Errorf("Delete: %v", err)
	}
	if err := b.Delete(ctx, "/a", 1); err != nil {
		t.Errorf("Delete of what is not there: %v", err)
	}
	if got := get("/a").Value; got != "" {
		t.Errorf("after Delete: %q", got)
	}
}

func TestOverridesStayUnderKVPath(t *testing.T) {
	t.Parallel()
	f := newFake()
	f.put("fabio/config-old", "secret")
	f.put("fabio/other", "secret")
	b, err := newConsul(testConfig(t), testEnv(t), f)
	if err != nil {
		t.Fatal(err)
	}
	f.requests("")
	for _, path := range []string{
		"-old", "a", "/../other", "/a/../../other", "/..", "/.", "/", "//", "/a/", "//other", "/a//b", "/a\x00", "/a\nb", "/a\x7f", "/\xff", "/" + strings.Repeat("x", 500),
	} {
		_, err := b.Get(context.Background(), path)
		for what, err := range map[string]error{"Get": err, "Put": b.Put(context.Background(), path, Manual{}), "Delete": b.Delete(context.Background(), path, 1)} {
			if !errors.Is(err, ErrPath) {
				t.Errorf("%s(%q) = %v, want ErrPath", what, path, err)
			}
		}
	}
	if n := f.requests(""); n > 0 {
		t.Errorf("%d requests went to Consul", n)
	}
}
