package metrics

import (
	"testing"
	"time"
	"unsafe"
)

func TestHotPathAllocatesNothing(t *testing.T) {
	m := newTest(t)
	target := m.Acquire(labelsOf("svc", "a"))
	hot := func() {
		target.Start()
		target.AddRx(100)
		target.AddTx(100)
		target.UpstreamError(ErrReset)
		target.Retry()
		target.ConnOpen()
		target.ConnClose(time.Second)
		_ = target.InFlight()
		target.Finish(200, 3*time.Millisecond)
		target.Start()
		target.Abandon()
		target.Start()
		target.Finish(503, time.Second)
		m.NotFound.Inc()
		m.Connections.Add(1)
		m.Answer(404)
		m.Redirect(302)
	}
	hot() // the first request of a target and the first answer with a status do
	if n := testing.AllocsPerRun(100, hot); n != 0 {
		t.Errorf("a request allocates %v times", n)
	}
}

func TestIdleTargetIsSmall(t *testing.T) {
	if size := unsafe.Sizeof(Target{}); size > 160 {
		t.Errorf("an idle target takes %d bytes, want at most 160", size)
	}
	m := newTest(t)
	target := m.Acquire(labelsOf("svc", "a"))
	if target.Stats() != (Stats{}) || target.InFlight() != 0 || target.live.Load() != nil {
		t.Error("a target without traffic has counts")
	}
}

// Two histograms must not share a cache line.
func TestHistogramsHaveTheirOwnCacheLines(t *testing.T) {
	for _, buckets := range []int{1, 5, 6, 11, 20, 60} {
		b := make(bounds, buckets)
		for range 20 {
			c := newCells(b)
			if at := uintptr(unsafe.Pointer(&c[0])); at%64 != 0 {
				t.Fatalf("%d buckets: a histogram begins at %#x, not at the start of a line", buckets, at)
			}
		}
	}
}

func TestMadeUpStatuses(t *testing.T) {
	m := newTest(t)
	target := m.Acquire(labelsOf("svc", "a"))
	for code := -5; code < 1200; code++ {
		request(target, code, time.Millisecond)
	}
	l := target.live.Load()
	if n := len(l.statuses()); n > maxCodes+1 {
		t.Errorf("%d statuses are told apart, want at most %d", n, maxCodes+1)
	}
	s := scrapeOf(t, m)
	if got := s.sum("http_status_count"); got != 1205 {
		t.Errorf("requests = %v, want 1205", got)
	}
	if got := s.sum("http_status_count", `code="100"`); got != 1 {
		t.Errorf("requests with 100 = %v, want 1", got)
	}
}

func TestErrorKinds(t *testing.T) {
	seen := map[string]bool{}
	for k := range ErrorKind(errorKinds) {
		if name := k.String(); name == "" || seen[name] {
			t.Errorf("ErrorKind %d has the name %q", k, name)
		} else {
			seen[name] = true
		}
	}
	if got := ErrorKind(200).String(); got != "other" {
		t.Errorf("ErrorKind(200) = %q, want other", got)
	}
	m := newTest(t)
	m.Acquire(labelsOf("svc", "a")).UpstreamError(200)
	if got := m.upstreamErrors[ErrOther].Value(); got != 1 {
		t.Errorf("other errors = %d, want 1", got)
	}
}

func TestStats(t *testing.T) {
	m := newTest(t)
	now := m.useClock()
	target := m.Acquire(labelsOf("svc", "a"))
	for _, code := range []int{200, 204, 301, 404, 500, 502, 700} {
		request(target, code, 75*time.Millisecond)
	}
	target.Start()
	target.AddRx(5)
	target.AddTx(6)
	target.AddRx(-5)
	target.AddTx(-6)
	target.Retry()
	target.UpstreamError(ErrTLS)
	target.ConnOpen()
	target.ConnOpen()
	target.ConnClose(time.Second)
	want := Stats{
		Requests: 7, Errors: 2, Codes: [6]uint64{1, 0, 2, 1, 1, 2},
		Rx: 5, Tx: 6, Retries: 1, Conns: 2, Open: 1, InFlight: 1,
		P50: 75 * time.Millisecond, P99: 99500 * time.Microsecond,
	}
	want.UpstreamErrors[ErrTLS] = 1
	if got := target.Stats(); got != want {
		t.Errorf("Stats() = %+v, want %+v", got, want)
	}
	if got, want := target.Labels(), labelsOf("svc", "a"); got != want {
		t.Errorf("Labels() = %v, want %v", got, want)
	}

	step := func(requests int, d, p50 time.Duration) {
		t.Helper()
		for range requests {
			request(target, 200, d)
		}
		if got := target.Stats().P50; got != p50 {
			t.Errorf("P50 %v after the start = %v, want %v", now.t.Sub(m.start), got, p50)
		}
	}
	now.pass(windowStep)
	step(20, 2*time.Second, 1750*time.Millisecond)
	now.pass(windowStep - 1)
	step(20, 2*time.Second, 1750*time.Millisecond)
	now.pass(1)
	step(1000, 3*time.Millisecond, 2550*time.Microsecond) // and 20 of the step before
	now.pass(windowStep)
	step(0, 0, 0)
}
