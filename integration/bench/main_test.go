package main

import "testing"

func TestParseWrk(t *testing.T) {
	const out = `Running 2s test @ http://127.0.0.1:1/128
  1 threads and 64 connections
  Thread Stats   Avg      Stdev     Max   +/- Stdev
    Latency    12.43ms   14.20ms 113.18ms   87.92%
    Req/Sec     5.78k     1.12k    8.45k    65.00%
  Latency Distribution
     50%  812.00us
     75%   14.89ms
     90%   31.27ms
     99%    1.05s
  11513 requests in 2.00s, 2.67MB read
  Socket errors: connect 1, read 2, write 3, timeout 4
  Non-2xx or 3xx responses: 5
Requests/sec:   5751.32
Transfer/sec:      1.33MB
`
	got, err := parseWrk(out)
	want := wrkResult{result{RPS: 5751.32, P50: 0.812, P99: 1050, Errors: 15}, 11513}
	if err != nil || got != want {
		t.Errorf("parseWrk = %+v, %v, want %+v", got, err, want)
	}
	if _, err := parseWrk("unable to connect"); err == nil {
		t.Error("parseWrk of nonsense = nil, want an error")
	}
}

func TestMedianResult(t *testing.T) {
	got := medianResult([]result{{CPU: 3, RPS: 1, Errors: 1}, {CPU: 1, RPS: 2}, {CPU: 2, RPS: 9, Errors: 2}})
	if want := (result{CPU: 2, RPS: 2, Errors: 3}); got != want {
		t.Errorf("medianResult = %+v, want %+v", got, want)
	}
}
