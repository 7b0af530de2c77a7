package proxy

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"
)

// start opens p's listeners and serves them until the test ends; the answer is their addresses.
func start(t testing.TB, p *Proxy) []string {
	t.Helper()
	if err := p.Listen(); err != nil {
		t.Fatal(err)
	}
	var addrs []string
	for _, a := range p.Addrs() {
		addrs = append(addrs, a.String())
	}
	served := make(chan error, 1)
	go func() { served <- p.Serve() }()
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		p.Shutdown(ctx)
		if err := <-served; err != nil {
			t.Errorf("Serve = %v", err)
		}
		waitFor(t, "all connections to be released", func() bool {
			return p.listeners.limit.Conns() == 0 && p.metrics.Connections.Value() == 0
		})
	})
	return addrs
}

// dial connects under the tests' deadline.
func dial(t testing.TB, addr string) *net.TCPConn {
	t.Helper()
	c, err := net.DialTimeout("tcp", addr, deadline)
	if err != nil {
		t.Fatal(err)
	}
	c.SetDeadline(time.Now().Add(deadline))
	t.Cleanup(func() { c.Close() })
	return c.(*net.TCPConn)
}

// wantEnd checks that c ends without another byte.
func wantEnd(t testing.TB, c net.Conn) {
	t.Helper()
	if n, err := c.Read(make([]byte, 1)); n != 0 || err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("read %d bytes, %v, want an end", n, err)
	}
}

func TestListenIsAllOrNothing(t *testing.T) {
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Close()
	probe, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	free := probe.Addr().String()
	probe.Close()
	p := newProxy(t, "", fmt.Sprintf("--proxy.addr=%s,%s;proto=tcp", free, busy.Addr()))
	err = p.Listen()
	want := fmt.Sprintf("proxy.addr: listener %s;proto=tcp;it=1h0m0s: bind: address already in use", busy.Addr())
	if err == nil || err.Error() != want {
		t.Errorf("Listen = %v, want %s", err, want)
	}
	if addrs := p.Addrs(); len(addrs) != 0 {
		t.Errorf("Addrs() = %v after a failure", addrs)
	}
	if c, err := net.Dial("tcp", free); err == nil {
		c.Close()
		t.Error("the other listener stayed open")
	}
	busy.Close()
	if addrs := start(t, p); len(addrs) != 2 || addrs[0] != free {
		t.Errorf("Addrs() = %v", addrs)
	}
}

func TestListenAfterShutdown(t *testing.T) {
	p := newProxy(t, "", "--proxy.addr=127.0.0.1:0,127.0.0.1:0;proto=tcp")
	if err := p.Listen(); err != nil {
		t.Fatal(err)
	}
	if err := p.shutdownListeners(context.Background()); err != nil {
		t.Errorf("shutdown before Serve = %v", err)
	}
	if err := p.Serve(); err != nil {
		t.Errorf("Serve after shutdown = %v", err)
	}
	if err := p.Listen(); err == nil {
		t.Error("Listen after shutdown succeeded")
	}
}

func TestOwnListenersAreNoUpstreams(t *testing.T) {
	p := newProxy(t, "", "--proxy.addr=127.0.0.1:4711,127.0.0.1:0;proto=tcp")
	if problems := setRoutes(t, p, "route add a /a http://127.0.0.1:4711"); len(problems) != 1 {
		t.Errorf("own listener as an upstream: problems %v", problems)
	}
}

