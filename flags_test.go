package main

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/spf13/pflag"
)

// loadConfig reads args, environment and the text of a properties file ("" for none) as main does.
func loadConfig(t *testing.T, file string, env []string, args ...string) (*config, []error) {
	t.Helper()
	if file != "" {
		path := filepath.Join(t.TempDir(), "varco.properties")
		if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
			t.Fatal(err)
		}
		args = append(args, "-cfg", path)
	}
	c := newConfig()
	_, errs := c.parseArgs(args)
	return c, append(errs, c.load(context.Background(), env, nil)...)
}

func value(c *config, name string) string { return c.flags.Lookup(name).Value.String() }

func TestFlagForms(t *testing.T) {
	tests := []struct {
		args []string
		want map[string]string
	}{
		{[]string{"-proxy.addr", ":80"}, map[string]string{"proxy.addr": ":80"}},
		{[]string{"-proxy.addr=:80"}, map[string]string{"proxy.addr": ":80"}},
		{[]string{"--proxy.addr", ":80"}, map[string]string{"proxy.addr": ":80"}},
		{[]string{"--proxy.addr=:80"}, map[string]string{"proxy.addr": ":80"}},
		{[]string{"--proxy.addr=a=b"}, map[string]string{"proxy.addr": "a=b"}},
		{[]string{"-insecure"}, map[string]string{"insecure": "true"}},
		{[]string{"-insecure=false", "-proxy.addr", ":80"}, map[string]string{"insecure": "false", "proxy.addr": ":80"}},
		{[]string{"-insecure", "-proxy.addr", ":80"}, map[string]string{"insecure": "true", "proxy.addr": ":80"}},
		{[]string{"-runtime.gomaxprocs", "-1"}, map[string]string{"runtime.gomaxprocs": "-1"}},
		{[]string{"-proxy.addr", ":80", "-proxy.addr", ":81"}, map[string]string{"proxy.addr": ":81"}},
		{[]string{"-proxy.addr="}, map[string]string{"proxy.addr": ""}},
	}
	for _, tt := range tests {
		t.Run(strings.Join(tt.args, " "), func(t *testing.T) {
			c, errs := loadConfig(t, "", nil, tt.args...)
			if len(errs) > 0 {
				t.Fatal(errs)
			}
			for name, want := range tt.want {
				if got := value(c, name); got != want {
					t.Errorf("%s = %q, want %q", name, got, want)
				}
			}
		})
	}
}

func TestCommandLineErrors(t *testing.T) {
	tests := []struct {
		args, want string
	}{
		// fabio issue 209: everything after the stray word was ignored.
		{"-insecure true -proxy.addr :80", `command line: stray argument "true" after --insecure: a switch takes its value after "=": --insecure=true`},
		{"-proxy.addr :80 stray", `command line: stray argument "stray": flags start with --`},
		{"-proxy.adr :80", `command line: --proxy.adr: no such flag (did you mean proxy.addr?)`},
		{"-proxy.addr", `command line: --proxy.addr: a value is missing: --proxy.addr=VALUE`},
		{"-proxy.addr -insecure", `command line: --proxy.addr: a value is missing`},
		{"-completely-unknown-thing", `command line: --completely-unknown-thing: no such flag`},
		{"-", `command line: stray argument "-"`},
		{"--", `command line: stray argument "--"`},
		{"-insecure=maybe", `command line: insecure: "maybe": want true or false`},
		{"-proxy.dialtimeout=30", `command line: proxy.dialtimeout: "30": want a duration with its unit, such as 500ms, 30s or 1m30s`},
		{"-runtime.gogc=10k", `command line: runtime.gogc: "10k": want a whole number`},
		{"-cfg=", `cfg: invalid or missing path to config file`},
		{"-cfg=''", `cfg: invalid or missing path to config file`},
		{`-cfg=""`, `cfg: invalid or missing path to config file`},
		{"-cfg /nowhere/fabio.properties", `/nowhere/fabio.properties: no such file or directory`},
	}
	for _, tt := range tests {
		t.Run(tt.args, func(t *testing.T) {
			_, errs := loadConfig(t, "", nil, strings.Fields(tt.args)...)
			if len(errs) != 1 || !strings.Contains(errs[0].Error(), tt.want) {
				t.Errorf("errors = %q, want one with %q", errs, tt.want)
			}
		})
	}
}

