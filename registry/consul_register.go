package registry

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/consul/api"
	"github.com/hashicorp/go-sockaddr"
	"github.com/hashicorp/go-sockaddr/template"
	"github.com/spf13/pflag"
)

// varco enters itself into Consul's catalog, under its own name and under the aliases that routes ask for with the
// option register. Each entry has two checks: the agent asks varco's /health, and a TTL that varco refreshes, so that
// the entry of a varco that died without a word goes away by itself. The refresh also finds out that an entry was lost,
// with the agent's data or by somebody's hand, and enters it again.

const (
	// beat is the pause between two refreshes of the TTL checks. A lost entry is back within one beat.
	beat = 3 * time.Second
	ttl  = "15s"
	// removeAfter is how long a TTL check must have failed until Consul removes the entry.
	removeAfter = "1m"
)

// RegisterConfig says how varco enters itself into the catalog.
type RegisterConfig struct {
	Enabled bool
	// Addr is host:port; "" means that of the admin listener. It may be a go-sockaddr template.
	Addr string
	Name string
	// Tags is a comma list.
	Tags                        string
	CheckInterval, CheckTimeout time.Duration
	CheckTLSSkipVerify          bool
	deregisterAfter             string // no effect
}

func (c *RegisterConfig) flags(fs *pflag.FlagSet) {
	fs.BoolVar(&c.Enabled, "registry.consul.register.enabled", true, "enter varco itself into the catalog")
	fs.StringVar(&c.Addr, "registry.consul.register.addr", "", "address to register, host:port or a go-sockaddr template; empty = ui.addr")
	fs.StringVar(&c.Name, "registry.consul.register.name", "fabio", "service name to register")
	fs.StringVar(&c.Tags, "registry.consul.register.tags", "", "tags to register, comma list")
	fs.DurationVar(&c.CheckInterval, "registry.consul.register.checkInterval", time.Second, "pause between two health checks by the agent")
	fs.DurationVar(&c.CheckTimeout, "registry.consul.register.checkTimeout", 3*time.Second, "how long a health check may take")
	fs.BoolVar(&c.CheckTLSSkipVerify, "registry.consul.register.checkTLSSkipVerify", false, "the agent does not check varco's certificate")
	fs.StringVar(&c.deregisterAfter, "registry.consul.register.checkDeregisterCriticalServiceAfter", "", "no effect")
	fs.Lookup("registry.consul.register.checkDeregisterCriticalServiceAfter").Deprecated = "it has no effect: Consul removes the entry one minute after varco stopped refreshing it"
}

func (c *RegisterConfig) check() error {
	if c.Enabled && !isServiceName(c.Name) {
		return fmt.Errorf("registry.consul.register.name: %q: want letters, digits, dots, dashes and underscores", c.Name)
	}
	if c.CheckInterval <= 0 {
		return fmt.Errorf("registry.consul.register.checkInterval: %s: want more than 0", c.CheckInterval)
	}
	if c.CheckTimeout <= 0 {
		return fmt.Errorf("registry.consul.register.checkTimeout: %s: want more than 0", c.CheckTimeout)
	}
	if strings.Contains(c.Addr, "{{") {
		if _, err := template.Parse(c.Addr); err != nil {
			return fmt.Errorf("registry.consul.register.addr: %w", err)
		}
	}
	return nil
}

// isServiceName accepts names that need no escaping anywhere.
func isServiceName(s string) bool {
	ok := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '.' || r == '-' || r == '_'
	}
	return s != "" && len(s) <= 128 && strings.Trim(s, ".") != "" && !strings.ContainsFunc(s, func(r rune) bool { return !ok(r) })
}

// registration implements Registrar.
type registration struct {
	config RegisterConfig
	uiAddr string
	agent  *api.Agent
	query  func(f func() error) error // tells Observe
	log    *slog.Logger
	kick   chan struct{} // holds one: the aliases changed

	mu      sync.Mutex // guards the fields below
	aliases []string
	cancel  context.CancelFunc // nil before Register
	done    chan struct{}

	// Only the loop, and Deregister after it, use the fields below.
	ip      string
	port    int
	host    string
	entered map[string]bool // by name
	failing map[string]bool // by name
}

