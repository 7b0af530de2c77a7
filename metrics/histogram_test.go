package metrics

import (
	"math"
	"slices"
	"testing"
	"time"
)

func TestHistogramBuckets(t *testing.T) {
	h := NewHistogram(.001, .1, 1)
	for _, d := range []time.Duration{
		-time.Second, 0, 1, time.Millisecond, // all in the first: its bound belongs to it
		time.Millisecond + 1, 100 * time.Millisecond,
		time.Second,
		time.Second + 1, time.Hour, math.MaxInt64,
	} {
		h.Observe(d)
	}
	words := make([]uint64, h.bounds.width())
	h.addTo(words)
	if got, want := words[:4], []uint64{4, 2, 1, 3}; !slices.Equal(got, want) {
		t.Errorf("buckets = %v, want %v", got, want)
	}
	if got := countOf(words); got != 10 {
		t.Errorf("count = %d, want 10", got)
	}
}

func TestHistogramSum(t *testing.T) {
	h := NewHistogram(1)
	for _, d := range []time.Duration{499, 500, 1499, time.Millisecond, time.Second, -1} {
		h.Observe(d)
	}
	words := make([]uint64, h.bounds.width())
	h.addTo(words)
	if got, want := words[2], uint64(0+1+1+1000+1_000_000+0); got != want {
		t.Errorf("sum = %d µs, want %d", got, want)
	}
}

func TestQuantile(t *testing.T) {
	b := newBounds([]float64{.1, .2, .4})
	for _, c := range []struct {
		words []uint64
		q     float64
		want  time.Duration
	}{
		{[]uint64{0, 0, 0, 0, 9}, 0.5, 0},
		{[]uint64{10, 0, 0, 0, 9}, 0.5, 50 * time.Millisecond},
		{[]uint64{10, 0, 0, 0, 9}, 1, 100 * time.Millisecond},
		{[]uint64{50, 50, 0, 0, 9}, 0.5, 100 * time.Millisecond},
		{[]uint64{50, 50, 0, 0, 9}, 0.75, 150 * time.Millisecond},
		{[]uint64{0, 0, 100, 0, 9}, 0.5, 300 * time.Millisecond},
		{[]uint64{0, 0, 1, 99, 9}, 0.99, 400 * time.Millisecond}, // above the last bound nothing is known
	} {
		if got := b.quantile(c.q, c.words); got != c.want {
			t.Errorf("quantile(%v, %v) = %v, want %v", c.q, c.words, got, c.want)
		}
	}
}

func TestObserveAllocatesNothing(t *testing.T) {
	h := NewHistogram(.001, .1, 1)
	if n := testing.AllocsPerRun(100, func() { h.Observe(time.Second) }); n != 0 {
		t.Errorf("Observe allocates %v times", n)
	}
}
