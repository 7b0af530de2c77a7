// Package registry is where routes come from. A Backend watches one source (Consul, a file, a text in the
// configuration, an HTTP service) and hands out complete Snapshots of typed route commands; package route makes a
// table of them.
//
// Open picks a backend from the ordered list backends by its name. What only some sources can do is an optional
// interface that the caller asks for with a type assertion: Overrides (edit the manual routes), Registrar (enter
// varco itself into the catalog), Forbidden (addresses that must never be an upstream), Troubled (say what is wrong).
//
// Three rules hold for every backend. The first Snapshot is complete or there is none yet: a listener that opens on
// it never answers 404 for a route that was only late. Trouble with the source never takes a route away: the last
// good Snapshot stays. And a bad tag, line or entry costs only itself: it becomes a route.Problem that names its
// place, never an error and never text that is parsed again.
//
// The package does not decide what a route means, keeps no history, and writes nothing to disk.
package registry

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"varco/route"
)

// Backend is a source of routes.
type Backend interface {
	// Watch calls update with each new complete Snapshot, the first as soon as one is known, until ctx ends; it
	// returns nil then, after everything it started has ended. update is called from one goroutine and never
	// twice in a row with the same content. Watch is called once.
	Watch(ctx context.Context, update func(route.Snapshot)) error
}

// Overrides is an optional ability of a Backend: it holds the manual routes as texts under paths, and texts can be
// changed there. A path is "" or begins with "/". Safe for concurrent use.
type Overrides interface {
	// Paths returns the paths that have a text, sorted.
	Paths(ctx context.Context) ([]string, error)
	// Get returns the text at path. A path without a text gives an empty Value and a Version to create it with.
	Get(ctx context.Context, path string) (Manual, error)
	// Put writes m.Value if the text still has m.Version or does not exist, else it fails with ErrConflict.
	Put(ctx context.Context, path string, m Manual) error
	// Delete removes the text if it still has this version, else it fails with ErrConflict. Removing what does
	// not exist is no error.
	Delete(ctx context.Context, path string, version uint64) error
}

// Manual is a text of manual routes and the version it was read at.
type Manual struct {
	Value   string
	Version uint64
}

// Errors of Overrides.
var (
	// ErrConflict means that somebody else changed the text in the meantime.
	ErrConflict = errors.New("version mismatch: somebody else changed these overrides; load them again")
	// ErrPath means that a path cannot name a text. It is wrapped with the reason.
	ErrPath = errors.New("bad path")
	// ErrTooLarge means that a text is longer than the source can hold.
	ErrTooLarge = errors.New("overrides too long: want at most 512 KiB under one path, spread them over several")
	// ErrNoOverrides means that manual routes are turned off.
	ErrNoOverrides = errors.New("manual routes are turned off: registry.consul.kvpath is empty")
)

// Registrar is an optional ability of a Backend: it enters varco itself into the catalog. Safe for concurrent use.
type Registrar interface {
	// Register enters varco's own service with its checks and returns once that is done or cannot be done; after
	// that it keeps entry and checks alive, and enters them again when they were lost, until Deregister or until ctx
	// ends. It does not give up while the catalog does not answer: an error means that the configuration is wrong.
	Register(ctx context.Context) error
	// SetAliases says under which other names varco is to be found; names that are not in the list any more are
	// removed. It returns at once.
	SetAliases(names []string)
	// Deregister removes everything that Register and SetAliases entered. The checks are not refreshed any more
	// even if it fails.
	Deregister(ctx context.Context) error
}

// Forbidden is an optional ability of a Backend: it knows addresses that must never be an upstream.
type Forbidden interface {
	// UpstreamAddrs returns them as host:port.
	UpstreamAddrs() []string
}

// Troubled is an optional ability of a Backend: it knows how well it is. Safe for concurrent use.
type Troubled interface {
	// Trouble says what keeps the backend from new routes at this moment, nil when nothing does.
	Trouble() error
}

// Env is what a backend gets from its surroundings. The zero value works.
type Env struct {
	// Log gets what an operator must know. Nil discards it.
	Log *slog.Logger
	// Now is the clock that Observe's durations are taken from. Nil is time.Now.
	Now func() time.Time
	// Observe is called after each query to the source with its kind ("health", "catalog", "services",
	// "overrides", "noroute", "register", "file", "custom"), its error, and how long it took; a query that waits
	// for a change takes as long as it waits. Nil is allowed. It must be safe for concurrent use.
	Observe func(kind string, err error, d time.Duration)
	// UIAddr is the host:port of the admin listener, under which varco registers itself by default.
	UIAddr string
}

