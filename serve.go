package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"varco/admin"
	"varco/metrics"
	"varco/proxy"
	"varco/registry"
	"varco/route"
)

// The life of the process, always in this order:
//
//	start  the page and API open; /health answers, the page says that routes are awaited
//	       the registry is watched; the first complete set of routes becomes the table
//	       the proxy's listeners open, all or none
//	       varco registers itself in Consul
//	stop   /health fails, so that load balancers look elsewhere
//	       varco deregisters
//	       proxy.deregistergraceperiod passes, still serving
//	       the listeners close; what is in flight has proxy.shutdownwait to finish, then it is cut
//	       the registry is left alone and the page closes
//
// A second signal ends the process at once.

// Time limits of the steps that have no flag.
const (
	deregisterTimeout = 5 * time.Second
	adminStopTimeout  = 2 * time.Second
	rootWarning       = time.Hour
)

// server is everything that runs.
type server struct {
	c         *config
	log       *slog.Logger
	metrics   *metrics.Metrics
	proxy     *proxy.Proxy
	admin     *admin.Server
	backend   registry.Backend
	registrar registry.Registrar // nil when the backend has no such ability
	tables    tableLog

	first   chan struct{} // closed once the first complete table is in use
	opened  atomic.Bool   // the proxy's listeners are open
	failed  chan error    // what ends the process
	stopped context.Context
	stop    context.CancelFunc // ends the watch
	running sync.WaitGroup     // the watch and the registration

	mu   sync.Mutex
	last route.Snapshot // what the table was made of; guarded by mu
	when time.Time      // since when; guarded by mu
}

// serve runs varco until a signal or a failure ends it, and answers the exit code.
func serve(c *config, log *slog.Logger, signals <-chan os.Signal) int {
	s, err := newServer(c, log)
	if err != nil {
		log.Log(context.Background(), levelFatal, "cannot start", "err", err)
		return exitFailed
	}
	s.logStart()
	if err := s.admin.Listen(); err != nil {
		log.Log(context.Background(), levelFatal, "cannot open the admin listener", "err", err)
		return exitFailed
	}
	log.Info("page and API", "addr", s.admin.Addr().String())
	s.warnRoot() // before anything else runs: two starts say the same things in the same order
	go s.serveAdmin()
	s.running.Go(s.watch)

	code := s.loop(signals)
	return max(code, s.shutdown(signals))
}

// newServer makes all parts and starts none.
func newServer(c *config, log *slog.Logger) (*server, error) {
	s := &server{c: c, log: log, first: make(chan struct{}), failed: make(chan error, 8)}
	s.tables = tableLog{log: log, format: c.process.format()}
	s.stopped, s.stop = context.WithCancel(context.Background())
	var err error
	if s.metrics, err = metrics.New(c.metrics); err != nil {
		return nil, err
	}
	if s.proxy, err = proxy.New(c.proxy, s.metrics, log); err != nil {
		return nil, err
	}
	page, err := c.admin.HostPort()
	if err != nil {
		return nil, err
	}
	if s.backend, err = registry.Open(c.registry, registry.Env{
		Log: log, Now: time.Now, Observe: s.metrics.Registry, UIAddr: page,
	}); err != nil {
		return nil, err
	}
	s.registrar, _ = s.backend.(registry.Registrar)
	overrides, _ := s.backend.(registry.Overrides)
	if s.admin, err = admin.New(c.admin, admin.Deps{
		Log:         log,
		Version:     version,
		Table:       s.proxy.Table,
		Problems:    s.proxy.Problems,
		Stats:       s.stats,
		Overrides:   overrides,
		Validate:    s.checkOverrides,
		Config:      c.settings,
		Metrics:     s.metrics.Handler(),
		MetricsPath: c.metrics.Path,
		Options:     optionsForPage(),
		Ready:       s.ready,
		Updated:     s.updated,
		Trouble:     s.trouble,
	}); err != nil {
		return nil, err
	}
	s.proxy.Forbid(page)
	if f, ok := s.backend.(registry.Forbidden); ok {
		s.proxy.Forbid(f.UpstreamAddrs()...)
	}
	return s, nil
}

// loop waits for what happens, until a signal asks to stop (exitOK) or something fails (exitFailed).
func (s *server) loop(signals <-chan os.Signal) int {
	asRoot := time.NewTicker(rootWarning)
	defer asRoot.Stop()
	first := s.first
	for {
		select {
		case <-first:
			first = nil
			if err := s.open(); err != nil {
				s.log.Log(s.stopped, levelFatal, "cannot open the listeners", "err", err)
				return exitFailed
			}
		case err := <-s.failed:
			s.log.Log(s.stopped, levelFatal, "stopping", "err", err)
			return exitFailed
		case <-asRoot.C:
			s.warnRoot()
		case sig := <-signals:
			if sig == syscall.SIGHUP {
				s.reopen()
				continue
			}
			s.log.Info("stopping", "signal", sig.String())
			return exitOK
		}
	}
}

// open begins to take traffic: there is a table for it now.
func (s *server) open() error {
	if err := s.proxy.Listen(); err != nil {
		return err
	}
	s.opened.Store(true)
	for _, a := range s.proxy.Addrs() {
		s.log.Info("listening", "network", a.Network(), "addr", a.String())
	}
	go s.serveProxy()
	if s.registrar != nil {
		s.running.Go(s.register)
	}
	return nil
}

func (s *server) serveAdmin() {
	if err := s.admin.Serve(); err != nil {
		s.failed <- fmt.Errorf("admin listener: %w", err)
	}
}

func (s *server) serveProxy() {
	if err := s.proxy.Serve(); err != nil {
		s.failed <- fmt.Errorf("proxy listener: %w", err)
	}
}

