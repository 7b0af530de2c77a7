package proxy

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"

	"varco/proxy/wire"
)

// A protocol is what a listener speaks. To add one: a file listen_NAME.go and a line in the list below.
type protocol struct {
	name, help string
	// listen opens the listener; it accepts nothing before Serve.
	listen func(p *Proxy, l ListenConfig) (listener, error)
}

// protocols are all there are; the first is the default.
var protocols = []protocol{
	{name: "http", help: "HTTP/1.1 in the clear", listen: listenHTTP},
	{name: "tcp", help: "any protocol over TCP, routed by the listener's port", listen: listenTCP},
}

// laterProtocols are fabio's others. A word that a fabio user may have written gets a better answer than a typo.
var laterProtocols = []string{"https", "grpc", "grpcs", "tcp+sni", "tcp-dynamic", "https+tcp+sni", "prometheus"}

// Protocols lists what proto= of a listener may be, for the documentation.
func Protocols() []OptionHelp {
	var list []OptionHelp
	for _, p := range protocols {
		list = append(list, OptionHelp{Name: p.name, Syntax: "proto=" + p.name, Help: p.help})
	}
	return list
}

func findProtocol(name string) (protocol, error) {
	i := slices.IndexFunc(protocols, func(p protocol) bool { return p.name == name })
	if i >= 0 {
		return protocols[i], nil
	}
	var names []string
	for _, p := range protocols {
		names = append(names, p.name)
	}
	known := strings.Join(names, " or ")
	if slices.Contains(laterProtocols, name) {
		return protocol{}, fmt.Errorf("protocol %s is not part of this version: want %s", name, known)
	}
	return protocol{}, fmt.Errorf("unknown protocol %q: want %s", name, known)
}

// A listener has a socket that is open from the beginning.
type listener interface {
	Addr() net.Addr
	// Serve serves until Shutdown, and is nil then.
	Serve() error
	// Shutdown stops accepting, waits for what is open until ctx ends, and cuts the rest; the error is that of ctx when
	// something had to be cut. It works before Serve, too.
	Shutdown(ctx context.Context) error
}

// listeners are those of a Proxy.
type listeners struct {
	configs []ListenConfig // frozen after initListeners
	limit   *wire.Limit    // of all of them together
	warned  occasional

	mu      sync.Mutex // guards the fields below
	open    []listener
	stopped bool
}

// initListeners reads proxy.addr. The addresses must be known before the first target is bound: none of them may be
// an upstream.
func (p *Proxy) initListeners() error {
	configs, err := p.config.Listen.listenConfigs()
	if err != nil {
		return err
	}
	for _, l := range configs {
		p.guard.forbid(l.Addr, "own listener")
	}
	p.listeners.configs = configs
	p.listeners.limit = p.config.Listen.limit()
	return nil
}

// Listen opens the listeners of proxy.addr: all of them, or none and an error that names the one that failed. To be
// called when the first complete table is in use. Nothing is accepted before Serve.
func (p *Proxy) Listen() error {
	ls := &p.listeners
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if ls.stopped {
		return net.ErrClosed
	}
	var open []listener
	for _, c := range ls.configs {
		l, err := p.openListener(c)
		if err != nil {
			closeAll(open)
			return fmt.Errorf("proxy.addr: listener %s: %w", c, withoutAddr(err))
		}
		open = append(open, l)
	}
	for _, l := range open {
		p.guard.forbid(l.Addr().String(), "own listener")
	}
	ls.open = append(ls.open, open...)
	return nil
}

func (p *Proxy) openListener(c ListenConfig) (listener, error) {
	proto, err := findProtocol(c.Proto)
	if err != nil {
		return nil, err
	}
	return proto.listen(p, c)
}

// closeAll closes listeners that never served.
func closeAll(open []listener) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	for _, l := range open {
		l.Shutdown(ctx)
	}
}

// withoutAddr takes the operation and the address away, which the caller names in the words of the configuration.
func withoutAddr(err error) error {
	var op *net.OpError
	if errors.As(err, &op) {
		return op.Err
	}
	return err
}

// Addrs are the addresses of the open listeners, in the order of proxy.addr.
func (p *Proxy) Addrs() []net.Addr {
	var addrs []net.Addr
	for _, l := range p.listeners.list() {
		addrs = append(addrs, l.Addr())
	}
	return addrs
}

// Serve serves all open listeners until Shutdown, and is nil then.
func (p *Proxy) Serve() error {
	open := p.listeners.list()
	errs := make(chan error)
	for _, l := range open {
		go func() { errs <- p.serveListener(l) }()
	}
	var all error
	for range open {
		all = errors.Join(all, <-errs)
	}
	return all
}

// serveListener reports a listener that ends by itself at once: the others go on serving.
func (p *Proxy) serveListener(l listener) error {
	err := l.Serve()
	if err != nil {
		err = fmt.Errorf("listener %s: %w", l.Addr(), err)
		p.log.Error("listener ended", "err", err)
	}
	return err
}

// shutdownListeners shuts all listeners down at the same time.
func (p *Proxy) shutdownListeners(ctx context.Context) error {
	ls := &p.listeners
	ls.mu.Lock()
	ls.stopped = true
	ls.mu.Unlock()
	open := ls.list()
	errs := make(chan error)
	for _, l := range open {
		go func() { errs <- l.Shutdown(ctx) }()
	}
	var first error
	for range open {
		if err := <-errs; first == nil {
			first = err
		}
	}
	return first
}

func (ls *listeners) list() []listener {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	return slices.Clone(ls.open)
}

// openSocket opens a socket whose connections each take files descriptors of the limit.
func (p *Proxy) openSocket(addr string, files int) (*wire.Listener, error) {
	// The default keep-alive finds a peer that vanished in two and a half minutes.
	socket, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, err
	}
	return wire.NewListener(socket, p.listeners.limit, files, wire.Hooks{
		Limited: p.connLimited,
		Failed:  p.acceptFailed,
	}), nil
}

func (p *Proxy) connLimited() {
	p.metrics.ConnLimited.Inc()
	p.shedIdle()
	if p.listeners.warned.due() {
		p.log.Warn("connection limit reached, new connections wait", "connections", p.listeners.limit.Conns())
	}
}

// shedIdle ends client connections that only wait for a request, so that a new one need not.
func (p *Proxy) shedIdle() {
	p.listeners.mu.Lock()
	defer p.listeners.mu.Unlock()
	for _, l := range p.listeners.open {
		if l, ok := l.(interface{ shedIdle() }); ok {
			l.shedIdle()
		}
	}
}

func (p *Proxy) acceptFailed(err error) {
	p.metrics.AcceptErrors.Inc()
	if p.listeners.warned.due() {
		p.log.Warn("accepting a connection failed", "err", err)
	}
}
