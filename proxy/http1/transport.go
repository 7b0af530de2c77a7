package http1

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Transport is an http.RoundTripper for HTTP/1.x upstreams. Set its fields before the first RoundTrip and leave them
// then; safe for concurrent use after that. Connections are pooled by scheme and address: a Transport is one identity
// towards its upstreams (its TLS configuration, its Preface), another identity is another Transport.
//
// The response and its header belong to the connection and are not valid after Body.Close, which must be called.
type Transport struct {
	// Dial opens a connection; nil means net.Dialer with DialTimeout.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
	// TLS is the configuration for https; nil means the zero one. ServerName is filled from the URL if it is empty.
	TLS *tls.Config
	// Secure says that Dial answers connections that TLS has been set up on: none is set up on top.
	Secure bool
	// Preface writes what precedes the first request on a new connection, before TLS; nil means nothing.
	Preface func(ctx context.Context, nc net.Conn) error

	DialTimeout   time.Duration // with Dial nil, and for the TLS handshake; 0 means 10 s
	HeaderTimeout time.Duration // from the request to the head of the response; 0 means none
	BodyTimeout   time.Duration // without a byte of a response body; 0 means none
	WriteTimeout  time.Duration // without progress of a write; 0 means 60 s
	IdleTimeout   time.Duration // a pooled connection is closed after; 0 means 4.5 s, below the 5 s of Node.js; negative never
	// ContinueTimeout is how long a body waits for 100 Continue when the request expects it; 0 means 1 s.
	ContinueTimeout time.Duration
	// PendingTimeout is how long a request waits for a connection at MaxConns; 0 means as long as its context.
	PendingTimeout time.Duration

	MaxConns    int // open to one upstream; 0 means no limit
	MaxPending  int // requests that wait at MaxConns; the next gets ErrOverflow
	MaxIdle     int // kept for one upstream; 0 means no limit
	MaxRequests int // on one connection, give or take a tenth; 0 means 1000, negative no limit
	MaxHead     int // bytes of a response head; 0 means 64 KiB

	once  sync.Once
	stats transportStats
	mu    sync.Mutex // guards the fields below
	pools map[upstreamKey]*pool
	dead  bool
}

type upstreamKey struct{ scheme, host string }

type transportStats struct {
	open, idle, pending, reused, retired, retried, overflow atomic.Int64
}

// Stats is the state of a Transport's pools.
type Stats struct {
	Open, Idle, Pending int64 // now: connections, those idle, requests that wait for one
	Reused              int64 // requests so far that found a connection
	Retired             int64 // connections closed so far for having served MaxRequests
	Retried             int64 // requests so far that met a dead connection and went out on another
	Overflow            int64 // requests so far refused with ErrOverflow
}

// Stats reads the counters; each for itself, not all at one moment.
func (t *Transport) Stats() Stats {
	s := &t.stats
	return Stats{s.open.Load(), s.idle.Load(), s.pending.Load(), s.reused.Load(), s.retired.Load(), s.retried.Load(), s.overflow.Load()}
}

func (t *Transport) defaults() {
	if t.DialTimeout == 0 {
		t.DialTimeout = 10 * time.Second
	}
	if t.WriteTimeout == 0 {
		t.WriteTimeout = defaultWriteTimeout
	}
	if t.IdleTimeout == 0 {
		t.IdleTimeout = 4500 * time.Millisecond
	}
	if t.ContinueTimeout == 0 {
		t.ContinueTimeout = time.Second
	}
	if t.MaxRequests == 0 {
		t.MaxRequests = 1000
	}
	if t.MaxHead == 0 {
		t.MaxHead = defaultMaxHead
	}
	t.pools = map[upstreamKey]*pool{}
}

// CloseIdleConnections closes what is idle now.
func (t *Transport) CloseIdleConnections() { t.closeIdle(false) }

// Close closes what is idle, and every other connection when its request ends. Requests may still be made; their
// connections are not kept.
func (t *Transport) Close() { t.closeIdle(true) }

func (t *Transport) closeIdle(forGood bool) {
	t.once.Do(t.defaults)
	t.mu.Lock()
	t.dead = t.dead || forGood
	pools := make([]*pool, 0, len(t.pools))
	for _, p := range t.pools {
		pools = append(pools, p)
	}
	t.mu.Unlock()
	for _, p := range pools {
		p.closeIdle(forGood)
	}
}

func (t *Transport) pool(u *url.URL) *pool {
	k := upstreamKey{u.Scheme, u.Host}
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.pools[k]
	if p == nil {
		p = &pool{t: t, closed: t.dead}
		t.pools[k] = p
	}
	return p
}

// RoundTrip sends r and answers the final response; interim ones go to the Got1xxResponse hook of an
// httptrace.ClientTrace in r's context. A response of 101 has a Body that is an io.ReadWriteCloser with CloseWrite.
//
// A reused connection that turns out dead before a byte of the response is replaced, silently, if none of the request
// was lost with it: nothing was written, or it is idempotent and has no body. Errors tell how far the request came: they
// have methods Sent, Answered and Reused.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	t.once.Do(t.defaults)
	if err := checkRequest(r); err != nil {
		return nil, notSent(r, err)
	}
	if err := r.Context().Err(); err != nil {
		return nil, notSent(r, err)
	}
	p := t.pool(r.URL)
	for {
		u, reused, err := p.get(r.Context())
		if err != nil {
			return nil, notSent(r, err)
		}
		if u == nil {
			if u, err = t.dial(r, p); err != nil {
				p.left()
				return nil, notSent(r, err)
			}
		}
		resp, err := u.roundTrip(r)
		if err == nil {
			return resp, nil
		}
		if reused && u.replayable(r) && r.Context().Err() == nil {
			t.stats.retried.Add(1)
			continue
		}
		closeBody(r)
		return nil, &attemptError{err: err, sent: u.sent > 0 || u.bodyTouched, answered: u.answered, reused: reused}
	}
}

