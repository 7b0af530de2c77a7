package route

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// snapshotOf makes a snapshot with the commands as overrides.
func snapshotOf(t testing.TB, text string) Snapshot {
	t.Helper()
	return Snapshot{Overrides: mustParse(t, text)}
}

func TestBuildSharesUntouchedHosts(t *testing.T) {
	t.Parallel()
	b := mustBuilder(t, Config{})
	one := "route add s a.com/ http://a/\nroute add s b.com/ http://b1/\nroute add s b.com/x http://b2/\n"
	first := b.Build(snapshotOf(t, one))
	if first.Hosts != 2 || first.Added != 3 {
		t.Errorf("first build: %d hosts, %d targets, want 2, 3", first.Hosts, first.Added)
	}
	second := b.Build(snapshotOf(t, one))
	if second.Table != first.Table || second.Hosts != 0 || second.Added != 0 {
		t.Errorf("same commands: another table, or %d hosts, %d targets, want the same, 0, 0", second.Hosts, second.Added)
	}
	third := b.Build(snapshotOf(t, one+"route add s b.com/ http://b3/\nroute add s c.com/ http://c/"))
	if third.Table == first.Table || third.Hosts != 2 || third.Added != 2 {
		t.Errorf("changed: the same table, or %d hosts, %d targets, want 2, 2", third.Hosts, third.Added)
	}
	same := func(host, path string) bool {
		return first.Table.Lookup(host, path, false) == third.Table.Lookup(host, path, false)
	}
	if !same("a.com", "/") || same("b.com", "/") || !same("b.com", "/x") {
		t.Errorf("routes kept: %v, %v, %v, want true, false, true", same("a.com", "/"), same("b.com", "/"), same("b.com", "/x"))
	}
	fourth := b.Build(snapshotOf(t, "route add s a.com/ http://a/"))
	if fourth.Hosts != 2 || len(b.hosts) != 1 {
		t.Errorf("hosts that left: compiled %d, kept %d, want 2, 1", fourth.Hosts, len(b.hosts))
	}
	if n, _ := first.Table.Len(); n != 3 {
		t.Errorf("the first table changed: %d routes, want 3", n)
	}
}

// TestBuildUpdatesOrigins checks that a target that only moved in its text says so, and stays bound.
func TestBuildUpdatesOrigins(t *testing.T) {
	t.Parallel()
	binds := 0
	b := mustBuilder(t, Config{Bind: func(*Target) (any, error) { binds++; return binds, nil }})
	b.Build(snapshotOf(t, "route add s a.com/ http://a/"))
	out := b.Build(snapshotOf(t, "\nroute add s a.com/ http://a/"))
	x := out.Table.Lookup("a.com", "/", false).Targets[0]
	if x.Origin.Line != 2 || x.Bound != 1 || binds != 1 || len(out.Removed) != 0 {
		t.Errorf("line %d, bound %v, %d binds, %d removed, want 2, 1, 1, 0", x.Origin.Line, x.Bound, binds, len(out.Removed))
	}
}

func TestBuildSeesDown(t *testing.T) {
	t.Parallel()
	b := mustBuilder(t, Config{Strategy: "rr"})
	add := Command{Verb: Add, Service: "s", Src: "/", Dst: "http://a/"}
	down := add
	down.Down = true
	for _, c := range []Command{add, down, add} {
		want := "http://a/"
		if c.Down {
			want = "503"
		}
		if got := targetsText(b.Build(Snapshot{Overrides: []Command{c}}).Table.Lookup("", "/", false)); got != want {
			t.Errorf("Lookup with Down %v = %s, want %s", c.Down, got, want)
		}
	}
}

