package metrics

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"text/template"
	"time"

	"github.com/spf13/pflag"
)

// Config is the configuration of the metrics. Flags sets the defaults.
type Config struct {
	// Path is where the metrics are served: metrics.prometheus.path.
	Path string
	// Version is the program's version, for build_info. It has no flag: main sets it.
	Version string

	target, prefix, subsystem, buckets string
	maxSeries                          int
}

const (
	defaultPrefix  = "{{clean .Hostname}}.{{clean .Exec}}"
	defaultBuckets = ".005,.01,.025,.05,.1,.25,.5,1,2.5,5,10"

	// maxBuckets keeps the histogram of a target within bounds: each bucket costs 8 bytes per target and status.
	maxBuckets = 60
)

// Flags registers metrics.* with defaults and help.
func (c *Config) Flags(fs *pflag.FlagSet) {
	fs.StringVar(&c.target, "metrics.target", "",
		"where metrics go: prometheus or nothing; /metrics is served in both cases")
	fs.StringVar(&c.prefix, "metrics.prefix", defaultPrefix,
		"first part of the names of all metrics: a template that may use .Hostname, .Exec and the function clean")
	fs.StringVar(&c.subsystem, "metrics.prometheus.subsystem", "", "second part of the names of all metrics")
	fs.StringVar(&c.Path, "metrics.prometheus.path", "/metrics", "path of the metrics on the admin listener")
	fs.StringVar(&c.buckets, "metrics.prometheus.buckets", defaultBuckets,
		"upper bounds of the latency histograms, in seconds, increasing")
	fs.IntVar(&c.maxSeries, "metrics.max-series", 10000,
		"how many targets, services, and pairs of status and service have series of their own, the busiest first; "+
			"the others are summed in one series named _other; with 0 all are")
	c.fabioFlags(fs)
}

// fabioFlags registers what belongs to the metrics systems that this version does not serve.
func (c *Config) fabioFlags(fs *pflag.FlagSet) {
	const (
		prometheusOnly = "no effect, this version serves Prometheus only"
		pulled         = "no effect, Prometheus decides when it reads"
	)
	for _, f := range []struct{ name, value, help, deprecated string }{
		{"metrics.names", "{{clean .Service}}.{{clean .Host}}.{{clean .Path}}.{{clean .TargetURL.Host}}",
			"template of the names of target metrics, never applied by fabio since 1.6", "no effect, in fabio neither"},
		{"metrics.interval", "30s", "time between two reports to a metrics server", pulled},
		{"metrics.timeout", "10s", "time to wait for a metrics server at start", pulled},
		{"metrics.retry", "500ms", "time between two tries to reach a metrics server", pulled},
		{"metrics.graphite.addr", "", "address of a Graphite server", prometheusOnly},
		{"metrics.statsd.addr", "", "address of a StatsD server", prometheusOnly},
		{"metrics.dogstatsd.addr", "", "address of a DogStatsD server", prometheusOnly},
		{"metrics.circonus.apiapp", "fabio", "Circonus application name", prometheusOnly},
		{"metrics.circonus.apiurl", "", "Circonus API", prometheusOnly},
		{"metrics.circonus.brokerid", "", "Circonus broker", prometheusOnly},
		{"metrics.circonus.checkid", "", "Circonus check", prometheusOnly},
		{"metrics.circonus.submissionurl", "", "Circonus URL", prometheusOnly},
	} {
		if d, err := time.ParseDuration(f.value); err == nil {
			fs.Duration(f.name, d, f.help)
		} else {
			fs.String(f.name, f.value, f.help)
		}
		fs.Lookup(f.name).Deprecated = f.deprecated
	}
	fs.Var(new(secret), "metrics.circonus.apikey", "Circonus API key")
	fs.Lookup("metrics.circonus.apikey").Deprecated = prometheusOnly
}

// secret is a value that is thrown away and never shown.
type secret bool

func (s *secret) Set(v string) error { *s = v != ""; return nil }
func (s *secret) Type() string       { return "secret" }

func (s *secret) String() string {
	if *s {
		return "***"
	}
	return ""
}

// Validate checks what parsing cannot. Each error begins with the key it speaks of.
func (c *Config) Validate() error {
	_, err := c.compile()
	return err
}

