package http1

import (
	"net"
	"syscall"
)

// rawReads says that a non-blocking read(2) inside RawConn.Read works as source expects.
const rawReads = true

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
