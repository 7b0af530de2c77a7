package proxy

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
)

const (
	testKey    = "dGhlIHNhbXBsZSBub25jZQ==" // RFC 6455 1.3
	testAccept = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="
)

func handshake(lines ...string) string {
	return "GET /ws HTTP/1.1\r\nHost: foo.com\r\n" + strings.Join(append(lines, ""), "\r\n") + "\r\n"
}

var goodHandshake = handshake("Connection: keep-alive, Upgrade", "Upgrade: WebSocket", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: "+testKey)

// echoUpstream is a websocket echo server.
func echoUpstream(t testing.TB) *upstreamServer {
	return newUpstream(t, func(w http.ResponseWriter, r *http.Request) {
		c, err := websocket.Accept(w, r, &websocket.AcceptOptions{InsecureSkipVerify: true})
		if err != nil {
			return
		}
		defer c.CloseNow()
		for {
			kind, b, err := c.Read(r.Context())
			if err != nil {
				return
			}
			if err := c.Write(r.Context(), kind, b); err != nil {
				return
			}
		}
	})
}

func TestWebSocket(t *testing.T) {
	up := echoUpstream(t)
	p := newProxy(t, `route add svc /p http://`+up.addr+`/ opts "strip=/p host=bar.com"`)
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()
	c, _, err := websocket.Dial(ctx, "ws://"+serve(t, p)+"/p/x%2Fy?q", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.CloseNow()
	r := up.last(t)
	if r.RequestURI != "/x%2Fy?q" || r.Host != "bar.com" || r.Header.Get("X-Forwarded-Proto") != "http" {
		t.Errorf("upstream got %s %s %v", r.Host, r.RequestURI, r.Header)
	}
	long := strings.Repeat("x", 30000)
	for _, want := range []string{"hello", long} {
		if err := c.Write(ctx, websocket.MessageText, []byte(want)); err != nil {
			t.Fatal(err)
		}
		if _, got, err := c.Read(ctx); err != nil || string(got) != want {
			t.Fatalf("echo of %d bytes = %d bytes, %v", len(want), len(got), err)
		}
	}
	target := p.Table().Lookup("", "/p", false).Targets[0]
	s, _ := p.Stats(target)
	if s.Open != 1 || s.Codes[1] != 1 || s.InFlight != 0 || p.metrics.WSConns.Value() != 1 {
		t.Errorf("stats of an open tunnel: %+v, %d open", s, p.metrics.WSConns.Value())
	}
	c.Close(websocket.StatusNormalClosure, "")
	waitFor(t, "the end of the tunnel", func() bool {
		s, _ := p.Stats(target)
		return s.Open == 0 && p.metrics.WSConns.Value() == 0 && s.Rx > 30000 && s.Tx > 30000
	})
}

func TestWebSocketOverTLS(t *testing.T) {
	up := serveTLS(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, err := websocket.Accept(w, r, nil)
		if err != nil {
			return
		}
		defer c.CloseNow()
		c.Write(r.Context(), websocket.MessageText, []byte("hello"))
		c.Close(websocket.StatusNormalClosure, "")
	}))
	p := newProxy(t, `route add svc / https://`+up.Listener.Addr().String()+`/ opts "tlsskipverify=true"`)
	front := serveTLS(t, p)
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()
	c, _, err := websocket.Dial(ctx, "wss://"+front.Listener.Addr().String()+"/", &websocket.DialOptions{HTTPClient: front.Client()})
	if err != nil {
		t.Fatal(err)
	}
	defer c.CloseNow()
	if _, got, err := c.Read(ctx); err != nil || string(got) != "hello" {
		t.Errorf("read %q, %v", got, err)
	}
}