// Synchronous says that a request is not touched any more once RoundTrip has failed or the response body is closed.
func (t *Transport) Synchronous() bool { return true }

// ErrNotSent is what errors are (errors.Is) that belong to a request of which nothing was sent and whose body was not
// read: it may be tried elsewhere, whatever its method.
var ErrNotSent = errors.New("http1: request not sent")

// attemptError is a failed round trip and how far it came.
type attemptError struct {
	err                    error
	sent, answered, reused bool
}

func notSent(r *http.Request, err error) error {
	closeBody(r)
	return &attemptError{err: err}
}

func (e *attemptError) Error() string { return e.err.Error() }
func (e *attemptError) Unwrap() error { return e.err }

// Is makes the error ErrNotSent if it is one.
func (e *attemptError) Is(target error) bool { return target == ErrNotSent && !e.sent }

// Sent reports whether a byte of the request was written, or its body read.
func (e *attemptError) Sent() bool { return e.sent }

// Answered reports whether a byte of an answer came.
func (e *attemptError) Answered() bool { return e.answered }

// Reused reports whether the connection had served another request before.
func (e *attemptError) Reused() bool { return e.reused }

func closeBody(r *http.Request) {
	if r.Body != nil {
		r.Body.Close()
	}
}

// checkRequest makes sure that r serialises to exactly one request.
func checkRequest(r *http.Request) error {
	switch {
	case r.URL == nil || r.URL.Host == "":
		return errors.New("http1: no host in request URL")
	case r.URL.Scheme != "http" && r.URL.Scheme != "https":
		return fmt.Errorf("http1: unsupported scheme %q", r.URL.Scheme)
	case r.Method != "" && !all(r.Method, tokenByte):
		return errors.New("http1: malformed method")
	case r.Method == http.MethodConnect:
		return errors.New("http1: CONNECT is not spoken")
	case r.Host != "" && !validAuthority(r.Host):
		return errors.New("http1: malformed Host")
	}
	for k, vv := range r.Header {
		if !all(k, tokenByte) {
			return fmt.Errorf("http1: malformed field name %q", k)
		}
		for _, v := range vv {
			if !validValue(v) {
				return fmt.Errorf("http1: control character in field %q", k)
			}
		}
	}
	return nil
}

// dial opens a connection for p.
func (t *Transport) dial(r *http.Request, p *pool) (*upConn, error) {
	addr := r.URL.Host
	if r.URL.Port() == "" {
		addr = net.JoinHostPort(r.URL.Hostname(), map[string]string{"http": "80", "https": "443"}[r.URL.Scheme])
	}
	ctx := r.Context()
	trace := httptrace.ContextClientTrace(ctx)
	if trace != nil && trace.GetConn != nil {
		trace.GetConn(addr)
	}
	dial := t.Dial
	if dial == nil {
		dial = (&net.Dialer{Timeout: t.DialTimeout}).DialContext
	}
	nc, err := dial(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	if t.Preface != nil {
		if err := t.Preface(ctx, nc); err != nil {
			nc.Close()
			return nil, err
		}
	}
	if r.URL.Scheme == "https" && !t.Secure {
		if nc, err = t.handshake(ctx, nc, r.URL.Hostname()); err != nil {
			return nil, err
		}
	}
	t.stats.open.Add(1)
	u := &upConn{pool: p, nc: nc, hdr: make(http.Header, 16), most: t.mostRequests()}
	u.onCancel = u.abort
	u.src.init(nc)
	u.raw = socketOf(nc)
	u.tcp, _ = nc.(*net.TCPConn)
	if trace != nil && trace.GotConn != nil {
		trace.GotConn(httptrace.GotConnInfo{Conn: nc})
	}
	return u, nil
}

func (t *Transport) handshake(ctx context.Context, nc net.Conn, host string) (net.Conn, error) {
	cfg := t.TLS
	if cfg == nil {
		cfg = &tls.Config{}
	}
	if cfg.ServerName == "" || len(cfg.NextProtos) > 0 {
		cfg = cfg.Clone()
		cfg.NextProtos = nil
		if cfg.ServerName == "" {
			cfg.ServerName = host
		}
	}
	tc := tls.Client(nc, cfg)
	ctx, cancel := context.WithTimeout(ctx, t.DialTimeout)
	defer cancel()
	if err := tc.HandshakeContext(ctx); err != nil {
		nc.Close()
		return nil, err
	}
	return tc, nil
}

// mostRequests spreads MaxRequests by a tenth, so that connections opened together do not end together.
func (t *Transport) mostRequests() int {
	n := t.MaxRequests
	if n <= 0 {
		return 0
	}
	return n - n/10 + rand.IntN(n/5+1)
}

// target serialises the request target in origin-form.
func appendTarget(b []byte, u *url.URL) []byte {
	if u.Opaque == "" && u.RawPath == "" && strings.HasPrefix(u.Path, "/") && all(u.Path, pathByte) {
		b = append(b, u.Path...)
		if u.ForceQuery || u.RawQuery != "" {
			b = append(b, '?')
			b = append(b, u.RawQuery...)
		}
		return b
	}
	if u.Path == "*" && u.RawPath == "" && u.Opaque == "" {
		return append(b, '*')
	}
	return append(b, u.RequestURI()...)
}

var _ io.ReadWriteCloser = (*tunnel)(nil)
