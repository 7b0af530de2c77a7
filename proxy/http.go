package proxy

import (
	"fmt"
	"net/http"
	"runtime/debug"
	"strconv"
	"strings"
)

// The life of a request, in the order of the functions below: it is checked; the table in use leads to a route, the
// route to a target; the target's chain of handlers, made when it was bound, answers. What comes out is observed,
// whatever it is.

// Codes of the header X-Edge-Error: why varco, and not an upstream, answers so.
const (
	codeBadRequest  = "bad_request"
	codeMethod      = "method"
	codeExpectation = "expectation"
	codeUpgrade     = "bad_upgrade"
	codeDenied      = "denied"
	codeNoRoute     = "no_route"
	codeNoTarget    = "no_target"
	codeNotHTTP     = "not_http"
	codeOverflow    = "overflow"
	codeClient      = "client_body"
	codeDial        = "dial"
	codeForbidden   = "forbidden_upstream"
	codeTimeout     = "timeout"
	codeTLS         = "tls"
	codeReset       = "reset"
	codeProtocol    = "protocol"
	codePanic       = "panic"
)

// ServeHTTP answers one request. It implements http.Handler.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	x := p.exchanges.Get().(*exchange)
	x.begin(w, r)
	defer x.end()
	x.answer()
}

// end observes the exchange, also after a panic, and lets go of it.
func (x *exchange) end() {
	v := recover()
	if v != nil {
		x.panicked(v)
	}
	x.observe()
	abort := x.abort
	if v == nil {
		x.recycle()
	}
	if abort {
		panic(http.ErrAbortHandler)
	}
}

// panicked answers for a handler that panicked; the fault costs only this request.
func (x *exchange) panicked(v any) {
	if v == http.ErrAbortHandler {
		x.abort = true
		return
	}
	x.p.metrics.Panics.Inc()
	x.p.log.Error("panic while serving a request", "panic", fmt.Sprint(v), "stack", string(debug.Stack()))
	if x.wrote || x.hijacked {
		x.abort = true
		return
	}
	x.fail(http.StatusInternalServerError, codePanic, "internal error")
}

// answer checks the request and gives it to the first route that takes it.
func (x *exchange) answer() {
	if name := x.p.names.requestID; name != "" {
		x.req.Header[name] = []string{newRequestID()} // in the client's own header, so that the log has it too
	}
	if !x.check() {
		return
	}
	x.state = x.p.state.Load()
	x.route = x.state.table.Lookup(x.req.Host, x.path.clean, x.req.TLS != nil)
	for x.route != nil {
		x.skip = false
		x.serveRoute()
		if !x.skip {
			return
		}
		x.route = x.state.table.LookupNext(x.req.Host, x.path.clean, x.req.TLS != nil, x.route)
	}
	x.noRoute()
}

// serveRoute has a target of the route answer, and others while attempts fail and may be repeated.
func (x *exchange) serveRoute() {
	x.target, x.up = nil, nil
	for t := x.route.Pick(); t != nil; t = x.next {
		x.target, x.up, x.next = t, upstreamOf(t), nil
		if x.path.ambiguous && !x.up.rawPath {
			x.badRequest("ambiguous path")
			return
		}
		x.send = x.uri
		x.up.serve(x)
		if x.next == nil {
			return
		}
	}
	x.p.metrics.RouteDown.Inc()
	x.fail(http.StatusServiceUnavailable, codeNoTarget, "no healthy instance")
}

const allowedMethods = "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS"

