package proxy

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"

	"varco/metrics"
)

// forward is the last handler of a chain: one attempt to have the upstream answer.
func forward(x *exchange) {
	if !x.enter() {
		x.overflow()
		return
	}
	x.tried[x.attempts] = x.target
	x.attempts++
	if !x.asked {
		x.asked = true
		x.p.budget.requests.Add(1)
		x.duplex()
	}
	o := x.request()
	resp, err := x.up.conns.transport().RoundTrip(o.req)
	o.end()
	if err != nil {
		x.failed(err)
	} else {
		x.respond(resp)
	}
	x.retire(o)
}

// duplex lets the answer begin while the request's body is still coming.
func (x *exchange) duplex() {
	if x.body != nil {
		http.NewResponseController(x.w).EnableFullDuplex()
	}
}

// refuseTCP is the last handler of a target that speaks no HTTP.
func refuseTCP(x *exchange) {
	x.fail(http.StatusServiceUnavailable, codeNotHTTP, "not an HTTP service")
}

// overflow finds another target when this one has too many requests in flight.
func (x *exchange) overflow() {
	x.up.stats.UpstreamError(metrics.ErrOverflow)
	x.p.metrics.UpstreamLimited.Inc()
	if x.attempts < len(x.tried)-1 {
		x.tried[x.attempts] = x.target
		x.attempts++
		if x.next = x.route.PickOther(x.tried[:x.attempts]...); x.next != nil {
			return
		}
	}
	x.fail(http.StatusServiceUnavailable, codeOverflow, "too many requests")
}

// request makes the request for the upstream.
func (x *exchange) request() *outgoing {
	o, r, u := x.outgoing(), x.req, x.up
	out := o.req
	out.Method = r.Method
	out.ContentLength = 0
	out.Body = nil
	x.setTarget(o)
	switch {
	case u.host != "":
		out.Host = u.host
	case r.Host != "":
		out.Host = r.Host
	default:
		out.Host = u.target.URL.Host // HTTP/1.0 without one
	}
	x.setRequestHeader(o)
	if x.body != nil {
		out.ContentLength = r.ContentLength
		v := &view{b: x.body}
		if len(r.Trailer) > 0 {
			x.announceTrailers(o, v)
		}
		out.Body = v
	}
	return o
}

// setTarget sets the request target: the bytes of x.send. Opaque is sent as it is, but for "//", which net/http would
// take for an authority.
func (x *exchange) setTarget(o *outgoing) {
	u := &o.url
	u.Scheme, u.Host = "http", x.up.addr
	if x.up.conns.id.tls {
		u.Scheme = "https"
	}
	u.Path, u.RawPath, u.RawQuery, u.ForceQuery = "", "", "", false
	u.Opaque = x.send
	if strings.HasPrefix(x.send, "//") {
		raw, query, has := strings.Cut(x.send, "?")
		u.Opaque = ""
		u.Path, _ = decodePath(raw)
		u.RawPath, u.RawQuery, u.ForceQuery = raw, query, has && query == ""
	}
}

// announceTrailers passes on the trailers that the client has announced, but for those that would change what its
// header said.
func (x *exchange) announceTrailers(o *outgoing, v *view) {
	if o.trailer == nil {
		o.trailer = make(http.Header)
	}
	from := x.req.Trailer
	for name := range from {
		if !x.p.names.own(name) && !x.p.names.alias(name) && !protectedName(name) {
			o.trailer[name] = nil
		}
	}
	if len(o.trailer) == 0 {
		return
	}
	o.req.Trailer = o.trailer
	v.onEOF = func() {
		for name := range o.trailer {
			o.trailer[name] = from[name]
		}
	}
}

// failed decides what comes after an attempt that got no answer.
func (x *exchange) failed(err error) {
	gone := x.req.Context().Err() != nil // also after a read of the body has timed out
	if clientErr := x.body.clientError(gone); clientErr != nil {
		x.failedBody(clientErr)
		return
	}
	if gone {
		x.clientGone()
		return
	}
	f := classify(err)
	x.up.stats.UpstreamError(f.kind)
	if x.next = x.again(err); x.next != nil {
		x.abandon()
		return
	}
	x.fail(f.status, f.code, f.text)
}

// clientGone ends the exchange of a client that left before it had an answer.
func (x *exchange) clientGone() {
	x.up.stats.UpstreamError(metrics.ErrCanceled)
	x.status = statusClientGone
	x.abort = true
}

// failedBody answers for a request body that could not be read.
func (x *exchange) failedBody(err error) {
	if connectionLost(err) {
		x.clientGone()
		return
	}
	x.up.stats.UpstreamError(metrics.ErrCanceled)
	x.Header()["Connection"] = []string{"close"}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		x.fail(http.StatusRequestTimeout, codeClient, "request body too slow")
		return
	}
	x.fail(http.StatusBadRequest, codeClient, "malformed request body")
}

// failure is how the client learns of a failed attempt.
type failure struct {
	kind   metrics.ErrorKind
	status int
	code   string
	text   string
}

