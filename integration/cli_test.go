package integration

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// run starts varco with a command line and waits for its end.
func run(t *testing.T, env []string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	p := command(t, env, shared.need(t).binary, args...)
	defer p.kill()
	code = p.exit(t, 20*time.Second)
	return code, p.out.String(), p.err.String()
}

func TestVersionAndHelp(t *testing.T) {
	t.Parallel()
	for _, arg := range []string{"--version", "-version", "-v", "version"} {
		code, stdout, _ := run(t, nil, arg)
		if code != 0 || !regexp.MustCompile(`^\d+\.\d+\.\d+\S* go1\.\d+\S*\n$`).MatchString(stdout) {
			t.Errorf("varco %s: exit code %d, %q, want a version and that of Go", arg, code, stdout)
		}
	}
	for _, arg := range []string{"--help", "-help", "-h", "help"} {
		code, stdout, stderr := run(t, nil, arg)
		if code != 0 || stderr != "" {
			t.Errorf("varco %s: exit code %d, stderr %q", arg, code, stderr)
		}
		for _, word := range []string{"--proxy.addr", "--registry.consul.addr", "--ui.addr", "strip=", "redirect=", "validate"} {
			if !strings.Contains(stdout, word) {
				t.Errorf("varco %s does not say %q", arg, word)
			}
		}
	}
}

func TestWrongSettingsAreErrors(t *testing.T) {
	t.Parallel()
	file := func(text string) string { return write(t, "varco.properties", text) }
	for _, tt := range []struct {
		name string
		env  []string
		args []string
		want []string // words of the message
	}{
		{"unknown flag", nil, []string{"--proxy.adr=:1"}, []string{"proxy.adr", "proxy.addr"}},
		{"unknown key in a file", nil, []string{"--cfg=" + file("proxy.strategy = rr\nproxy.strategi = rnd\n")},
			[]string{"varco.properties:2", "proxy.strategi"}},
		{"unknown key in the environment", []string{"VARCO_PROXY_STRATEGI=rr"}, nil, []string{"VARCO_PROXY_STRATEGI"}},
		{"value of a flag", nil, []string{"--proxy.strategy=best"}, []string{"proxy.strategy", "best", "rnd", "rr"}},
		{"value in the environment", []string{"FABIO_PROXY_DIALTIMEOUT=30"}, nil,
			[]string{"FABIO_PROXY_DIALTIMEOUT", "proxy.dialtimeout", "30s"}},
		{"value in a file", nil, []string{"--cfg=" + file("\nproxy.maxconn = 10k\n")},
			[]string{"varco.properties:2", "proxy.maxconn", "10k"}},
		{"no file", nil, []string{"--cfg=/nowhere.properties"}, []string{"/nowhere.properties"}},
		{"listener", nil, []string{"--proxy.addr=127.0.0.1:1;proto=gopher"}, []string{"proxy.addr", "gopher", "http", "tcp"}},
		{"listener key", nil, []string{"--proxy.addr=127.0.0.1:1;colour=red"}, []string{"proxy.addr", "colour"}},
		{"PROXY header from clients", nil, []string{"--proxy.addr=127.0.0.1:1;pxyproto=true"}, []string{"proxy.addr", "pxyproto", "not part of this version"}},
		{"backend", nil, []string{"--registry.backend=etcd"}, []string{"registry.backend", "etcd", "consul", "static", "file", "custom"}},
		{"no TLS yet", nil, []string{"--proxy.cs=cs=x;type=file;cert=/x.pem"}, []string{"proxy.cs", "not part of this version"}},
		{"access log field", nil, []string{"--log.access.target=stdout", "--log.access.format=$nosuch"}, []string{"log.access.format", "nosuch"}},
		{"stray argument", nil, []string{"-insecure", "true", "-proxy.addr", ":80"}, []string{"true"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			code, stdout, stderr := run(t, tt.env, tt.args...)
			if code != 1 && code != 2 {
				t.Errorf("exit code %d, want 1 or 2", code)
			}
			for _, word := range tt.want {
				if !strings.Contains(stderr, word) {
					t.Errorf("the message does not say %q: %s%s", word, stdout, stderr)
				}
			}
		})
	}
}

