package route

import (
	"net"
	"net/netip"
	"slices"
	"strings"
	"unicode/utf8"
)

// Which hosts of the table a request may mean, and in which order.
//
// A host of the table is a name (foo.com, foo.com:8080, [::1]:8080), or a pattern (*.foo.com, foo*.com:8080; glob.go
// says what patterns may hold), or "" for routes that do not ask for a host. The candidates for a request are
//
//  1. the host with exactly the request's name;
//  2. the patterns that match it, from the most to the least specific: their names are compared from the end, so
//     that *.a.foo.com comes before *.foo.com, and that before *;
//  3. the routes without a host.
//
// The first candidate that has a route for the path wins; a host without one lets the request through to the next.
//
// The default port of the request's scheme (80, or 443 with TLS) counts as not written, in the request and in the
// names and patterns it is compared with. So foo.com:80 is found by requests without TLS only, and before foo.com,
// which both find. Every other port has to be the same. Case does not matter, nor does one dot at the end of a name.
//
//	names      foo.com  foo.com:80  *.foo.com  *:80
//	http://foo.com/        foo.com:80, foo.com, *:80
//	https://foo.com/       foo.com
//	http://a.foo.com:80/   *.foo.com, *:80
//	http://foo.com:8080/   *:80 (without the default port it is *)
//
// Names are found in a hash map (hosts.go). Patterns of the form *.suffix, by far the most common, are found in one too: by each
// suffix of the request's name that starts with a dot, longest first, which is already their order. The few other
// patterns are kept sorted and tried in turn, merged with those. Nothing is allocated: a name that has to be folded is
// folded into a buffer on the stack.

// host is one host of the table with its routes. It is frozen and shared by the tables that have it.
type host struct {
	name   string
	routes []*Route // by listing order
	conn   *Route   // for connections, nil if there is none
	paths  paths

	kind  hostKind
	order string // patterns: by which they are compared, greatest first
	glob  *glob  // hostGlob: the pattern
	cut   *glob  // hostGlob: the pattern without a default port, nil if it has none
}

type hostKind uint8

const (
	hostName   hostKind = iota // also ""
	hostPort                   // ":3306"
	hostSuffix                 // "*.foo.com"
	hostGlob
)

const portHTTP, portHTTPS = ":80", ":443"

// defaultPort returns the port that counts as not written.
func defaultPort(tls bool) string {
	if tls {
		return portHTTPS
	}
	return portHTTP
}

// newHost returns a host without routes. In exact mode there are no patterns.
func newHost(name string, exact bool) (*host, error) {
	h := &host{name: name}
	switch {
	case strings.HasPrefix(name, ":"):
		h.kind = hostPort
	case exact || !strings.ContainsAny(name, globMeta) || isIPv6(name):
	case isSuffixPattern(name):
		h.kind = hostSuffix
	default:
		h.kind = hostGlob
		var err error
		if h.glob, err = compileGlob(name); err != nil {
			return nil, err
		}
		if bare, _ := cutDefaultPort(name); bare != name {
			if h.cut, err = compileGlob(bare); err != nil {
				return nil, err
			}
		}
	}
	if h.kind >= hostSuffix {
		h.order = reverseHost(name)
	}
	return h, nil
}

// isIPv6 reports whether name is an IPv6 address in brackets, perhaps with a port, and not a class of characters.
func isIPv6(name string) bool {
	inner, ok := strings.CutPrefix(name, "[")
	if !ok {
		return false
	}
	inner, port, ok := strings.Cut(inner, "]")
	if !ok || port != "" && port[0] != ':' {
		return false
	}
	addr, err := netip.ParseAddr(inner)
	return err == nil && addr.Is6()
}

// isSuffixPattern reports whether name is *.suffix and nothing else has a meaning. Bytes that sort before the star
// would upset the order in which suffixes are found; no real name has one.
func isSuffixPattern(name string) bool {
	suffix, ok := strings.CutPrefix(name, "*.")
	if !ok || suffix == "" || strings.ContainsAny(suffix, globMeta) {
		return false
	}
	for i := range len(suffix) {
		if suffix[i] <= '*' {
			return false
		}
	}
	return utf8.ValidString(suffix)
}

// cutDefaultPort cuts the default port of any scheme and returns which it was.
func cutDefaultPort(name string) (bare, port string) {
	for _, port := range []string{portHTTP, portHTTPS} {
		if bare, ok := strings.CutSuffix(name, port); ok {
			return bare, port
		}
	}
	return name, ""
}

// reverseHost returns name with its characters in reverse, a port left as it is, by which patterns are compared: the
// most specific part of a name comes first, so it has to be compared last.
func reverseHost(name string) string {
	bare, port, err := net.SplitHostPort(name)
	if err != nil || bare == "" {
		bare, port = name, ""
	}
	r := []rune(bare)
	slices.Reverse(r)
	if port == "" {
		return string(r)
	}
	return net.JoinHostPort(string(r), port)
}

// before reports whether h, a pattern, is more specific than i.
func (h *host) before(i *host) bool {
	if h.order != i.order {
		return h.order > i.order
	}
	return h.name > i.name
}

// matches reports whether h, a glob, matches name, which has no default port.
func (h *host) matches(name string, tls bool) bool {
	if h.cut != nil && strings.HasSuffix(h.name, defaultPort(tls)) {
		return h.cut.match(name)
	}
	return h.glob.match(name)
}

// splitSrc returns the host and the path of a source: ":3306" has no path, a host without one has "/". The host has no
// dot at its end.
func splitSrc(src string) (host, path string) {
	if strings.HasPrefix(src, ":") {
		return src, ""
	}
	host, path = src, "/"
	if i := strings.IndexByte(src, '/'); i >= 0 {
		host, path = src[:i], src[i:]
	}
	if dot := endDot(host); dot >= 0 {
		host = host[:dot] + host[dot+1:]
	}
	return host, path
}

// lowerSrc returns src with its host in lower case.
func lowerSrc(src string) string {
	host := src
	if i := strings.IndexByte(src, '/'); i >= 0 {
		host = src[:i]
	}
	if isLower(host) {
		return src
	}
	return lower(host) + src[len(host):]
}
