package metrics

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/spf13/pflag"
)

// newTest makes Metrics with prefix "v" and args on top.
func newTest(t testing.TB, args ...string) *Metrics {
	t.Helper()
	m, err := New(configOf(t, append([]string{"--metrics.prefix=v"}, args...)...))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func configOf(t testing.TB, args ...string) Config {
	t.Helper()
	var c Config
	fs := pflag.NewFlagSet("", pflag.ContinueOnError)
	c.Flags(fs)
	fs.SetOutput(io.Discard)
	if err := fs.Parse(args); err != nil {
		t.Fatal(err)
	}
	return c
}

// clock is a clock that only moves when told to.
type clock struct{ t time.Time }

func (m *Metrics) useClock() *clock {
	c := &clock{time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
	m.now, m.start = func() time.Time { return c.t }, c.t
	return c
}

func (c *clock) pass(d time.Duration) { c.t = c.t.Add(d) }

// scraped is what a scrape answers: the value of each series by its text form. A histogram has a series for each
// bucket (not cumulative) and for its sum.
type scraped map[string]float64

func scrapeOf(t testing.TB, m *Metrics) scraped {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(collector{m})
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	all := scraped{}
	for _, f := range families {
		for _, s := range f.Metric {
			var labels []string
			for _, l := range s.Label {
				labels = append(labels, fmt.Sprintf("%s=%q", l.GetName(), l.GetValue()))
			}
			name := func(suffix string, more ...string) string {
				name := strings.TrimPrefix(f.GetName(), "v_") + suffix
				if all := append(slices.Clip(labels), more...); len(all) > 0 {
					name += "{" + strings.Join(all, ",") + "}"
				}
				return name
			}
			switch f.GetType() {
			case dto.MetricType_COUNTER:
				all[name("")] = s.Counter.GetValue()
			case dto.MetricType_GAUGE:
				all[name("")] = s.Gauge.GetValue()
			case dto.MetricType_HISTOGRAM:
				var below uint64
				for _, b := range s.Histogram.Bucket {
					all[name("_bucket", fmt.Sprintf("le=%g", b.GetUpperBound()))] = float64(b.GetCumulativeCount() - below)
					below = b.GetCumulativeCount()
				}
				all[name("_bucket", "le=+Inf")] = float64(s.Histogram.GetSampleCount() - below)
				all[name("_count")] = float64(s.Histogram.GetSampleCount())
				all[name("_sum")] = s.Histogram.GetSampleSum()
			}
		}
	}
	return all
}

// sum adds up the series of a metric whose text form contains all of parts.
func (s scraped) sum(name string, parts ...string) float64 {
	var sum float64
	for series, v := range s {
		if isSeriesOf(series, name) && containsAll(series, parts) {
			sum += v
		}
	}
	return sum
}

// of lists the series of a metric.
func (s scraped) of(name string) []string {
	return slices.Sorted(func(yield func(string) bool) {
		for series := range maps.Keys(s) {
			if isSeriesOf(series, name) && !yield(series) {
				return
			}
		}
	})
}

func isSeriesOf(series, name string) bool {
	return series == name || strings.HasPrefix(series, name+"{")
}

func containsAll(s string, parts []string) bool {
	for _, p := range parts {
		if !strings.Contains(s, p) {
			return false
		}
	}
	return true
}

func request(t *Target, code int, d time.Duration) {
	t.Start()
	t.Finish(code, d)
}

func labelsOf(service, target string) TargetLabels {
	return TargetLabels{Service: service, Host: "example.com", Path: "/", Target: "http://" + target + "/"}
}

func TestSameLabelsShareATarget(t *testing.T) {
	m := newTest(t)
	a := m.Acquire(labelsOf("svc", "a"))
	if b := m.Acquire(labelsOf("svc", "a")); b != a {
		t.Error("Acquire of the same labels gave another target")
	}
	if b := m.Acquire(labelsOf("svc", "b")); b == a {
		t.Error("Acquire of other labels gave the same target")
	}
	request(a, 200, time.Millisecond)
	m.Release(a)
	if got := scrapeOf(t, m).sum("route_count", "http://a/"); got != 1 {
		t.Errorf("requests after one of two releases = %v, want 1", got)
	}
	m.Release(a)
	if got := scrapeOf(t, m).of("route_count"); len(got) != 1 {
		t.Errorf("series after the last release = %q, want _other only", got)
	}
	m.Release(nil)
}

func TestCountsSurviveAnUpdate(t *testing.T) {
	for _, order := range []string{"acquire first", "release first"} {
		t.Run(order, func(t *testing.T) {
			m := newTest(t)
			a := m.Acquire(labelsOf("svc", "a"))
			request(a, 200, time.Millisecond)
			scrapeOf(t, m)
			var b *Target
			if order == "acquire first" {
				b = m.Acquire(labelsOf("svc", "a"))
				m.Release(a)
			} else {
				m.Release(a)
				b = m.Acquire(labelsOf("svc", "a"))
			}
			if a != b {
				t.Error("the target changed")
			}
			request(b, 200, time.Millisecond)
			if got := scrapeOf(t, m).sum("route_count", "http://a/"); got != 2 {
				t.Errorf("requests = %v, want 2", got)
			}
		})
	}
}

func TestServiceKeepsTheCountsOfATargetThatLeft(t *testing.T) {
	m := newTest(t)
	now := m.useClock()
	a, b := m.Acquire(labelsOf("svc", "a")), m.Acquire(labelsOf("svc", "b"))
	request(a, 200, time.Millisecond)
	request(b, 503, time.Millisecond)
	a.Start()
	m.Release(a)
	scrapeOf(t, m)
	now.pass(10 * linger)
	scrapeOf(t, m)
	a.Finish(200, time.Hour) // a request that outlives its target
	now.pass(10 * linger)
	for range 2 {
		s := scrapeOf(t, m)
		if got := s.sum("http_status_count", `service="svc"`, `code="200"`); got != 2 {
			t.Errorf("http_status 200 = %v, want 2", got)
		}
		if got := s.sum("requests_count", `service="svc"`); got != 3 {
			t.Errorf("requests = %v, want 3", got)
		}
		if got, want := s.sum("route_count")+s["route_ended_total"], 3.0; got != want {
			t.Errorf("route and route_ended_total = %v, want %v", got, want)
		}
	}
	if n := len(m.targets); n != 1 {
		t.Errorf("%d targets are kept, want 1", n)
	}
	m.Release(b)
	now.pass(10 * linger)
	if got := scrapeOf(t, m).of("requests_count"); len(got) != 1 {
		t.Errorf("series of requests without a target = %q, want _other only", got)
	}
	if n := len(m.services); n != 0 {
		t.Errorf("%d services are kept, want 0", n)
	}
}

func TestTargetsThatLeftAreDroppedWithoutAScrape(t *testing.T) {
	m := newTest(t)
	now := m.useClock()
	for i := range 20_000 {
		a := m.Acquire(labelsOf("svc", fmt.Sprint(i)))
		request(a, 200, time.Millisecond)
		m.Release(a)
		now.pass(time.Second)
	}
	if got, limit := len(m.targets), 4*minSweep; got > limit {
		t.Errorf("%d targets are kept, want at most %d", got, limit)
	}
	s := scrapeOf(t, m)
	if got, want := s.sum("route_count")+s["route_ended_total"], 20_000.0; got != want {
		t.Errorf("route and route_ended_total = %v, want %v", got, want)
	}
}

func TestHostileLabels(t *testing.T) {
	m := newTest(t)
	long := strings.Repeat("ä", maxLabel)
	for _, l := range []TargetLabels{
		{"\xff\xfe", "\xc3", "a\x00b", "\"\n\\"},
		{"\xff\xfe", "\xc3", "a\x00b", "\"\n\\"},
		{"\xfe\xff", "\xc2", "a\x00b", "\"\n\\"},
		{long, long, long, long},
		{long, long, long, "x" + long},
		{other, other, other, other},
		{other, "example.com", "/", "http://a/"},
		{"", "", "", ""},
	} {
		request(m.Acquire(l), 200, time.Millisecond)
	}
	s := scrapeOf(t, m) // fails on a series that comes twice
	if got := s.sum("route_count"); got != 8 {
		t.Errorf("requests by target = %v, want 8", got)
	}
	if got := s.sum("requests_count"); got != 8 {
		t.Errorf("requests by service = %v, want 8", got)
	}
	if got := s.sum("http_status_count", `service="_other"`); got != 2 {
		t.Errorf("requests of the services that call themselves _other = %v, want 2", got)
	}
	for series := range s {
		if len(series) > 4*maxLabel+200 {
			t.Errorf("a series has a name of %d bytes", len(series))
		}
	}
}

// Counting, updates, scrapes and the page at the same time: the race detector watches, and nothing gets lost.
func TestConcurrentUse(t *testing.T) {
	m := newTest(t, "--metrics.max-series=3")
	const workers, rounds = 8, 300
	var counting, reading sync.WaitGroup
	stop := make(chan struct{})
	read := func(f func()) {
		reading.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					f()
				}
			}
		})
	}
	kept := make([]*Target, 6)
	for i := range kept {
		kept[i] = m.Acquire(labelsOf("svc", fmt.Sprint(i)))
	}
	read(func() { scrapeOf(t, m) })
	read(func() {
		for _, k := range kept {
			k.Stats()
		}
	})
	for w := range workers {
		counting.Go(func() {
			for i := range rounds {
				target := m.Acquire(labelsOf("svc", fmt.Sprint((w+i)%len(kept))))
				target.Start()
				target.AddRx(1)
				target.AddTx(2)
				target.UpstreamError(ErrorKind(i % errorKinds))
				target.Retry()
				target.ConnOpen()
				target.ConnClose(time.Second)
				target.Finish(200+i%100, time.Duration(i)*time.Millisecond)
				m.Registry("health", nil, time.Second)
				m.TableTime.Set(time.Now())
				m.Release(target)
			}
		})
	}
	counting.Wait()
	close(stop)
	reading.Wait()
	s := scrapeOf(t, m)
	for name, want := range map[string]float64{
		"route_count": workers * rounds, "requests_count": workers * rounds, "http_status_count": workers * rounds,
		"route_rx": workers * rounds, "route_tx": 2 * workers * rounds, "route_errors_total": workers * rounds,
		"upstream_errors_total": workers * rounds, "route_retries_total": workers * rounds,
		"route_conns_total": workers * rounds, "route_conn_seconds_total": workers * rounds,
		"route_in_flight": 0, "route_open_conns": 0,
	} {
		if got := s.sum(name); got != want {
			t.Errorf("sum of %s = %v, want %v", name, got, want)
		}
	}
}