func TestBuildBindsOnce(t *testing.T) {
	t.Parallel()
	var log []string
	b := mustBuilder(t, Config{Bind: func(x *Target) (any, error) {
		name := fmt.Sprintf("%s%s %s", x.Host, x.Path, x.Dst)
		log = append(log, name)
		if strings.Contains(x.Dst, "bad") {
			return nil, errors.New("no")
		}
		return name, nil
	}})
	step := func(text, binds, removed string) {
		t.Helper()
		log = nil
		out := b.Build(snapshotOf(t, text))
		if got := strings.Join(log, ", "); got != binds {
			t.Errorf("%q bound %q, want %q", text, got, binds)
		}
		var gone []string
		for _, x := range out.Removed {
			gone = append(gone, x.(string))
		}
		if got := strings.Join(gone, ", "); got != removed {
			t.Errorf("%q removed %q, want %q", text, got, removed)
		}
		for r := range out.Table.All() {
			for _, x := range r.Targets {
				if want := fmt.Sprintf("%s%s %s", x.Host, x.Path, x.Dst); x.Bound != want {
					t.Errorf("%q: bound %v, want %s", text, x.Bound, want)
				}
			}
		}
	}
	one := "route add s b.com/ http://b/\nroute add s a.com/ http://a/\n"
	step(one, "a.com/ http://a/, b.com/ http://b/", "")
	step(one, "", "")
	step(one+"route weight s a.com/ weight .5", "", "")
	step(one+"route add s a.com/ http://a/ weight .5", "", "") // the same identity twice
	step(one+"route add s a.com/ http://a/ opts \"x=y\"", "", "")
	step("route add s b.com/ http://b/\nroute add s a.com/ http://a/ opts \"x=y\"", "a.com/ http://a/", "a.com/ http://a/")
	step("route add s b.com/ http://b/ tags \"x\"", "b.com/ http://b/", "a.com/ http://a/, b.com/ http://b/")
	step("route add s b.com/ http://b/ tags \"x\"\nroute add s b.com/ http://bad/", "b.com/ http://bad/", "")
	step("route add s b.com/x http://b/ tags \"x\"\nroute add s :80 tcp://b:1\nroute del s :80", "b.com/x http://b/", "b.com/ http://b/")
	step("", "", "b.com/x http://b/")
}

func TestBuildRefusedByBind(t *testing.T) {
	t.Parallel()
	b := mustBuilder(t, Config{Bind: func(x *Target) (any, error) {
		if strings.Contains(x.Dst, "bad") {
			return nil, errors.New("option x: unknown")
		}
		return nil, nil
	}})
	out := b.Build(Snapshot{
		Services: []Service{{"web", []Command{
			{Verb: Add, Service: "web", Src: "a.com/", Dst: "http://bad/", Origin: Origin{Service: "web", Node: "n1", Tag: "urlprefix-a.com/"}},
			{Verb: Add, Service: "web", Src: "b.com/", Dst: "http://good1/", Tags: []string{"x"}},
			{Verb: Add, Service: "web", Src: "b.com/", Dst: "http://bad/", Tags: []string{"x"}},
			{Verb: Add, Service: "web", Src: "b.com/", Dst: "http://good2/", Tags: []string{"x"}},
			{Verb: Add, Service: "web", Src: "b.com/", Dst: "http://good3/"},
			{Verb: Add, Service: "web", Src: "c.com/", Dst: "http://bad/"},
		}}, {"down", []Command{
			{Verb: Add, Service: "down", Src: "d.com/", Down: true},
			{Verb: Add, Service: "down", Src: "e.com/", Down: true},
		}}},
		Overrides: mustParse(t, `
route weight web b.com/ weight .5 tags "x"
route del web c.com/
route del down d.com/
route weight down e.com/ weight .1`),
		Problems: []Problem{{Reason: "first"}},
	})
	table := out.Table
	if r := table.Lookup("a.com", "/", false); r == nil || r.Pick() != nil || len(r.Targets) != 0 {
		t.Errorf("a.com = %v, want a route without a target", r)
	}
	if got, want := sharesText(table), strings.TrimSpace(`
route add web b.com/ http://good1/ weight 0.2500 tags "x"
route add web b.com/ http://good2/ weight 0.2500 tags "x"
route add web b.com/ http://good3/ weight 0.5000`); got != want {
		t.Errorf("shares\n%s\nwant\n%s", got, want)
	}
	if r := table.Lookup("c.com", "/", false); r != nil {
		t.Errorf("c.com = %v, want nil: it was deleted", r)
	}
	if r := table.Lookup("d.com", "/", false); r != nil {
		t.Errorf("d.com = %v, want nil: it was deleted", r)
	}
	if r := table.Lookup("e.com", "/", false); r == nil || r.Pick() != nil {
		t.Errorf("e.com = %v, want a route without a target", r)
	}
	var got []string
	for _, p := range out.Problems {
		got = append(got, p.Error()+" | "+p.Text)
	}
	want := []string{
		"first | ",
		`option x: unknown | route add web b.com/ http://bad/ tags "x"`,
		`service web, node n1, tag "urlprefix-a.com/": option x: unknown | urlprefix-a.com/`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("problems %q, want %q", got, want)
	}
	if again := b.Build(Snapshot{}); len(again.Problems) != 0 {
		t.Errorf("problems of an empty snapshot: %v", again.Problems)
	}
}

