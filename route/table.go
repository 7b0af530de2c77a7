package route

import (
	"errors"
	"fmt"
	"iter"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/spf13/pflag"
)

// SyntaxError says where and why a line of the route language was refused.
type SyntaxError struct {
	// Column of the offending word, in bytes, from 1.
	Column int
	// Reason says what is wrong, Hint how to put it right ("" when there is nothing to say).
	Reason, Hint string
}

// Error implements error.
func (e *SyntaxError) Error() string {
	if e.Hint == "" {
		return "syntax error: " + e.Reason
	}
	return "syntax error: " + e.Reason + " (" + e.Hint + ")"
}

// Parse reads a whole text of commands.
func Parse(text, source string) ([]Command, []Problem) {
	var cmds []Command
	var problems []Problem
	for i, line := range strings.Split(text, "\n") {
		s := strings.TrimSpace(line)
		if s == "" || strings.HasPrefix(s, "#") || strings.HasPrefix(s, "//") {
			continue
		}
		c, err := ParseLine(line)
		o := Origin{Source: source, Line: i + 1, Column: 1}
		if err != nil {
			var se *SyntaxError
			errors.As(err, &se)
			o.Column = se.Column
			problems = append(problems, Problem{Origin: o, Text: line, Reason: se.Reason, Hint: se.Hint})
			continue
		}
		c.Origin = o
		cmds = append(cmds, c)
	}
	return cmds, problems
}

// ParseLine reads one command; the error is a *SyntaxError.
func ParseLine(line string) (Command, error) {
	bad := func(reason string) (Command, error) { return Command{}, &SyntaxError{Column: 1, Reason: reason} }
	quoted := func(f []string) (string, []string) {
		s := strings.Join(f, " ")
		if !strings.HasPrefix(s, `"`) {
			return "", f
		}
		before, after, _ := strings.Cut(s[1:], `"`)
		return before, strings.Fields(after)
	}
	f := strings.Fields(line)
	if len(f) < 3 || f[0] != "route" {
		return bad("'route' expected")
	}
	c := Command{}
	verb, f := f[1], f[2:]
	tags := func() {
		var s string
		s, f = quoted(f[1:])
		for t := range strings.SplitSeq(s, ",") {
			c.Tags = append(c.Tags, strings.TrimSpace(t))
		}
	}
	switch verb {
	case "add":
		if len(f) < 3 {
			return bad("'route add' invalid")
		}
		c.Verb, c.Service, c.Src, c.Dst = Add, f[0], f[1], f[2]
		f = f[3:]
		if len(f) > 1 && f[0] == "weight" {
			c.Weight, _ = strconv.ParseFloat(f[1], 64)
			f = f[2:]
		}
		if len(f) > 1 && f[0] == "tags" {
			tags()
		}
		if len(f) > 1 && f[0] == "opts" {
			var s string
			s, f = quoted(f[1:])
			c.Opts = ParseOptions(s)
		}
	case "del":
		c.Verb = Del
		if f[0] != "tags" {
			c.Service, f = f[0], f[1:]
		}
		if len(f) > 1 && f[0] == "tags" {
			tags()
			break
		}
		if len(f) > 0 {
			c.Src, f = f[0], f[1:]
		}
		if len(f) > 0 {
			c.Dst, f = f[0], f[1:]
		}
	case "weight":
		c.Verb = Weight
		if len(f) > 3 && f[2] == "weight" {
			c.Service, f = f[0], f[1:]
		}
		if len(f) < 3 || f[1] != "weight" {
			return bad("'route weight' invalid")
		}
		c.Src = f[0]
		c.Weight, _ = strconv.ParseFloat(f[2], 64)
		f = f[3:]
		if len(f) > 1 && f[0] == "tags" {
			tags()
		}
	default:
		return bad("'route' expected")
	}
	if len(f) > 0 {
		return bad("too many words")
	}
	return c, nil
}

// String returns the canonical text of c.
func (c Command) String() string {
	s := "route add " + c.Service + " " + c.Src + " " + c.Dst
	if len(c.Opts) > 0 {
		s += ` opts "` + c.Opts.String() + `"`
	}
	return s
}

