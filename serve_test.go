package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"varco/route"
)

// testDeadline bounds every wait of these tests; nothing takes that long unless it hangs.
const testDeadline = 30 * time.Second

// output collects what run writes and lets a test wait for it.
type output struct {
	mu      sync.Mutex
	text    strings.Builder
	changed chan struct{} // closed and replaced at each write
}

func newOutput() *output { return &output{changed: make(chan struct{})} }

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.text.Write(b)
	close(o.changed)
	o.changed = make(chan struct{})
	return len(b), nil
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// waitFor answers the first match of pattern, a regular expression with one group.
func (o *output) waitFor(t *testing.T, pattern string) string {
	t.Helper()
	re := regexp.MustCompile(pattern)
	deadline := time.After(testDeadline)
	for {
		o.mu.Lock()
		m, changed := re.FindStringSubmatch(o.text.String()), o.changed
		o.mu.Unlock()
		if m != nil {
			return m[len(m)-1]
		}
		select {
		case <-changed:
		case <-deadline:
			t.Fatalf("no %q within %s in:\n%s", pattern, testDeadline, o)
		}
	}
}

// process is a varco that runs in this process.
type process struct {
	stdout, stderr *output
	signals        chan os.Signal
	done           chan struct{}
	code           int
}

// start runs varco with args and ends it with the test.
func start(t *testing.T, args ...string) *process {
	t.Helper()
	p := &process{stdout: newOutput(), stderr: newOutput(), signals: make(chan os.Signal, 8), done: make(chan struct{})}
	go func() {
		defer close(p.done)
		p.code = run(args, nil, p.stdout, p.stderr, p.signals)
	}()
	t.Cleanup(func() {
		p.signals <- syscall.SIGTERM
		p.wait(t)
	})
	return p
}

// wait answers the exit code.
func (p *process) wait(t *testing.T) int {
	t.Helper()
	select {
	case <-p.done:
	case <-time.After(testDeadline):
		t.Fatalf("still running after %s:\n%s", testDeadline, p.stderr)
	}
	return p.code
}

// static are the flags of a varco with routes and free ports.
func static(routes ...string) []string {
	return []string{
		"-insecure", "-registry.backend=static", "-registry.static.routes=" + strings.Join(routes, "\n"),
		"-proxy.addr=127.0.0.1:0", "-ui.addr=127.0.0.1:0",
	}
}

func (p *process) proxy(t *testing.T) string {
	t.Helper()
	return "http://" + p.stderr.waitFor(t, `msg=listening network=tcp addr=(\S+)`)
}

func (p *process) page(t *testing.T) string {
	t.Helper()
	return "http://" + p.stderr.waitFor(t, `msg="page and API" addr=(\S+)`)
}

// get answers status and body.
func get(t *testing.T, url string) (int, string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), testDeadline)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

func upstream(t *testing.T, handler http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(handler)
	t.Cleanup(s.Close)
	return s.URL + "/"
}

func hello(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "hello ", r.URL.Path) }

func TestServe(t *testing.T) {
	p := start(t, static("route add web /web "+upstream(t, hello))...)
	if code, body := get(t, p.proxy(t)+"/web/x"); code != 200 || body != "hello /web/x" {
		t.Errorf("GET /web/x = %d %q, want 200 and the upstream's answer", code, body)
	}
	if code, _ := get(t, p.proxy(t)+"/other"); code != 404 {
		t.Errorf("GET /other = %d, want 404", code)
	}
	if code, body := get(t, p.page(t)+"/health"); code != 200 {
		t.Errorf("GET /health = %d %q, want 200", code, body)
	}
	if code, body := get(t, p.page(t)+"/api/routes?raw"); code != 200 || !strings.Contains(body, "route add web /web ") {
		t.Errorf("GET /api/routes?raw = %d %q, want the route", code, body)
	}
	if code, body := get(t, p.page(t)+"/api/config"); code != 200 || !strings.Contains(body, `"registry.backend"`) {
		t.Errorf("GET /api/config = %d %q, want the settings", code, body)
	}
	if code, body := get(t, p.page(t)+"/api/version"); code != 200 || body != version {
		t.Errorf("GET /api/version = %d %q, want %s", code, body, version)
	}
	p.signals <- syscall.SIGTERM
	if code := p.wait(t); code != exitOK {
		t.Errorf("exit code = %d, want 0\n%s", code, p.stderr)
	}
}

