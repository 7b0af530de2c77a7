// Package metrics counts what varco does and answers when Prometheus asks.
//
// Metrics has a typed field for each thing that is counted once per process, and a Target for each target of the
// table, with a latency histogram per status. Whoever counts holds the pointer and adds to atomic words: no lock, no
// look-up by label, no allocation. What has no traffic has no words: an idle target costs a few hundred bytes.
//
// Everything else happens at a scrape: a Collector reads the targets (target.go), adds them up by service (service.go),
// decides which have series of their own and sums the rest (fold.go), and makes the series (collect.go). describe.go
// is the list of all metrics. Nothing is pushed, and no goroutine runs between scrapes.
//
// A Target belongs to its labels, not to a table: it counts on through updates, and its series end when the last
// holder of a reference releases it. Its share in the numbers of its service stays.
package metrics

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

// Metrics holds every metric. All fields and methods are safe for concurrent use.
type Metrics struct {
	// NotFound counts requests and connections that no route matched, HTTP and TCP.
	NotFound Counter
	// RouteDown counts those whose route has no target to give them to (503).
	RouteDown Counter
	// HTTPDenied and TCPDenied count those that an allow or deny option refused.
	HTTPDenied, TCPDenied Counter

	// WSConns are the open WebSocket tunnels.
	WSConns Gauge
	// TCPConn are TCP connections accepted, TCPConnFail those whose upstream was not reached, TCPNoRoute those that no
	// route matched. TCPConns are the open TCP tunnels.
	TCPConn, TCPConnFail, TCPNoRoute Counter
	TCPConns                         Gauge

	// Connections are the open client connections of all listeners.
	Connections Gauge
	// AcceptErrors are failures to accept a connection, such as too many open files.
	AcceptErrors Counter

	// Times a limit was hit: connections of all listeners, requests at one upstream, retries.
	ConnLimited, UpstreamLimited, RetryLimited Counter

	// What the table in use holds.
	TableRoutes, TableTargets, TableHosts Gauge
	// TableTime is when the table last changed, TableUpdates how often it did, UpdateSeconds how long it takes from a
	// new set of routes to the table in use.
	TableTime     Time
	TableUpdates  Counter
	UpdateSeconds *Histogram
	// RejectedTags are the tags and lines that are refused now.
	RejectedTags Gauge

	// LogDropped are lines of the access log that were dropped because its file or pipe was too slow.
	LogDropped Counter
	// Panics are panics caught while serving a request or connection: faults of varco.
	Panics Counter

	redirects, answers codeCounters
	upstreamErrors     [errorKinds]Counter
	retries            Counter
	queries            queries

	bounds  bounds
	seconds []float64 // the bounds as they were configured
	start   time.Time
	now     func() time.Time

	registry *prometheus.Registry
	families map[string]*family
	single   []single

	// mu guards the fields below. It is held for moments only: an update of the table waits for it, a request never.
	mu       sync.Mutex
	targets  map[TargetLabels]*Target
	services map[string]*service
	born     uint64    // targets and services so far
	leaving  []*Target // without references, or with new ones by now
	sweepAt  int       // length of leaving at which Release sweeps

	// folding guards the fields below and what targets and services keep for scrapes: a scrape holds it from beginning
	// to end. It is taken before mu; after mu it may only be tried.
	folding                       sync.Mutex
	byTarget, byService, byStatus *fold
}

// New makes the metrics. An error names the key of the configuration that is wrong.
func New(c Config) (*Metrics, error) {
	s, err := c.compile()
	if err != nil {
		return nil, err
	}
	m := &Metrics{
		UpdateSeconds: NewHistogram(.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30),
		bounds:        newBounds(s.buckets),
		seconds:       s.buckets,
		now:           time.Now,
		start:         time.Now(),
		targets:       map[TargetLabels]*Target{},
		services:      map[string]*service{},
		sweepAt:       minSweep,
	}
	width := m.bounds.width()
	m.byTarget = newFold(s.places, width+targetCounts, targetGauges)
	m.byService = newFold(s.places, width, 0)
	m.byStatus = newFold(s.places, width, 0)
	m.byTarget.openOther(0)
	m.byService.openOther(0)

	m.families = families(s.namespace, s.subsystem)
	m.single = m.singles(c.Version)
	m.registry = prometheus.NewRegistry()
	for _, part := range []prometheus.Collector{
		collector{m},
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	} {
		if err := m.registry.Register(part); err != nil {
			return nil, fmt.Errorf("metrics.prefix: %w", err)
		}
	}
	return m, nil
}

