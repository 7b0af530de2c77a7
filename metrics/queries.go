package metrics

import (
	"context"
	"errors"
	"net"
	"slices"
	"sync"
	"time"
)

// queries counts the queries to the registry by kind. The zero value is ready.
type queries struct {
	mu     sync.Mutex // guards the fields below
	kinds  []string   // in the order in which they were first seen
	byKind map[string]*query
}

// query is the numbers of one kind of query.
type query struct {
	results  [len(queryResults)]Counter
	seconds  *Histogram
	answered Time
}

// queryResults are the values of the label result.
var queryResults = [...]string{"ok", "error", "timeout", "canceled"}

// maxKinds is how many kinds of queries are told apart.
const maxKinds = 32

// Registry counts a query of some kind ("health", "catalog") to the registry, its result and how long it took.
func (m *Metrics) Registry(kind string, err error, d time.Duration) {
	q := m.queries.of(labelValue(kind))
	q.results[queryResult(err)].Inc()
	q.seconds.Observe(d)
	if err == nil {
		q.answered.Set(m.now())
	}
}

func (q *queries) of(kind string) *query {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.byKind[kind] == nil {
		if len(q.kinds) >= maxKinds {
			kind = other
		}
		if q.byKind == nil {
			q.byKind = map[string]*query{}
		}
		if q.byKind[kind] == nil {
			q.byKind[kind] = &query{seconds: NewHistogram(.001, .005, .01, .05, .1, .5, 1, 5, 10, 30, 60, 120, 300, 600)}
			q.kinds = append(q.kinds, kind)
		}
	}
	return q.byKind[kind]
}

// each hands every kind to f.
func (q *queries) each(f func(kind string, q *query)) {
	q.mu.Lock()
	kinds := slices.Clone(q.kinds)
	q.mu.Unlock()
	for _, kind := range kinds {
		f(kind, q.of(kind))
	}
}

func queryResult(err error) int {
	var netErr net.Error
	switch {
	case err == nil:
		return 0
	case errors.Is(err, context.Canceled):
		return 3
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &netErr) && netErr.Timeout():
		return 2
	}
	return 1
}
