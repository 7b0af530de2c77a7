package registry

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/consul/api"
	"github.com/spf13/pflag"

	"varco/route"
)

// fake is a Consul agent in memory: enough of its HTTP API for this package, with blocking queries, and a hook for every
// fault. It is a RoundTripper, so that it works inside a synctest bubble where no real connection may be.
type fake struct {
	mu       sync.Mutex
	changed  chan struct{} // closed and replaced at each change
	index    uint64
	checksAt uint64
	listAt   uint64 // of the list of services
	kvAt     uint64
	checks   []check
	catalog  map[string][]map[string]any
	kv       map[string]api.KVPair
	agent    map[string]api.AgentServiceRegistration
	shuffle  bool
	history  int // counts the times that another history began

	// fault may answer instead of the fake; it says whether it did. It is called without the lock.
	fault func(w http.ResponseWriter, r *http.Request) bool
	log   []string // requests, without blocking parameters
	busy  int      // catalog look-ups under way, and the most there were
	most  int
}

func newFake() *fake {
	return &fake{
		changed: make(chan struct{}), index: 10, checksAt: 10, listAt: 10, kvAt: 10,
		catalog: map[string][]map[string]any{}, kv: map[string]api.KVPair{}, agent: map[string]api.AgentServiceRegistration{},
	}
}

// change runs f under the lock with the next index and wakes all blocking queries.
func (f *fake) change(do func(index uint64)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.index++
	do(f.index)
	close(f.changed)
	f.changed = make(chan struct{})
}

// restore begins another history, as a restored server does: parked queries return, whatever their index.
func (f *fake) restore(index uint64, do func()) {
	f.change(func(uint64) {
		f.history++
		f.index, f.checksAt, f.listAt, f.kvAt = index, index, index, index
		do()
	})
}

// register adds or replaces an instance with one check.
func (f *fake) register(node, id, addr string, port int, tags ...string) {
	service, _, _ := strings.Cut(id, "-")
	f.change(func(index uint64) {
		f.checksAt, f.listAt = index, index
		f.drop(node, id)
		f.checks = append(f.checks, check{
			Node: node, CheckID: "service:" + id, Status: "passing", ServiceID: id, ServiceName: service, ServiceTags: tags,
			CreateIndex: index, ModifyIndex: index,
		})
		f.catalog[service] = append(f.catalog[service], map[string]any{
			"Node": node, "Address": "10.9.9.9", "Datacenter": "dc1", "ServiceKind": "", "ServiceID": id, "ServiceName": service,
			"ServiceAddress": addr, "ServicePort": port, "ServiceTags": tags, "CreateIndex": index, "ModifyIndex": index,
		})
	})
}

// drop removes an instance. The caller holds the lock.
func (f *fake) drop(node, id string) {
	f.checks = slices.DeleteFunc(f.checks, func(c check) bool { return c.Node == node && c.ServiceID == id })
	for name, l := range f.catalog {
		f.catalog[name] = slices.DeleteFunc(l, func(e map[string]any) bool { return e["Node"] == node && e["ServiceID"] == id })
	}
}

func (f *fake) deregister(node, id string) {
	f.change(func(index uint64) {
		f.checksAt, f.listAt = index, index
		f.drop(node, id)
	})
}

// moved changes the port of an instance and nothing in its check.
func (f *fake) moved(node, id string, port int) {
	service, _, _ := strings.Cut(id, "-")
	f.change(func(index uint64) {
		f.listAt = index
		for _, e := range f.catalog[service] {
			if e["Node"] == node && e["ServiceID"] == id {
				e["ServicePort"] = port
			}
		}
	})
}

// status sets the state of all checks of an instance.
func (f *fake) status(node, id, status string) {
	f.change(func(index uint64) {
		f.checksAt = index
		for i := range f.checks {
			if c := &f.checks[i]; c.Node == node && c.ServiceID == id {
				c.Status, c.ModifyIndex = status, index
			}
		}
	})
}

func (f *fake) put(key, value string) {
	f.change(func(index uint64) {
		f.kvAt = index
		f.kv[key] = api.KVPair{Key: key, Value: []byte(value), ModifyIndex: index}
	})
}

// requests returns how many requests with this start were made since the last call.
func (f *fake) requests(start string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := 0
	f.log = slices.DeleteFunc(f.log, func(s string) bool {
		if strings.HasPrefix(s, start) {
			n++
			return true
		}
		return false
	})
	return n
}

func (f *fake) faults(hook func(w http.ResponseWriter, r *http.Request) bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fault = hook
}

