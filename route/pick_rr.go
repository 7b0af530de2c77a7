package route

import (
	"cmp"
	"math"
	"math/bits"
	"slices"
	"sync/atomic"
)

// roundRobin lets the targets take turns, spaced as evenly as their weights allow.
//
// Its only state is one counter, the number of picks so far; whose turn it is follows from it by arithmetic, so there
// is no ring and no lock. Targets with the same weight form a class and take turns in it one after the other. Two
// classes with weights a and b share the picks as Bresenham's algorithm draws a line with slope α = a/(a+b): pick n
// belongs to the first if ⌊(n+1)α⌋ > ⌊nα⌋, and it is then the class's own pick number ⌊nα⌋, else the other's pick
// number n-⌊nα⌋. More than two classes are a tree of such pairs, built by joining the two lightest again and again
// (Huffman), so that heavy classes are found soon; each node passes its own numbers down. For shares of .5, .25 and
// .25 the picks are
//
//	n       0 1 2 3 4 5 6 7
//	class   h l h l h l h l      l holds b and c
//	target  a b a c a b a c
//
// No node strays by more than one pick from its share of what its parent got, and Huffman's joins leave no inner node
// more than two thirds of its parent. So every target has, after any number of picks, what its share says give or
// take four, and mostly one.
//
// The counter belongs to the route and lives on when the table changes. If all weights are equal, an offset is set so
// that the target that was next stays next, or its successor if it left: an instance that comes or goes does not send
// the next request back to the first.
type roundRobin struct {
	picks  *atomic.Uint64
	offset uint64
	size   uint64  // how many targets
	tree   *rrTree // nil when all weights are equal
}

type rrTree struct {
	root    int32
	pairs   []rrPair
	classes [][]int32 // indices of targets
}

// rrPair is an inner node. left and right are the index of a pair, or if negative the complement of that of a class.
type rrPair struct {
	left, right int32
	slope       uint64 // the part, in 1/2^64, that goes to left, the lighter
}

func newRoundRobin(targets []*Target, old *Route) picker {
	p := &roundRobin{size: uint64(len(targets))}
	var before *roundRobin
	if old != nil {
		before, _ = old.picker.(*roundRobin)
	}
	if before == nil {
		p.picks = new(atomic.Uint64)
	} else {
		p.picks = before.picks
	}
	if !equalShares(targets) {
		p.tree = newTree(targets)
	} else if before != nil && before.tree == nil {
		p.offset = before.continued(old.live, targets)
	}
	return p
}

// classesOf groups targets by weight; the classes are in the order of their first targets.
func classesOf(targets []*Target) [][]int32 {
	var classes [][]int32
	place := make(map[float64]int, 1)
	for i, t := range targets {
		c, ok := place[t.Weight]
		if !ok {
			c = len(classes)
			place[t.Weight] = c
			classes = append(classes, nil)
		}
		classes[c] = append(classes[c], int32(i))
	}
	return classes
}

func newTree(targets []*Target) *rrTree {
	t := &rrTree{classes: classesOf(targets)}
	type node struct {
		weight float64
		id     int32
	}
	// Each in ascending order. Of two with equal weight the heavier, which starts, is the one whose targets come first.
	var leaves, joined []node
	for c, members := range t.classes {
		leaves = append(leaves, node{targets[members[0]].Weight * float64(len(members)), ^int32(c)})
	}
	slices.SortFunc(leaves, func(a, b node) int {
		return cmp.Or(cmp.Compare(a.weight, b.weight), cmp.Compare(a.id, b.id)) // ids of leaves fall
	})
	lightest := func() (n node) {
		if len(joined) == 0 || len(leaves) > 0 && leaves[0].weight < joined[0].weight {
			n, leaves = leaves[0], leaves[1:]
		} else {
			n, joined = joined[0], joined[1:]
		}
		return n
	}
	for len(leaves)+len(joined) > 1 {
		a, b := lightest(), lightest()
		id := int32(len(t.pairs))
		// Rounded up, so that a third of 3 is 1.
		slope := uint64(math.Ldexp(a.weight/(a.weight+b.weight), 64)) + 1<<11
		t.pairs = append(t.pairs, rrPair{a.id, b.id, slope})
		joined = append(joined, node{a.weight + b.weight, id})
	}
	t.root = lightest().id
	return t
}

func (p *roundRobin) next() int { return p.at(p.picks.Add(1) - 1) }

// at returns the index for pick number n.
func (p *roundRobin) at(n uint64) int {
	if p.tree == nil {
		return int((n + p.offset) % p.size)
	}
	return p.tree.at(n)
}

func (t *rrTree) at(n uint64) int {
	i := t.root
	for i >= 0 {
		pair := &t.pairs[i]
		before, _ := bits.Mul64(n, pair.slope)
		after, _ := bits.Mul64(n+1, pair.slope)
		if after > before {
			i, n = pair.left, before
		} else {
			i, n = pair.right, n-before
		}
	}
	members := t.classes[^i]
	return int(members[n%uint64(len(members))])
}

// continued returns the offset with which a picker for targets goes on where p, a picker for old, is now. All targets
// of both have equal weights.
func (p *roundRobin) continued(old, targets []*Target) uint64 {
	if len(old) == 0 || slices.EqualFunc(old, targets, func(t, u *Target) bool { return t.Dst == u.Dst }) {
		return p.offset
	}
	place := make(map[string]uint64, len(targets))
	for i, t := range targets {
		if _, ok := place[t.Dst]; !ok {
			place[t.Dst] = uint64(i)
		}
	}
	picks, size := p.picks.Load(), uint64(len(targets))
	first := (picks + p.offset) % uint64(len(old))
	for i := range uint64(len(old)) {
		if j, ok := place[old[(first+i)%uint64(len(old))].Dst]; ok {
			return (j + size - picks%size) % size
		}
	}
	return p.offset
}
