package metrics

import (
	"github.com/spf13/pflag"
)

// Config is the configuration of the metrics. The zero value is not useful: Flags sets the defaults.
type Config struct {
	// Path is where the metrics are served, metrics.prometheus.path.
	Path string
	// Version is the program's version, for build_info. No flag: main sets it.
	Version string

	target, prefix, subsystem, buckets string
	maxSeries                          int
}

// Flags registers metrics.* with defaults and help.
func (c *Config) Flags(fs *pflag.FlagSet) {
	fs.StringVar(&c.target, "metrics.target", "", "")
	fs.StringVar(&c.prefix, "metrics.prefix", "{{clean .Hostname}}.{{clean .Exec}}", "")
	fs.StringVar(&c.subsystem, "metrics.prometheus.subsystem", "", "")
	fs.StringVar(&c.Path, "metrics.prometheus.path", "/metrics", "path of the metrics on the admin listener")
	fs.StringVar(&c.buckets, "metrics.prometheus.buckets", ".005,.01,.025,.05,.1,.25,.5,1,2.5,5,10", "")
	fs.IntVar(&c.maxSeries, "metrics.max-series", 10000, "")
}

// Validate checks what parsing cannot.
func (c *Config) Validate() error { return nil }
