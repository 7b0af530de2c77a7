// Package admin is varco's page and API for operators, on a listener of its own (ui.addr).
//
// Each endpoint is one entry of the list in endpoint.go: its path, its methods and what a caller must be allowed to
// do. A request passes guard.go first, the one place that decides whether it is answered at all: the Host allow-list,
// the refusal of cross-origin writes, the access mode and the write token. A handler runs only for an entry that the
// guard has matched, so no spelling of a path can reach a handler around the decision.
//
// What the page shows is read from the routing table that is in use, through the functions in Deps; the package keeps
// no state besides the numbers of the last look (frame.go), taken only while somebody is looking. Without
// requests there is no work, and work per second is bounded however many pages are open, so that the page cannot slow
// the traffic down.
//
// Everything that comes from the registry is hostile text: it leaves as JSON and becomes text nodes, never markup.
//
// The package does not serve TLS and knows no users. It binds to loopback unless told otherwise.
package admin

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"varco/registry"
	"varco/route"
)

// Deps is what the page and the API show and change. Functions may be called from several goroutines; a nil one means
// that there is nothing of its kind.
type Deps struct {
	// Log gets the start-up warning and one line for each change made through the API. Nil discards.
	Log *slog.Logger
	// Version is varco's own version.
	Version string
	// Table is the table in use, nil before the first one.
	Table func() *route.Table
	// Problems are the refused tags, lines and targets of the table in use.
	Problems func() []route.Problem
	// Stats are the numbers of a target; false when it has none.
	Stats func(*route.Target) (Stat, bool)
	// Overrides stores manual routes; nil when the registry backend has none.
	Overrides registry.Overrides
	// Validate answers what is wrong with an overrides text. Nil only parses it.
	Validate func(text, source string) []route.Problem
	// Config lists every setting, with secrets already masked.
	Config func() []Setting
	// Metrics serves MetricsPath ("" means /metrics).
	Metrics     http.Handler
	MetricsPath string
	// Options describes the options of a route, for the help of the overrides editor.
	Options []Help
	// Ready says why varco cannot route yet; nil once it can.
	Ready func() error
	// Updated says when the table in use came into use.
	Updated func() time.Time
	// Trouble says what is wrong with the source of routes at this moment; the page warns that the table may be old.
	Trouble func() error
}

// Stat is the numbers of one target, counted since it was first seen.
type Stat struct {
	Requests, Errors uint64
	InFlight         int64
	P99              time.Duration
}

// Setting is one flag as it is in force. A secret's Value and Default are masked.
type Setting struct {
	Name  string `json:"name"`
	Value string `json:"value"`
	// Source names where the value came from: "default", "command line", "environment FABIO_UI_ADDR", a file.
	Source  string `json:"source"`
	Default string `json:"default"`
}

// Help describes one word of a language, such as an option of a route.
type Help struct {
	Name   string `json:"name"`
	Syntax string `json:"syntax"`
	Help   string `json:"help"`
}

// Server serves the page and the API. It is safe for concurrent use.
type Server struct {
	config   Config
	deps     Deps
	log      *slog.Logger
	listen   listenAddr
	hosts    hostList
	page     *page
	frames   frames
	checking sync.Mutex // held while a text is checked: one at a time, however many ask
	started  time.Time
	draining atomic.Bool

	http     *http.Server
	listener net.Listener
}

// New checks c and makes a Server that does not listen yet.
func New(c Config, d Deps) (*Server, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	listen, err := parseAddr(c.Addr)
	if err != nil {
		return nil, fmt.Errorf("ui.addr: %w", err)
	}
	if d.Log == nil {
		d.Log = slog.New(slog.DiscardHandler)
	}
	if d.MetricsPath == "" {
		d.MetricsPath = "/metrics"
	}
	if d.Validate == nil {
		d.Validate = parseOnly
	}
	s := &Server{
		config:  c.normal(),
		deps:    d,
		log:     d.Log,
		listen:  listen,
		hosts:   newHostList(c.Hosts, listen.host()),
		started: time.Now(),
	}
	s.frames = frames{table: d.Table, stats: d.Stats, now: time.Now}
	if s.page, err = newPage(s.config, d); err != nil {
		return nil, err
	}
	s.http = &http.Server{
		Handler:           s.Handler(),
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       orDefault(listen.readTimeout, 20*time.Second),
		WriteTimeout:      orDefault(listen.writeTimeout, writeTimeout),
		IdleTimeout:       orDefault(listen.idleTimeout, 60*time.Second),
		// A browser sends the cookies of everything else on localhost, too.
		MaxHeaderBytes: 32 << 10,
		ErrorLog:       slog.NewLogLogger(d.Log.Handler(), slog.LevelDebug),
	}
	return s, nil
}

// writeTimeout bounds an answer, and each step of an answer that is streamed.
const writeTimeout = 30 * time.Second

func parseOnly(text, source string) []route.Problem {
	_, problems := route.Parse(text, source)
	return problems
}

func orDefault(d, otherwise time.Duration) time.Duration {
	if d == 0 {
		return otherwise
	}
	return d
}

// Listen opens ui.addr. Call it once, before Serve.
func (s *Server) Listen() error {
	l, err := net.Listen("tcp", s.listen.addr)
	if err != nil {
		return fmt.Errorf("ui.addr: %w", err)
	}
	limited := newLimitListener(l, s.config.MaxConn)
	s.http.ConnState = limited.connState
	s.listener = limited
	if s.config.writable() && !loopback(l.Addr()) {
		s.log.Warn("everybody who reaches the page can change routes: ui.access is rw and ui.addr is not a loopback address",
			"addr", l.Addr().String(), "token", !s.config.Token.IsZero(), "hint", "set ui.access=ro, ui.token or ui.addr=127.0.0.1:9998")
	}
	return nil
}

// Serve answers requests until Shutdown, and returns nil then.
func (s *Server) Serve() error {
	if err := s.http.Serve(s.listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("ui.addr: %w", err)
	}
	return nil
}

// Addr is the address that Listen opened, nil before.
func (s *Server) Addr() net.Addr {
	if s.listener == nil {
		return nil
	}
	return s.listener.Addr()
}

// SetDraining makes /health fail from now on, so that load balancers and Consul send traffic elsewhere.
func (s *Server) SetDraining() { s.draining.Store(true) }

// Shutdown closes the listener, lets requests end until ctx does, and closes the rest.
func (s *Server) Shutdown(ctx context.Context) error {
	defer s.frames.forget()
	err := s.http.Shutdown(ctx)
	if err != nil {
		s.http.Close()
	}
	if s.listener != nil {
		s.listener.Close()
	}
	return err
}

func loopback(a net.Addr) bool {
	tcp, ok := a.(*net.TCPAddr)
	return ok && tcp.IP.IsLoopback()
}