// query runs f and tells Observe.
func (e Env) query(kind string, f func() error) error {
	start := e.Now()
	err := f()
	e.Observe(kind, err, e.Now().Sub(start))
	return err
}

// Named is a word for a flag and what it means.
type Named struct{ Name, Help string }

// backends are the sources of routes, in the order in which --help shows them.
var backends = []struct {
	Named
	check func(c *Config) error
	open  func(c Config, e Env) (Backend, error)
}{
	{Named{"consul", "services with tags, and manual routes in Consul's key/value store"}, checkConsul, openConsul},
	{Named{"static", "a text in the configuration"}, checkStatic, openStatic},
	{Named{"file", "a text file, read again when it changes"}, checkFile, openFile},
	{Named{"custom", "a JSON list of routes, fetched over HTTP"}, checkCustom, openCustom},
}

// Backends returns the names of all backends with their help.
func Backends() []Named {
	list := make([]Named, len(backends))
	for i, b := range backends {
		list[i] = b.Named
	}
	return list
}

// Config says where routes come from. Flags sets the defaults.
type Config struct {
	// Backend is one of Backends.
	Backend string
	// Timeout is how long a service whose look-up keeps failing may hold up the first table.
	Timeout time.Duration
	// Retry is the pause after a first failed query; it grows from there.
	Retry time.Duration

	Consul ConsulConfig
	File   FileConfig
	Static StaticConfig
	Custom CustomConfig
}

// Flags adds the flags named registry.* to fs and sets c to their defaults.
func (c *Config) Flags(fs *pflag.FlagSet) {
	fs.StringVar(&c.Backend, "registry.backend", "consul", "where routes come from: "+names())
	fs.DurationVar(&c.Timeout, "registry.timeout", 10*time.Second, "how long a service whose look-up keeps failing may hold up the first table")
	fs.DurationVar(&c.Retry, "registry.retry", 500*time.Millisecond, "pause after a first failed query; it doubles up to 10s")
	c.Consul.flags(fs)
	c.File.flags(fs)
	c.Static.flags(fs)
	c.Custom.flags(fs)
}

// Validate checks what Flags could not. Only the settings of the chosen backend count.
func (c *Config) Validate() error {
	if c.Timeout <= 0 {
		return fmt.Errorf("registry.timeout: %s: want more than 0", c.Timeout)
	}
	if c.Retry <= 0 {
		return fmt.Errorf("registry.retry: %s: want more than 0", c.Retry)
	}
	// Consul's settings are looked at whatever the backend is: they are the ones that may hold a secret in the wrong place.
	if err := checkConsul(c); err != nil {
		return err
	}
	for _, b := range backends {
		if b.Name == c.Backend {
			return b.check(c)
		}
	}
	return fmt.Errorf("registry.backend: %q: want %s", c.Backend, names())
}

// Open returns the backend that c names. It reads files but waits for nobody: a source that does not answer yet is
// Watch's business.
func Open(c Config, e Env) (Backend, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	if e.Log == nil {
		e.Log = slog.New(slog.DiscardHandler)
	}
	if e.Now == nil {
		e.Now = time.Now
	}
	if e.Observe == nil {
		e.Observe = func(string, error, time.Duration) {}
	}
	for _, b := range backends {
		if b.Name == c.Backend {
			return b.open(c, e)
		}
	}
	panic("unreachable: Validate knows the backends")
}

// names lists the backends for a sentence: "consul, static, file or custom".
func names() string {
	var s []string
	for _, b := range Backends() {
		s = append(s, b.Name)
	}
	return oneOf(s)
}

// oneOf joins words to "a, b or c".
func oneOf(words []string) string {
	last := len(words) - 1
	if last < 1 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

// list splits a comma list; blanks around the elements and empty elements do not count.
func list(s string) []string {
	var l []string
	for f := range strings.SplitSeq(s, ",") {
		if f = strings.TrimSpace(f); f != "" {
			l = append(l, f)
		}
	}
	return l
}
