package metrics

import (
	"cmp"
	"maps"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// collector reads all metrics at a scrape.
type collector struct{ m *Metrics }

// Describe implements prometheus.Collector.
func (c collector) Describe(ch chan<- *prometheus.Desc) {
	for _, f := range c.m.families {
		ch <- f.desc
	}
}

// Collect implements prometheus.Collector. It sends after it has let go of all locks: a slow receiver holds up nobody.
func (c collector) Collect(ch chan<- prometheus.Metric) {
	s := scrape{m: c.m}
	s.singles()
	s.codes()
	s.queries()
	s.targets()
	for i := range s.all {
		ch <- &s.all[i]
	}
}

// scrape is one reading of everything.
type scrape struct {
	m   *Metrics
	all []series
}

func (s *scrape) value(name string, v float64, labels ...string) {
	f := s.m.families[name]
	s.all = append(s.all, series{family: f, value: v, labels: f.pairs(labels...)})
}

func (s *scrape) histogram(name string, bounds []float64, words []uint64, labels ...string) {
	f := s.m.families[name]
	s.all = append(s.all, series{family: f, bounds: bounds, words: words, labels: f.pairs(labels...)})
}

// single is a series that is always there.
type single struct {
	name   string
	labels []string
	value  func() float64
}

func (m *Metrics) singles(version string) []single {
	var all []single
	add := func(name string, value func() float64, labels ...string) {
		all = append(all, single{name, labels, value})
	}
	count := func(name string, c *Counter, labels ...string) {
		add(name, func() float64 { return float64(c.Value()) }, labels...)
	}
	level := func(name string, g *Gauge) {
		add(name, func() float64 { return float64(g.Value()) })
	}
	count("notfound", &m.NotFound)
	level("ws_conn", &m.WSConns)
	count("tcp_conn", &m.TCPConn)
	count("tcp_connfail", &m.TCPConnFail)
	count("tcp_noroute", &m.TCPNoRoute)
	for k := range m.upstreamErrors {
		count("upstream_errors_total", &m.upstreamErrors[k], ErrorKind(k).String())
	}
	count("upstream_retries_total", &m.retries)
	count("route_down_total", &m.RouteDown)
	count("denied_total", &m.HTTPDenied, "http")
	count("denied_total", &m.TCPDenied, "tcp")
	level("open_connections", &m.Connections)
	level("tcp_open_conns", &m.TCPConns)
	count("accept_errors_total", &m.AcceptErrors)
	count("limit_hits_total", &m.ConnLimited, "connections")
	count("limit_hits_total", &m.UpstreamLimited, "upstream")
	count("limit_hits_total", &m.RetryLimited, "retries")
	count("panics_total", &m.Panics)
	count("log_dropped_total", &m.LogDropped)
	level("table_routes", &m.TableRoutes)
	level("table_targets", &m.TableTargets)
	level("table_hosts", &m.TableHosts)
	count("table_updates_total", &m.TableUpdates)
	level("rejected_tags", &m.RejectedTags)
	revision := "unknown"
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				revision = s.Value
			}
		}
	}
	add("build_info", func() float64 { return 1 }, cmp.Or(version, "unknown"), revision, runtime.Version())
	return all
}

func (s *scrape) singles() {
	m := s.m
	for _, x := range m.single {
		s.value(x.name, x.value(), x.labels...)
	}
	if at, ok := m.TableTime.Value(); ok {
		s.value("table_age_seconds", max(m.now().Sub(at), 0).Seconds())
	}
	s.own("table_update_seconds", m.UpdateSeconds)
}

// own adds a Histogram that brings its own bounds.
func (s *scrape) own(name string, h *Histogram, labels ...string) {
	bounds := make([]float64, len(h.bounds))
	for i, b := range h.bounds {
		bounds[i] = b.Seconds()
	}
	words := make([]uint64, h.bounds.width())
	h.addTo(words)
	s.histogram(name, bounds, words, labels...)
}

func (s *scrape) codes() {
	s.m.redirects.each(func(code string, n uint64) { s.value("http_redirect_count", float64(n), code) })
	s.m.answers.each(func(code string, n uint64) { s.value("http_answers_total", float64(n), code) })
}

func (s *scrape) queries() {
	s.m.queries.each(func(kind string, q *query) {
		for i := range q.results {
			s.value("registry_queries_total", float64(q.results[i].Value()), kind, queryResults[i])
		}
		s.own("registry_query_seconds", q.seconds, kind)
		last, ok := q.answered.Value()
		if !ok {
			last = s.m.start
		}
		s.value("registry_age_seconds", max(s.m.now().Sub(last), 0).Seconds(), kind)
	})
}

