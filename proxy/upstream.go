package proxy

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"sync/atomic"

	"varco/metrics"
	"varco/route"
)

// An upstream is what bind makes of a target: its options read into typed values, its chain of handlers, its
// connections and its statistics. It lives as long as the target's identity stays in the table, over any number of
// updates, and is read-only but for the counter. Requests that began before it left may still use it.
type upstream struct {
	target *route.Target
	scheme string // http, https or tcp; that of the URL for a redirect
	addr   string // host:port to connect to, "" for a redirect
	base   string // path of the destination, without its last "/"; "" in most cases
	query  string // query of the destination
	serve  handler

	access      *accessRule // nil permits everyone
	host        string      // Host header for the upstream; "" keeps the client's
	sni         string      // name in the TLS handshake; "" is that of the destination
	skipVerify  bool
	proxyHeader uint8 // version of the PROXY header for TCP, 0 for none
	rawPath     bool  // ambiguous paths are let through
	strip       string
	stripValues []string // X-Forwarded-Prefix, nil without strip
	prepend     string
	redirect    *redirect
	alias       string // value of register

	conns *pool // nil unless HTTP
	guard *guard
	dialc *dialer
	stats *metrics.Target

	inFlight atomic.Int64
}

// upstreamOf returns what bind made of t.
func upstreamOf(t *route.Target) *upstream { return t.Bound.(*upstream) }

// bind makes the upstream of a target; an error refuses the target. It is route.Config's Bind.
func (p *Proxy) bind(t *route.Target) (any, error) {
	u, err := p.newUpstream(t)
	if err != nil {
		return nil, err
	}
	u.stats = p.metrics.Acquire(metrics.TargetLabels{Service: t.Service, Host: t.Host, Path: t.Path, Target: t.URL.String()})
	if u.http() {
		u.conns = p.pools.acquire(u.identity())
	}
	return u, nil
}

// checkTarget is bind without anything to release.
func (p *Proxy) checkTarget(t *route.Target) (any, error) { return p.newUpstream(t) }

func (p *Proxy) newUpstream(t *route.Target) (*upstream, error) {
	u := &upstream{target: t, scheme: t.URL.Scheme, guard: p.guard, dialc: p.dialer}
	if err := u.readOptions(p.config.HTTP.KeepUnknownOptions); err != nil {
		return nil, err
	}
	if u.redirect == nil {
		if err := u.readDestination(t.URL); err != nil {
			return nil, err
		}
	}
	u.serve = u.chain()
	return u, nil
}

// readOptions binds the options in the order of the list, whatever their order on the target.
func (u *upstream) readOptions(keepUnknown bool) error {
	for _, o := range u.target.Opts {
		if _, known := findOption(o.Key); !known && !keepUnknown {
			return unknownOption(o.Key)
		}
	}
	for _, o := range options {
		value, ok := u.target.Opts.Get(o.name)
		if !ok || o.bind == nil {
			continue
		}
		if err := o.bind(u, value); err != nil {
			return fmt.Errorf("option %s=%s: %w", o.name, value, err)
		}
	}
	return nil
}

var defaultPorts = map[string]string{"http": "80", "https": "443"}

// readDestination takes the address and the base path from the destination URL.
func (u *upstream) readDestination(dst *url.URL) error {
	port := dst.Port()
	switch u.scheme {
	case "http", "https":
		if port == "" {
			port = defaultPorts[u.scheme]
		}
	case "tcp":
		if port == "" {
			return errors.New("destination: want tcp://host:port")
		}
	case "grpc", "grpcs":
		return fmt.Errorf("destination: %s is not part of this version", u.scheme)
	default:
		return fmt.Errorf("destination: scheme %q: want http, https or tcp", u.scheme)
	}
	if dst.Hostname() == "" {
		return errors.New("destination: it names no host")
	}
	u.addr = net.JoinHostPort(dst.Hostname(), port)
	if err := u.guard.checkDestination(u.addr); err != nil {
		return err
	}
	if u.scheme == "tcp" {
		return nil
	}
	return u.readBase(dst)
}

// chain is forward, or what answers in its place, with the handlers of the options that this target has in front.
func (u *upstream) chain() handler {
	var last handler
	switch {
	case u.redirect != nil:
		last = answerRedirect
	case u.scheme == "tcp":
		last = refuseTCP
	case u.rewrites():
		last = rewrite(forward)
	default:
		last = forward
	}
	for i := len(options) - 1; i >= 0; i-- {
		if _, ok := u.target.Opts.Get(options[i].name); ok && options[i].wrap != nil {
			last = options[i].wrap(last)
		}
	}
	return last
}

func (u *upstream) http() bool { return u.redirect == nil && u.scheme != "tcp" }

// identity is what tells connections apart: two targets with the same one share them.
func (u *upstream) identity() identity {
	id := identity{addr: u.addr}
	if u.scheme == "https" {
		id.tls, id.skipVerify, id.sni = true, u.skipVerify, u.sni
		if id.sni == "" {
			id.sni, _, _ = net.SplitHostPort(u.addr)
		}
	}
	return id
}

// release gives back what bind acquired, once no table in use leads to u.
func (u *upstream) release(p *Proxy) {
	p.metrics.Release(u.stats)
	if u.conns != nil {
		p.pools.release(u.conns)
	}
}

// dial connects to the upstream under the dial timeout.
func (u *upstream) dial(ctx context.Context) (net.Conn, error) { return u.dialc.dial(ctx, u.addr) }
