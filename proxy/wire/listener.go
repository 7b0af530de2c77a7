package wire

import (
	"errors"
	"net"
	"sync"
	"time"
)

// The pause after an accept that failed starts at minPause and doubles up to maxPause. Running out of descriptors is
// the usual cause, and trying at once would only burn CPU.
const (
	minPause = 5 * time.Millisecond
	maxPause = time.Second
)

// Listener accepts connections under a Limit. Accept fails only once the listener is closed: any other error, such as
// having no descriptor left or a client that was gone before it was accepted, is told to Hooks.Failed and tried again.
//
// While the limit is reached, one connection more is accepted and kept waiting; the others queue in the kernel.
type Listener struct {
	net.Listener
	limit  *Limit
	files  int
	hooks  Hooks
	done   chan struct{}
	closed sync.Once
}

// Hooks are told what happens to a Listener; each may be nil. They are called from Accept.
type Hooks struct {
	// Limited is called when a connection has to wait because the limit is reached.
	Limited func()
	// Failed is called with each error of accept that is not the end of the listener.
	Failed func(error)
}

// NewListener makes a listener whose connections each take files descriptors of l. Limit may be nil: no limit.
func NewListener(l net.Listener, limit *Limit, files int, h Hooks) *Listener {
	return &Listener{Listener: l, limit: limit, files: files, hooks: h, done: make(chan struct{})}
}

// Accept waits for the next connection. The caller must call Release once for each connection, after closing it. The
// only error is net.ErrClosed.
func (l *Listener) Accept() (net.Conn, error) {
	pause := minPause
	for {
		c, err := l.Listener.Accept()
		if err == nil {
			return l.admit(c)
		}
		if l.isClosed() || errors.Is(err, net.ErrClosed) {
			return nil, net.ErrClosed
		}
		if l.hooks.Failed != nil {
			l.hooks.Failed(err)
		}
		if !l.sleep(pause) {
			return nil, net.ErrClosed
		}
		pause = min(2*pause, maxPause)
	}
}

// Release gives back what Accept took from the limit for one connection.
func (l *Listener) Release() {
	if l.limit != nil {
		l.limit.Release(l.files)
	}
}

// Close stops Accept; connections accepted before stay open. It may be called more than once.
func (l *Listener) Close() error {
	var err error
	l.closed.Do(func() {
		close(l.done)
		err = l.Listener.Close()
	})
	return err
}

func (l *Listener) admit(c net.Conn) (net.Conn, error) {
	if l.limit == nil || l.limit.TryAcquire(l.files) {
		return c, nil
	}
	if l.hooks.Limited != nil {
		l.hooks.Limited()
	}
	if !l.limit.Acquire(l.done, l.files) {
		c.Close()
		return nil, net.ErrClosed
	}
	return c, nil
}

func (l *Listener) isClosed() bool {
	select {
	case <-l.done:
		return true
	default:
		return false
	}
}

// sleep reports false when the listener was closed meanwhile.
func (l *Listener) sleep(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-l.done:
		return false
	}
}
