// Package route is varco's routing table: it turns typed commands into a frozen Table and answers which target a
// request or a connection goes to.
//
// A Builder takes a Snapshot (the commands of every service, then the manual overrides, in that order) and makes a
// Table. A Table never changes: readers share it by pointer, without locks, and a new one takes its place. A host
// that no command touched is shared between the old and the new table.
//
// A look-up first orders the hosts that a request may mean (host.go), then finds the most specific path of the first
// of them that has one (match.go), then picks a target by its share (pick.go, weight.go). It takes no lock and
// allocates nothing.
//
// The package does no I/O, reads no clock, logs nothing and has no global state. What an option means to a proxy is
// not known here, with three exceptions that decide which target is chosen: weight, match and strategy. Everything
// else is handed to Config.Bind, once for each new target, and what Bind answers hangs on Target.Bound.
package route

import (
	"net/url"
	"slices"
)

// Snapshot is everything that a backend knows at one moment. The receiver may keep it; nobody changes it any more.
type Snapshot struct {
	// Services are sorted by name, each name once.
	Services []Service
	// Overrides are the manual commands; they are executed after those of the services, in their order.
	Overrides []Command
	// Problems are the tags and lines that never became commands.
	Problems []Problem
	// NoRoute is the HTML body of the answer to a request that no route matches; "" means a built-in one.
	NoRoute string
}

// Service is the commands that one service contributes.
type Service struct {
	Name     string
	Commands []Command
}

// Route is a host and a path, or a port, and where its traffic goes. It is frozen once its table is built and may be
// shared by several tables; safe for concurrent use.
type Route struct {
	// Host is a name in lower case, a pattern, ":3306" for a port, or "" for any host. Path is "" for a port.
	Host, Path string
	// Match is how Path is compared. Host, Path and Match together identify a route.
	Match Match
	// Strategy is the name of the strategy that picks.
	Strategy string
	// Targets are those that were accepted, with share 0 too. A route whose targets were all refused, or that is
	// known but down, has none. Read-only.
	Targets []*Target

	pattern pattern
	live    []*Target // those with a share; Targets itself when all have one
	picker  picker    // of live
}

// Target is one instance that a route leads to. It is frozen once its table is built and may be shared by several
// tables; read-only and safe for concurrent use.
type Target struct {
	// Service is the name of the service the target belongs to.
	Service string
	// Host and Path are those of the route ("" and "/" for the host-less catch-all; ":3306" and "" for a port).
	Host, Path string
	// Match is how Path is compared.
	Match Match
	// URL is the parsed destination: http, https, tcp, grpc or grpcs; for a redirect the URL to send the client to.
	// It must not be modified.
	URL *url.URL
	// Dst is the destination as it was written.
	Dst string
	// FixedWeight is the weight that was asked for, 0 when none was (the target then shares what is left).
	FixedWeight float64
	// Weight is the share of the route's traffic that the target gets, 0 to 1. A target with 0 is never picked.
	Weight float64
	// Tags are the other tags of the instance, in the order they were written.
	Tags []string
	// Opts are the options, those that this package reads (match, strategy) included.
	Opts Options
	// Origin says where the target came from.
	Origin Origin
	// Bound is what Config.Bind answered for this target; it is kept while the target's identity (service, route,
	// destination, tags and options; not its weight) stays in the table. Nil without Bind.
	Bound any
}

// identical reports whether a and b, targets of the same route, have the same identity.
func (t *Target) identical(u *Target) bool {
	return t.Dst == u.Dst && t.Service == u.Service && slices.Equal(t.Opts, u.Opts) && slices.Equal(t.Tags, u.Tags)
}

// same reports whether t can stand in for u, a target of the same route.
func (t *Target) same(u *Target) bool {
	return t.FixedWeight == u.FixedWeight && t.Weight == u.Weight && t.Origin == u.Origin && t.identical(u)
}
