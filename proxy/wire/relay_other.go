//go:build !linux

package wire

import "net"

// pollSource exists on Linux only.
func (p *pump) pollSource(*net.TCPConn) source { return nil }
