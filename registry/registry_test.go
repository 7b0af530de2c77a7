package registry

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
)

// testEnv returns an Env whose log goes to the test.
func testEnv(t testing.TB) Env {
	return Env{
		Log:     slog.New(slog.NewTextHandler(testLog{t}, &slog.HandlerOptions{Level: slog.LevelDebug})),
		Now:     time.Now,
		Observe: func(string, error, time.Duration) {},
		UIAddr:  "127.0.0.1:9998",
	}
}

type testLog struct{ t testing.TB }

func (l testLog) Write(p []byte) (int, error) {
	l.t.Log(strings.TrimSpace(string(p)))
	return len(p), nil
}

func TestValidate(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ flags, err string }{
		{"", ""},
		{"registry.backend=static", ""},
		{"registry.backend=file registry.file.path=x", ""},
		{"registry.backend=custom registry.custom.host=h:80", ""},
		{"registry.consul.serviceMonitors=0", ""}, // as fabio: 1
		{"registry.consul.requireConsistent=false registry.consul.allowStale=true", ""},
		{"registry.consul.kvpath= registry.consul.noroutehtmlpath=", ""},
		{"registry.backend=etcd", `registry.backend: "etcd": want consul, static, file or custom`},
		{"registry.backend=file", "registry.file.path: empty: want the path of a file with routes"},
		{"registry.backend=custom", `registry.custom.host: "": want host or host:port`},
		{"registry.backend=custom registry.custom.host=h/x", `registry.custom.host: "h/x": want host or host:port`},
		{"registry.backend=custom registry.custom.host=h registry.custom.scheme=ftp", `registry.custom.scheme: "ftp": want http or https`},
		{"registry.backend=custom registry.custom.host=h registry.custom.timeout=0s", "registry.custom.timeout: 0s: want more than 0"},
		{"registry.backend=custom registry.custom.host=h registry.custom.pollinterval=0s", "registry.custom.pollinterval: 0s: want more than 0"},
		{"registry.timeout=0s", "registry.timeout: 0s: want more than 0"},
		{"registry.retry=-1s", "registry.retry: -1s: want more than 0"},
		{"registry.consul.allowStale=true", "registry.consul.allowStale and registry.consul.requireConsistent cannot both be true"},
		{"registry.consul.checksRequired=two", `registry.consul.checksRequired: "two": want one or all`},
		{"registry.consul.service.status=passing,good", `registry.consul.service.status: "good": want passing, warning, critical, maintenance or unknown`},
		{"registry.consul.service.status=,", "registry.consul.service.status: empty: want passing, warning, critical, maintenance or unknown"},
		{"registry.consul.tagprefix=", "registry.consul.tagprefix: empty: every tag would make a route; want a prefix such as urlprefix-"},
		{"registry.consul.pollinterval=-1s", "registry.consul.pollinterval: -1s: want 0 or more"},
		{"registry.consul.wait=11m", "registry.consul.wait: 11m0s: want 1s to 10m"},
		{"registry.consul.refresh=-1", "registry.consul.refresh: -1: want 0 to 1000"},
		{"registry.consul.serviceMonitors=500", "registry.consul.serviceMonitors: 500: want at most 128; an agent allows 200 connections"},
		{"registry.consul.kvpath=/", `registry.consul.kvpath: "/": want a key such as /fabio/config, or nothing`},
		{"registry.consul.register.name=", `registry.consul.register.name: "": want letters, digits, dots, dashes and underscores`},
		{"registry.consul.register.name=../x", `registry.consul.register.name: "../x": want letters, digits, dots, dashes and underscores`},
		{"registry.consul.register.checkInterval=0s", "registry.consul.register.checkInterval: 0s: want more than 0"},
		{"registry.consul.register.checkTimeout=0s", "registry.consul.register.checkTimeout: 0s: want more than 0"},
	} {
		config := parseConfig(t, strings.Fields(c.flags)...)
		if got := errText(config.Validate()); got != c.err {
			t.Errorf("%s: Validate() = %s, want %s", c.flags, got, c.err)
		}
	}
}

