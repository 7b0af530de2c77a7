package proxy

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// TestUpdatesLoseNoRequest swaps tables under load.
func TestUpdatesLoseNoRequest(t *testing.T) {
	echo := func(w http.ResponseWriter, r *http.Request) { io.Copy(w, r.Body) }
	a, b := newUpstream(t, echo), newUpstream(t, echo)
	line := func(u *upstreamServer, opts string) string {
		return "route add svc / http://" + u.addr + `/ opts "` + opts + `"`
	}
	tables := []string{line(a, ""), line(a, "") + "\n" + line(b, "strip=/x"), line(b, ""), line(b, "allow=ip:127.0.0.1") + "\n" + line(a, "host=dst")}
	p := newProxy(t, tables[0])
	addr := serve(t, p)

	var stop atomic.Bool
	var requests atomic.Int64
	var clients sync.WaitGroup
	for i := range 4 {
		clients.Go(func() {
			tr := &http.Transport{DisableCompression: true}
			defer tr.CloseIdleConnections()
			for n := 0; !stop.Load(); n++ {
				want := fmt.Sprint(i, n, strings.Repeat("x", n%3000))
				r, _ := http.NewRequest([]string{"POST", "PUT"}[n%2], "http://"+addr+"/x/y", strings.NewReader(want))
				resp, err := tr.RoundTrip(r)
				if err != nil {
					t.Error(err)
					return
				}
				got, err := io.ReadAll(resp.Body)
				resp.Body.Close()
				if resp.StatusCode != 200 || string(got) != want || err != nil {
					t.Errorf("%d with %d bytes, %v; want %d", resp.StatusCode, len(got), err, len(want))
					return
				}
				requests.Add(1)
			}
		})
	}
	for n := 0; requests.Load() < 300 && !t.Failed(); n++ {
		p.Update(snapshot(t, tables[n%len(tables)]))
		seen := requests.Load()
		waitFor(t, "a request", func() bool { return requests.Load() > seen || t.Failed() })
	}
	stop.Store(true)
	clients.Wait()
}

// TestClosingUpstreamLosesNoGET has an upstream that closes its connections whenever it likes to, between requests.
func TestClosingUpstreamLosesNoGET(t *testing.T) {
	up := rawServer(t, func(c net.Conn) {
		r := bufio.NewReader(c)
		for range 1 + rand.IntN(4) {
			if _, err := http.ReadRequest(r); err != nil {
				return
			}
			io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
		}
	})
	addr := serve(t, newProxy(t, "route add svc / http://"+up+"/"))
	var clients sync.WaitGroup
	for range 4 {
		clients.Go(func() {
			tr := &http.Transport{}
			defer tr.CloseIdleConnections()
			for range 80 {
				resp, err := tr.RoundTrip(&http.Request{Method: "GET", URL: mustURL("http://" + addr + "/"), Header: http.Header{}})
				if err != nil {
					t.Error(err)
					return
				}
				b, err := io.ReadAll(resp.Body)
				resp.Body.Close()
				if resp.StatusCode != 200 || string(b) != "ok" || err != nil {
					t.Errorf("GET = %d %q, %v", resp.StatusCode, b, err)
				}
			}
		})
	}
	clients.Wait()
}
