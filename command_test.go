package main

import (
	"bytes"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
)

// command runs varco to its end.
func command(args ...string) (code int, stdout, stderr string) {
	var out, errs bytes.Buffer
	code = run(args, nil, &out, &errs, nil)
	return code, out.String(), errs.String()
}

func TestVersion(t *testing.T) {
	for _, arg := range []string{"-v", "--v", "-version", "--version", "version"} {
		code, out, _ := command(arg)
		if want := version + " " + runtime.Version() + "\n"; code != exitOK || out != want {
			t.Errorf("varco %s = %d %q, want 0 %q", arg, code, out, want)
		}
	}
}

func TestHelp(t *testing.T) {
	for _, args := range [][]string{{"-h"}, {"--help"}, {"help"}} {
		code, out, _ := command(args...)
		if code != exitOK {
			t.Errorf("varco %q: exit code %d, want 0", args, code)
		}
		for _, want := range []string{"varco validate", "--proxy.addr=:9999", "strip=", "segment", "rr\n", "Registry"} {
			if !strings.Contains(out, want) {
				t.Errorf("varco %q: no %q in the help", args, want)
			}
		}
		for i, line := range strings.Split(out, "\n") {
			if len(line) > 120 && strings.Contains(line, " ") && !strings.HasPrefix(line, "  --") && !strings.HasPrefix(line, "Options") {
				t.Errorf("varco %q: line %d has %d columns: %s", args, i+1, len(line), line)
			}
		}
	}
}

func TestHelpForAWord(t *testing.T) {
	_, out, _ := command("help", "dialtimeout")
	if !strings.Contains(out, "--proxy.dialtimeout=") || strings.Contains(out, "--ui.addr") {
		t.Errorf("varco help dialtimeout = %q, want only what has the word", out)
	}
	_, out, _ = command("help", "no-such-word")
	if !strings.Contains(out, "nothing in the help contains") {
		t.Errorf("varco help no-such-word = %q", out)
	}
}

func TestUsageErrors(t *testing.T) {
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"serve"}, `no command "serve": want validate, help or version`},
		{[]string{"-insecure", "true", "-proxy.addr", ":80"}, `stray argument "true"`},
		{[]string{"-no.such"}, "--no.such: no such flag"},
	} {
		code, _, errs := command(tt.args...)
		if code != exitUsage || !strings.Contains(errs, tt.want) {
			t.Errorf("varco %q = %d %q, want %d and %q", tt.args, code, errs, exitUsage, tt.want)
		}
	}
}

func TestValidate(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	good := write("good.properties", "proxy.addr = :9999\n")
	bad := write("bad.properties", "# the ports\nproxy.adr = :80\nproxy.dialtimeout = 30\nproxy.strategy = best\n")
	routes := write("good.routes", "route add a /a http://127.0.0.1:1/\nroute weight elsewhere / weight 0.5 tags \"x\"\nroute del other\n")
	badRoutes := write("bad.routes", "route add a /a http://127.0.0.1:1/\nroute ad b /b http://127.0.0.1:1/\nroute add c /c http://127.0.0.1:1/ opts \"stripp=/c\"\n")
	tests := []struct {
		name string
		args []string
		code int
		want []string
	}{
		{"clean", []string{"--cfg", good, "--routes", routes}, exitOK, []string{"ok: "}},
		{"nothing to read", nil, exitOK, []string{"ok: "}},
		{"settings", []string{"--cfg", bad}, exitFailed, []string{
			bad + ":2:1: proxy.adr: no such setting (did you mean proxy.addr?)",
			bad + `:3:21: proxy.dialtimeout: "30": want a duration`,
			bad + ":4:18: proxy.strategy: ",
		}},
		{"routes", []string{"--routes", badRoutes, "--routes", routes}, exitFailed, []string{
			badRoutes + ":2:7: ", badRoutes + ":3", "stripp",
		}},
		{"static routes", []string{"--registry.backend=static", "--registry.static.routes=route"}, exitFailed, []string{"registry.static.routes:1"}},
		{"file backend", []string{"--registry.backend=file", "--registry.file.path=" + badRoutes}, exitFailed, []string{badRoutes + ":2:7: "}},
		{"missing file", []string{"--routes", filepath.Join(dir, "gone")}, exitFailed, []string{"no such file"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			code, out, errs := command(append([]string{"validate"}, tt.args...)...)
			if code != tt.code {
				t.Errorf("exit code = %d, want %d\n%s%s", code, tt.code, out, errs)
			}
			for _, want := range tt.want {
				if !strings.Contains(out, want) {
					t.Errorf("output = %q, want %q", out, want)
				}
			}
		})
	}
}

// The demo's own suggestions must work.
func TestDemo(t *testing.T) {
	p := start(t, "--dev", "--insecure", "--log.level=INFO", "--proxy.addr="+freeAddr(t), "--ui.addr="+freeAddr(t))
	p.proxy(t)
	page := p.page(t)
	suggestions := regexp.MustCompile(`curl .*?(http://\S+)`).FindAllStringSubmatch(p.stdout.String(), -1)
	if len(suggestions) < 5 {
		t.Fatalf("%d suggestions, want several:\n%s", len(suggestions), p.stdout)
	}
	for _, s := range suggestions {
		if strings.HasSuffix(s[1], "/events") { // goes on for half a minute
			continue
		}
		code, _ := get(t, s[1])
		want := 200
		switch {
		case strings.Contains(s[1], "/old/"):
			want = 302
		case strings.Contains(s[1], "/office/"):
			want = 403
		}
		if code != want {
			t.Errorf("%s answers %d, want %d", s[0], code, want)
		}
	}
	if code, body := get(t, page+"/api/problems"); code != 200 || strings.Contains(body, "reason") {
		t.Errorf("GET /api/problems = %d %s, want none", code, body)
	}
}

func TestDemoBusyPort(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	code, _, errs := command("--dev", "--proxy.addr="+l.Addr().String())
	if code != exitFailed || !strings.Contains(errs, "address already in use; choose another") {
		t.Errorf("varco --dev = %d %q, want %d and the way out", code, errs, exitFailed)
	}
}

// freeAddr is a loopback address that was free a moment ago.
func freeAddr(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}
