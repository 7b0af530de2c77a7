package proxy

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync"
	"time"
)

// The guard keeps the registry from pointing varco at what it should not reach: link-local addresses (a cloud's
// metadata service), unspecified ones (which mean this machine), varco's own listeners, and the addresses that main
// forbids (its page, the Consul agent). It is asked twice: when a target is bound, as far as the destination is an
// address; and when a connection is made, with the address that a name led to.
type guard struct {
	allowed []allowedUpstream
	// local returns the machine's own addresses. A test seam.
	local func() []netip.Addr

	mu        sync.RWMutex
	forbidden []forbiddenAddr
}

// allowedUpstream lifts the refusal for a network, or for one host:port.
type allowedUpstream struct {
	prefix netip.Prefix // invalid for a name
	port   string       // "" is any
	name   string
}

// forbiddenAddr is a place that must not be an upstream. An invalid or unspecified addr is any address of this
// machine, and so is a loopback one: what listens on localhost often listens elsewhere too.
type forbiddenAddr struct {
	addr netip.Addr
	port uint16
	what string
}

// parseAllowedUpstream reads one element of proxy.upstream.allow.
func parseAllowedUpstream(s string) (allowedUpstream, error) {
	if p, err := parsePrefix(s); err == nil {
		return allowedUpstream{prefix: p}, nil
	}
	host, port, err := net.SplitHostPort(s)
	if err != nil || host == "" || !validPort(port) {
		return allowedUpstream{}, errors.New("want an IP address, CIDR or host:port")
	}
	if addr, err := netip.ParseAddr(host); err == nil {
		addr = addr.Unmap()
		return allowedUpstream{prefix: netip.PrefixFrom(addr, addr.BitLen()), port: port}, nil
	}
	return allowedUpstream{name: strings.ToLower(host), port: port}, nil
}

// forbid adds a host:port; a name is looked up, and when that fails only stands for itself on this machine.
func (g *guard) forbid(hostport, what string) {
	host, port, err := net.SplitHostPort(hostport)
	if err != nil {
		return
	}
	n, err := net.LookupPort("tcp", port)
	if err != nil || n == 0 {
		return
	}
	addrs := lookup(host)
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, addr := range addrs {
		g.forbidden = append(g.forbidden, forbiddenAddr{addr: addr.Unmap().WithZone(""), port: uint16(n), what: what})
	}
}

// lookup answers the addresses of host; the invalid address when it is empty or unknown.
func lookup(host string) []netip.Addr {
	if addr, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{addr}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	if host != "" {
		if addrs, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host); err == nil {
			return addrs
		}
	}
	return []netip.Addr{{}}
}

// checkDestination refuses a destination that is an address, or localhost, and not permitted.
func (g *guard) checkDestination(hostport string) error {
	host, port, _ := net.SplitHostPort(hostport)
	if !validPort(port) {
		return fmt.Errorf("destination: port %q: want 1 to 65535", port)
	}
	if strings.EqualFold(host, "localhost") {
		host = "127.0.0.1"
	}
	if addr, err := netip.ParseAddr(host); err == nil {
		n, _ := net.LookupPort("tcp", port)
		if err := g.check(netip.AddrPortFrom(addr, uint16(n)), hostport); err != nil {
			return fmt.Errorf("destination: %w", err)
		}
		return nil
	}
	if !validHost(hostport) {
		return fmt.Errorf("destination: %q is not a host name", host)
	}
	return nil
}

// metadataAddr is the one of AWS's metadata service that is not link-local.
var metadataAddr = netip.MustParseAddr("fd00:ec2::254")

// errForbidden is the error of a destination that the guard refuses.
var errForbidden = errors.New("is not permitted as an upstream, see proxy.upstream.allow")

// check answers whether a connection to ap may be made; name is the host:port of the destination.
func (g *guard) check(ap netip.AddrPort, name string) error {
	addr := ap.Addr().Unmap().WithZone("")
	what := ""
	switch {
	case addr.IsUnspecified():
		what = "unspecified address"
	case addr.IsLinkLocalUnicast():
		what = "link-local address"
	case addr == metadataAddr:
		what = "metadata service"
	case addr.IsMulticast():
		what = "multicast address"
	default:
		what = g.forbiddenAt(addr, ap.Port())
	}
	if what == "" || g.allows(addr, ap.Port(), name) {
		return nil
	}
	return fmt.Errorf("%s %s %w", what, ap, errForbidden)
}

func (g *guard) allows(addr netip.Addr, port uint16, name string) bool {
	for _, a := range g.allowed {
		portOK := a.port == "" || a.port == fmt.Sprint(port)
		if portOK && a.prefix.IsValid() && a.prefix.Contains(addr) {
			return true
		}
		if a.name != "" && strings.EqualFold(net.JoinHostPort(a.name, a.port), name) {
			return true
		}
	}
	return false
}

// forbiddenAt says what stands at the address, "" for nothing of ours. Most ports are nobody's, so the machine's
// addresses are hardly ever asked for.
func (g *guard) forbiddenAt(addr netip.Addr, port uint16) string {
	g.mu.RLock()
	defer g.mu.RUnlock()
	for _, f := range g.forbidden {
		if f.port != port {
			continue
		}
		anyLocal := !f.addr.IsValid() || f.addr.IsUnspecified() || f.addr.IsLoopback()
		if f.addr == addr || anyLocal && g.isLocal(addr) {
			return f.what
		}
	}
	return ""
}

func (g *guard) isLocal(addr netip.Addr) bool {
	if addr.IsLoopback() {
		return true
	}
	for _, a := range g.local() {
		if a == addr {
			return true
		}
	}
	return false
}

// localAddrs are the addresses of this machine's interfaces.
func localAddrs() []netip.Addr {
	var list []netip.Addr
	addrs, _ := net.InterfaceAddrs()
	for _, a := range addrs {
		if n, ok := a.(*net.IPNet); ok {
			if addr, ok := netip.AddrFromSlice(n.IP); ok {
				list = append(list, addr.Unmap())
			}
		}
	}
	return list
}
