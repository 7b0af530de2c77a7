package registry

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/pflag"

	"varco/route"
)

// How Consul is watched. Four loops ask one blocking query after the other (follow): the health of all checks, the
// index of the list of services, the overrides and the no-route page. What the health watch says goes to the catalog
// loop, which looks up the services that changed (consul_catalog.go). Whatever is new meets in a collector; Watch
// makes a Snapshot of it once all parts are known, so the first one is complete, and hands it on.
//
// No trouble takes anything away: a query that fails is asked again after a pause, and what was known stays.

const (
	defaultAddr = "localhost:8500"
	// maxNoRoute is the longest no-route page.
	maxNoRoute = 64 << 10
)

// ConsulConfig says how to reach Consul and what to look for there.
type ConsulConfig struct {
	// Addr is the agent: host:port, http://…, https://… or unix:///path.
	Addr      string
	Token     Secret
	TokenFile string
	Namespace string
	Partition string
	TLS       ConsulTLSConfig
	// KVPath is the key of the overrides, NoRoutePath that of the no-route page; "" turns them off.
	KVPath, NoRoutePath string
	// TagPrefix and ServiceStatus are comma lists.
	TagPrefix, ServiceStatus string
	// ChecksRequired is one or all.
	ChecksRequired string
	// ServiceMonitors is how many catalog look-ups run at a time.
	ServiceMonitors int
	// PollInterval is the pause between plain reads; 0 means blocking queries, which wait up to Wait.
	PollInterval, Wait time.Duration
	// Refresh is how many services a second are looked up again after the list of services moved.
	Refresh                       int
	RequireConsistent, AllowStale bool
	Register                      RegisterConfig
}

// ConsulTLSConfig is used for https only.
type ConsulTLSConfig struct {
	KeyFile, CertFile, CAFile, CAPath string
	InsecureSkipVerify                bool
}

func (c *ConsulConfig) flags(fs *pflag.FlagSet) {
	fs.StringVar(&c.Addr, "registry.consul.addr", defaultAddr, "Consul agent: host:port, http://host:port, https://host:port or unix:///path; CONSUL_HTTP_ADDR counts when this is the default")
	fs.Var(&c.Token, "registry.consul.token", "ACL token; CONSUL_HTTP_TOKEN counts when this is empty")
	fs.StringVar(&c.TokenFile, "registry.consul.tokenfile", "", "file with the ACL token, read again when it changes; wins over registry.consul.token")
	fs.StringVar(&c.Namespace, "registry.consul.namespace", "", "namespace (Consul Enterprise)")
	fs.StringVar(&c.Partition, "registry.consul.partition", "", "admin partition (Consul Enterprise)")
	fs.StringVar(&c.TLS.KeyFile, "registry.consul.tls.keyfile", "", "client key for https")
	fs.StringVar(&c.TLS.CertFile, "registry.consul.tls.certfile", "", "client certificate for https")
	fs.StringVar(&c.TLS.CAFile, "registry.consul.tls.cafile", "", "CA certificates for https")
	fs.StringVar(&c.TLS.CAPath, "registry.consul.tls.capath", "", "folder of CA certificates for https")
	fs.BoolVar(&c.TLS.InsecureSkipVerify, "registry.consul.tls.insecureskipverify", false, "do not check Consul's certificate")
	fs.StringVar(&c.KVPath, "registry.consul.kvpath", "/fabio/config", "key of the manual routes, with the keys below it; empty = none")
	fs.StringVar(&c.NoRoutePath, "registry.consul.noroutehtmlpath", "/fabio/noroute.html", "key of the page for requests without a route; empty = none")
	fs.StringVar(&c.TagPrefix, "registry.consul.tagprefix", "urlprefix-", "prefixes of the tags that make routes, comma list")
	fs.StringVar(&c.ServiceStatus, "registry.consul.service.status", "passing", "states of a check that are good, comma list of passing, warning, critical, maintenance or unknown")
	fs.StringVar(&c.ChecksRequired, "registry.consul.checksRequired", "one", "how many checks of an instance must be good: one or all")
	fs.IntVar(&c.ServiceMonitors, "registry.consul.serviceMonitors", 8, "catalog look-ups at a time")
	fs.IntVar(&c.Refresh, "registry.consul.refresh", 10, "services a second that are looked up again after a registration that no check shows; 0 = none")
	fs.DurationVar(&c.PollInterval, "registry.consul.pollinterval", 0, "pause between plain reads; 0 = wait for changes instead")
	fs.DurationVar(&c.Wait, "registry.consul.wait", 5*time.Minute, "how long one query waits for a change, 1s to 10m")
	fs.BoolVar(&c.RequireConsistent, "registry.consul.requireConsistent", true, "read from the leader, verified")
	fs.BoolVar(&c.AllowStale, "registry.consul.allowStale", false, "read from any server, perhaps old; needs requireConsistent=false")
	c.Register.flags(fs)
}

