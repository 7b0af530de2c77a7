package route

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// How the commands that touch one host become its routes.
//
// The commands are executed in their order on drafts of the routes. A draft lists what was added and not deleted since:
// targets, but also adds that cannot become a target, because they are known to be down or were refused. As long as
// one of these is left the route is left, and if there is nothing else it answers 503: its traffic does not slide to
// a broader route. What was deleted again is never bound and never reported.
//
// Then each draft is frozen. Targets that the old route has too keep what was bound to them; the others are bound now.
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

// routeKey identifies a route within its host.
type routeKey struct {
	path  string
	match Match
}

// freeze makes a host of the drafts, nil if no route is left. old is what it replaces, nil if there was none.
func (w *workshop) freeze(old *host, out *Build) *host {
	was := make(map[routeKey]*Route) // those of old that are not replaced
	if old != nil {
		for _, r := range old.routes {
			was[routeKey{r.Path, r.Match}] = r
		}
	}
	h, err := newHost(w.state.name, w.b.exact)
	if err != nil {
		for _, d := range w.drafts {
			w.refuseAll(d, fmt.Errorf("host %w", err))
		}
		w.drafts = nil
	}
	var routes []*Route
	kept := 0
	for _, d := range w.drafts {
		key := routeKey{d.path, d.match}
		before := was[key]
		r := w.route(d, before, out)
		if r == nil {
			continue
		}
		delete(was, key)
		if r == before {
			kept++
		}
		routes = append(routes, r)
	}
	if old != nil {
		for _, r := range old.routes {
			if was[routeKey{r.Path, r.Match}] == r {
				out.Removed = newIdentities(r).release(out.Removed)
			}
		}
		if kept == len(routes) && kept == len(old.routes) {
			return old
		}
	}
	if len(routes) == 0 {
		return nil
	}
	slices.SortFunc(routes, byListing)
	h.routes = routes
	h.paths = newPaths(sortedLike(routes, bySpecific), w.b.few)
	for _, r := range h.paths.routes {
		if r.Path == "" || r.Path == "/" {
			h.conn = r
			break
		}
	}
	return h
}

// byListing is the order in which the routes of a host are listed.
func byListing(a, b *Route) int {
	if c := strings.Compare(b.Path, a.Path); c != 0 {
		return c
	}
	return a.Match.rank() - b.Match.rank()
}

// refuseAll refuses all of d for the same reason.
func (w *workshop) refuseAll(d *draft, err error) {
	for _, e := range d.entries {
		w.refuse(e.command, err)
	}
}

// route makes a route of d, nil if nothing is left of it. before is what it replaces, nil if there was none.
func (w *workshop) route(d *draft, before *Route, out *Build) *Route {
	if len(d.entries) == 0 {
		return nil
	}
	p, err := matchers[d.match.rank()].compile(d.path)
	if err != nil {
		w.refuseAll(d, fmt.Errorf("path cannot be matched by %s: %w", d.match, err))
		return nil
	}
	r := &Route{Host: w.state.name, Path: d.path, Match: d.match, pattern: p}
	r.Targets = w.targets(d, r, newIdentities(before), out)
	picks := w.strategy(r)
	r.Strategy = picks.name
	if before != nil && slices.Equal(before.Targets, r.Targets) {
		return before
	}
	r.live = withShare(r.Targets)
	switch {
	case len(r.live) > 0:
		r.picker = picks.make(r.live, before)
	case before != nil:
		r.picker = before.picker // not used, but the one to come goes on where it was
	}
	return r
}