// The flags of package route reach the table.
func TestRoutingFlags(t *testing.T) {
	one := upstream(t, func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "1") })
	two := upstream(t, func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "2") })
	p := start(t, append(static("route add a /a/*/z "+one, "route add a /a/*/z "+two), "-proxy.strategy=rr", "-proxy.matcher=glob")...)
	var turns string
	for range 8 {
		_, body := get(t, p.proxy(t)+"/a/b/z")
		turns += body
	}
	if turns != "12121212" && turns != "21212121" {
		t.Errorf("answers of 8 requests with strategy rr = %s, want turns", turns)
	}
}

// The same start-up is told in the same order each time.
func TestStartIsDeterministic(t *testing.T) {
	routes := []string{"route add a a.example.com/ http://127.0.0.1:1/", "route add b b.example.com/ http://127.0.0.1:2/ opts \"nonsense=1\""}
	var first string
	for range 3 {
		p := start(t, static(routes...)...)
		p.proxy(t)
		p.signals <- syscall.SIGTERM
		p.wait(t)
		told := variable.ReplaceAllString(p.stderr.String(), "$1=x")
		if first == "" {
			first = told
		}
		if told != first {
			t.Fatalf("two starts differ:\n%s\n%s", first, told)
		}
	}
}

// variable matches what may differ between two starts: times and chosen ports.
var variable = regexp.MustCompile(`\b(time|took|addr)=\S+`)

func TestStopLetsRequestsFinish(t *testing.T) {
	arrived, finish := make(chan struct{}), make(chan struct{})
	p := start(t, static("route add slow / "+upstream(t, func(w http.ResponseWriter, r *http.Request) {
		close(arrived)
		<-finish
		fmt.Fprint(w, "done")
	}))...)
	url := p.proxy(t)
	answer := make(chan string, 1)
	go func() {
		resp, err := http.Get(url)
		if err != nil {
			answer <- err.Error()
			return
		}
		defer resp.Body.Close()
		body, _ := io.ReadAll(resp.Body)
		answer <- string(body)
	}()
	<-arrived
	page := p.page(t)
	p.signals <- syscall.SIGTERM
	p.stderr.waitFor(t, `msg=(stopping)`)
	waitStatus(t, page+"/health", 503)
	waitRefused(t, strings.TrimPrefix(url, "http://"))
	close(finish)
	if got := <-answer; got != "done" {
		t.Errorf("answer of the request in flight = %q, want done", got)
	}
	if code := p.wait(t); code != exitOK {
		t.Errorf("exit code = %d, want 0", code)
	}
}

func TestGracePeriodStillServes(t *testing.T) {
	p := start(t, append(static("route add web / "+upstream(t, hello)), "-proxy.deregistergraceperiod=1h")...)
	url, page := p.proxy(t), p.page(t)
	p.signals <- syscall.SIGTERM
	waitStatus(t, page+"/health", 503)
	if code, _ := get(t, url); code != 200 {
		t.Errorf("GET / during the grace period = %d, want 200", code)
	}
	p.signals <- syscall.SIGTERM
	if code := p.wait(t); code != exitFailed {
		t.Errorf("exit code after the second signal = %d, want %d", code, exitFailed)
	}
	p.stderr.waitFor(t, "(second signal)")
}

