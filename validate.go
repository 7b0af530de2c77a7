package main

import (
	"cmp"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"

	"varco/metrics"
	"varco/proxy"
	"varco/route"
)

// validate prints what is wrong with the settings and with the route files, one finding a line, each with its place
// where one is known. errs are those of reading the settings.
func validate(c *config, errs []error, w io.Writer) int {
	for _, err := range errs {
		fmt.Fprintln(w, plain(err.Error()))
	}
	for _, warning := range c.warnings() {
		fmt.Fprintln(w, "warning:", plain(warning))
	}
	if len(errs) > 0 && len(c.routeTexts()) == 0 {
		return exitFailed
	}
	findings, routes := len(errs), 0
	for _, file := range c.routeTexts() {
		text, err := file.text()
		if err != nil {
			fmt.Fprintln(w, plain(err.Error()))
			findings++
			continue
		}
		commands, problems := checkRoutes(c, text, file.name)
		routes += commands
		findings += len(problems)
		slices.SortStableFunc(problems, func(a, b route.Problem) int {
			return cmp.Or(cmp.Compare(a.Origin.Line, b.Origin.Line), cmp.Compare(a.Origin.Column, b.Origin.Column))
		})
		for _, p := range problems {
			fmt.Fprintln(w, plain(p.Error()))
		}
	}
	if findings > 0 {
		return exitFailed
	}
	fmt.Fprintf(w, "ok: the settings are good, and so are %d commands in %d route texts\n", routes, len(c.routeTexts()))
	return exitOK
}

// routeText is a text in the route language.
type routeText struct {
	name string
	text func() (string, error)
}

// routeTexts are the files named by --routes and what the static and file backends would read.
func (c *config) routeTexts() []routeText {
	var texts []routeText
	fromFile := func(path string) routeText {
		return routeText{path, func() (string, error) { b, err := os.ReadFile(path); return string(b), err }}
	}
	for _, path := range c.process.routeFiles {
		texts = append(texts, fromFile(path))
	}
	switch c.registry.Backend {
	case "static":
		text := c.registry.Static.Routes
		texts = append(texts, routeText{"registry.static.routes", func() (string, error) { return text, nil }})
	case "file":
		if c.registry.File.Path != "" {
			texts = append(texts, fromFile(c.registry.File.Path))
		}
	}
	return texts
}

// checkRoutes parses text and tries what its "route add" lines ask for. Whether a "route del" or "route weight" finds
// its route depends on what else is in the registry, so only their form is checked.
func checkRoutes(c *config, text, source string) (commands int, problems []route.Problem) {
	all, problems := route.Parse(text, source)
	var adds []route.Command
	for _, cmd := range all {
		if cmd.Verb == route.Add {
			adds = append(adds, cmd)
		}
	}
	quiet := c.proxy
	quiet.AccessLog.Target = "" // checking must not open the log
	m, err := metrics.New(c.metrics)
	if err != nil {
		return len(all), problems // already among the errors of the settings
	}
	p, err := proxy.New(quiet, m, slog.New(slog.DiscardHandler))
	if err != nil {
		return len(all), problems
	}
	return len(all), append(problems, p.Check(route.Snapshot{Overrides: adds})...)
}
