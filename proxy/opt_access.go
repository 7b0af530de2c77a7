package proxy

import (
	"cmp"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// accessRule says which addresses may use a target. It is a sorted list of address ranges that do not overlap, so one
// binary search answers. The nil rule permits everyone. Frozen; safe for concurrent use.
type accessRule struct {
	allow  bool // the ranges are those permitted, else those denied
	ranges []addrRange
}

type addrRange struct{ first, last netip.Addr }

// parseAccess reads "ip:CIDR[,ip:CIDR...]". A bare address is a range of one; "ip:" may be left out.
func parseAccess(allow bool, s string) (*accessRule, error) {
	a := &accessRule{allow: allow}
	for item := range strings.SplitSeq(s, ",") {
		item = strings.TrimSpace(item)
		prefix, err := parsePrefix(strings.TrimPrefix(item, "ip:"))
		if err != nil {
			return nil, fmt.Errorf("%q: %v", item, err)
		}
		a.ranges = append(a.ranges, addrRange{prefix.Addr(), lastAddr(prefix)})
	}
	a.ranges = mergeRanges(a.ranges)
	return a, nil
}

// parsePrefix reads a CIDR or a bare address; IPv4-mapped IPv6 becomes IPv4, host bits are cut.
func parsePrefix(s string) (netip.Prefix, error) {
	if !strings.Contains(s, "/") {
		addr, err := netip.ParseAddr(s)
		if err != nil || addr.Zone() != "" {
			return netip.Prefix{}, fmt.Errorf("want an IP address or CIDR")
		}
		addr = addr.Unmap()
		return netip.PrefixFrom(addr, addr.BitLen()), nil
	}
	p, err := netip.ParsePrefix(s)
	if err != nil {
		return netip.Prefix{}, fmt.Errorf("want an IP address or CIDR")
	}
	if p.Addr().Is4In6() && p.Bits() >= 96 {
		p = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)
	}
	return p.Masked(), nil
}

func lastAddr(p netip.Prefix) netip.Addr {
	b := p.Addr().AsSlice()
	for i := p.Bits(); i < len(b)*8; i++ {
		b[i/8] |= 1 << (7 - i%8)
	}
	last, _ := netip.AddrFromSlice(b)
	return last
}

func mergeRanges(rs []addrRange) []addrRange {
	slices.SortFunc(rs, func(a, b addrRange) int {
		return cmp.Or(a.first.Compare(b.first), a.last.Compare(b.last))
	})
	out := rs[:0]
	for _, r := range rs {
		if n := len(out); n > 0 && r.first.Compare(out[n-1].last) <= 0 {
			if r.last.Compare(out[n-1].last) > 0 {
				out[n-1].last = r.last
			}
			continue
		}
		out = append(out, r)
	}
	return out
}

// permits reports whether addr may use the target. The invalid address, which stands for one that could not be read,
// is permitted only where nothing must be allowed by name.
func (a *accessRule) permits(addr netip.Addr) bool {
	if a == nil {
		return true
	}
	if !addr.IsValid() {
		return !a.allow
	}
	return a.contains(addr.Unmap().WithZone("")) == a.allow
}

func (a *accessRule) contains(addr netip.Addr) bool {
	i, found := slices.BinarySearchFunc(a.ranges, addr, func(r addrRange, addr netip.Addr) int {
		return r.first.Compare(addr)
	})
	return found || i > 0 && addr.Compare(a.ranges[i-1].last) <= 0
}

// permitsRequest asks for the peer and for every element of every X-Forwarded-For line: each must be permitted.
func (a *accessRule) permitsRequest(peer netip.Addr, forwardedFor []string) bool {
	if !a.permits(peer) {
		return false
	}
	for _, line := range forwardedFor {
		for element := range strings.SplitSeq(line, ",") {
			element = strings.TrimSpace(element)
			if element != "" && !a.permits(parseForwardedAddr(element)) {
				return false
			}
		}
	}
	return true
}

// parseForwardedAddr reads an element of X-Forwarded-For: an address, with or without brackets and a port. The invalid
// address means that it is none.
func parseForwardedAddr(s string) netip.Addr {
	if addr, err := netip.ParseAddr(s); err == nil {
		return addr
	}
	if ap, err := netip.ParseAddrPort(s); err == nil {
		return ap.Addr()
	}
	if strings.HasPrefix(s, "[") && strings.HasSuffix(s, "]") {
		if addr, err := netip.ParseAddr(s[1 : len(s)-1]); err == nil && addr.Is6() {
			return addr
		}
	}
	return netip.Addr{}
}

var optAllow = option{
	name:   "allow",
	syntax: "allow=ip:CIDR[,ip:CIDR...]",
	help:   "only these client addresses may use the target, all others get 403 (a TCP connection is closed)",
	bind:   func(u *upstream, value string) error { return bindAccess(u, true, value) },
	wrap:   checkAccess,
}

var optDeny = option{
	name:   "deny",
	syntax: "deny=ip:CIDR[,ip:CIDR...]",
	help:   "these client addresses get 403 (a TCP connection is closed); not together with allow",
	bind:   func(u *upstream, value string) error { return bindAccess(u, false, value) },
	wrap:   checkAccess,
}

func bindAccess(u *upstream, allow bool, value string) error {
	if u.access != nil {
		return fmt.Errorf("allow and deny exclude each other")
	}
	rule, err := parseAccess(allow, value)
	if err != nil {
		return err
	}
	u.access = rule
	return nil
}

// checkAccess answers 403 to those whom the rule does not permit.
func checkAccess(next handler) handler {
	return func(x *exchange) {
		if !x.up.access.permitsRequest(x.peerAddr(), x.req.Header["X-Forwarded-For"]) {
			x.p.metrics.HTTPDenied.Inc()
			x.fail(http.StatusForbidden, codeDenied, "access denied")
			return
		}
		next(x)
	}
}
