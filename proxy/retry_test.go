package proxy

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// dieAfterRequest is an upstream that reads a request, body and all, and closes without a byte of an answer.
func dieAfterRequest(t testing.TB, requests *atomic.Int64) string {
	return rawServer(t, func(c net.Conn) {
		r, err := http.ReadRequest(bufio.NewReader(c))
		if err != nil {
			return
		}
		io.Copy(io.Discard, r.Body)
		requests.Add(1)
	})
}

// oneAnswer is an upstream that answers the first request of each connection, tells that it keeps it, and closes when
// the second one comes.
func oneAnswer(t testing.TB, requests *atomic.Int64) string {
	return rawServer(t, func(c net.Conn) {
		r := bufio.NewReader(c)
		for i := range 2 {
			req, err := http.ReadRequest(r)
			if err != nil {
				return
			}
			io.Copy(io.Discard, req.Body)
			requests.Add(1)
			if i == 0 {
				io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
			}
		}
	})
}

func request(method, target, body string, header ...string) string {
	h := strings.Join(append(header, ""), "\r\n")
	if body != "" {
		h += fmt.Sprintf("Content-Length: %d\r\n", len(body))
	}
	return method + " " + target + " HTTP/1.1\r\nHost: foo.com\r\n" + h + "\r\n" + body
}

func TestRefusedConnectionGoesToAnotherTarget(t *testing.T) {
	body := make(chan string, 1)
	up := newUpstream(t, func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		body <- string(b)
	})
	p := newProxy(t, "route add svc / http://"+unusedAddr(t)+"/\nroute add svc / http://"+unusedAddr(t)+"/\nroute add svc / http://"+up.addr+"/", "--proxy.strategy=rr")
	addr := serve(t, p)
	long := strings.Repeat("x", 1<<20)
	for _, c := range []struct{ method, body string }{{"GET", ""}, {"POST", "hello"}, {"POST", long}, {"PUT", ""}, {"DELETE", ""}} {
		for range 3 {
			if a := send(t, addr, request(c.method, "/", c.body)); a.StatusCode != 200 {
				t.Errorf("%s with %d bytes = %d", c.method, len(c.body), a.StatusCode)
			}
			if got := <-body; got != c.body {
				t.Errorf("%s: upstream got %d bytes, want %d", c.method, len(got), len(c.body))
			}
		}
	}
}

func TestDeadConnection(t *testing.T) {
	var died atomic.Int64
	dead := dieAfterRequest(t, &died)
	body := make(chan string, 1)
	up := newUpstream(t, func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		body <- string(b)
	})
	for _, c := range []struct {
		method, body, header string
		status               int
	}{
		{"GET", "", "", 200},
		{"HEAD", "", "", 200},
		{"PUT", "", "", 200},
		{"PUT", "hello", "", 200},
		{"DELETE", "", "", 200},
		{"OPTIONS", "", "", 200},
		{"POST", "hello", "Idempotency-Key: 1", 200},
		{"PUT", strings.Repeat("x", 17<<10), "", 502}, // too long to be kept
		{"POST", "hello", "", 502},
		{"POST", "", "", 502},
		{"PATCH", "hello", "", 502},
	} {
		p := newProxy(t, "route add svc / http://"+dead+"/\nroute add svc / http://"+up.addr+"/", "--proxy.strategy=rr")
		addr := serve(t, p)
		statuses := map[int]int{}
		for range 2 { // one of them begins at the dead one
			var header []string
			if c.header != "" {
				header = append(header, c.header)
			}
			died.Store(0)
			a := send(t, addr, request(c.method, "/", c.body, header...))
			statuses[a.StatusCode]++
			if died.Load() > 1 {
				t.Errorf("%s %s: the dead one got it %d times", c.method, c.header, died.Load())
			}
			if a.StatusCode == 200 {
				if got := <-body; got != c.body {
					t.Errorf("%s: upstream got %q, want %q", c.method, got, c.body)
				}
			}
		}
		if statuses[c.status] == 0 || c.status == 200 && statuses[200] != 2 {
			t.Errorf("%s %s: statuses %v, want %d", c.method, c.header, statuses, c.status)
		}
	}
}

// TestSingleTargetIsTriedTwice has no other target to go to.
func TestSingleTargetIsTriedTwice(t *testing.T) {
	var died atomic.Int64
	p := newProxy(t, "route add svc / http://"+dieAfterRequest(t, &died)+"/")
	addr := serve(t, p)
	if a := send(t, addr, request("GET", "/", "")); a.StatusCode != 502 || a.Header.Get("X-Edge-Error") != "reset" {
		t.Errorf("GET = %d %v", a.StatusCode, a.Header)
	}
	if got := died.Load(); got != 2 {
		t.Errorf("GET was sent %d times, want 2", got)
	}
	s, _ := p.Stats(p.Table().Lookup("", "/", false).Targets[0])
	if s.Retries != 1 || s.InFlight != 0 || s.Requests != 1 || s.Errors != 1 {
		t.Errorf("stats = %+v, want 1 retry and 1 request", s)
	}
	died.Store(0)
	if a := send(t, addr, request("POST", "/", "x")); a.StatusCode != 502 || died.Load() != 1 {
		t.Errorf("POST = %d, sent %d times; want 502, once", a.StatusCode, died.Load())
	}
}