// TestPrecedence gives one setting in every place and takes the places away one after the other.
func TestPrecedence(t *testing.T) {
	t.Parallel()
	const key = "proxy.noroutestatus"
	f := settings(t).with(flags{"registry.backend": "static"})
	cfg := write(t, "varco.properties", key+" = 441\n")
	args := []string{"-cfg", cfg}
	for _, tt := range []struct {
		env    []string
		arg    string
		status int
		source string
	}{
		{[]string{"VARCO_PROXY_NOROUTESTATUS=442", "FABIO_PROXY_NOROUTESTATUS=443", "PROXY_NOROUTESTATUS=444"}, "445", 445, "command line"},
		{[]string{"VARCO_PROXY_NOROUTESTATUS=442", "FABIO_PROXY_NOROUTESTATUS=443", "PROXY_NOROUTESTATUS=444"}, "", 442, "VARCO_PROXY_NOROUTESTATUS"},
		{[]string{"FABIO_PROXY_NOROUTESTATUS=443", "PROXY_NOROUTESTATUS=444"}, "", 443, "FABIO_PROXY_NOROUTESTATUS"},
		{[]string{"proxy_noroutestatus=444"}, "", 444, "proxy_noroutestatus"},
		{nil, "", 441, "varco.properties:1"},
	} {
		t.Run(fmt.Sprint(tt.status), func(t *testing.T) {
			f := f.with(nil)
			if tt.arg != "" {
				f[key] = tt.arg
			}
			v := launchBinary(t, shared.binary, tt.env, f, args...)
			v.serving()
			if r := v.get("/"); r.status != tt.status {
				t.Errorf("status without a route: %d, want %d", r.status, tt.status)
			}
			var all []struct{ Name, Value, Source, Default string }
			if err := json.Unmarshal([]byte(v.api("/api/config")), &all); err != nil {
				t.Fatal(err)
			}
			for _, s := range all {
				if s.Name == key && (s.Value != fmt.Sprint(tt.status) || !strings.Contains(s.Source, tt.source) || s.Default != "404") {
					t.Errorf("/api/config: %+v, want value %d from %s", s, tt.status, tt.source)
				}
			}
		})
	}
}

func TestSingleDashFlags(t *testing.T) {
	t.Parallel()
	f := settings(t)
	args := []string{"-insecure", "-registry.backend", "static", "-registry.static.routes",
		"route add web /web " + newOrigin(t, "a").url(), "-proxy.addr", f["proxy.addr"], "-ui.addr=" + f["ui.addr"]}
	v := launchBinary(t, shared.binary, nil, flags{}, args...)
	v.proxy, v.ui = f["proxy.addr"], f["ui.addr"]
	v.serving()
	v.reaches(time.Second, "/web", "a")
}

// TestRoutingFlagsTakeEffect starts varco with each flag about matching, on the same routes.
func TestRoutingFlagsTakeEffect(t *testing.T) {
	t.Parallel()
	a, b := newOrigin(t, "a"), newOrigin(t, "b")
	routes := write(t, "routes", fmt.Sprintf("route add web /Foo %[1]s\nroute add web /glob/*/x %[1]s\n"+
		"route add web *.example.com/host %[1]s\nroute add web /both %[1]s\nroute add web /both %[2]s\n", a.url(), b.url()))
	for _, tt := range []struct {
		flags  flags
		status map[string]int // by path, of requests for www.example.com
	}{
		{nil, map[string]int{"/Foo/x": 200, "/foo/x": 404, "/glob/1/x": 404, "/host": 200}},
		{flags{"proxy.matcher": "iprefix"}, map[string]int{"/Foo/x": 200, "/foo/x": 200, "/glob/1/x": 404}},
		{flags{"proxy.matcher": "glob"}, map[string]int{"/Foo/x": 404, "/Foo": 200, "/glob/1/x": 200}},
		{flags{"glob.matching.disabled": "true"}, map[string]int{"/host": 404, "/Foo": 200}},
	} {
		v := start(t, flags{"registry.backend": "file", "registry.file.path": routes}.with(tt.flags))
		for path, want := range tt.status {
			if r := v.get(path, "Host", "www.example.com"); r.status != want {
				t.Errorf("%v: GET %s: %d, want %d", tt.flags, path, r.status, want)
			}
		}
	}
	v := start(t, flags{"registry.backend": "file", "registry.file.path": routes, "proxy.strategy": "rr"})
	last := ""
	for range 10 {
		got := v.get("/both").echo(t).Instance
		if got == last {
			t.Fatalf("strategy rr: %s twice in a row", got)
		}
		last = got
	}
}

