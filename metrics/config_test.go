package metrics

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

func TestDefaultsAreValid(t *testing.T) {
	c := configOf(t)
	if err := c.Validate(); err != nil {
		t.Error(err)
	}
	if c.Path != "/metrics" {
		t.Errorf("Path = %q, want /metrics", c.Path)
	}
}

func TestValidate(t *testing.T) {
	const ok = ""
	for _, c := range []struct{ flag, want string }{
		{"metrics.target=", ok},
		{"metrics.target=prometheus", ok},
		{"metrics.target= prometheus , ", ok},
		{"metrics.target=stdout", `metrics.target: "stdout": this version serves Prometheus only: want prometheus or nothing`},
		{"metrics.target=prometheus,statsd_raw", `metrics.target: "statsd_raw": this version serves Prometheus only`},
		{"metrics.target=statsd", `metrics.target: "statsd": this version serves Prometheus only`},
		{"metrics.target=x", `metrics.target: "x": want prometheus or nothing`},

		{"metrics.prefix=", ok},
		{"metrics.prefix=default", ok},
		{"metrics.prefix={{clean .Hostname}}.{{.Exec}}", ok},
		{"metrics.prefix=a-b.c d\n\xffé/{}", ok},
		{"metrics.prefix={{", `metrics.prefix: "{{": not a template: `},
		{"metrics.prefix={{.Nope}}", `metrics.prefix: "{{.Nope}}": want a template that uses .Hostname and .Exec only: `},
		{"metrics.prefix={{nope .Exec}}", `metrics.prefix: "{{nope .Exec}}": not a template: `},
		{"metrics.prometheus.subsystem=1 2", ok},

		{"metrics.prometheus.path=/m", ok},
		{"metrics.prometheus.path=m", `metrics.prometheus.path: "m": want a path that starts with /`},
		{"metrics.prometheus.path=/m?x", `metrics.prometheus.path: "/m?x": want`},
		{"metrics.prometheus.path=/{x}", `metrics.prometheus.path: "/{x}": want`},

		{"metrics.prometheus.buckets=", ok},
		{"metrics.prometheus.buckets=1", ok},
		{"metrics.prometheus.buckets= .1 , 1,1e3", ok},
		{"metrics.prometheus.buckets=1,x", `metrics.prometheus.buckets: "1,x": "x": want numbers of seconds above 0`},
		{"metrics.prometheus.buckets=1,", `metrics.prometheus.buckets: "1,": "": want`},
		{"metrics.prometheus.buckets=0,1", `metrics.prometheus.buckets: "0,1": "0": want`},
		{"metrics.prometheus.buckets=-1", `metrics.prometheus.buckets: "-1": "-1": want`},
		{"metrics.prometheus.buckets=NaN", `metrics.prometheus.buckets: "NaN": "NaN": want`},
		{"metrics.prometheus.buckets=+Inf", `metrics.prometheus.buckets: "+Inf": "+Inf": want`},
		{"metrics.prometheus.buckets=1e300", `metrics.prometheus.buckets: "1e300": "1e300": want`},
		{"metrics.prometheus.buckets=1e-300", `metrics.prometheus.buckets: "1e-300": want increasing numbers`},
		{"metrics.prometheus.buckets=1,1", `metrics.prometheus.buckets: "1,1": want increasing numbers`},
		{"metrics.prometheus.buckets=2,1", `metrics.prometheus.buckets: "2,1": want increasing numbers`},
		{"metrics.prometheus.buckets=1" + increasing(maxBuckets), `": 61 buckets: want at most 60`},

		{"metrics.max-series=0", ok},
		{"metrics.max-series=-1", `metrics.max-series: -1: want 0 or more`},
		{"metrics.names={{", ok},
		{"metrics.statsd.addr=localhost:8125", ok},
	} {
		config := configOf(t, "--"+c.flag)
		err := config.Validate()
		switch {
		case c.want == ok:
			if err != nil {
				t.Errorf("Validate with %s: %v", c.flag, err)
			}
			if _, err := New(config); err != nil {
				t.Errorf("New with %s: %v", c.flag, err)
			}
		case err == nil:
			t.Errorf("Validate with %s passes, want %q", c.flag, c.want)
		case !strings.Contains(err.Error(), c.want):
			t.Errorf("Validate with %s: %v, want %s", c.flag, err, c.want)
		}
	}
}

