package route

import (
	"math"
	"math/bits"
	"math/rand/v2"
)

// random picks by Walker's alias method: the targets are columns of equal width, and each column is filled up by at
// most one other target. A random number chooses a column, what is left of it chooses between the two. One pick costs
// one random number, however many targets there are.
type random struct {
	n     uint64
	owns  []uint64 // the part of each column, in 1/2^64, that its own target has; nil: all of it
	other []int32  // who has the rest
}

func newRandom(targets []*Target, _ *Route) picker {
	n := len(targets)
	p := &random{n: uint64(n)}
	if equalShares(targets) {
		return p
	}
	p.owns, p.other = make([]uint64, n), make([]int32, n)
	// Vose's way to fill the columns: a short one takes what it lacks from a tall one.
	height := make([]float64, n)
	var short, tall []int32
	sum := 0.0
	for _, t := range targets {
		sum += t.Weight
	}
	for i, t := range targets {
		height[i] = t.Weight / sum * float64(n)
		if height[i] < 1 {
			short = append(short, int32(i))
		} else {
			tall = append(tall, int32(i))
		}
	}
	for len(short) > 0 && len(tall) > 0 {
		s, t := short[len(short)-1], tall[len(tall)-1]
		short = short[:len(short)-1]
		p.owns[s], p.other[s] = uint64(math.Ldexp(height[s], 64)), t
		height[t] -= 1 - height[s]
		if height[t] < 1 {
			tall = tall[:len(tall)-1]
			short = append(short, t)
		}
	}
	// What is left is full up to rounding.
	for _, i := range append(short, tall...) {
		p.owns[i], p.other[i] = math.MaxUint64, i
	}
	return p
}

func equalShares(targets []*Target) bool {
	for _, t := range targets[1:] {
		if t.Weight != targets[0].Weight {
			return false
		}
	}
	return true
}

func (p *random) next() int { return p.at(rand.Uint64()) }

// at returns the index for the random number x.
func (p *random) at(x uint64) int {
	column, rest := bits.Mul64(x, p.n)
	if p.owns == nil || rest < p.owns[column] {
		return int(column)
	}
	return int(p.other[column])
}