func TestValidate(t *testing.T) {
	t.Parallel()
	good := write(t, "good.routes", "# a comment\nroute add web /web http://127.0.0.1:1/ opts \"strip=/web\"\nroute del other\n")
	bad := write(t, "bad.routes", "route add web /web http://127.0.0.1:1/\n"+
		"route ad web /web http://127.0.0.1:1/\n"+
		"route add web /x http://127.0.0.1:1/ opts \"colour=blue\"\n"+
		"route add web /y http://127.0.0.1:1/ weight much\n")
	cfg := write(t, "good.properties", "proxy.strategy = rr\n")
	badCfg := write(t, "bad.properties", "proxy.strategy = rr\nproxy.dialtimeout = soon\n")
	for _, tt := range []struct {
		args []string
		code int
		want []string // regular expressions for the output
	}{
		{[]string{"validate"}, 0, nil},
		{[]string{"validate", "--cfg", cfg, "--routes", good}, 0, nil},
		{[]string{"validate", "--routes", bad}, 1, []string{
			regexp.QuoteMeta(bad) + `:2:7: `, regexp.QuoteMeta(bad) + `:3:\d+: .*colour`, regexp.QuoteMeta(bad) + `:4:\d+: .*weight`}},
		{[]string{"validate", "--cfg", badCfg, "--routes", good}, 1, []string{regexp.QuoteMeta(badCfg) + `:2(:\d+)?: .*proxy\.dialtimeout.*soon`}},
		{[]string{"validate", "--routes", "/nowhere.routes"}, 1, []string{`/nowhere\.routes`}},
	} {
		code, stdout, stderr := run(t, nil, tt.args...)
		if code != tt.code {
			t.Errorf("varco %v: exit code %d, want %d\n%s%s", tt.args, code, tt.code, stdout, stderr)
		}
		for _, want := range tt.want {
			if !regexp.MustCompile(want).MatchString(stdout + stderr) {
				t.Errorf("varco %v: no %s in\n%s%s", tt.args, want, stdout, stderr)
			}
		}
	}
}

// TestDemo does what the README's first command does, and the curl commands that it prints.
func TestDemo(t *testing.T) {
	t.Parallel()
	f := flags{"proxy.addr": loopback(freePort()), "ui.addr": loopback(freePort())}
	shared.need(t)
	v := launchBinary(t, shared.binary, nil, f, "--dev")
	v.serving()
	first, second := v.get("/"), v.get("/")
	if first.status != http.StatusOK || first.body == second.body {
		t.Errorf("two requests: %d %q and %q, want the upstreams to take turns", first.status, first.body, second.body)
	}
	urls := regexp.MustCompile(`curl .*http://\S+`).FindAllString(v.out.String(), -1)
	if len(urls) < 3 || !strings.Contains(v.out.String(), "http://"+v.proxy) || !strings.Contains(v.out.String(), "http://"+v.ui) {
		t.Errorf("the demo does not say what to try: %s", v.out.String())
	}
	if page := v.api("/routes"); !strings.Contains(page, "<html") {
		t.Errorf("the page: %q", page)
	}
	if !strings.Contains(v.table(), "route add ") {
		t.Errorf("table: %q", v.table())
	}
}

func TestStartUpIsTheSameTwice(t *testing.T) {
	t.Parallel()
	f := settings(t).with(flags{"registry.backend": "static", "registry.static.routes": strings.Repeat("route add a /a http://127.0.0.1:1/\nroute add b /b http://127.0.0.1:1/\n", 3)})
	once := func() string {
		v := launchVarco(t, f)
		v.serving()
		v.finish()
		text := regexp.MustCompile(`(?m)time=\S+ |took=\S+`).ReplaceAllString(v.err.String(), "")
		return regexp.MustCompile(`pid=\d+`).ReplaceAllString(text, "")
	}
	if first, second := once(), once(); first != second {
		t.Errorf("two logs differ:\n%s\n%s", first, second)
	}
}

func TestAccessLogReopensOnSIGHUP(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "access.log")
	v := start(t, flags{"log.access.target": path, "log.access.format": "common"})
	shared.consul.register(t, v.name+"-web", newOrigin(t, "a"), v.prefix+"/web", v.prefix+"/moved redirect=301,https://example.com/",
		v.prefix+"/denied deny=ip:127.0.0.1")
	v.reaches(5*time.Second, "/web", "a")
	line := func(file, want string) {
		t.Helper()
		eventually(t, 5*time.Second, fmt.Sprintf("%s has a line like %s", file, want), func() error {
			text, err := os.ReadFile(file)
			if err == nil && !regexp.MustCompile(`(?m)`+want).Match(text) {
				err = fmt.Errorf("it has\n%s", text)
			}
			return err
		})
	}
	for _, tt := range []struct {
		uri    string
		status int
	}{{"/web?q=1", 200}, {"/nowhere", 404}, {"/moved", 301}, {"/denied", 403}} {
		if r := v.get(tt.uri); r.status != tt.status {
			t.Errorf("GET %s: %d, want %d", tt.uri, r.status, tt.status)
		}
		line(path, fmt.Sprintf(`^127\.0\.0\.1 - - \[[^\]]+ [+-]\d{4}\] "GET %s HTTP/1\.1" %d \d+$`, regexp.QuoteMeta(tt.uri), tt.status))
	}

	if err := os.Rename(path, path+".1"); err != nil {
		t.Fatal(err)
	}
	v.get("/web?before")
	line(path+".1", `before`)
	v.hangup()
	eventually(t, 5*time.Second, "the log is opened anew", func() error {
		_, err := os.Stat(path)
		return err
	})
	v.get("/web?after")
	line(path, `after`)
	if old, _ := os.ReadFile(path + ".1"); strings.Contains(string(old), "after") {
		t.Errorf("the old file still gets lines")
	}
}

