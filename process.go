package main

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/spf13/pflag"
)

// processConfig is what concerns the process and no package.
type processConfig struct {
	// What to do instead of serving.
	help, version bool
	helpWords     []string
	// validate's files of routes.
	routeFiles []string

	dev      bool
	insecure bool

	logLevel     string
	routesFormat string
	routesOld    string // proxy.log.routes, the old name of log.routes.format

	gogc, gomaxprocs int

	profileMode, profilePath string

	fabio fabioConfig
}

// routesFormats are the values of log.routes.format.
var routesFormats = []string{"delta", "detail", "all"}

func (p *processConfig) generalFlags(fs *pflag.FlagSet) {
	fs.String("cfg", "", "properties file or http(s) URL with settings")
	fs.BoolVar(&p.dev, "dev", false, "demo: two small upstreams, routes to them, no Consul")
	fs.BoolVar(&p.version, "version", false, "print the version and exit, also -v")
	fs.BoolVar(&p.version, "v", false, "the same as --version")
	fs.BoolVar(&p.help, "help", false, "print this text and exit, also -h")
	fs.BoolVar(&p.help, "h", false, "the same as --help")
	fs.String("routes", "", "only for validate: a file of routes to check, may be repeated")
	fs.BoolVar(&p.insecure, "insecure", false, "no hourly warning when running as root")
}

func (p *processConfig) runtimeFlags(fs *pflag.FlagSet) {
	fs.StringVar(&p.logLevel, "log.level", "INFO", "lowest level to log: TRACE, DEBUG, INFO, WARN, ERROR or FATAL")
	fs.StringVar(&p.routesFormat, "log.routes.format", "delta",
		"how a change of the table is logged: delta (lines added and removed), detail (a tree) or all (every route)")
	fs.StringVar(&p.routesOld, "proxy.log.routes", "", "old name of log.routes.format")
	fs.Lookup("proxy.log.routes").Deprecated = "use log.routes.format"
	fs.IntVar(&p.gogc, "runtime.gogc", 100, "garbage collector target in percent; GOGC in the environment wins")
	fs.IntVar(&p.gomaxprocs, "runtime.gomaxprocs", -1,
		"threads that run Go code at once, -1 for what the machine or container has; GOMAXPROCS in the environment wins")
	fs.StringVar(&p.profileMode, "profile.mode", "",
		"record one profile from start to stop: "+strings.Join(profileNames(), ", "))
	fs.StringVar(&p.profilePath, "profile.path", os.TempDir(), "folder for the profile")
}

// Validate checks what parsing cannot.
func (p *processConfig) Validate() error {
	errs := []error{p.fabio.validate()}
	if _, ok := levelOf(p.logLevel); !ok {
		errs = append(errs, fmt.Errorf("log.level: %q: want TRACE, DEBUG, INFO, WARN, ERROR or FATAL", p.logLevel))
	}
	if !slices.Contains(routesFormats, p.routesFormat) {
		errs = append(errs, fmt.Errorf("log.routes.format: %q: want %s", p.routesFormat, strings.Join(routesFormats, ", ")))
	}
	if p.routesOld != "" && !slices.Contains(routesFormats, p.routesOld) {
		errs = append(errs, fmt.Errorf("proxy.log.routes: %q: want %s", p.routesOld, strings.Join(routesFormats, ", ")))
	}
	if p.gomaxprocs == 0 || p.gomaxprocs < -1 {
		errs = append(errs, fmt.Errorf("runtime.gomaxprocs: %d: want a number above 0, or -1", p.gomaxprocs))
	}
	if p.gogc < -1 {
		errs = append(errs, fmt.Errorf("runtime.gogc: %d: want a percentage, or -1 for no collection", p.gogc))
	}
	if p.profileMode != "" && !slices.Contains(profileNames(), p.profileMode) {
		errs = append(errs, fmt.Errorf("profile.mode: %q: want %s", p.profileMode, strings.Join(profileNames(), ", ")))
	}
	return errors.Join(errs...)
}

// format is the way changes of the table are logged: the new name wins over fabio's old one.
func (p *processConfig) format() string {
	if p.routesOld != "" && p.routesFormat == routesFormats[0] {
		return p.routesOld
	}
	return p.routesFormat
}

// apply sets what belongs to the Go runtime. GOGC and GOMAXPROCS in the environment win, as in fabio.
func (p *processConfig) apply(getenv func(string) string) {
	if getenv("GOGC") == "" && p.gogc != 100 {
		debug.SetGCPercent(p.gogc)
	}
	if getenv("GOMAXPROCS") == "" && p.gomaxprocs > 0 {
		runtime.GOMAXPROCS(p.gomaxprocs)
	}
}