// TestBuildTypedCommands hands over what no text can say.
func TestBuildTypedCommands(t *testing.T) {
	t.Parallel()
	out := mustBuilder(t, Config{}).Build(Snapshot{Overrides: []Command{
		{Verb: Add, Service: "my svc", Src: "a.com/", Dst: "http://a/"},
		{Verb: Add, Service: "s", Src: "B.com/", Dst: "http://b/"},
		{Verb: Add, Service: "s", Src: "c .com/", Dst: "http://c/"},
		{Verb: Add, Service: "s", Dst: "http://d/"},
		{Verb: Weight, Service: "s", Weight: 1},
		{Verb: Del},
		{Verb: 9, Src: "a.com/"},
		{Verb: Add, Service: "s", Src: ":80/", Dst: "http://e/"},
		{Verb: Add, Service: "s", Src: "f.com/" + strings.Repeat("x", 2000), Dst: "http://f/", Opts: Options{{"match", "iprefix"}}},
		{Verb: Add, Service: "s", Src: "g.com/", Down: true},
		{Verb: Add, Service: "s", Src: "g.com/", Down: true, Opts: Options{{"strip", "/"}}},
	}})
	for host, want := range map[string]string{"a.com": "503", "b.com": "http://b/", "c .com": "none", "e": "none", "f.com": "none", "g.com": "503"} {
		if got := targetsText(out.Table.Lookup(host, "/", false)); got != want {
			t.Errorf("Lookup(%s) = %s, want %s", host, got, want)
		}
	}
	var got []string
	for _, p := range out.Problems {
		got = append(got, p.Reason)
	}
	slices.Sort(got)
	want := []string{
		`path cannot be matched by iprefix: path is longer than 1024 bytes`,
		`service holds white space or a control character (U+0020)`,
		`service is missing, and there are no tags`,
		`source ":80/" has a path, but a port has none`,
		`source holds white space or a control character (U+0020)`,
		`source is missing`,
		`source is missing`,
		`verb is none of add, del, weight`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("problems\n%q, want\n%q", got, want)
	}
}

// TestBuildDelByTagReachesLaterHosts checks the index that such commands use.
func TestBuildDelByTagReachesLaterHosts(t *testing.T) {
	t.Parallel()
	table := mustTable(t, Config{}, `
route add a a.com/ http://a/ tags "x,y"
route add a a.com/b http://a/
route del tags "y,x"
route add a b.com/ http://a/ tags "x"
route add b b.com/ http://b/ tags "x"
route del a tags "x"
route del b
route add b c.com/ http://c/
route del tags "x"`)
	if got, want := table.String(), "route add b c.com/ http://c/\nroute add a a.com/b http://a/"; got != want {
		t.Errorf("table\n%s\nwant\n%s", got, want)
	}
}

