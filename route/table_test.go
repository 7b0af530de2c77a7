package route

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// naive answers look-ups from a list of routes, by trying all of them.
type naive struct {
	routes []*Route
	exact  bool
	globs  map[string]*regexp.Regexp
}

func (n naive) glob(pattern string) *regexp.Regexp {
	if n.globs[pattern] == nil {
		n.globs[pattern] = naiveGlob(pattern)
	}
	return n.globs[pattern]
}

// lookup returns what Lookup and then LookupNext, again and again, should.
func (n naive) lookup(host, path string, tls bool) (found []*Route) {
	for _, name := range n.candidates(host, tls) {
		if r := n.best(name, path); r != nil {
			found = append(found, r)
		}
	}
	return found
}

func (n naive) candidates(host string, tls bool) (list []string) {
	port := ":80"
	if tls {
		port = ":443"
	}
	host = lower(strings.TrimSuffix(host, port))
	if name, p, ok := strings.Cut(host, ":"); strings.HasSuffix(name, ".") && len(name) > 1 && !strings.HasPrefix(host, "[") {
		host = strings.TrimSuffix(name, ".")
		if ok {
			host += ":" + p
		}
	}
	var names, patterns []string
	for _, r := range n.routes {
		if r.Host == "" || strings.HasPrefix(r.Host, ":") || slices.Contains(names, r.Host) || slices.Contains(patterns, r.Host) {
			continue
		}
		bare := strings.TrimSuffix(r.Host, port)
		switch {
		case n.exact || !strings.ContainsAny(r.Host, `*?[{\`) || strings.HasPrefix(r.Host, "[::1]"):
			if bare == host {
				names = append(names, r.Host)
			}
		case n.glob(bare).MatchString(host):
			patterns = append(patterns, r.Host)
		}
	}
	slices.SortFunc(names, func(a, b string) int { return cmp.Compare(len(b), len(a)) })
	slices.SortFunc(patterns, func(a, b string) int { return strings.Compare(reverseHost(b), reverseHost(a)) })
	return append(append(names, patterns...), "")
}

func (n naive) best(host, path string) (best *Route) {
	type rank struct {
		self    bool
		literal int
		matcher int
		wild    int
		path    string
	}
	var top rank
	for _, r := range n.routes {
		if r.Host != host {
			continue
		}
		k := rank{self: r.Path == path, literal: len(r.Path), path: r.Path}
		matched := false
		switch r.Match {
		case MatchExact:
			k.matcher, matched = 5, path == r.Path
		case MatchSegment:
			k.matcher = 4
			matched = path == r.Path || strings.HasPrefix(path, strings.TrimSuffix(r.Path, "/")+"/")
		case MatchPrefix:
			k.matcher, matched = 3, strings.HasPrefix(path, r.Path)
		case MatchIPrefix:
			k.matcher, matched = 2, strings.HasPrefix(strings.ToLower(path), strings.ToLower(r.Path))
			k.self = false
			k.literal = len(strings.ToLower(r.Path))
		case MatchGlob:
			k.matcher, matched = 1, n.glob(r.Path).MatchString(path)
			k.literal = strings.IndexAny(r.Path+"*", `*?[{`)
			k.self = matched && k.literal == len(r.Path)
			k.wild = strings.Count(r.Path, "?") + strings.Count(strings.ReplaceAll(r.Path, "**", "*"), "*") + strings.Count(r.Path, "[") + strings.Count(r.Path, "{")
		}
		if !matched {
			continue
		}
		order := 1
		if best != nil {
			self := func(k rank) int {
				if k.self {
					return 1
				}
				return 0
			}
			order = cmp.Or(cmp.Compare(self(k), self(top)), cmp.Compare(k.literal, top.literal), cmp.Compare(k.matcher, top.matcher),
				cmp.Compare(top.wild, k.wild), cmp.Compare(k.path, top.path))
		}
		if order > 0 {
			best, top = r, k
		}
	}
	return best
}

// dice makes random hosts, paths and commands.
type dice struct {
	*rand.Rand
	matchers []matcher // those of routes; nil means all
}

func (d dice) of(words ...string) string { return words[d.IntN(len(words))] }

func (d dice) name() string {
	var labels []string
	for range 1 + d.IntN(3) {
		labels = append(labels, d.of("a", "b", "ab", "c"))
	}
	return strings.Join(labels, ".")
}

func (d dice) port() string {
	if d.IntN(30) == 0 {
		return d.of(":80:80", ":443:80", ":80:443", ":")
	}
	return d.of("", "", "", ":80", ":443", ":8080")
}

// host returns one for a route.
func (d dice) host() string {
	switch d.IntN(8) {
	case 0:
		return ""
	case 1, 2:
		return "*." + d.name() + d.port()
	case 3:
		return d.of("*", "a*", "*b", "?", "[ab]", "[!a]", "{a,b}", "a?*") + d.of("", ".") + d.of("", d.name()) + d.port()
	case 4:
		return d.of("*", "[::1]", "a.*."+d.name(), "*.*."+d.name(), "a*.c", "%*.a", "*.%.a", "*") + d.port()
	}
	return d.name() + d.port()
}

// request returns the host of a request.
func (d dice) request() string {
	h := d.name()
	switch d.IntN(20) {
	case 0:
		h = d.of("", "[::1]", "."+h, h+"..", "x."+h, "%.a", "a.%.a", "b:80", "ä."+h)
	case 1:
		h += "."
	}
	h += d.port()
	if d.IntN(4) == 0 {
		h = strings.ToUpper(h)
	}
	return h
}

func (d dice) path() string {
	var b strings.Builder
	for range d.IntN(4) {
		b.WriteString("/" + d.of("a", "b", "A", "ab", "aB", "ä", "Ä", ""))
	}
	if b.Len() == 0 || d.IntN(4) == 0 {
		b.WriteByte('/')
	}
	return b.String()
}

// source returns the source and options of a route.
func (d dice) source() (src string, opts Options) {
	host, path := d.host(), d.of(d.path(), "/")
	among := matchers
	if d.matchers != nil {
		among = d.matchers
	}
	m := among[d.IntN(len(among))]
	if m.match != MatchPrefix || d.IntN(2) == 0 {
		opts = Options{{"match", m.name}}
	}
	if m.match == MatchGlob {
		for range d.IntN(3) {
			path += d.of("*", "?", "/**/", "[ab]", "[!a]", "{a,b}", "a")
		}
	}
	return host + path, opts
}

// TestLookupLikeNaive compares look-ups in random tables with trying all routes.
func TestLookupLikeNaive(t *testing.T) {
	t.Parallel()
	found := 0
	for seed := range uint64(80) {
		d := dice{Rand: rand.New(rand.NewPCG(seed, 1))}
		if seed%3 == 0 { // some matchers hide what others do
			d.matchers = slices.Clone(matchers)
			d.Shuffle(len(matchers), func(i, j int) { d.matchers[i], d.matchers[j] = d.matchers[j], d.matchers[i] })
			d.matchers = d.matchers[:1+d.IntN(3)]
		}
		c := Config{ExactHosts: seed%10 == 9}
		b := mustBuilder(t, c)
		b.few = int(seed % 2 * fewRoutes) // with and without indexes
		var commands []Command
		for i := range 1 + d.IntN(60) {
			src, opts := d.source()
			if seed%3 == 0 { // many paths for few hosts
				src = d.of("", "a", "a.b") + src[strings.Index(src, "/"):]
			}
			commands = append(commands, Command{Verb: Add, Service: "s", Src: src, Opts: opts, Dst: fmt.Sprintf("http://t%d/", i)})
		}
		out := b.Build(Snapshot{Overrides: commands})
		for _, p := range out.Problems {
			t.Fatal(p)
		}
		n := naive{slices.Collect(out.Table.All()), c.ExactHosts, make(map[string]*regexp.Regexp)}
		for range 300 {
			host, path, tls := d.request(), d.path(), d.IntN(2) == 0
			if seed%3 == 0 {
				host = d.of("a", "a.b", "x")
			}
			want := n.lookup(host, path, tls)
			var got []*Route
			for r := out.Table.Lookup(host, path, tls); r != nil; r = out.Table.LookupNext(host, path, tls, r) {
				got = append(got, r)
			}
			found += len(got)
			if !slices.Equal(got, want) {
				t.Fatalf("seed %d: Lookup(%q, %q, %v) = %s, want %s\n%s", seed, host, path, tls, routesText(got), routesText(want), out.Table)
			}
		}
	}
	if found < 80*300 {
		t.Errorf("found %d routes only: the requests are too far from the tables", found)
	}
}

func routesText(list []*Route) string {
	var b strings.Builder
	for _, r := range list {
		fmt.Fprintf(&b, " %s%s(%s)", r.Host, r.Path, r.Match)
	}
	return b.String()
}

// TestLookupConnLikeNaive compares LookupConn with trying all routes.
func TestLookupConnLikeNaive(t *testing.T) {
	t.Parallel()
	for seed := range uint64(50) {
		d := dice{Rand: rand.New(rand.NewPCG(seed, 2))}
		var commands []Command
		for range 40 {
			src, opts := d.source()
			if d.IntN(4) == 0 {
				src = d.of(":1", ":2", ":3")
			}
			commands = append(commands, Command{Verb: Add, Service: "s", Src: src, Opts: opts, Dst: "tcp://t:1"})
		}
		table := mustBuilder(t, Config{}).Build(Snapshot{Overrides: commands}).Table
		for range 200 {
			key := d.of(":1", ":2", ":4", d.request(), "*.a", "")
			host := key
			if !strings.HasPrefix(key, ":") {
				host = foldHost(nil, key)
			}
			want := false
			for r := range table.All() {
				want = want || r.Host != "" && r.Host == host && (r.Path == "" || r.Path == "/") && !strings.ContainsAny(r.Host, "*?{") &&
					(!strings.Contains(r.Host, "[") || isIPv6(r.Host))
			}
			r := table.LookupConn(key)
			if (r != nil) != want || r != nil && r.Host != host {
				t.Fatalf("seed %d: LookupConn(%q) = %s, want found: %v\n%s", seed, key, routesText([]*Route{r}), want, table)
			}
		}
	}
}

// lookupTable is one with everything that a look-up may come across.
const lookupTable = `
route add a foo.com/ http://t/
route add a foo.com/api http://t/
route add a foo.com:80/redirect http://t/
route add a *.foo.com/ http://t/
route add a *.bar.foo.com/x http://t/
route add a f*.com/glob http://t/
route add a *.com:8080/ http://t/
route add a /one http://t/
route add a /Two http://t/ opts "match=iprefix"
route add a /three/*/x http://t/ opts "match=glob"
route add a /four http://t/ opts "match=segment"
route add a /five http://t/ opts "match=exact"
route add a /six/a http://t/
route add a /six/b http://t/
route add a /six/c http://t/
route add a /six/d http://t/
route add a :3306 tcp://t:1
`

func TestLookupAllocatesNothing(t *testing.T) {
	table := mustTable(t, Config{}, lookupTable)
	long := strings.Repeat("x", 2000)
	for _, host := range []string{"foo.com", "FOO.com", "foo.com.", "Foo.COM.:80", "a.foo.com", "A.b.c.foo.com", "fx.com", "a.com:8080",
		"a.com.:8080", "none.org", "", "ÄÖ.com", long, strings.ToUpper(long), "foo.com.:" + strings.ToUpper(long)} {
		for _, path := range []string{"/", "/api", "/api/x", "/glob", "/one", "/two/x", "/TWO", "/TWO" + long, "/three/a/x", "/three", "/four/a",
			"/fourth", "/five", "/six/b/c", "/six", "/none", "/ÄÖ", ""} {
			for _, tls := range []bool{false, true} {
				n := testing.AllocsPerRun(10, func() {
					if r := table.Lookup(host, path, tls); r != nil {
						table.LookupNext(host, path, tls, r)
					}
				})
				if n != 0 {
					t.Errorf("Lookup(%.20q, %.20q, %v): %v allocations, want 0", host, path, tls, n)
				}
			}
		}
	}
	for _, key := range []string{":3306", ":1", "foo.com", "FOO.com.", "x.com", long} {
		if n := testing.AllocsPerRun(10, func() { table.LookupConn(key) }); n != 0 {
			t.Errorf("LookupConn(%q): %v allocations, want 0", key, n)
		}
	}
}

func TestZeroTable(t *testing.T) {
	t.Parallel()
	var table Table
	if r := table.Lookup("foo.com", "/", false); r != nil {
		t.Errorf("Lookup = %v, want nil", r)
	}
	if r := table.LookupConn(":1"); r != nil {
		t.Errorf("LookupConn = %v, want nil", r)
	}
	if r, n := table.Len(); r != 0 || n != 0 {
		t.Errorf("Len() = %d, %d, want 0, 0", r, n)
	}
	if s := table.String() + table.Dump(); s != "" {
		t.Errorf("String, Dump = %q, want nothing", s)
	}
}

func TestLookupNextOfOtherHost(t *testing.T) {
	t.Parallel()
	table := mustTable(t, Config{}, "route add a a.com/ http://a/\nroute add b b.com/ http://b/\nroute add c / http://c/")
	if r := table.LookupNext("a.com", "/", false, &Route{Host: "b.com"}); r != nil {
		t.Errorf("LookupNext after a host that is no candidate = %v, want nil", r)
	}
}

func TestHostTooLong(t *testing.T) {
	t.Parallel()
	table := mustTable(t, Config{}, "route add a */ http://a/\nroute add b / http://b/")
	for _, tt := range []struct{ host, want string }{
		{strings.Repeat("a", maxHost), "http://a/"},
		{strings.Repeat("A", maxHost), "http://a/"},
		{strings.Repeat("a", maxHost+1), "http://b/"},
		{strings.Repeat("A", maxHost+1), "http://b/"},
		{strings.Repeat("Ⱥ", maxHost/2), "http://b/"}, // longer in lower case
	} {
		if got := targetsText(table.Lookup(tt.host, "/", false)); got != tt.want {
			t.Errorf("Lookup of a host of %d bytes = %s, want %s", len(tt.host), got, tt.want)
		}
	}
}

func TestAllAndLen(t *testing.T) {
	t.Parallel()
	table := mustTable(t, Config{}, `
route add a b.com/x http://1/
route add a b.com/xy http://2/
route add a b.com/xy http://3/ opts "match=exact"
route add a b.com/xy http://4/
route add a / http://5/
route add a :1 tcp://6:1 weight 1
route add a :1 tcp://7:1`)
	var got []string
	for r := range table.All() {
		got = append(got, fmt.Sprintf("%s%s %s %s %d", r.Host, r.Path, r.Match, r.Strategy, len(r.Targets)))
	}
	want := []string{"/ prefix rnd 1", ":1 prefix rnd 2", "b.com/xy exact rnd 1", "b.com/xy prefix rnd 2", "b.com/x prefix rnd 1"}
	if !slices.Equal(got, want) {
		t.Errorf("All() = %q, want %q", got, want)
	}
	if n := table.Hosts(); n != 3 {
		t.Errorf("Hosts() = %d, want 3", n)
	}
	for range table.All() {
		break
	}
	if routes, targets := table.Len(); routes != 5 || targets != 7 {
		t.Errorf("Len() = %d, %d, want 5, 7", routes, targets)
	}
}
