package admin

import (
	"net"
	"net/http"
	"sync"
	"time"
)

// limitListener bounds the connections that are open at a time. A connection above the bound takes the place of the
// one that has been idle longest, so that a page left open in a forgotten window, or a client that connects and says
// nothing, does not lock Consul's health check out. When all are busy, the new one is closed.
type limitListener struct {
	net.Listener
	max int

	mu sync.Mutex // guards conns
	// conns holds since when a connection has been idle; zero while a request is being answered.
	conns map[net.Conn]time.Time
}

func newLimitListener(l net.Listener, limit int) *limitListener {
	return &limitListener{Listener: l, max: limit, conns: map[net.Conn]time.Time{}}
}

// Accept waits for a connection that has a place.
func (l *limitListener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil || l.admit(c) {
			return c, err
		}
		c.Close()
	}
}

func (l *limitListener) admit(c net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.conns) >= l.max && !l.evict() {
		return false
	}
	l.conns[c] = time.Now()
	return true
}

// evict closes the connection that has been idle longest. The caller holds mu.
func (l *limitListener) evict() bool {
	var oldest net.Conn
	for c, since := range l.conns {
		if !since.IsZero() && (oldest == nil || since.Before(l.conns[oldest])) {
			oldest = c
		}
	}
	if oldest == nil {
		return false
	}
	oldest.Close()
	delete(l.conns, oldest)
	return true
}

// connState is the http.Server's hook.
func (l *limitListener) connState(c net.Conn, state http.ConnState) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, ok := l.conns[c]; !ok {
		return
	}
	switch state {
	case http.StateActive:
		l.conns[c] = time.Time{}
	case http.StateIdle:
		l.conns[c] = time.Now()
	case http.StateClosed, http.StateHijacked:
		delete(l.conns, c)
	}
}
