package integration

import (
	"context"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
)

// faulty is an HTTP proxy between varco and Consul that counts requests, holds them, and answers errors in Consul's
// place.
type faulty struct {
	addr string
	next *httputil.ReverseProxy

	mu    sync.Mutex
	log   []*http.Request // in the order of their arrival
	rules []*rule
	token string // of the last request
}

// rule is a fault: what happens to the requests that it matches.
type rule struct {
	match  func(*http.Request) bool
	status int           // answer with this status, if not 0
	header http.Header   // these headers
	body   string        // and this body
	times  int           // so often, then no more; 0 means always
	until  chan struct{} // else wait until it is closed, then pass the request on
}

// newFaulty starts a proxy in front of an agent.
func newFaulty(t *testing.T, a *agent) *faulty {
	t.Helper()
	f := &faulty{next: &httputil.ReverseProxy{
		FlushInterval: -1,
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(&url.URL{Scheme: "http", Host: a.addr})
			r.Out.Header.Del("X-Consul-Token") // the agent has no ACLs, and none of the tokens that tests make up
		},
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f.addr = l.Addr().String()
	ctx, cancel := context.WithCancel(context.Background())
	srv := &http.Server{Handler: f, BaseContext: func(net.Listener) context.Context { return ctx }}
	go srv.Serve(l)
	t.Cleanup(func() {
		cancel()
		srv.Close()
	})
	return f
}

func (f *faulty) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	rule := f.arrived(r)
	switch {
	case rule == nil:
	case rule.status != 0:
		maps.Copy(w.Header(), rule.header)
		w.WriteHeader(rule.status)
		io.WriteString(w, rule.body)
		return
	default:
		select {
		case <-rule.until:
		case <-r.Context().Done():
			return
		}
	}
	f.next.ServeHTTP(w, r)
}

func (f *faulty) arrived(r *http.Request) *rule {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.token = r.Header.Get("X-Consul-Token")
	f.log = append(f.log, r)
	for i, rule := range f.rules {
		if !rule.match(r) {
			continue
		}
		if rule.times--; rule.times == 0 {
			f.rules = slices.Delete(f.rules, i, i+1)
		}
		return rule
	}
	return nil
}

// requests answers what has arrived so far.
func (f *faulty) requests() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	all := make([]string, len(f.log))
	for i, r := range f.log {
		all[i] = r.Method + " " + r.URL.RequestURI()
	}
	return all
}

// count answers how many requests of a kind have arrived so far.
func (f *faulty) count(match func(*http.Request) bool) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := 0
	for _, r := range f.log {
		if match(r) {
			n++
		}
	}
	return n
}

// lastToken answers the ACL token that came with the last request.
func (f *faulty) lastToken() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.token
}

// set puts rules in the place of those that were.
func (f *faulty) set(rules ...*rule) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rules = rules
}

// hold makes a rule that keeps requests waiting until the channel is closed.
func hold(match func(*http.Request) bool) *rule {
	return &rule{match: match, until: make(chan struct{})}
}

// fail makes a rule that answers with an error.
func fail(status int, match func(*http.Request) bool) *rule {
	return &rule{match: match, status: status, body: "rpc error making call: injected by a test"}
}

// empty makes a rule that answers with nothing, as a Consul does that has lost its data or filters by ACLs.
func empty(match func(*http.Request) bool, header http.Header) *rule {
	h := http.Header{"Content-Type": {"application/json"}, "X-Consul-Index": {"1000000"}}
	maps.Copy(h, header)
	return &rule{match: match, status: http.StatusOK, header: h, body: "[]"}
}

// The kinds of requests that varco sends to Consul.

func anyRequest(*http.Request) bool { return true }

func aboutKV(r *http.Request) bool { return strings.HasPrefix(r.URL.Path, "/v1/kv/") }

func aboutHealth(r *http.Request) bool { return strings.HasPrefix(r.URL.Path, "/v1/health/state/") }

// aboutService matches the look-ups of one service's instances; "" is any service.
func aboutService(name string) func(*http.Request) bool {
	return func(r *http.Request) bool {
		for _, p := range []string{"/v1/catalog/service/", "/v1/health/service/"} {
			if rest, ok := strings.CutPrefix(r.URL.Path, p); ok {
				return name == "" || rest == name
			}
		}
		return false
	}
}
