package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"varco/admin"
	"varco/metrics"
	"varco/proxy"
	"varco/registry"
	"varco/route"
)

// config is the configuration of the whole program: each package's own and what only main needs. A value comes from
// the first of these that has one:
//
//	the command line     --proxy.addr=:80, -proxy.addr :80
//	--dev                only when given: what the demo needs
//	VARCO_PROXY_ADDR     environment
//	FABIO_PROXY_ADDR     environment
//	PROXY_ADDR           environment, for the names that fabio has
//	a properties file    -cfg FILE or URL
//	the default
//
// Every flag is set once, from its winner. Nothing is guessed: a key that nobody knows and a value that does not parse
// are errors, and all of them are reported together.
type config struct {
	process  processConfig
	registry registry.Config
	proxy    proxy.Config
	metrics  metrics.Config
	admin    admin.Config

	areas   []area
	flags   *pflag.FlagSet    // all areas together
	sources map[string]string // where a flag's value came from, by name; a default has no entry
	args    map[string]string // what the command line says
	file    *propertiesFile   // nil without -cfg
}

// area is a group of flags, as --help shows them.
type area struct {
	title string
	flags *pflag.FlagSet
}

// settingError is a setting that was refused.
type settingError struct {
	source string // "command line", "environment FABIO_PROXY_ADDR", "fabio.properties:3:15"
	key    string
	reason string
}

func (e *settingError) Error() string {
	if e.key == "" {
		return e.source + ": " + e.reason
	}
	return e.source + ": " + shorten(e.key) + ": " + e.reason
}

const commandLine = "command line"

// newConfig makes a config that holds the defaults.
func newConfig() *config {
	c := &config{
		flags:   pflag.NewFlagSet("varco", pflag.ContinueOnError),
		sources: map[string]string{},
		args:    map[string]string{},
	}
	add := func(title string, register ...func(*pflag.FlagSet)) {
		fs := pflag.NewFlagSet(title, pflag.ContinueOnError)
		fs.SortFlags = false
		for _, f := range register {
			f(fs)
		}
		c.areas = append(c.areas, area{title, fs})
		c.flags.AddFlagSet(fs)
	}
	add("General", c.process.generalFlags)
	add("Traffic: listeners, upstreams, headers, access log", c.proxy.Flags)
	add("Routing", c.proxy.Route.Flags)
	add("Registry: where routes come from", c.registry.Flags)
	add("Admin: page and API", c.admin.Flags)
	add("Metrics", c.metrics.Flags)
	add("Process: log, runtime, profiles", c.process.runtimeFlags)
	add("Known from fabio, not part of this version", c.process.fabioFlags)
	return c
}

// parseArgs reads the command line: a command ("" for none) and flags in fabio's forms, -name value and -name=value,
// with one dash or two. A switch takes a value only after "=". An argument that is neither is an error: fabio stopped
// reading at it, and whatever followed had no effect.
func (c *config) parseArgs(args []string) (command string, errs []error) {
	fail := func(key, format string, a ...any) {
		errs = append(errs, &settingError{commandLine, key, fmt.Sprintf(format, a...)})
	}
	if len(args) > 0 && args[0] != "" && args[0][0] != '-' {
		command, args = args[0], args[1:]
	}
	lastSwitch := ""
	for len(args) > 0 {
		arg := args[0]
		shown := shorten(arg)
		args = args[1:]
		name, value, hasValue := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(arg, "-"), "-"), "=")
		f := c.flags.Lookup(name)
		switch {
		case len(arg) < 2 || arg[0] != '-' || name == "":
			if lastSwitch != "" {
				fail("", "stray argument %q after --%s: a switch takes its value after \"=\": --%[2]s=%[1]s", shown, lastSwitch)
			} else if command == helpCommand {
				c.process.helpWords = append(c.process.helpWords, arg)
			} else {
				fail("", "stray argument %q: flags start with --", shown)
			}
			lastSwitch = ""
			continue
		case f == nil:
			fail("--"+name, "no such flag%s", c.nearest(name))
			// Whatever follows may be its value: skip it, one error is enough.
			if !hasValue && len(args) > 0 && !strings.HasPrefix(args[0], "-") {
				args = args[1:]
			}
			continue
		case hasValue:
		case f.NoOptDefVal != "":
			value = f.NoOptDefVal
		case len(args) == 0 || c.isFlag(args[0]):
			fail("--"+name, "a value is missing: --%s=%s", name, wantShort(f))
			continue
		default:
			value, args = args[0], args[1:]
		}
		lastSwitch = ""
		if !hasValue && f.NoOptDefVal != "" {
			lastSwitch = name
		}
		if name == "routes" {
			c.process.routeFiles = append(c.process.routeFiles, value)
		}
		c.args[name] = value
	}
	return command, errs
}

// isFlag reports whether arg names a flag; a negative number or "-" does not.
func (c *config) isFlag(arg string) bool {
	name, _, _ := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(arg, "-"), "-"), "=")
	return strings.HasPrefix(arg, "-") && c.flags.Lookup(name) != nil
}

