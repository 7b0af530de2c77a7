package metrics

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	dto "github.com/prometheus/client_model/go"
)

var update = flag.Bool("update", false, "write testdata/scrape.txt anew")

// everything makes something happen in every metric.
func everything(t testing.TB) *Metrics {
	m := newTest(t, "--metrics.max-series=2", "--metrics.prometheus.buckets=.1,1")
	now := m.useClock()

	a := m.Acquire(TargetLabels{"svc-a", "www.example.com", "/a", "http://10.0.0.1:8080/"})
	b := m.Acquire(TargetLabels{"svc-b", "", ":3306", "tcp://10.0.0.2:3306"})
	for range 3 {
		request(a, 200, 50*time.Millisecond)
	}
	request(a, 404, 2*time.Second)
	a.Start()
	a.AddRx(100)
	a.AddTx(10)
	a.UpstreamError(ErrTimeout)
	a.Retry()
	b.ConnOpen()
	b.ConnOpen()
	b.ConnClose(1500 * time.Millisecond)
	b.AddRx(1 << 40)
	c := m.Acquire(TargetLabels{"svc-c", "c.example.com", "/", "http://10.0.0.3/"})
	d := m.Acquire(TargetLabels{"svc-d", "d.example.com", "/", "http://10.0.0.4/"})
	request(c, 200, time.Second)
	request(d, 503, time.Second)
	m.Acquire(TargetLabels{"svc-e", "idle.example.com", "/", "http://10.0.0.5/"})

	m.NotFound.Add(2)
	m.RouteDown.Inc()
	m.HTTPDenied.Inc()
	m.TCPDenied.Inc()
	m.WSConns.Set(4)
	m.TCPConn.Add(5)
	m.TCPConnFail.Inc()
	m.TCPNoRoute.Inc()
	m.TCPConns.Set(3)
	m.Connections.Set(70)
	m.AcceptErrors.Inc()
	m.ConnLimited.Inc()
	m.UpstreamLimited.Inc()
	m.RetryLimited.Inc()
	m.TableRoutes.Set(10)
	m.TableTargets.Set(20)
	m.TableHosts.Set(3)
	m.TableTime.Set(now.t)
	m.TableUpdates.Inc()
	m.UpdateSeconds.Observe(3 * time.Millisecond)
	m.RejectedTags.Set(2)
	m.LogDropped.Inc()
	m.Panics.Inc()
	m.Redirect(302)
	m.Answer(404)
	m.Answer(302)
	m.Answer(-1)
	m.Registry("health", nil, time.Minute)
	m.Registry("kv", errors.New("refused"), time.Millisecond)
	m.Registry("kv", context.Canceled, time.Millisecond)
	m.Registry("kv", fmt.Errorf("get: %w", context.DeadlineExceeded), time.Second)
	m.Registry("kv", &os.PathError{Err: os.ErrDeadlineExceeded}, time.Second)
	now.pass(90 * time.Second)
	return m
}

