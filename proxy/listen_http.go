package proxy

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"

	"varco/proxy/wire"
)

// httpServer is what serves HTTP on a socket. It is the part of http.Server that a listener needs, so that another
// engine can take its place.
type httpServer interface {
	Serve(net.Listener) error
	Shutdown(context.Context) error
	Close() error
}

// httpListener is a listener with proto=http.
type httpListener struct {
	socket *httpSocket
	server httpServer
}

func listenHTTP(p *Proxy, l ListenConfig) (listener, error) {
	socket, err := p.openSocket(l.Addr, 1)
	if err != nil {
		return nil, err
	}
	return &httpListener{socket: &httpSocket{Listener: socket, p: p}, server: p.engine.serve(p, l)}, nil
}

// Addr implements listener.
func (l *httpListener) Addr() net.Addr { return l.socket.Addr() }

// shedIdle ends connections that wait for a request, where the engine can.
func (l *httpListener) shedIdle() {
	if s, ok := l.server.(interface{ ShedIdle() int }); ok {
		s.ShedIdle()
	}
}

// Serve implements listener.
func (l *httpListener) Serve() error {
	err := l.server.Serve(l.socket)
	if errors.Is(err, http.ErrServerClosed) || errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// Shutdown implements listener.
func (l *httpListener) Shutdown(ctx context.Context) error {
	l.socket.Close() // the server knows it only once it serves
	if err := l.server.Shutdown(ctx); err != nil {
		l.server.Close()
		return fmt.Errorf("listener %s: requests were cut: %w", l.Addr(), err)
	}
	return nil
}

// httpSocket counts the connections and guards their writes.
type httpSocket struct {
	*wire.Listener
	p *Proxy
}

// Accept implements net.Listener.
func (s *httpSocket) Accept() (net.Conn, error) {
	c, err := s.Listener.Accept()
	if err != nil {
		return nil, err
	}
	s.p.metrics.Connections.Inc()
	return wire.NewConn(c, s.p.config.Listen.StallTimeout, s.release), nil
}

func (s *httpSocket) release() {
	s.p.metrics.Connections.Dec()
	s.Listener.Release()
}
