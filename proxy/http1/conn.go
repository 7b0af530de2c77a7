package http1

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"
)

// The phases of a connection.
const (
	phaseIdle    = iota // waits for a request
	phaseActive         // has a request, or part of one
	phaseEnding         // told to end while idle
	phaseForeign        // hijacked
)

// conn is one client connection. What a request needs is in x, which a connection holds only while it has one.
type conn struct {
	srv   *Server
	nc    net.Conn     // read and written
	outer net.Conn     // closed and given away; nc or what wraps it
	tcp   *net.TCPConn // nc if it is plain TCP
	src   source
	x     *exchange
	ctx   *requestContext
	tls   *tls.ConnectionState
	from  string // RemoteAddr
	phase atomic.Int32
	since atomic.Int64 // when the handler was called, in Unix nanoseconds; 0 when none runs
	// idleSince is when the connection began to wait for a request, in Unix nanoseconds.
	idleSince atomic.Int64

	began         time.Time // when the request did; set only where a limit needs it
	writeUntil    time.Time // the whole response's deadline
	writeDeadline time.Time
	ownDeadline   bool // the handler set one
	aborted       bool // the response is cut: it must not look complete
}

// exchange is a request and its response. Exchanges are pooled.
type exchange struct {
	head requestHead
	url  url.URL
	req  *http.Request
	hdr  http.Header
	vals []string
	body *body
	resp response
	out  []byte
}

var exchanges = sync.Pool{New: func() any {
	return &exchange{
		hdr:  make(http.Header, 16),
		vals: make([]string, 0, 24),
		out:  make([]byte, 0, 2<<10),
		resp: response{header: make(http.Header, 16)},
	}
}}

func (c *conn) serve() {
	c.src.init(c.nc)
	c.from = c.nc.RemoteAddr().String()
	c.ctx = &requestContext{local: c.nc.LocalAddr()}
	keep := false
	defer func() {
		if c.phase.Load() != phaseForeign {
			c.end(keep)
		}
	}()
	if t, ok := c.nc.(*tls.Conn); ok {
		if !c.handshake(t) {
			return
		}
	}
	for {
		if !c.await() {
			return
		}
		c.x = exchanges.Get().(*exchange)
		keep = c.exchange()
		if c.phase.Load() == phaseForeign {
			c.x = nil // it belongs to whoever hijacked the connection
			return
		}
		c.putExchange()
		if !keep || !c.phase.CompareAndSwap(phaseActive, phaseIdle) {
			return
		}
		if c.srv.draining.Load() || c.srv.shedNext.Load() && c.srv.shedNext.Swap(false) {
			return
		}
	}
}

func (c *conn) handshake(t *tls.Conn) bool {
	ctx, cancel := context.WithTimeout(context.Background(), c.srv.HeadTimeout)
	defer cancel()
	if err := t.HandshakeContext(ctx); err != nil {
		c.refused(0, "TLS handshake failed")
		return false
	}
	st := t.ConnectionState()
	c.tls = &st
	return true
}

// await waits for the first byte of a request; false means that the connection is to end.
func (c *conn) await() bool {
	if c.src.buffered() == 0 {
		now := time.Now()
		c.idleSince.Store(now.UnixNano())
		c.src.within(c.srv.IdleTimeout, now)
		if c.phase.Load() == phaseEnding {
			return false
		}
		if err := c.src.fill(bufferSize); err != nil {
			return false
		}
	}
	return c.phase.CompareAndSwap(phaseIdle, phaseActive)
}

// endIdle ends the connection if it is idle, and reports whether it was.
func (c *conn) endIdle() bool {
	if !c.phase.CompareAndSwap(phaseIdle, phaseEnding) {
		return false
	}
	c.nc.SetReadDeadline(longAgo)
	return true
}

// exchange reads one request, has it handled, and reports whether another may follow.
func (c *conn) exchange() bool {
	x := c.x
	x.resp = response{c: c, header: x.resp.header, trailers: x.resp.trailers[:0]}
	if c.srv.ReadTimeout > 0 {
		c.began = time.Now()
	}
	if err := c.readHead(); err != nil {
		c.refuse(err)
		return false
	}
	if d := c.srv.ResponseTimeout; d > 0 {
		c.writeUntil = time.Now().Add(d)
		c.writeDeadline = time.Time{}
	}
	if err := c.prepare(); err != nil {
		c.refuse(err)
		return false
	}
	if !c.handle() {
		return false
	}
	w := &x.resp
	if w.hijacked {
		return false
	}
	whole := w.finish()
	if !whole || w.closing {
		if whole {
			c.drain()
		}
		return false
	}
	return c.drain()
}

