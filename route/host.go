package route

import (
	"net"
	"net/netip"
	"slices"
	"strings"
	"unicode/utf8"
	"unsafe"
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
// Names are found in a hash map. Patterns of the form *.suffix, by far the most common, are found in one too: by each
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

// hosts finds hosts by name. It is frozen with its table.
type hosts struct {
	names    map[string]hostSlot
	ports    map[string]*host
	suffixes map[string]hostSlot // by ".foo.com"
	globs    []*host             // most specific first
	any      *host               // "", nil if there is none
	longest  int                 // the longest suffix
}

// hostSlot holds the hosts that a name or suffix stands for: the one written so, and those with a default port.
type hostSlot struct{ plain, http, https *host }

// withPort returns the host that was written with the default port.
func (s *hostSlot) withPort(tls bool) *host {
	if tls {
		return s.https
	}
	return s.http
}

func newHosts(list []*host) hosts {
	x := hosts{names: make(map[string]hostSlot, len(list))}
	put := func(m map[string]hostSlot, key string, h *host) {
		s := m[key]
		s.plain = h
		m[key] = s
		bare, port := cutDefaultPort(key)
		s = m[bare]
		switch port {
		case portHTTP:
			s.http = h
		case portHTTPS:
			s.https = h
		default:
			return
		}
		m[bare] = s
	}
	for _, h := range list {
		switch {
		case h.name == "":
			x.any = h
		case h.kind == hostPort:
			if x.ports == nil {
				x.ports = make(map[string]*host)
			}
			x.ports[h.name] = h
		case h.kind == hostSuffix:
			if x.suffixes == nil {
				x.suffixes = make(map[string]hostSlot)
			}
			put(x.suffixes, h.name[1:], h)
			x.longest = max(x.longest, len(h.name)-1)
		case h.kind == hostGlob:
			x.globs = append(x.globs, h)
		default:
			put(x.names, h.name, h)
		}
	}
	slices.SortFunc(x.globs, func(a, b *host) int {
		if a.before(b) {
			return -1
		}
		return 1
	})
	return x
}

// A visit looks for a path in one candidate after the other.
type visit struct {
	path  string
	after *Route // look only behind its host; nil: everywhere
}

// try returns the route of h for the path, nil if there is none or h is not far enough.
func (v *visit) try(h *host) *Route {
	if h == nil {
		return nil
	}
	if v.after != nil {
		if v.after.Host == h.name {
			v.after = nil
		}
		return nil
	}
	return h.paths.lookup(v.path)
}

// lookup returns the first route that v finds in the candidates for name, which is as the client sent it.
func (x *hosts) lookup(name string, tls bool, v visit) *Route {
	name = strings.TrimSuffix(name, defaultPort(tls))
	if isFolded(name) {
		return x.candidates(name, tls, v)
	}
	return x.lookupFolding(name, tls, v)
}

func (x *hosts) lookupFolding(name string, tls bool, v visit) *Route {
	var buf [maxHost + 8]byte
	return x.candidates(foldHost(buf[:0], name), tls, v)
}

// candidates is lookup for a folded name without default port.
func (x *hosts) candidates(name string, tls bool, v visit) *Route {
	if len(name) > maxHost {
		return v.try(x.any)
	}
	// A name that still has the default port, foo.com:80:80, does not equal one that was written with it once.
	odd := strings.HasSuffix(name, defaultPort(tls))
	if s, ok := x.names[name]; ok {
		if r := v.try(s.withPort(tls)); r != nil {
			return r
		}
		if !odd {
			if r := v.try(s.plain); r != nil {
				return r
			}
		}
	}
	if len(x.suffixes)+len(x.globs) > 0 {
		if r := x.patterns(name, tls, odd, &v); r != nil {
			return r
		}
	}
	return v.try(x.any)
}

// patterns tries those that match name: suffixes and globs merged, most specific first.
func (x *hosts) patterns(name string, tls, odd bool, v *visit) *Route {
	w := suffixWalk{rest: name, tls: tls, odd: odd}
	suffix := w.next(x)
	for _, g := range x.globs {
		for suffix != nil && suffix.before(g) {
			if r := v.try(suffix); r != nil {
				return r
			}
			suffix = w.next(x)
		}
		if g.matches(name, tls) {
			if r := v.try(g); r != nil {
				return r
			}
		}
	}
	for ; suffix != nil; suffix = w.next(x) {
		if r := v.try(suffix); r != nil {
			return r
		}
	}
	return nil
}

// suffixWalk goes through the suffix patterns that match a name, most specific first.
type suffixWalk struct {
	rest     string // what of the name is still to be looked at
	tls, odd bool
	plain    *host // comes next, before rest
}

func (w *suffixWalk) next(x *hosts) *host {
	if h := w.plain; h != nil {
		w.plain = nil
		return h
	}
	if len(x.suffixes) == 0 {
		return nil
	}
	for {
		if far := len(w.rest) - x.longest; far > 0 {
			w.rest = w.rest[far:]
		}
		dot := strings.IndexByte(w.rest, '.')
		if dot < 0 {
			return nil
		}
		s := x.suffixes[w.rest[dot:]]
		w.rest = w.rest[dot+1:]
		h := s.withPort(w.tls)
		if !w.odd && s.plain != nil {
			if h == nil {
				return s.plain
			}
			w.plain = s.plain
		}
		if h != nil {
			return h
		}
	}
}

// named returns the host that was written exactly as name, which is folded but keeps its port. It finds no patterns.
func (x *hosts) named(name string) *host {
	var buf [maxHost + 8]byte
	if len(name) > maxHost {
		return nil
	}
	if !isFolded(name) {
		name = foldHost(buf[:0], name)
	}
	return x.names[name].plain
}

// isFolded reports whether foldHost(name) is name, or at least whether it is when true.
func isFolded(name string) bool {
	for i := range len(name) {
		switch c := name[i]; {
		case 'A' <= c && c <= 'Z', c >= utf8.RuneSelf:
			return false
		case c == '.' && i > 0 && (i == len(name)-1 || name[i+1] == ':'):
			return false
		}
	}
	return true
}

// foldHost returns name in lower case and without the dot at the end of a full name, before a port too. It writes to
// buf if something changes; then what it returns lives as long as buf does not change.
func foldHost(buf []byte, name string) string {
	b := buf
	if dot := endDot(name); dot >= 0 {
		b = appendLower(appendLower(b, name[:dot], maxHost+1), name[dot+1:], maxHost+1)
	} else if !isLower(name) {
		b = appendLower(b, name, maxHost+1)
	} else {
		return name
	}
	return unsafe.String(unsafe.SliceData(b), len(b))
}

// endDot returns the index of the dot at the end of the name, -1 if there is none.
func endDot(name string) int {
	end := len(name)
	if colon := strings.LastIndexByte(name, ':'); colon > 0 {
		end = colon
	}
	if end > 1 && name[end-1] == '.' {
		return end - 1
	}
	return -1
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