func TestPrecedence(t *testing.T) {
	const file = "proxy.addr = :5\n"
	env := []string{"proxy_addr=:4", "PROXY_ADDR=:3", "FABIO_PROXY_ADDR=:2", "VARCO_PROXY_ADDR=:1"}
	tests := []struct {
		env          []string
		args         []string
		want, source string
	}{
		{nil, nil, ":5", "varco.properties:1:14"},
		{env[:1], nil, ":4", "environment proxy_addr"},
		{env[:2], nil, ":3", "environment PROXY_ADDR"},
		{env[:3], nil, ":2", "environment FABIO_PROXY_ADDR"},
		{env, nil, ":1", "environment VARCO_PROXY_ADDR"},
		{env, []string{"-proxy.addr", ":0"}, ":0", "command line"},
	}
	for _, tt := range tests {
		for range 2 { // the order of the environment does not matter
			c, errs := loadConfig(t, file, tt.env, tt.args...)
			if len(errs) > 0 {
				t.Fatal(errs)
			}
			if got := value(c, "proxy.addr"); got != tt.want {
				t.Errorf("env %q args %q: proxy.addr = %q, want %q", tt.env, tt.args, got, tt.want)
			}
			if got := c.sources["proxy.addr"]; !strings.HasSuffix(got, tt.source) {
				t.Errorf("env %q args %q: source = %q, want %q", tt.env, tt.args, got, tt.source)
			}
			slices.Reverse(tt.env)
		}
	}
}

func TestEnvironment(t *testing.T) {
	tests := []struct {
		env  string
		name string // flag that is set, "" for none
		want string // its value, or the error
		err  bool
	}{
		{env: "FABIO_PROXY_STRATEGY=", name: "proxy.strategy", want: ""},
		{env: "fabio_registry_consul_register_enabled=false", name: "registry.consul.register.enabled", want: "false"},
		{env: "VARCO_METRICS_MAX_SERIES=7", name: "metrics.max-series", want: "7"},
		{env: "METRICS_MAX_SERIES=7", name: "metrics.max-series", want: "10000"}, // no name of fabio's
		{env: "FABIO_VERSION=1.6.3"},
		{env: "VARCO_SERVICE_HOST=10.0.0.1"}, // Kubernetes
		{env: "FABIO_PORT_9999_TCP_ADDR=10.0.0.1"},
		{env: "VARCOX=1"},
		{env: "FABIO_PROXY_ADR=:80", want: "environment FABIO_PROXY_ADR: no such setting (did you mean proxy.addr?)", err: true},
		{env: "FABIO_PROXY_DIALTIMEOUT=30", want: `environment FABIO_PROXY_DIALTIMEOUT: proxy.dialtimeout: "30": want a duration`, err: true},
	}
	for _, tt := range tests {
		t.Run(tt.env, func(t *testing.T) {
			c, errs := loadConfig(t, "", []string{tt.env})
			if tt.err {
				if len(errs) != 1 || !strings.HasPrefix(errs[0].Error(), tt.want) {
					t.Errorf("errors = %q, want one with %q", errs, tt.want)
				}
				return
			}
			if len(errs) > 0 {
				t.Fatal(errs)
			}
			if tt.name != "" && value(c, tt.name) != tt.want {
				t.Errorf("%s = %q, want %q", tt.name, value(c, tt.name), tt.want)
			}
		})
	}
}

func TestEnvironmentEmptyConfigPath(t *testing.T) {
	_, errs := loadConfig(t, "", []string{"VARCO_CFG="})
	if len(errs) != 1 || !strings.Contains(errs[0].Error(), "invalid or missing path") {
		t.Errorf("errors = %q, want one about the missing path", errs)
	}
}

