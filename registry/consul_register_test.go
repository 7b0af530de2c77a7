package registry

import (
	"context"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestRegister(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		b, err := newConsul(testConfig(t, "registry.consul.register.tags=a, b", "registry.consul.register.checkInterval=2s"), testEnv(t), f)
		if err != nil {
			t.Fatal(err)
		}
		host, _ := os.Hostname()
		id := "fabio-" + host + "-9998"
		b.SetAliases([]string{"shop"}) // before Register
		if err := b.Register(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got, want := f.entered(), []string{id, "shop-" + host + "-9998"}; !slices.Equal(got, want) {
			t.Fatalf("entered %q, want %q", got, want)
		}
		s := f.agent[id]
		if s.Name != "fabio" || s.Address != "127.0.0.1" || s.Port != 9998 || !slices.Equal(s.Tags, []string{"a", "b"}) || len(s.Checks) != 2 {
			t.Errorf("registered %+v", s)
		}
		if c := s.Checks[0]; c.CheckID != id+"-ttl" || c.TTL != "15s" || c.DeregisterCriticalServiceAfter != "1m" || c.Status != "passing" {
			t.Errorf("TTL check %+v", c)
		}
		if c := s.Checks[1]; c.HTTP != "http://127.0.0.1:9998/health" || c.Interval != "2s" || c.Timeout != "3s" || c.TLSSkipVerify {
			t.Errorf("HTTP check %+v", c)
		}
		if err := b.Register(t.Context()); err == nil {
			t.Error("registered twice")
		}

		// The TTL of 15 s is refreshed well before it ends.
		f.requests("")
		time.Sleep(15 * time.Second)
		synctest.Wait()
		if n := f.requests("PUT /v1/agent/check/update/" + id); n < 3 {
			t.Errorf("%d refreshes in 15 s", n)
		}
		if n := f.requests("PUT /v1/agent/service/register"); n > 0 {
			t.Errorf("%d registrations although nothing was lost", n)
		}
		// A lost entry is back within seconds.
		f.mu.Lock()
		clear(f.agent)
		f.mu.Unlock()
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if got := f.entered(); len(got) != 2 {
			t.Errorf("5 s after the agent lost its data: %q", got)
		}
		// Aliases come and go; a bad one costs only itself.
		b.SetAliases([]string{"shop", "news", "../evil", "", "a b"})
		synctest.Wait()
		if got, want := f.entered(), []string{id, "news-" + host + "-9998", "shop-" + host + "-9998"}; !slices.Equal(got, want) {
			t.Errorf("entered %q, want %q", got, want)
		}
		b.SetAliases([]string{"news", "fabio"})
		synctest.Wait()
		if got, want := f.entered(), []string{id, "news-" + host + "-9998"}; !slices.Equal(got, want) {
			t.Errorf("entered %q, want %q", got, want)
		}
		// Trouble with the agent removes nothing.
		f.faults(func(w http.ResponseWriter, r *http.Request) bool {
			w.WriteHeader(500)
			return true
		})
		b.SetAliases(nil)
		time.Sleep(time.Minute)
		synctest.Wait()
		if got := f.entered(); len(got) != 2 {
			t.Errorf("while the agent fails: %q", got)
		}
		f.faults(nil)
		time.Sleep(beat)
		synctest.Wait()
		if got, want := f.entered(), []string{id}; !slices.Equal(got, want) {
			t.Errorf("entered %q, want %q: the alias was to go", got, want)
		}
		if err := b.Deregister(t.Context()); err != nil {
			t.Errorf("Deregister: %v", err)
		}
		if got := f.entered(); len(got) != 0 {
			t.Errorf("after Deregister: %q", got)
		}
		f.requests("")
		time.Sleep(time.Minute)
		synctest.Wait()
		if n := f.requests(""); n > 0 {
			t.Errorf("%d requests after Deregister", n)
		}
		if err := b.Deregister(t.Context()); err != nil {
			t.Errorf("second Deregister: %v", err)
		}
	})
}

