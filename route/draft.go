package route

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
)

// How the commands that touch one host become its routes.
//
// The commands are executed in their order on drafts of the routes. A draft lists what was added and not deleted since:
// targets, but also adds that cannot become a target, because they are known to be down or were refused. As long as
// one of these is left the route is left, and if there is nothing else it answers 503: its traffic does not slide to
// a broader route. What was deleted again is never bound and never reported.
//
// Then each draft is frozen (freeze.go). Targets that the old route has too keep what was bound to them; the others are bound now.
// Whatever turns out equal to its old self is the old one: target, route, host.

// draft is a route in the making.
type draft struct {
	path    string
	match   Match
	entries []*entry
	alike   map[string][]*entry // entries with the same service, destination and tags; nil for few
}

// entry is one `route add` that was not deleted since.
type entry struct {
	command *Command
	url     *url.URL // nil if it cannot become a target
	dst     string   // by which destinations are compared
	refused error    // why it cannot become a target; nil without url: it is down
	fixed   float64
	group   *group // the last `route weight` that set fixed, if any
}

// group is the targets that share the weight of one command.
type group struct {
	weight float64
	size   int
}

// workshop is where the commands of one host are executed.
type workshop struct {
	b        *Builder
	state    *hostState
	drafts   []*draft
	byPath   map[string][]*draft // nil for few
	problems []Problem
}

// compile executes the commands of h and sets its host and problems. What else there is to say it adds to out.
func (b *Builder) compile(h *hostState, out *Build) {
	w := &workshop{b: b, state: h}
	for _, c := range h.commands {
		err := c.check()
		if err != nil {
			w.refuse(c, err)
			if c.Verb != Add || checkWord("source", c.Src) != nil || checkSrc(c.Src) != nil {
				continue
			}
		}
		switch c.Verb {
		case Add:
			w.add(c, err != nil)
		case Del:
			w.del(c)
		case Weight:
			w.weight(c)
		}
	}
	old := h.host
	h.host = w.freeze(old, out)
	h.problems = w.problems
}

func (w *workshop) refuse(c *Command, err error) {
	w.problems = append(w.problems, problem(c, err))
}

// add executes `route add`. A command that was refused before keeps its route.
func (w *workshop) add(c *Command, refused bool) {
	_, path := splitSrc(c.Src)
	e := &entry{command: c, fixed: c.Weight, dst: c.Dst}
	match := w.b.match
	if name, ok := c.Opts.Get("match"); ok {
		if m, err := parseMatch(name); err == nil {
			match = m
		} else {
			e.refused = fmt.Errorf("option match: %w", err)
		}
	}
	if name, ok := c.Opts.Get("strategy"); ok && e.refused == nil {
		if _, err := findStrategy(name); err != nil {
			e.refused = fmt.Errorf("option strategy: %w", err)
		}
	}
	if !refused && !c.Down && e.refused == nil {
		e.url, e.refused = parseDst(c.Dst)
		if e.url != nil {
			e.dst = urlText(e.url, c.Dst)
		}
	}
	d := w.draft(path, match)
	if same := d.find(e); same != nil {
		if e.url != nil && !slices.Equal(same.command.Opts, c.Opts) {
			w.refuse(c, errors.New("dropped: an earlier target differs only in its options"))
		}
		return
	}
	d.entries = append(d.entries, e)
	if d.alike != nil {
		d.alike[e.key()] = append(d.alike[e.key()], e)
	}
}

// draft returns the one for path and match, a new one if need be.
func (w *workshop) draft(path string, match Match) *draft {
	for _, d := range w.withPath(path) {
		if d.match == match && d.path == path {
			return d
		}
	}
	d := &draft{path: path, match: match}
	w.drafts = append(w.drafts, d)
	if w.byPath != nil {
		w.byPath[path] = append(w.byPath[path], d)
	}
	return d
}

// withPath returns all drafts for path; there may be others among them.
func (w *workshop) withPath(path string) []*draft {
	if len(w.drafts) <= fewRoutes {
		return w.drafts
	}
	if w.byPath == nil {
		w.byPath = make(map[string][]*draft, 2*len(w.drafts))
		for _, d := range w.drafts {
			w.byPath[d.path] = append(w.byPath[d.path], d)
		}
	}
	return w.byPath[path]
}

// find returns an entry that makes e superfluous.
func (d *draft) find(e *entry) *entry {
	list := d.entries
	if len(list) > fewRoutes {
		if d.alike == nil {
			d.alike = make(map[string][]*entry, 2*len(list))
			for _, f := range list {
				d.alike[f.key()] = append(d.alike[f.key()], f)
			}
		}
		list = d.alike[e.key()]
	}
	for _, f := range list {
		if (f.url == nil) == (e.url == nil) && e.refused == nil && f.fixed == e.fixed &&
			f.dst == e.dst && f.command.Service == e.command.Service && slices.Equal(f.command.Tags, e.command.Tags) {
			return f
		}
	}
	return nil
}

func (e *entry) key() string {
	return e.command.Service + "\x00" + e.dst + "\x00" + strings.Join(e.command.Tags, "\x00")
}

// del executes `route del`.
func (w *workshop) del(c *Command) {
	drafts, path, dst := w.drafts, "", ""
	if c.Src != "" {
		_, path = splitSrc(c.Src)
		drafts = w.withPath(path)
	}
	if c.Dst != "" {
		u, _ := parseDst(c.Dst) // check has done it before
		dst = urlText(u, c.Dst)
	}
	for _, d := range drafts {
		if c.Src != "" && d.path != path {
			continue
		}
		n := len(d.entries)
		d.entries = slices.DeleteFunc(d.entries, func(e *entry) bool {
			return (c.Service == "" || e.command.Service == c.Service) && (dst == "" || e.dst == dst) && hasAll(e.command.Tags, c.Tags)
		})
		if len(d.entries) < n {
			d.alike = nil
		}
	}
}

// weight executes `route weight`: the targets that match share the weight.
func (w *workshop) weight(c *Command) {
	_, path := splitSrc(c.Src)
	there, known := false, false
	for _, d := range w.withPath(path) {
		if d.path != path {
			continue
		}
		there = there || len(d.entries) > 0
		g := &group{weight: c.Weight}
		for _, e := range d.entries {
			if c.Service != "" && e.command.Service != c.Service {
				continue
			}
			if e.url == nil { // down or refused: the command is right, but has nothing to do
				known = true
				continue
			}
			if hasAll(e.command.Tags, c.Tags) {
				known = true
				e.group = g
				g.size++
			}
		}
		g.spread(d.entries)
	}
	if !known {
		err := &fieldError{"weight", "is not used: no target matches", "no route has this source"}
		if there {
			err.hint = "the route has no such target before this line"
		}
		w.refuse(c, err)
	}
}

// spread gives the entries of g their part.
func (g *group) spread(entries []*entry) {
	for _, e := range entries {
		if e.group == g {
			e.fixed = g.weight / float64(g.size)
		}
	}
}

// hasAll reports whether list contains all of want.
func hasAll(list, want []string) bool {
	for _, s := range want {
		if !slices.Contains(list, s) {
			return false
		}
	}
	return true
}