func newRegistration(c RegisterConfig, e Env, cl *client) *registration {
	return &registration{
		config: c, uiAddr: e.UIAddr, agent: cl.api.Agent(), log: e.Log,
		query:   func(f func() error) error { return e.query("register", f) },
		kick:    make(chan struct{}, 1),
		entered: map[string]bool{}, failing: map[string]bool{},
	}
}

// Register enters varco and keeps it entered.
func (r *registration) Register(ctx context.Context) error {
	ip, port, err := r.address()
	if err != nil {
		return err
	}
	host, err := os.Hostname()
	if err != nil {
		return fmt.Errorf("register: %w", err)
	}
	r.mu.Lock()
	if r.cancel != nil {
		r.mu.Unlock()
		return errors.New("register: registered already")
	}
	ctx, r.cancel = context.WithCancel(ctx)
	r.done = make(chan struct{})
	r.ip, r.port, r.host = ip, port, host
	r.mu.Unlock()
	tried := make(chan struct{})
	go r.run(ctx, tried)
	<-tried
	return nil
}

// run keeps the entries as they should be until ctx ends. It closes tried after the first round.
func (r *registration) run(ctx context.Context, tried chan<- struct{}) {
	defer close(r.done)
	tick := time.NewTicker(beat)
	defer tick.Stop()
	for first := true; ; first = false {
		r.mu.Lock()
		names := r.names()
		r.mu.Unlock()
		r.sync(ctx, names)
		if first {
			close(tried)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-r.kick:
		}
	}
}

// names returns the names that varco is to have now. The caller holds mu.
func (r *registration) names() []string {
	var names []string
	if r.config.Enabled {
		names = append(names, r.config.Name)
	}
	for _, a := range r.aliases {
		if !slices.Contains(names, a) {
			names = append(names, a)
		}
	}
	return names
}

// SetAliases sets the other names of varco.
func (r *registration) SetAliases(names []string) {
	var good []string
	for _, n := range names {
		if isServiceName(n) {
			good = append(good, n)
		} else {
			r.log.Warn("alias not registered: want letters, digits, dots, dashes and underscores", "register", shorten(n))
		}
	}
	slices.Sort(good)
	good = slices.Compact(good)
	r.mu.Lock()
	same := slices.Equal(good, r.aliases)
	r.aliases = good
	r.mu.Unlock()
	if same {
		return
	}
	select {
	case r.kick <- struct{}{}:
	default:
	}
}

// sync makes the catalog's entries those of names.
func (r *registration) sync(ctx context.Context, names []string) {
	for name := range r.entered {
		if !slices.Contains(names, name) {
			r.report(ctx, name, "leave the catalog", r.remove(ctx, name))
		}
	}
	for _, name := range names {
		if r.entered[name] && r.refresh(ctx, name) == nil {
			r.report(ctx, name, "refresh", nil)
			continue
		}
		r.report(ctx, name, "enter the catalog", r.enter(ctx, name))
	}
}

// report logs what changes between well and unwell.
func (r *registration) report(ctx context.Context, name, what string, err error) {
	was := r.failing[name]
	r.failing[name] = err != nil
	switch {
	case ctx.Err() != nil:
	case err != nil && !was:
		r.log.Warn("consul: cannot "+what+"; trying again", "service", name, "err", cause(err))
	case err == nil && was:
		r.log.Info("consul: registration is well again", "service", name)
	}
}

func (r *registration) id(name string) string {
	return fmt.Sprintf("%s-%s-%d", name, r.host, r.port)
}

func (r *registration) ttlID(name string) string { return r.id(name) + "-ttl" }

