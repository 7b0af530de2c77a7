package route

import (
	"fmt"
	"slices"
	"strings"
)

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
