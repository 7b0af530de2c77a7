// Package route is varco's routing table: it turns typed commands into a frozen Table and answers which target a
// request or a connection goes to.
//
// A Builder takes a Snapshot (the commands of every service, then the manual overrides, in that order) and makes a
// Table. A Table never changes: readers share it by pointer, without locks, and a new one takes its place. A host
// that no command touched is shared between the old and the new table.
//
// The package does no I/O, reads no clock, logs nothing and has no global state. What an option means to a proxy is
// not known here, with three exceptions that decide which target is chosen: weight, match and strategy. Everything
// else is handed to Config.Bind, once for each new target, and what Bind answers hangs on Target.Bound.
package route

import (
	"net/url"
)

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

// Origin says where a command, a target or a problem came from, so that an operator finds the place to mend.
// Unknown parts are empty or zero.
type Origin struct {
	// Service, Node and Instance (the service ID) name an instance in a catalog; Tag is the tag as registered.
	Service  string `json:"service,omitempty"`
	Node     string `json:"node,omitempty"`
	Instance string `json:"instance,omitempty"`
	Tag      string `json:"tag,omitempty"`
	// Source names a text: a file's path, a KV key, "registry.static.routes".
	Source string `json:"source,omitempty"`
	// Line and Column count from 1, Column in bytes; 0 means unknown.
	Line   int `json:"line,omitempty"`
	Column int `json:"column,omitempty"`
}

// Problem is something that was refused, with the place and, where one is known, the way out. A problem costs only
// the command or target it speaks of.
type Problem struct {
	Origin Origin `json:"origin"`
	// Text is the offending line or tag as it was written. It is hostile text: escape it before showing it.
	Text string `json:"text"`
	// Reason says what is wrong, Hint how to put it right ("" when there is nothing to say).
	Reason string `json:"reason"`
	Hint   string `json:"hint,omitempty"`
}

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
