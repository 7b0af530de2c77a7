package proxy

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"testing"

	proxyproto "github.com/pires/go-proxyproto"

	"varco/route"
)

// tcpServer is an upstream: serve gets each connection.
func tcpServer(t testing.TB, serve func(c *net.TCPConn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				serve(c.(*net.TCPConn))
			}()
		}
	}()
	t.Cleanup(func() { l.Close() })
	return l.Addr().String()
}

// echo sends everything back and ends when the client has ended.
func echo(c *net.TCPConn) { io.Copy(c, c) }

// says sends a word and then echoes.
func says(word string) func(c *net.TCPConn) {
	return func(c *net.TCPConn) {
		io.WriteString(c, word+"\n")
		echo(c)
	}
}

// deadAddr is an address where nobody listens.
func deadAddr(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// startTCP serves one TCP listener; in routes, ":port" stands for its own port.
func startTCP(t testing.TB, routes, listen string, args ...string) (*Proxy, string) {
	t.Helper()
	p := newProxy(t, "", append(args, "--proxy.addr=127.0.0.1:0;proto=tcp"+listen)...)
	addr := start(t, p)[0]
	setTCPRoutes(t, p, addr, routes)
	return p, addr
}

func setTCPRoutes(t testing.TB, p *Proxy, addr, routes string) {
	t.Helper()
	_, port, _ := net.SplitHostPort(addr)
	if problems := setRoutes(t, p, strings.ReplaceAll(routes, ":port", ":"+port)); len(problems) > 0 {
		t.Fatal(problems)
	}
}

func readLine(t testing.TB, r io.Reader) string {
	t.Helper()
	var line []byte
	for b := make([]byte, 1); ; {
		if _, err := io.ReadFull(r, b); err != nil {
			t.Fatalf("after %q: %v", line, err)
		}
		if b[0] == '\n' {
			return string(line)
		}
		line = append(line, b[0])
	}
}

func TestTCPCarriesHalfClose(t *testing.T) {
	up := tcpServer(t, func(c *net.TCPConn) {
		request, _ := io.ReadAll(c) // ends with the client's FIN
		c.Write(bytes.ToUpper(request))
	})
	p, addr := startTCP(t, "route add svc :port tcp://"+up, "")
	c := dial(t, addr)
	io.WriteString(c, "question")
	c.CloseWrite()
	if got, err := io.ReadAll(c); string(got) != "QUESTION" || err != nil {
		t.Errorf("read %q, %v", got, err)
	}
	waitFor(t, "the tunnel to end", func() bool { return p.metrics.TCPConns.Value() == 0 })
	if n := p.metrics.TCPConn.Value(); n != 1 {
		t.Errorf("tcp.conn = %d, want 1", n)
	}
}

func TestTCPServerMaySpeakFirst(t *testing.T) {
	for _, option := range []string{"", `opts "pxyproto=true"`} {
		up := tcpServer(t, says("220 ready"))
		_, addr := startTCP(t, fmt.Sprintf("route add svc :port tcp://%s %s", up, option), "")
		if got := readLine(t, dial(t, addr)); got != "220 ready" {
			t.Errorf("read %q", got)
		}
	}
}

func TestTCPCarriesReset(t *testing.T) {
	ended := make(chan error, 1)
	up := tcpServer(t, func(c *net.TCPConn) {
		c.Write([]byte("x\n"))
		_, err := c.Read(make([]byte, 1))
		ended <- err
	})
	_, addr := startTCP(t, "route add svc :port tcp://"+up, "")
	c := dial(t, addr)
	readLine(t, c)
	c.SetLinger(0)
	c.Close()
	if err := <-ended; err == nil || err == io.EOF {
		t.Errorf("upstream read %v, want a reset", err)
	}
}

func TestTCPCountsWhileOpen(t *testing.T) {
	up := tcpServer(t, says("hello"))
	p, addr := startTCP(t, "route add svc :port tcp://"+up, "")
	c := dial(t, addr)
	io.WriteString(c, "four\n")
	readLine(t, c)
	readLine(t, c)
	var target *route.Target
	for r := range p.Table().All() {
		target = r.Targets[0]
	}
	waitFor(t, "the bytes to be counted", func() bool {
		s, ok := p.Stats(target)
		return ok && s.Rx == 11 && s.Tx == 5
	})
	if n := p.metrics.TCPConns.Value(); n != 1 {
		t.Errorf("%d open, want 1", n)
	}
}

func TestTCPWithoutRouteIsClosed(t *testing.T) {
	p, addr := startTCP(t, "", "")
	wantEnd(t, dial(t, addr))
	if a, b := p.metrics.TCPNoRoute.Value(), p.metrics.NotFound.Value(); a != 1 || b != 1 {
		t.Errorf("tcp.noroute = %d, notfound = %d, want 1 and 1", a, b)
	}
}

func TestTCPRouteWithoutTarget(t *testing.T) {
	p, addr := startTCP(t, "", "")
	_, port, _ := net.SplitHostPort(addr)
	p.Update(route.Snapshot{Overrides: []route.Command{{Verb: route.Add, Service: "svc", Src: ":" + port, Down: true}}})
	wantEnd(t, dial(t, addr))
	if a, b := p.metrics.RouteDown.Value(), p.metrics.TCPNoRoute.Value(); a != 1 || b != 0 {
		t.Errorf("route down = %d, tcp.noroute = %d, want 1 and 0", a, b)
	}
}

func TestTCPAccess(t *testing.T) {
	up := tcpServer(t, says("hello"))
	for _, tt := range []struct {
		opts   string
		denied uint64
	}{
		{"allow=ip:127.0.0.0/8", 0},
		{"deny=ip:10.0.0.0/8", 0},
		{"allow=ip:10.0.0.0/8", 1},
		{"deny=ip:127.0.0.1", 1},
	} {
		p, addr := startTCP(t, fmt.Sprintf(`route add svc :port tcp://%s opts "%s"`, up, tt.opts), "")
		c := dial(t, addr)
		if tt.denied > 0 {
			wantEnd(t, c)
		} else if got := readLine(t, c); got != "hello" {
			t.Errorf("%s: read %q", tt.opts, got)
		}
		if got := p.metrics.TCPDenied.Value(); got != tt.denied {
			t.Errorf("%s: denied %d, want %d", tt.opts, got, tt.denied)
		}
	}
}

func TestTCPTriesAnotherTarget(t *testing.T) {
	up := tcpServer(t, says("alive"))
	p, addr := startTCP(t, fmt.Sprintf("route add svc :port tcp://%s\nroute add svc :port tcp://%s", deadAddr(t), up), "", "--proxy.strategy=rr")
	for range 6 {
		c := dial(t, addr)
		if got := readLine(t, c); got != "alive" {
			t.Errorf("read %q", got)
		}
		c.Close()
	}
	if n := p.metrics.TCPConnFail.Value(); n != 0 {
		t.Errorf("tcp.connfail = %d, want 0", n)
	}
}

func TestTCPAllTargetsDead(t *testing.T) {
	p, addr := startTCP(t, fmt.Sprintf("route add svc :port tcp://%s\nroute add svc :port tcp://%s", deadAddr(t), deadAddr(t)), "")
	wantEnd(t, dial(t, addr))
	if n := p.metrics.TCPConnFail.Value(); n != 1 {
		t.Errorf("tcp.connfail = %d, want 1", n)
	}
}

func TestTCPTellsUpstreamTheClient(t *testing.T) {
	type result struct {
		header *proxyproto.Header
		rest   string
		err    error
	}
	for option, version := range map[string]byte{"true": 1, "v1": 1, "v2": 2} {
		got := make(chan result, 1)
		up := tcpServer(t, func(c *net.TCPConn) {
			r := bufio.NewReader(c)
			h, err := proxyproto.Read(r)
			rest, _ := io.ReadAll(r)
			got <- result{h, string(rest), err}
		})
		_, addr := startTCP(t, fmt.Sprintf(`route add svc :port tcp://%s opts "pxyproto=%s"`, up, option), "")
		c := dial(t, addr)
		io.WriteString(c, "payload")
		c.CloseWrite()
		r := <-got
		if r.err != nil || r.rest != "payload" || r.header.Version != version ||
			r.header.SourceAddr.String() != c.LocalAddr().String() || r.header.DestinationAddr.String() != addr {
			t.Errorf("pxyproto=%s: %+v, %q, %v", option, r.header, r.rest, r.err)
		}
	}
}

func TestTCPConnectionSurvivesUpdates(t *testing.T) {
	first, second := tcpServer(t, says("first")), tcpServer(t, says("second"))
	p, addr := startTCP(t, "route add svc :port tcp://"+first, "")
	old := dial(t, addr)
	readLine(t, old)
	for _, routes := range []string{
		"route add svc :port tcp://" + first + "\nroute add other /x http://127.0.0.1:1",
		"route add svc :port tcp://" + second,
		"",
	} {
		setTCPRoutes(t, p, addr, routes)
		io.WriteString(old, "still there\n")
		if got := readLine(t, old); got != "still there" {
			t.Errorf("read %q", got)
		}
	}
	setTCPRoutes(t, p, addr, "route add svc :port tcp://"+second)
	if got := readLine(t, dial(t, addr)); got != "second" {
		t.Errorf("a new connection went to %q", got)
	}
}

func TestTCPTimeouts(t *testing.T) {
	for _, tt := range []struct{ listen, flag string }{
		{";it=50ms", "--proxy.tcp.idletimeout=1h"},
		{"", "--proxy.tcp.idletimeout=50ms"},
		{";rt=50ms", "--proxy.tcp.idletimeout=1h"},
		{"", "--proxy.readtimeout=50ms"},
	} {
		t.Run(tt.listen+tt.flag, func(t *testing.T) {
			t.Parallel()
			up := tcpServer(t, says("hello"))
			_, addr := startTCP(t, "route add svc :port tcp://"+up, tt.listen, tt.flag)
			c := dial(t, addr)
			readLine(t, c)
			wantEnd(t, c)
		})
	}
}

func TestTCPShutdownDrains(t *testing.T) {
	up := tcpServer(t, says("hello"))
	p, addr := startTCP(t, "route add svc :port tcp://"+up, "")
	c := dial(t, addr)
	readLine(t, c)
	done := make(chan error, 1)
	go func() { done <- p.shutdownListeners(context.Background()) }()
	waitFor(t, "the listener to close", func() bool {
		c, err := net.Dial("tcp", addr)
		if err == nil {
			c.Close()
		}
		return err != nil
	})
	io.WriteString(c, "still there\n")
	if got := readLine(t, c); got != "still there" {
		t.Errorf("read %q", got)
	}
	select {
	case err := <-done:
		t.Fatalf("shutdown did not wait: %v", err)
	default:
	}
	c.Close()
	if err := <-done; err != nil {
		t.Errorf("shutdown = %v", err)
	}
}

func TestTCPShutdownCuts(t *testing.T) {
	up := tcpServer(t, says("hello"))
	p, addr := startTCP(t, "route add svc :port tcp://"+up, "")
	c := dial(t, addr)
	readLine(t, c)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	err := p.shutdownListeners(ctx)
	if !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "1 connections were cut") {
		t.Errorf("shutdown = %v", err)
	}
	wantEnd(t, c)
	if err := p.shutdownListeners(ctx); err != nil {
		t.Errorf("second shutdown = %v", err)
	}
}

func TestTCPPanicCostsOneConnection(t *testing.T) {
	up := tcpServer(t, says("hello"))
	p, addr := startTCP(t, "route add svc :port tcp://"+up, "")
	var logged syncBuffer
	p.log = slog.New(slog.NewTextHandler(&logged, nil))
	good := p.state.Load()
	builder, err := route.NewBuilder(route.Config{Matcher: "prefix", Strategy: "rnd"}) // binds nothing
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(addr)
	p.state.Store(&state{table: builder.Build(snapshot(t, fmt.Sprintf("route add svc :%s tcp://%s", port, up))).Table})
	wantEnd(t, dial(t, addr))
	waitFor(t, "the panic to be counted", func() bool { return p.metrics.Panics.Value() == 1 })
	p.state.Store(good)
	if got := readLine(t, dial(t, addr)); got != "hello" {
		t.Errorf("after the panic read %q", got)
	}
	if !strings.Contains(logged.String(), "panic while serving a TCP connection") {
		t.Errorf("logged %q", logged.String())
	}
}