func TestPropertiesErrors(t *testing.T) {
	file := strings.Join([]string{
		"# comment",
		"proxy.adr = :80",
		"  proxy.dialtimeout: 30",
		`registry.static.routes = route add a / http://a/ \`,
		`  insecure = x`,
		"insecure maybe",
	}, "\n")
	_, errs := loadConfig(t, file, nil)
	want := []string{
		"varco.properties:2:1: proxy.adr: no such setting (did you mean proxy.addr?)",
		`varco.properties:3:22: proxy.dialtimeout: "30": want a duration`,
		`varco.properties:6:10: insecure: "maybe": want true or false`,
	}
	for _, w := range want {
		if !slices.ContainsFunc(errs, func(e error) bool { return strings.Contains(e.Error(), w) }) {
			t.Errorf("errors = %q, want one with %q", errs, w)
		}
	}
	if len(errs) != len(want) {
		t.Errorf("%d errors, want %d: %q", len(errs), len(want), errs)
	}
}

// Junk in a file is told in one line of bounded length, without a byte that a terminal would obey.
func TestPropertiesJunk(t *testing.T) {
	junk := strings.Repeat("x", 1<<20)
	_, errs := loadConfig(t, "\x1b[2Jkey = 1\n"+junk+" = 1\nproxy.dialtimeout = \x1b[2J\x07"+junk+"\n", nil)
	if len(errs) != 3 {
		t.Fatalf("%d errors, want 3", len(errs))
	}
	var out bytes.Buffer
	printErrors(&out, errs)
	if strings.ContainsFunc(out.String(), func(r rune) bool { return r != '\n' && unicode.IsControl(r) }) || strings.Count(out.String(), "\n") != 3 {
		t.Errorf("printed %q, want 3 lines without control characters", out.String())
	}
	if out.Len() > 3000 {
		t.Errorf("printed %d bytes, want them cut", out.Len())
	}
	for _, want := range []string{`\x1b[2Jkey: no such setting`, `no such setting`, `want a duration`} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("printed %q, want %q in it", out.String(), want)
		}
	}
}

func TestPlain(t *testing.T) {
	for _, tt := range []struct{ in, want string }{
		{`a "b" \ c: ü`, `a "b" \ c: ü`}, {"a\x00b\nc", `a\x00b\nc`}, {"…\u202e", "…\\u202e"}, {"\xff", `\xff`},
	} {
		if got := plain(tt.in); got != tt.want {
			t.Errorf("plain(%q) = %q, want %q", tt.in, got, tt.want)
		}
	}
}

func TestPropertiesExpansionAndContinuation(t *testing.T) {
	c, errs := loadConfig(t, "registry.static.routes = route add a / \\\n   http://${registry.file.path}/\nregistry.file.path = h\nui.addr = :1  \n", nil)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	if got, want := value(c, "registry.static.routes"), "route add a / http://h/"; got != want {
		t.Errorf("registry.static.routes = %q, want %q", got, want)
	}
	if got, want := value(c, "ui.addr"), ":1"; got != want { // blanks at the end are no part of it
		t.Errorf("ui.addr = %q, want %q", got, want)
	}
}

func TestPropertiesRepeatedKeyWarns(t *testing.T) {
	c, errs := loadConfig(t, "proxy.addr = :1\nproxy.addr = :2\n", nil)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	if got := value(c, "proxy.addr"); got != ":2" {
		t.Errorf("proxy.addr = %q, want the last", got)
	}
	if w := strings.Join(c.warnings(), "\n"); !strings.Contains(w, "varco.properties:2:14: proxy.addr: set more than once") {
		t.Errorf("warnings = %q", w)
	}
}

func TestPropertiesFromURL(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/fabio.properties" {
			http.NotFound(w, r)
			return
		}
		fmt.Fprint(w, "proxy.addr = :7\n")
	}))
	defer server.Close()
	c, errs := loadConfig(t, "", nil, "-cfg", server.URL+"/fabio.properties")
	if len(errs) > 0 || value(c, "proxy.addr") != ":7" {
		t.Errorf("proxy.addr = %q, errors %q; want :7", value(c, "proxy.addr"), errs)
	}
	_, errs = loadConfig(t, "", nil, "-cfg", server.URL+"/gone")
	if len(errs) != 1 || !strings.Contains(errs[0].Error(), "404 Not Found") {
		t.Errorf("errors = %q, want the status", errs)
	}
	secret := strings.Replace(server.URL, "http://", "http://user:canary@", 1)
	server.Close()
	_, errs = loadConfig(t, "", nil, "-cfg", secret)
	if len(errs) != 1 || strings.Contains(errs[0].Error(), "canary") {
		t.Errorf("errors = %q, want one without the password", errs)
	}
}

func TestQuotedConfigPath(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f.properties")
	if err := os.WriteFile(path, []byte("proxy.addr = :6\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, arg := range []string{"-cfg='" + path + "'", `-cfg="` + path + `"`, "-cfg=" + path} {
		c, errs := loadConfig(t, "", nil, arg)
		if len(errs) > 0 || value(c, "proxy.addr") != ":6" {
			t.Errorf("%s: proxy.addr = %q, errors %q; want :6", arg, value(c, "proxy.addr"), errs)
		}
	}
}

func TestEveryFabioFlagIsKnown(t *testing.T) {
	c := newConfig()
	for _, name := range fabioNames {
		if c.flags.Lookup(name) == nil {
			t.Errorf("fabio's %s is not known", name)
		}
	}
}

// Two packages that register one name would silently share it: the second one's field would never be set.
func TestNoFlagIsRegisteredTwice(t *testing.T) {
	seen := map[string]string{}
	env := map[string]string{}
	for _, a := range newConfig().areas {
		a.flags.VisitAll(func(f *pflag.Flag) {
			if other, twice := seen[f.Name]; twice {
				t.Errorf("%s is in %q and in %q", f.Name, other, a.title)
			}
			seen[f.Name] = a.title
			if other, twice := env[envName(f.Name)]; twice {
				t.Errorf("%s and %s have the same environment variable", f.Name, other)
			}
			env[envName(f.Name)] = f.Name
			if f.Usage == "" || strings.Contains(f.Usage, "\n") {
				t.Errorf("%s: help %q, want one line", f.Name, f.Usage)
			}
		})
	}
}

// Setting every flag to its own default must be accepted: it is what a fabio user's full properties file does.
func TestDefaultsAreAccepted(t *testing.T) {
	var args []string
	newConfig().flags.VisitAll(func(f *pflag.Flag) {
		if !isCommandFlag(f.Name) && f.Value.Type() != "stringSlice" {
			args = append(args, "--"+f.Name+"="+f.DefValue)
		}
	})
	c, errs := loadConfig(t, "", nil, args...)
	if errs = append(errs, c.validate()...); len(errs) > 0 {
		t.Error(errs)
	}
}

func TestFeaturesOfOtherVersionsAreRefused(t *testing.T) {
	for _, arg := range []string{"-bgp.enabled", "-tracing.TracingEnabled"} {
		c, errs := loadConfig(t, "", nil, arg)
		errs = append(errs, c.validate()...)
		if len(errs) != 1 || !strings.Contains(errs[0].Error(), "command line: ") ||
			!strings.Contains(errs[0].Error(), "not part of this version") {
			t.Errorf("%s: errors = %q, want that this version does not have it", arg, errs)
		}
	}
}

func TestDeprecatedFlagsWarn(t *testing.T) {
	c, errs := loadConfig(t, "", []string{"FABIO_AWS_APIGW_CERT_CN=x"}, "-proxy.log.routes=all")
	if errs = append(errs, c.validate()...); len(errs) > 0 {
		t.Fatal(errs)
	}
	w := strings.Join(c.warnings(), "\n")
	for _, want := range []string{"proxy.log.routes (command line): use log.routes.format", "aws.apigw.cert.cn (environment FABIO_AWS_APIGW_CERT_CN): "} {
		if !strings.Contains(w, want) {
			t.Errorf("warnings = %q, want one with %q", w, want)
		}
	}
	if got := c.process.format(); got != "all" {
		t.Errorf("format = %q, want that of the old name", got)
	}
}

// canary is a secret that must not appear in anything printed.
const canary = "canary-5e0f"

func TestSecretsAreMasked(t *testing.T) {
	c, errs := loadConfig(t, "", []string{"FABIO_BGP_PEERS=address=1.2.3.4;password=" + canary}, "-registry.consul.token", canary)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	printed := fmt.Sprintf("%+v %v %#v", c.settings(), c.warnings(), c.settings())
	if strings.Contains(printed, canary) {
		t.Error("a secret is printed")
	}
	if !strings.Contains(printed, "***") {
		t.Error("no mask is printed: the test looks at the wrong thing")
	}
}

func TestKeyPlaces(t *testing.T) {
	text := "a=1\r\n\n! no = comment\n  b\\ c : 2\nd 3\\\\\ne\nf = \\\n  g = 4\na=5"
	places, twice := keyPlaces(text)
	want := map[string]place{
		"a": {9, 1, 3}, "b c": {4, 3, 10}, "d": {5, 1, 3}, "e": {6, 1, 2}, "f": {7, 1, 5},
	}
	for key, w := range want {
		if places[key] != w {
			t.Errorf("place of %q = %+v, want %+v", key, places[key], w)
		}
	}
	if len(places) != len(want) {
		t.Errorf("places = %v, want %d", places, len(want))
	}
	if !slices.Equal(twice, []string{"a"}) {
		t.Errorf("twice = %q, want a", twice)
	}
}

// Whatever is in a properties file or on a command line, it is read or refused, without a panic.
func FuzzKeyPlaces(f *testing.F) {
	f.Add("a = 1\n# b\nc\\\nd")
	f.Fuzz(func(t *testing.T, text string) {
		places, _ := keyPlaces(text)
		lines := strings.Split(text, "\n")
		for key, p := range places {
			if p.line < 1 || p.line > len(lines) || p.key < 1 || p.value < p.key || p.value > len(lines[p.line-1])+1 {
				t.Errorf("place of %q = %+v in a text of %d lines", key, p, len(lines))
			}
		}
	})
}

func FuzzParseArgs(f *testing.F) {
	f.Add("-proxy.addr :80 --insecure=true")
	f.Add("validate --routes a --routes b -")
	f.Fuzz(func(t *testing.T, line string) {
		c := newConfig()
		c.parseArgs(strings.Split(line, " "))
		for name := range c.args {
			if c.flags.Lookup(name) == nil {
				t.Errorf("%q set unknown flag %q", line, name)
			}
		}
	})
}
