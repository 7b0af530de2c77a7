package route

import (
	"slices"
	"strings"
	"unsafe"

	"github.com/armon/go-radix"
)

// fewRoutes is how many routes are tried one by one before an index pays.
const fewRoutes = 8

// paths finds routes by path.
type paths struct {
	routes []*Route // most specific first
	folds  bool     // some pattern folds
	// The index, nil for few routes.
	self    map[string]*Route
	tree    *radix.Tree // of *pathNode, by literal
	lowered *radix.Tree // of *pathNode, by literal, for patterns that fold
	longest int         // the longest literal in lowered
}

// pathNode holds the routes with the same literal, most specific first.
type pathNode struct {
	size   int // of the literal
	routes []*Route
	up     *pathNode // the node with the longest literal that starts this one's; in tree only
}

// newPaths makes the index of routes, which are ordered by bySpecific; it has none for up to few routes.
func newPaths(routes []*Route, few int) paths {
	x := paths{routes: routes}
	for _, r := range routes {
		x.folds = x.folds || r.pattern.fold
	}
	if len(routes) <= few {
		return x
	}
	x.self = make(map[string]*Route, len(routes))
	for _, r := range routes {
		p := &r.pattern
		if _, taken := x.self[p.literal]; p.self && !taken {
			x.self[p.literal] = r
		}
		switch {
		case p.whole:
		case p.fold:
			x.lowered = plant(x.lowered, r)
			x.longest = max(x.longest, len(p.literal))
		default:
			x.tree = plant(x.tree, r)
		}
	}
	linkUp(x.tree)
	return x
}

// plant puts r into tree, which it makes if there is none.
func plant(tree *radix.Tree, r *Route) *radix.Tree {
	if tree == nil {
		tree = radix.New()
	}
	literal := r.pattern.literal
	if v, ok := tree.Get(literal); ok {
		n := v.(*pathNode)
		n.routes = append(n.routes, r)
		return tree
	}
	tree.Insert(literal, &pathNode{size: len(literal), routes: []*Route{r}})
	return tree
}

// linkUp sets up of each node.
func linkUp(tree *radix.Tree) {
	if tree == nil {
		return
	}
	// A walk meets a literal before those that it starts, in byte order: those above the current one are a stack.
	var above []string
	var nodes []*pathNode
	tree.Walk(func(literal string, v any) bool {
		for len(above) > 0 && !strings.HasPrefix(literal, above[len(above)-1]) {
			above, nodes = above[:len(above)-1], nodes[:len(nodes)-1]
		}
		n := v.(*pathNode)
		if len(nodes) > 0 {
			n.up = nodes[len(nodes)-1]
		}
		above, nodes = append(above, literal), append(nodes, n)
		return false
	})
}

// longestPrefix returns the node with the longest literal that starts path.
func longestPrefix(tree *radix.Tree, path string) *pathNode {
	if tree != nil {
		if _, v, ok := tree.LongestPrefix(path); ok {
			return v.(*pathNode)
		}
	}
	return nil
}

// lookup returns the most specific route that path matches, nil if there is none.
func (x *paths) lookup(path string) *Route {
	if x.self == nil {
		return x.scan(path)
	}
	if r := x.self[path]; r != nil {
		return r
	}
	if x.lowered == nil {
		return search(longestPrefix(x.tree, path), nil, path)
	}
	return x.lookupLowered(path)
}

// scan is lookup without an index.
func (x *paths) scan(path string) *Route {
	if x.folds { // or else an equal literal is the longest anyway
		for _, r := range x.routes {
			if r.pattern.self && r.pattern.literal == path {
				return r
			}
		}
	}
	for _, r := range x.routes {
		if r.pattern.match(path) {
			return r
		}
	}
	return nil
}

// maxLowered bounds the literals that are compared in lower case, so that a buffer on the stack is enough.
const maxLowered = 1024

func (x *paths) lookupLowered(path string) *Route {
	low := path
	var buf [maxLowered + 4]byte
	if low = path[:min(len(path), x.longest)]; !isLower(low) {
		// The string does not outlive buf, and buf does not change any more.
		b := appendLower(buf[:0], path, x.longest)
		low = unsafe.String(unsafe.SliceData(b), len(b))
	}
	return search(longestPrefix(x.tree, path), longestPrefix(x.lowered, low), path)
}

// search goes from n, the longest literal in tree, to the shorter ones until a route matches path. m is the longest
// literal in lowered, where all routes match: a shorter one is never needed.
func search(n, m *pathNode, path string) *Route {
	for n != nil {
		if m != nil && m.size > n.size {
			return m.routes[0]
		}
		for _, r := range n.routes {
			if m != nil && m.size == n.size && bySpecific(m.routes[0], r) < 0 {
				return m.routes[0]
			}
			if r.pattern.tail == nil || r.pattern.tail.match(path) {
				return r
			}
		}
		n = n.up
	}
	if m != nil {
		return m.routes[0]
	}
	return nil
}

// sortedLike returns list ordered by compare: list itself if it is in order, else a copy.
func sortedLike(list []*Route, compare func(a, b *Route) int) []*Route {
	if slices.IsSortedFunc(list, compare) {
		return list
	}
	return slices.SortedFunc(slices.Values(list), compare)
}