// settings are a Config that is right.
type settings struct {
	namespace, subsystem string
	buckets              []float64
	places               int
}

func (c *Config) compile() (settings, error) {
	s := settings{subsystem: metricName(c.subsystem), places: c.maxSeries}
	var err error
	errs := []error{checkTargets(c.target)}
	if s.namespace, err = expandPrefix(c.prefix); err != nil {
		errs = append(errs, fmt.Errorf("metrics.prefix: %q: %w", c.prefix, err))
	}
	if s.buckets, err = parseBuckets(c.buckets); err != nil {
		errs = append(errs, fmt.Errorf("metrics.prometheus.buckets: %q: %w", c.buckets, err))
	}
	if !strings.HasPrefix(c.Path, "/") || strings.ContainsAny(c.Path, "?# {}") {
		errs = append(errs, fmt.Errorf("metrics.prometheus.path: %q: want a path that starts with /", c.Path))
	}
	if c.maxSeries < 0 {
		errs = append(errs, fmt.Errorf("metrics.max-series: %d: want 0 or more", c.maxSeries))
	}
	if err := errors.Join(errs...); err != nil {
		return settings{}, err
	}
	return s, nil
}

// fabioTargets are the metrics systems that fabio knows and this version does not serve.
var fabioTargets = []string{"stdout", "flat", "label", "statsd", "statsd_raw", "dogstatsd", "circonus", "graphite"}

func checkTargets(list string) error {
	for name := range strings.SplitSeq(list, ",") {
		name = strings.TrimSpace(name)
		switch {
		case name == "" || name == "prometheus":
		case slices.Contains(fabioTargets, name):
			return fmt.Errorf("metrics.target: %q: this version serves Prometheus only: want prometheus or nothing", name)
		default:
			return fmt.Errorf("metrics.target: %q: want prometheus or nothing", name)
		}
	}
	return nil
}

// expandPrefix makes metrics.prefix a namespace that Prometheus accepts. Empty means none.
func expandPrefix(text string) (string, error) {
	if text == "default" {
		text = defaultPrefix
	}
	t, err := template.New("metrics.prefix").Funcs(template.FuncMap{"clean": clean}).Parse(text)
	if err != nil {
		return "", fmt.Errorf("not a template: %v", err)
	}
	host, err := os.Hostname()
	if err != nil {
		host = "localhost"
	}
	var b strings.Builder
	data := struct{ Hostname, Exec string }{host, filepath.Base(os.Args[0])}
	if err := t.Execute(&b, data); err != nil {
		return "", fmt.Errorf("want a template that uses .Hostname and .Exec only: %v", err)
	}
	return metricName(b.String()), nil
}

// clean is fabio's function for templates.
func clean(s string) string {
	if s == "" {
		return "_"
	}
	return strings.NewReplacer(".", "_", ":", "_").Replace(strings.ToLower(s))
}

// metricName makes s fit to begin the name of a metric: lower-case letters, digits and "_", no digit first.
func metricName(s string) string {
	if s == "" {
		return ""
	}
	name := []byte(strings.ToLower(s))
	for i, c := range name {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') {
			name[i] = '_'
		}
	}
	if name[0] >= '0' && name[0] <= '9' {
		return "_" + string(name)
	}
	return string(name)
}

func parseBuckets(list string) ([]float64, error) {
	if strings.TrimSpace(list) == "" {
		list = defaultBuckets
	}
	var seconds []float64
	for word := range strings.SplitSeq(list, ",") {
		s, err := strconv.ParseFloat(strings.TrimSpace(word), 64)
		if err != nil || !(s > 0) || s > maxSeconds {
			return nil, fmt.Errorf("%q: want numbers of seconds above 0, such as 0.1,0.5,1", word)
		}
		seconds = append(seconds, s)
	}
	b := newBounds(seconds)
	for i := range b {
		if b[i] == 0 || i > 0 && b[i] <= b[i-1] {
			return nil, errors.New("want increasing numbers, such as 0.1,0.5,1")
		}
	}
	if len(b) > maxBuckets {
		return nil, fmt.Errorf("%d buckets: want at most %d", len(b), maxBuckets)
	}
	return seconds, nil
}

// maxSeconds is the longest bound, above a century.
const maxSeconds = 4e9
