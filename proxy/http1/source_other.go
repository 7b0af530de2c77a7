//go:build !linux

package http1

import (
	"net"
	"syscall"
)

// rawReads is off where it has not been tried: connections are read in the ordinary way.
const rawReads = false

func (s *source) recv(uintptr) bool { return true }

func peek(syscall.RawConn) (open, readable bool) { return true, false }

func socketOf(net.Conn) syscall.RawConn { return nil }
