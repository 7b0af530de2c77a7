package route

import (
	"iter"
	"strings"
)

// Table is a frozen routing table, safe for concurrent use. The zero Table has no routes.
type Table struct {
	hosts   []*host // by name
	index   hosts
	routes  int
	targets int
}

// newTable returns the table of list, which is sorted by name.
func newTable(list []*host) *Table {
	t := &Table{hosts: list, index: newHosts(list)}
	for _, h := range list {
		t.routes += len(h.routes)
		for _, r := range h.routes {
			t.targets += len(r.Targets)
		}
	}
	return t
}

// Lookup returns the route for a request, nil if there is none. host is as the client sent it, tls tells whether the
// client's connection has TLS; path is cleaned and decoded. It takes no lock and allocates nothing.
func (t *Table) Lookup(host, path string, tls bool) *Route {
	return t.index.lookup(host, tls, visit{path: path})
}

// LookupNext is Lookup among the hosts that come after that of after, a route that Lookup or LookupNext returned for
// the same request: it tells where a request goes that must not go to after.
func (t *Table) LookupNext(host, path string, tls bool, after *Route) *Route {
	return t.index.lookup(host, tls, visit{path: path, after: after})
}

// LookupConn returns the route for a connection, nil if there is none. key is a port (":3306"), an address
// ("10.0.0.1:3306") or a name from a ClientHello; only hosts written so are found, no patterns, and only their route
// without a path or with the path "/".
func (t *Table) LookupConn(key string) *Route {
	var h *host
	if strings.HasPrefix(key, ":") {
		h = t.index.ports[key]
	} else {
		h = t.index.named(key)
	}
	if h == nil {
		return nil
	}
	return h.conn
}

// All yields the routes: hosts ascending, "" first; within a host paths descending, so that of two prefixes the longer
// comes first.
func (t *Table) All() iter.Seq[*Route] {
	return func(yield func(*Route) bool) {
		for _, h := range t.hosts {
			for _, r := range h.routes {
				if !yield(r) {
					return
				}
			}
		}
	}
}

// Hosts returns the number of hosts, ports and "" included.
func (t *Table) Hosts() int { return len(t.hosts) }

// Len returns the number of routes and of their targets.
func (t *Table) Len() (routes, targets int) { return t.routes, t.targets }
