package http1

import (
	"io"
	"net"
	"os"
	"syscall"
)

// rawReads says that a non-blocking read(2) inside RawConn.Read works as source expects.
const rawReads = true

// recv is the body of RawConn.Read: false means wait until the socket is readable and come again.
func (s *source) recv(fd uintptr) bool {
	dst := s.dst
	var own *[]byte
	if dst == nil {
		own = buffers.Get().(*[]byte)
		dst = *own
	}
	var n int
	var err error
	for {
		n, err = syscall.Read(int(fd), dst)
		if err != syscall.EINTR {
			break
		}
	}
	if err == syscall.EAGAIN {
		if own != nil {
			buffers.Put(own)
		}
		return false
	}
	switch {
	case err != nil:
		s.n, s.err = 0, os.NewSyscallError("read", err)
	case n == 0:
		s.n, s.err = 0, io.EOF
	default:
		s.n, s.err = n, nil
	}
	if own != nil {
		if n > 0 {
			s.buf = own
		} else {
			buffers.Put(own)
		}
	}
	return true
}

// peek looks at a socket without reading it or waiting: open means that it is neither closed nor broken, readable that
// bytes wait in it. A connection that is no plain socket counts as open and not readable.
func peek(raw syscall.RawConn) (open, readable bool) {
	if raw == nil {
		return true, false
	}
	open = true
	err := raw.Control(func(fd uintptr) {
		var b [1]byte
		n, _, err := syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		switch {
		case err == syscall.EAGAIN || err == syscall.EINTR:
		case err != nil || n == 0:
			open = false
		default:
			readable = true
		}
	})
	return open && err == nil, readable
}

// socketOf answers the socket under nc, through TLS if need be, nil where there is none.
func socketOf(nc net.Conn) syscall.RawConn {
	for {
		switch c := nc.(type) {
		case syscall.Conn:
			raw, err := c.SyscallConn()
			if err != nil {
				return nil
			}
			return raw
		case interface{ NetConn() net.Conn }:
			nc = c.NetConn()
		default:
			return nil
		}
	}
}
