package proxy

import (
	"errors"
	"io"
	"net/http"
	"net/netip"
	"time"

	"varco/route"
)

// handler answers an exchange, or hands it on to the handler that it wraps.
type handler func(x *exchange)

// exchange is one request and its answer: the client's side, what was found out about it, and which target serves it.
// It is the ResponseWriter of everything behind it, and counts what is written. It belongs to the goroutine of the
// request; exchanges are pooled, nothing may keep one after its end.
type exchange struct {
	p     *Proxy
	w     http.ResponseWriter
	req   *http.Request
	start time.Time

	// What the request says.
	path    requestPath
	uri     string // path?query as the client wrote it
	peer    string // the peer's address, "" if unknown
	peerIP  netip.Addr
	trust   uint8 // 0 unknown, else trustYes or trustNo
	upgrade bool  // a websocket handshake that is in order
	body    *body

	// Where it goes.
	state     *state
	route     *route.Route
	target    *route.Target
	up        *upstream
	asked     bool          // an upstream was asked
	started   *upstream     // counted in flight there
	counted   bool          // an upstream's statistics have it
	send      string        // path?query for the upstream
	next      *route.Target // to be tried after target failed
	skip      bool          // this route is not for the request, the next one may be
	attempts  int
	tried     [maxAttempts]*route.Target
	sameTried bool
	spare     *outgoing // for the next attempt or exchange

	// What the client gets.
	status   int   // 0 until a final status is written; 499 when the client left first
	bytes    int64 // of body
	wrote    bool  // the final header is out
	hijacked bool
	abort    bool // the connection must not look as if the answer was complete
	entry    logEntry
}

const (
	trustYes = iota + 1
	trustNo
)

// begin fills in a fresh exchange.
func (x *exchange) begin(w http.ResponseWriter, r *http.Request) {
	x.w, x.req, x.start = w, r, time.Now()
	x.peer = peerOf(r.RemoteAddr)
}

// recycle empties x for the next request; only what is expensive to make stays.
func (x *exchange) recycle() {
	p, spare := x.p, x.spare
	*x = exchange{p: p, spare: spare}
	p.exchanges.Put(x)
}

// peerAddr is the peer's address; the invalid one if it is unknown.
func (x *exchange) peerAddr() netip.Addr {
	if !x.peerIP.IsValid() && x.peer != "" {
		x.peerIP, _ = netip.ParseAddr(x.peer)
	}
	return x.peerIP
}

// trusted reports whether the peer is one whose word about the client counts.
func (x *exchange) trusted() bool {
	if x.trust == 0 {
		x.trust = trustNo
		if addr := x.peerAddr(); addr.IsValid() && x.p.trusted.permits(addr) {
			x.trust = trustYes
		}
	}
	return x.trust == trustYes
}

// scheme is that of the client's connection.
func (x *exchange) scheme() string {
	if x.req.TLS != nil {
		return "https"
	}
	return "http"
}

// Header implements http.ResponseWriter.
func (x *exchange) Header() http.Header { return x.w.Header() }

// WriteHeader implements http.ResponseWriter.
func (x *exchange) WriteHeader(status int) {
	if x.wrote {
		return
	}
	if status >= 200 {
		x.wrote, x.status = true, status
	}
	x.w.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (x *exchange) Write(p []byte) (int, error) {
	if !x.wrote {
		x.WriteHeader(http.StatusOK)
	}
	n, err := x.w.Write(p)
	x.bytes += int64(n)
	return n, err
}

// ReadFrom implements io.ReaderFrom where the server does.
func (x *exchange) ReadFrom(r io.Reader) (int64, error) {
	rf, ok := x.w.(io.ReaderFrom)
	if !ok {
		return io.Copy(struct{ io.Writer }{x}, r)
	}
	if !x.wrote {
		x.WriteHeader(http.StatusOK)
	}
	n, err := rf.ReadFrom(r)
	x.bytes += n
	return n, err
}

// FlushError sends what is buffered to the client; nothing happens where the server cannot.
func (x *exchange) FlushError() error {
	switch f := x.w.(type) {
	case interface{ FlushError() error }:
		return f.FlushError()
	case http.Flusher:
		f.Flush()
		return nil
	}
	if err := http.NewResponseController(x.w).Flush(); !errors.Is(err, http.ErrNotSupported) {
		return err
	}
	return nil
}

// Unwrap leads http.ResponseController to the server's ResponseWriter.
func (x *exchange) Unwrap() http.ResponseWriter { return x.w }