func TestMalformedHandshakes(t *testing.T) {
	up := newUpstream(t, nil)
	addr := serve(t, newProxy(t, "route add svc / http://"+up.addr+"/"))
	version, key := "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: "+testKey
	connection, upgrade := "Connection: Upgrade", "Upgrade: websocket"
	for _, c := range []struct {
		name, request string
		status        int
	}{
		{"no key", handshake(connection, upgrade, version), 400},
		{"two keys", handshake(connection, upgrade, version, key, key), 400},
		{"short key", handshake(connection, upgrade, version, "Sec-WebSocket-Key: Zm9v"), 400},
		{"key not base64", handshake(connection, upgrade, version, "Sec-WebSocket-Key: ????????????????????????"), 400},
		{"no version", handshake(connection, upgrade, key), 426},
		{"version 777", handshake(connection, upgrade, key, "Sec-WebSocket-Version: 777"), 426},
		{"POST", strings.Replace(goodHandshake, "GET", "POST", 1), 400},
		{"body", handshake(connection, upgrade, version, key, "Content-Length: 1") + "x", 400},
	} {
		if a := send(t, addr, c.request); a.StatusCode != c.status || a.Header.Get("X-Edge-Error") != "bad_upgrade" {
			t.Errorf("%s: %d %v, want %d", c.name, a.StatusCode, a.Header, c.status)
		}
		up.untouched(t)
	}
}

