package wire

import (
	"net"
	"os"
	"sync"
	"time"
)

// writeStep is how much Conn hands to the connection under one deadline.
const writeStep = 64 << 10

// Conn is an accepted connection whose writes may not stall: each step of up to 64 KiB must be taken by the peer
// within the stall timeout, however long the whole takes. A write deadline set on it holds as well.
//
// It has CloseWrite like a TCP connection, but no ReadFrom: the deadline of a write cannot be set between the two
// halves of a splice, and the time that the source takes must not count.
type Conn struct {
	net.Conn
	stall   time.Duration
	release func()
	once    sync.Once

	mu    sync.Mutex // guards the fields below and SetWriteDeadline of the embedded connection
	asked time.Time  // the deadline that was set on the Conn
	armed time.Time  // the deadline that is set on the embedded connection
}

// NewConn guards c. A stall of zero means no guard; release, when not nil, is called once, after Close.
func NewConn(c net.Conn, stall time.Duration, release func()) *Conn {
	return &Conn{Conn: c, stall: stall, release: release}
}

// Close closes the connection; it may be called more than once.
func (c *Conn) Close() error {
	err := c.Conn.Close()
	if c.release != nil {
		c.once.Do(c.release)
	}
	return err
}

// NetConn returns the connection under the guard, for an engine that guards its writes itself. It must be closed through
// the Conn.
func (c *Conn) NetConn() net.Conn { return c.Conn }

// CloseWrite shuts the writing side down.
func (c *Conn) CloseWrite() error {
	if w, ok := c.Conn.(closeWriter); ok {
		return w.CloseWrite()
	}
	return errNoHalfClose
}

// Write writes p in steps, each under a deadline of its own.
func (c *Conn) Write(p []byte) (int, error) {
	written := 0
	for {
		step := p[written:min(len(p), written+writeStep)]
		if err := c.arm(); err != nil {
			return written, err
		}
		n, err := c.Conn.Write(step)
		written += n
		if err != nil || written == len(p) {
			return written, err
		}
	}
}

// SetDeadline sets both deadlines.
func (c *Conn) SetDeadline(t time.Time) error {
	if err := c.SetReadDeadline(t); err != nil {
		return err
	}
	return c.SetWriteDeadline(t)
}

// SetWriteDeadline sets the deadline of all writes to come, on top of the stall guard.
func (c *Conn) SetWriteDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked = t
	c.armed = t
	return c.Conn.SetWriteDeadline(t)
}

// arm sets the deadline for the next step. It leaves a deadline alone that is at most a quarter shorter than wanted,
// so that a busy connection does not pay for a timer with each write.
func (c *Conn) arm() error {
	if c.stall <= 0 {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	if !c.asked.IsZero() && !c.asked.After(now) {
		return os.ErrDeadlineExceeded
	}
	want := now.Add(c.stall)
	if !c.asked.IsZero() && c.asked.Before(want) {
		want = c.asked
	}
	if left := c.armed.Sub(now); c.armed.Equal(want) || left > c.stall-c.stall/4 && left <= c.stall {
		return nil
	}
	c.armed = want
	return c.Conn.SetWriteDeadline(want)
}

type closeWriter interface{ CloseWrite() error }
