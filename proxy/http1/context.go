package http1

import (
	"context"
	"net"
	"net/http"
	"sync"
	"time"
)

// Watchable is what a request's context may be beside a context.Context, so that Transport can watch it without
// allocating: the contexts of Server are. A context that wraps one, without a cancellation of its own, may pass the
// methods through.
type Watchable interface {
	// OnCancel has f called once the context is cancelled, until Release; at once if it is already. One f at a time. f
	// must not block. It answers false, and does nothing, if the context cannot be watched this way after all.
	OnCancel(f func()) bool
	// Release forgets f; f does not run after it returns.
	Release()
}

// requestContext is the context of the requests of one connection. Nothing is allocated for it until somebody asks for
// Done; then it is used up with that request and the connection takes another.
type requestContext struct {
	local net.Addr

	mu    sync.Mutex // guards the fields below
	done  chan struct{}
	err   error
	abort func() // what the transport wants called on cancellation; at most one
}

// Deadline answers none.
func (c *requestContext) Deadline() (time.Time, bool) { return time.Time{}, false }

// Done is closed when the client has gone or the request has ended.
func (c *requestContext) Done() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.done == nil {
		c.done = make(chan struct{})
		if c.err != nil {
			close(c.done)
		}
	}
	return c.done
}

// Err is context.Canceled once Done is (or would be) closed.
func (c *requestContext) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// Value knows the address that net/http's server puts there, under the same key.
func (c *requestContext) Value(key any) any {
	if key == http.LocalAddrContextKey {
		return c.local
	}
	return nil
}

func (c *requestContext) cancel() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return
	}
	c.err = context.Canceled
	if c.done != nil {
		close(c.done)
	}
	if c.abort != nil {
		c.abort()
	}
}

// OnCancel implements Watchable.
func (c *requestContext) OnCancel(f func()) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.abort = f
	if c.err != nil {
		f()
	}
	return true
}

// Release implements Watchable.
func (c *requestContext) Release() {
	c.mu.Lock()
	c.abort = nil
	c.mu.Unlock()
}

// spent reports whether somebody may still look at this context after its request.
func (c *requestContext) spent() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.done != nil || c.err != nil
}
