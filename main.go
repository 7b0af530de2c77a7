// Command varco is an edge router: it watches Consul, makes a table of the urlprefix- tags it finds there, and sends
// HTTP requests and TCP connections to the services behind them.
//
// This package joins the others and does nothing else: flags.go makes one configuration of every package's own,
// serve.go starts and stops them in order, and help.go, validate.go and dev.go are what is not serving. Only this
// package ends the process.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"strings"
	"syscall"
)

// version is what --version and /api/version answer. CHANGELOG.md has an entry for it.
const version = "0.1.0"

// The commands. Serving has no name.
const (
	helpCommand     = "help"
	validateCommand = "validate"
	versionCommand  = "version"
)

// Exit codes.
const (
	exitOK     = 0
	exitFailed = 1 // could not start, found problems, or was told twice to stop
	exitUsage  = 2 // the command line makes no sense
)

func main() {
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	signal.Ignore(syscall.SIGPIPE) // a closed log pipe must not end a router
	os.Exit(run(os.Args[1:], os.Environ(), os.Stdout, os.Stderr, signals))
}

// run does what args ask for and answers the exit code.
func run(args, env []string, stdout, stderr io.Writer, signals <-chan os.Signal) int {
	c := newConfig()
	command, errs := c.parseArgs(args)
	if len(errs) > 0 {
		printErrors(stderr, errs)
		fmt.Fprintln(stderr, "varco help lists all flags, varco help WORD those with the word in them")
		return exitUsage
	}
	switch command {
	case "", helpCommand, validateCommand, versionCommand:
	default:
		fmt.Fprintf(stderr, "varco: no command %q: want %s, %s or %s, or only flags to serve\n",
			command, validateCommand, helpCommand, versionCommand)
		return exitUsage
	}
	switch {
	case command == helpCommand || c.asked("help") || c.asked("h"):
		if err := c.printHelp(stdout, c.process.helpWords); err != nil {
			return exitFailed
		}
		return exitOK
	case command == versionCommand || c.asked("version") || c.asked("v"):
		fmt.Fprintln(stdout, version, runtime.Version())
		return exitOK
	}

	var overlay map[string]string
	if c.asked("dev") {
		d, err := startDemo(c)
		if err != nil {
			printErrors(stderr, []error{err})
			return exitFailed
		}
		defer d.close()
		d.explain(stdout)
		overlay = d.settings()
	}
	errs = c.load(context.Background(), env, overlay)
	errs = append(errs, c.validate()...)
	if command == validateCommand {
		return validate(c, errs, stdout)
	}
	if len(errs) > 0 {
		printErrors(stderr, errs)
		return exitFailed
	}

	level, _ := levelOf(c.process.logLevel)
	log := newLogger(stderr, level)
	c.metrics.Version = version
	c.process.apply(os.Getenv)
	profile, stop, err := startProfile(c.process.profileMode, c.process.profilePath)
	if err != nil {
		printErrors(stderr, []error{err})
		return exitFailed
	}
	if profile != "" {
		log.Info("recording a profile", "mode", c.process.profileMode, "file", profile)
	}
	code := serve(c, log, signals)
	if err := stop(); err != nil {
		log.Error("profile not written", "err", err)
	}
	return code
}

// asked reports whether the command line switches name on.
func (c *config) asked(name string) bool {
	on, _ := strconv.ParseBool(c.args[name])
	return on
}

func printErrors(w io.Writer, errs []error) {
	for _, err := range errs {
		fmt.Fprintf(w, "varco: %s\n", plain(err.Error()))
	}
}

// plain is a message as one line without control characters: what it quotes may come from anywhere.
func plain(message string) string {
	const most = 2000
	if len(message) > most {
		message = strings.ToValidUTF8(message[:most], "") + "…"
	}
	quoted := strconv.QuoteToGraphic(message)
	return strings.NewReplacer(`\"`, `"`, `\\`, `\`).Replace(quoted[1 : len(quoted)-1])
}

// shorten cuts what would fill the screen: a whole table may be the value of a setting.
func shorten(s string) string { return shortenTo(s, 200) }

func shortenTo(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return fmt.Sprintf("%s… (%d bytes)", strings.ToValidUTF8(s[:most], ""), len(s))
}
