package proxy

import (
	"context"
	"fmt"
	"net"
	"runtime/debug"
	"strconv"
	"sync"

	"varco/proxy/wire"
)

// tcpListener is a listener with proto=tcp. A connection is a goroutine that belongs to the listener until it ends,
// whatever becomes of the table meanwhile.
type tcpListener struct {
	p      *Proxy
	socket *wire.Listener
	relay  wire.Relay // without the counters
	key    string     // of the route, ":port"

	ctx context.Context // of all connections
	cut context.CancelFunc

	mu     sync.Mutex // guards the fields below
	open   map[net.Conn]struct{}
	closed bool
	empty  chan struct{} // closed when the listener and all its connections are closed
}

func listenTCP(p *Proxy, l ListenConfig) (listener, error) {
	socket, err := p.openSocket(l.Addr, 2)
	if err != nil {
		return nil, err
	}
	t := &tcpListener{
		p:      p,
		socket: socket,
		key:    ":" + strconv.Itoa(socket.Addr().(*net.TCPAddr).Port),
		relay:  wire.Relay{Idle: l.IdleTimeout, ReadTimeout: l.ReadTimeout, WriteTimeout: l.WriteTimeout},
		open:   map[net.Conn]struct{}{},
		empty:  make(chan struct{}),
	}
	t.ctx, t.cut = context.WithCancel(context.Background())
	return t, nil
}

// Addr implements listener.
func (t *tcpListener) Addr() net.Addr { return t.socket.Addr() }

// Serve implements listener.
func (t *tcpListener) Serve() error {
	for {
		c, err := t.socket.Accept()
		if err != nil {
			return nil
		}
		t.p.metrics.Connections.Inc()
		if !t.add(c) {
			t.release(c)
			return nil
		}
		go t.serve(c)
	}
}

// serve serves one connection; a panic costs only this one.
func (t *tcpListener) serve(c net.Conn) {
	defer t.remove(c)
	defer func() {
		if v := recover(); v != nil {
			t.p.metrics.Panics.Inc()
			t.p.log.Error("panic while serving a TCP connection", "listener", t.Addr().String(), "panic", v, "stack", string(debug.Stack()))
		}
	}()
	t.p.serveConn(t.ctx, c, t.key, t.relay)
}

// Shutdown implements listener.
func (t *tcpListener) Shutdown(ctx context.Context) error {
	defer t.cut()
	t.close()
	select {
	case <-t.empty:
		return nil
	case <-ctx.Done():
	}
	n := t.closeConns()
	<-t.empty
	if n == 0 {
		return nil
	}
	return fmt.Errorf("listener %s: %d connections were cut: %w", t.Addr(), n, ctx.Err())
}

func (t *tcpListener) close() {
	t.socket.Close()
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return
	}
	t.closed = true
	if len(t.open) == 0 {
		close(t.empty)
	}
}

// closeConns ends all connections and says how many they were.
func (t *tcpListener) closeConns() int {
	t.cut()
	t.mu.Lock()
	defer t.mu.Unlock()
	for c := range t.open {
		c.Close()
	}
	return len(t.open)
}

// add is false when the listener was closed.
func (t *tcpListener) add(c net.Conn) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return false
	}
	t.open[c] = struct{}{}
	return true
}

func (t *tcpListener) remove(c net.Conn) {
	t.release(c)
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.open, c)
	if t.closed && len(t.open) == 0 {
		close(t.empty)
	}
}

func (t *tcpListener) release(c net.Conn) {
	c.Close()
	t.p.metrics.Connections.Dec()
	t.socket.Release()
}