// increasing is n more buckets above 1.
func increasing(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, ",%d", i+2)
	}
	return b.String()
}

func TestAllErrorsAtOnce(t *testing.T) {
	c := configOf(t, "--metrics.target=x", "--metrics.prefix={{", "--metrics.prometheus.buckets=x",
		"--metrics.max-series=-1", "--metrics.prometheus.path=")
	err := c.Validate()
	for _, key := range []string{"target", "prefix", "prometheus.buckets", "max-series", "prometheus.path"} {
		if err == nil || !strings.Contains(err.Error(), "metrics."+key+": ") {
			t.Errorf("Validate() = %v, want something about metrics.%s", err, key)
		}
	}
	if _, err := New(c); err == nil {
		t.Error("New takes a configuration that is wrong")
	}
}

// The names of all metrics are right whatever the prefix, and never those of the Go or process collector.
func TestAnyPrefix(t *testing.T) {
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	exec := filepath.Base(os.Args[0])
	for _, c := range []struct{ prefix, subsystem, want string }{
		{"", "", "route"},
		{"fabio", "", "fabio_route"},
		{"fabio", "edge", "fabio_edge_route"},
		{"", "edge", "edge_route"},
		{"My-Host.9", "", "my_host_9_route"},
		{"9", "9", "_9__9_route"},
		{"{{clean \"a.b:C\"}}{{clean \"\"}}", "", "a_b_c__route"},
		{"default", "", metricName(host) + "_" + metricName(exec) + "_route"},
		{"go", "", "go_route"},
		{"process", "", "process_route"},
		{"promhttp_metric_handler", "", "promhttp_metric_handler_route"},
		{"ä\xff\x00", "\n", "_________route"},
	} {
		config := configOf(t, "--metrics.prefix="+c.prefix, "--metrics.prometheus.subsystem="+c.subsystem)
		m, err := New(config)
		if err != nil {
			t.Errorf("New with prefix %q: %v", c.prefix, err)
			continue
		}
		m.Handler()
		families, err := m.registry.Gather()
		if err != nil {
			t.Errorf("prefix %q: %v", c.prefix, err)
		}
		names := map[string]bool{}
		for _, f := range families {
			names[f.GetName()] = true
			if !regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_]*$`).MatchString(f.GetName()) {
				t.Errorf("prefix %q makes the name %q", c.prefix, f.GetName())
			}
		}
		if !names[c.want] {
			t.Errorf("prefix %q: no metric %s", c.prefix, c.want)
		}
	}
}

func TestFlags(t *testing.T) {
	var c Config
	fs := pflag.NewFlagSet("", pflag.ContinueOnError)
	c.Flags(fs)
	fs.SetOutput(io.Discard)
	const canary = "s3cr3t"
	if err := fs.Set("metrics.circonus.apikey", canary); err != nil {
		t.Fatal(err)
	}
	fs.VisitAll(func(f *pflag.Flag) {
		if !strings.HasPrefix(f.Name, "metrics.") || f.Usage == "" || strings.Contains(f.Usage, "\n") {
			t.Errorf("flag %s: help %q", f.Name, f.Usage)
		}
		if strings.Contains(f.Value.String(), canary) {
			t.Errorf("flag %s shows a secret", f.Name)
		}
	})
	key := fs.Lookup("metrics.circonus.apikey").Value
	if key.Type() != "secret" || key.String() != "***" {
		t.Errorf("metrics.circonus.apikey = %q of type %s, want *** of type secret", key, key.Type())
	}
	if err := key.Set(""); err != nil || key.String() != "" {
		t.Errorf("metrics.circonus.apikey set to nothing = %q, %v", key, err)
	}
}