func TestRegisterWaitsForTheAgent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		f.faults(func(w http.ResponseWriter, r *http.Request) bool {
			<-r.Context().Done() // does not answer
			return true
		})
		b, err := newConsul(testConfig(t), testEnv(t), f)
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan error, 1)
		go func() { done <- b.Register(t.Context()) }()
		synctest.Wait()
		b.SetAliases([]string{"shop"}) // must not wait for the agent
		if err := <-done; err != nil {
			t.Errorf("Register = %v, want it to go on", err)
		}
		f.faults(nil)
		time.Sleep(2 * slack)
		synctest.Wait()
		if got := f.entered(); len(got) != 2 {
			t.Errorf("entered %q", got)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		f.faults(func(w http.ResponseWriter, r *http.Request) bool { <-r.Context().Done(); return true })
		if err := b.Deregister(ctx); err == nil {
			t.Error("Deregister without an answer: no error")
		}
	})
}

func TestRegisterEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		b, err := newConsul(testConfig(t, "registry.consul.register.enabled=false"), testEnv(t), f)
		if err != nil {
			t.Fatal(err)
		}
		b.SetAliases([]string{"shop"})
		ctx, cancel := context.WithCancel(t.Context())
		if err := b.Register(ctx); err != nil {
			t.Fatal(err)
		}
		if got := f.entered(); len(got) != 1 || !strings.HasPrefix(got[0], "shop-") {
			t.Errorf("entered %q, want the alias only", got)
		}
		cancel()
		synctest.Wait()
		f.requests("")
		time.Sleep(time.Minute)
		if n := f.requests(""); n > 0 {
			t.Errorf("%d requests after the end of ctx", n)
		}
		if err := b.Deregister(t.Context()); err != nil || len(f.entered()) != 0 {
			t.Errorf("Deregister: %v, left %q", err, f.entered())
		}
	})
}

func TestRegisteredAddress(t *testing.T) {
	t.Parallel()
	local := localIP()
	if net.ParseIP(local) == nil {
		t.Fatalf("localIP() = %q", local)
	}
	for _, c := range []struct {
		addr, ui, ip string
		port         int
		err          string
	}{
		{"", "10.1.1.1:9998", "10.1.1.1", 9998, ""},
		{"", "127.0.0.1:9998", "127.0.0.1", 9998, ""},
		{"", ":9998", local, 9998, ""},
		{"", "0.0.0.0:9998", local, 9998, ""},
		{"", "[::]:9998", local, 9998, ""},
		{"", "[fd00::1]:9998", "fd00::1", 9998, ""},
		{"", "varco.example.com:9998", local, 9998, ""},
		{"", ":9998;rt=5s", local, 9998, ""},
		{"10.2.2.2:80", "10.1.1.1:9998", "10.2.2.2", 80, ""},
		{`{{ printf "10.3.%d.3" 3 }}:81`, "", "10.3.3.3", 81, ""},
		{`:82`, "", local, 82, ""},
		{"10.2.2.2", "", "", 0, `registry.consul.register.addr: "10.2.2.2": want host:port`},
		{"10.2.2.2:http", "", "", 0, `registry.consul.register.addr: "10.2.2.2:http": want a port from 1 to 65535`},
		{"10.2.2.2:0", "", "", 0, `registry.consul.register.addr: "10.2.2.2:0": want a port from 1 to 65535`},
		{"", "", "", 0, `ui.addr: "": want host:port`},
	} {
		r := &registration{config: RegisterConfig{Addr: c.addr}, uiAddr: c.ui}
		ip, port, err := r.address()
		if ip != c.ip || port != c.port || errText(err) != c.err {
			t.Errorf("address(%q, %q) = %q, %d, %v, want %q, %d, %s", c.addr, c.ui, ip, port, err, c.ip, c.port, c.err)
		}
	}
}
