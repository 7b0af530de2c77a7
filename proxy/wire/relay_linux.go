package wire

import (
	"io"
	"net"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// spliceStep is the most that is spliced in one step: the counts and the idle timeout see progress after each.
const spliceStep = 256 << 10

// pollSource reads a TCP connection and holds nothing while it waits.
type pollSource struct {
	pump *pump
	conn *net.TCPConn
	raw  syscall.RawConn
	sink *net.TCPConn // nil when the sink is not plain TCP or has deadlines that a splice would not see
	bulk bool         // the last read filled the buffer

	read  func(fd uintptr) bool // s.poll, made once
	count func(fd uintptr)      // s.inq, made once
	buf   *[bufferSize]byte
	n     int
	err   error
	step  io.LimitedReader
}

func (p *pump) pollSource(c *net.TCPConn) source {
	raw, err := c.SyscallConn()
	if err != nil {
		return nil
	}
	s := &pollSource{pump: p, conn: c, raw: raw}
	if p.writeTimeout == 0 {
		s.sink, _ = p.dst.(*net.TCPConn)
	}
	s.read, s.count = s.poll, s.inq
	return s
}

func (s *pollSource) next() (int64, error) {
	if s.bulk && s.sink != nil {
		if n := min(s.queued(), spliceStep); n >= bufferSize {
			s.step = io.LimitedReader{R: s.conn, N: int64(n)}
			return s.sink.ReadFrom(&s.step)
		}
	}
	return s.copy()
}

// copy reads once, as soon as something can be read, and writes it.
func (s *pollSource) copy() (int64, error) {
	if err := s.raw.Read(s.read); err != nil {
		return 0, err
	}
	if s.err != nil {
		return 0, s.err
	}
	if s.n == 0 {
		return 0, io.EOF
	}
	s.bulk = s.n == len(s.buf)
	n, err := s.pump.write(s.buf[:s.n])
	buffers.Put(s.buf)
	s.buf = nil
	return n, err
}

// poll tries to read without blocking; false makes the caller wait until it may succeed. The buffer is kept only
// when there is something in it.
func (s *pollSource) poll(fd uintptr) bool {
	buf := buffers.Get().(*[bufferSize]byte)
	for {
		n, err := syscall.Read(int(fd), buf[:])
		if err == syscall.EINTR {
			continue
		}
		if n > 0 {
			s.buf, s.n, s.err = buf, n, nil
			return true
		}
		buffers.Put(buf)
		if err == syscall.EAGAIN {
			return false
		}
		s.n, s.err = 0, nil
		if err != nil {
			s.err = os.NewSyscallError("read", err)
		}
		return true
	}
}

// queued is how many bytes can be read at once; 0 when that is not known.
func (s *pollSource) queued() int {
	s.n = 0
	if err := s.raw.Control(s.count); err != nil {
		return 0
	}
	return s.n
}

func (s *pollSource) inq(fd uintptr) {
	if n, err := unix.IoctlGetInt(int(fd), unix.TIOCINQ); err == nil {
		s.n = n
	}
}

// watch waits for a reset: it wakes the poller, and the socket's error says so. Closing the connection ends it.
func (s *pollSource) watch() error {
	var failure error
	err := s.raw.Read(func(fd uintptr) bool {
		code, err := unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_ERROR)
		if err == nil && code != 0 {
			failure = os.NewSyscallError("read", syscall.Errno(code))
		}
		return failure != nil
	})
	if failure != nil {
		return failure
	}
	return err
}