// load overlays the sources and sets every flag. overlay holds what --dev wants, or nil. parseArgs comes first.
func (c *config) load(ctx context.Context, env []string, overlay map[string]string) []error {
	values := map[string]string{}
	take := func(name, value, source string) {
		values[name], c.sources[name] = value, source
	}
	var errs []error

	environ, envErrs := c.readEnv(env)
	errs = append(errs, envErrs...)
	if path, given := c.cfgPath(environ); given {
		var err error
		if c.file, err = openCfg(ctx, path); err != nil {
			return append(errs, err)
		}
		for _, key := range c.file.keys {
			if f := c.flags.Lookup(key); f == nil || isCommandFlag(key) {
				errs = append(errs, &settingError{c.file.atKey(key), key, "no such setting" + c.nearest(key)})
			} else {
				take(key, strings.TrimSpace(c.file.values[key]), c.file.at(key))
			}
		}
	}
	for _, e := range slices.Backward(environ) { // the best comes last and wins
		take(e.name, e.value, "environment "+e.variable)
	}
	for name, value := range overlay {
		take(name, value, "--dev")
	}
	for name, value := range c.args {
		take(name, value, commandLine)
	}

	c.flags.VisitAll(func(f *pflag.Flag) {
		value, ok := values[f.Name]
		if !ok {
			return
		}
		if err := f.Value.Set(value); err != nil {
			errs = append(errs, &settingError{c.sources[f.Name], f.Name, badValue(f, value, err)})
			return
		}
		f.Changed = true
	})
	return errs
}

// validate asks each package whether it can work with its configuration.
func (c *config) validate() []error {
	var errs []error
	for _, err := range []error{
		c.process.Validate(), c.proxy.Route.Validate(), c.registry.Validate(),
		c.proxy.Validate(), c.admin.Validate(), c.metrics.Validate(),
	} {
		for _, e := range flatten(err) {
			errs = append(errs, c.located(e))
		}
	}
	return errs
}

// located puts the source in front of an error that begins with the name of a flag.
func (c *config) located(err error) error {
	key, _, ok := strings.Cut(err.Error(), ":")
	if source := c.sources[key]; ok && source != "" {
		return fmt.Errorf("%s: %w", source, err)
	}
	return err
}

// warnings are the settings that are accepted but have no effect, or not the one that their owner expects.
func (c *config) warnings() []string {
	var warnings []string
	c.flags.VisitAll(func(f *pflag.Flag) {
		if f.Deprecated != "" && f.Value.String() != f.DefValue {
			warnings = append(warnings, fmt.Sprintf("%s (%s): %s", f.Name, c.sources[f.Name], f.Deprecated))
		}
	})
	if c.file != nil {
		for _, key := range c.file.twice {
			warnings = append(warnings, fmt.Sprintf("%s: %s: set more than once, the last one counts", c.file.at(key), key))
		}
	}
	return warnings
}

// settings lists every setting for /api/config, in the order of --help.
func (c *config) settings() []admin.Setting {
	var all []admin.Setting
	for _, a := range c.areas {
		a.flags.VisitAll(func(f *pflag.Flag) {
			if isCommandFlag(f.Name) {
				return
			}
			all = append(all, admin.Setting{
				Name:    f.Name,
				Value:   f.Value.String(),
				Source:  cmp.Or(c.sources[f.Name], "default"),
				Default: f.DefValue,
			})
		})
	}
	return all
}

// isCommandFlag reports whether name is a flag that asks for something and is no setting.
func isCommandFlag(name string) bool {
	switch name {
	case "cfg", "dev", "h", "help", "routes", "v", "version":
		return true
	}
	return false
}

// cfgPath is the path of the properties file, with fabio's quotes taken off.
func (c *config) cfgPath(environ []envValue) (path string, given bool) {
	path, given = c.args["cfg"]
	if !given {
		for _, e := range environ {
			if e.name == "cfg" {
				path, given = e.value, true
				break
			}
		}
	}
	for _, q := range []string{`'`, `"`} {
		if len(path) >= 2 && strings.HasPrefix(path, q) && strings.HasSuffix(path, q) {
			return path[1 : len(path)-1], given
		}
	}
	return path, given
}

func openCfg(ctx context.Context, path string) (*propertiesFile, error) {
	if path == "" {
		return nil, errors.New("cfg: invalid or missing path to config file")
	}
	return readProperties(ctx, path)
}

// badValue says what is wrong with a value and what is allowed. A secret is not repeated.
func badValue(f *pflag.Flag, value string, err error) string {
	if f.Value.Type() == secretType {
		return "not usable: " + f.Usage
	}
	switch f.Value.Type() {
	case "bool", "int", "int64", "uint", "uint64", "float64", "duration":
		return fmt.Sprintf("%q: want %s", shorten(value), wantLong(f))
	}
	return fmt.Sprintf("%q: %v", shorten(value), err)
}

func wantLong(f *pflag.Flag) string {
	switch f.Value.Type() {
	case "bool":
		return "true or false"
	case "int", "int64":
		return "a whole number"
	case "uint", "uint64":
		return "a whole number, not negative"
	case "float64":
		return "a number"
	case "duration":
		return "a duration with its unit, such as 500ms, 30s or 1m30s"
	}
	return "a value"
}

func wantShort(f *pflag.Flag) string {
	switch f.Value.Type() {
	case "bool":
		return "true"
	case "int", "int64", "uint", "uint64", "float64":
		return "NUMBER"
	case "duration":
		return "30s"
	}
	return "VALUE"
}

// nearest is a hint with the known name that looks most like name, or "" when none does.
func (c *config) nearest(name string) string {
	var known []string
	c.flags.VisitAll(func(f *pflag.Flag) { known = append(known, f.Name) })
	best := route.Nearest(name, known)
	if best == "" {
		return ""
	}
	return fmt.Sprintf(" (did you mean %s?)", best)
}

// flatten takes joined errors apart.
func flatten(err error) []error {
	if err == nil {
		return nil
	}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		var all []error
		for _, e := range joined.Unwrap() {
			all = append(all, flatten(e)...)
		}
		return all
	}
	return []error{err}
}
