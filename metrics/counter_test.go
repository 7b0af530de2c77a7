package metrics

import (
	"testing"
	"time"
)

func TestCounterOnlyGrows(t *testing.T) {
	var c Counter
	c.Inc()
	c.Add(3)
	c.Add(-2)
	c.Add(0)
	if got := c.Value(); got != 4 {
		t.Errorf("Value() = %d, want 4", got)
	}
}

func TestGauge(t *testing.T) {
	var g Gauge
	g.Inc()
	g.Add(-5)
	g.Dec()
	if got := g.Value(); got != -5 {
		t.Errorf("Value() = %d, want -5", got)
	}
	g.Set(7)
	if got := g.Value(); got != 7 {
		t.Errorf("Value() = %d, want 7", got)
	}
}

func TestTime(t *testing.T) {
	var m Time
	if at, ok := m.Value(); ok {
		t.Errorf("Value() = %v, want none", at)
	}
	now := time.Now()
	m.Set(now)
	if at, ok := m.Value(); !ok || at != now {
		t.Errorf("Value() = %v, %v, want %v", at, ok, now)
	}
}
