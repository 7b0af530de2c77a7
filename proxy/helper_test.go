package proxy

import (
	"bufio"
	"flag"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"varco/metrics"
	"varco/route"
)

// deadline is how long a test waits for what must come.
const deadline = 10 * time.Second

// testEngine has all tests of the package run over one engine: go test ./proxy -engine=std.
var testEngine = flag.String("engine", "", "engine to test, the default one if empty")

func testConfig(t testing.TB, args ...string) Config {
	t.Helper()
	if *testEngine != "" {
		args = append([]string{"--proxy.engine=" + *testEngine}, args...)
	}
	var c Config
	fs := pflag.NewFlagSet("test", pflag.ContinueOnError)
	c.Flags(fs)
	c.Route.Flags(fs)
	if err := fs.Parse(args); err != nil {
		t.Fatal(err)
	}
	return c
}

func testMetrics(t testing.TB) *metrics.Metrics {
	t.Helper()
	var c metrics.Config
	fs := pflag.NewFlagSet("test", pflag.ContinueOnError)
	c.Flags(fs)
	if err := fs.Parse(nil); err != nil {
		t.Fatal(err)
	}
	m, err := metrics.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// newProxy makes a Proxy with these flags and routes; a route that is refused fails the test.
func newProxy(t testing.TB, routes string, args ...string) *Proxy {
	t.Helper()
	p, err := New(testConfig(t, args...), testMetrics(t), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if problems := setRoutes(t, p, routes); len(problems) > 0 {
		t.Fatal(problems)
	}
	t.Cleanup(p.pools.close)
	return p
}

func setRoutes(t testing.TB, p *Proxy, routes string) []route.Problem {
	t.Helper()
	return p.Update(snapshot(t, routes)).Problems
}

func snapshot(t testing.TB, routes string) route.Snapshot {
	t.Helper()
	cmds, problems := route.Parse(routes, "test")
	return route.Snapshot{Overrides: cmds, Problems: problems}
}

// serve has p answer on a free port and returns its host:port.
func serve(t testing.TB, p http.Handler) string {
	t.Helper()
	s := httptest.NewUnstartedServer(p)
	s.Config.DisableGeneralOptionsHandler = true
	s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	s.Start()
	t.Cleanup(s.Close)
	return s.Listener.Addr().String()
}

// serveTLS is serve with TLS.
func serveTLS(t testing.TB, p http.Handler) *httptest.Server {
	t.Helper()
	s := httptest.NewUnstartedServer(p)
	s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}

// upstreamServer is an upstream that remembers the last request.
type upstreamServer struct {
	addr string
	got  chan *http.Request
}

// newUpstream starts an upstream; h may be nil.
func newUpstream(t testing.TB, h http.HandlerFunc) *upstreamServer {
	t.Helper()
	u := &upstreamServer{got: make(chan *http.Request, 64)}
	u.addr = serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case u.got <- r.Clone(r.Context()):
		default:
		}
		if h != nil {
			h(w, r)
		}
	}))
	return u
}

// last is the request that the upstream got; it fails the test if there is none.
func (u *upstreamServer) last(t testing.TB) *http.Request {
	t.Helper()
	select {
	case r := <-u.got:
		return r
	case <-time.After(deadline):
		t.Fatal("nothing reached the upstream")
		return nil
	}
}

// untouched fails the test if the upstream got a request. For use after the answer.
func (u *upstreamServer) untouched(t testing.TB) {
	t.Helper()
	select {
	case r := <-u.got:
		t.Errorf("upstream got %s %s", r.Method, r.RequestURI)
	default:
	}
}

// rawServer is an upstream that speaks by hand: serve is called for each connection, in a goroutine of its own.
func rawServer(t testing.TB, serve func(net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			c.SetDeadline(time.Now().Add(deadline))
			go func() {
				defer c.Close()
				serve(c)
			}()
		}
	}()
	return l.Addr().String()
}

// unusedAddr is an address that refuses connections.
func unusedAddr(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// dialRaw connects to addr under the deadline.
func dialRaw(t testing.TB, addr string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(deadline))
	return c
}

// answer is a response read whole.
type answer struct {
	*http.Response
	body string
	err  error // of the body
}

// send writes a request by hand and reads the answer.
func send(t testing.TB, addr, request string) answer {
	t.Helper()
	c := dialRaw(t, addr)
	if _, err := io.WriteString(c, request); err != nil {
		t.Fatal(err)
	}
	method, _, _ := strings.Cut(request, " ")
	return readAnswer(t, bufio.NewReader(c), method)
}

func readAnswer(t testing.TB, r *bufio.Reader, method string) answer {
	t.Helper()
	resp, err := http.ReadResponse(r, &http.Request{Method: method})
	if err != nil {
		t.Fatalf("no answer: %v", err)
	}
	b, err := io.ReadAll(resp.Body)
	return answer{Response: resp, body: string(b), err: err}
}

// get is send for a GET with some header lines.
func get(t testing.TB, addr, target string, header ...string) answer {
	t.Helper()
	h := "Host: foo.com\r\n"
	for _, line := range header {
		if strings.HasPrefix(line, "Host:") {
			h = ""
		}
	}
	for _, line := range header {
		h += line + "\r\n"
	}
	return send(t, addr, "GET "+target+" HTTP/1.1\r\n"+h+"\r\n")
}

func mustURL(s string) *url.URL {
	u, err := url.Parse(s)
	if err != nil {
		panic(err)
	}
	return u
}
