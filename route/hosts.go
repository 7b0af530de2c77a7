package route

import (
	"slices"
	"strings"
)

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
