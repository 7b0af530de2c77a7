// Package proxy serves traffic: it takes requests and connections from its listeners to the targets of a route table.
//
// Update makes a table of what the registry knows and puts it in use by one atomic store. A request loads that pointer
// once, looks up its route, has the route pick a target, and runs the target's chain of handlers. All decisions that
// options ask for were made when the target was bound (upstream.go, opt.go): a chain is frozen, holds only the handlers
// that its target needs, and reads typed fields; no map of options is asked while serving. What an update does not
// touch goes on: statistics, connections and turns hang on the target's identity, not on the table.
//
//	listener -> ServeHTTP: check, look up, pick (http.go)
//	            -> allow/deny -> redirect, or rewrite and forward (opt_*.go, forward.go) -> transport (pool.go)
//	            -> observe: count and log, whatever the answer was (observe.go)
//	listener -> serveConn: look up, pick, allow/deny, dial, relay (tcp.go)
//
// What an exchange needs is one pooled object (exchange.go), which is also the ResponseWriter of its handlers. The
// server and the transport are an engine's (engine.go): http1's, or net/http's. No policy is in them, and no policy
// depends on which they are.
//
// Safe by default: what two servers could read in two ways is refused (path.go, host.go); what a client says about
// itself is believed only from trusted peers (headers.go); an option that cannot be read refuses its target; the
// registry cannot point varco at itself or at a metadata service (guard.go); a request is repeated only when that
// cannot do harm (retry.go); a broken answer never looks complete; every limit is finite and counted.
//
// The package does not know where routes come from, holds no certificates, compresses nothing, and does not follow
// what upstreams answer.
package proxy

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spf13/pflag"

	"varco/metrics"
	"varco/route"
)

// Config is everything that can be set about serving traffic.
type Config struct {
	// Route is how the table is made. Its Bind is the proxy's own.
	Route route.Config
	// HTTP is about requests and HTTP upstreams.
	HTTP HTTPConfig
	// Listen is about the listeners and TCP connections.
	Listen ListenDefaults
	// AccessLog is about the access log.
	AccessLog AccessLogConfig
}

// Flags registers the flags of the package with their defaults; not those of Route.
func (c *Config) Flags(fs *pflag.FlagSet) {
	c.tcpFlags(fs)
	c.httpFlags(fs)
	c.accessLogFlags(fs)
}

// Validate checks what flags cannot check; the error names the key and what it may be.
func (c *Config) Validate() error {
	if err := c.validateHTTP(); err != nil {
		return err
	}
	if err := c.validateListen(); err != nil {
		return err
	}
	return c.validateAccessLog()
}

// Proxy serves traffic by a route table. Make one with New; safe for concurrent use.
type Proxy struct {
	config  Config
	metrics *metrics.Metrics
	log     *slog.Logger
	access  *accessLog

	state       atomic.Pointer[state]
	engine      engine
	exchanges   sync.Pool // of *exchange
	pools       *pools
	guard       *guard
	dialer      *dialer
	names       *headerNames
	trusted     *accessRule
	budget      retryBudget
	maxInFlight int64 // at one target, 0 is no limit
	tunnels     tunnels

	listeners listeners

	mu      sync.Mutex // serialises Update
	builder *route.Builder
}

// state is what a request needs of the moment it began in. Frozen.
type state struct {
	table    *route.Table
	problems []route.Problem
	noRoute  []byte // HTML, nil for the built-in text
	aliases  []string
}

// New returns a Proxy with an empty table that listens nowhere yet.
func New(c Config, m *metrics.Metrics, log *slog.Logger) (*Proxy, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	p := &Proxy{config: c, metrics: m, log: log}
	if err := p.initHTTP(); err != nil {
		return nil, err
	}
	if err := p.initListeners(); err != nil {
		return nil, err
	}
	c.Route.Bind = p.bind
	builder, err := route.NewBuilder(c.Route)
	if err != nil {
		return nil, err
	}
	p.builder = builder
	if p.access, err = newAccessLog(c.AccessLog, m, log); err != nil {
		return nil, err
	}
	p.state.Store(&state{table: builder.Build(route.Snapshot{}).Table})
	return p, nil
}

// UpdateResult tells what an update did.
type UpdateResult struct {
	// Table is the one now in use.
	Table *route.Table
	// Problems are what was refused, from the snapshot and from building the table.
	Problems []route.Problem
	// Added and Removed are the lines of the table's text that came and went.
	Added, Removed []string
	// Took is how long it all took.
	Took time.Duration
}

