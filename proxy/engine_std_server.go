package proxy

import (
	"errors"
	"io"
	"log/slog"
	"net/http"
	"sync"
	"time"
)

// newStdServer makes an http.Server with every limit that it has. What it lacks is done around it: httpSocket guards
// the writes, bodyGuard the reads of a body.
func (p *Proxy) newStdServer(l ListenConfig) httpServer {
	c := &p.config.Listen
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	return &http.Server{
		Handler:                      &bodyGuard{next: p, stall: c.BodyTimeout, whole: l.ReadTimeout},
		ReadHeaderTimeout:            c.HeaderTimeout,
		ReadTimeout:                  l.ReadTimeout,
		WriteTimeout:                 l.WriteTimeout,
		IdleTimeout:                  l.IdleTimeout,
		MaxHeaderBytes:               c.HeaderBytes,
		Protocols:                    &protocols,
		DisableGeneralOptionsHandler: true, // OPTIONS * is a request like others: routed, counted, logged
		ErrorLog:                     slog.NewLogLogger(p.log.Handler(), slog.LevelDebug),
	}
}

// bodyGuard has a request body fail when the client sends nothing of it for too long. http.Server itself has a
// deadline for a whole request only, which would cut long uploads.
type bodyGuard struct {
	next         http.Handler
	stall, whole time.Duration // zero is no limit
}

// readDeadliner is what http.Server's ResponseWriter is.
type readDeadliner interface{ SetReadDeadline(time.Time) error }

// ServeHTTP implements http.Handler.
func (g *bodyGuard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	conn, ok := w.(readDeadliner)
	if !ok || g.stall <= 0 || r.Body == nil || r.Body == http.NoBody {
		g.next.ServeHTTP(w, r)
		return
	}
	b := &guardedBody{ReadCloser: r.Body, conn: conn, stall: g.stall}
	if g.whole > 0 {
		b.whole = time.Now().Add(g.whole)
	}
	r.Body = b
	b.arm()
	defer b.leave()
	g.next.ServeHTTP(w, r)
}

// guardedBody sets a deadline for each read. The deadline stays between reads: the server itself may read the rest of
// the body, to get at the next request. It is lifted at the end of the body, when the server begins to read ahead to
// learn that the client has gone, which may take as long as the answer takes.
type guardedBody struct {
	io.ReadCloser
	conn  readDeadliner
	stall time.Duration
	whole time.Time // deadline of the whole request, zero for none

	mu   sync.Mutex // guards left
	left bool       // the handler has returned: the connection may serve another request
}

// Read implements io.Reader.
func (b *guardedBody) Read(p []byte) (int, error) {
	b.arm()
	n, err := b.ReadCloser.Read(p)
	if err == io.EOF || errors.Is(err, http.ErrBodyReadAfterClose) {
		b.set(b.whole)
	}
	return n, err
}

func (b *guardedBody) arm() {
	deadline := time.Now().Add(b.stall)
	if !b.whole.IsZero() && b.whole.Before(deadline) {
		deadline = b.whole
	}
	b.set(deadline)
}

func (b *guardedBody) set(deadline time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.left {
		b.conn.SetReadDeadline(deadline)
	}
}

func (b *guardedBody) leave() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.left = true
}