func TestOtherUpgradesAreOrdinaryRequests(t *testing.T) {
	up := newUpstream(t, nil)
	addr := serve(t, newProxy(t, "route add svc / http://"+up.addr+"/"))
	for _, c := range []struct{ name, request string }{
		{"h2c", handshake("Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA")},
		{"foo", handshake("Connection: Upgrade", "Upgrade: foo")},
		{"list", handshake("Connection: Upgrade", "Upgrade: websocket, h2c", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: "+testKey)},
		{"no Connection", handshake("Upgrade: websocket", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: "+testKey)},
		{"HTTP/1.0", strings.Replace(goodHandshake, "HTTP/1.1", "HTTP/1.0", 1)},
	} {
		if a := send(t, addr, c.request); a.StatusCode != 200 {
			t.Errorf("%s: %d, want 200", c.name, a.StatusCode)
		}
		r := up.last(t)
		for _, name := range []string{"Upgrade", "Connection", "Http2-Settings"} {
			if v, ok := r.Header[name]; ok {
				t.Errorf("%s: upstream got %s: %q", c.name, name, v)
			}
		}
	}
}

// TestNoByteIsLost sends bytes right behind the heads, at both sides.
func TestNoByteIsLost(t *testing.T) {
	got := make(chan string, 1)
	up := rawServer(t, func(c net.Conn) {
		r := bufio.NewReader(c)
		http.ReadRequest(r)
		io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: WebSocket\r\nSec-WebSocket-Accept: "+testAccept+"\r\nX-Up: 1\r\n\r\nfrom the upstream")
		b, _ := io.ReadAll(r) // until the client's half is closed
		got <- string(b)
		io.WriteString(c, " to the end")
	})
	p := newProxy(t, "route add svc / http://"+up+"/")
	conn := dialRaw(t, serve(t, p))
	io.WriteString(conn, goodHandshake+"from the client")
	r := bufio.NewReader(conn)
	resp, err := http.ReadResponse(r, nil)
	if err != nil {
		t.Fatal(err)
	}
	if resp.StatusCode != 101 || resp.Header.Get("Sec-Websocket-Accept") != testAccept || resp.Header.Get("Upgrade") != "websocket" || resp.Header.Get("X-Up") != "1" {
		t.Errorf("answer = %d %v", resp.StatusCode, resp.Header)
	}
	conn.(*net.TCPConn).CloseWrite()
	if b := <-got; b != "from the client" {
		t.Errorf("upstream got %q", b)
	}
	if b, err := io.ReadAll(r); string(b) != "from the upstream to the end" || err != nil {
		t.Errorf("client got %q, %v", b, err)
	}
}

func TestUpstreamSwitchesWrongly(t *testing.T) {
	for _, c := range []struct{ name, head string }{
		{"wrong accept", "Connection: upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: x\r\n"},
		{"no accept", "Connection: upgrade\r\nUpgrade: websocket\r\n"},
		{"other protocol", "Connection: upgrade\r\nUpgrade: foo\r\nSec-WebSocket-Accept: " + testAccept + "\r\n"},
		{"no Connection", "Upgrade: websocket\r\nSec-WebSocket-Accept: " + testAccept + "\r\n"},
	} {
		up := rawServer(t, func(conn net.Conn) {
			http.ReadRequest(bufio.NewReader(conn))
			io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\n"+c.head+"\r\nsecret")
			io.Copy(io.Discard, conn)
		})
		a := send(t, serve(t, newProxy(t, "route add svc / http://"+up+"/")), goodHandshake)
		if a.StatusCode != 502 || strings.Contains(a.body, "secret") {
			t.Errorf("%s: %d %q, want 502", c.name, a.StatusCode, a.body)
		}
	}
}

// TestFailedUpgradeIsDelivered has an upstream refuse with a long body.
func TestFailedUpgradeIsDelivered(t *testing.T) {
	body := strings.Repeat("no. ", 5000)
	up := newUpstream(t, func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(400)
		io.WriteString(w, body)
	})
	a := send(t, serve(t, newProxy(t, "route add svc / http://"+up.addr+"/")), goodHandshake)
	if a.StatusCode != 400 || a.body != body {
		t.Errorf("answer = %d with %d bytes, want 400 with %d", a.StatusCode, len(a.body), len(body))
	}
}

// openTunnel makes a tunnel to an upstream that never says a word.
func openTunnel(t *testing.T, flags ...string) (*Proxy, net.Conn, *bufio.Reader) {
	up := rawServer(t, func(c net.Conn) {
		r := bufio.NewReader(c)
		http.ReadRequest(r)
		io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: "+testAccept+"\r\n\r\n")
		io.Copy(io.Discard, r)
	})
	p := newProxy(t, "route add svc / http://"+up+"/", flags...)
	conn := dialRaw(t, serve(t, p))
	io.WriteString(conn, goodHandshake)
	r := bufio.NewReader(conn)
	resp, err := http.ReadResponse(r, nil)
	if err != nil || resp.StatusCode != 101 {
		t.Fatal(resp, err)
	}
	return p, conn, r
}

func TestIdleTunnelIsClosed(t *testing.T) {
	p, _, r := openTunnel(t, "--proxy.ws.idletimeout=50ms")
	if _, err := r.ReadByte(); err == nil {
		t.Error("read a byte")
	}
	waitFor(t, "the end of the tunnel", func() bool { return p.metrics.WSConns.Value() == 0 })
}

func TestShutdownWaitsForTunnels(t *testing.T) {
	p, conn, _ := openTunnel(t)
	done := make(chan error, 1)
	go func() { done <- p.tunnels.drain(t.Context()) }()
	waitFor(t, "drain to wait", func() bool {
		p.tunnels.mu.Lock()
		defer p.tunnels.mu.Unlock()
		return p.tunnels.empty != nil
	})
	conn.Close()
	if err := waitErr(t, done); err != nil {
		t.Errorf("drain = %v", err)
	}
}

func TestShutdownEndsTunnels(t *testing.T) {
	p, _, r := openTunnel(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := p.Shutdown(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("Shutdown = %v, want canceled", err)
	}
	if _, err := r.ReadByte(); err == nil {
		t.Error("the tunnel is open after Shutdown")
	}
	if got := p.metrics.WSConns.Value(); got != 0 {
		t.Errorf("%d tunnels after Shutdown", got)
	}
}

func waitErr(t *testing.T, c <-chan error) error {
	t.Helper()
	select {
	case err := <-c:
		return err
	case <-time.After(deadline):
		t.Fatal("waited in vain")
		return nil
	}
}

func TestAcceptOf(t *testing.T) {
	if got := acceptOf(testKey); got != testAccept {
		t.Errorf("acceptOf(%q) = %q, want %q", testKey, got, testAccept)
	}
	for _, c := range []struct {
		key  string
		want bool
	}{{testKey, true}, {"", false}, {"dGhlIHNhbXBsZSBub25jZR==", false}, {strings.Repeat("A", 24), false}, {fmt.Sprint(strings.Repeat("A", 22), "=="), true}} {
		if got := validKey(c.key); got != c.want {
			t.Errorf("validKey(%q) = %v, want %v", c.key, got, c.want)
		}
	}
}