func TestStopBeforeTheFirstTable(t *testing.T) {
	// Nobody listens there: the first table never comes.
	p := start(t, "-insecure", "-registry.consul.addr=127.0.0.1:1", "-proxy.addr=127.0.0.1:0", "-ui.addr=127.0.0.1:0")
	page := p.page(t)
	if code, body := get(t, page+"/health"); code != 503 {
		t.Errorf("GET /health without a table = %d %q, want 503", code, body)
	}
	if strings.Contains(p.stderr.String(), "msg=listening") {
		t.Error("the proxy listens without a table")
	}
	p.signals <- syscall.SIGTERM
	if code := p.wait(t); code != exitOK {
		t.Errorf("exit code = %d, want 0\n%s", code, p.stderr)
	}
}

func TestBusyPortEndsTheStart(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for _, flag := range []string{"proxy.addr", "ui.addr"} {
		p := start(t, append(static("route add a / http://127.0.0.1:1/"), "-"+flag+"="+l.Addr().String())...)
		if code := p.wait(t); code != exitFailed {
			t.Errorf("%s busy: exit code = %d, want %d", flag, code, exitFailed)
		}
		if log := p.stderr.String(); !strings.Contains(log, "level=FATAL") || !strings.Contains(log, l.Addr().String()) {
			t.Errorf("%s busy: no FATAL line with the address in:\n%s", flag, log)
		}
	}
}

func TestHangupReopensTheAccessLog(t *testing.T) {
	file := filepath.Join(t.TempDir(), "access.log")
	p := start(t, append(static("route add web / "+upstream(t, hello)), "-log.access.target="+file)...)
	get(t, p.proxy(t)+"/one")
	waitFile(t, file, "GET /one ")
	if err := os.Rename(file, file+".1"); err != nil {
		t.Fatal(err)
	}
	p.signals <- syscall.SIGHUP
	p.stderr.waitFor(t, "(access log reopened)")
	get(t, p.proxy(t)+"/two")
	waitFile(t, file, "GET /two ")
}

func TestBadSettingsEndTheStart(t *testing.T) {
	p := start(t, append(static(), "-proxy.strategy=best", "-log.level=LOUD")...)
	if code := p.wait(t); code != exitFailed {
		t.Errorf("exit code = %d, want %d", code, exitFailed)
	}
	for _, want := range []string{"varco: command line: proxy.strategy: ", "varco: command line: log.level: \"LOUD\": want TRACE"} {
		if !strings.Contains(p.stderr.String(), want) {
			t.Errorf("stderr = %q, want %q", p.stderr, want)
		}
	}
}

func TestRefusedRoutesAreLoggedOnce(t *testing.T) {
	p := start(t, static("route add web /web "+upstream(t, hello), "route ad x", "route add y / http://127.0.0.1:1/ opts \"nosuch=1\"")...)
	if code, _ := get(t, p.proxy(t)+"/web"); code != 200 {
		t.Errorf("GET /web = %d, want 200: a bad line costs only itself", code)
	}
	for _, want := range []string{`msg=refused where=registry.static.routes:2`, `nosuch`} {
		if n := strings.Count(p.stderr.String(), want); n == 0 {
			t.Errorf("no %q in:\n%s", want, p.stderr)
		}
	}
}

func TestSecretsAreNotLogged(t *testing.T) {
	p := start(t, append(static("route add a / http://127.0.0.1:1/"), "-registry.consul.token="+canary, "-ui.token="+canary, "-log.level=TRACE")...)
	p.proxy(t)
	_, config := get(t, p.page(t)+"/api/config")
	if strings.Contains(p.stderr.String()+config, canary) {
		t.Error("a secret is in the log or in /api/config")
	}
	if !strings.Contains(p.stderr.String(), "registry.consul.token=***") {
		t.Errorf("the masked token is not in the log: the test looks at the wrong thing\n%s", p.stderr)
	}
}

func waitStatus(t *testing.T, url string, want int) {
	t.Helper()
	until(t, fmt.Sprintf("%s answers %d", url, want), func() bool {
		code, _ := get(t, url)
		return code == want
	})
}

func waitRefused(t *testing.T, addr string) {
	t.Helper()
	until(t, addr+" is closed", func() bool {
		c, err := net.Dial("tcp", addr)
		if err == nil {
			c.Close()
		}
		return err != nil
	})
}

