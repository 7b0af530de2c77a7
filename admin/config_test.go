package admin

import (
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"varco/registry"
)

func TestDefaults(t *testing.T) {
	var c Config
	c.Flags(pflag.NewFlagSet("test", pflag.ContinueOnError))
	if err := c.Validate(); err != nil {
		t.Errorf("Validate() of the defaults = %v", err)
	}
	if c.Addr != "127.0.0.1:9998" || c.Access != "rw" || c.Color != "light-green" || c.MaxConn != 64 || !c.Source.NewTab || c.Source.Enabled {
		t.Errorf("defaults = %+v", c)
	}
}

func TestValidate(t *testing.T) {
	for _, tt := range []struct {
		change func(*Config)
		want   string
	}{
		{func(c *Config) { c.Access = "admin" }, `ui.access: "admin": want ro or rw`},
		{func(c *Config) { c.Access = "" }, `ui.access: ""`},
		{func(c *Config) { c.Path = "fabio" }, `ui.path: "fabio"`},
		{func(c *Config) { c.Path = "/a/../b" }, `ui.path: "/a/../b"`},
		{func(c *Config) { c.Path = "/a b" }, `ui.path: "/a b"`},
		{func(c *Config) { c.Path = "/a?b" }, `ui.path: "/a?b"`},
		{func(c *Config) { c.Path = "/a/" }, ""},
		{func(c *Config) { c.Path = "/" }, ""},
		{func(c *Config) { c.Color = "ultraviolet" }, `ui.color: "ultraviolet": want one of red, `},
		{func(c *Config) { c.Color = "red darken-2" }, ""},
		{func(c *Config) { c.Color = "" }, ""},
		{func(c *Config) { c.Hosts = []string{"http://x"} }, `ui.hosts: "http://x"`},
		{func(c *Config) { c.Hosts = []string{"*"} }, `ui.hosts: "*"`},
		{func(c *Config) { c.Hosts = []string{"x:80"} }, `ui.hosts: "x:80"`},
		{func(c *Config) { c.Hosts = []string{"x", " *.example.com "} }, ""},
		{func(c *Config) { c.MaxConn = 0 }, `ui.maxconn: "0"`},
		{func(c *Config) { c.Token = registry.NewSecret("a b") }, "ui.token: want a text without white space"},
		{func(c *Config) { c.Source.Scheme = "javascript" }, `ui.routingtable.source.scheme: "javascript": want http or https`},
		{func(c *Config) { c.Source.Scheme = "" }, ""},
		{func(c *Config) { c.Source.Host = "a/b" }, `ui.routingtable.source.host: "a/b"`},
		{func(c *Config) { c.Source.Port = "70000" }, `ui.routingtable.source.port: "70000"`},
		{func(c *Config) { c.Addr = "nonsense" }, `ui.addr: addr: "nonsense"`},
	} {
		c := testConfig(t, tt.change)
		err := c.Validate()
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("Validate() = %v, want %q", err, tt.want)
		}
		if _, newErr := New(c, Deps{}); (newErr == nil) != (err == nil) {
			t.Errorf("New() = %v, Validate() = %v", newErr, err)
		}
	}
	c := testConfig(t, func(c *Config) { c.Access, c.MaxConn = "x", -1 })
	if err := c.Validate(); err == nil || !strings.Contains(err.Error(), "ui.access") || !strings.Contains(err.Error(), "ui.maxconn") {
		t.Errorf("Validate() = %v, want both faults", err)
	}
}