func TestConnectionLimitPausesAccept(t *testing.T) {
	up := newUpstream(t, nil)
	p := newProxy(t, "route add a / http://"+up.addr, "--proxy.addr=127.0.0.1:0", "--proxy.limit.connections=2")
	addr := start(t, p)[0]
	var conns []*net.TCPConn
	for range 3 {
		c := dial(t, addr)
		io.WriteString(c, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
		conns = append(conns, c)
	}
	for _, c := range conns[:2] {
		readResponse(t, c, 200)
	}
	waitFor(t, "the third to wait", func() bool { return p.metrics.ConnLimited.Value() == 1 })
	if n := p.metrics.Connections.Value(); n > 2 {
		t.Errorf("%d connections, want 2 at most", n)
	}
	if *testEngine == "std" { // it cannot end one of the two, which wait for their next request
		conns[0].Close()
	}
	readResponse(t, conns[2], 200)
}

func readResponse(t testing.TB, c net.Conn, status int) *http.Response {
	t.Helper()
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	io.Copy(io.Discard, resp.Body)
	if resp.StatusCode != status {
		t.Errorf("status %d, want %d", resp.StatusCode, status)
	}
	return resp
}

func TestHTTPListenerLimitsHead(t *testing.T) {
	p := newProxy(t, "", "--proxy.addr=127.0.0.1:0", "--proxy.limit.header=2048")
	addr := start(t, p)[0]
	c := dial(t, addr)
	io.WriteString(c, "GET / HTTP/1.1\r\nHost: a\r\nX: "+strings.Repeat("x", 16<<10)+"\r\n\r\n")
	readResponse(t, c, 431)
}

func TestHTTPListenerTimeouts(t *testing.T) {
	release := make(chan struct{})
	defer close(release)
	up := newUpstream(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/wait" {
			<-release
		}
		io.Copy(io.Discard, r.Body)
	})
	get := "GET / HTTP/1.1\r\nHost: a\r\n\r\n"
	lateHeads := 1 // answered with 408
	if *testEngine == "std" {
		lateHeads = 0
	}
	tests := []struct {
		name, addr, flag, send string
		answers                int
	}{
		{"head", "127.0.0.1:0", "--proxy.headertimeout=50ms", "GET / HTTP/1.1\r\nHost:", lateHeads},
		{"idle", "127.0.0.1:0", "--proxy.idletimeout=50ms", get, 1},
		{"it", "127.0.0.1:0;it=50ms", "--proxy.idletimeout=1h", get, 1},
		{"body", "127.0.0.1:0", "--proxy.bodytimeout=50ms", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n1234", 1},
		{"rt", "127.0.0.1:0;rt=50ms", "--proxy.bodytimeout=1h", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n1234", 1},
		{"read", "127.0.0.1:0", "--proxy.readtimeout=50ms", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n", 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p := newProxy(t, "route add a / http://"+up.addr, "--proxy.addr="+tt.addr, tt.flag)
			c := dial(t, start(t, p)[0])
			io.WriteString(c, tt.send)
			r := bufio.NewReader(c)
			for range tt.answers {
				resp, err := http.ReadResponse(r, nil)
				if err != nil {
					t.Fatal(err)
				}
				io.Copy(io.Discard, resp.Body)
			}
			if _, err := r.ReadByte(); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("read %v, want an end", err)
			}
		})
	}
}

