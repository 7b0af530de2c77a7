package integration

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// browser is a page of varco's in a headless Chromium, and what went wrong in it.
type browser struct {
	t   *testing.T
	ctx context.Context
	v   *varco

	mu     sync.Mutex
	faults []string // console errors, CSP violations, exceptions, dialogs
}

// openPage starts a browser and opens a page of varco's.
func openPage(t *testing.T, v *varco, path string) *browser {
	t.Helper()
	bin := os.Getenv("VARCO_TEST_CHROMIUM")
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if bin == "" {
			bin, _ = exec.LookPath(name)
		}
	}
	if bin == "" {
		t.Fatal("no chromium to look at the page with: install it (apt-get install chromium) or set VARCO_TEST_CHROMIUM")
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(bin),
		chromedp.NoSandbox,
		chromedp.DisableGPU,
		chromedp.UserDataDir(t.TempDir()),
		chromedp.WindowSize(1280, 800),
		chromedp.Flag("disable-quic", true),
		chromedp.Flag("disable-component-update", true),
		chromedp.Flag("disable-dev-shm-usage", true),
	)
	ctx, cancel := chromedp.NewExecAllocator(context.Background(), options...)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	b := &browser{t: t, ctx: ctx, v: v}
	if err := chromedp.Listen(ctx, b.event); err != nil {
		t.Fatalf("browser: %v", err)
	}
	b.open(path)
	return b
}

// event notes everything that a page should not do.
func (b *browser) event(ev any) {
	fault := ""
	switch ev := ev.(type) {
	case *runtime.EventExceptionThrown:
		fault = "exception: " + ev.ExceptionDetails.Text
		if e := ev.ExceptionDetails.Exception; e != nil {
			fault += " " + e.Description
		}
	case *runtime.EventConsoleAPICalled:
		if ev.Type == runtime.ConsoleAPICalledTypeError || ev.Type == runtime.ConsoleAPICalledTypeWarning {
			fault = fmt.Sprintf("console.%s", ev.Type)
			for _, arg := range ev.Args {
				fault += " " + string(arg.Value) + arg.Description
			}
		}
	case *log.EventEntryAdded:
		if ev.Entry.Level == log.EntryLevelError || ev.Entry.Source == log.EntrySourceSecurity {
			fault = fmt.Sprintf("%s %s: %s %s", ev.Entry.Source, ev.Entry.Level, ev.Entry.Text, ev.Entry.URL)
		}
	case *page.EventJavascriptDialogOpening:
		fault = "dialog: " + ev.Message
		go chromedp.Call(b.ctx, page.HandleJavaScriptDialog, page.HandleJavaScriptDialogParams{Accept: true})
	}
	if fault != "" {
		b.mu.Lock()
		b.faults = append(b.faults, fault)
		b.mu.Unlock()
	}
}

// do runs actions under a deadline.
func (b *browser) do(actions ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, 30*time.Second)
	defer cancel()
	if err := chromedp.Do(ctx, actions...); err != nil {
		b.t.Fatalf("browser: %v", err)
	}
}

func (b *browser) open(path string) {
	b.t.Helper()
	b.do(chromedp.Navigate("http://"+b.v.ui+path), chromedp.WaitReady(chromedp.CSS("body")))
}

// eval answers the value of an expression, as text.
func (b *browser) eval(expression string) string {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, 30*time.Second)
	defer cancel()
	value, err := chromedp.Run(ctx, chromedp.Evaluate[any](expression))
	if err != nil {
		b.t.Fatalf("browser: %s: %v", expression, err)
	}
	return fmt.Sprint(value)
}

// becomes waits until an expression has a value.
func (b *browser) becomes(limit time.Duration, expression, want string) {
	b.t.Helper()
	eventually(b.t, limit, fmt.Sprintf("%s becomes %s", expression, want), func() error {
		if got := b.eval(expression); got != want {
			return fmt.Errorf("it is %s; the page says: %.1500s", got, b.eval("document.body.innerText"))
		}
		return nil
	})
}

// replace types a text into a field in the place of what is in it.
func (b *browser) replace(field, text string) {
	b.t.Helper()
	b.eval(fmt.Sprintf("document.querySelector(%q).select()", field))
	b.do(chromedp.SendKeys(chromedp.CSS(field), "\b"+text))
}

// rows is the expression for how many rows of a service the page shows. Rows are used again, and hidden in between.
func rows(service string) string {
	return fmt.Sprintf("[...document.querySelectorAll('#routes [data-service=%q]')].filter(e => e.checkVisibility()).length", service)
}

// clean fails the test if the page did anything that it should not have.
func (b *browser) clean() {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, f := range b.faults {
		b.t.Errorf("in the browser: %s", f)
	}
	b.faults = nil
}

