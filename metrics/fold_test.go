package metrics

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestFoldIsExact drives targets that come, go and change how busy they are, and checks at every scrape what fold.go
// promises.
func TestFoldIsExact(t *testing.T) {
	for seed := range uint64(18) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			foldRun{rand: rand.New(rand.NewPCG(seed, 1)), leave: seed%3 > 0, scrapes: 40}.run(t)
		})
	}
}

type foldRun struct {
	rand    *rand.Rand
	leave   bool // targets leave, too
	scrapes int
}

func (r foldRun) run(t *testing.T) {
	places := r.rand.IntN(12)
	m := newTest(t, fmt.Sprintf("--metrics.max-series=%d", places), "--metrics.prometheus.buckets=.1,1")
	now := m.useClock()
	const services, instances = 6, 5
	present := map[int]*Target{}
	weight := [services * instances]int{}
	want := map[string]float64{} // what was counted ever
	before := scrapeOf(t, m)
	counted := 0.0

	for range r.scrapes {
		for range r.rand.IntN(4) {
			weight[r.rand.IntN(len(weight))] = 1 << r.rand.IntN(10)
		}
		for i := range weight {
			switch target := present[i]; {
			case target == nil && (!r.leave || r.rand.IntN(3) == 0):
				present[i] = m.Acquire(TargetLabels{fmt.Sprint("svc-", i%services), "h", "/", fmt.Sprint(i)})
			case target != nil && r.leave && r.rand.IntN(12) == 0:
				m.Release(target)
				delete(present, i)
			}
		}
		for i, target := range present {
			for range weight[i] * r.rand.IntN(3) {
				code := []int{200, 200, 200, 404, 500}[r.rand.IntN(5)]
				d := time.Duration(r.rand.IntN(2000)) * time.Millisecond
				request(target, code, d)
				want["route_count"]++
				want["requests_count"]++
				want["http_status_count"]++
				want["route_sum"] += d.Seconds()
				if r.rand.IntN(4) == 0 {
					target.AddRx(7)
					want["route_rx"] += 7
					target.UpstreamError(ErrTimeout)
					want["route_errors_total"]++
				}
			}
		}
		now.pass(time.Duration(r.rand.IntN(200)) * time.Second)

		s := scrapeOf(t, m)
		if n := len(s.of("route_count")) - 1; n > places {
			t.Fatalf("%d targets have a series, want at most %d", n, places)
		}
		if n := len(s.of("requests_count")) - 1; n > places {
			t.Fatalf("%d services have a series, want at most %d", n, places)
		}
		ended := map[string]float64{
			"route_count":        s["route_ended_total"],
			"route_sum":          secondsOf(m.byTarget.ended[m.bounds.width()-1]),
			"route_rx":           float64(m.byTarget.ended[m.bounds.width()+wordRx]),
			"route_errors_total": float64(m.byTarget.ended[m.bounds.width()+wordErrors+int(ErrTimeout)]),
			"requests_count":     float64(countOf(m.byService.ended)),
			"http_status_count":  float64(countOf(m.byStatus.ended)),
		}
		for name, n := range want {
			if got := s.sum(name) + ended[name]; math.Abs(got-n) > 1e-6 {
				t.Fatalf("sum of all %s = %v and %v of ended series, want %v", name, s.sum(name), ended[name], n)
			}
		}
		grown := 0.0
		for series, v := range s {
			if strings.HasSuffix(strings.SplitN(series, "{", 2)[0], "_in_flight") || strings.HasPrefix(series, "go_") ||
				strings.HasPrefix(series, "process_") || strings.HasPrefix(series, "route_folded") {
				continue
			}
			if v < before[series] {
				t.Fatalf("%s fell from %v to %v", series, before[series], v)
			}
			if strings.HasPrefix(series, "route_count") {
				grown += v - before[series]
			}
		}
		// What rate() sees. A target that leaves takes what it did since the last scrape along.
		if fresh := want["route_count"] - counted; grown > fresh || !r.leave && grown < fresh {
			t.Fatalf("the series of route_count grew by %v, want %v", grown, fresh)
		}
		counted = want["route_count"]
		before = s
	}
}