func TestHTTPListenerCutsStalledReader(t *testing.T) {
	left := make(chan struct{})
	up := newUpstream(t, func(w http.ResponseWriter, r *http.Request) {
		defer close(left)
		buf := make([]byte, 64<<10)
		for {
			if _, err := w.Write(buf); err != nil {
				return
			}
		}
	})
	p := newProxy(t, "route add a / http://"+up.addr, "--proxy.addr=127.0.0.1:0", "--proxy.stalltimeout=100ms")
	c := dial(t, start(t, p)[0])
	io.WriteString(c, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
	select {
	case <-left: // nobody reads the answer
	case <-time.After(deadline):
		t.Error("the upstream was not released")
	}
	waitFor(t, "the connection to end", func() bool { return p.metrics.Connections.Value() == 0 })
}

func TestHTTPListenerHandsOptionsStarOver(t *testing.T) {
	p := newProxy(t, "", "--proxy.addr=127.0.0.1:0")
	c := dial(t, start(t, p)[0])
	io.WriteString(c, "OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n")
	if resp := readResponse(t, c, 200); resp.Header.Get("Allow") == "" { // net/http's own answer has none
		t.Errorf("header %v", resp.Header)
	}
}

func TestHTTPListenerSpeaksNoHTTP2(t *testing.T) {
	p := newProxy(t, "", "--proxy.addr=127.0.0.1:0")
	c := dial(t, start(t, p)[0])
	io.WriteString(c, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
	answer, err := io.ReadAll(c)
	if err != nil || strings.HasPrefix(string(answer), "\x00") || strings.HasPrefix(string(answer), "HTTP/1.1 2") {
		t.Errorf("answer %q, %v", answer, err)
	}
}

// TestBodyGuardLiftsDeadline has a handler that answers long after the body's timeout: what the server reads ahead
// must not end the request.
func TestBodyGuardLiftsDeadline(t *testing.T) {
	stalled := make(chan error, 1)
	stall := 50 * time.Millisecond
	addr := serve(t, &bodyGuard{stall: stall, next: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, err := io.ReadAll(r.Body)
		if r.URL.Path == "/stalls" {
			stalled <- err
			return
		}
		// Another request that begins now and runs into the timeout shows that the time is over.
		select {
		case <-stalled:
		case <-r.Context().Done():
			t.Error("the request was cancelled")
		}
		w.Header().Set("X-Body-Err", fmt.Sprint(err))
	})})
	slow := dial(t, addr)
	io.WriteString(slow, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\n1234")
	other := dial(t, addr)
	io.WriteString(other, "POST /stalls HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\n12")
	if got := readResponse(t, slow, 200).Header.Get("X-Body-Err"); got != "<nil>" {
		t.Errorf("body: %s", got)
	}
}

func TestBodyGuardFailsStalledBody(t *testing.T) {
	got := make(chan error, 1)
	addr := serve(t, &bodyGuard{stall: 50 * time.Millisecond, next: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, err := io.ReadAll(r.Body)
		got <- err
	})})
	c := dial(t, addr)
	io.WriteString(c, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\n12")
	if err := <-got; !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("body: %v, want os.ErrDeadlineExceeded", err)
	}
}

// TestBodyGuardBoundsUnreadBody has a handler that does not read: the server reads the rest itself, and must not wait
// for it for ever.
func TestBodyGuardBoundsUnreadBody(t *testing.T) {
	addr := serve(t, &bodyGuard{stall: 50 * time.Millisecond, next: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {})})
	c := dial(t, addr)
	io.WriteString(c, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\n12")
	readResponse(t, c, 200)
	wantEnd(t, c)
}

func TestHTTPShutdownDrains(t *testing.T) {
	began, release := make(chan struct{}), make(chan struct{})
	up := newUpstream(t, func(w http.ResponseWriter, r *http.Request) {
		close(began)
		<-release
	})
	p := newProxy(t, "route add a / http://"+up.addr, "--proxy.addr=127.0.0.1:0")
	addr := start(t, p)[0]
	c := dial(t, addr)
	io.WriteString(c, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
	<-began
	done := make(chan error, 1)
	go func() { done <- p.shutdownListeners(context.Background()) }()
	waitFor(t, "the listener to close", func() bool {
		c, err := net.Dial("tcp", addr)
		if err == nil {
			c.Close()
		}
		return err != nil
	})
	select {
	case err := <-done:
		t.Fatalf("shutdown did not wait: %v", err)
	default:
	}
	close(release)
	if resp := readResponse(t, c, 200); !resp.Close {
		t.Error("the answer does not say Connection: close")
	}
	if err := <-done; err != nil {
		t.Errorf("shutdown = %v", err)
	}
}

func TestHTTPShutdownCuts(t *testing.T) {
	began, release := make(chan struct{}), make(chan struct{})
	defer close(release)
	up := newUpstream(t, func(w http.ResponseWriter, r *http.Request) {
		close(began)
		<-release
	})
	p := newProxy(t, "route add a / http://"+up.addr, "--proxy.addr=127.0.0.1:0")
	addr := start(t, p)[0]
	c := dial(t, addr)
	io.WriteString(c, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
	<-began
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := p.shutdownListeners(ctx); !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), addr) {
		t.Errorf("shutdown = %v, want one that names %s", err, addr)
	}
	wantEnd(t, c)
}