func TestPageShowsTheLiveTable(t *testing.T) {
	t.Parallel()
	v := start(t, nil)
	first := shared.consul.register(t, v.name+"-first", newOrigin(t, "first"), v.prefix+"/first", "colour=green")
	v.reaches(5*time.Second, "/first", "first")
	b := openPage(t, v, "/")
	b.becomes(10*time.Second, rows(v.name+"-first"), "1")
	b.eval("window.notReloaded = true")

	// A service that comes and goes is seen without a reload.
	origins := []*origin{newOrigin(t, "a"), newOrigin(t, "b")}
	a := shared.consul.register(t, v.name+"-web", origins[0], v.prefix+"www.example.com/web strip=/web")
	shared.consul.register(t, v.name+"-web", origins[1], v.prefix+"www.example.com/web strip=/web")
	b.becomes(5*time.Second, rows(v.name+"-web"), "2")
	row := b.eval(fmt.Sprintf("document.querySelector('#routes [data-dst=%q]').innerText", origins[0].url()))
	for _, word := range []string{v.name + "-web", "www.example.com", "/web", origins[0].addr(), "strip"} {
		if !strings.Contains(row, word) {
			t.Errorf("the row %q does not show %q", row, word)
		}
	}
	a.status("critical")
	b.becomes(5*time.Second, rows(v.name+"-web"), "1")
	a.status("passing")
	b.becomes(5*time.Second, rows(v.name+"-web"), "2")

	// Its figures move with its traffic.
	for range 50 {
		v.get("/web", "Host", "www.example.com")
	}
	before := row
	eventually(t, 10*time.Second, "the figures of the row change", func() error {
		row = b.eval(fmt.Sprintf("document.querySelector('#routes [data-dst=%q]').innerText", origins[0].url()))
		if row == before {
			return fmt.Errorf("row %q", row)
		}
		return nil
	})

	// The filter.
	b.do(chromedp.SendKeys(chromedp.CSS("#filter"), "www.example"))
	b.becomes(5*time.Second, rows(v.name+"-first"), "0")
	b.becomes(5*time.Second, rows(v.name+"-web"), "2")
	b.do(chromedp.SendKeys(chromedp.CSS("#filter"), "-nothing"))
	b.becomes(5*time.Second, rows(v.name+"-web"), "0")
	b.replace("#filter", "")
	b.becomes(5*time.Second, rows(v.name+"-first"), "1")

	if got := b.eval("window.notReloaded"); got != "true" {
		t.Error("the page was loaded anew")
	}
	b.screenshot("page.png")
	first.deregister()
	b.becomes(5*time.Second, rows(v.name+"-first"), "0")
	b.clean()
}

func TestPageShowsProblems(t *testing.T) {
	t.Parallel()
	v := start(t, nil)
	i := shared.consul.register(t, v.name+"-web", newOrigin(t, "a"), v.prefix+"/good", v.prefix+"/bad colour=blue")
	v.reaches(5*time.Second, "/good", "a")
	b := openPage(t, v, "/problems")
	b.becomes(10*time.Second, "document.querySelector('#problems').children.length", "1")
	text := b.eval("document.querySelector('#problems').innerText")
	for _, word := range []string{i.service, "edge", v.prefix + "/bad colour=blue", "colour"} {
		if !strings.Contains(text, word) {
			t.Errorf("the page shows %q, not %q", text, word)
		}
	}
	shared.consul.put(t, v.kvpath, "route add ok /ok http://127.0.0.1:1/\nroute ad nonsense /x http://127.0.0.1:1/")
	b.becomes(10*time.Second, "document.querySelector('#problems').children.length", "2")
	text = b.eval("document.querySelector('#problems').innerText")
	for _, word := range []string{"route ad nonsense", strings.Trim(v.kvpath, "/"), "2"} {
		if !strings.Contains(text, word) {
			t.Errorf("the page shows %q, not %q", text, word)
		}
	}
	shared.consul.delete(t, v.kvpath)
	b.becomes(10*time.Second, "document.querySelector('#problems').children.length", "1")
	b.clean()
}

func TestPageEditsOverrides(t *testing.T) {
	t.Parallel()
	v := start(t, nil)
	o := newOrigin(t, "a")
	b := openPage(t, v, "/manual")
	b.do(chromedp.WaitVisible(chromedp.CSS("#overrides")))
	saved := func() string {
		t.Helper()
		pair, _, err := shared.consul.KV().Get(strings.TrimPrefix(v.kvpath, "/"), nil)
		if err != nil {
			t.Fatal(err)
		}
		if pair == nil {
			return ""
		}
		return string(pair.Value)
	}

	good := "route add manual /manual " + o.url()
	b.replace("#overrides", good+"\nroute ad nonsense")
	b.becomes(10*time.Second, "document.querySelector('#overrides-errors').children.length", "1")
	b.becomes(time.Second, "document.querySelector('#overrides-errors').children[0].dataset.line", "2")
	if got := saved(); got != "" {
		t.Errorf("saved before anyone pressed the button: %q", got)
	}
	b.replace("#overrides", good)
	b.becomes(10*time.Second, "document.querySelector('#overrides-errors').children.length", "0")
	b.do(chromedp.Click(chromedp.CSS("#save")))
	eventually(t, 5*time.Second, "the page says so", func() error {
		if got := b.eval("document.querySelector('#status').innerText"); !strings.Contains(strings.ToLower(got), "saved") {
			return fmt.Errorf("status %q", got)
		}
		return nil
	})
	if got := saved(); strings.TrimSpace(got) != good {
		t.Errorf("saved %q, want %q", got, good)
	}
	v.reaches(2*time.Second, "/manual", "a")
	shared.consul.delete(t, v.kvpath)
	b.clean()
}

