package integration

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"
)

// catalog is the size of a datacenter. Every service has four instances, each with one check; as many services again
// and more have no tag for a router.
type catalog struct {
	nodes    int
	routed   int // services with a route
	unrouted int
	origins  [instancesPerService]*origin // all services share them
}

const instancesPerService = 4

// TestBigCatalog holds varco to its figures: the first table of 12,000 routed checks among 39,000 within 3 s, at most 2
// Consul requests and half a second of processor time for one flip of a check, nothing at all for a check that is none
// of its business. It measures varco as users build it, not under the race detector.
//
// The whole takes about a minute, so a third of the size stands in for it unless VARCO_TEST_BIG is set (make
// bench-consul); the bounds are the same.
func TestBigCatalog(t *testing.T) {
	size := catalog{nodes: 334, routed: 1000, unrouted: 2250}
	if os.Getenv("VARCO_TEST_BIG") != "" {
		size = catalog{nodes: 1000, routed: 3000, unrouted: 6750}
	}
	a := ownAgent(t, "")
	f := settings(t).with(flags{"registry.consul.addr": a.addr})
	prefix := f["registry.consul.tagprefix"]
	for i := range size.origins {
		size.origins[i] = newOrigin(t, fmt.Sprint(i))
	}
	filling := time.Now()
	size.fill(t, a, prefix)
	t.Logf("filled %d checks in %v", (size.routed+size.unrouted)*instancesPerService, time.Since(filling))
	// The best of three: a machine that is busy with other things says nothing about varco.
	first := time.Hour
	for try := 0; try < 3 && first > 3*time.Second; try++ {
		start := time.Now()
		v := launchBinary(t, shared.plain, nil, f)
		v.listens(time.Minute)
		first = time.Since(start)
		t.Logf("first table of %d targets: %v after the start, %v of processor time",
			size.routed*instancesPerService, first, mustCPU(t, v))
		v.finish()
	}
	if first > 3*time.Second {
		t.Errorf("first table after %v, want less than 3 s", first)
	}

	// The same once more, with someone in between who counts the requests.
	faulty := newFaulty(t, a)
	f["registry.consul.addr"] = faulty.addr
	v := launchBinary(t, shared.plain, nil, f)
	v.listens(time.Minute)
	t.Logf("%d requests for the first table", len(faulty.requests()))
	v.serving()
	if n := strings.Count(v.table(), "\n"); n < size.routed*instancesPerService {
		t.Errorf("the table has %d targets, want %d", n, size.routed*instancesPerService)
	}
	for _, n := range []int{0, size.routed / 2, size.routed - 1} {
		if err := size.reached(v, n, "0", "1", "2", "3"); err != nil {
			t.Error(err)
		}
	}
	quiet(t, faulty)

	// A check that fails and passes again: how long it takes, then what it costs when nobody looks meanwhile.
	var slowest time.Duration
	for n := range 2 {
		polls, flip := faulty.count(aboutHealth), time.Now()
		want := size.flip(t, a, n)
		eventually(t, 10*time.Second, "the flip is in the table", func() error { return size.reached(v, n/2, want...) })
		slowest = max(slowest, time.Since(flip))
		polled(t, faulty, polls)
	}
	const flips = 6
	before, cpuBefore := len(faulty.requests()), mustCPU(t, v)
	for n := range flips {
		polls := faulty.count(aboutHealth)
		want := size.flip(t, a, n)
		polled(t, faulty, polls)
		if err := size.reached(v, n/2, want...); err != nil {
			t.Error(err)
		}
	}
	requests, cpu := len(faulty.requests())-before, mustCPU(t, v)-cpuBefore
	t.Logf("one flip: at most %v until it is in the table, %.1f requests to Consul, %v of processor time",
		slowest, float64(requests)/flips, cpu/flips)
	if requests > 2*flips {
		t.Errorf("%d flips cost %d requests, want 2 each: %v", flips, requests, faulty.requests()[before:])
	}
	if cpu > flips*time.Second/2 {
		t.Errorf("%d flips cost %v of processor time, want less than 500 ms each", flips, cpu)
	}

	// A check of a service without a route.
	updates, err := v.metric("table_updates_total")
	if err != nil {
		t.Fatal(err)
	}
	before, cpuBefore = len(faulty.requests()), mustCPU(t, v)
	for n := range flips {
		polls := faulty.count(aboutHealth)
		size.set(t, a, size.routed+n, api.HealthCritical)
		polled(t, faulty, polls)
	}
	t.Logf("one irrelevant flip: %.1f requests to Consul, %v of processor time",
		float64(len(faulty.requests())-before)/flips, (mustCPU(t, v)-cpuBefore)/flips)
	if n := len(faulty.requests()) - before; n > flips {
		t.Errorf("%d irrelevant flips cost %d requests, want 1 each", flips, n)
	}
	if now, err := v.metric("table_updates_total"); err != nil || now != updates {
		t.Errorf("irrelevant checks built tables: %v before, %v after, %v", updates, now, err)
	}
}