// snapshot returns a random one; a few hosts, services, tags and targets make them meet.
func (d dice) snapshot() Snapshot {
	host := func() string { return d.of("a.com", "b.com", "*.com", "", "A.com", "{a,b}.com", "[", ":1") }
	src := func() string {
		h := host()
		if h == ":1" {
			return h
		}
		return h + d.of("/", "/x", "/y", "/x/y", "/[", "", "/X")
	}
	opts := func() Options {
		return NewOptions(map[string]string{
			d.of("match", "strip"):    d.of("prefix", "exact", "segment", "iprefix", "glob", "nope"),
			d.of("strategy", "other"): d.of("rr", "rnd", "rr", "nope"),
		})
	}
	tags := func() (list []string) {
		for range d.IntN(3) {
			list = append(list, d.of("t", "u", "v"))
		}
		return list
	}
	dst := func() string {
		return d.of("http://a/", "http://b/", "http://c/", "http://D/", "tcp://a:1", "ftp://x/", "http://refused/")
	}
	weight := func() float64 { return float64(d.IntN(4)) * .25 }
	origin := func() Origin { return Origin{Source: d.of("f", "g"), Line: d.IntN(2)} }
	command := func(service string) Command {
		if service == "" {
			service = d.of("s1", "s2", "s3")
		}
		c := Command{Verb: Add, Service: service, Src: src(), Dst: dst(), Weight: weight(), Tags: tags(), Origin: origin()}
		if d.IntN(3) == 0 {
			c.Opts = opts()
		}
		if d.IntN(8) == 0 {
			c.Down, c.Dst = true, ""
		}
		return c
	}
	var s Snapshot
	for _, name := range []string{"s1", "s2", "s3"} {
		v := Service{Name: name}
		for range d.IntN(8) {
			v.Commands = append(v.Commands, command(name))
		}
		s.Services = append(s.Services, v)
	}
	for range d.IntN(8) {
		c := command("")
		switch d.IntN(6) {
		case 0:
			c.Verb, c.Weight = Weight, weight()
		case 1:
			c = Command{Verb: Weight, Src: src(), Weight: weight(), Tags: tags()}
		case 2:
			c = Command{Verb: Del, Service: c.Service, Src: src()}
		case 3:
			c = Command{Verb: Del, Service: c.Service, Src: src(), Dst: dst()}
		case 4:
			c = Command{Verb: Del, Service: d.of("", c.Service), Tags: tags()}
		}
		s.Overrides = append(s.Overrides, c)
	}
	return s
}

// change returns s with a few differences.
func (d dice) change(s Snapshot) Snapshot {
	fresh := d.snapshot()
	s.Services = slices.Clone(s.Services)
	switch d.IntN(5) {
	case 0:
		return fresh
	case 1:
		s.Overrides = fresh.Overrides
	case 2:
		s.Services[d.IntN(3)] = fresh.Services[d.IntN(3)]
	case 3:
		i := d.IntN(3)
		commands := slices.Clone(s.Services[i].Commands)
		if len(commands) > 0 {
			j := d.IntN(len(commands))
			commands = slices.Delete(commands, j, j+1)
		}
		s.Services[i].Commands = append(commands, fresh.Services[i].Commands...)
	}
	return s
}