// Update makes a table of s and puts it in use: requests and connections that begin from now on see it. What its
// targets have in common with the previous table (statistics, connections, turns) goes on.
func (p *Proxy) Update(s route.Snapshot) UpdateResult {
	p.mu.Lock()
	defer p.mu.Unlock()
	start := time.Now()
	b := p.builder.Build(s)
	next := &state{table: b.Table, problems: b.Problems, aliases: aliases(b.Table)}
	if s.NoRoute != "" {
		next.noRoute = []byte(s.NoRoute)
	}
	last := p.state.Swap(next)
	for _, bound := range b.Removed {
		bound.(*upstream).release(p)
	}
	r := UpdateResult{Table: b.Table, Problems: b.Problems}
	r.Added, r.Removed = route.Diff(last.table, b.Table)
	r.Took = time.Since(start)
	p.recordUpdate(r)
	return r
}

func (p *Proxy) recordUpdate(r UpdateResult) {
	routes, targets := r.Table.Len()
	p.metrics.TableRoutes.Set(int64(routes))
	p.metrics.TableTargets.Set(int64(targets))
	p.metrics.TableHosts.Set(int64(r.Table.Hosts()))
	p.metrics.TableUpdates.Inc()
	p.metrics.UpdateSeconds.Observe(r.Took)
	p.metrics.RejectedTags.Set(int64(len(r.Problems)))
	p.metrics.TableTime.Set(time.Now())
}

// Check makes a table of s on the side and tells what would be refused; the table in use and the metrics stay as
// they are.
func (p *Proxy) Check(s route.Snapshot) []route.Problem {
	c := p.config.Route
	c.Bind = p.checkTarget
	builder, err := route.NewBuilder(c)
	if err != nil {
		return []route.Problem{{Reason: err.Error()}}
	}
	return builder.Build(s).Problems
}

// Table returns the table in use.
func (p *Proxy) Table() *route.Table { return p.state.Load().table }

// Problems returns what the last update refused.
func (p *Proxy) Problems() []route.Problem { return p.state.Load().problems }

// Stats returns the statistics of a target of any table; false when the target was refused.
func (p *Proxy) Stats(t *route.Target) (metrics.Stats, bool) {
	u, ok := t.Bound.(*upstream)
	if !ok || u.stats == nil {
		return metrics.Stats{}, false
	}
	return u.stats.Stats(), true
}

// Aliases returns the values of option register in the table, sorted, each once.
func (p *Proxy) Aliases() []string { return p.state.Load().aliases }

func aliases(t *route.Table) []string {
	var list []string
	for r := range t.All() {
		for _, t := range r.Targets {
			if u, ok := t.Bound.(*upstream); ok && u.alias != "" {
				list = append(list, u.alias)
			}
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// Forbid names addresses, host:port, that must never be upstreams: the page's listener, the Consul agent. To be
// called before the first Update.
func (p *Proxy) Forbid(addrs ...string) {
	for _, a := range addrs {
		p.guard.forbid(a, "forbidden address")
	}
}

// Reopen opens the access log's file anew, after a log rotation.
func (p *Proxy) Reopen() error { return p.access.Reopen() }

// Shutdown stops accepting, waits for what is in flight until ctx ends, then cuts the rest. The error is that of ctx
// when something had to be cut.
func (p *Proxy) Shutdown(ctx context.Context) error {
	err := p.shutdownListeners(ctx)
	if tunnelErr := p.tunnels.drain(ctx); err == nil {
		err = tunnelErr
	}
	p.pools.close()
	if closeErr := p.access.Close(); err == nil {
		err = closeErr
	}
	return err
}

// initHTTP makes the parts that requests need.
func (p *Proxy) initHTTP() (err error) {
	c := &p.config.HTTP
	p.maxInFlight = int64(c.maxInFlight())
	p.exchanges.New = func() any { return &exchange{p: p} }
	p.guard = &guard{local: localAddrs}
	for _, s := range c.Upstream {
		a, err := parseAllowedUpstream(s)
		if err != nil {
			return fmt.Errorf("proxy.upstream.allow: %q: %v", s, err)
		}
		p.guard.allowed = append(p.guard.allowed, a)
	}
	p.dialer = &dialer{timeout: c.DialTimeout, keepAlive: c.KeepAliveTimeout, guard: p.guard}
	if p.engine, err = findEngine(c.Engine); err != nil {
		return err
	}
	p.pools = newPools(func(id identity) transport { return p.engine.open(p, id) })
	if p.trusted, err = parseTrusted(c.Trusted); err != nil {
		return err
	}
	p.names, err = newHeaderNames(c)
	return err
}