// Acquire gives the Target of these labels and counts a reference to it: the same labels give the same *Target as long
// as somebody holds a reference. An update acquires what comes before it releases what goes; should it be the other
// way round, the numbers go on all the same if no more than linger lies between.
//
// Labels that are no UTF-8 or longer than maxLabel are made fit; should that make two targets the same, they are
// counted together.
func (m *Metrics) Acquire(l TargetLabels) *Target {
	l = TargetLabels{labelValue(l.Service), labelValue(l.Host), labelValue(l.Path), labelValue(l.Target)}
	m.mu.Lock()
	defer m.mu.Unlock()
	t := m.targets[l]
	if t == nil {
		m.born++
		t = &Target{m: m, labels: l, service: m.service(l.Service), born: m.born}
		t.service.targets++
		m.targets[l] = t
	}
	t.refs++
	return t
}

// Release gives back a reference; a nil t has none. With the last one the target's series end. What its last requests
// still count is kept for its service.
func (m *Metrics) Release(t *Target) {
	if t == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if t.refs--; t.refs > 0 {
		return
	}
	t.left = m.now()
	if !t.leaving {
		t.leaving = true
		m.leaving = append(m.leaving, t)
	}
	if len(m.leaving) >= m.sweepAt && m.folding.TryLock() {
		m.sweep(t.left)
		m.sweepAt = 2*len(m.leaving) + minSweep
		m.folding.Unlock()
	}
}

const (
	// linger is how long a target without references is kept: a request that chose it just before counts, too.
	linger = time.Minute
	// minSweep is how many targets may leave between two scrapes before they are looked through.
	minSweep = 1024
)

// sweep drops the targets that left a while ago and where nothing goes on. Its caller holds both locks.
func (m *Metrics) sweep(now time.Time) {
	m.leaving = slices.DeleteFunc(m.leaving, func(t *Target) bool {
		switch {
		case t.refs > 0: // it came back
			t.leaving = false
			return true
		case now.Sub(t.left) < linger || !t.idle():
			return false
		}
		m.drop(t)
		return true
	})
}

func (m *Metrics) drop(t *Target) {
	delete(m.targets, t.labels)
	s := t.service
	if l := t.live.Load(); l != nil {
		words := make([]uint64, m.byTarget.width+m.byTarget.gauges)
		t.read(words)
		m.byTarget.leave(reading{row: t, words: words})
		s.absorb(l, m.bounds.width())
	}
	if s.targets--; s.targets > 0 {
		return
	}
	s.begin()
	s.finish()
	m.byService.leave(reading{row: s, words: s.sums})
	for _, st := range s.statuses {
		m.byStatus.leave(reading{row: st, words: st.sums})
	}
	delete(m.services, s.name)
}

func (m *Metrics) service(name string) *service {
	s := m.services[name]
	if s == nil {
		m.born++
		s = &service{name: name, sums: make([]uint64, m.bounds.width()), born: m.born}
		m.services[name] = s
	}
	return s
}

// maxLabel is the longest value of a label, in bytes.
const maxLabel = 1024

// labelValue makes s fit to be the value of a label.
func labelValue(s string) string {
	if len(s) > maxLabel {
		const dots = "…"
		s = strings.ToValidUTF8(s[:maxLabel-len(dots)], "") + dots
	}
	if utf8.ValidString(s) {
		return s
	}
	return strings.ToValidUTF8(s, "\ufffd")
}

// Answer counts an answer that varco made itself, without an upstream: no route, denied, redirected, refused.
func (m *Metrics) Answer(code int) { m.answers.inc(code) }

// Redirect counts an answer that a redirect option made.
func (m *Metrics) Redirect(code int) { m.redirects.inc(code) }

// codeCounters count by status. Index 0 is for what is no status.
type codeCounters [1000]Counter

func (c *codeCounters) inc(code int) {
	if code < 100 || code >= len(c) {
		code = 0
	}
	c[code].Inc()
}

// each hands the counts that are not zero to f.
func (c *codeCounters) each(f func(code string, n uint64)) {
	for code := range c {
		if n := c[code].Value(); n > 0 {
			f(strconv.Itoa(code), n)
		}
	}
}
