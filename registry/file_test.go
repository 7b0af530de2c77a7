package registry

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"varco/route"
)

// fileWatch is a file backend at work.
type fileWatch struct {
	t   *testing.T
	b   Backend
	got chan route.Snapshot
}

// backendWatch watches b until the end of the test.
func backendWatch(t *testing.T, b Backend) *fileWatch {
	t.Helper()
	w := &fileWatch{t, b, make(chan route.Snapshot, 100)}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- b.Watch(ctx, func(s route.Snapshot) { w.got <- s }) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Watch = %v", err)
		}
	})
	return w
}

// until waits for a Snapshot that is right; others may come before it.
func (w *fileWatch) until(what string, right func(route.Snapshot) bool) route.Snapshot {
	w.t.Helper()
	deadline := time.After(10 * time.Second)
	for {
		select {
		case s := <-w.got:
			if right(s) {
				return s
			}
		case <-deadline:
			w.t.Fatalf("no Snapshot with %s", what)
		}
	}
}

// services returns the names of the services of the overrides.
func services(s route.Snapshot) string {
	var l []string
	for _, c := range s.Overrides {
		l = append(l, c.Service)
	}
	return strings.Join(l, " ")
}

func (w *fileWatch) wantServices(names string) route.Snapshot {
	w.t.Helper()
	return w.until("services "+names, func(s route.Snapshot) bool { return services(s) == names })
}

func add(names ...string) string {
	var b strings.Builder
	for _, n := range names {
		fmt.Fprintf(&b, "route add %s /%s http://%s/\n", n, n, n)
	}
	return b.String()
}

func writeFile(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// replace puts a new file in the place of path, as editors and deployments do.
func replace(t *testing.T, path, text string) {
	t.Helper()
	writeFile(t, path+".new", text)
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

func openTestFile(t *testing.T, flags ...string) Backend {
	t.Helper()
	b, err := Open(testConfig(t, append([]string{"registry.backend=file"}, flags...)...), testEnv(t))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestFileIsReadAgain(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "routes")
	writeFile(t, path, add("a"))
	w := backendWatch(t, openTestFile(t, "registry.file.path="+path))
	if s := w.wantServices("a"); s.Overrides[0].Origin != (route.Origin{Source: path, Line: 1, Column: 1}) {
		t.Errorf("origin %+v", s.Overrides[0].Origin)
	}
	writeFile(t, path, add("a", "b"))
	w.wantServices("a b")
	replace(t, path, add("c"))
	w.wantServices("c")
	// No routes at all is said with a comment.
	replace(t, path, "# none\n")
	if s := w.wantServices(""); len(s.Problems) != 0 {
		t.Errorf("problems %v", s.Problems)
	}
	replace(t, path, "")
	replace(t, path, add("e"))
	w.wantServices("e")
}

// TestFirstFileWithBadLines: there is no old text to keep, so that a bad line costs only itself.
func TestFirstFileWithBadLines(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "routes")
	writeFile(t, path, add("a", "b")+"nonsense\n")
	w := backendWatch(t, openTestFile(t, "registry.file.path="+path))
	if s := w.wantServices("a b"); len(s.Problems) != 1 || s.Problems[0].Origin.Line != 3 {
		t.Errorf("problems %v", s.Problems)
	}
	replace(t, path, add("a", "c"))
	if s := w.wantServices("a c"); len(s.Problems) != 0 {
		t.Errorf("problems %v", s.Problems)
	}
}

// TestBadLineKeepsTheOldRoutes: half of a change is not what was meant. The bad lines are told with their places.
func TestBadLineKeepsTheOldRoutes(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "routes")
	writeFile(t, path, add("a"))
	w := backendWatch(t, openTestFile(t, "registry.file.path="+path))
	w.wantServices("a")
	replace(t, path, add("b")+"nonsense\nroute ad x\n")
	s := w.until("problems", func(s route.Snapshot) bool { return len(s.Problems) > 0 })
	if services(s) != "a" {
		t.Errorf("services %s, want a", services(s))
	}
	lines := map[int]bool{}
	for _, p := range s.Problems {
		lines[p.Origin.Line] = true
	}
	if len(s.Problems) != 3 || !lines[0] || !lines[2] || !lines[3] {
		t.Errorf("problems %v, want one for the file and lines 2 and 3", s.Problems)
	}
	replace(t, path, add("a"))
	if s := w.until("no problems", func(s route.Snapshot) bool { return len(s.Problems) == 0 }); services(s) != "a" {
		t.Errorf("services %s, want a", services(s))
	}
}