func serviceName(n int) string { return fmt.Sprintf("svc-%05d", n) }
func serviceHost(n int) string { return fmt.Sprintf("svc-%05d.example.com", n) }

// node answers the node of an instance.
func (c catalog) node(service, instance int) int {
	return (service*instancesPerService + instance) % c.nodes
}

// flip changes the check of a service's first instance for the nth time and answers the instances that should be
// reached then.
func (c catalog) flip(t *testing.T, a *agent, n int) []string {
	t.Helper()
	if n%2 == 0 {
		c.set(t, a, n/2, api.HealthCritical)
		return []string{"1", "2", "3"}
	}
	c.set(t, a, n/2, api.HealthPassing)
	return []string{"0", "1", "2", "3"}
}

// reached says why the requests to a service don't reach exactly these instances.
func (c catalog) reached(v *varco, service int, want ...string) error {
	seen := map[string]bool{}
	for range 2 * instancesPerService {
		r, err := v.send(v.proxy, "GET", fmt.Sprintf("/%d/x", service), "", "Host", serviceHost(service))
		if err != nil {
			return err
		}
		if r.status != http.StatusOK {
			return fmt.Errorf("service %d answers %d", service, r.status)
		}
		seen[r.echo(v.t).Instance] = true
	}
	if got := slices.Sorted(maps.Keys(seen)); !slices.Equal(got, want) {
		return fmt.Errorf("service %d reaches %v, want %v", service, got, want)
	}
	return nil
}

// fill registers everything, eight requests at a time. There is no serfHealth check: the leader reaps nodes that have
// one and that serf does not know.
func (c catalog) fill(t *testing.T, a *agent, prefix string) {
	t.Helper()
	jobs := make(chan *api.CatalogRegistration)
	errs := make(chan error, 8)
	var workers sync.WaitGroup
	for range 8 {
		workers.Go(func() {
			for job := range jobs {
				if _, err := a.Catalog().Register(job, nil); err != nil {
					select {
					case errs <- err:
					default:
					}
				}
			}
		})
	}
	for n := range c.routed + c.unrouted {
		tags := []string{"team-a", "v1.2.3"}
		if n < c.routed {
			tags = append(tags, fmt.Sprintf("%s%s/%d", prefix, serviceHost(n), n))
		}
		for i := range instancesPerService {
			jobs <- c.registration(n, i, tags)
		}
	}
	close(jobs)
	workers.Wait()
	select {
	case err := <-errs:
		t.Fatalf("fill the catalog: %v", err)
	default:
	}
}

func (c catalog) registration(service, instance int, tags []string) *api.CatalogRegistration {
	node := fmt.Sprintf("node-%04d", c.node(service, instance))
	id := fmt.Sprintf("%s-%d", serviceName(service), instance)
	return &api.CatalogRegistration{
		Node: node, Address: "127.0.0.1",
		Service: &api.AgentService{ID: id, Service: serviceName(service), Tags: tags,
			Address: c.origins[instance].host, Port: c.origins[instance].port},
		Check: &api.AgentCheck{
			Node: node, CheckID: "service:" + id, Name: "Service '" + serviceName(service) + "' check", Status: api.HealthPassing,
			ServiceID: id, ServiceName: serviceName(service), Output: "HTTP GET http://127.0.0.1:8080/health: 200 OK Output: OK",
		},
	}
}

// set changes the state of the check of a service's first instance.
func (c catalog) set(t *testing.T, a *agent, service int, state string) {
	t.Helper()
	reg := c.registration(service, 0, nil)
	reg.Check.Status, reg.Service, reg.SkipNodeUpdate = state, nil, true
	if _, err := a.Catalog().Register(reg, nil); err != nil {
		t.Fatal(err)
	}
}

// polled waits until varco has taken in a change of the checks: it asks for the next one, and for nothing else any more.
func polled(t *testing.T, f *faulty, polls int) {
	t.Helper()
	eventually(t, 20*time.Second, "varco asks for the next change", func() error {
		if f.count(aboutHealth) == polls {
			return errors.New("it does not")
		}
		return nil
	})
	quiet(t, f)
}

// quiet waits until no request has come for a while: what there was to do is done.
func quiet(t *testing.T, f *faulty) {
	t.Helper()
	last, since := -1, time.Now()
	eventually(t, 30*time.Second, "no more requests to Consul", func() error {
		if n := len(f.requests()); n != last {
			last, since = n, time.Now()
		}
		if time.Since(since) < 500*time.Millisecond {
			return fmt.Errorf("%d", last)
		}
		return nil
	})
}

func mustCPU(t *testing.T, v *varco) time.Duration {
	t.Helper()
	used, err := v.cpu()
	if err != nil && !errors.Is(err, errors.ErrUnsupported) {
		t.Fatal(err)
	}
	return used
}
