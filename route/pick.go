package route

import (
	"fmt"
	"slices"
)

// Who is next.
//
// A picker is made for the targets of a route that have a share and answers the index of the next one. It holds
// memory in proportion to the targets, whatever their weights; it is safe for concurrent use, takes no lock and
// allocates nothing. When a table is rebuilt, each picker is made from the one before it, so that a strategy that
// remembers something (rr: whose turn it is) goes on where it was.

// A strategy makes pickers. To add one, write pick_NAME.go and a line in strategies.
type strategy struct {
	name, help string
	// make returns a picker for targets, of which there is at least one. old is what picked for this route before,
	// nil if nothing did; it may be of another strategy and may still be in use.
	make func(targets []*Target, old *Route) picker
}

type picker interface {
	// next returns the index of the target whose turn it is.
	next() int
}

var strategies = []strategy{
	{"rnd", "at random, each target as often as its weight says", newRandom},
	{"rr", "in turn, evenly spaced by weight; goes on where it was when the table changes", newRoundRobin},
}

// Strategies lists the strategies for help texts and documents.
func Strategies() []Named {
	var list []Named
	for _, s := range strategies {
		list = append(list, Named{s.name, s.help})
	}
	return list
}

func findStrategy(name string) (*strategy, error) {
	names := make([]string, len(strategies))
	for i := range strategies {
		if strategies[i].name == name {
			return &strategies[i], nil
		}
		names[i] = strategies[i].name
	}
	return nil, fmt.Errorf("%q: want %s", name, oneOf(names))
}

// Pick returns the target whose turn it is. Nil means that no target may get traffic now: the answer is 503.
func (r *Route) Pick() *Target {
	switch len(r.live) {
	case 0:
		return nil
	case 1:
		return r.live[0]
	}
	return r.live[r.picker.next()]
}

// PickOther returns a target to try after tried failed: one with a share and with another destination than any of
// them. Nil means that there is none.
func (r *Route) PickOther(tried ...*Target) *Target {
	if len(r.live) == 0 {
		return nil
	}
	i := r.picker.next()
	for range r.live {
		if t := r.live[i]; !destinationIn(tried, t) {
			return t
		}
		if i++; i == len(r.live) {
			i = 0
		}
	}
	return nil
}

func destinationIn(list []*Target, t *Target) bool {
	for _, u := range list {
		if u == t || u != nil && u.Dst == t.Dst {
			return true
		}
	}
	return false
}

// withShare returns the targets that have a share: targets itself if all have.
func withShare(targets []*Target) []*Target {
	none := func(t *Target) bool { return t.Weight <= 0 }
	if !slices.ContainsFunc(targets, none) {
		return targets
	}
	return slices.DeleteFunc(slices.Clone(targets), none)
}