// classify says what kind of failure err is.
func classify(err error) failure {
	var (
		dial   *net.OpError
		shake  *tlsError
		alert  tls.AlertError
		record tls.RecordHeaderError
		verify *tls.CertificateVerificationError
		name   x509.HostnameError
	)
	switch {
	case timedOut(err):
		return failure{metrics.ErrTimeout, http.StatusGatewayTimeout, codeTimeout, "upstream timed out"}
	case errors.Is(err, errForbidden):
		return failure{metrics.ErrDial, http.StatusBadGateway, codeForbidden, "upstream not permitted"}
	case errors.As(err, &shake), errors.As(err, &alert), errors.As(err, &record), errors.As(err, &verify), errors.As(err, &name):
		return failure{metrics.ErrTLS, http.StatusBadGateway, codeTLS, "upstream TLS failed"}
	case errors.As(err, &dial) && dial.Op == "dial":
		return failure{metrics.ErrDial, http.StatusBadGateway, codeDial, "upstream not reached"}
	}
	var a attempt
	if connectionLost(err) || errors.As(err, &a) && a.Sent() && !a.Answered() {
		return failure{metrics.ErrReset, http.StatusBadGateway, codeReset, "upstream closed the connection"}
	}
	return failure{metrics.ErrProtocol, http.StatusBadGateway, codeProtocol, "upstream answered nonsense"}
}

func timedOut(err error) bool {
	var t interface{ Timeout() bool }
	return errors.As(err, &t) && t.Timeout()
}

func connectionLost(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) ||
		errors.Is(err, syscall.EPIPE) || errors.Is(err, net.ErrClosed)
}

// respond passes the upstream's answer on.
func (x *exchange) respond(resp *http.Response) {
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusSwitchingProtocols {
		x.switchProtocols(resp)
		return
	}
	h := x.Header()
	copyResponseHeader(h, resp.Header)
	x.setSTS()
	if h["Content-Type"] == nil {
		h["Content-Type"] = nil // present but empty: none is guessed
	}
	announced := x.announceResponseTrailers(resp)
	x.WriteHeader(resp.StatusCode)
	if err := x.copyBody(resp); err != nil {
		x.brokenOff(err)
	} else {
		x.writeTrailers(resp, announced)
	}
	x.up.stats.AddRx(x.bytes)
	x.up.stats.AddTx(x.body.bytes())
}

// announceResponseTrailers names the trailers that will follow, and says how many.
func (x *exchange) announceResponseTrailers(resp *http.Response) int {
	if len(resp.Trailer) == 0 {
		return 0
	}
	names := make([]string, 0, len(resp.Trailer))
	for name := range resp.Trailer {
		names = append(names, name)
	}
	slices.Sort(names)
	x.Header()["Trailer"] = []string{strings.Join(names, ", ")}
	return len(names)
}

// writeTrailers passes trailers on; those that were not announced under net/http's prefix.
func (x *exchange) writeTrailers(resp *http.Response, announced int) {
	if len(resp.Trailer) == 0 {
		return
	}
	x.FlushError() // a chunked body, whatever its length
	h := x.Header()
	for name, values := range resp.Trailer {
		if announced != len(resp.Trailer) {
			name = http.TrailerPrefix + name
		}
		h[name] = slices.Clone(values) // they go out after the upstream's connection is in other hands
	}
}

var copyBuffers = sync.Pool{New: func() any { return new([32 << 10]byte) }}

// copyBody copies the body to the client. The first byte goes out as soon as it is in, unless the whole body is; what
// has no known length, or is a stream of events, is flushed with each read; the rest is left to the server, which may
// have the kernel move it.
func (x *exchange) copyBody(resp *http.Response) error {
	if resp.ContentLength == 0 || x.req.Method == http.MethodHead {
		return nil
	}
	buf := copyBuffers.Get().(*[32 << 10]byte)
	defer copyBuffers.Put(buf)
	flush := resp.ContentLength < 0 || x.p.config.HTTP.GlobalFlushInterval != 0 || isEventStream(resp.Header)
	if flush {
		if err := x.FlushError(); err != nil {
			return &clientError{err}
		}
	}
	for copied := int64(0); ; {
		n, err := resp.Body.Read(buf[:])
		copied += int64(n)
		if err := x.push(buf[:n], flush || copied < resp.ContentLength); err != nil {
			return err
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if !flush && copied < resp.ContentLength {
			_, err := x.ReadFrom(resp.Body)
			return err
		}
	}
}

// push writes b to the client.
func (x *exchange) push(b []byte, flush bool) error {
	if len(b) == 0 {
		return nil
	}
	if _, err := x.Write(b); err != nil {
		return &clientError{err}
	}
	if flush {
		if err := x.FlushError(); err != nil {
			return &clientError{err}
		}
	}
	return nil
}

func isEventStream(h http.Header) bool {
	ct := h["Content-Type"]
	return len(ct) > 0 && strings.HasPrefix(ct[0], "text/event-stream")
}

// clientError is a failure to write to the client.
type clientError struct{ err error }

func (e *clientError) Error() string { return "client: " + e.err.Error() }
func (e *clientError) Unwrap() error { return e.err }

// brokenOff ends an answer in the middle: the client's connection is cut, so that it does not look complete.
func (x *exchange) brokenOff(err error) {
	x.abort = true
	x.FlushError() // what there is
	var client *clientError
	var op *net.OpError
	switch {
	case x.req.Context().Err() != nil, errors.As(err, &client), errors.As(err, &op) && op.Op != "read":
		x.up.stats.UpstreamError(metrics.ErrCanceled)
	case timedOut(err):
		x.up.stats.UpstreamError(metrics.ErrTimeout)
	default:
		x.up.stats.UpstreamError(metrics.ErrReset)
	}
}
