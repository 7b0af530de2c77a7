package route

import (
	"strconv"
	"strings"
)

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

// String returns the place in one line, parts that are not plain text quoted: `overrides:3:11`,
// `service web, instance web-1, node n1, tag "urlprefix-/x"`. It is "" for the zero Origin.
func (o Origin) String() string {
	var parts []string
	add := func(label, value string) {
		if value != "" {
			parts = append(parts, label+printable(value))
		}
	}
	place := printable(o.Source)
	if o.Line > 0 {
		place += ":" + strconv.Itoa(o.Line)
		if o.Column > 0 {
			place += ":" + strconv.Itoa(o.Column)
		}
	}
	if place != "" {
		parts = append(parts, place)
	}
	add("service ", o.Service)
	add("instance ", o.Instance)
	add("node ", o.Node)
	if o.Tag != "" {
		parts = append(parts, "tag "+strconv.Quote(o.Tag))
	}
	return strings.Join(parts, ", ")
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

// Error returns "place: reason (hint)" in one line.
func (p Problem) Error() string {
	s := p.Reason
	if place := p.Origin.String(); place != "" {
		s = place + ": " + s
	}
	if p.Hint != "" {
		s += " (" + p.Hint + ")"
	}
	return s
}

// printable returns s, quoted if it holds anything that could confuse a reader of a log.
func printable(s string) string {
	if q := strconv.Quote(s); q[1:len(q)-1] != s {
		return q
	}
	return s
}
