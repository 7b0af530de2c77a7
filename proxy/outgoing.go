package proxy

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"net/url"
	"sync"

	"varco/proxy/http1"
)

// outgoing is a request to an upstream with all it needs: made in one piece, and used again for the next request
// where the engine permits it. It is the context of its request, too: the client's, plus a way from there back here.
type outgoing struct {
	context.Context // the client's request's
	req             *http.Request
	url             url.URL
	header          http.Header
	trailer         http.Header // nil until a request announces trailers
	values          [24]string  // values of the headers that are added
	used            int
	trace           httptrace.ClientTrace
	traced          context.Context // has only trace

	mu      sync.Mutex // guards the fields below: 1xx answers come from other goroutines
	x       *exchange  // nil once the attempt is over
	interim int
	conn    *stdConn
	reused  bool
	wrote   int64 // over conn before this request
	read    int64
}

// outgoingKey leads from the context of a request to its outgoing.
type outgoingKey struct{}

// Value implements context.Context.
func (o *outgoing) Value(key any) any {
	if _, ok := key.(outgoingKey); ok {
		return o
	}
	if v := o.traced.Value(key); v != nil {
		return v
	}
	return o.Context.Value(key)
}

// AfterFunc has contexts that are derived from o wait for the client's context itself. Package context looks for it;
// without it a goroutine would ask o for its Done, perhaps when o has long been in use again.
func (o *outgoing) AfterFunc(f func()) (stop func() bool) { return context.AfterFunc(o.Context, f) }

// OnCancel implements http1.Watchable as far as the client's context does.
func (o *outgoing) OnCancel(f func()) bool {
	w, ok := o.Context.(http1.Watchable)
	return ok && w.OnCancel(f)
}

// Release implements http1.Watchable.
func (o *outgoing) Release() {
	if w, ok := o.Context.(http1.Watchable); ok {
		w.Release()
	}
}

func newOutgoing(ctx context.Context) *outgoing {
	o := &outgoing{Context: ctx, header: make(http.Header, 24)}
	o.trace.GotConn = o.onConn
	o.trace.Got1xxResponse = o.onInterim
	o.traced = httptrace.WithClientTrace(context.Background(), &o.trace)
	o.req = (&http.Request{}).WithContext(o)
	o.req.URL = &o.url
	o.req.Header = o.header
	o.req.Proto, o.req.ProtoMajor, o.req.ProtoMinor = "HTTP/1.1", 1, 1
	return o
}

// outgoing returns an empty request for an attempt at the exchange's upstream.
func (x *exchange) outgoing() *outgoing {
	x.up.conns.transport()
	o := x.spare
	if o == nil || !x.up.conns.synchronous {
		o = newOutgoing(x.req.Context())
	}
	x.spare = nil
	o.Context = x.req.Context()
	clear(o.header)
	o.used = 0
	o.x, o.interim, o.conn = x, 0, nil
	return o
}

// retire keeps o for the next request if nobody uses it any more.
func (x *exchange) retire(o *outgoing) {
	if x.up.conns.synchronous {
		clear(o.trailer)
		o.Context, o.req.Body, o.req.Trailer = context.Background(), nil, nil
		x.spare = o
	}
}

// set sets a header to one value, without allocating.
func (o *outgoing) set(name, value string) {
	if o.used == len(o.values) {
		o.header[name] = []string{value}
		return
	}
	o.values[o.used] = value
	o.used++
	o.header[name] = o.values[o.used-1 : o.used : o.used]
}

// maxInterim is how many 1xx answers may come before the final one.
const maxInterim = 8

var errInterim = errors.New("too many informational answers")

// onInterim passes a 1xx answer on to the client; it is httptrace's Got1xxResponse. 100 is the business of each
// connection: the server sends its own when the body is read.
func (o *outgoing) onInterim(code int, header textproto.MIMEHeader) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.x == nil {
		return nil
	}
	if o.interim++; o.interim > maxInterim {
		return errInterim
	}
	if code == http.StatusContinue || code == http.StatusSwitchingProtocols || !o.x.req.ProtoAtLeast(1, 1) {
		return nil
	}
	h := o.x.w.Header()
	copyResponseHeader(h, http.Header(header))
	delete(h, "Content-Length")
	o.x.w.WriteHeader(code)
	clear(h)
	return nil
}

// end has no further 1xx answer reach the client.
func (o *outgoing) end() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.x = nil
}
