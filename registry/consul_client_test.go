package registry

import (
	"compress/gzip"
	"context"
	"encoding/pem"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// recorder answers every request with 200 [] and keeps the last one of each path.
type recorder struct {
	mu   sync.Mutex
	last map[string]*http.Request
	hook http.HandlerFunc // answers instead, if set
}

func (r *recorder) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	r.mu.Lock()
	if r.last == nil {
		r.last = map[string]*http.Request{}
	}
	r.last[req.URL.Path] = req
	hook := r.hook
	r.mu.Unlock()
	w.Header().Set("X-Consul-Index", "5")
	if hook != nil {
		hook(w, req)
		return
	}
	fmt.Fprint(w, "[]")
}

func (r *recorder) request(path string) *http.Request {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.last[path]
}

// open makes a backend that talks to a real server.
func open(t *testing.T, flags ...string) *consul {
	t.Helper()
	b, err := newConsul(testConfig(t, flags...), testEnv(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.client.http.CloseIdleConnections)
	return b
}

// both sends one streamed and one ordinary request.
func both(t *testing.T, b *consul) (streamed, ordinary error) {
	t.Helper()
	r := newHealthReader([]string{"urlprefix-"}, []string{"passing"}, false)
	_, streamed = b.queryHealth(t.Context(), ask{}, r)
	_, ordinary = b.lookup(t.Context(), "web")
	return streamed, ordinary
}

const (
	healthPath = "/v1/health/state/any"
	lookupPath = "/v1/catalog/service/web"
)

// Both kinds of request carry the same token, credentials and parameters.
func TestRequestsCarryWhatIsConfigured(t *testing.T) {
	for _, c := range []struct {
		name   string
		env    map[string]string
		flags  []string
		header map[string]string
		query  string
	}{
		{"defaults", nil, nil, map[string]string{"X-Consul-Token": "", "Authorization": ""}, "consistent="},
		{"token", nil, []string{"token=tok"}, map[string]string{"X-Consul-Token": "tok"}, "consistent="},
		{"token of the environment", map[string]string{"CONSUL_HTTP_TOKEN": "env"}, nil, map[string]string{"X-Consul-Token": "env"}, "consistent="},
		{"flag before environment", map[string]string{"CONSUL_HTTP_TOKEN": "env", "CONSUL_HTTP_TOKEN_FILE": "/nonexistent"}, []string{"token=tok"}, map[string]string{"X-Consul-Token": "tok"}, "consistent="},
		{"basic auth", map[string]string{"CONSUL_HTTP_AUTH": "u:p"}, nil, map[string]string{"Authorization": "Basic dTpw"}, "consistent="},
		{"namespace", nil, []string{"namespace=ns1", "partition=p1"}, nil, "consistent=&ns=ns1&partition=p1"},
		{"namespace of the environment", map[string]string{"CONSUL_NAMESPACE": "ns2", "CONSUL_PARTITION": "p2"}, nil, nil, "consistent=&ns=ns2&partition=p2"},
		{"stale", nil, []string{"requireConsistent=false", "allowStale=true"}, nil, "stale="},
		{"neither", nil, []string{"requireConsistent=false"}, nil, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			for k, v := range c.env {
				t.Setenv(k, v)
			}
			var rec recorder
			srv := httptest.NewServer(&rec)
			defer srv.Close()
			flags := []string{"registry.consul.addr=" + srv.Listener.Addr().String()}
			for _, f := range c.flags {
				flags = append(flags, "registry.consul."+f)
			}
			streamed, ordinary := both(t, open(t, flags...))
			if streamed != nil || ordinary != nil {
				t.Fatal(streamed, ordinary)
			}
			for _, path := range []string{healthPath, lookupPath} {
				r := rec.request(path)
				if got := r.URL.Query().Encode(); got != c.query {
					t.Errorf("%s: query %q, want %q", path, got, c.query)
				}
				for k, v := range c.header {
					if got := r.Header.Get(k); got != v {
						t.Errorf("%s: %s is %q, want %q", path, k, got, v)
					}
				}
			}
		})
	}
}