func checkConsul(config *Config) error {
	c := &config.Consul
	if c.Addr != defaultAddr && c.Addr != "" {
		if err := new(client).setAddr(clientConfig(*c)); err != nil {
			return err
		}
	}
	if c.RequireConsistent && c.AllowStale {
		return errors.New("registry.consul.allowStale and registry.consul.requireConsistent cannot both be true")
	}
	if c.ChecksRequired != "one" && c.ChecksRequired != "all" {
		return fmt.Errorf("registry.consul.checksRequired: %q: want one or all", c.ChecksRequired)
	}
	states := []string{"passing", "warning", "critical", "maintenance", "unknown"}
	status := list(c.ServiceStatus)
	for _, s := range status {
		if !slices.Contains(states, s) {
			return fmt.Errorf("registry.consul.service.status: %q: want %s", s, oneOf(states))
		}
	}
	if len(status) == 0 {
		return fmt.Errorf("registry.consul.service.status: empty: want %s", oneOf(states))
	}
	if len(list(c.TagPrefix)) == 0 {
		return errors.New("registry.consul.tagprefix: empty: every tag would make a route; want a prefix such as urlprefix-")
	}
	if c.PollInterval < 0 {
		return fmt.Errorf("registry.consul.pollinterval: %s: want 0 or more", c.PollInterval)
	}
	if c.Wait < time.Second || c.Wait > 10*time.Minute {
		return fmt.Errorf("registry.consul.wait: %s: want 1s to 10m", c.Wait)
	}
	if c.Refresh < 0 || c.Refresh > 1000 {
		return fmt.Errorf("registry.consul.refresh: %d: want 0 to 1000", c.Refresh)
	}
	if c.ServiceMonitors > 128 {
		return fmt.Errorf("registry.consul.serviceMonitors: %d: want at most 128; an agent allows 200 connections", c.ServiceMonitors)
	}
	for _, p := range []struct{ key, value string }{{"kvpath", c.KVPath}, {"noroutehtmlpath", c.NoRoutePath}} {
		if p.value != "" && strings.Trim(p.value, "/") == "" {
			return fmt.Errorf("registry.consul.%s: %q: want a key such as /fabio/config, or nothing", p.key, p.value)
		}
	}
	return c.Register.check()
}

// consul is the backend. It implements all optional interfaces.
type consul struct {
	config  Config
	env     Env
	client  *client
	kvPath  string // without slashes around
	page    string
	watches watches
	*registration
}

func openConsul(c Config, e Env) (Backend, error) { return newConsul(c, e, nil) }

// newConsul makes the backend. network is nil but in tests.
func newConsul(c Config, e Env, network http.RoundTripper) (*consul, error) {
	cl, err := newClient(c.Consul, network, e)
	if err != nil {
		return nil, err
	}
	return &consul{
		config: c, env: e, client: cl,
		kvPath: strings.Trim(c.Consul.KVPath, "/"), page: strings.Trim(c.Consul.NoRoutePath, "/"),
		registration: newRegistration(c.Consul.Register, e, cl),
	}, nil
}

// UpstreamAddrs returns the addresses of the agent.
func (b *consul) UpstreamAddrs() []string { return slices.Clone(b.client.addrs) }

// Trouble says which watches get no answers.
func (b *consul) Trouble() error { return b.watches.trouble() }