func (s *server) register() {
	if err := s.registrar.Register(s.stopped); err != nil && s.stopped.Err() == nil {
		s.log.Error("not registered in the registry", "err", err)
	}
}

// watch feeds the proxy with what the registry knows. A watch that ends before there is a table ends the process;
// later it leaves the table as it is.
func (s *server) watch() {
	err := s.backend.Watch(s.stopped, s.update)
	if s.stopped.Err() != nil {
		return
	}
	select {
	case <-s.first:
		s.log.Error("the registry is no longer watched, the table stays as it is", "err", err)
	default:
		s.failed <- fmt.Errorf("registry: %w", err)
	}
}

// update makes snapshot the table. The watch calls it, from one goroutine.
func (s *server) update(snapshot route.Snapshot) {
	result := s.proxy.Update(snapshot)
	s.mu.Lock()
	s.last, s.when = snapshot, time.Now()
	s.mu.Unlock()
	if s.registrar != nil {
		s.registrar.SetAliases(s.proxy.Aliases())
	}
	s.tables.changed(result)
	select {
	case <-s.first:
	default:
		close(s.first)
	}
}

// updated answers when the table came into use; zero before the first one.
func (s *server) updated() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.when
}

// ready answers why there is no traffic yet, or nil.
func (s *server) ready() error {
	if s.opened.Load() {
		return nil
	}
	select {
	case <-s.first:
		return errors.New("opening the listeners")
	default:
		return fmt.Errorf("waiting for the first complete set of routes from %s", s.c.registry.Backend)
	}
}

// trouble answers what keeps the registry from new routes, or nil.
func (s *server) trouble() error {
	if t, ok := s.backend.(registry.Troubled); ok {
		return t.Trouble()
	}
	return nil
}

// stats converts a target's figures for the page.
func (s *server) stats(t *route.Target) (admin.Stat, bool) {
	m, ok := s.proxy.Stats(t)
	if !ok {
		return admin.Stat{}, false
	}
	return admin.Stat{Requests: m.Requests, Errors: m.Errors, InFlight: m.InFlight, P99: m.P99}, true
}

// checkOverrides answers what would be refused if text were saved: lines that do not parse, and options and
// destinations that do not work with what the registry has now.
func (s *server) checkOverrides(text, source string) []route.Problem {
	s.mu.Lock()
	services := s.last.Services
	s.mu.Unlock()
	commands, problems := route.Parse(text, source)
	for _, p := range s.proxy.Check(route.Snapshot{Services: services, Overrides: commands}) {
		if p.Origin.Source == source {
			problems = append(problems, p)
		}
	}
	return problems
}

func optionsForPage() []admin.Help {
	var all []admin.Help
	for _, o := range proxy.Options() {
		all = append(all, admin.Help(o))
	}
	return all
}

func (s *server) reopen() {
	if err := s.proxy.Reopen(); err != nil {
		s.log.Error("access log not reopened", "err", err)
		return
	}
	s.log.Info("access log reopened")
}

// shutdown stops everything in order. A second signal makes it return at once.
func (s *server) shutdown(signals <-chan os.Signal) int {
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.drain()
	}()
	for {
		select {
		case <-done:
			s.log.Info("stopped")
			return exitOK
		case sig := <-signals:
			if sig != syscall.SIGHUP {
				s.log.Warn("second signal: leaving at once", "signal", sig.String())
				return exitFailed
			}
		}
	}
}

// drain is the way down.
func (s *server) drain() {
	s.admin.SetDraining()
	if s.registrar != nil {
		ctx, cancel := context.WithTimeout(context.Background(), deregisterTimeout)
		if err := s.registrar.Deregister(ctx); err != nil {
			s.log.Warn("not deregistered, Consul will notice the missing heartbeat", "err", err)
		}
		cancel()
	}
	if len(s.proxy.Addrs()) > 0 && s.c.proxy.HTTP.DeregisterGracePeriod > 0 {
		s.log.Info("still serving until load balancers have noticed", "for", s.c.proxy.HTTP.DeregisterGracePeriod)
		<-time.After(s.c.proxy.HTTP.DeregisterGracePeriod)
	}
	ctx, cancel := context.WithTimeout(context.Background(), s.c.proxy.HTTP.ShutdownWait)
	defer cancel()
	for _, err := range flatten(s.proxy.Shutdown(ctx)) {
		if errors.Is(err, context.DeadlineExceeded) {
			s.log.Warn("some requests or connections were cut", "after", s.c.proxy.HTTP.ShutdownWait)
		} else {
			s.log.Warn("not everything closed well", "err", err)
		}
	}
	s.stop()
	s.running.Wait()
	ctx, cancel = context.WithTimeout(context.Background(), adminStopTimeout)
	defer cancel()
	if err := s.admin.Shutdown(ctx); err != nil {
		s.log.Debug("page cut", "err", err)
	}
}

// logStart says what this process runs with: what differs from the defaults, and its limits.
func (s *server) logStart() {
	set := []any{"version", version}
	for _, v := range s.c.settings() {
		if v.Source != "default" {
			set = append(set, v.Name, shorten(v.Value))
		}
	}
	s.log.Info("starting", set...)
	s.log.LogAttrs(context.Background(), slog.LevelInfo, "limits", append(s.c.proxy.Limits(),
		slog.Int("GOMAXPROCS", runtime.GOMAXPROCS(0)))...)
	for _, w := range s.c.warnings() {
		s.log.Warn("setting", "warning", w)
	}
}

func (s *server) warnRoot() {
	if os.Getuid() == 0 && !s.c.process.insecure {
		s.log.Warn("running as root; to use low ports give the binary cap_net_bind_service instead, or set --insecure to silence this")
	}
}
