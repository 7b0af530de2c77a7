package metrics

import (
	"math"
	"sync/atomic"
	"time"
)

// cacheLine is the size of a cache line in 8-byte words. Go hands out objects whose size is a multiple of 64 bytes at
// addresses that are a multiple of 64, so that rounding a size up is all it takes to keep two hot objects apart.
const cacheLine = 8

// Histogram counts durations in buckets whose upper bounds never change. Make it with NewHistogram. Safe for concurrent
// use: Observe takes no lock and allocates nothing.
type Histogram struct {
	bounds bounds
	cells
}

// NewHistogram makes a Histogram. The bounds are in seconds and increasing; the bucket for everything above the last
// one comes by itself.
func NewHistogram(seconds ...float64) *Histogram {
	b := newBounds(seconds)
	return &Histogram{bounds: b, cells: newCells(b)}
}

// Observe counts d; a negative d counts as 0.
func (h *Histogram) Observe(d time.Duration) { h.observe(h.bounds, d) }

// bounds are the inclusive upper bounds of the buckets, as Prometheus' le, increasing. There is at least one.
type bounds []time.Duration

func newBounds(seconds []float64) bounds {
	b := make(bounds, len(seconds))
	for i, s := range seconds {
		b[i] = time.Duration(math.Round(s * float64(time.Second)))
	}
	return b
}

// width is the number of words that a histogram with these bounds has: the buckets, the one above the last bound, and
// the sum.
func (b bounds) width() int { return len(b) + 2 }

// cells are the words of a histogram: len(bounds)+1 buckets, not cumulative, then the sum in microseconds. (In
// nanoseconds a busy service with long requests would run over within days.) The count is the sum of the buckets, so
// that an observation costs two atomic additions and the count never disagrees with the buckets.
type cells []atomic.Uint64

func newCells(b bounds) cells {
	n := b.width()
	return make(cells, n, (n+cacheLine-1)/cacheLine*cacheLine)
}

func (c cells) observe(b bounds, d time.Duration) {
	d = max(d, 0)
	i := 0
	for i < len(b) && d > b[i] {
		i++
	}
	c[i].Add(1)
	c[len(b)+1].Add(uint64((d + time.Microsecond/2) / time.Microsecond))
}

// addTo adds the words to sums, which is at least as long.
func (c cells) addTo(sums []uint64) {
	for i := range c {
		sums[i] += c[i].Load()
	}
}

// countOf is the number of observations in the words of a histogram.
func countOf(words []uint64) uint64 {
	var n uint64
	for _, w := range words[:len(words)-1] {
		n += w
	}
	return n
}

func addWords(to, words []uint64) {
	for i, w := range words {
		to[i] += w
	}
}

// quantile estimates the duration that the share q of the observations in words does not exceed. Within a bucket it
// assumes an even spread; above the last bound it answers the last bound. Zero without an observation.
func (b bounds) quantile(q float64, words []uint64) time.Duration {
	n := countOf(words)
	if n == 0 {
		return 0
	}
	rank := q * float64(n)
	var below uint64
	for i, upper := range b {
		in := words[i]
		if in > 0 && float64(below+in) >= rank {
			lower := time.Duration(0)
			if i > 0 {
				lower = b[i-1]
			}
			return lower + time.Duration(float64(upper-lower)*(rank-float64(below))/float64(in))
		}
		below += in
	}
	return b[len(b)-1]
}
