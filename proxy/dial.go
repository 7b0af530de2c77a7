package proxy

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/netip"
	"syscall"
	"time"
)

// dialer connects to upstreams: under a timeout, with keep-alive probes, and only where the guard permits.
type dialer struct {
	timeout   time.Duration
	keepAlive time.Duration
	guard     *guard
}

func (d *dialer) dial(ctx context.Context, addr string) (net.Conn, error) {
	nd := net.Dialer{
		Timeout: d.timeout,
		KeepAliveConfig: net.KeepAliveConfig{
			Enable: d.keepAlive >= 0, Idle: d.keepAlive, Interval: d.keepAlive, Count: 3,
		},
		Control: func(_, address string, _ syscall.RawConn) error {
			ap, err := netip.ParseAddrPort(address)
			if err != nil {
				return err
			}
			return d.guard.check(ap, addr)
		},
	}
	return nd.DialContext(ctx, "tcp", addr)
}

// dialTLS connects and shakes hands under the identity's name.
func dialTLS(ctx context.Context, d *dialer, id identity, timeout time.Duration) (net.Conn, error) {
	raw, err := d.dial(ctx, id.addr)
	if err != nil {
		return nil, err
	}
	if timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, timeout, errTLSTimeout)
		defer cancel()
	}
	conn := tls.Client(raw, &tls.Config{ServerName: id.sni, InsecureSkipVerify: id.skipVerify, MinVersion: tls.VersionTLS12})
	if err := conn.HandshakeContext(ctx); err != nil {
		raw.Close()
		if cause := context.Cause(ctx); errors.Is(cause, errTLSTimeout) {
			err = cause
		}
		return nil, &tlsError{err}
	}
	return conn, nil
}

var errTLSTimeout error = timeoutError("TLS handshake timeout")

type timeoutError string

func (e timeoutError) Error() string { return string(e) }
func (timeoutError) Timeout() bool   { return true }
func (timeoutError) Temporary() bool { return true }

// tlsError is a failed handshake.
type tlsError struct{ err error }

func (e *tlsError) Error() string { return "TLS handshake: " + e.err.Error() }
func (e *tlsError) Unwrap() error { return e.err }
