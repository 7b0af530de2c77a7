package route

import (
	"cmp"
	"errors"
	"slices"
	"strings"
)

// Builder makes tables of snapshots. It keeps what it knows about the last one, host by host: the commands that touch
// the host, in their order, and what became of them. A host whose commands are the same again keeps its routes,
// targets and problems; only the others are compiled anew (draft.go), and even there what did not change is kept. So
// the table after any sequence of snapshots is the one that a fresh Builder makes of the last.
//
// Most commands name their host. A `route del` without a source touches every host that has, at that point, a target
// of its service or with its tag; an index of these is made only if such a command comes.
//
// A Builder is not safe for concurrent use.
type Builder struct {
	bind     func(*Target) (any, error)
	match    Match
	strategy *strategy
	exact    bool
	few      int // as fewRoutes

	hosts map[string]*hostState
	table *Table
}

// NewBuilder returns a Builder. The error names the key of c that is wrong and what it may be.
func NewBuilder(c Config) (*Builder, error) {
	b := &Builder{bind: c.Bind, exact: c.ExactHosts, few: fewRoutes, hosts: make(map[string]*hostState), table: &Table{}}
	var err error
	if b.match, b.strategy, err = c.resolve(); err != nil {
		return nil, err
	}
	return b, nil
}

// Build is a finished table and what happened on the way to it.
type Build struct {
	Table *Table
	// Problems are those of the snapshot first, then those of the build, sorted by their origin: targets that were
	// refused, weights without a target, and the like.
	Problems []Problem
	// Removed are the Bound values whose identity left the table: release them once Table is in use.
	Removed []any
	// Added counts the new identities that were bound.
	Added int
	// Hosts counts the hosts that were compiled anew.
	Hosts int
}

// hostState is what a Builder knows about one host.
type hostState struct {
	name     string
	commands []*Command // those that made host and problems
	next     []*Command // those of the snapshot at hand
	host     *host      // nil without routes
	problems []Problem
}

// Build makes the table of s.
func (b *Builder) Build(s Snapshot) Build {
	out := Build{Problems: slices.Clone(s.Problems)}
	problems := b.collect(s)

	var changed []*hostState
	for _, h := range b.hosts {
		if !slices.EqualFunc(h.commands, h.next, sameCommand) {
			changed = append(changed, h)
		} else {
			problems = append(problems, h.problems...)
		}
		// The same commands, but those of the new snapshot: the old one can be freed.
		clear(h.commands)
		h.commands, h.next = h.next, h.commands[:0]
	}
	slices.SortFunc(changed, func(g, h *hostState) int { return strings.Compare(g.name, h.name) })

	swapped := false
	for _, h := range changed {
		old := h.host
		b.compile(h, &out)
		problems = append(problems, h.problems...)
		swapped = swapped || h.host != old
		if len(h.commands) == 0 {
			delete(b.hosts, h.name)
		}
	}
	if swapped {
		b.table = newTable(merge(b.table.hosts, changed))
	}
	slices.SortStableFunc(problems, byOrigin)
	out.Table = b.table
	out.Problems = append(out.Problems, problems...)
	out.Hosts = len(changed)
	return out
}

// merge returns list, which is sorted by name, with the hosts of changed, sorted too, in place of the old ones.
func merge(list []*host, changed []*hostState) []*host {
	merged := make([]*host, 0, len(list)+len(changed))
	for _, c := range changed {
		i, found := slices.BinarySearchFunc(list, c.name, func(h *host, name string) int { return strings.Compare(h.name, name) })
		merged = append(merged, list[:i]...)
		if list = list[i:]; found {
			list = list[1:]
		}
		if c.host != nil {
			merged = append(merged, c.host)
		}
	}
	return append(merged, list...)
}

func byOrigin(a, b Problem) int {
	x, y := a.Origin, b.Origin
	return cmp.Or(
		strings.Compare(x.Source, y.Source),
		cmp.Compare(x.Line, y.Line),
		cmp.Compare(x.Column, y.Column),
		strings.Compare(x.Service, y.Service),
		strings.Compare(x.Node, y.Node),
		strings.Compare(x.Instance, y.Instance),
		strings.Compare(x.Tag, y.Tag),
		strings.Compare(a.Text, b.Text),
		strings.Compare(a.Reason, b.Reason),
	)
}

// problem returns what is wrong with c.
func problem(c *Command, err error) Problem {
	p := Problem{Origin: c.Origin, Text: c.Origin.Tag, Reason: err.Error()}
	if p.Text == "" {
		p.Text = c.String()
	}
	var e *fieldError
	if errors.As(err, &e) {
		p.Reason, p.Hint = e.field+" "+e.reason, e.hint
	}
	return p
}

// sameCommand reports whether a and b do the same and come from the same place.
func sameCommand(a, b *Command) bool {
	return a == b || a.Verb == b.Verb && a.Down == b.Down && a.Weight == b.Weight &&
		a.Src == b.Src && a.Dst == b.Dst && a.Service == b.Service &&
		slices.Equal(a.Tags, b.Tags) && slices.Equal(a.Opts, b.Opts) && a.Origin == b.Origin
}

// collect hands each command of s to the hosts that it touches, as hostState.next.
func (b *Builder) collect(s Snapshot) (problems []Problem) {
	var where *reach
	each := func(list []Command) {
		for i := range list {
			c := &list[i]
			if c.Src != "" {
				h := b.state(c.Src)
				h.next = append(h.next, c)
				if where != nil {
					where.note(h, c)
				}
				continue
			}
			if err := c.check(); err != nil { // only Del does without
				problems = append(problems, problem(c, err))
				continue
			}
			if where == nil {
				where = newReach(b.hosts)
			}
			for _, h := range where.touched(c) {
				if n := len(h.next); n == 0 || h.next[n-1] != c {
					h.next = append(h.next, c)
				}
			}
		}
	}
	for i := range s.Services {
		each(s.Services[i].Commands)
	}
	each(s.Overrides)
	return problems
}

// state returns that of the host of src, a new one if need be.
func (b *Builder) state(src string) *hostState {
	name, _ := splitSrc(lowerSrc(src))
	h := b.hosts[name]
	if h == nil {
		h = &hostState{name: name}
		b.hosts[name] = h
	}
	return h
}

// reach tells which hosts have targets of a service or with a tag.
type reach struct {
	services map[string][]*hostState
	tags     map[string][]*hostState
}

func newReach(hosts map[string]*hostState) *reach {
	r := &reach{make(map[string][]*hostState), make(map[string][]*hostState)}
	for _, h := range hosts {
		for _, c := range h.next {
			r.note(h, c)
		}
	}
	return r
}

func (r *reach) note(h *hostState, c *Command) {
	if c.Verb != Add {
		return
	}
	add := func(m map[string][]*hostState, key string) {
		if list := m[key]; len(list) == 0 || list[len(list)-1] != h {
			m[key] = append(list, h)
		}
	}
	add(r.services, c.Service)
	for _, tag := range c.Tags {
		add(r.tags, tag)
	}
}

// touched returns the hosts that c, a Del without a source, may touch. A host may come twice in a row.
func (r *reach) touched(c *Command) []*hostState {
	if c.Service != "" {
		return r.services[c.Service]
	}
	return r.tags[c.Tags[0]]
}
