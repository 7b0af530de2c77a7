package wire

import (
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// How a relay moves bytes. Each direction is a pump with a goroutine of its own. A pump waits until its source can be
// read *without holding a buffer* (wait for readiness, then take a buffer from the pool, read once, write, give it
// back), so an idle tunnel costs two small stacks and nothing else. When one read fills the whole buffer, there is
// bulk data: then the pump asks the kernel how much is queued and splices exactly that much. io.Copy would splice
// too, but it holds a pipe (two descriptors and up to 1 MiB) for as long as it waits, and counts the bytes only at the
// end. Connections that are not TCP, and other systems than Linux, get an ordinary read-write loop.
//
// How it ends. The end of one source is passed on by shutting down the writing side of its sink; the other direction
// goes on. Once both have ended, or as soon as one fails, both connections are closed. A reset of one side resets the
// other. After its end, a TCP source is still watched: a client that first ends its request and then resets would
// otherwise hold the upstream until the idle timeout.

// ErrIdle is why a relay ended when neither side had sent anything for the idle timeout.
var ErrIdle = errors.New("connection idle for too long")

var errNoHalfClose = errors.New("connection cannot be half-closed")

// bufferSize is what one read takes at most.
const bufferSize = 32 << 10

// Relay says how two connections are joined. The zero value has no timeouts and counts nothing.
type Relay struct {
	// Idle ends the relay when no byte moved in either direction for so long; zero means never.
	Idle time.Duration
	// ReadTimeout and WriteTimeout end the relay when one read from, or one write to, the connection a takes longer;
	// zero means no limit. They have no effect on a connection without deadlines.
	ReadTimeout, WriteTimeout time.Duration
	// Forth and Back are told how many bytes were just written from a to b, and from b to a. Each is called from one
	// goroutine; nil means not counted.
	Forth, Back func(n int64)
}

// Run copies between a and b until both have ended or one has failed, closes both, and says why it ended: nil after an
// orderly end of both, else the first error. Closing a or b from outside ends it. A panic in one of its goroutines is
// raised again in the caller's.
func (r Relay) Run(a, b io.ReadWriteCloser) error {
	s := &session{a: a, b: b, idle: r.Idle, start: time.Now()}
	s.watchIdle()
	forth := pump{session: s, src: a, dst: b, count: r.Forth, readTimeout: r.ReadTimeout}
	back := pump{session: s, src: b, dst: a, count: r.Back, writeTimeout: r.WriteTimeout}
	done := make(chan struct{})
	go func() {
		defer close(done)
		back.run()
	}()
	forth.run()
	<-done
	s.end(nil)
	if s.panicked != nil {
		panic(s.panicked)
	}
	return s.err
}

// session is one running relay.
type session struct {
	a, b  io.ReadWriteCloser
	idle  time.Duration
	start time.Time
	moved atomic.Int64 // when a byte moved last, since start
	ends  atomic.Int32 // how many sources have ended

	mu       sync.Mutex // guards the fields below until both pumps have returned
	timer    *time.Timer
	over     bool
	err      error
	panicked any
}

// end closes both connections; only the first call says why.
func (s *session) end(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over {
		return
	}
	s.over = true
	s.err = err
	if s.timer != nil {
		s.timer.Stop()
	}
	if errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) {
		reset(s.a)
		reset(s.b)
	}
	s.a.Close()
	s.b.Close()
}

func (s *session) watchIdle() {
	if s.idle <= 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.timer = time.AfterFunc(s.idle, s.checkIdle)
}

func (s *session) checkIdle() {
	silent := time.Since(s.start) - time.Duration(s.moved.Load())
	if silent >= s.idle {
		s.end(ErrIdle)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.over {
		s.timer.Reset(s.idle - silent)
	}
}

// pump is one direction of a session.
type pump struct {
	session                   *session
	src, dst                  io.ReadWriteCloser
	count                     func(int64)
	readTimeout, writeTimeout time.Duration
}

func (p *pump) run() {
	defer func() {
		if v := recover(); v != nil {
			p.session.fail(v)
		}
	}()
	src := p.source()
	if err := p.copy(src); err != nil {
		p.session.end(err)
		return
	}
	if p.session.ends.Add(1) == 2 {
		p.session.end(nil)
		return
	}
	if err := closeWrite(p.dst); err != nil {
		p.session.end(halfCloseError(err))
		return
	}
	if p.readTimeout > 0 {
		setReadDeadline(p.src, time.Time{})
	}
	if err := src.watch(); err != nil {
		p.session.end(err)
	}
}

func (s *session) fail(v any) {
	s.end(net.ErrClosed)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.panicked = v
}

// source is the reading side of a pump.
type source interface {
	// next moves some bytes to the pump's dst and says how many; io.EOF is the orderly end.
	next() (int64, error)
	// watch waits, after the end, until the connection is closed or reset; it may return at once where it can't.
	watch() error
}

// source picks the cheapest way to read p.src.
func (p *pump) source() source {
	if t := tcpConn(p.src); t != nil {
		if s := p.pollSource(t); s != nil {
			return s
		}
	}
	return &plainSource{pump: p}
}

// copy moves bytes until the source ends; nil means an orderly end.
func (p *pump) copy(src source) error {
	for {
		if p.readTimeout > 0 {
			setReadDeadline(p.src, time.Now().Add(p.readTimeout))
		}
		n, err := src.next()
		if n > 0 {
			p.session.moved.Store(int64(time.Since(p.session.start)))
			if p.count != nil {
				p.count(n)
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// write writes all of b to the sink.
func (p *pump) write(b []byte) (int64, error) {
	if p.writeTimeout > 0 {
		setWriteDeadline(p.dst, time.Now().Add(p.writeTimeout))
	}
	n, err := p.dst.Write(b)
	return int64(n), err
}

// plainSource reads a connection of any kind; it holds its buffer while it waits.
type plainSource struct {
	pump *pump
	buf  []byte
}

func (s *plainSource) next() (int64, error) {
	if s.buf == nil {
		s.buf = make([]byte, bufferSize)
	}
	n, err := s.pump.src.Read(s.buf)
	if n == 0 {
		return 0, err
	}
	written, werr := s.pump.write(s.buf[:n])
	if werr != nil {
		return written, werr
	}
	return written, err
}

func (s *plainSource) watch() error {
	s.buf = nil
	return nil
}

var buffers = sync.Pool{New: func() any { return new([bufferSize]byte) }}

// tcpConn is the TCP connection below c, nil when c is something else.
func tcpConn(c any) *net.TCPConn {
	switch c := c.(type) {
	case *net.TCPConn:
		return c
	case *Conn:
		return tcpConn(c.Conn)
	}
	return nil
}

func closeWrite(c any) error {
	if w, ok := c.(closeWriter); ok {
		return w.CloseWrite()
	}
	return errNoHalfClose
}

// halfCloseError is nil for a sink that can't be half-closed: there, the end of one side is the end of both.
func halfCloseError(err error) error {
	if err == errNoHalfClose {
		return nil
	}
	return err
}

// reset makes the next Close of c send a reset.
func reset(c any) {
	if t := tcpConn(c); t != nil {
		t.SetLinger(0)
	}
}

func setReadDeadline(c any, t time.Time) {
	if d, ok := c.(interface{ SetReadDeadline(time.Time) error }); ok {
		d.SetReadDeadline(t)
	}
}

func setWriteDeadline(c any, t time.Time) {
	if d, ok := c.(interface{ SetWriteDeadline(time.Time) error }); ok {
		d.SetWriteDeadline(t)
	}
}
