package route

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

// The scenarios in testdata are texts with sections:
//
//	-- config --    flags, one `name = value` a line
//	-- services --  commands of services, all optional
//	-- routes --    commands of the overrides
//	-- lookups --   `http://host/path -> want` or `conn key -> want`; after "then" comes what LookupNext wants
//	-- table --     Table.String
//	-- shares --    Table.String with the share of each target as its weight
//	-- problems --  Problem.Error of each
//
// want is the destinations of the targets that may be picked, or 503, or none.
func TestScenarios(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scenarios: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			t.Parallel()
			runScenario(t, file)
		})
	}
}

func runScenario(t *testing.T, file string) {
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	sections := make(map[string]string)
	known := []string{"config", "services", "routes", "lookups", "table", "shares", "problems"}
	name, first := "", 0
	for i, line := range strings.SplitAfter(string(text), "\n") {
		if s, ok := strings.CutPrefix(strings.TrimSpace(line), "-- "); ok {
			name = strings.TrimSuffix(s, " --")
			if !slices.Contains(known, name) {
				t.Fatalf("%s:%d: section %q: want one of %v", file, i+1, name, known)
			}
			if name == "lookups" {
				first = i + 2
			}
			sections[name] = ""
			continue
		}
		if name != "" {
			sections[name] += line
		}
	}

	config := configFrom(t, sections["config"])
	s := Snapshot{}
	for _, c := range mustParse(t, sections["services"]) {
		if n := len(s.Services); n == 0 || s.Services[n-1].Name != c.Service {
			s.Services = append(s.Services, Service{Name: c.Service})
		}
		last := &s.Services[len(s.Services)-1]
		last.Commands = append(last.Commands, c)
	}
	s.Overrides, s.Problems = Parse(sections["routes"], "routes")
	out := mustBuilder(t, config).Build(s)

	for i, line := range strings.Split(strings.TrimRight(sections["lookups"], "\n"), "\n") {
		if line = strings.TrimSpace(line); line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		what, want, ok := strings.Cut(line, "->")
		if !ok {
			t.Fatalf("%s:%d: no ->", file, first+i)
		}
		what, want = strings.TrimSpace(what), strings.Join(strings.Fields(want), " ")
		got := ""
		if key, ok := strings.CutPrefix(what, "conn "); ok {
			got = targetsText(out.Table.LookupConn(key))
		} else {
			scheme, rest, _ := strings.Cut(what, "://")
			host, path := rest, "/"
			if j := strings.IndexByte(rest, '/'); j >= 0 {
				host, path = rest[:j], rest[j:]
			}
			r := out.Table.Lookup(host, path, scheme == "https")
			got = targetsText(r)
			for range strings.Count(want, " then ") {
				r = out.Table.LookupNext(host, path, scheme == "https", r)
				got += " then " + targetsText(r)
			}
		}
		if got != want {
			t.Errorf("%s:%d: %s = %s, want %s", file, first+i, what, got, want)
		}
	}

	var problems []string
	for _, p := range out.Problems {
		problems = append(problems, p.Error())
	}
	for name, got := range map[string]string{
		"table":    out.Table.String(),
		"shares":   sharesText(out.Table),
		"problems": strings.Join(problems, "\n"),
	} {
		if want, ok := sections[name]; ok && strings.TrimSpace(want) != got {
			t.Errorf("%s: %s\n got:\n%s\nwant:\n%s", file, name, got, strings.TrimSpace(want))
		}
	}
	if _, ok := sections["problems"]; !ok && len(problems) > 0 {
		t.Errorf("%s: problems\n%s", file, strings.Join(problems, "\n"))
	}
}

// targetsText returns the destinations of the targets of r that may be picked.
func targetsText(r *Route) string {
	if r == nil {
		return "none"
	}
	if len(r.live) == 0 {
		return "503"
	}
	var list []string
	for _, t := range r.live {
		list = append(list, t.Dst)
	}
	return strings.Join(list, " ")
}

// sharesText returns t.String() with shares instead of weights.
func sharesText(t *Table) string {
	var lines []string
	for _, h := range slices.Backward(t.hosts) {
		for _, r := range h.routes {
			for _, x := range r.live {
				y := *x
				y.FixedWeight = x.Weight
				lines = append(lines, y.line())
			}
		}
	}
	return strings.Join(lines, "\n")
}

// configFrom returns the configuration of lines like `proxy.matcher = glob`.
func configFrom(t *testing.T, text string) Config {
	t.Helper()
	var c Config
	fs := pflag.NewFlagSet("test", pflag.ContinueOnError)
	c.Flags(fs)
	for line := range strings.Lines(text) {
		if strings.TrimSpace(line) == "" {
			continue
		}
		key, value, _ := strings.Cut(line, "=")
		if err := fs.Set(strings.TrimSpace(key), strings.TrimSpace(value)); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

func mustParse(t testing.TB, text string) []Command {
	t.Helper()
	commands, problems := Parse(text, "test")
	for _, p := range problems {
		t.Fatal(p)
	}
	return commands
}

func mustBuilder(t testing.TB, c Config) *Builder {
	t.Helper()
	b, err := NewBuilder(c)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// mustTable returns the table of text, which may have no problems.
func mustTable(t testing.TB, c Config, text string) *Table {
	t.Helper()
	out := mustBuilder(t, c).Build(Snapshot{Overrides: mustParse(t, text)})
	for _, p := range out.Problems {
		t.Fatal(p)
	}
	return out.Table
}

// generate returns n lines of format, which holds one %d.
func generate(n int, format string) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, format+"\n", i)
	}
	return b.String()
}
