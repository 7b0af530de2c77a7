package admin

import (
	"io/fs"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func pageFile(t *testing.T, name string) string {
	t.Helper()
	b, err := fs.ReadFile(pageFiles, "page/"+name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func scripts(t *testing.T) []string {
	t.Helper()
	names, err := fs.Glob(pageFiles, "page/*.js")
	if err != nil || len(names) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	for i := range names {
		names[i] = strings.TrimPrefix(names[i], "page/")
	}
	return names
}

// TestPageNeedsNothingInline wants a page that works under its content security policy, and from this server alone.
func TestPageNeedsNothingInline(t *testing.T) {
	h := newServer(t, testConfig(t, func(c *Config) { c.Path = "/fabio" }), Deps{}).Handler()
	html := ask(h, "GET", "/fabio/routes", "").Body.String()
	for what, re := range map[string]string{
		"inline script":        `<script(?:[^>]*)>[^<]`,
		"inline style":         `<style|\sstyle=`,
		"event attribute":      `\son[a-z]+=`,
		"address elsewhere":    `(?:src|href)="(?:https?:)?//`,
		"javascript address":   `(?i)javascript:`,
		"path outside of base": `(?:src|href)="/(?:[^f"]|f[^a"])`,
	} {
		if found := regexp.MustCompile(re).FindString(html); found != "" {
			t.Errorf("the page has an %s: %s", what, found)
		}
	}
	for _, ref := range regexp.MustCompile(`(?:src|href)="(/fabio/[^"]+)"`).FindAllStringSubmatch(html, -1) {
		if w := ask(h, "GET", ref[1], ""); w.Code != 200 {
			t.Errorf("the page refers to %s = %d", ref[1], w.Code)
		}
	}
}

// TestScriptsMakeNoMarkup wants no script to use what turns text into markup or code.
func TestScriptsMakeNoMarkup(t *testing.T) {
	for _, name := range scripts(t) {
		text := pageFile(t, name)
		if found := regexp.MustCompile(`innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|srcdoc|DOMParser|createContextualFragment|setTimeout\(['"]|https?://[a-z]`).FindString(text); found != "" {
			t.Errorf("%s uses %s", name, found)
		}
		for _, ref := range regexp.MustCompile(`from '\./([^']+)'`).FindAllStringSubmatch(text, -1) {
			pageFile(t, ref[1])
		}
	}
}

// TestScriptsFindTheirElements wants every id that a script asks for in the page.
func TestScriptsFindTheirElements(t *testing.T) {
	html := pageFile(t, "index.html")
	for _, name := range scripts(t) {
		for _, ref := range regexp.MustCompile(`\$\('([^']+)'\)`).FindAllStringSubmatch(pageFile(t, name), -1) {
			if !strings.Contains(html, `id="`+ref[1]+`"`) {
				t.Errorf("%s asks for #%s, which is not in the page", name, ref[1])
			}
		}
	}
	ids := regexp.MustCompile(`\sid="([^"]+)"`).FindAllStringSubmatch(html, -1)
	var seen []string
	for _, id := range ids {
		if slices.Contains(seen, id[1]) {
			t.Errorf("id %s is there twice", id[1])
		}
		seen = append(seen, id[1])
	}
}

func TestReadOnlyPageHasNoEditorLink(t *testing.T) {
	for access, want := range map[string]bool{"ro": false, "rw": true} {
		h := newServer(t, testConfig(t, func(c *Config) { c.Access = access }), Deps{}).Handler()
		if got := strings.Contains(ask(h, "GET", "/routes", "").Body.String(), `href="/manual"`); got != want {
			t.Errorf("%s: link to the editor = %v, want %v", access, got, want)
		}
	}
}

func TestAssetsAreRevalidated(t *testing.T) {
	h := newServer(t, testConfig(t), Deps{}).Handler()
	for path, contentType := range map[string]string{
		"/assets/app.js": "text/javascript; charset=utf-8", "/assets/style.css": "text/css; charset=utf-8",
		"/assets/logo.svg": "image/svg+xml", "/routes": "text/html; charset=utf-8",
	} {
		w := ask(h, "GET", path, "")
		if got := w.Header().Get("Content-Type"); got != contentType {
			t.Errorf("%s: Content-Type = %q, want %q", path, got, contentType)
		}
		if w := ask(h, "GET", path, "", "If-None-Match: "+w.Header().Get("ETag")); w.Code != 304 {
			t.Errorf("%s, asked again = %d, want 304", path, w.Code)
		}
	}
}

// TestMerge runs the tests of merge.js where there is a node to run them.
func TestMerge(t *testing.T) {
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("no node here")
	}
	if out, err := exec.Command(node, "testdata/merge_test.mjs").CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