// readHead reads and parses a request head.
func (c *conn) readHead() error {
	s := c.srv
	l := limits{s.MaxLine, s.MaxHead, s.MaxFields}
	var scan headScanner
	started := false
	for {
		n, err := scan.scan(c.src.bytes(), l)
		if err != nil {
			return err
		}
		if n > 0 {
			text := string(c.src.bytes()[:n])
			c.src.discard(n)
			c.x.vals, err = parseRequest(text, &c.x.head, &c.x.url, c.x.hdr, c.x.vals[:0])
			return err
		}
		if !started {
			started = true
			c.src.within(s.HeadTimeout, time.Now())
		} // no later: the deadline stands for the whole head
		if err := c.src.fill(s.MaxHead); err != nil {
			if isTimeout(err) {
				return errHeadTimeout
			}
			return err
		}
	}
}

// prepare makes the http.Request of a parsed head.
func (c *conn) prepare() error {
	x, q := c.x, &c.x.head
	r := x.req
	if r == nil || r.Context() != context.Context(c.ctx) {
		r = (&http.Request{}).WithContext(c.ctx)
		x.req = r
	}
	r.Method, r.URL, r.Header = q.method, &x.url, x.hdr
	r.Proto, r.ProtoMajor, r.ProtoMinor = "HTTP/1.1", 1, q.minor
	if q.minor == 0 {
		r.Proto = "HTTP/1.0"
	}
	r.Host, r.RemoteAddr, r.RequestURI, r.TLS = q.host, c.from, q.target, c.tls
	r.Body, r.ContentLength, r.TransferEncoding, r.Trailer = http.NoBody, 0, nil, nil
	r.Close = q.close
	r.GetBody, r.Form, r.PostForm, r.MultipartForm, r.Response, r.Pattern = nil, nil, nil, nil, nil, ""
	delete(x.hdr, "Host")
	x.resp.closing = q.close || q.minor == 0 && !q.keepAlive
	x.body = nil
	if q.hasTrailer {
		t, err := announcedTrailer(x.hdr)
		if err != nil {
			return err
		}
		if q.chunked {
			r.Trailer = t
		}
	}
	if q.expect != "" && !hasToken([]string{q.expect}, "100-continue") {
		return &messageError{http.StatusExpectationFailed, "unknown expectation"}
	}
	if !q.chunked && q.length <= 0 {
		return nil
	}
	// A body is not pooled: a transport's writer may hold it longer than the request lives.
	b := &body{src: &c.src, timeout: c.srv.BodyTimeout, left: q.length}
	if c.srv.ReadTimeout > 0 {
		b.until = c.began.Add(c.srv.ReadTimeout)
	}
	x.body = b
	r.Body, r.ContentLength = b, q.length
	if q.chunked {
		delete(x.hdr, "Transfer-Encoding")
		r.ContentLength, r.TransferEncoding = -1, chunkedCoding
		b.kind, b.left, b.trailer = bodyChunked, 0, &r.Trailer
	}
	if q.expect != "" && q.minor == 1 {
		b.before = c.sendContinue
		return nil
	}
	return b.checkFirst()
}

var chunkedCoding = []string{"chunked"}

// sendContinue tells a client that waits for it to send its body (RFC 9110 section 10.1.1).
func (c *conn) sendContinue() error {
	w := &c.x.resp
	if w.sent || w.hijacked {
		return nil
	}
	c.writeSoon()
	_, err := io.WriteString(c.nc, "HTTP/1.1 100 Continue\r\n\r\n")
	return err
}

func (b *body) sentContinue() {
	if b != nil {
		b.before = nil
	}
}

// handle calls the handler; false means that the connection must end at once.
func (c *conn) handle() (ok bool) {
	c.since.Store(time.Now().UnixNano())
	defer func() {
		c.since.Store(0)
		if p := recover(); p != nil {
			ok = false
			if p == http.ErrAbortHandler {
				c.aborted = true
				return
			}
			if c.srv.Panicked != nil {
				c.srv.Panicked(p)
			}
			if c.srv.Log != nil {
				c.srv.Log.Error("panic in handler", "panic", p, "stack", string(debug.Stack()))
			}
			if w := &c.x.resp; !w.sent && !w.hijacked {
				c.answer(http.StatusInternalServerError)
			}
		}
	}()
	c.srv.Handler.ServeHTTP(&c.x.resp, c.x.req)
	return true
}

// drain reads what the handler left of the body, within bounds, so that the next request starts where it should.
func (c *conn) drain() bool {
	b := c.x.body
	if b == nil {
		return true
	}
	c.takeBody(b)
	defer b.mu.Unlock()
	if b.complete() {
		return true
	}
	if b.err != nil && b.err != errBodyClosed || b.before != nil {
		return false // broken, or never asked for: the client may or may not send it
	}
	b.err = nil
	b.timeout, b.until = drainTime, time.Time{}
	bp := copyBuffers.Get().(*[]byte)
	defer copyBuffers.Put(bp)
	until := time.Now().Add(drainTime)
	for n := 0; n < drainBytes && time.Now().Before(until); {
		m, err := b.read(*bp)
		n += m
		if err != nil {
			return err == io.EOF
		}
	}
	return false
}