// TestIdleConnectionDies is what fabio answers with sporadic 502: the upstream closes a kept connection.
func TestIdleConnectionDies(t *testing.T) {
	for _, c := range []struct {
		method, body string
		status       int
	}{
		{"GET", "", 200}, {"PUT", "hello", 200}, {"DELETE", "", 200}, {"POST", "hello", 502},
	} {
		var requests atomic.Int64
		p := newProxy(t, "route add svc / http://"+oneAnswer(t, &requests)+"/")
		addr := serve(t, p)
		if a := send(t, addr, request("GET", "/", "")); a.StatusCode != 200 {
			t.Fatalf("first GET = %d", a.StatusCode)
		}
		a := send(t, addr, request(c.method, "/", c.body))
		if a.StatusCode != c.status {
			t.Errorf("%s on a dying connection = %d %s, want %d", c.method, a.StatusCode, a.body, c.status)
		}
		if want := map[int]int64{200: 3, 502: 2}[c.status]; requests.Load() != want {
			t.Errorf("%s: upstream got %d requests, want %d", c.method, requests.Load(), want)
		}
	}
}

func TestNoRetryWhenTold(t *testing.T) {
	up := newUpstream(t, nil)
	p := newProxy(t, "route add svc / http://"+unusedAddr(t)+"/\nroute add svc / http://"+up.addr+"/", "--proxy.strategy=rr", "--proxy.retries=0")
	addr := serve(t, p)
	statuses := map[int]int{}
	for range 4 {
		statuses[get(t, addr, "/").StatusCode]++
	}
	if statuses[200] != 2 || statuses[502] != 2 {
		t.Errorf("statuses = %v, want two 200 and two 502", statuses)
	}
}

func TestNoRetryAfterAByteOfTheAnswer(t *testing.T) {
	var requests atomic.Int64
	addr := rawServer(t, func(c net.Conn) {
		http.ReadRequest(bufio.NewReader(c))
		requests.Add(1)
		io.WriteString(c, "HTTP/1.1 200")
	})
	a := get(t, serve(t, newProxy(t, "route add svc / http://"+addr+"/")), "/")
	if a.StatusCode != 502 || requests.Load() != 1 {
		t.Errorf("GET = %d after %d requests, want 502 after 1", a.StatusCode, requests.Load())
	}
}

func TestRetryBudget(t *testing.T) {
	var b retryBudget
	now := time.Unix(1000, 0)
	take := func(n int) (taken int) {
		for range n {
			if b.take(now) {
				taken++
			}
		}
		return taken
	}
	if got := take(100); got != 30 {
		t.Errorf("without requests: %d retries, want 30", got)
	}
	b.requests.Add(1000)
	if got := take(1000); got != 200 {
		t.Errorf("after 1000 requests: %d more retries, want 200", got)
	}
	now = now.Add(10 * time.Second)
	if got := take(1000); got != 230 {
		t.Errorf("in the window after 1000 requests: %d retries, want 230", got)
	}
	now = now.Add(30 * time.Second)
	if got := take(1000); got != 30 {
		t.Errorf("after a quiet time: %d retries, want 30", got)
	}
}

func TestBodyIsReplayed(t *testing.T) {
	for _, c := range []struct {
		name       string
		length     int64
		limit      int
		first      int // bytes that the first attempt reads
		replayable bool
	}{
		{"untouched", 10, 16, 0, true},
		{"half", 10, 16, 5, true},
		{"whole", 10, 16, 10, true},
		{"unknown length", -1, 16, 10, true},
		{"too long", 10, 9, 1, false},
		{"unknown length, too long", -1, 9, 10, false},
		{"too long but untouched", 10, 9, 0, true},
	} {
		b := newBody(strings.NewReader("0123456789"), c.length, c.limit)
		io.ReadFull(&view{b: b}, make([]byte, c.first))
		if got := b.replayable(); got != c.replayable {
			t.Errorf("%s: replayable = %v, want %v", c.name, got, c.replayable)
		}
		got, err := io.ReadAll(&view{b: b})
		if c.replayable && (string(got) != "0123456789" || err != nil) {
			t.Errorf("%s: second attempt got %q, %v", c.name, got, err)
		}
		if !c.replayable && !errors.Is(err, errBodyLost) {
			t.Errorf("%s: second attempt got %q, %v; want errBodyLost", c.name, got, err)
		}
	}
}

func TestClosedViewReadsNothing(t *testing.T) {
	b := newBody(strings.NewReader("0123456789"), 10, 16)
	v := &view{b: b}
	v.Close()
	if n, err := v.Read(make([]byte, 4)); n != 0 || err == nil {
		t.Errorf("Read = %d, %v on a closed view", n, err)
	}
	if got, _ := io.ReadAll(&view{b: b}); string(got) != "0123456789" {
		t.Errorf("the next view got %q", got)
	}
}
