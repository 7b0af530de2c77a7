package route

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unsafe"

	"github.com/armon/go-radix"
)

// How a path finds its route among those of one host.
//
// Each matcher turns the path of a route into a pattern: a literal that starts every path it matches, and perhaps a
// test for what follows. The more of a path is spelled out, the more specific is the route, so the rules are:
//
//  1. a route whose path is the request's path comes first;
//  2. then the one with the longest literal;
//  3. on equal length the order of the matchers list decides (exact, segment, prefix, iprefix, glob), then the pattern
//     with fewer wildcards, then the path that is greater in byte order.
//
// For a host whose routes all use one matcher this is the exact path, then the longest prefix, and for globs the
// longest literal start first. With the routes
//
//	/            prefix
//	/img         segment
//	/img/*.png   glob
//
// /img/a.png finds the glob, /img/a.gif the segment, /images the prefix.
//
// A host with few routes keeps them in this order and tries one after the other, which is fastest there and costs no
// memory. A host with more has an index: a hash map of the literals for rule 1; and a radix tree of the literals (a
// second one in lower case for matchers that ignore case) for rule 2. The tree gives the longest literal that starts
// the path, and each node knows the next shorter one, so that a test that fails goes on with the next best. A look-up
// costs the length of the path, however many routes there are, and allocates nothing.

// Match is how the path of a route is compared with the path of a request.
type Match uint8

// The ways to compare paths.
const (
	MatchPrefix Match = iota + 1
	MatchExact
	MatchSegment
	MatchIPrefix
	MatchGlob
)

// Named is a word of the configuration with the help text that explains it.
type Named struct{ Name, Help string }

// A matcher compiles the paths of the routes that use it. To add one, write match_NAME.go and a line in matchers.
type matcher struct {
	match      Match
	name, help string
	compile    func(path string) (pattern, error)
}

// matchers is ordered from most to least specific.
var matchers = []matcher{
	{MatchExact, "exact", "the path itself", compileExact},
	{MatchSegment, "segment", "paths that start with the route's path up to a slash: /a is found by /a and /a/b, not by /ab", compileSegment},
	{MatchPrefix, "prefix", "paths that start with the route's path: /a is found by /a, /a/b and /ab", compilePrefix},
	{MatchIPrefix, "iprefix", "like prefix, upper and lower case are the same", compileIPrefix},
	{MatchGlob, "glob", "the route's path is a pattern for the whole path: * stands for anything, ? for one character, also [a-z] and {a,b}", compileGlobPath},
}

// Matchers lists the matchers for help texts and documents, most specific first.
func Matchers() []Named {
	var list []Named
	for _, m := range matchers {
		list = append(list, Named{m.name, m.help})
	}
	return list
}

// String returns the name of m as flags and options write it.
func (m Match) String() string {
	if i := m.rank(); i < len(matchers) {
		return matchers[i].name
	}
	return "Match(" + strconv.Itoa(int(m)) + ")"
}

// rank returns the place of m in matchers.
func (m Match) rank() int {
	for i := range matchers {
		if matchers[i].match == m {
			return i
		}
	}
	return len(matchers)
}

// parseMatch is the inverse of String.
func parseMatch(name string) (Match, error) {
	names := make([]string, len(matchers))
	for i, m := range matchers {
		if m.name == name {
			return m.match, nil
		}
		names[i] = m.name
	}
	return 0, fmt.Errorf("%q: want %s", name, oneOf(names))
}

// oneOf returns "a, b or c".
func oneOf(words []string) string {
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

// pattern is the path of a route, compiled.
type pattern struct {
	literal string
	fold    bool // literal is in lower case and paths are compared in lower case; then tail is nil
	whole   bool // matches literal and nothing else
	self    bool // matches literal, among others perhaps
	tail    tail // what must hold of a path that starts with literal; nil: nothing
	wild    int
}

// tail tests a path that is known to start with the literal of its pattern.
type tail interface{ match(path string) bool }

func (p *pattern) match(path string) bool {
	switch {
	case p.whole:
		return path == p.literal
	case p.fold:
		return hasPrefixLower(path, p.literal)
	}
	return strings.HasPrefix(path, p.literal) && (p.tail == nil || p.tail.match(path))
}

// bySpecific orders routes of one host, most specific first. No two are equal.
func bySpecific(a, b *Route) int {
	return cmp.Or(
		cmp.Compare(len(b.pattern.literal), len(a.pattern.literal)),
		cmp.Compare(a.Match.rank(), b.Match.rank()),
		cmp.Compare(a.pattern.wild, b.pattern.wild),
		cmp.Compare(b.Path, a.Path),
	)
}

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