// takeBody locks b, ending a read that another goroutine is still in: after it nobody else reads from the connection.
func (c *conn) takeBody(b *body) {
	if b.mu.TryLock() {
		return
	}
	c.src.interrupt()
	b.mu.Lock()
	c.src.resume()
}

// refuse answers a request that cannot be handled, and counts it.
func (c *conn) refuse(err error) {
	var m *messageError
	if !errors.As(err, &m) {
		if err != io.EOF {
			c.refused(0, "connection failed")
		}
		return
	}
	c.answer(m.status)
	c.refused(m.status, m.reason)
}

func (c *conn) refused(status int, reason string) {
	if c.srv.Refused != nil {
		c.srv.Refused(c.from, status, reason)
	}
}

// answer sends an error of our own and says that the connection ends. It shows nothing of the request.
func (c *conn) answer(status int) {
	text := http.StatusText(status) + "\n"
	b := appendStatusLine(c.x.out[:0], 1, status)
	b = append(b, "Content-Type: text/plain; charset=utf-8\r\nDate: "...)
	b = append(b, c.srv.date()...)
	b = append(b, "\r\nConnection: close\r\n"...)
	b = appendLength(b, int64(len(text)))
	b = append(b, "\r\n"...)
	b = append(b, text...)
	c.x.out = b[:0]
	c.x.resp.sent, c.x.resp.closing = true, true
	c.writeSoon()
	c.nc.Write(b)
}

// writeSoon makes a write fail that makes no progress.
func (c *conn) writeSoon() {
	now := time.Now()
	if c.ownDeadline {
		return
	}
	d := sooner(c.srv.WriteTimeout, c.writeUntil, now)
	if d <= 0 {
		return
	}
	if t, move := deadlineFor(d, now, c.writeDeadline); move {
		c.writeDeadline = t
		c.nc.SetWriteDeadline(t)
	}
}

// checkGone cancels the request's context if the client has closed its connection.
func (c *conn) checkGone() {
	if open, _ := peek(socketOf(c.nc)); !open {
		if c.since.Load() != 0 {
			c.ctx.cancel()
		}
	}
}

// hijack gives the connection away.
func (c *conn) hijack() (net.Conn, *bufio.ReadWriter, error) {
	if b := c.x.body; b != nil {
		c.takeBody(b)
		b.err = errHijacked
		b.mu.Unlock()
	}
	c.phase.Store(phaseForeign)
	c.since.Store(0)
	c.nc.SetDeadline(time.Time{})
	ahead := append([]byte(nil), c.src.bytes()...)
	c.src.release()
	return c.outer, leftover(c.outer, ahead), nil
}

// putExchange gives the exchange back; nothing of the request is valid any more.
func (c *conn) putExchange() {
	x := c.x
	c.x = nil
	if x.resp.pending != nil && cap(x.resp.pending) == bufferSize {
		p := x.resp.pending[:bufferSize]
		buffers.Put(&p)
	}
	if c.ctx.spent() {
		c.ctx.cancel()
		c.ctx = &requestContext{local: c.ctx.local}
		x.req = nil
	}
	if b := x.body; b != nil {
		b.Close()
	}
	poison(x)
	clear(x.hdr)
	clear(x.resp.header)
	clear(x.vals[:cap(x.vals)])
	c.ownDeadline = false
	if cap(x.vals) > 256 || cap(x.out) > 64<<10 || len(x.hdr) > 256 {
		return
	}
	x.head, x.body = requestHead{}, nil
	x.resp = response{header: x.resp.header, trailers: x.resp.trailers[:0]}
	exchanges.Put(x)
}

// end closes the connection. Unless all was read that the client sent, it first ends only its own direction and reads
// on a little: a close with unread bytes resets the connection, and the client may then lose the answer.
func (c *conn) end(clean bool) {
	defer c.outer.Close()
	defer c.src.release()
	if c.aborted && c.tcp != nil {
		c.tcp.SetLinger(0) // a reset: an end that a body without a length could not be mistaken for
		return
	}
	if clean || c.tcp == nil || c.srv.isClosed() || c.phase.Load() == phaseEnding {
		return
	}
	if err := c.tcp.CloseWrite(); err != nil {
		return
	}
	c.tcp.SetReadDeadline(time.Now().Add(500 * time.Millisecond))
	c.src.release()
	io.CopyN(io.Discard, c.tcp, drainBytes)
}