// check refuses what must not be forwarded, and answers what is meant for varco itself.
func (x *exchange) check() bool {
	r := x.req
	switch {
	case r.Method == http.MethodConnect || r.Method == http.MethodTrace:
		x.Header()["Allow"] = []string{allowedMethods}
		x.fail(http.StatusMethodNotAllowed, codeMethod, "method not allowed")
		return false
	case !x.checkHost():
		x.badRequest("invalid Host")
		return false
	case r.RequestURI == "*" && r.Method == http.MethodOptions:
		x.Header()["Allow"] = []string{allowedMethods}
		x.Header()["Content-Length"] = []string{"0"}
		x.WriteHeader(http.StatusOK)
		return false
	case !x.checkExpect():
		x.fail(http.StatusExpectationFailed, codeExpectation, "unknown expectation")
		return false
	}
	if err := x.checkTarget(); err != nil {
		x.badRequest(err.Error())
		return false
	}
	if r.Body != nil && r.Body != http.NoBody && r.ContentLength != 0 {
		x.body = newBody(r.Body, r.ContentLength, x.p.config.HTTP.MaxReplayedBody)
	}
	return x.checkUpgrade()
}

// checkHost wants a Host of the form host[:port]; only HTTP/1.0 may leave it out.
func (x *exchange) checkHost() bool {
	r := x.req
	if r.Host == "" {
		return !r.ProtoAtLeast(1, 1)
	}
	if r.URL.Scheme != "" && (r.URL.User != nil || r.URL.Scheme != "http" && r.URL.Scheme != "https") {
		return false
	}
	return validHost(r.Host)
}

// checkExpect knows 100-continue only (RFC 9110 10.1.1).
func (x *exchange) checkExpect() bool {
	expect := x.req.Header["Expect"]
	return expect == nil || len(expect) == 1 && strings.EqualFold(expect[0], "100-continue")
}

// checkTarget reads the request target.
func (x *exchange) checkTarget() (err error) {
	uri := x.req.RequestURI
	if uri == "" {
		uri = x.req.URL.RequestURI() // a request made by a program
	}
	uri, rawPath, err := splitTarget(uri)
	if err != nil {
		return err
	}
	if x.path, err = parsePath(rawPath); err != nil {
		return err
	}
	x.uri = uri
	return checkQuery(uri[len(rawPath):])
}

// noRoute answers where the table leads nowhere.
func (x *exchange) noRoute() {
	x.p.metrics.NotFound.Inc()
	x.up, x.target = nil, nil
	status := x.p.config.HTTP.NoRouteStatus
	page := x.state.noRoute
	if page == nil || status == http.StatusNoContent || status == http.StatusNotModified {
		x.fail(status, codeNoRoute, "no route")
		return
	}
	h := x.Header()
	h["Content-Type"] = []string{"text/html; charset=utf-8"}
	h["X-Edge-Error"] = []string{codeNoRoute}
	x.writeBody(status, page)
}

// badRequest answers 400 and ends the connection: who sends one ambiguous request may have hidden another behind it.
func (x *exchange) badRequest(reason string) {
	x.Header()["Connection"] = []string{"close"}
	x.fail(http.StatusBadRequest, codeBadRequest, reason)
}

// fail answers with a status of varco's own and a short text. It never says anything about upstreams.
func (x *exchange) fail(status int, code, text string) {
	h := x.Header()
	h["Content-Type"] = []string{"text/plain; charset=utf-8"}
	h["X-Content-Type-Options"] = []string{"nosniff"}
	h["X-Edge-Error"] = []string{code}
	if status == http.StatusServiceUnavailable {
		h["Retry-After"] = []string{"1"}
	}
	x.writeBody(status, []byte(text+"\n"))
}

// writeBody writes a whole answer.
func (x *exchange) writeBody(status int, body []byte) {
	x.setSTS()
	if status == http.StatusNoContent || status == http.StatusNotModified {
		delete(x.Header(), "Content-Type")
		x.WriteHeader(status)
		return
	}
	x.Header()["Content-Length"] = []string{strconv.Itoa(len(body))}
	x.WriteHeader(status)
	if x.req.Method != http.MethodHead {
		x.Write(body)
	}
}

// setSTS sets Strict-Transport-Security on TLS, in the place of what an upstream may say.
func (x *exchange) setSTS() {
	if x.p.names.sts != "" && x.req.TLS != nil {
		x.Header()["Strict-Transport-Security"] = []string{x.p.names.sts}
	}
}
