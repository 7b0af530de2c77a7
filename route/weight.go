package route

import "math"

// How weights become shares.
//
// A target has a fixed weight, or none: then it is dynamic. Let S be the sum of the fixed weights.
//
//   - Without fixed weights everyone gets the same.
//   - If S exceeds 1, or if all are fixed and S falls short of 1, the fixed weights are scaled to the sum 1; else each
//     is the share itself.
//   - What is then left is spread evenly over the dynamic targets. If nothing is left they get no traffic: that is how
//     a stand-by is made.
//
// So of two targets with .2 and .3 the shares are .4 and .6; of one with .5 and two dynamic ones .5, .25 and .25.

// full is how close to 1 a sum of fixed weights counts as 1: .1+.2+.7 is a bit less than 1 in binary.
const full = 1 - 1e-9

// weigh sets the share of each target from the fixed weights of all.
func weigh(targets []*Target) {
	sum, most := 0.0, 0.0
	fixed := 0
	for _, t := range targets {
		if t.FixedWeight > 0 {
			fixed++
			sum += t.FixedWeight
			most = max(most, t.FixedWeight)
		}
	}
	if math.IsInf(sum, 1) { // weights are finite, their sum need not be
		sum = 0
		for _, t := range targets {
			sum += t.FixedWeight / most
		}
		for _, t := range targets {
			t.Weight = t.FixedWeight / most / sum
		}
		return
	}
	dynamic := len(targets) - fixed
	scale, rest := 1.0, 0.0
	switch {
	case sum >= full || dynamic == 0:
		scale = 1 / sum
	default:
		rest = (1 - sum) / float64(dynamic)
	}
	for _, t := range targets {
		if t.FixedWeight > 0 {
			t.Weight = min(t.FixedWeight*scale, 1)
		} else {
			t.Weight = rest
		}
	}
}