// RoundTrip answers without a network.
func (f *fake) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body == nil {
		r = r.Clone(r.Context())
		r.Body = http.NoBody
	}
	w := httptest.NewRecorder()
	f.ServeHTTP(w, r)
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	resp := w.Result()
	resp.Request = r
	if n := resp.Header.Get("X-Fake-Cut"); n != "" {
		at, _ := strconv.Atoi(n)
		resp.Body = io.NopCloser(io.MultiReader(io.LimitReader(resp.Body, int64(at)), errReader{io.ErrUnexpectedEOF}))
	}
	return resp, nil
}

type errReader struct{ err error }

func (e errReader) Read([]byte) (int, error) { return 0, e.err }

func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	f.log = append(f.log, r.Method+" "+r.URL.Path)
	fault := f.fault
	isLookup := strings.HasPrefix(r.URL.Path, "/v1/catalog/service/")
	if isLookup {
		f.busy++
		f.most = max(f.most, f.busy)
	}
	f.mu.Unlock()
	w.Header().Set("X-Consul-LastContact", "0") // without it the client reads no header after it
	defer func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		if isLookup {
			f.busy--
		}
	}()
	if fault != nil && fault(w, r) {
		return
	}
	path := r.URL.Path
	switch {
	case path == "/v1/health/state/any":
		f.wait(r, func() uint64 { return f.checksAt })
		f.answer(w, f.checksAt, mixed(f, f.checks))
	case path == "/v1/catalog/services":
		f.wait(r, func() uint64 { return f.listAt })
		names := map[string][]string{}
		for name := range f.catalog {
			names[name] = []string{}
		}
		f.answer(w, f.listAt, names)
	case isLookup:
		f.mu.Lock()
		f.answer(w, f.index, mixed(f, f.catalog[strings.TrimPrefix(path, "/v1/catalog/service/")]))
	case strings.HasPrefix(path, "/v1/kv/"):
		f.serveKV(w, r, strings.TrimPrefix(path, "/v1/kv/"))
	case strings.HasPrefix(path, "/v1/agent/"):
		f.serveAgent(w, r, strings.TrimPrefix(path, "/v1/agent/"))
	default:
		http.NotFound(w, r)
	}
}

// mixed returns a copy of list, in another order each time if the fake shuffles. The caller holds the lock.
func mixed[T any](f *fake, list []T) []T {
	list = slices.Clone(list)
	if f.shuffle {
		rand.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	}
	if list == nil {
		return []T{}
	}
	return list
}

// wait blocks like Consul until the index has passed that of the query, and returns with the lock held.
func (f *fake) wait(r *http.Request, index func() uint64) {
	q := r.URL.Query()
	after, _ := strconv.ParseUint(q.Get("index"), 10, 64)
	d, _ := time.ParseDuration(q.Get("wait"))
	var late <-chan time.Time
	if d > 0 {
		late = time.After(d)
	}
	f.mu.Lock()
	history := f.history
	for after > 0 && index() <= after && f.history == history {
		changed := f.changed
		f.mu.Unlock()
		select {
		case <-changed:
			f.mu.Lock()
		case <-late:
			f.mu.Lock()
			return
		case <-r.Context().Done():
			f.mu.Lock()
			return
		}
	}
}

// answer writes an answer and gives the lock back.
func (f *fake) answer(w http.ResponseWriter, index uint64, v any) {
	b, err := json.Marshal(v)
	f.mu.Unlock()
	if err != nil {
		panic(err)
	}
	w.Header().Set("X-Consul-Index", fmt.Sprint(index))
	w.Write(b)
}

func (f *fake) serveKV(w http.ResponseWriter, r *http.Request, key string) {
	q := r.URL.Query()
	switch r.Method {
	case http.MethodGet:
		f.wait(r, func() uint64 { return f.kvAt })
		var keys []string
		for k := range f.kv {
			if k == key || (q.Has("recurse") || q.Has("keys")) && strings.HasPrefix(k, key) {
				keys = append(keys, k)
			}
		}
		slices.Sort(keys)
		if len(keys) == 0 {
			defer f.mu.Unlock()
			w.Header().Set("X-Consul-Index", fmt.Sprint(f.kvAt))
			w.WriteHeader(404)
			return
		}
		if q.Has("keys") {
			f.answer(w, f.kvAt, keys)
			return
		}
		var list []map[string]any
		for _, k := range keys {
			p := f.kv[k]
			list = append(list, map[string]any{"Key": k, "Value": base64.StdEncoding.EncodeToString(p.Value), "ModifyIndex": p.ModifyIndex})
		}
		f.answer(w, f.kvAt, list)
	default:
		body, _ := io.ReadAll(r.Body)
		cas, _ := strconv.ParseUint(q.Get("cas"), 10, 64)
		done := false
		f.change(func(index uint64) {
			old, ok := f.kv[key]
			switch {
			case r.Method == http.MethodPut && (ok && cas == old.ModifyIndex || !ok && cas == 0):
				f.kv[key] = api.KVPair{Key: key, Value: body, ModifyIndex: index}
				done = true
			case r.Method == http.MethodDelete && !ok:
				done = true
			case r.Method == http.MethodDelete && cas == old.ModifyIndex:
				delete(f.kv, key)
				done = true
			}
			f.kvAt = index
		})
		fmt.Fprint(w, done)
	}
}

