package metrics

import (
	"sync/atomic"
	"time"
)

// Counter only goes up. The zero value is ready; it must not be copied. Safe for concurrent use, without a lock.
type Counter struct{ n atomic.Uint64 }

// Inc adds one.
func (c *Counter) Inc() { c.n.Add(1) }

// Add adds n; a negative n adds nothing.
func (c *Counter) Add(n int64) {
	if n > 0 {
		c.n.Add(uint64(n))
	}
}

// Value is the count so far.
func (c *Counter) Value() uint64 { return c.n.Load() }

// Gauge goes up and down. The zero value is ready; it must not be copied. Safe for concurrent use, without a lock.
type Gauge struct{ n atomic.Int64 }

// Inc adds one.
func (g *Gauge) Inc() { g.n.Add(1) }

// Dec takes one away.
func (g *Gauge) Dec() { g.n.Add(-1) }

// Add adds n, which may be negative.
func (g *Gauge) Add(n int64) { g.n.Add(n) }

// Set replaces the value.
func (g *Gauge) Set(n int64) { g.n.Store(n) }

// Value is the value now.
func (g *Gauge) Value() int64 { return g.n.Load() }

// Time is a moment whose age is exported. The zero value is "never"; it must not be copied. Safe for concurrent use.
type Time struct{ at atomic.Pointer[time.Time] }

// Set says that it happened at t.
func (m *Time) Set(t time.Time) { m.at.Store(&t) }

// Value is the moment, and false when there was none.
func (m *Time) Value() (time.Time, bool) {
	t := m.at.Load()
	if t == nil {
		return time.Time{}, false
	}
	return *t, true
}