// targets makes targets of the entries of d and binds those that are new.
func (w *workshop) targets(d *draft, r *Route, ids *identities, out *Build) []*Target {
	targets := make([]*Target, 0, len(d.entries))
	bound := make([]*entry, 0, len(d.entries)) // of targets
	for _, e := range d.entries {
		if e.refused != nil {
			w.refuse(e.command, e.refused)
		}
		if e.url == nil {
			continue
		}
		c := e.command
		t := &Target{
			Service: c.Service, Host: r.Host, Path: r.Path, Match: r.Match, URL: e.url, Dst: c.Dst,
			FixedWeight: e.fixed, Tags: c.Tags, Opts: c.Opts, Origin: c.Origin,
		}
		if id := ids.find(t); id != nil {
			id.kept = true
			t.Bound = id.target.Bound
		} else {
			if w.b.bind != nil {
				var err error
				if t.Bound, err = w.b.bind(t); err != nil {
					w.refuse(c, err)
					if e.group != nil {
						e.group.size--
					}
					continue
				}
			}
			ids.add(t, true)
			out.Added++
		}
		targets = append(targets, t)
		bound = append(bound, e)
	}
	for i, e := range bound {
		if e.group != nil { // may have lost members
			targets[i].FixedWeight = e.group.weight / float64(e.group.size)
		}
	}
	weigh(targets)
	for i, t := range targets {
		if id := ids.find(t); id.target.same(t) {
			targets[i] = id.target
		}
	}
	out.Removed = ids.release(out.Removed)
	return targets
}

// strategy returns that of r: the first target that names one decides.
func (w *workshop) strategy(r *Route) *strategy {
	var chosen *strategy
	for _, t := range r.Targets {
		name, ok := t.Opts.Get("strategy")
		if !ok {
			continue
		}
		if chosen == nil {
			chosen, _ = findStrategy(name) // add has done it before
		} else if name != chosen.name {
			w.problems = append(w.problems, problem(&Command{
				Verb: Add, Service: t.Service, Src: t.Host + t.Path, Dst: t.Dst, Tags: t.Tags, Opts: t.Opts, Origin: t.Origin,
			}, &fieldError{"option", "strategy=" + name + " is not used: an earlier target of the route says " + chosen.name,
				"all targets of a route share one strategy"}))
		}
	}
	if chosen == nil {
		return w.b.strategy
	}
	return chosen
}

// identities are those of the targets of one route.
type identities struct {
	list  []identity
	index map[string]int // by key; nil for few
}

type identity struct {
	target *Target
	kept   bool
}

// newIdentities returns those of r, which may be nil; none is kept yet.
func newIdentities(r *Route) *identities {
	ids := &identities{}
	if r != nil {
		for _, t := range r.Targets {
			if ids.find(t) == nil {
				ids.add(t, false)
			}
		}
	}
	return ids
}

func (ids *identities) add(t *Target, kept bool) {
	ids.list = append(ids.list, identity{t, kept})
	switch {
	case ids.index != nil:
		ids.index[identityKey(t)] = len(ids.list) - 1
	case len(ids.list) > fewRoutes:
		ids.index = make(map[string]int, 2*len(ids.list))
		for i, id := range ids.list {
			ids.index[identityKey(id.target)] = i
		}
	}
}

// find returns the identity of t, nil if it is new.
func (ids *identities) find(t *Target) *identity {
	if ids.index != nil {
		if i, ok := ids.index[identityKey(t)]; ok {
			return &ids.list[i]
		}
		return nil
	}
	for i := range ids.list {
		if ids.list[i].target.identical(t) {
			return &ids.list[i]
		}
	}
	return nil
}

// release appends what was bound to identities that were not kept.
func (ids *identities) release(list []any) []any {
	for _, id := range ids.list {
		if !id.kept && id.target.Bound != nil {
			list = append(list, id.target.Bound)
		}
	}
	return list
}

// identityKey is equal for targets of a route that are identical, and only for them.
func identityKey(t *Target) string {
	var b []byte
	part := func(s string) {
		b = strconv.AppendInt(b, int64(len(s)), 10)
		b = append(b, ':')
		b = append(b, s...)
	}
	part(t.Service)
	part(t.Dst)
	part(t.Opts.String())
	for _, tag := range t.Tags {
		part(tag)
	}
	return string(b)
}