func TestParseAddr(t *testing.T) {
	for _, tt := range []struct {
		in, addr, err string
	}{
		{in: ":9998", addr: ":9998"},
		{in: "127.0.0.1:9998", addr: "127.0.0.1:9998"},
		{in: "[::1]:9998", addr: "[::1]:9998"},
		{in: "localhost:0", addr: "localhost:0"},
		{in: "addr=:9998", addr: ":9998"},
		{in: `addr=":9998";proto=http`, addr: ":9998"},
		{in: ":9998;rt=10s;wt=20s;it=1m", addr: ":9998"},
		{in: ":9998;", addr: ":9998"},
		{in: `{{ "127.0.0.1" }}:9998`, addr: "127.0.0.1:9998"},
		{in: `{{ GetAllInterfaces | include "flags" "loopback" | include "type" "IPv4" | limit 1 | join "address" " " }}:9998;rt=1s`, addr: "127.0.0.1:9998"},
		{in: "", err: "exactly one listener"},
		{in: " ; ", err: "exactly one listener"},
		{in: ":9998,:9999", err: "exactly one listener"},
		{in: "9998", err: "want host:port"},
		{in: ":99999", err: "want a port"},
		{in: ":9998;cs=ui", err: `cs: "ui": TLS on the page's listener is not part of this version`},
		{in: ":9998;proto=https", err: "not part of this version"},
		{in: ":9998;tlsmin=tls12", err: "not part of this version"},
		{in: ":9998;proto=tcp", err: "want http"},
		{in: ":9998;pxyproto=true", err: "PROXY"},
		{in: ":9998;rt=10", err: `rt: "10": want a duration`},
		{in: ":9998;nonsense=1", err: `nonsense: "1": unknown; known are addr`},
		{in: "{{ nonsense }}:1", err: "template"},
		{in: `{{ GetInterfaceIP "nosuch" }}:9998`, err: `the template gives no address, only ":9998"`},
	} {
		got, err := parseAddr(tt.in)
		if tt.err != "" {
			if err == nil || !strings.Contains(err.Error(), tt.err) {
				t.Errorf("parseAddr(%q) = %v, want %q", tt.in, err, tt.err)
			}
			continue
		}
		if err != nil || got.addr != tt.addr {
			t.Errorf("parseAddr(%q) = %q, %v, want %q", tt.in, got.addr, err, tt.addr)
		}
	}
	l, err := parseAddr(":9998;rt=10s;wt=20s;it=1m")
	if err != nil || l.readTimeout != 10*time.Second || l.writeTimeout != 20*time.Second || l.idleTimeout != time.Minute {
		t.Errorf("timeouts = %+v, %v", l, err)
	}
	c := testConfig(t, func(c *Config) { c.Addr = ":9998;rt=1s" })
	if got, err := c.HostPort(); got != ":9998" || err != nil {
		t.Errorf("HostPort() = %q, %v, want :9998", got, err)
	}
}

func FuzzParseAddr(f *testing.F) {
	for _, s := range []string{":9998", "127.0.0.1:9998;rt=1s", `addr="[::1]:1";proto=http`, ";;", "a;b=c", `{{"a;b"}}:1`, ":1;cs='x;y'"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if strings.Contains(s, "{{") {
			return // the template library's own business, and it may ask the system
		}
		l, err := parseAddr(s)
		if err != nil {
			return
		}
		if _, _, err := net.SplitHostPort(l.addr); err != nil {
			t.Errorf("parseAddr(%q) = %q: %v", s, l.addr, err)
		}
		if again, err := parseAddr(l.addr); err != nil || again.addr != l.addr {
			t.Errorf("parseAddr(%q) = %q, %v, want the same again", l.addr, again.addr, err)
		}
	})
}

func TestEveryColorHasARule(t *testing.T) {
	css, err := os.ReadFile("page/style.css")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range colors {
		if !strings.Contains(string(css), `[data-color="`+name+`"]`) {
			t.Errorf("style.css has no rule for ui.color=%s", name)
		}
	}
}

func TestTokenFlagIsMasked(t *testing.T) {
	var c Config
	fs := pflag.NewFlagSet("test", pflag.ContinueOnError)
	c.Flags(fs)
	if err := fs.Set("ui.token", "sesam"); err != nil {
		t.Fatal(err)
	}
	f := fs.Lookup("ui.token")
	if f.Value.Type() != "secret" || f.Value.String() != "***" || c.Token.Reveal() != "sesam" {
		t.Errorf("ui.token: type %q, printed %q, revealed %q", f.Value.Type(), f.Value.String(), c.Token.Reveal())
	}
}
