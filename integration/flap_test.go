package integration

import (
	"fmt"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"
)

// TestFlapUnderLoad kills one of three instances the hard way under a steady stream of requests, with its checks still
// passing for a while, starts it anew, and kills the next: not one GET may fail.
func TestFlapUnderLoad(t *testing.T) {
	t.Parallel()
	v := start(t, nil)
	service := v.name + "-web"
	var origins [3]*origin
	var procs [3]*process
	for n := range origins {
		origins[n], procs[n] = newKillable(t, fmt.Sprint("k", n))
		// A real check this time: Consul itself finds out that the instance is dead.
		id := fmt.Sprintf("%s-k%d", service, n)
		err := shared.consul.Agent().ServiceRegister(&api.AgentServiceRegistration{
			ID: id, Name: service, Address: origins[n].host, Port: origins[n].port, Tags: []string{v.prefix + "/web"},
			Check: &api.AgentServiceCheck{TCP: origins[n].addr(), Interval: "1s", Timeout: "1s", Status: "passing"},
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { shared.consul.Agent().ServiceDeregister(id) })
	}
	v.reaches(5*time.Second, "/web", "k0", "k1", "k2")

	load := startLoad(t, v, "/web", 200)
	for n := range 2 {
		load.more(t, 60)
		procs[n].kill()
		load.more(t, 400) // about 2 s: Consul notices after about one
		procs[n] = command(t, []string{originEnv + "=" + origins[n].addr() + fmt.Sprint(" k", n)}, procs[n].cmd.Path)
		t.Cleanup(procs[n].kill)
		v.reaches(10*time.Second, "/web", "k0", "k1", "k2")
	}
	sent, failed, slowest := load.stop()
	t.Logf("%d requests, %d failed, the slowest took %v", sent, len(failed), slowest)
	for _, f := range failed[:min(len(failed), 10)] {
		t.Error(f)
	}
	if sent < 600 {
		t.Errorf("only %d requests were sent", sent)
	}
}

// load sends GETs at a steady rate, whether or not earlier ones have been answered.
type load struct {
	sent    atomic.Int64
	quit    chan struct{}
	running sync.WaitGroup

	mu      sync.Mutex
	failed  []string
	slowest time.Duration
}

func startLoad(t *testing.T, v *varco, uri string, perSecond int) *load {
	t.Helper()
	l := &load{quit: make(chan struct{})}
	client := &http.Client{
		Transport: &http.Transport{MaxIdleConnsPerHost: 64, DialContext: (&net.Dialer{}).DialContext},
		Timeout:   10 * time.Second,
	}
	l.running.Go(func() {
		tick := time.NewTicker(time.Second / time.Duration(perSecond))
		defer tick.Stop()
		for {
			select {
			case <-l.quit:
				return
			case <-tick.C:
				l.running.Go(func() { l.one(client, "http://"+v.proxy+uri) })
			}
		}
	})
	return l
}

func (l *load) one(client *http.Client, url string) {
	start := time.Now()
	res, err := client.Get(url)
	if err == nil {
		res.Body.Close()
		if res.StatusCode != http.StatusOK {
			err = fmt.Errorf("status %d", res.StatusCode)
		}
	}
	l.sent.Add(1)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.slowest = max(l.slowest, time.Since(start))
	if err != nil {
		l.failed = append(l.failed, err.Error())
	}
}

// more waits until so many more requests are done.
func (l *load) more(t *testing.T, n int64) {
	t.Helper()
	goal := l.sent.Load() + n
	eventually(t, 30*time.Second, "the load goes on", func() error {
		if got := l.sent.Load(); got < goal {
			return fmt.Errorf("%d of %d", got, goal)
		}
		return nil
	})
}

func (l *load) stop() (sent int64, failed []string, slowest time.Duration) {
	close(l.quit)
	l.running.Wait()
	return l.sent.Load(), l.failed, l.slowest
}
