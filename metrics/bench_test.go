package metrics

import (
	"fmt"
	"io"
	"net/http/httptest"
	"runtime"
	"testing"
	"time"
)

func fill(m *Metrics, targets, instances int) []*Target {
	all := make([]*Target, targets)
	for i := range all {
		all[i] = m.Acquire(TargetLabels{
			Service: fmt.Sprintf("service-%d", i/instances),
			Host:    fmt.Sprintf("www%d.example.com", i/instances),
			Path:    "/",
			Target:  fmt.Sprintf("http://10.%d.%d.%d:8080/", i>>16&255, i>>8&255, i&255),
		})
	}
	return all
}

func BenchmarkFinish(b *testing.B) {
	for _, own := range []bool{false, true} {
		b.Run(fmt.Sprintf("own=%v", own), func(b *testing.B) {
			m := newTest(b)
			targets := fill(m, 64, 1)
			next := make(chan *Target, 64)
			for _, t := range targets {
				next <- t
			}
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				t := targets[0]
				if own {
					t = <-next
				}
				for pb.Next() {
					t.Start()
					t.Finish(200, 3*time.Millisecond)
				}
			})
		})
	}
}

func BenchmarkScrape(b *testing.B) {
	for _, n := range []int{1_000, 10_000, 100_000} {
		for _, busy := range []bool{false, true} {
			b.Run(fmt.Sprintf("targets=%d/busy=%v", n, busy), func(b *testing.B) {
				m := newTest(b)
				var before, after runtime.MemStats
				runtime.GC()
				runtime.ReadMemStats(&before)
				for _, t := range fill(m, n, 8) {
					if busy {
						for _, code := range []int{200, 404, 502} {
							t.Start()
							t.Finish(code, time.Millisecond)
						}
						t.AddRx(100)
						t.AddTx(100)
					}
				}
				runtime.GC()
				runtime.ReadMemStats(&after)
				h := m.Handler()
				b.ReportAllocs()
				var size int
				var held time.Duration
				for b.Loop() {
					start := time.Now()
					m.folding.Lock()
					m.present(start)
					m.folding.Unlock()
					held += time.Since(start)
					w := httptest.NewRecorder()
					h.ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
					size = w.Body.Len()
					io.Discard.Write(w.Body.Bytes())
				}
				b.ReportMetric(float64(held.Milliseconds())/float64(b.N), "locked-ms")
				b.ReportMetric(float64(size)/1e6, "MB")
				b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/float64(n), "B/target")
			})
		}
	}
}
