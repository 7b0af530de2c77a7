package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"
)

// The repository's own rules. Each is a function from a file tree to what is wrong with it, so that
// TestRulesCanFail can show it a tree that breaks it.
var repoRules = []struct {
	name  string
	check func(*tree) []string
	// bad is a tree that the rule must complain about, with words of the complaint.
	bad  map[string]string
	want string
}{
	{
		name:  "imports run in one direction",
		check: importArrows,
		bad:   map[string]string{"route/route.go": "// Package route is.\npackage route\n\nimport _ \"varco/proxy\"\n"},
		want:  "route must not import proxy",
	},
	{
		name:  "integration imports nothing of ours",
		check: importArrows,
		bad:   map[string]string{"integration/bench/x_test.go": "package bench\n\nimport _ \"varco/route\"\n"},
		want:  "integration/bench must not import route",
	},
	{
		name:  "one package comment each",
		check: packageComments,
		bad:   map[string]string{"route/route.go": "package route\n", "route/table.go": "package route\n"},
		want:  "route: package comments in [], want exactly one in route.go",
	},
	{
		name:  "the package comment stands in the file named after the package",
		check: packageComments,
		bad:   map[string]string{"route/route.go": "package route\n", "route/doc.go": "// Package route is.\npackage route\n"},
		want:  "want exactly one in route.go",
	},
	{
		name:  "no init functions",
		check: noInit,
		bad:   map[string]string{"proxy/opt.go": "package proxy\n\nfunc init() {}\n"},
		want:  "proxy/opt.go:3: init function",
	},
	{
		name:  "no test sleeps",
		check: noSleepInTests,
		bad:   map[string]string{"proxy/http_test.go": "package proxy\n\nimport \"time\"\n\nfunc f() { time.Sleep(1) }\n"},
		want:  "proxy/http_test.go:5: time.Sleep in a test",
	},
	{
		name:  "no test sleeps beside a bubble",
		check: noSleepInTests,
		bad: map[string]string{"proxy/http_test.go": "package proxy\n\nimport (\n\t\"testing/synctest\"\n\t\"time\"\n)\n\n" +
			"func f() {\n\tsynctest.Test(nil, func() { time.Sleep(1); synctest.Wait() })\n\ttime.Sleep(1)\n}\n"},
		want: "proxy/http_test.go:10: time.Sleep in a test",
	},
	{
		name:  "no vague package names",
		check: noVagueNames,
		bad:   map[string]string{"proxy/util/util.go": "package util\n"},
		want:  "proxy/util/util.go: package named util",
	},
	{
		name:  "nothing is left for later",
		check: noLeftovers,
		bad:   map[string]string{"docs/flags.md": "# Flags\n\n" + later[0] + " write this\n"},
		want:  "docs/flags.md:3: " + later[0],
	},
	{
		name:  "the README's commands exist",
		check: readmeCommands,
		bad:   map[string]string{"README.md": "```sh\nmake fly\n```\n", "Makefile": "test:\n\tgo test ./...\n"},
		want:  "make fly: no such target",
	},
	{
		name:  "the README has its two commands",
		check: readmeCommands,
		bad:   map[string]string{"README.md": "```sh\nmake test\n```\n", "Makefile": "test:\n\tgo test ./...\n"},
		want:  "README.md: no command that runs the demo",
	},
	{
		name:  "links in the docs lead somewhere",
		check: docLinks,
		bad:   map[string]string{"docs/routes.md": "see [flags](flags.md)\n"},
		want:  "docs/routes.md: link to flags.md leads nowhere",
	},
	{
		name:  "the files that people look for are there",
		check: expectedFiles,
		bad:   map[string]string{"README.md": "varco\n"},
		want:  "CHANGELOG.md is missing",
	},
}

func TestRepository(t *testing.T) {
	repo := readTree(t, os.DirFS("."))
	for _, r := range repoRules {
		t.Run(r.name, func(t *testing.T) {
			for _, complaint := range r.check(repo) {
				t.Error(complaint)
			}
		})
	}
}

func TestRulesCanFail(t *testing.T) {
	for _, r := range repoRules {
		t.Run(r.name, func(t *testing.T) {
			files := fstest.MapFS{}
			for name, text := range r.bad {
				files[name] = &fstest.MapFile{Data: []byte(text)}
			}
			complaints := strings.Join(r.check(readTree(t, files)), "\n")
			if !strings.Contains(complaints, r.want) {
				t.Errorf("complaints = %q, want one with %q", complaints, r.want)
			}
		})
	}
}