func TestFoldKeepsTheBusiest(t *testing.T) {
	m := newTest(t, "--metrics.max-series=2")
	now := m.useClock()
	var targets []*Target
	for i := range 5 {
		targets = append(targets, m.Acquire(labelsOf("svc", fmt.Sprint(i))))
	}
	send := func(counts ...int) {
		for i, n := range counts {
			for range n {
				request(targets[i], 200, time.Millisecond)
			}
		}
	}
	check := func(when string, want ...float64) {
		t.Helper()
		s := scrapeOf(t, m)
		var got []float64
		for i := range targets {
			v, ok := s[fmt.Sprintf(`route_count{host="example.com",path="/",service="svc",target="http://%d/"}`, i)]
			if !ok {
				v = -1
			}
			got = append(got, v)
		}
		got = append(got, s[`route_count{host="_other",path="_other",service="_other",target="_other"}`])
		if !slices.Equal(got, want) {
			t.Errorf("%s: series = %v, want %v", when, got, want)
		}
	}

	check("without traffic", -1, -1, -1, -1, -1, 0)
	send(0, 10, 8, 3, 1)
	check("first traffic", -1, 10, 8, -1, -1, 4)
	now.pass(time.Minute)
	send(100, 0, 1, 0, 0)
	check("places are kept at first", -1, 10, 9, -1, -1, 104)
	now.pass(tenure)
	send(100, 0, 10, 0, 0)
	check("the last sample of the least busy", -1, 10, 19, -1, -1, 204)
	send(1, 1, 1, 0, 0)
	check("its place went to the busiest, whose past stays in _other", 0, -1, 20, -1, -1, 206)
	send(5, 5, 1, 0, 0)
	check("all count where they are", 5, -1, 21, -1, -1, 211)

	m.Release(targets[0])
	check("a free place goes to the next", -1, 0, 21, -1, -1, 211)
}

func TestNoPlaces(t *testing.T) {
	m := newTest(t, "--metrics.max-series=0")
	for i := range 3 {
		request(m.Acquire(labelsOf("svc", fmt.Sprint(i))), 200, time.Millisecond)
	}
	s := scrapeOf(t, m)
	for _, name := range []string{"route_count", "requests_count", "http_status_count"} {
		if of := s.of(name); len(of) != 1 || s[of[0]] != 3 {
			t.Errorf("%s = %q, sum %v, want one series with 3", name, of, s.sum(name))
		}
	}
	if s["route_folded"] != 3 {
		t.Errorf("route_folded = %v, want 3", s["route_folded"])
	}
}

func TestInFlightIsASum(t *testing.T) {
	m := newTest(t, "--metrics.max-series=1")
	for i := range 3 {
		m.Acquire(labelsOf("svc", fmt.Sprint(i))).Start()
	}
	s := scrapeOf(t, m)
	if got, rest := s.sum("route_in_flight"), s.sum("route_in_flight", other); got != 3 || rest != 2 {
		t.Errorf("route_in_flight = %v, of them in _other %v, want 3 and 2", got, rest)
	}
}

func TestTop(t *testing.T) {
	rand := rand.New(rand.NewPCG(1, 2))
	for range 500 {
		all := make([]candidate, rand.IntN(40))
		for i := range all {
			all[i] = candidate{reading{row: &service{born: uint64(i)}}, float64(rand.IntN(10))}
		}
		want := slices.Clone(all)
		slices.SortFunc(want, candidate.compare)
		k := rand.IntN(45)
		want = want[:min(k, len(want))]
		if got := top(all, k); !slices.EqualFunc(got, want, func(a, b candidate) bool { return a.row == b.row }) {
			t.Fatalf("top(%v, %d) = %v, want %v", all, k, got, want)
		}
	}
}