// Each setting of reference fabio is there, so that its files and command lines still work.
func TestFlagsOfFabio(t *testing.T) {
	t.Parallel()
	var c Config
	fs := pflag.NewFlagSet("t", pflag.ContinueOnError)
	c.Flags(fs)
	for name, value := range map[string]string{
		"backend": "consul", "timeout": "10s", "retry": "500ms", "static.routes": "", "static.noroutehtml": "", "static.noroutehtmlpath": "",
		"file.path": "", "file.noroutehtmlpath": "", "consul.addr": "localhost:8500", "consul.token": "", "consul.namespace": "",
		"consul.kvpath": "/fabio/config", "consul.noroutehtmlpath": "/fabio/noroute.html", "consul.tagprefix": "urlprefix-",
		"consul.tls.keyfile": "", "consul.tls.certfile": "", "consul.tls.cafile": "", "consul.tls.capath": "", "consul.tls.insecureskipverify": "false",
		"consul.register.enabled": "true", "consul.register.addr": "", "consul.register.name": "fabio", "consul.register.tags": "",
		"consul.register.checkInterval": "1s", "consul.register.checkTimeout": "3s", "consul.register.checkTLSSkipVerify": "false",
		"consul.register.checkDeregisterCriticalServiceAfter": "", "consul.service.status": "passing", "consul.checksRequired": "one",
		"consul.serviceMonitors": "8", "consul.pollinterval": "0s", "consul.requireConsistent": "true", "consul.allowStale": "false",
		"custom.host": "", "custom.scheme": "https", "custom.path": "", "custom.queryparams": "", "custom.timeout": "5s",
		"custom.pollinterval": "10s", "custom.checkTLSSkipVerify": "false", "custom.noroutehtml": "",
	} {
		f := fs.Lookup("registry." + name)
		if f == nil {
			t.Errorf("no flag registry.%s", name)
			continue
		}
		if f.DefValue != value {
			t.Errorf("registry.%s is %q by default, want %q", name, f.DefValue, value)
		}
	}
	fs.VisitAll(func(f *pflag.Flag) {
		if f.Usage == "" || strings.ToLower(f.Usage[:1]) != f.Usage[:1] && !strings.HasPrefix(f.Usage, "ACL") && !strings.HasPrefix(f.Usage, "Consul") && !strings.HasPrefix(f.Usage, "CA ") {
			t.Errorf("%s: help %q", f.Name, f.Usage)
		}
	})
	for _, b := range Backends() {
		if b.Name == "" || b.Help == "" {
			t.Errorf("backend %+v", b)
		}
	}
}

func TestOpenRefusesUnknownBackend(t *testing.T) {
	if b, err := Open(Config{Backend: "x", Timeout: 1, Retry: 1}, Env{}); err == nil {
		t.Errorf("Open = %T", b)
	}
}

func TestBackoffGrowsWithJitter(t *testing.T) {
	b := backoff{base: time.Second}
	for i, want := range []time.Duration{1, 2, 4, 8, 10, 10, 10} {
		want *= time.Second
		if d := b.next(); d < want/2 || d > want {
			t.Errorf("pause %d = %v, want between %v and %v", i, d, want/2, want)
		}
	}
	b.reset()
	if d := b.next(); d > time.Second {
		t.Errorf("after reset %v", d)
	}
}

// A password in the address of a Consul that is not even asked must not reach the log.
func TestValidateLooksAtConsulWhateverTheBackend(t *testing.T) {
	var c Config
	fs := pflag.NewFlagSet("test", pflag.ContinueOnError)
	c.Flags(fs)
	if err := fs.Parse([]string{"--registry.backend=static", "--registry.consul.addr=http://u:canary@localhost:8500"}); err != nil {
		t.Fatal(err)
	}
	if err := c.Validate(); err == nil || strings.Contains(err.Error(), "canary") {
		t.Errorf("Validate = %v, want an error that does not show the password", err)
	}
}
