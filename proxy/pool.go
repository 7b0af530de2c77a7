package proxy

import (
	"net/http"
	"sync"
)

// identity is what tells the connections to upstreams apart: one with the same address and TLS settings may serve any
// target that has them.
type identity struct {
	addr       string // host:port
	tls        bool
	sni        string // name sent and verified in the handshake
	skipVerify bool
}

// transport is what forwarding needs of an engine, for one identity. The contract beyond http.RoundTripper:
//
//   - 1xx answers are told through httptrace's Got1xxResponse before RoundTrip returns; an error from it ends the attempt.
//   - a 101 answer has a Body that is an io.ReadWriteCloser, beginning with the first byte after the head.
//   - the request target is that of Request.URL.Opaque, or of RequestURI where Opaque is empty; User-Agent and
//     Accept-Encoding are sent only if they are in the header.
//   - an error says how far the attempt came by being an attempt; one that doesn't is taken for answered.
type transport interface {
	http.RoundTripper
	CloseIdleConnections()
}

// attempt is how an engine's error tells how far a failed attempt came. It is found by errors.As.
type attempt interface {
	error
	// Sent reports whether a byte of the request was written to a connection.
	Sent() bool
	// Answered reports whether a byte of an answer was read.
	Answered() bool
	// Reused reports whether the connection had served another request before.
	Reused() bool
}

// synchronous is the optional promise of an engine that it does not touch a request any more once RoundTrip has
// failed or the response body is closed. Only then are requests pooled: net/http's transport may still be writing one
// that it has answered.
type synchronous interface{ Synchronous() bool }

// pools are the connections of all upstreams. Targets share them by identity; with the last one its idle connections
// are closed.
type pools struct {
	// open makes the transport of an identity.
	open func(identity) transport

	mu   sync.Mutex // guards m and the refs of its values
	byID map[identity]*pool
}

// pool is the connections of one identity.
type pool struct {
	id   identity
	refs int

	once        sync.Once
	open        func(identity) transport
	rt          transport
	synchronous bool
}

func newPools(open func(identity) transport) *pools {
	return &pools{open: open, byID: map[identity]*pool{}}
}

// acquire returns the pool of id and counts a reference. Nothing is opened before the first request.
func (ps *pools) acquire(id identity) *pool {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	c := ps.byID[id]
	if c == nil {
		c = &pool{id: id, open: ps.open}
		ps.byID[id] = c
	}
	c.refs++
	return c
}

// release gives back a reference; the last one closes the idle connections. Requests in flight go on.
func (ps *pools) release(c *pool) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if c.refs--; c.refs > 0 {
		return
	}
	delete(ps.byID, c.id)
	c.closeIdle()
}

// close closes all idle connections.
func (ps *pools) close() {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	for _, c := range ps.byID {
		c.closeIdle()
	}
}

// transport returns the pool's transport, made by the first call.
func (c *pool) transport() transport {
	c.once.Do(func() {
		c.rt = c.open(c.id)
		s, ok := c.rt.(synchronous)
		c.synchronous = ok && s.Synchronous()
	})
	return c.rt
}

// closeIdle must not make a transport only to close it.
func (c *pool) closeIdle() {
	c.once.Do(func() {})
	if c.rt != nil {
		c.rt.CloseIdleConnections()
	}
}