// targets adds what the targets did, by target, service and status.
func (s *scrape) targets() {
	s.m.folding.Lock()
	defer s.m.folding.Unlock()
	byTarget, byService, byStatus := s.m.read()
	s.value("route_folded", float64(s.m.byTarget.resting))
	s.value("route_ended_total", float64(countOf(s.m.byTarget.ended[:s.m.bounds.width()])))
	for _, r := range byTarget {
		labels := otherTarget()
		if r.row != nil {
			labels = r.row.(*Target).labels
		}
		s.target(labels, r.words)
	}
	for _, r := range byService {
		name := other
		if r.row != nil {
			name = r.row.(*service).name
		}
		s.histogram("requests", s.m.seconds, r.words, name)
	}
	for _, r := range byStatus {
		code, name := r.key, other
		if r.row != nil {
			code, name = r.row.key(), r.row.(*status).service.name
		}
		s.histogram("http_status", s.m.seconds, r.words, strconv.Itoa(code), name)
	}
}

// read reads the targets, adds them up, and folds.
func (m *Metrics) read() (byTarget, byService, byStatus []reading) {
	now, width := m.now(), m.bounds.width()
	targets, services := m.present(now)

	for _, v := range services {
		v.begin()
	}
	byTarget = make([]reading, 0, len(targets))
	words := arena{size: m.byTarget.width + m.byTarget.gauges}
	for _, t := range targets {
		r := reading{row: t, words: words.next()}
		t.read(r.words)
		byTarget = append(byTarget, r)
		t.service.add(t.live.Load(), width)
	}
	words = arena{size: width}
	for _, v := range services {
		v.finish()
		byService = append(byService, reading{row: v, words: words.copyOf(v.sums)})
		for _, st := range v.statuses {
			byStatus = append(byStatus, reading{row: st, words: words.copyOf(st.sums)})
		}
	}
	return m.byTarget.scrape(now, byTarget), m.byService.scrape(now, byService), m.byStatus.scrape(now, byStatus)
}

// present lists the targets with traffic, and all services.
func (m *Metrics) present(now time.Time) (targets []*Target, services []*service) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.sweep(now)
	for _, t := range m.targets {
		if l := t.live.Load(); l != nil {
			l.left = t.refs == 0
			targets = append(targets, t)
		}
	}
	return targets, slices.Collect(maps.Values(m.services))
}

// arena hands out zeroed runs of words that stay together in memory.
type arena struct {
	size int
	left []uint64
}

func (a *arena) next() []uint64 {
	if len(a.left) < a.size {
		a.left = make([]uint64, 256*a.size)
	}
	words := a.left[:a.size:a.size]
	a.left = a.left[a.size:]
	return words
}

func (a *arena) copyOf(words []uint64) []uint64 {
	to := a.next()
	copy(to, words)
	return to
}

// target adds the series of one target. Of what never happened there is none, so that a target for TCP has no latency
// and one for HTTP no tunnels.
func (s *scrape) target(l TargetLabels, words []uint64) {
	labels := []string{l.Service, l.Host, l.Path, l.Target}
	latency, words := words[:s.m.bounds.width()], words[s.m.bounds.width():]
	tunnels, inFlight := words[wordConns], int64(words[wordInFlight])
	if tunnels == 0 || inFlight != 0 || countOf(latency) > 0 || l.isOther() {
		s.histogram("route", s.m.seconds, latency, labels...)
		s.value("route_in_flight", float64(inFlight), labels...)
	}
	if tunnels > 0 {
		s.value("route_conns_total", float64(tunnels), labels...)
		s.value("route_conn_seconds_total", secondsOf(words[wordConnTime]), labels...)
		s.value("route_open_conns", float64(int64(words[wordOpen])), labels...)
	}
	some := func(name string, n uint64, labels ...string) {
		if n > 0 {
			s.value(name, float64(n), labels...)
		}
	}
	some("route_rx", words[wordRx], labels...)
	some("route_tx", words[wordTx], labels...)
	some("route_retries_total", words[wordRetries], labels...)
	for k, n := range words[wordErrors:][:errorKinds] {
		some("route_errors_total", n, append(labels[:4:4], ErrorKind(k).String())...)
	}
}
