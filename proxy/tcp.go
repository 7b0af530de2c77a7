package proxy

import (
	"context"
	"net"
	"net/netip"
	"time"

	"varco/metrics"
	"varco/proxy/wire"
	"varco/route"
)

// proxyHeaderTimeout is the time for an upstream to take the PROXY header.
const proxyHeaderTimeout = 10 * time.Second

// serveConn carries one TCP connection: look up the route of the listener's port, pick a target once, ask its access
// rule, connect, and copy both ways. A connection that can't be carried is closed without a byte; the counters tell
// why. The connection keeps its target when the table changes. Key is the route's, ":port".
func (p *Proxy) serveConn(ctx context.Context, c net.Conn, key string, relay wire.Relay) {
	p.metrics.TCPConn.Inc()
	r := p.Table().LookupConn(key)
	if r == nil {
		p.metrics.NotFound.Inc()
		p.metrics.TCPNoRoute.Inc()
		return
	}
	u, conn := p.connect(ctx, c, r)
	if conn == nil {
		return
	}
	defer conn.Close()
	opened := time.Now()
	u.stats.ConnOpen()
	p.metrics.TCPConns.Inc()
	defer func() {
		p.metrics.TCPConns.Dec()
		u.stats.ConnClose(time.Since(opened))
	}()
	if err := u.announce(conn, c); err != nil {
		u.stats.UpstreamError(metrics.ErrReset)
		p.metrics.TCPConnFail.Inc()
		return
	}
	relay.Forth, relay.Back = u.stats.AddTx, u.stats.AddRx
	relay.Run(c, conn) // how a connection ends is between its two ends
}

// connect picks a target and connects to it, or to another one when that fails. It returns nil, with everything
// counted, when there is none.
func (p *Proxy) connect(ctx context.Context, c net.Conn, r *route.Route) (*upstream, net.Conn) {
	t := r.Pick()
	if t == nil {
		p.metrics.RouteDown.Inc()
		return nil, nil
	}
	client := addrPort(c.RemoteAddr()).Addr()
	var tried [maxAttempts]*route.Target
	for n := 0; ; {
		u := upstreamOf(t)
		if !u.access.permits(client) {
			p.metrics.TCPDenied.Inc()
			return nil, nil
		}
		conn, err := u.dial(ctx)
		if err == nil {
			return u, conn
		}
		if ctx.Err() != nil {
			return nil, nil
		}
		u.stats.UpstreamError(dialErrorKind(err))
		tried[n] = t
		n++
		if n > p.config.HTTP.Retries {
			break
		}
		if t = r.PickOther(tried[:n]...); t == nil {
			break
		}
		u.stats.Retry()
	}
	p.metrics.TCPConnFail.Inc()
	return nil, nil
}

// announce tells the upstream who the client is, if the target asks for it.
func (u *upstream) announce(conn, client net.Conn) error {
	if u.proxyHeader == 0 {
		return nil
	}
	var buf [128]byte
	header := wire.AppendProxyHeader(buf[:0], u.proxyHeader, addrPort(client.RemoteAddr()), addrPort(client.LocalAddr()))
	conn.SetWriteDeadline(time.Now().Add(proxyHeaderTimeout))
	if _, err := conn.Write(header); err != nil {
		return err
	}
	return conn.SetWriteDeadline(time.Time{})
}

// addrPort is the address of a TCP connection's end; the invalid one for anything else.
func addrPort(a net.Addr) netip.AddrPort {
	if t, ok := a.(*net.TCPAddr); ok {
		return t.AddrPort()
	}
	return netip.AddrPort{}
}

func dialErrorKind(err error) metrics.ErrorKind {
	if timedOut(err) {
		return metrics.ErrTimeout
	}
	return metrics.ErrDial
}