// TestBuildLikeFresh checks that a table does not depend on the way to it, and that what is bound is released once.
func TestBuildLikeFresh(t *testing.T) {
	t.Parallel()
	for seed := range uint64(60) {
		d := dice{Rand: rand.New(rand.NewPCG(seed, 5))}
		config := Config{Strategy: d.of("rr", "rnd"), Matcher: d.of("prefix", "glob", "iprefix"), ExactHosts: d.IntN(5) == 0}
		bound := make(map[*Target]bool)
		config.Bind = func(x *Target) (any, error) {
			if strings.Contains(x.Dst, "refused") {
				return nil, errors.New("refused")
			}
			bound[x] = true
			return x, nil
		}
		b := mustBuilder(t, config)
		b.few = 2
		s := d.snapshot()
		for step := range 15 {
			out := b.Build(s)
			for _, x := range out.Removed {
				if !bound[x.(*Target)] {
					t.Fatalf("seed %d, step %d: released twice: %+v", seed, step, x)
				}
				delete(bound, x.(*Target))
			}
			used := make(map[*Target]bool)
			for r := range out.Table.All() {
				for _, x := range r.Targets {
					if first := x.Bound.(*Target); !bound[first] || !first.identical(x) {
						t.Fatalf("seed %d, step %d: %+v is bound to %+v", seed, step, x, first)
					}
					used[x.Bound.(*Target)] = true
				}
			}
			if len(used) != len(bound) {
				t.Fatalf("seed %d, step %d: %d bound, %d used", seed, step, len(bound), len(used))
			}

			config := config
			config.Bind = func(x *Target) (any, error) {
				if strings.Contains(x.Dst, "refused") {
					return nil, errors.New("refused")
				}
				return x, nil
			}
			fresh := mustBuilder(t, config).Build(s)
			compareTables(t, fmt.Sprintf("seed %d, step %d", seed, step), out.Table, fresh.Table)
			if got, want := fmt.Sprint(out.Problems), fmt.Sprint(fresh.Problems); got != want {
				t.Fatalf("seed %d, step %d: problems\n%s\nwant\n%s", seed, step, got, want)
			}
			for range 40 {
				host, path := d.of("a.com", "b.com", "c.com", "x", "a.com:80"), d.of("/", "/x", "/x/y/z", "/X", "/y", "/[")
				got, want := targetsText(out.Table.Lookup(host, path, false)), targetsText(fresh.Table.Lookup(host, path, false))
				if got != want {
					t.Fatalf("seed %d, step %d: Lookup(%q, %q) = %s, want %s", seed, step, host, path, got, want)
				}
			}
			s = d.change(s)
		}
	}
}

// compareTables checks that got and want have the same routes and targets.
func compareTables(t *testing.T, when string, got, want *Table) {
	t.Helper()
	if got.String() != want.String() || got.Dump() != want.Dump() {
		t.Fatalf("%s: table\n%s\nwant\n%s", when, got, want)
	}
	if added, removed := Diff(got, want); len(added)+len(removed) > 0 {
		t.Fatalf("%s: Diff = %q, %q", when, added, removed)
	}
	a, b := slices.Collect(got.All()), slices.Collect(want.All())
	if len(a) != len(b) {
		t.Fatalf("%s: %d routes, want %d", when, len(a), len(b))
	}
	for i := range a {
		if a[i].Host != b[i].Host || a[i].Path != b[i].Path || a[i].Match != b[i].Match || a[i].Strategy != b[i].Strategy ||
			len(a[i].Targets) != len(b[i].Targets) || len(a[i].live) != len(b[i].live) {
			t.Fatalf("%s: route %+v, want %+v", when, a[i], b[i])
		}
		for j := range a[i].Targets {
			x, y := *a[i].Targets[j], *b[i].Targets[j]
			x.Bound, y.Bound = nil, nil
			if !reflect.DeepEqual(x, y) {
				t.Fatalf("%s: target %+v, want %+v", when, x, y)
			}
		}
	}
}