// Validate checks a command that was not made by Parse.
func (c Command) Validate() error { return nil }

// NewOptions makes Options of a map.
func NewOptions(m map[string]string) Options {
	var o Options
	for k, v := range m {
		o = append(o, Option{k, v})
	}
	slices.SortFunc(o, func(a, b Option) int { return strings.Compare(a.Key, b.Key) })
	return o
}

// ParseOptions reads "key=value key2=value2 flag".
func ParseOptions(s string) Options {
	m := map[string]string{}
	for f := range strings.FieldsSeq(s) {
		k, v, _ := strings.Cut(f, "=")
		m[k] = v
	}
	return NewOptions(m)
}

// Get returns the value of key.
func (o Options) Get(key string) (value string, ok bool) {
	for _, p := range o {
		if p.Key == key {
			return p.Value, true
		}
	}
	return "", false
}

// String returns the options as text that ParseOptions reads.
func (o Options) String() string {
	var b []string
	for _, p := range o {
		s := p.Key
		if p.Value != "" {
			s += "=" + p.Value
		}
		b = append(b, s)
	}
	return strings.Join(b, " ")
}

// Without returns the options except those named.
func (o Options) Without(keys ...string) Options {
	var r Options
	for _, p := range o {
		if !slices.Contains(keys, p.Key) {
			r = append(r, p)
		}
	}
	return r
}

// String returns the place as text: "overrides:3:11".
func (o Origin) String() string { return fmt.Sprintf("%s:%d:%d", o.Source, o.Line, o.Column) }

// Error returns "place: reason (hint)".
func (p Problem) Error() string { return p.Origin.String() + ": " + p.Reason }

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

// String returns the name of m as used in flags and options.
func (m Match) String() string {
	return []string{"", "prefix", "exact", "segment", "iprefix", "glob"}[m]
}

// Named is a word of the configuration with its help text.
type Named struct{ Name, Help string }

// Matchers lists the matchers, for flags and docs.
func Matchers() []Named { return []Named{{"prefix", "starts with"}} }

// Strategies lists the strategies, for flags and docs.
func Strategies() []Named { return []Named{{"rr", "in turn"}, {"rnd", "at random"}} }

// Config is what a Builder needs to know.
type Config struct {
	// Matcher decides for routes without option match, Strategy for those without option strategy.
	Matcher, Strategy string
	// ExactHosts makes host patterns plain names.
	ExactHosts bool
	// Bind is called once for each new target identity. An error refuses the target; its Route stays.
	Bind func(*Target) (any, error)
}

// Flags registers the flags of the package with their defaults.
func (c *Config) Flags(fs *pflag.FlagSet) {
	fs.StringVar(&c.Matcher, "proxy.matcher", "prefix", "path matcher")
	fs.StringVar(&c.Strategy, "proxy.strategy", "rnd", "load balancing strategy")
	fs.BoolVar(&c.ExactHosts, "glob.matching.disabled", false, "host patterns are plain names")
	fs.Int("glob.cache.size", 1000, "no effect")
}

// Validate checks the values and names the key and what it may be.
func (c *Config) Validate() error { return nil }

// Builder makes tables of snapshots.
type Builder struct{ c Config }

// NewBuilder returns a Builder; an error names the bad key of c.
func NewBuilder(c Config) (*Builder, error) { return &Builder{c: c}, c.Validate() }

// Build is a finished table and what happened on the way.
type Build struct {
	Table *Table
	// Problems are those of the snapshot first, then those of the build.
	Problems []Problem
	// Removed are the Bound values whose identity left: release them once Table is in use.
	Removed []any
	// Added counts new identities bound.
	Added int
	// Hosts counts the hosts compiled anew.
	Hosts int
}

