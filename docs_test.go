package main

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"varco/proxy"
	"varco/registry"
	"varco/route"
)

func readDoc(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// docRow finds a table row whose first cell names something in code quotes, and its second cell.
var docRow = regexp.MustCompile("(?m)^\\| `([^`]+)`[^|]*\\|([^|]*)\\|")

// rows are the first words of a page's table rows, each with its second cell.
func rows(page string) map[string]string {
	all := map[string]string{}
	for _, m := range docRow.FindAllStringSubmatch(page, -1) {
		name, _, _ := strings.Cut(m[1], "=")
		all[name] = strings.Trim(strings.TrimSpace(m[2]), "`")
	}
	return all
}

// undocumented answers which of names have no row in page, and which rows name nothing that exists.
func undocumented(page string, names []string) []string {
	var complaints []string
	documented := rows(page)
	for _, n := range names {
		if _, ok := documented[n]; !ok {
			complaints = append(complaints, n+" has no row")
		}
	}
	for n := range documented {
		if !slices.Contains(names, n) {
			complaints = append(complaints, n+" has a row and does not exist")
		}
	}
	slices.Sort(complaints)
	return complaints
}

func TestUndocumentedCanFail(t *testing.T) {
	page := "| `a=x` | 1 | first |\n| `c` | 2 | third |\n"
	got := undocumented(page, []string{"a", "b"})
	want := []string{"b has no row", "c has a row and does not exist"}
	if !slices.Equal(got, want) {
		t.Errorf("undocumented = %q, want %q", got, want)
	}
	if got := wrongDefaults(page, map[string]string{"a": "1", "c": "3"}); len(got) != 1 {
		t.Errorf("wrongDefaults = %q, want one about c", got)
	}
}

// wrongDefaults answers which rows show another default than the flag has.
func wrongDefaults(page string, defaults map[string]string) []string {
	var complaints []string
	for name, shown := range rows(page) {
		if want, ok := defaults[name]; ok && shown != want {
			complaints = append(complaints, fmt.Sprintf("%s: default shown as %q, is %q", name, shown, want))
		}
	}
	slices.Sort(complaints)
	return complaints
}

func TestEveryFlagIsDocumented(t *testing.T) {
	page := readDoc(t, "docs/flags.md")
	var names []string
	defaults := map[string]string{}
	newConfig().flags.VisitAll(func(f *pflag.Flag) {
		names = append(names, f.Name)
		switch {
		case isMachineDefault(f.Name):
		case defaultText(f) == "":
			defaults[f.Name] = "–"
		default:
			defaults[f.Name] = defaultText(f)
		}
	})
	for _, c := range append(undocumented(page, names), wrongDefaults(page, defaults)...) {
		t.Errorf("docs/flags.md: %s", c)
	}
}

// isMachineDefault reports whether a flag's default depends on the machine, so that the page describes it in words.
func isMachineDefault(name string) bool {
	return name == "profile.path"
}

func TestEveryOptionIsDocumented(t *testing.T) {
	var names []string
	for _, o := range proxy.Options() {
		names = append(names, o.Name)
	}
	for _, c := range undocumented(readDoc(t, "docs/options.md"), names) {
		t.Errorf("docs/options.md: %s", c)
	}
}

func TestEveryFieldOfTheAccessLogIsDocumented(t *testing.T) {
	page := rows(readDoc(t, "docs/operations.md"))
	for _, f := range proxy.AccessLogFields() {
		if _, ok := page[f.Syntax]; !ok {
			t.Errorf("docs/operations.md: %s has no row", f.Syntax)
		}
	}
}

func TestEveryBackendIsDocumented(t *testing.T) {
	page := readDoc(t, "docs/registry.md")
	for _, b := range registry.Backends() {
		if !strings.Contains(page, "\n## "+b.Name+"\n") {
			t.Errorf("docs/registry.md: %s has no section", b.Name)
		}
	}
}

func TestEveryMatcherAndStrategyIsDocumented(t *testing.T) {
	page := readDoc(t, "docs/routes.md")
	for _, n := range append(route.Matchers(), route.Strategies()...) {
		if !strings.Contains(page, "`"+n.Name+"`") {
			t.Errorf("docs/routes.md: %s is not mentioned", n.Name)
		}
	}
}

var routesBlock = regexp.MustCompile("(?ms)^```routes\n(.*?)^```")

func TestExamplesOfTheRouteLanguageParse(t *testing.T) {
	examples := 0
	for _, page := range []string{"docs/routes.md", "docs/options.md"} {
		for _, block := range routesBlock.FindAllStringSubmatch(readDoc(t, page), -1) {
			commands, problems := route.Parse(block[1], page)
			examples += len(commands)
			for _, p := range problems {
				t.Errorf("%s: %s", p.Text, p.Error())
			}
		}
	}
	if examples < 10 {
		t.Errorf("%d examples found, want those of docs/routes.md at least", examples)
	}
}

func TestChangelogHasThisVersion(t *testing.T) {
	if !strings.Contains(readDoc(t, "CHANGELOG.md"), "\n## "+version+"\n") {
		t.Errorf("CHANGELOG.md has no entry for %s", version)
	}
}
