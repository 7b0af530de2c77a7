//go:build !linux

package http1

import "syscall"

var reusePort func(network, addr string, c syscall.RawConn) error