// tree is what the rules look at: the names of all files, the text of those that have one, Go files parsed.
type tree struct {
	files map[string]bool
	text  map[string]string
	code  map[string]*ast.File
	fset  *token.FileSet
}

func readTree(t *testing.T, files fs.FS) *tree {
	t.Helper()
	repo := &tree{files: map[string]bool{".": true}, text: map[string]string{}, code: map[string]*ast.File{}, fset: token.NewFileSet()}
	err := fs.WalkDir(files, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		repo.files[name] = true
		if d.IsDir() {
			// .ci belongs to the repository, other dotted folders and build output do not.
			if name != "." && name != ".ci" && (strings.HasPrefix(d.Name(), ".") || d.Name() == "build") {
				return fs.SkipDir
			}
			return nil
		}
		if !isText(name) {
			return nil
		}
		data, err := fs.ReadFile(files, name)
		if err != nil {
			return err
		}
		repo.text[name] = string(data)
		if path.Ext(name) == ".go" && !strings.Contains(name, "testdata/") {
			repo.code[name], err = parser.ParseFile(repo.fset, name, data, parser.ParseComments)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return repo
}

func isText(name string) bool {
	switch path.Ext(name) {
	case ".go", ".md", ".txt", ".js", ".css", ".html", ".svg", ".sh", ".yml", ".properties":
		return true
	}
	return path.Base(name) == "Makefile" || strings.HasPrefix(name, ".ci/")
}

// sorted lists the names of the Go files in order, so that complaints have one.
func (r *tree) sorted() []string {
	var names []string
	for name := range r.code {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func (r *tree) at(name string, pos token.Pos) string {
	return fmt.Sprintf("%s:%d", name, r.fset.Position(pos).Line)
}

// arrows says what each folder may import of ours; the key of main is ".".
var arrows = map[string][]string{
	".":           {"admin", "registry", "proxy", "metrics", "route"},
	"admin":       {"route", "registry"},
	"registry":    {"route"},
	"proxy":       {"route", "metrics", "proxy/http1", "proxy/wire", "proxy/cert"},
	"route":       {},
	"metrics":     {},
	"proxy/http1": {},
	"proxy/wire":  {},
	"proxy/cert":  {},
}

func importArrows(r *tree) []string {
	var complaints []string
	for _, name := range r.sorted() {
		dir := path.Dir(name)
		allowed, known := arrows[dir]
		for _, spec := range r.code[name].Imports {
			imported, _ := strconv.Unquote(spec.Path.Value)
			ours, ok := strings.CutPrefix(imported, "varco/")
			if !ok || ours == dir { // a package's outside tests import it
				continue
			}
			if !known || !slices.Contains(allowed, ours) {
				complaints = append(complaints, fmt.Sprintf("%s: %s must not import %s", r.at(name, spec.Pos()), dir, ours))
			}
		}
	}
	return complaints
}

func packageComments(r *tree) []string {
	commented := map[string][]string{}
	want := map[string]string{}
	for _, name := range r.sorted() {
		f, dir := r.code[name], path.Dir(name)
		pkg := strings.TrimSuffix(f.Name.Name, "_test")
		if strings.HasSuffix(name, "_test.go") {
			if f.Doc != nil && strings.HasSuffix(f.Name.Name, "_test") {
				commented[dir] = append(commented[dir], path.Base(name))
			}
			continue
		}
		want[dir] = pkg + ".go"
		if f.Doc != nil {
			commented[dir] = append(commented[dir], path.Base(name))
		}
	}
	var complaints []string
	for dir, file := range want {
		if got := commented[dir]; len(got) != 1 || got[0] != file {
			complaints = append(complaints, fmt.Sprintf("%s: package comments in %v, want exactly one in %s", dir, got, file))
		}
	}
	slices.Sort(complaints)
	return complaints
}

func noInit(r *tree) []string {
	var complaints []string
	for _, name := range r.sorted() {
		for _, d := range r.code[name].Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil && f.Name.Name == "init" {
				complaints = append(complaints, r.at(name, f.Pos())+": init function")
			}
		}
	}
	return complaints
}

func noSleepInTests(r *tree) []string {
	var complaints []string
	for _, name := range r.sorted() {
		// Everything under integration is test code, whatever its files are called.
		if !strings.HasSuffix(name, "_test.go") && !strings.HasPrefix(name, "integration/") {
			continue
		}
		ast.Inspect(r.code[name], func(n ast.Node) bool {
			if inBubble(n) {
				return false // the clock in there is a fake, and Sleep is how it is moved
			}
			if e, ok := n.(ast.Expr); ok && isSelector(e, "time", "Sleep") {
				complaints = append(complaints, r.at(name, e.Pos())+": time.Sleep in a test")
			}
			return true
		})
	}
	return complaints
}

// inBubble reports whether n runs under synctest's clock: what is given to synctest.Test does, and so does a function
// that calls synctest.Wait, which panics elsewhere.
func inBubble(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.CallExpr:
		return isSelector(n.Fun, "synctest", "Test")
	case *ast.FuncDecl:
		waits, starts := false, false
		ast.Inspect(n, func(n ast.Node) bool {
			if e, ok := n.(ast.Expr); ok {
				waits = waits || isSelector(e, "synctest", "Wait")
				starts = starts || isSelector(e, "synctest", "Test")
			}
			return true
		})
		return waits && !starts
	}
	return false
}

func isSelector(e ast.Expr, pkg, name string) bool {
	s, ok := e.(*ast.SelectorExpr)
	if !ok || s.Sel.Name != name {
		return false
	}
	x, ok := s.X.(*ast.Ident)
	return ok && x.Name == pkg
}

func noVagueNames(r *tree) []string {
	vague := []string{"util", "utils", "common", "types", "helper", "helpers", "misc", "base"}
	var complaints []string
	for _, name := range r.sorted() {
		if pkg := r.code[name].Name.Name; slices.Contains(vague, pkg) {
			complaints = append(complaints, name+": package named "+pkg)
		}
	}
	return complaints
}

// later holds the words by which people mark unfinished work, put together so that this file does not contain them.
var later = []string{"TO" + "DO", "FIX" + "ME", "X" + "XX"}

func noLeftovers(r *tree) []string {
	var complaints []string
	for name, text := range r.text {
		for i, line := range strings.Split(text, "\n") {
			for _, word := range later {
				if strings.Contains(line, word) {
					complaints = append(complaints, fmt.Sprintf("%s:%d: %s", name, i+1, word))
				}
			}
		}
	}
	slices.Sort(complaints)
	return complaints
}

var (
	shellBlock = regexp.MustCompile("(?ms)^```sh\n(.*?)^```")
	makeTarget = regexp.MustCompile(`(?m)^([a-z][a-z-]*):`)
)

func readmeCommands(r *tree) []string {
	targets := map[string]bool{}
	for _, m := range makeTarget.FindAllStringSubmatch(r.text["Makefile"], -1) {
		targets[m[1]] = true
	}
	var complaints []string
	demo, test := false, false
	for _, block := range shellBlock.FindAllStringSubmatch(r.text["README.md"], -1) {
		for _, line := range strings.Split(block[1], "\n") {
			words := strings.Fields(line)
			if len(words) < 2 || words[0] != "make" {
				continue
			}
			demo = demo || words[1] == "demo"
			test = test || words[1] == "test"
			if !targets[words[1]] {
				complaints = append(complaints, "README.md: make "+words[1]+": no such target")
			}
		}
	}
	if !demo {
		complaints = append(complaints, "README.md: no command that runs the demo")
	}
	if !test {
		complaints = append(complaints, "README.md: no command that runs the tests")
	}
	return complaints
}

var markdownLink = regexp.MustCompile(`\]\(([^)#:\s]+)(#[^)]*)?\)`)

func docLinks(r *tree) []string {
	var complaints []string
	for name, text := range r.text {
		if path.Ext(name) != ".md" {
			continue
		}
		for _, m := range markdownLink.FindAllStringSubmatch(text, -1) {
			if !r.files[path.Join(path.Dir(name), m[1])] {
				complaints = append(complaints, fmt.Sprintf("%s: link to %s leads nowhere", name, m[1]))
			}
		}
	}
	slices.Sort(complaints)
	return complaints
}

func expectedFiles(r *tree) []string {
	var complaints []string
	for _, name := range []string{
		"README.md", "CONTRIBUTING.md", "CHANGELOG.md", "Makefile", ".ci/run",
		"docs/architecture.md", "docs/routes.md", "docs/options.md", "docs/flags.md", "docs/metrics.md",
		"docs/registry.md", "docs/operations.md", "docs/migrating-from-fabio.md",
	} {
		if strings.TrimSpace(r.text[name]) == "" {
			complaints = append(complaints, name+" is missing")
		}
	}
	return complaints
}