// TestPageIsSafeFromItsRoutes registers services whose every word is an attack on the page.
func TestPageIsSafeFromItsRoutes(t *testing.T) {
	t.Parallel()
	v := start(t, nil)
	evil := `"><img/src=x/onerror=alert(1)><script>alert(2)</script>{{7*7}}`
	o := newOrigin(t, "a")
	shared.consul.register(t, v.name+"-"+evil, o, v.prefix+"/"+evil, evil, v.prefix+"/opt host="+evil)
	shared.consul.register(t, v.name+"-bad", o, v.prefix+"/bad colour="+evil)
	shared.consul.register(t, v.name+"-js", o, v.prefix+"/js redirect=302,javascript:alert(3)")
	shared.consul.put(t, v.kvpath, "# "+evil+"\nroute add m"+evil+" /m "+o.url()+" tags \""+strings.ReplaceAll(evil, `"`, "")+"\"\nroute ad "+evil)
	shared.consul.register(t, v.name+"-last", o, v.prefix+"/last")
	v.reaches(5*time.Second, "/last", "a")
	v.problemWith("route ad ")
	b := openPage(t, v, "/routes")
	b.becomes(10*time.Second, rows(v.name+"-last"), "1")
	inert := func(where string) {
		t.Helper()
		if n := b.eval("document.querySelectorAll('img[src=x], script:not([src]), a[href^=javascript]').length"); n != "0" {
			t.Errorf("%s: %s elements made of the registry's text", where, n)
		}
	}
	inert("/routes")
	if got := b.eval("document.body.innerText"); !strings.Contains(got, "<img/src=x") && !strings.Contains(got, "%3Cimg") {
		t.Errorf("the hostile text is not shown as it is: %.500q", got)
	}
	b.open("/problems")
	b.becomes(10*time.Second, "document.querySelector('#problems').children.length > 0", "true")
	inert("/problems")
	b.open("/manual")
	b.becomes(10*time.Second, "document.querySelector('#overrides').value.length > 0", "true")
	inert("/manual")
	b.clean()

	r, err := v.ask("GET", "/routes")
	if err != nil || r.status != http.StatusOK {
		t.Fatal(r.status, err)
	}
	csp := r.header.Get("Content-Security-Policy")
	for _, word := range []string{"default-src 'none'", "frame-ancestors 'none'"} {
		if !strings.Contains(csp, word) && !strings.Contains(csp, strings.Replace(word, "'none'", "'self'", 1)) {
			t.Errorf("Content-Security-Policy %q lacks %s", csp, word)
		}
	}
	if strings.Contains(csp, "unsafe-inline") || strings.Contains(csp, "unsafe-eval") || !strings.Contains(csp, "frame-ancestors 'none'") {
		t.Errorf("Content-Security-Policy %q is not strict", csp)
	}
	if got := r.header.Get("X-Content-Type-Options"); got != "nosniff" {
		t.Errorf("X-Content-Type-Options %q", got)
	}
}

// TestPageWithManyRoutes: a hundred thousand routes are shown without one element for each.
func TestPageWithManyRoutes(t *testing.T) {
	t.Parallel()
	var routes strings.Builder
	for n := range 100_000 {
		fmt.Fprintf(&routes, "route add svc-%06d svc-%06d.example.com/ http://127.0.0.1:%d/\n", n, n, 1024+n%1000)
	}
	f := settings(t).with(flags{"registry.backend": "file", "registry.file.path": write(t, "routes", routes.String())})
	v := launchBinary(t, shared.plain, nil, f)
	v.serving()
	b := openPage(t, v, "/routes")
	b.becomes(20*time.Second, rows("svc-000000"), "1")
	if n := b.eval("document.querySelectorAll('#routes [data-service]').length < 500"); n != "true" {
		t.Errorf("too many rows in the document")
	}
	b.do(chromedp.SendKeys(chromedp.CSS("#filter"), "svc-099999"))
	b.becomes(10*time.Second, rows("svc-099999"), "1")
	b.becomes(10*time.Second, rows("svc-000000"), "0")
	b.clean()
}

// screenshot keeps a picture of the page in the folder build.
func (b *browser) screenshot(name string) {
	b.t.Helper()
	png, err := chromedp.Run(b.ctx, chromedp.CaptureScreenshot())
	if err != nil {
		b.t.Fatalf("screenshot: %v", err)
	}
	dir := filepath.Join("..", "build")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, name), png, 0o644); err != nil {
		b.t.Fatal(err)
	}
}
