package proxy

import (
	"bufio"
	"context"
	"crypto/sha1"
	"encoding/base64"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"varco/metrics"
	"varco/proxy/wire"
)

// WebSocket is the only protocol that varco switches to, and only after a handshake that is in order on both sides
// (RFC 6455 4): a tunnel through which nobody looks must not be had by asking for something else, or by an upstream
// that says 101 to what it did not understand. A request to upgrade to anything else is an ordinary request; RFC 9110
// 7.8 lets a server ignore Upgrade.

// checkUpgrade looks whether the request is a websocket handshake; false means that it was one out of order and has
// been answered.
func (x *exchange) checkUpgrade() bool {
	r := x.req
	upgrade := r.Header["Upgrade"]
	if upgrade == nil || !r.ProtoAtLeast(1, 1) || len(upgrade) != 1 || !strings.EqualFold(upgrade[0], "websocket") ||
		!hasToken(r.Header["Connection"], "upgrade") {
		return true
	}
	key := r.Header["Sec-Websocket-Key"]
	switch {
	case r.Method != http.MethodGet, x.body != nil, len(key) != 1, !validKey(key[0]):
		x.Header()["Connection"] = []string{"close"}
		x.fail(http.StatusBadRequest, codeUpgrade, "malformed websocket handshake")
		return false
	case len(r.Header["Sec-Websocket-Version"]) != 1 || r.Header["Sec-Websocket-Version"][0] != "13":
		x.Header()["Sec-Websocket-Version"] = []string{"13"}
		x.fail(http.StatusUpgradeRequired, codeUpgrade, "websocket version 13 required")
		return false
	}
	x.upgrade = true
	return true
}

// validKey reports whether s is 16 bytes in base64.
func validKey(s string) bool {
	b, err := base64.StdEncoding.Strict().DecodeString(s)
	return err == nil && len(b) == 16
}

// acceptOf is the Sec-WebSocket-Accept that answers a key.
func acceptOf(key string) string {
	sum := sha1.Sum([]byte(key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"))
	return base64.StdEncoding.EncodeToString(sum[:])
}

// switchProtocols makes a tunnel of the exchange once the upstream has agreed in due form.
func (x *exchange) switchProtocols(resp *http.Response) {
	upstream, ok := resp.Body.(io.ReadWriteCloser)
	if !ok || !x.upgrade || !x.accepted(resp.Header) {
		x.up.stats.UpstreamError(metrics.ErrProtocol)
		x.fail(http.StatusBadGateway, codeProtocol, "upstream answered nonsense")
		return
	}
	h := make(http.Header, len(resp.Header))
	copyResponseHeader(h, resp.Header)
	delete(h, "Content-Length")
	h["Connection"] = []string{"Upgrade"}
	h["Upgrade"] = []string{"websocket"}
	conn, buffered, err := http.NewResponseController(x.w).Hijack()
	if err != nil {
		x.fail(http.StatusInternalServerError, codePanic, "internal error")
		return
	}
	x.hijacked, x.wrote, x.status = true, true, http.StatusSwitchingProtocols
	x.tunnel(withBuffered(conn, buffered.Reader), upstream, h)
}

// accepted checks an upstream's 101 (RFC 6455 4.1).
func (x *exchange) accepted(h http.Header) bool {
	upgrade, accept := h["Upgrade"], h["Sec-Websocket-Accept"]
	return len(upgrade) == 1 && strings.EqualFold(upgrade[0], "websocket") &&
		hasToken(h["Connection"], "upgrade") &&
		len(accept) == 1 && accept[0] == acceptOf(x.req.Header["Sec-Websocket-Key"][0])
}

// tunnel tells the client of the switch and copies both ways until both sides have ended.
func (x *exchange) tunnel(client, upstream io.ReadWriteCloser, h http.Header) {
	u := x.up
	opened := time.Now()
	x.finish(http.StatusSwitchingProtocols, opened.Sub(x.start))
	done := x.p.tunnels.add(client, upstream)
	defer done() // last: who waits for the tunnels finds them counted
	x.p.metrics.WSConns.Inc()
	u.stats.ConnOpen()
	defer func() {
		u.stats.ConnClose(time.Since(opened))
		x.p.metrics.WSConns.Dec()
	}()

	var head strings.Builder
	head.WriteString("HTTP/1.1 101 Switching Protocols\r\n")
	h.Write(&head)
	head.WriteString("\r\n")
	if _, err := io.WriteString(client, head.String()); err != nil {
		client.Close()
		return
	}
	var back int64
	wire.Relay{
		Idle:  x.p.config.HTTP.TunnelIdleTimeout,
		Forth: u.stats.AddTx,
		Back:  func(n int64) { back += n; u.stats.AddRx(n) },
	}.Run(client, upstream)
	x.bytes = back
}

// bufferedConn is a connection of which some bytes were read already.
type bufferedConn struct {
	net.Conn
	r *bufio.Reader
}

// withBuffered gives conn back the bytes that the server has read beyond the request.
func withBuffered(conn net.Conn, r *bufio.Reader) io.ReadWriteCloser {
	if r == nil || r.Buffered() == 0 {
		return conn
	}
	return &bufferedConn{Conn: conn, r: r}
}

func (c *bufferedConn) Read(p []byte) (int, error) { return c.r.Read(p) }

func (c *bufferedConn) CloseWrite() error {
	if cw, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return cw.CloseWrite()
	}
	return nil
}

// tunnels are the open ones: the server has handed their connections over and does not wait for them at its end.
type tunnels struct {
	mu     sync.Mutex
	open   map[io.Closer]io.Closer // client to upstream
	closed bool
	empty  chan struct{} // closed when drain waits and the last tunnel has ended
}

// add has the tunnel ended by drain; the answer is to be called at its end.
func (t *tunnels) add(client, upstream io.Closer) (done func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		client.Close()
		upstream.Close()
	}
	if t.open == nil {
		t.open = map[io.Closer]io.Closer{}
	}
	t.open[client] = upstream
	return func() { t.remove(client) }
}

func (t *tunnels) remove(client io.Closer) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.open, client)
	if len(t.open) == 0 && t.empty != nil {
		close(t.empty)
		t.empty = nil
	}
}

// drain waits until all tunnels have ended; when ctx ends first it ends the rest, waits for them and returns its
// error.
func (t *tunnels) drain(ctx context.Context) error {
	t.mu.Lock()
	if len(t.open) == 0 {
		t.closed = true
		t.mu.Unlock()
		return nil
	}
	empty := make(chan struct{})
	t.empty = empty
	t.mu.Unlock()
	select {
	case <-empty:
		return nil
	case <-ctx.Done():
	}
	t.mu.Lock()
	t.closed = true
	for client, upstream := range t.open {
		client.Close()
		upstream.Close()
	}
	t.mu.Unlock()
	<-empty
	return ctx.Err()
}