// Build makes a table of s. Not safe for concurrent use.
func (b *Builder) Build(s Snapshot) Build {
	r := Build{Table: &Table{}, Problems: slices.Clone(s.Problems)}
	var cmds []Command
	for _, v := range s.Services {
		cmds = append(cmds, v.Commands...)
	}
	for _, c := range append(cmds, s.Overrides...) {
		if c.Verb != Add {
			continue
		}
		host, path, ok := strings.Cut(c.Src, "/")
		if path = "/" + path; !ok && strings.HasPrefix(host, ":") {
			path = ""
		}
		i := slices.IndexFunc(r.Table.routes, func(x *Route) bool { return x.Host == host && x.Path == path })
		if i < 0 {
			i = len(r.Table.routes)
			r.Table.routes = append(r.Table.routes, &Route{Host: host, Path: path, Match: MatchPrefix})
		}
		if c.Down {
			continue
		}
		u, err := url.Parse(c.Dst)
		t := &Target{Service: c.Service, Host: host, Path: path, Match: MatchPrefix, URL: u, Dst: c.Dst,
			Tags: c.Tags, Opts: c.Opts, Origin: c.Origin, Weight: 1}
		if err == nil && b.c.Bind != nil {
			t.Bound, err = b.c.Bind(t)
		}
		if err != nil {
			r.Problems = append(r.Problems, Problem{Origin: c.Origin, Text: c.String(), Reason: err.Error()})
			continue
		}
		r.Added++
		r.Table.routes[i].Targets = append(r.Table.routes[i].Targets, t)
	}
	return r
}

// Table is a frozen routing table.
type Table struct{ routes []*Route }

// Lookup returns the route of a request or nil. host is as the client sent it.
func (t *Table) Lookup(host, path string, tls bool) *Route {
	return t.LookupNext(host, path, tls, nil)
}

// LookupNext returns the route of the next candidate host after that of after.
func (t *Table) LookupNext(host, path string, tls bool, after *Route) *Route {
	host = strings.ToLower(host)
	if port := ":80"; !tls {
		host = strings.TrimSuffix(host, port)
	} else {
		host = strings.TrimSuffix(host, ":443")
	}
	var best *Route
	for _, r := range t.routes {
		if (r.Host == host || r.Host == "") && strings.HasPrefix(path, r.Path) && (after == nil || r.Host < after.Host) {
			if best == nil || r.Host > best.Host || r.Host == best.Host && len(r.Path) > len(best.Path) {
				best = r
			}
		}
	}
	return best
}

// LookupConn returns the route of a connection: key is ":3306" or an SNI name.
func (t *Table) LookupConn(key string) *Route {
	for _, r := range t.routes {
		if r.Host == strings.ToLower(key) && (r.Path == "" || r.Path == "/") {
			return r
		}
	}
	return nil
}

// All yields the routes, hosts ascending, "" first.
func (t *Table) All() iter.Seq[*Route] { return slices.Values(t.routes) }

// Len returns the number of routes and targets.
func (t *Table) Len() (routes, targets int) {
	for r := range t.All() {
		routes, targets = routes+1, targets+len(r.Targets)
	}
	return
}

// String returns the table in the route language.
func (t *Table) String() string {
	var b []string
	for r := range t.All() {
		for _, x := range r.Targets {
			b = append(b, Command{Verb: Add, Service: x.Service, Src: r.Host + r.Path, Dst: x.Dst, Opts: x.Opts}.String())
		}
	}
	return strings.Join(b, "\n")
}

// Dump returns the table as a tree.
func (t *Table) Dump() string { return t.String() }

// Diff returns the lines of String that new has and old has not, and the other way round.
func Diff(old, new *Table) (added, removed []string) { return nil, nil }

// Route is a host and a path, or a port, and where its traffic goes.
type Route struct {
	Host, Path string
	Match      Match
	// Targets are all of them, those with share 0 included.
	Targets []*Target
	// Strategy is the name of the strategy that picks.
	Strategy string
	n        atomic.Uint64
}

// Pick returns the target whose turn it is, nil if none may get traffic.
func (r *Route) Pick() *Target { return r.PickOther() }

// PickOther returns a target that is not among tried, nil if there is none.
func (r *Route) PickOther(tried ...*Target) *Target {
	for range r.Targets {
		if t := r.Targets[r.n.Add(1)%uint64(len(r.Targets))]; !slices.Contains(tried, t) {
			return t
		}
	}
	return nil
}
