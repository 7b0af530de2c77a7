package http1

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Server serves HTTP/1.0 and 1.1. Set its fields before the first Serve and leave them then. The zero value of a limit
// means the default that its comment names; a negative duration means no limit.
type Server struct {
	Handler http.Handler
	// Log takes panics of handlers; nil discards them.
	Log *slog.Logger

	HeadTimeout  time.Duration // first byte to the end of the head; 10 s
	IdleTimeout  time.Duration // between two requests; 75 s
	BodyTimeout  time.Duration // without a byte of a body that is waited for; 60 s
	WriteTimeout time.Duration // without progress of a write; 60 s
	// ReadTimeout and ResponseTimeout bound a whole request from its first byte, and its whole response from the moment
	// that the head was read. 0 means no limit: they cut long uploads and streams.
	ReadTimeout, ResponseTimeout time.Duration

	MaxHead   int // bytes of a head; 64 KiB
	MaxLine   int // bytes of a request line; 16 KiB
	MaxFields int // field lines; 100

	// Refused is told of each request that never reached the handler: the client's address, the status that it got (0:
	// none, it had gone) and why. It may be nil and is called from the connection's goroutine.
	Refused func(remote string, status int, reason string)
	// Panicked is told of each panic of the handler that was caught. It may be nil.
	Panicked func(any)

	clock
	draining atomic.Bool
	shedNext atomic.Bool // the next connection that would wait for a request ends
	once     sync.Once
	mu       sync.Mutex // guards the fields below
	listener map[net.Listener]struct{}
	conns    map[*conn]struct{}
	closed   bool
	sweeping bool
	quitting bool          // quit is closed
	quit     chan struct{} // ends the sweeper
	empty    chan struct{} // closed when the last connection has gone while draining
}

// Defaults of Server.
const (
	defaultHeadTimeout  = 10 * time.Second
	defaultIdleTimeout  = 75 * time.Second
	defaultBodyTimeout  = 60 * time.Second
	defaultWriteTimeout = 60 * time.Second
	defaultMaxHead      = 64 << 10
	defaultMaxLine      = 16 << 10
	defaultMaxFields    = 100
)

// What a connection drains of a body that its handler did not read, before it ends instead.
const (
	drainBytes = 256 << 10
	drainTime  = time.Second
)

func (s *Server) defaults() {
	for _, d := range []struct {
		d   *time.Duration
		def time.Duration
	}{{&s.HeadTimeout, defaultHeadTimeout}, {&s.IdleTimeout, defaultIdleTimeout}, {&s.BodyTimeout, defaultBodyTimeout}, {&s.WriteTimeout, defaultWriteTimeout}} {
		if *d.d == 0 {
			*d.d = d.def
		}
	}
	for _, n := range []struct {
		n   *int
		def int
	}{{&s.MaxHead, defaultMaxHead}, {&s.MaxLine, defaultMaxLine}, {&s.MaxFields, defaultMaxFields}} {
		if *n.n == 0 {
			*n.n = n.def
		}
	}
	s.conns = map[*conn]struct{}{}
	s.quit = make(chan struct{})
	s.listener = map[net.Listener]struct{}{}
}

// Serve accepts connections from l, each served in a goroutine of its own, until l fails or the server is shut down;
// then it answers http.ErrServerClosed. It closes l. It may be called for several listeners at once.
func (s *Server) Serve(l net.Listener) error {
	s.once.Do(s.defaults)
	defer l.Close()
	s.mu.Lock()
	if s.closed || s.draining.Load() {
		s.mu.Unlock()
		return http.ErrServerClosed
	}
	s.listener[l] = struct{}{}
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		delete(s.listener, l)
		s.mu.Unlock()
	}()
	var pause time.Duration
	for {
		nc, err := l.Accept()
		if err != nil {
			if s.draining.Load() {
				return http.ErrServerClosed
			}
			if errors.Is(err, net.ErrClosed) {
				return err
			}
			// Out of file descriptors, or the client went before it was accepted: none of it ends a listener.
			pause = min(max(2*pause, 5*time.Millisecond), time.Second)
			time.Sleep(pause)
			continue
		}
		pause = 0
		go s.ServeConn(nc)
	}
}