// Watch watches Consul until ctx ends.
func (b *consul) Watch(ctx context.Context, update func(route.Snapshot)) error {
	c := &b.config.Consul
	col := &collector{wake: make(chan struct{}, 1)}
	cat := &catalog{
		lookup: b.lookup, tagger: newTagger(list(c.TagPrefix), runtime.GOOS), deliver: col.setServices, log: b.env.Log,
		parallel: max(c.ServiceMonitors, 1), patience: b.config.Timeout, retry: b.config.Retry,
	}
	healths, moves, armed := make(chan health), make(chan struct{}, 1), make(chan struct{})
	var all sync.WaitGroup
	defer all.Wait()
	all.Go(func() { cat.run(ctx, healths, moves) })
	if c.Refresh > 0 {
		cat.refresh = time.Second / time.Duration(c.Refresh)
		all.Go(func() { b.watchServices(ctx, moves, sync.OnceFunc(func() { close(armed) })) })
	} else {
		close(armed)
	}
	all.Go(func() { b.watchHealth(ctx, armed, healths) })
	if b.kvPath == "" {
		col.setOverrides(nil, nil)
	} else {
		all.Go(func() { b.watchOverrides(ctx, col) })
	}
	if b.page == "" {
		col.setNoRoute("", nil)
	} else {
		all.Go(func() { b.watchNoRoute(ctx, col) })
	}
	col.run(ctx, update)
	return nil
}

// watchHealth follows the checks. It starts once the list of services has been asked for, see watchServices.
func (b *consul) watchHealth(ctx context.Context, armed <-chan struct{}, to chan<- health) {
	select {
	case <-armed:
	case <-time.After(2 * time.Second):
	case <-ctx.Done():
		return
	}
	c := &b.config.Consul
	r := newHealthReader(list(c.TagPrefix), list(c.ServiceStatus), c.ChecksRequired == "all")
	query := func(ctx context.Context, q ask) (answer[health], error) { return b.queryHealth(ctx, q, r) }
	var last health
	judge := func(h health) error { return h.credible(&last) }
	follow(ctx, b, "health", query, judge, func(h health) {
		b.env.Log.Debug("consul health", "checks", h.total, "kept", h.kept, "instances", len(h.instances))
		last = h
		select {
		case to <- h:
		case <-ctx.Done():
		}
	})
}

// queryHealth asks for all checks. The head of the answer has its deadline, the body one of its own.
func (b *consul) queryHealth(ctx context.Context, q ask, r *healthReader) (a answer[health], err error) {
	limit := b.limit(q.index)
	ctx, cancel := context.WithTimeout(ctx, limit+bodyTime)
	defer cancel()
	head := time.AfterFunc(limit, cancel)
	resp, err := b.client.health(ctx, q, b.config.Consul.Wait)
	if !head.Stop() {
		if err == nil {
			resp.Body.Close()
		}
		return a, context.DeadlineExceeded
	}
	if err != nil {
		return a, err
	}
	defer resp.Body.Close()
	a.at = time.Now()
	if a.index, err = answerIndex(resp.Header); err != nil {
		return a, err
	}
	a.value, err = r.read(resp.Body)
	a.value.filtered = resp.Header.Get("X-Consul-Results-Filtered-By-ACLs") == "true"
	return a, err
}

// watchServices follows the index of the list of services, see consul_catalog.go. armed is called once the first
// answer is there or cannot be had: whatever is looked up after that is no older than the index.
func (b *consul) watchServices(ctx context.Context, moves chan<- struct{}, armed func()) {
	var known uint64
	late := false // a look-up may have been before the first answer
	query := func(ctx context.Context, q ask) (answer[uint64], error) {
		ctx, cancel := context.WithTimeout(ctx, b.limit(q.index))
		defer cancel()
		var names struct{} // only the index counts
		var index uint64
		m, err := b.client.api.Raw().Query("/v1/catalog/services", &names, b.client.query(ctx, q, b.config.Consul.Wait))
		if err == nil {
			index, err = metaIndex(m)
		}
		if err != nil {
			late = true
			armed()
			return answer[uint64]{}, err
		}
		return answer[uint64]{index, index, time.Now()}, nil
	}
	follow(ctx, b, "services", query, nil, func(index uint64) {
		if known != index && (known != 0 || late) {
			select {
			case moves <- struct{}{}:
			default: // one is waiting already
			}
		}
		known = index
		armed()
	})
}

// lookup asks the catalog for the instances of one service.
func (b *consul) lookup(ctx context.Context, service string) ([]entry, error) {
	ctx, cancel := context.WithTimeout(ctx, slack)
	defer cancel()
	var entries []entry
	err := b.env.query("catalog", func() error {
		m, err := b.client.api.Raw().Query("/v1/catalog/service/"+service, &entries, b.client.query(ctx, ask{}, 0))
		if err == nil {
			_, err = metaIndex(m)
		}
		return err
	})
	return entries, err
}