func TestWaysToTheAgent(t *testing.T) {
	t.Run("address of the environment", func(t *testing.T) {
		srv := httptest.NewServer(&recorder{})
		defer srv.Close()
		t.Setenv("CONSUL_HTTP_ADDR", srv.URL)
		if s, o := both(t, open(t)); s != nil || o != nil {
			t.Error(s, o)
		}
	})
	t.Run("path prefix", func(t *testing.T) {
		srv := httptest.NewServer(http.StripPrefix("/pre", &recorder{}))
		defer srv.Close()
		if s, o := both(t, open(t, "registry.consul.addr="+srv.URL+"/pre/")); s != nil || o != nil {
			t.Error(s, o)
		}
	})
	t.Run("unix socket", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "c.sock")
		l, err := net.Listen("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		var rec recorder
		srv := &http.Server{Handler: &rec}
		go srv.Serve(l)
		defer srv.Close()
		if s, o := both(t, open(t, "registry.consul.addr=unix://"+path, "registry.consul.token=tok")); s != nil || o != nil {
			t.Error(s, o)
		}
		if got := rec.request(lookupPath).Header.Get("X-Consul-Token"); got != "tok" {
			t.Errorf("token %q over the socket", got)
		}
	})
	t.Run("TLS", func(t *testing.T) {
		srv := httptest.NewTLSServer(&recorder{})
		defer srv.Close()
		srv.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, 0)
		ca := filepath.Join(t.TempDir(), "ca.pem")
		if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: srv.Certificate().Raw}), 0o600); err != nil {
			t.Fatal(err)
		}
		addr := "registry.consul.addr=" + srv.URL
		if s, o := both(t, open(t, addr, "registry.consul.tls.cafile="+ca)); s != nil || o != nil {
			t.Error(s, o)
		}
		if s, o := both(t, open(t, addr, "registry.consul.tls.insecureskipverify=true")); s != nil || o != nil {
			t.Error(s, o)
		}
		if s, o := both(t, open(t, addr)); s == nil || o == nil {
			t.Error("a certificate of an unknown CA was accepted")
		}
		t.Setenv("CONSUL_CACERT", ca)
		t.Setenv("CONSUL_HTTP_SSL", "true")
		t.Setenv("CONSUL_HTTP_ADDR", srv.Listener.Addr().String())
		if s, o := both(t, open(t)); s != nil || o != nil {
			t.Error("environment: ", s, o)
		}
	})
}

func TestOpenConsulRefuses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	empty := filepath.Join(dir, "empty")
	os.WriteFile(empty, []byte("\n"), 0o600)
	for _, c := range []struct{ flags, err string }{
		{"addr=ftp://x", `registry.consul.addr: "ftp://x": unknown scheme: want host:port, http://host:port, https://host:port or unix:///path`},
		{"addr=unix://", "registry.consul.addr: \"unix://\": no path"},
		{"addr=a:1,b:2", "no single host"},
		{"addr=http:///x", "no single host"},
		{"addr=http://user:pa55@h:1", `registry.consul.addr: "http://***@h:1": no single host`},
		{"tokenfile=" + dir + "/none", "registry.consul.tokenfile: stat " + dir + "/none: no such file"},
		{"tokenfile=" + empty, "empty: want one word, the token"},
		{"addr=https://h tls.cafile=/nonexistent", "registry.consul.tls: "},
		{"addr=https://h tls.certfile=/nonexistent", "registry.consul.tls: both client cert and client key must be provided"},
		{"register.addr={{", "registry.consul.register.addr: "},
	} {
		var flags []string
		for f := range strings.FieldsSeq(c.flags) {
			flags = append(flags, "registry.consul."+f)
		}
		config := parseConfig(t, flags...)
		err := config.Validate()
		if err == nil {
			_, err = newConsul(config, testEnv(t), nil)
		}
		if err == nil || !strings.Contains(err.Error(), c.err) || strings.Contains(err.Error(), "pa55") {
			t.Errorf("%s: %v, want %s", c.flags, err, c.err)
		}
	}
}