// enter registers one name with its checks.
func (r *registration) enter(ctx context.Context, name string) error {
	again := r.entered[name]
	err := r.call(ctx, func(q *api.QueryOptions) error {
		opts := api.ServiceRegisterOpts{ReplaceExistingChecks: true}
		return r.agent.ServiceRegisterOpts(&api.AgentServiceRegistration{
			ID:      r.id(name),
			Name:    name,
			Address: r.ip,
			Port:    r.port,
			Tags:    list(r.config.Tags),
			Checks: api.AgentServiceChecks{
				{CheckID: r.ttlID(name), TTL: ttl, Status: api.HealthPassing, DeregisterCriticalServiceAfter: removeAfter},
				{
					HTTP:          "http://" + net.JoinHostPort(r.ip, strconv.Itoa(r.port)) + "/health",
					Interval:      r.config.CheckInterval.String(),
					Timeout:       r.config.CheckTimeout.String(),
					TLSSkipVerify: r.config.CheckTLSSkipVerify,
				},
			},
		}, opts.WithContext(q.Context()))
	})
	if err != nil {
		return err
	}
	r.entered[name] = true
	if again {
		r.log.Warn("consul had lost varco's entry; entered again", "service", name, "id", r.id(name))
	} else {
		r.log.Info("entered into consul's catalog", "service", name, "id", r.id(name), "addr", net.JoinHostPort(r.ip, strconv.Itoa(r.port)))
	}
	return nil
}

// refresh keeps one name alive. Any error may mean that the entry is gone.
func (r *registration) refresh(ctx context.Context, name string) error {
	return r.call(ctx, func(q *api.QueryOptions) error {
		return r.agent.UpdateTTLOpts(r.ttlID(name), "", api.HealthPassing, q)
	})
}

// remove deregisters one name. Consul answers 404 when it is gone already.
func (r *registration) remove(ctx context.Context, name string) error {
	err := r.call(ctx, func(q *api.QueryOptions) error { return r.agent.ServiceDeregisterOpts(r.id(name), q) })
	if s, ok := errors.AsType[api.StatusError](err); ok && s.Code == 404 {
		err = nil
	}
	if err == nil {
		delete(r.entered, name)
		r.log.Info("left consul's catalog", "service", name, "id", r.id(name))
	}
	return err
}

func (r *registration) call(ctx context.Context, f func(q *api.QueryOptions) error) error {
	ctx, cancel := context.WithTimeout(ctx, slack)
	defer cancel()
	return r.query(func() error { return f(new(api.QueryOptions).WithContext(ctx)) })
}

// Deregister removes all entries.
func (r *registration) Deregister(ctx context.Context) error {
	r.mu.Lock()
	cancel, done := r.cancel, r.done
	r.mu.Unlock()
	if cancel == nil {
		return nil
	}
	cancel()
	<-done
	var errs []error
	for name := range r.entered {
		if err := r.remove(ctx, name); err != nil {
			errs = append(errs, fmt.Errorf("deregister %s: %w", r.id(name), err))
		}
	}
	return errors.Join(errs...)
}

// address returns the address to register: the host of register.addr or ui.addr if it is an IP address, else one of
// this machine.
func (r *registration) address() (ip string, port int, err error) {
	key, addr := "registry.consul.register.addr", r.config.Addr
	if addr == "" {
		key, addr = "ui.addr", r.uiAddr
	}
	if strings.Contains(addr, "{{") {
		if addr, err = template.Parse(addr); err != nil {
			return "", 0, fmt.Errorf("%s: %w", key, err)
		}
	}
	addr, _, _ = strings.Cut(addr, ";")
	host, p, err := net.SplitHostPort(strings.TrimSpace(addr))
	if err != nil {
		return "", 0, fmt.Errorf("%s: %q: want host:port", key, addr)
	}
	if port, err = strconv.Atoi(p); err != nil || port < 1 || port > 65535 {
		return "", 0, fmt.Errorf("%s: %q: want a port from 1 to 65535", key, addr)
	}
	if a, err := netip.ParseAddr(host); err == nil && !a.IsUnspecified() {
		return host, port, nil
	}
	return localIP(), port, nil
}

// localIP returns the address under which others reach this machine, as far as one can tell.
func localIP() string {
	for _, get := range []func() (string, error){sockaddr.GetPrivateIP, sockaddr.GetPublicIP} {
		if ip, err := get(); err == nil && ip != "" {
			return ip
		}
	}
	return "127.0.0.1"
}
