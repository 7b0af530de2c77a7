package metrics

import (
	"sync"
	"time"
)

// Stats are a target's numbers for the page. All but InFlight, Open, P50 and P99 only grow: rates are differences.
type Stats struct {
	// Requests are the finished ones; Errors those of them answered with 5xx.
	Requests, Errors uint64
	// Codes are the requests by class: Codes[2] are the 2xx, Codes[0] what has no class.
	Codes [6]uint64
	// Rx are bytes from the upstream to the client, Tx those to the upstream.
	Rx, Tx uint64
	// Retries are requests tried again after they failed here.
	Retries uint64
	// UpstreamErrors are the failed tries, by ErrorKind.
	UpstreamErrors [errorKinds]uint64
	// Conns are the tunnels opened so far, Open those open now.
	Conns uint64
	Open  int64
	// InFlight are the requests being served now.
	InFlight int64
	// P50 and P99 are what half and 99 % of the latest requests took at most; 0 without one. The latest are those of
	// the last half minute or so, as long as somebody asks at least that often, else those since the last call.
	P50, P99 time.Duration
}

// Stats reads the numbers. It never holds up those who count.
func (t *Target) Stats() Stats {
	l := t.live.Load()
	if l == nil {
		return Stats{}
	}
	b := t.m.bounds
	s := Stats{
		Rx: l.rx.Load(), Tx: l.tx.Load(), Retries: l.retries.Load(),
		Conns: l.conns.Load(), Open: l.open.Load(), InFlight: l.inFlight.Load(),
	}
	for k := range l.errors {
		s.UpstreamErrors[k] = l.errors[k].Load()
	}
	var buf [2 * (maxBuckets + 2)]uint64
	words, all := buf[:b.width()], buf[maxBuckets+2:][:b.width()]
	for _, c := range l.statuses() {
		clear(words)
		c.addTo(words)
		addWords(all, words)
		n := countOf(words)
		s.Requests += n
		s.Codes[classOf(c.code)] += n
	}
	s.Errors = s.Codes[5]
	s.P50, s.P99 = l.recent.quantiles(t.m.now(), b, all)
	return s
}

// window remembers what a histogram was some time ago. The zero value is ready.
type window struct {
	mu           sync.Mutex // guards the fields below
	at           time.Time  // when newer was read
	older, newer []uint64   // nil is all zero
}

// windowStep is the age at which newer becomes older: quantiles cover one to two steps.
const windowStep = 15 * time.Second

// quantiles are the 0.5 and 0.99 quantiles of what came since older, given all that ever came. It overwrites all.
func (w *window) quantiles(now time.Time, b bounds, all []uint64) (p50, p99 time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.newer == nil:
		w.newer = append([]uint64(nil), all...)
		w.at = now
	case now.Sub(w.at) >= windowStep:
		if w.older == nil {
			w.older = make([]uint64, len(all))
		}
		w.older, w.newer = w.newer, w.older
		copy(w.newer, all)
		w.at = now
	}
	for i, n := range w.older {
		all[i] -= min(n, all[i])
	}
	return b.quantile(0.5, all), b.quantile(0.99, all)
}