func TestTokenFileIsReadAgain(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	accept := "one"
	rec := recorder{hook: func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		if r.Header.Get("X-Consul-Token") != accept {
			w.WriteHeader(403)
			fmt.Fprint(w, "ACL not found")
			return
		}
		fmt.Fprint(w, "[]")
	}}
	srv := httptest.NewServer(&rec)
	defer srv.Close()
	file := filepath.Join(t.TempDir(), "token")
	write := func(word string) {
		t.Helper()
		// The same time and size each time: only the 403 tells that it changed.
		if err := os.WriteFile(file, []byte(word+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(file, time.Unix(1e9, 0), time.Unix(1e9, 0)); err != nil {
			t.Fatal(err)
		}
	}
	write("one")
	b := open(t, "registry.consul.addr="+srv.Listener.Addr().String(), "registry.consul.tokenfile="+file, "registry.consul.token=loses")
	if s, o := both(t, b); s != nil || o != nil {
		t.Fatal(s, o)
	}
	mu.Lock()
	accept = "two"
	mu.Unlock()
	write("two")
	if s, o := both(t, b); cause(s) != `answered 403: "ACL not found"` || o != nil {
		t.Errorf("after the token was rotated: %v, then %v, want one 403", s, o)
	}
	// A file that cannot be read, or is being written, leaves the token as it is.
	for _, bad := range []func() error{func() error { return os.Remove(file) }, func() error { return os.WriteFile(file, nil, 0o600) }} {
		if err := bad(); err != nil {
			t.Fatal(err)
		}
		if s, o := both(t, b); s != nil || o != nil {
			t.Error(s, o)
		}
	}
	// A new time stamp is enough.
	mu.Lock()
	accept = "three"
	mu.Unlock()
	if err := os.WriteFile(file, []byte("three"), 0o600); err != nil {
		t.Fatal(err)
	}
	if s, o := both(t, b); s != nil || o != nil {
		t.Error(s, o)
	}
}

func TestRedirectsAreNotFollowed(t *testing.T) {
	t.Parallel()
	evil := recorder{}
	elsewhere := httptest.NewServer(&evil)
	defer elsewhere.Close()
	srv := httptest.NewServer(http.RedirectHandler(elsewhere.URL, http.StatusFound))
	defer srv.Close()
	s, o := both(t, open(t, "registry.consul.addr="+srv.Listener.Addr().String(), "registry.consul.token=tok"))
	for _, err := range []error{s, o} {
		if err == nil || cause(err) != "answered 302; redirects are not followed" {
			t.Errorf("error %v", err)
		}
	}
	if evil.last != nil {
		t.Error("the redirect was followed")
	}
}

// endless is a JSON list of 300 KiB.
func endless(w io.Writer) {
	io.WriteString(w, "["+strings.Repeat(" ", 300<<10)+"]")
}

func TestBodiesAreBounded(t *testing.T) {
	t.Parallel()
	t.Run("body", func(t *testing.T) {
		srv := httptest.NewServer(&recorder{hook: func(w http.ResponseWriter, r *http.Request) { endless(w) }})
		defer srv.Close()
		b := open(t, "registry.consul.addr="+srv.Listener.Addr().String())
		g := b.client.http.Transport.(*guard)
		if g.limit != 64<<20 {
			t.Errorf("limit %d, want 64 MiB", g.limit)
		}
		if s, o := both(t, b); s != nil || o != nil {
			t.Error(s, o)
		}
		g.limit = 1 << 16
		s, o := both(t, b)
		for _, err := range []error{s, o} {
			if err == nil || !strings.Contains(err.Error(), "longer than 64 KiB") {
				t.Errorf("error %v, want it too long", err)
			}
		}
	})
	t.Run("gzip bomb", func(t *testing.T) {
		srv := httptest.NewServer(&recorder{hook: func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			z := gzip.NewWriter(w)
			endless(z)
			z.Close()
		}})
		defer srv.Close()
		// The agent is not local by its name, so compression is on.
		backend := open(t, "registry.consul.addr=agent.test:"+fmt.Sprint(srv.Listener.Addr().(*net.TCPAddr).Port))
		g := backend.client.http.Transport.(*guard)
		g.limit = 1 << 16
		g.next.(*http.Transport).DialContext = func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, srv.Listener.Addr().String())
		}
		s, _ := both(t, backend)
		if s == nil || !strings.Contains(s.Error(), "longer than 64 KiB") {
			t.Errorf("error %v, want it too long", s)
		}
	})
}

func TestCappedBody(t *testing.T) {
	t.Parallel()
	for n, ok := range map[int]bool{0: true, 9: true, 10: true, 11: false, 20: false} {
		b := capBody(io.NopCloser(strings.NewReader(strings.Repeat("x", n))), 10)
		got, err := io.ReadAll(b)
		if (err == nil) != ok || len(got) != min(n, 10) {
			t.Errorf("%d bytes: read %d, %v", n, len(got), err)
		}
	}
}

func TestRetryAfter(t *testing.T) {
	t.Parallel()
	for s, want := range map[string]time.Duration{
		"": 0, "7": 7 * time.Second, "99999": maxRetryAfter, "-1": 0, "soon": 0,
		"Fri, 01 Jan 2100 00:00:00 GMT": maxRetryAfter, "Sat, 01 Jan 2000 00:00:00 GMT": 0,
	} {
		if got := retryAfter(http.Header{"Retry-After": {s}}); got != want {
			t.Errorf("retryAfter(%q) = %v, want %v", s, got, want)
		}
	}
}

// Nothing that names the place of a failure may hold the token, and nothing in it may differ from try to try.
func TestCauseIsShortAndStable(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	l.Close()
	b := open(t, "registry.consul.addr="+addr, "registry.consul.token="+canary)
	for range 2 {
		for _, err := range func() []error { s, o := both(t, b); return []error{s, o} }() {
			if got, want := cause(err), "dial tcp "+addr+": connect: connection refused"; got != want {
				t.Errorf("cause = %q, want %q", got, want)
			}
			if strings.Contains(fmt.Sprintf("%v %+v %#v", err, err, err), canary) {
				t.Error("the token is in the error")
			}
		}
	}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { panic(http.ErrAbortHandler) }))
	defer srv.Close()
	s, _ := both(t, open(t, "registry.consul.addr="+srv.Listener.Addr().String()))
	if got := cause(s); got != "EOF" {
		t.Errorf("cause of a connection that was closed: %q", got)
	}
}