func TestAccessLogIsJSONOnStdoutAndEscaped(t *testing.T) {
	t.Parallel()
	v := start(t, flags{"log.access.target": "stdout", "log.access.format": "json"})
	conn := dial(t, v.proxy) // Go's client would not send this
	fmt.Fprintf(conn, "GET /x%%0a%%22\\ HTTP/1.1\r\nHost: www.example.com\r\nUser-Agent: evil\"agent\t\xff\r\nConnection: close\r\n\r\n")
	if _, err := io.ReadAll(conn); err != nil {
		t.Fatal(err)
	}
	eventually(t, 5*time.Second, "the request is logged", func() error {
		for line := range strings.Lines(v.out.String()) {
			var entry map[string]any
			if err := json.Unmarshal([]byte(line), &entry); err != nil {
				return fmt.Errorf("%q: %w", line, err)
			}
			if strings.Contains(line, "\t") || strings.Contains(line, "\xff") {
				t.Errorf("a raw control character in %q", line)
			}
			if strings.Contains(line, "evil") {
				return nil
			}
		}
		return fmt.Errorf("stdout: %q", v.out.String())
	})
}

func TestFileBackendKeepsOldRoutes(t *testing.T) {
	t.Parallel()
	a, b := newOrigin(t, "a"), newOrigin(t, "b")
	path := write(t, "routes", "route add web /web "+a.url()+"\n")
	replace := func(text string) {
		t.Helper()
		if err := os.WriteFile(path+".new", []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(path+".new", path); err != nil {
			t.Fatal(err)
		}
	}
	v := start(t, flags{"registry.backend": "file", "registry.file.path": path})
	v.reaches(time.Second, "/web", "a")

	replace("route add web /web " + b.url() + "\nroute add new /new " + b.url() + "\n")
	v.reaches(10*time.Second, "/web", "b")
	v.reaches(time.Second, "/new", "b")

	// A file in which something is wrong changes nothing, and the page says what.
	replace("route add web /web " + a.url() + "\nroute ad nonsense\n")
	p := v.problemWith("nonsense")
	if p.Origin.Line != 2 || !strings.Contains(p.Origin.Source, path) {
		t.Errorf("problem: %+v", p)
	}
	v.reaches(time.Second, "/web", "b")
	v.reaches(time.Second, "/new", "b")

	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	throughout(t, 500*time.Millisecond, "a file that is gone changes nothing", func() error {
		if r := v.get("/new"); r.status != http.StatusOK {
			return fmt.Errorf("GET /new: %d", r.status)
		}
		return nil
	})
	replace("route add web /web " + a.url() + "\n")
	v.reaches(10*time.Second, "/web", "a")
	v.answers(time.Second, "/new", http.StatusNotFound)
	if all := v.problems(); len(all) != 0 {
		t.Errorf("problems: %+v", all)
	}
}

func TestCustomBackend(t *testing.T) {
	t.Parallel()
	a := newOrigin(t, "a")
	list := newOriginFunc(t, "list", func(w http.ResponseWriter, _ *http.Request) {
		json.NewEncoder(w).Encode([]map[string]any{
			{"cmd": "route add", "service": "web", "src": "/web", "dst": a.url(), "opts": map[string]string{"strip": "/web"}},
			{"cmd": "route ad", "service": "nonsense", "src": "/x", "dst": a.url()},
		})
	})
	v := start(t, flags{"registry.backend": "custom", "registry.custom.scheme": "http", "registry.custom.host": list.addr(),
		"registry.custom.path": "routes", "registry.custom.pollinterval": "1s"})
	v.reaches(2*time.Second, "/web", "a")
}
