package proxy

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"sync/atomic"
	"time"
)

// stdTransport forwards with net/http's transport. It adds what that one cannot tell or do: how far a failed attempt
// came, and a limit on silence in the middle of a response body.
type stdTransport struct {
	inner *http.Transport
	stall time.Duration
}

// openStd makes a stdTransport for one identity. It verifies certificates, follows no proxy of the environment,
// decompresses nothing and speaks HTTP/1.1 only.
func (p *Proxy) openStd(id identity) transport {
	c := &p.config.HTTP
	t := &stdTransport{stall: c.ResponseStallTimeout}
	t.inner = &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			conn, err := p.dialer.dial(ctx, id.addr)
			if err != nil {
				return nil, err
			}
			return &stdConn{Conn: conn}, nil
		},
		DialTLSContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			conn, err := dialTLS(ctx, p.dialer, id, c.TLSHandshakeTimeout)
			if err != nil {
				return nil, err
			}
			return &stdConn{Conn: conn}, nil
		},
		DisableCompression:     true,
		MaxIdleConnsPerHost:    max(c.MaxIdleConns, 1),
		IdleConnTimeout:        c.IdleConnTimeout,
		ResponseHeaderTimeout:  c.ResponseHeaderTimeout,
		ExpectContinueTimeout:  time.Second,
		MaxResponseHeaderBytes: int64(c.MaxHeaderBytes),
		TLSNextProto:           map[string]func(string, *tls.Conn) http.RoundTripper{},
	}
	return t
}

// RoundTrip implements http.RoundTripper.
func (t *stdTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	o, _ := r.Context().Value(outgoingKey{}).(*outgoing)
	if repeatable(r) && !hasIdempotencyKey(r.Header) {
		// Present but empty, it is not sent, and has net/http replace a dead connection for PUT and DELETE as well.
		r.Header["X-Idempotency-Key"] = nil
	}
	resp, err := t.inner.RoundTrip(r)
	if o == nil {
		return resp, err
	}
	if err != nil {
		return nil, o.failure(err)
	}
	if conn := o.gotConn(); conn != nil && t.stall > 0 && resp.StatusCode != http.StatusSwitchingProtocols {
		resp.Body = &stallBody{ReadCloser: resp.Body, conn: conn, limit: t.stall}
	}
	return resp, nil
}

func (t *stdTransport) CloseIdleConnections() { t.inner.CloseIdleConnections() }

// stdConn counts what goes over a connection to an upstream.
type stdConn struct {
	net.Conn
	wrote, read atomic.Int64
	armed       atomic.Bool // a read deadline of some response is set
}

func (c *stdConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.read.Add(int64(n))
	return n, err
}

func (c *stdConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	c.wrote.Add(int64(n))
	return n, err
}

// ReadFrom lets request bodies be sent by the kernel where it can.
func (c *stdConn) ReadFrom(r io.Reader) (int64, error) {
	rf, ok := c.Conn.(io.ReaderFrom)
	if !ok {
		return io.Copy(struct{ io.Writer }{c}, r)
	}
	n, err := rf.ReadFrom(r)
	c.wrote.Add(n)
	return n, err
}

// CloseWrite half-closes a tunnel.
func (c *stdConn) CloseWrite() error {
	if cw, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return cw.CloseWrite()
	}
	return errors.ErrUnsupported
}

// disarm clears what stallBody has set, before the connection serves another request.
func (c *stdConn) disarm() {
	if c.armed.Swap(false) {
		c.SetReadDeadline(time.Time{})
	}
}

// stallBody is a response body that must not fall silent for longer than limit. The deadline is moved only when a
// quarter of it is gone. It stays set after the end of the body: the connection may be in other hands by then, and
// its next user clears it.
type stallBody struct {
	io.ReadCloser
	conn  *stdConn
	limit time.Duration
	armed time.Time
}

func (b *stallBody) Read(p []byte) (int, error) {
	if now := time.Now(); now.Sub(b.armed) > b.limit/4 {
		b.armed = now
		b.conn.armed.Store(true)
		b.conn.SetReadDeadline(now.Add(b.limit))
	}
	return b.ReadCloser.Read(p)
}

// stdAttempt is the attempt of a stdTransport that failed with err.
type stdAttempt struct {
	err                    error
	sent, answered, reused bool
}

func (a *stdAttempt) Error() string  { return a.err.Error() }
func (a *stdAttempt) Unwrap() error  { return a.err }
func (a *stdAttempt) Sent() bool     { return a.sent }
func (a *stdAttempt) Answered() bool { return a.answered }
func (a *stdAttempt) Reused() bool   { return a.reused }

// onConn notes which connection the attempt runs over; it is httptrace's GotConn.
func (o *outgoing) onConn(info httptrace.GotConnInfo) {
	c, ok := info.Conn.(*stdConn)
	if !ok {
		return
	}
	c.disarm()
	o.mu.Lock()
	defer o.mu.Unlock()
	o.conn, o.reused, o.wrote, o.read = c, info.Reused, c.wrote.Load(), c.read.Load()
}

func (o *outgoing) gotConn() *stdConn {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.conn
}

// failure says how far the attempt came that failed with err.
func (o *outgoing) failure(err error) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.conn == nil {
		return &stdAttempt{err: err}
	}
	return &stdAttempt{
		err:      err,
		sent:     o.conn.wrote.Load() > o.wrote,
		answered: o.conn.read.Load() > o.read,
		reused:   o.reused,
	}
}
