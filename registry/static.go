package registry

import (
	"context"

	"github.com/spf13/pflag"

	"varco/route"
)

// StaticConfig holds routes that never change.
type StaticConfig struct {
	// Routes is a text in the route language, NoRoute the HTML of the no-route page.
	Routes, NoRoute string
}

func (c *StaticConfig) flags(fs *pflag.FlagSet) {
	fs.StringVar(&c.Routes, "registry.static.routes", "", "text with the routes, one command a line")
	fs.StringVar(&c.NoRoute, "registry.static.noroutehtml", "", "page for requests without a route, as HTML text")
	fs.StringVar(&c.NoRoute, "registry.static.noroutehtmlpath", "", "page for requests without a route, as HTML text")
	fs.Lookup("registry.static.noroutehtmlpath").Deprecated = "its value was never a path; use registry.static.noroutehtml"
}

func checkStatic(*Config) error { return nil }

func openStatic(c Config, _ Env) (Backend, error) {
	var s static
	s.Overrides, s.Problems = route.Parse(c.Static.Routes, "registry.static.routes")
	s.NoRoute = c.Static.NoRoute
	if len(s.NoRoute) > maxNoRoute {
		s.NoRoute = ""
		s.Problems = append(s.Problems, pageTooLong("registry.static.noroutehtml"))
	}
	return &s, nil
}

// static is a backend with one Snapshot.
type static route.Snapshot

// Watch calls update once and waits for the end of ctx.
func (s *static) Watch(ctx context.Context, update func(route.Snapshot)) error {
	update(route.Snapshot(*s))
	<-ctx.Done()
	return nil
}
