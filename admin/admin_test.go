package admin

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"go.uber.org/goleak"

	"varco/registry"
	"varco/route"
)

// testConfig is the default configuration on a free port, changed by change.
func testConfig(t testing.TB, change ...func(*Config)) Config {
	t.Helper()
	var c Config
	c.Flags(pflag.NewFlagSet("test", pflag.ContinueOnError))
	c.Addr = "127.0.0.1:0"
	for _, f := range change {
		f(&c)
	}
	return c
}

func newServer(t testing.TB, c Config, d Deps) *Server {
	t.Helper()
	s, err := New(c, d)
	if err != nil {
		t.Fatalf("New: %v", err)
	}
	return s
}

// bound is what the tests bind to a target.
type bound struct{ stat Stat }

func statsOf(t *route.Target) (Stat, bool) {
	b, ok := t.Bound.(*bound)
	if !ok {
		return Stat{}, false
	}
	return b.stat, true
}

// tables builds tables one after the other, as package proxy does.
type tables struct {
	t       testing.TB
	builder *route.Builder
	mu      sync.Mutex
	table   *route.Table
}

func newTables(t testing.TB) *tables {
	b, err := route.NewBuilder(route.Config{
		Matcher: "prefix", Strategy: "rnd",
		Bind: func(*route.Target) (any, error) { return &bound{}, nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	return &tables{t: t, builder: b}
}

// set makes the table of a text in the route language.
func (x *tables) set(text string) {
	x.t.Helper()
	commands, problems := route.Parse(text, "test")
	if len(problems) > 0 {
		x.t.Fatalf("Parse(%q): %v", text, problems[0])
	}
	x.build(route.Snapshot{Overrides: commands})
}

func (x *tables) build(s route.Snapshot) []route.Problem {
	b := x.builder.Build(s)
	x.mu.Lock()
	defer x.mu.Unlock()
	x.table = b.Table
	return b.Problems
}

func (x *tables) get() *route.Table {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.table
}

// stat answers the numbers of the first target with this destination, to be changed by the test.
func (x *tables) stat(dst string) *Stat {
	x.t.Helper()
	for r := range x.get().All() {
		for _, target := range r.Targets {
			if target.Dst == dst {
				return &target.Bound.(*bound).stat
			}
		}
	}
	x.t.Fatalf("no target %q", dst)
	return nil
}

// memory is overrides in memory.
type memory struct {
	mu   sync.Mutex
	last uint64
	keys map[string]registry.Manual
	puts int
	err  error
}

func (m *memory) Paths(context.Context) ([]string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Sorted(maps.Keys(m.keys)), m.err
}

func (m *memory) Get(_ context.Context, path string) (registry.Manual, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.keys[path], m.err
}

func (m *memory) Put(_ context.Context, path string, text registry.Manual) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.puts++
	if m.err != nil {
		return m.err
	}
	if old, ok := m.keys[path]; ok && old.Version != text.Version {
		return registry.ErrConflict
	}
	m.last++
	if m.keys == nil {
		m.keys = map[string]registry.Manual{}
	}
	m.keys[path] = registry.Manual{Value: text.Value, Version: m.last}
	return nil
}

func (m *memory) Delete(_ context.Context, path string, version uint64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if old, ok := m.keys[path]; ok && old.Version != version {
		return registry.ErrConflict
	}
	delete(m.keys, path)
	return m.err
}

// ask sends one request to a handler, with headers as "Name: value".
func ask(h http.Handler, method, target, body string, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, target, strings.NewReader(body))
	r.Host = "localhost:9998"
	for _, line := range headers {
		name, value, _ := strings.Cut(line, ": ")
		if name == "Host" {
			r.Host = value
		} else {
			r.Header.Set(name, value)
		}
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

const jsonBody = "Content-Type: application/json"

func wantStatus(t *testing.T, w *httptest.ResponseRecorder, want int) {
	t.Helper()
	if w.Code != want {
		t.Fatalf("status = %d, want %d; body %q", w.Code, want, w.Body)
	}
}

func TestServeAndShutdown(t *testing.T) {
	defer goleak.VerifyNone(t)
	ready := errors.New("waiting for the first complete routes")
	s := newServer(t, testConfig(t), Deps{Version: "1.2.3", Ready: func() error { return ready }})
	if s.Addr() != nil {
		t.Errorf("Addr() = %v before Listen, want nil", s.Addr())
	}
	if err := s.Listen(); err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve() }()
	get := func(path string) (int, string) {
		t.Helper()
		client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
		res, err := client.Get("http://" + s.Addr().String() + path)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		body, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		return res.StatusCode, string(body)
	}

	if code, body := get("/health"); code != 503 || body != "not ready: waiting for the first complete routes\n" {
		t.Errorf("/health before the first table = %d %q, want 503 and why", code, body)
	}
	ready = nil
	if code, body := get("/health"); code != 200 || body != "OK\n" {
		t.Errorf("/health = %d %q, want 200 OK", code, body)
	}
	if code, body := get("/api/version"); code != 200 || body != "1.2.3" {
		t.Errorf("/api/version = %d %q, want 200 1.2.3", code, body)
	}
	s.SetDraining()
	if code, _ := get("/health"); code != 503 {
		t.Errorf("/health while draining = %d, want 503", code)
	}
	if code, _ := get("/api/version"); code != 200 {
		t.Errorf("/api/version while draining = %d, want 200", code)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	if err := s.Shutdown(ctx); err != nil {
		t.Errorf("Shutdown() = %v, want nil", err)
	}
	if err := <-served; err != nil {
		t.Errorf("Serve() = %v after Shutdown, want nil", err)
	}
}

func TestListenNamesTheFlag(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	s := newServer(t, testConfig(t, func(c *Config) { c.Addr = l.Addr().String() }), Deps{})
	if err := s.Listen(); err == nil || !strings.HasPrefix(err.Error(), "ui.addr: ") {
		t.Errorf("Listen() on a taken port = %v, want an error that begins with ui.addr", err)
	}
}

func TestOpenWritesWarn(t *testing.T) {
	for _, tt := range []struct {
		addr, access string
		want         bool
	}{
		{":0", "rw", true},
		{"0.0.0.0:0", "rw", true},
		{"0.0.0.0:0", "ro", false},
		{"127.0.0.1:0", "rw", false},
	} {
		var log bytes.Buffer
		s := newServer(t, testConfig(t, func(c *Config) { c.Addr, c.Access = tt.addr, tt.access }), Deps{Log: slog.New(slog.NewTextHandler(&log, nil))})
		if err := s.Listen(); err != nil {
			t.Fatal(err)
		}
		s.Shutdown(t.Context())
		if got := strings.Contains(log.String(), "everybody who reaches the page can change routes"); got != tt.want {
			t.Errorf("%s %s: warned = %v, want %v", tt.addr, tt.access, got, tt.want)
		}
	}
}

// TestNoSecretInAnyOutput asks for everything that can be asked for and looks for a secret in it.
func TestNoSecretInAnyOutput(t *testing.T) {
	const canary = "c4n4ry-5ecret"
	var log bytes.Buffer
	x := newTables(t)
	x.set("route add a /a http://10.0.0.1/")
	fs := pflag.NewFlagSet("test", pflag.ContinueOnError)
	var c Config
	c.Flags(fs)
	if err := fs.Set("ui.token", canary); err != nil {
		t.Fatal(err)
	}
	c.Addr = "0.0.0.0:0"
	s := newServer(t, c, Deps{
		Log:       slog.New(slog.NewJSONHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})),
		Table:     x.get,
		Stats:     statsOf,
		Overrides: &memory{},
		Config: func() (all []Setting) {
			fs.VisitAll(func(f *pflag.Flag) { all = append(all, Setting{f.Name, f.Value.String(), "command line", f.DefValue}) })
			return all
		},
	})
	if err := s.Listen(); err != nil {
		t.Fatal(err)
	}
	defer s.Shutdown(t.Context())
	var out bytes.Buffer
	fmt.Fprintf(&out, "%v %+v %#v %s\n", c, c, c, fs.FlagUsages())
	h := s.Handler()
	masked := false
	for _, e := range s.endpoints() {
		for method := range e.methods {
			for _, path := range []string{e.path, e.path + "?raw&pretty", e.path + "/x"} {
				for _, auth := range []string{"", "Bearer wrong", "Bearer " + canary} {
					w := ask(h, method, path, `{"value":"route add b /b http://10.0.0.2/"}`, jsonBody, "Authorization: "+auth)
					fmt.Fprintln(&out, w.Header(), w.Body)
					masked = masked || strings.Contains(w.Body.String(), `"***"`)
				}
			}
		}
	}
	for name, text := range map[string]string{"an output": out.String(), "the log": log.String()} {
		if strings.Contains(text, canary) {
			t.Errorf("%s shows the secret", name)
		}
	}
	if !masked {
		t.Error("no output shows *** for the secret")
	}
	if !strings.Contains(log.String(), "overrides changed") {
		t.Errorf("the log has no trace of a change: %s", log.String())
	}
}
