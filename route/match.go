package route

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
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
// memory. A host with more has an index (paths.go): a hash map of the literals for rule 1; and a radix tree of the literals (a
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