func TestScrape(t *testing.T) {
	m := everything(t)
	const golden = "testdata/scrape.txt"
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	var ours bytes.Buffer
	for line := range strings.Lines(w.Body.String()) {
		name := strings.TrimPrefix(strings.TrimPrefix(line, "# HELP "), "# TYPE ")
		if strings.HasPrefix(name, "v_") && !strings.HasPrefix(name, "v_build_info{") {
			ours.WriteString(line)
		}
	}
	if *update {
		if err := os.WriteFile(golden, ours.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if got := ours.String(); got != string(want) {
		t.Errorf("/metrics = \n%s\nwant %s; go test -update writes it anew", got, golden)
	}
}

func TestScrapeAgreesWithTheClient(t *testing.T) {
	text, err := os.ReadFile("testdata/scrape.txt")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, d := range Described() {
		if d.Name != "build_info" {
			names = append(names, "v_"+d.Name)
		}
	}
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(collector{everything(t)})
	if err := testutil.GatherAndCompare(registry, bytes.NewReader(text), names...); err != nil {
		t.Error(err)
	}
}

// fabioMetrics are the names, kinds and labels that a fabio user's dashboards and alerts rely on.
var fabioMetrics = []Description{
	{Name: "route", Kind: histogram, Labels: []string{"service", "host", "path", "target"}},
	{Name: "route_rx", Kind: counter, Labels: []string{"service", "host", "path", "target"}},
	{Name: "route_tx", Kind: counter, Labels: []string{"service", "host", "path", "target"}},
	{Name: "notfound", Kind: counter},
	{Name: "requests", Kind: histogram, Labels: []string{"service"}},
	{Name: "http_status", Kind: histogram, Labels: []string{"code", "service"}},
	{Name: "http_redirect_count", Kind: counter, Labels: []string{"code"}},
	{Name: "ws_conn", Kind: gauge},
	{Name: "tcp_conn", Kind: counter},
	{Name: "tcp_connfail", Kind: counter},
	{Name: "tcp_noroute", Kind: counter},
}

func TestFabioMetricsAreThere(t *testing.T) {
	for _, want := range fabioMetrics {
		if !slices.ContainsFunc(Described(), func(d Description) bool {
			return d.Name == want.Name && d.Kind == want.Kind && slices.Equal(d.Labels, want.Labels)
		}) {
			t.Errorf("no metric %+v", want)
		}
	}
}

// What is described is what is exported, and the names of varco's own metrics follow Prometheus' rules.
func TestDescribedIsComplete(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(collector{everything(t)})
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	exported := map[string]*dto.MetricFamily{}
	for _, f := range families {
		exported[strings.TrimPrefix(f.GetName(), "v_")] = f
	}
	for _, d := range Described() {
		f := exported[d.Name]
		if f == nil {
			t.Errorf("%s is described and not exported", d.Name)
			continue
		}
		delete(exported, d.Name)
		if got := strings.ToLower(f.GetType().String()); got != d.Kind {
			t.Errorf("%s is a %s, described as %s", d.Name, got, d.Kind)
		}
		var labels []string
		for _, l := range f.Metric[0].Label {
			labels = append(labels, l.GetName())
		}
		if want := slices.Sorted(slices.Values(d.Labels)); !slices.Equal(labels, want) {
			t.Errorf("%s has the labels %q, described as %q", d.Name, labels, want)
		}
		if !strings.HasSuffix(d.Help, ".") || f.GetHelp() != d.Help {
			t.Errorf("%s: help %q", d.Name, d.Help)
		}
		isFabios := slices.ContainsFunc(fabioMetrics, func(m Description) bool { return m.Name == d.Name })
		if isTotal := strings.HasSuffix(d.Name, "_total"); !isFabios && isTotal != (d.Kind == counter) {
			t.Errorf("%s is a %s: want _total on counters only", d.Name, d.Kind)
		}
	}
	for name := range exported {
		t.Errorf("%s is exported and not described", name)
	}
	problems, err := testutil.GatherAndLint(registry)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		if !slices.ContainsFunc(fabioMetrics, func(m Description) bool { return "v_"+m.Name == p.Metric }) {
			t.Errorf("lint: %s: %s", p.Metric, p.Text)
		}
	}
}

// Every metric has its line in the manual.
func TestDocumented(t *testing.T) {
	manual, err := os.ReadFile("../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range Described() {
		row := regexp.MustCompile("(?m)^\\| `" + d.Name + "` \\| " + d.Kind + " \\|.*")
		line := row.Find(manual)
		if line == nil {
			t.Errorf("docs/metrics.md: no row | `%s` | %s |", d.Name, d.Kind)
		}
		for _, l := range d.Labels {
			if !bytes.Contains(line, []byte(l)) {
				t.Errorf("docs/metrics.md: %s: no label %s", d.Name, l)
			}
		}
	}
}

func TestHandler(t *testing.T) {
	m := everything(t)
	server := httptest.NewServer(m.Handler())
	defer server.Close()

	get := func(header ...string) (*http.Response, []byte) {
		t.Helper()
		r, err := http.NewRequest("GET", server.URL, nil)
		if err != nil {
			t.Fatal(err)
		}
		for i := 0; i < len(header); i += 2 {
			r.Header.Set(header[i], header[i+1])
		}
		response, err := http.DefaultTransport.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		if err != nil {
			t.Fatal(err)
		}
		return response, body
	}

	response, body := get("Accept-Encoding", "identity")
	for _, want := range []string{
		"v_route_bucket{", "v_notfound 2\n", "go_goroutines ", "process_cpu_seconds_total ", "promhttp_metric_handler_errors_total",
		`version="unknown"`,
	} {
		if !bytes.Contains(body, []byte(want)) {
			t.Errorf("/metrics has no %s", want)
		}
	}
	if got := response.Header.Get("Content-Type"); !strings.HasPrefix(got, "text/plain") {
		t.Errorf("Content-Type = %q, want text/plain", got)
	}

	// What Prometheus sends: it must not get names with _total on top.
	_, body = get("Accept", "application/openmetrics-text;version=1.0.0,text/plain;q=0.5", "Accept-Encoding", "identity")
	if bytes.Contains(body, []byte("v_notfound_total")) || !bytes.Contains(body, []byte("\nv_notfound 2")) {
		t.Error("asked for OpenMetrics, /metrics changes fabio's names")
	}

	response, body = get("Accept-Encoding", "gzip")
	if got := response.Header.Get("Content-Encoding"); got != "gzip" {
		t.Fatalf("Content-Encoding = %q, want gzip", got)
	}
	unzip, err := gzip.NewReader(bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if body, err = io.ReadAll(unzip); err != nil || !bytes.Contains(body, []byte("\nv_notfound 2")) {
		t.Errorf("compressed /metrics: %v, %d bytes", err, len(body))
	}
}

func TestScrapesAtTheSameTime(t *testing.T) {
	m := everything(t)
	h := m.Handler()
	var wg sync.WaitGroup
	for range maxScrapes {
		wg.Go(func() {
			w := httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
			if w.Code != 200 || !strings.Contains(w.Body.String(), "\nv_notfound 2") {
				t.Errorf("/metrics = %d, %d bytes", w.Code, w.Body.Len())
			}
		})
	}
	wg.Wait()
}

func TestRegistryQueries(t *testing.T) {
	m := newTest(t)
	now := m.useClock()
	m.Registry("health", errors.New("refused"), time.Second)
	now.pass(time.Minute)
	if got := scrapeOf(t, m)[`registry_age_seconds{kind="health"}`]; got != 60 {
		t.Errorf("age without an answer = %v, want 60 since the start", got)
	}
	m.Registry("health", nil, time.Second)
	now.pass(time.Second)
	m.Registry("health", errors.New("refused"), time.Second)
	now.pass(-time.Hour)
	if got := scrapeOf(t, m)[`registry_age_seconds{kind="health"}`]; got != 0 {
		t.Errorf("age after the clock was turned back = %v, want 0", got)
	}
	now.pass(time.Hour)
	s := scrapeOf(t, m)
	if got := s[`registry_age_seconds{kind="health"}`]; got != 1 {
		t.Errorf("age = %v, want 1", got)
	}
	for i := range 3 * maxKinds {
		m.Registry(fmt.Sprint(i, "\xff"), nil, time.Second)
	}
	s = scrapeOf(t, m)
	if got := len(s.of("registry_age_seconds")); got != maxKinds+1 {
		t.Errorf("%d kinds are told apart, want %d", got, maxKinds+1)
	}
	if got := s.sum("registry_queries_total"); got != 3+3*maxKinds {
		t.Errorf("queries = %v, want %v", got, 3+3*maxKinds)
	}
}

func TestNoTableHasNoAge(t *testing.T) {
	m := newTest(t)
	if _, ok := scrapeOf(t, m)["table_age_seconds"]; ok {
		t.Error("table_age_seconds is there before the first table")
	}
}
