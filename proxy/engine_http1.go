package proxy

import (
	"context"
	"net"
	"time"

	"varco/proxy/http1"
)

// openHTTP1 makes an http1.Transport for one identity.
func (p *Proxy) openHTTP1(id identity) transport {
	c := &p.config.HTTP
	return &http1.Transport{
		Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
			if id.tls {
				return dialTLS(ctx, p.dialer, id, c.TLSHandshakeTimeout)
			}
			return p.dialer.dial(ctx, id.addr)
		},
		Secure:        id.tls,
		HeaderTimeout: c.ResponseHeaderTimeout,
		BodyTimeout:   c.ResponseStallTimeout,
		IdleTimeout:   unlimited(c.IdleConnTimeout),
		MaxIdle:       max(c.MaxIdleConns, 1),
		MaxHead:       c.MaxHeaderBytes,
	}
}

// newHTTP1Server makes an http1.Server. It guards writes and bodies itself.
func (p *Proxy) newHTTP1Server(l ListenConfig) httpServer {
	c := &p.config.Listen
	return &http1.Server{
		Handler:         p,
		Log:             p.log,
		HeadTimeout:     c.HeaderTimeout,
		IdleTimeout:     unlimited(l.IdleTimeout),
		BodyTimeout:     unlimited(c.BodyTimeout),
		WriteTimeout:    unlimited(c.StallTimeout),
		ReadTimeout:     l.ReadTimeout,
		ResponseTimeout: l.WriteTimeout,
		MaxHead:         c.HeaderBytes,
		MaxLine:         min(c.HeaderBytes, 16<<10),
		Refused:         p.refused,
		Panicked:        func(any) { p.metrics.Panics.Inc() },
	}
}

// unlimited turns a flag's 0, no limit, into http1's.
func unlimited(d time.Duration) time.Duration {
	if d == 0 {
		return -1
	}
	return d
}

// refused counts and logs a request that was answered before it became one.
func (p *Proxy) refused(remote string, status int, _ string) {
	if status == 0 {
		return
	}
	p.metrics.Answer(status)
	if p.access != nil {
		p.access.write(&logEntry{Start: time.Now(), RemoteAddr: remote, Status: status, Scheme: "http"})
	}
}