func TestBadFileKeepsTheOldRoutes(t *testing.T) {
	t.Parallel()
	for name, bad := range map[string]func(path string) error{
		"removed":   os.Remove,
		"empty":     func(p string) error { return os.WriteFile(p, nil, 0o600) },
		"blank":     func(p string) error { return os.WriteFile(p, []byte(" \n\n"), 0o600) },
		"binary":    func(p string) error { return os.WriteFile(p, []byte(add("x")+"\x00"), 0o600) },
		"not UTF-8": func(p string) error { return os.WriteFile(p, []byte(add("x")+"\xff\xfe"), 0o600) },
		"no routes": func(p string) error { return os.WriteFile(p, []byte("<html>\nnot found\n</html>\n"), 0o600) },
		"a folder": func(p string) error {
			if err := os.Remove(p); err != nil {
				return err
			}
			return os.Mkdir(p, 0o700)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "routes")
			writeFile(t, path, add("a", "b"))
			b := openTestFile(t, "registry.file.path="+path)
			w := backendWatch(t, b)
			w.wantServices("a b")
			if err := bad(path); err != nil {
				t.Fatal(err)
			}
			s := w.until("a problem", func(s route.Snapshot) bool { return len(s.Problems) > 0 })
			if services(s) != "a b" || len(s.Problems) != 1 || s.Problems[0].Origin.Source != path || s.Problems[0].Hint != "the last good routes stay" {
				t.Errorf("services %q, problems %v, want the old services and one problem", services(s), s.Problems)
			}
			if err := b.(Troubled).Trouble(); err == nil || !strings.Contains(err.Error(), path) {
				t.Errorf("Trouble() = %v", err)
			}
			os.Remove(path)
			replace(t, path, add("c"))
			if s := w.wantServices("c"); len(s.Problems) != 0 || b.(Troubled).Trouble() != nil {
				t.Errorf("after a good file: problems %v, trouble %v", s.Problems, b.(Troubled).Trouble())
			}
		})
	}
}

// A link to a folder that is swapped, as Kubernetes does with its volumes, and a link whose target changes elsewhere.
func TestFileBehindLinks(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, v := range []string{"v1", "v2"} {
		if err := os.Mkdir(filepath.Join(dir, v), 0o700); err != nil {
			t.Fatal(err)
		}
		writeFile(t, filepath.Join(dir, v, "routes"), add(v))
	}
	link := func(target, name string) {
		t.Helper()
		tmp := filepath.Join(dir, "tmp")
		if err := os.Symlink(target, tmp); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(tmp, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	link("v1", "data")
	link(filepath.Join("data", "routes"), "routes")
	w := backendWatch(t, openTestFile(t, "registry.file.path="+filepath.Join(dir, "routes")))
	w.wantServices("v1")
	link("v2", "data")
	w.wantServices("v2")
	writeFile(t, filepath.Join(dir, "v2", "routes"), add("v2", "more")) // not in the folder that is watched
	w.wantServices("v2 more")
}

func TestFileNoRoutePage(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path, page := filepath.Join(dir, "routes"), filepath.Join(dir, "page")
	writeFile(t, path, add("a"))
	writeFile(t, page, "<p>one")
	w := backendWatch(t, openTestFile(t, "registry.file.path="+path, "registry.file.noroutehtmlpath="+page))
	w.until("page one", func(s route.Snapshot) bool { return s.NoRoute == "<p>one" })
	replace(t, page, "<p>two")
	w.until("page two", func(s route.Snapshot) bool { return s.NoRoute == "<p>two" })
	replace(t, page, strings.Repeat("x", maxNoRoute+1))
	s := w.until("a problem", func(s route.Snapshot) bool { return len(s.Problems) > 0 })
	if s.NoRoute != "<p>two" || s.Problems[0].Error() != page+": longer than 64 KiB (the last good page stays)" {
		t.Errorf("page %.20q, problem %v", s.NoRoute, s.Problems[0])
	}
	replace(t, page, "<p>three")
	w.until("page three", func(s route.Snapshot) bool { return s.NoRoute == "<p>three" && len(s.Problems) == 0 })
}

func TestOpenFileRefuses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	good, binary := filepath.Join(dir, "good"), filepath.Join(dir, "binary")
	writeFile(t, good, add("a"))
	writeFile(t, binary, "\x00")
	for _, c := range []struct{ path, page, err string }{
		{dir + "/none", "", "registry.file.path: " + dir + "/none: no such file or directory"},
		{dir, "", "registry.file.path: " + dir + ": is a directory"},
		{binary, "", "registry.file.path: " + binary + ": not a text"},
		{good, dir + "/none", "registry.file.noroutehtmlpath: " + dir + "/none: no such file or directory"},
	} {
		_, err := Open(testConfig(t, "registry.backend=file", "registry.file.path="+c.path, "registry.file.noroutehtmlpath="+c.page), testEnv(t))
		if errText(err) != c.err {
			t.Errorf("Open(%q, %q) = %v, want %s", c.path, c.page, err, c.err)
		}
	}
}

func TestStatic(t *testing.T) {
	t.Parallel()
	b, err := Open(testConfig(t, "registry.backend=static", "registry.static.routes="+add("a", "b")+"bad", "registry.static.noroutehtml=<p>"), testEnv(t))
	if err != nil {
		t.Fatal(err)
	}
	s := backendWatch(t, b).wantServices("a b")
	if s.NoRoute != "<p>" || len(s.Problems) != 1 || s.Problems[0].Origin.Source != "registry.static.routes" || s.Problems[0].Origin.Line != 3 {
		t.Errorf("snapshot %+v", s)
	}
	b, err = Open(testConfig(t, "registry.backend=static", "registry.static.noroutehtmlpath="+strings.Repeat("x", maxNoRoute+1)), Env{})
	if err != nil {
		t.Fatal(err)
	}
	s = backendWatch(t, b).wantServices("")
	if s.NoRoute != "" || len(s.Problems) != 1 {
		t.Errorf("a page that is too long: %v", s.Problems)
	}
}