func (f *fake) serveAgent(w http.ResponseWriter, r *http.Request, path string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case path == "service/register":
		var s api.AgentServiceRegistration
		if err := json.NewDecoder(r.Body).Decode(&s); err != nil {
			w.WriteHeader(400)
			return
		}
		f.agent[s.ID] = s
	case strings.HasPrefix(path, "service/deregister/"):
		id := strings.TrimPrefix(path, "service/deregister/")
		if _, ok := f.agent[id]; !ok {
			w.WriteHeader(404)
			return
		}
		delete(f.agent, id)
	case strings.HasPrefix(path, "check/update/"):
		for _, s := range f.agent {
			for _, c := range s.Checks {
				if c.CheckID == strings.TrimPrefix(path, "check/update/") {
					return
				}
			}
		}
		w.WriteHeader(404)
	default:
		w.WriteHeader(404)
	}
}

// entered returns the IDs that varco has registered.
func (f *fake) entered() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Sorted(maps.Keys(f.agent))
}

// parseConfig returns the default configuration, changed by flags "name=value".
func parseConfig(t testing.TB, flags ...string) Config {
	t.Helper()
	var c Config
	fs := pflag.NewFlagSet("test", pflag.ContinueOnError)
	c.Flags(fs)
	for _, f := range flags {
		name, value, _ := strings.Cut(f, "=")
		if err := fs.Set(name, value); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

// testConfig is parseConfig for flags that are right.
func testConfig(t testing.TB, flags ...string) Config {
	t.Helper()
	c := parseConfig(t, flags...)
	if err := c.Validate(); err != nil {
		t.Fatal(err)
	}
	return c
}

// watching is a backend that is watched, and what it has said.
type watching struct {
	t  *testing.T
	b  *consul
	mu sync.Mutex
	// got are all Snapshots, seen how many of them updates has counted.
	got  []route.Snapshot
	seen int
}

// watch starts a backend on f inside the bubble of the test and ends it with the test.
func watch(t *testing.T, f *fake, flags ...string) *watching {
	t.Helper()
	e := testEnv(t)
	b, err := newConsul(testConfig(t, flags...), e, f)
	if err != nil {
		t.Fatal(err)
	}
	w := &watching{t: t, b: b}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() {
		done <- b.Watch(ctx, func(s route.Snapshot) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.got = append(w.got, s)
		})
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Watch = %v", err)
		}
		for i := 1; i < len(w.got); i++ {
			if sameSnapshot(&w.got[i-1], &w.got[i]) {
				t.Errorf("update %d has the content of the one before", i)
			}
		}
	})
	return w
}

// updates returns how many Snapshots there were since the last call, after everything that goes on now has settled and
// d of the bubble's time has passed.
func (w *watching) updates(d time.Duration) int {
	<-time.After(d)
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	n := len(w.got) - w.seen
	w.seen = len(w.got)
	return n
}

// last returns the last Snapshot.
func (w *watching) last() route.Snapshot {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.got) == 0 {
		w.t.Helper()
		w.t.Fatal("no Snapshot yet")
	}
	return w.got[len(w.got)-1]
}

// text returns the commands of the last Snapshot, one a line.
func (w *watching) text() string {
	w.t.Helper()
	s := w.last()
	var lines []string
	for _, svc := range s.Services {
		for _, c := range svc.Commands {
			lines = append(lines, c.String())
		}
	}
	for _, c := range s.Overrides {
		lines = append(lines, "override: "+c.String())
	}
	for _, p := range s.Problems {
		lines = append(lines, "problem: "+p.Error())
	}
	return strings.Join(lines, "\n")
}

// want compares text with lines.
func (w *watching) want(lines ...string) {
	w.t.Helper()
	if got, want := w.text(), strings.Join(lines, "\n"); got != want {
		w.t.Errorf("routes:\n%s\nwant:\n%s", got, want)
	}
}