func waitFile(t *testing.T, name, want string) {
	t.Helper()
	until(t, fmt.Sprintf("%s contains %q", name, want), func() bool {
		b, _ := os.ReadFile(name)
		return strings.Contains(string(b), want)
	})
}

// until polls for a condition under the deadline.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.After(testDeadline)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("not within %s: %s", testDeadline, what)
		}
	}
}

// newTestServer is a server with static routes that does not listen.
func newTestServer(t *testing.T, args ...string) *server {
	t.Helper()
	c, errs := loadConfig(t, "", nil, append(static("route add web /web http://127.0.0.1:1/ tags \"a\""), args...)...)
	if errs = append(errs, c.validate()...); len(errs) > 0 {
		t.Fatal(errs)
	}
	s, err := newServer(c, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.stop)
	return s
}

// A text of overrides is checked against what the services offer now, and only its own faults are reported.
func TestCheckOverrides(t *testing.T) {
	s := newTestServer(t)
	services, bad := route.Parse("route add web /web http://127.0.0.1:1/ tags \"a\"\nroute add bad /bad http://127.0.0.1:1/ opts \"nosuch=1\"", "catalog")
	if len(bad) > 0 {
		t.Fatal(bad)
	}
	s.update(route.Snapshot{Services: []route.Service{{Name: "bad", Commands: services[1:]}, {Name: "web", Commands: services[:1]}}})
	text := "route weight web /web weight 0.5 tags \"a\"\nroute ad x\nroute add y /y http://127.0.0.1:1/ opts \"nosuch=1\"\n"
	var lines []int
	for _, p := range s.checkOverrides(text, "fabio/config") {
		lines = append(lines, p.Origin.Line)
	}
	if !slices.Equal(lines, []int{2, 3}) {
		t.Errorf("lines with problems = %v, want 2 and 3", lines)
	}
	if routes, _ := s.proxy.Table().Len(); routes != 2 {
		t.Errorf("%d routes after the check, want the 2 from before", routes)
	}
}

func TestPageKnowsTheTable(t *testing.T) {
	s := newTestServer(t)
	if err := s.ready(); err == nil || !strings.Contains(err.Error(), "static") {
		t.Errorf("ready before the first table = %v, want what is awaited", err)
	}
	if !s.updated().IsZero() {
		t.Errorf("updated before the first table = %v, want zero", s.updated())
	}
	s.running.Go(s.watch)
	until(t, "the first table is there", func() bool { return !s.updated().IsZero() })
	<-s.first
	if err := s.ready(); err == nil {
		t.Error("ready before the listeners are open")
	}
	if err := s.open(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.drain)
	if err := s.ready(); err != nil {
		t.Errorf("ready with table and listeners = %v", err)
	}
	if err := s.trouble(); err != nil {
		t.Errorf("trouble of a static backend = %v", err)
	}
	for r := range s.proxy.Table().All() {
		for _, target := range r.Targets {
			if stat, ok := s.stats(target); !ok || stat.Requests != 0 {
				t.Errorf("stats of %s = %+v, %v; want zero and true", target.Dst, stat, ok)
			}
		}
	}
	if options := optionsForPage(); len(options) < 10 || options[0].Help == "" {
		t.Errorf("options for the page = %v, want all with help", options)
	}
}

// A registry that cannot even begin ends the start; one that ends later leaves the table.
func TestRegistryThatFails(t *testing.T) {
	s := newTestServer(t)
	s.backend = brokenBackend{}
	s.watch()
	select {
	case err := <-s.failed:
		if !strings.Contains(err.Error(), "registry: it broke") {
			t.Errorf("failure = %v, want the registry's", err)
		}
	default:
		t.Error("a registry that fails before the first table does not end the start")
	}
	s.update(route.Snapshot{})
	s.watch()
	select {
	case err := <-s.failed:
		t.Errorf("a registry that fails with a table in use ends the process: %v", err)
	default:
	}
}

type brokenBackend struct{}

func (brokenBackend) Watch(context.Context, func(route.Snapshot)) error {
	return errors.New("it broke")
}