// TestBuildManyTargets crosses the sizes at which indexes take over from lists.
func TestBuildManyTargets(t *testing.T) {
	t.Parallel()
	binds := 0
	b := mustBuilder(t, Config{Bind: func(x *Target) (any, error) { binds++; return x.Dst, nil }})
	text := generate(100, "route add s /a http://a:%d/") + generate(100, "route add s /a http://a:%d/") +
		generate(100, `route add s /a http://a:%d/ tags "x"`)
	out := b.Build(snapshotOf(t, text))
	if _, n := out.Table.Len(); n != 200 || binds != 200 {
		t.Errorf("%d targets, %d binds, want 200, 200", n, binds)
	}
	again := generate(100, "route add s /a http://a:%d/")
	out = b.Build(snapshotOf(t, text+"route del s /a http://a:7/\n"+again+again))
	if _, n := out.Table.Len(); n != 199 {
		t.Errorf("%d targets after one was deleted and added again, want 199", n)
	}
	out = b.Build(snapshotOf(t, text+`route del s tags "x"`+"\n"+generate(50, "route del s /a http://a:%d/")))
	if _, n := out.Table.Len(); n != 50 || binds != 200 || len(out.Removed) != 149 {
		t.Errorf("%d targets, %d binds, %d removed, want 50, 200, 149", n, binds, len(out.Removed))
	}
}

// TestTablesWhileReaders looks up and picks while tables that share hosts take each other's place.
func TestTablesWhileReaders(t *testing.T) {
	t.Parallel()
	var current atomic.Pointer[Table]
	b := mustBuilder(t, Config{Strategy: "rr"})
	build := func(i int) {
		text := fmt.Sprintf("route add s a.com/ http://a/\nroute add s a.com/ http://b:%d/\nroute add s *.b.com/ http://c/ weight .%d\nroute add s *.b.com/ http://d/", i%3, 1+i%5)
		current.Store(b.Build(Snapshot{Overrides: mustParse(t, text)}).Table)
	}
	build(0)
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				table := current.Load()
				for _, host := range []string{"a.com", "x.b.com"} {
					r := table.Lookup(host, "/", false)
					if r == nil || r.Pick() == nil || r.PickOther(r.Targets[0]) == nil {
						t.Errorf("Lookup(%s) = %v", host, r)
						return
					}
				}
			}
		})
	}
	for i := range 300 {
		build(i)
	}
	close(stop)
	wg.Wait()
}

// FuzzBuild checks that any text makes a table that can be written, read and looked up in, and made again.
func FuzzBuild(f *testing.F) {
	for _, s := range []string{lookupTable, rampText(3),
		"route add a {a,b}*.c:80/x[ab]* http://a/ opts \"match=glob\"\nroute weight a / weight 1\nroute del tags \"x\"",
		"route add a *.:443/ http://a/\nroute add a .*:80 http://b/\nroute add b ../ tcp://a:1\nroute del b ..",
		"route add a [::1]:80/ http://[::1]:80/\nroute add a [:1]/ https://a:1$path",
	} {
		f.Add(s, "a.com", "/x")
	}
	f.Fuzz(func(t *testing.T, text, host, path string) {
		for _, few := range []int{0, fewRoutes} {
			b := mustBuilder(t, Config{Strategy: "rr"})
			b.few = few
			commands, _ := Parse(text, "fuzz")
			out := b.Build(Snapshot{Overrides: commands})
			if _, problems := Parse(out.Table.String(), "again"); len(problems) > 0 {
				t.Errorf("String() of %q does not parse: %v", text, problems)
			}
			commands, _ = Parse(text, "fuzz")
			if again := b.Build(Snapshot{Overrides: commands}); again.Table != out.Table || again.Added != 0 || len(again.Removed) != 0 {
				t.Errorf("a second build of %q differs", text)
			}
			out.Table.Dump()
			for _, tls := range []bool{false, true} {
				seen := make(map[*Route]bool)
				for r := out.Table.Lookup(host, path, tls); r != nil; r = out.Table.LookupNext(host, path, tls, r) {
					if seen[r] {
						t.Fatalf("LookupNext(%q, %q) of %q comes back", host, path, text)
					}
					seen[r] = true
					r.Pick()
				}
			}
			out.Table.LookupConn(host)
		}
	})
}