// ServeConn serves one connection until it ends, and closes it. A *tls.Conn is shaken hands with first. Of a connection
// that wraps a *net.TCPConn and shows it by NetConn, only Close is called, and whoever hijacks it gets the wrapper.
func (s *Server) ServeConn(nc net.Conn) {
	s.once.Do(s.defaults)
	c := &conn{srv: s, nc: nc, outer: nc}
	c.idleSince.Store(time.Now().UnixNano())
	c.tcp, _ = nc.(*net.TCPConn)
	if w, ok := nc.(interface{ NetConn() net.Conn }); ok {
		if _, ok := nc.(*tls.Conn); !ok {
			if c.tcp, ok = w.NetConn().(*net.TCPConn); ok {
				c.nc = c.tcp
			}
		}
	}
	if !s.track(c) {
		nc.Close()
		return
	}
	defer s.untrack(c)
	c.serve()
}

func (s *Server) track(c *conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.draining.Load() {
		return false
	}
	s.conns[c] = struct{}{}
	if !s.sweeping {
		s.sweeping = true
		go s.sweep()
	}
	return true
}

func (s *Server) untrack(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, c)
	if len(s.conns) > 0 {
		return
	}
	if s.empty != nil {
		close(s.empty)
		s.empty = nil
	}
	s.endSweep()
}

// endSweep ends the sweeper of a server that is down. Callers hold mu.
func (s *Server) endSweep() {
	if s.draining.Load() && len(s.conns) == 0 && !s.quitting {
		s.quitting = true
		close(s.quit)
	}
}

// sweepEvery is how often the clients of waiting requests are looked at, and how long a request must have run for it.
const sweepEvery = 500 * time.Millisecond

// sweep finds clients that went away while their request is being handled and cancels its context. One goroutine looks
// at all connections; it ends with the last of them.
func (s *Server) sweep() {
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	var look []*conn
	for {
		var now time.Time
		select {
		case now = <-tick.C:
		case <-s.quit:
			return
		}
		s.mu.Lock()
		if len(s.conns) == 0 {
			s.sweeping = false
			s.mu.Unlock()
			return
		}
		look = look[:0]
		for c := range s.conns {
			if since := c.since.Load(); since != 0 && now.UnixNano()-since > int64(sweepEvery/2) {
				look = append(look, c)
			}
		}
		s.mu.Unlock()
		for _, c := range look {
			c.checkGone()
		}
	}
}

// ShedIdle ends the connections that have waited longest for a request, a hundredth of those that wait and one at the
// least, and answers how many. It makes room for new ones where connections are limited. If none waits now, the next that
// would ends instead.
func (s *Server) ShedIdle() int {
	s.once.Do(s.defaults)
	s.mu.Lock()
	var idle []*conn
	for c := range s.conns {
		if c.phase.Load() == phaseIdle {
			idle = append(idle, c)
		}
	}
	s.mu.Unlock()
	slices.SortFunc(idle, func(a, b *conn) int { return cmp.Compare(a.idleSince.Load(), b.idleSince.Load()) })
	shed := 0
	for _, c := range idle {
		if _, readable := peek(socketOf(c.nc)); readable {
			continue // its request is there already
		}
		if c.endIdle() {
			shed++
		}
		if shed > len(idle)/100 {
			break
		}
	}
	s.shedNext.Store(shed == 0)
	return shed
}

// Shutdown stops accepting, ends idle connections, waits for requests in flight until ctx ends and answers its error
// if some were still there then; it does not cut those, Close does. Hijacked connections are not waited for.
func (s *Server) Shutdown(ctx context.Context) error {
	s.once.Do(s.defaults)
	s.draining.Store(true)
	s.mu.Lock()
	for l := range s.listener {
		l.Close()
	}
	s.endSweep()
	var done chan struct{}
	if len(s.conns) > 0 {
		if s.empty == nil {
			s.empty = make(chan struct{})
		}
		done = s.empty
		for c := range s.conns {
			c.endIdle()
		}
	}
	s.mu.Unlock()
	if done == nil {
		return nil
	}
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Close ends listeners and connections at once.
func (s *Server) Close() error {
	s.once.Do(s.defaults)
	s.draining.Store(true)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for l := range s.listener {
		l.Close()
	}
	for c := range s.conns {
		c.outer.Close()
	}
	s.endSweep()
	return nil
}

func (s *Server) isClosed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
}
