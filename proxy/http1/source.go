package http1

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// A source reads a connection through a buffer that it holds only while there is something in it: a connection that
// waits costs no buffer. On a plain TCP connection that works by trying the read with a pooled buffer inside
// RawConn.Read, and giving the buffer back before the poller waits; on others the buffer is held while waiting.
type source struct {
	nc   net.Conn
	raw  syscall.RawConn // nil: no plain socket
	f    func(fd uintptr) bool
	buf  *[]byte // nil when empty
	r, w int     // the unread bytes are (*buf)[r:w]

	dst []byte // where f reads to; nil: to a buffer of its own
	n   int    // what f read
	err error  // what f met

	deadline time.Time   // the read deadline in force, zero for none
	stopped  atomic.Bool // between interrupt and resume: every read fails
}

// longAgo is a deadline that makes what waits fail at once.
var longAgo = time.Unix(1, 0)

// interrupt makes a read in progress and all later ones fail, until resume. It may be called from any goroutine: the
// flag is set first, and within looks at it last, so that a deadline that is set at the same moment does not undo it.
func (s *source) interrupt() {
	s.stopped.Store(true)
	s.nc.SetReadDeadline(longAgo)
}

// resume ends interrupt.
func (s *source) resume() {
	s.stopped.Store(false)
	s.deadline = time.Time{}
	s.nc.SetReadDeadline(s.deadline)
}

// bufferSize is how much of a connection is read ahead. Larger heads get a buffer of their own.
const bufferSize = 8 << 10

var buffers = sync.Pool{New: func() any { b := make([]byte, bufferSize); return &b }}

// copyBuffers are for bodies.
var copyBuffers = sync.Pool{New: func() any { b := make([]byte, 32<<10); return &b }}

var errPeerGone = fmt.Errorf("http1: upstream closed the connection: %w", io.EOF)

func (s *source) init(nc net.Conn) {
	s.nc = nc
	if tc, ok := nc.(*net.TCPConn); ok && rawReads {
		if raw, err := tc.SyscallConn(); err == nil {
			s.raw = raw
			s.f = s.recv
		}
	}
}

// receive reads once into dst, or into a fresh buffer of its own (s.buf) when dst is nil.
func (s *source) receive(dst []byte) (int, error) {
	if s.raw != nil {
		s.dst, s.n, s.err = dst, 0, nil
		if err := s.raw.Read(s.f); err != nil {
			return 0, err
		}
		return s.n, s.err
	}
	if dst != nil {
		return s.nc.Read(dst)
	}
	b := buffers.Get().(*[]byte)
	n, err := s.nc.Read(*b)
	if n == 0 {
		buffers.Put(b)
		if err == nil {
			err = io.ErrNoProgress
		}
		return 0, err
	}
	s.buf = b
	return n, nil
}

// bytes answers what has been read ahead.
func (s *source) bytes() []byte {
	if s.buf == nil {
		return nil
	}
	return (*s.buf)[s.r:s.w]
}

func (s *source) buffered() int { return s.w - s.r }

// discard drops the first n buffered bytes, and the buffer with the last.
func (s *source) discard(n int) {
	s.r += n
	if s.r == s.w {
		s.release()
	}
}

func (s *source) release() {
	if s.buf != nil && cap(*s.buf) == bufferSize {
		buffers.Put(s.buf)
	}
	s.buf, s.r, s.w = nil, 0, 0
}

// fill reads once more behind the buffered bytes, growing the buffer up to max bytes in all.
func (s *source) fill(max int) error {
	if s.buf == nil {
		n, err := s.receive(nil)
		if err != nil {
			return err
		}
		s.r, s.w = 0, n
		return nil
	}
	b := *s.buf
	if s.w == len(b) {
		switch have := s.w - s.r; {
		case s.r > 0 && have < len(b)/2:
			copy(b, b[s.r:s.w])
			s.r, s.w = 0, have
		case have >= max:
			return errHeadTooLarge
		default:
			bigger := make([]byte, min(2*len(b), max+1))
			copy(bigger, b[s.r:s.w])
			s.release()
			s.buf, s.r, s.w = &bigger, 0, have
			b = bigger
		}
	}
	n, err := s.receive(b[s.w:])
	s.w += n
	if n > 0 {
		return nil
	}
	if err == nil {
		err = io.ErrNoProgress
	}
	return err
}

// Read reads buffered bytes first, then straight from the connection.
func (s *source) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	if s.buffered() > 0 {
		n := copy(p, s.bytes())
		s.discard(n)
		return n, nil
	}
	return s.receive(p)
}

// within makes reads fail that take longer than d from now, give or take an eighth. Zero means no limit.
func (s *source) within(d time.Duration, now time.Time) {
	if d <= 0 {
		if !s.deadline.IsZero() {
			s.setDeadline(time.Time{})
		}
		return
	}
	if t, move := deadlineFor(d, now, s.deadline); move {
		s.setDeadline(t)
	}
}

// deadlineFor answers the deadline of something that may take d from now, and whether the one in force has to be moved
// for it: only if it is off by more than an eighth, so that a busy connection moves its own rarely.
func deadlineFor(d time.Duration, now, inForce time.Time) (t time.Time, move bool) {
	if left := inForce.Sub(now); !inForce.IsZero() && left >= d && left <= d+d/8 {
		return inForce, false
	}
	return now.Add(d + d/8), true
}

func (s *source) setDeadline(t time.Time) {
	s.deadline = t
	s.nc.SetReadDeadline(t)
	if s.stopped.Load() {
		s.nc.SetReadDeadline(longAgo)
	}
}

// isTimeout reports whether err is a deadline that passed.
func isTimeout(err error) bool { return errors.Is(err, os.ErrDeadlineExceeded) }
