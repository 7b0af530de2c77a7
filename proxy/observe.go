package proxy

import "time"

// statusClientGone is logged and counted for a client that left before it had an answer.
const statusClientGone = 499

// observe counts and logs the exchange. Every request comes here once, however it was answered.
func (x *exchange) observe() {
	took := time.Since(x.start)
	if x.status == 0 {
		x.status = statusClientGone
	}
	switch {
	case x.started != nil:
		x.finish(x.status, took)
	case !x.counted:
		x.p.metrics.Answer(x.status)
	}
	if x.p.access != nil {
		x.fillEntry(took)
		x.p.access.write(&x.entry)
	}
}

// enter counts the exchange as in flight at its upstream; false when there are too many already.
func (x *exchange) enter() bool {
	u := x.up
	limit := x.p.maxInFlight
	if n := u.inFlight.Add(1); limit > 0 && n > limit {
		u.inFlight.Add(-1)
		return false
	}
	x.started = u
	u.stats.Start()
	return true
}

// finish ends what enter began: the client has got the answer.
func (x *exchange) finish(status int, took time.Duration) {
	u := x.started
	x.started, x.counted = nil, true
	u.inFlight.Add(-1)
	u.stats.Finish(status, took)
}

// abandon ends what enter began: another attempt follows.
func (x *exchange) abandon() {
	u := x.started
	x.started = nil
	u.inFlight.Add(-1)
	u.stats.Abandon()
	u.stats.Retry()
}

// fillEntry makes the exchange's line of the access log.
func (x *exchange) fillEntry(took time.Duration) {
	r := x.req
	x.entry = logEntry{
		Start: x.start, Took: took,
		Method: r.Method, URI: r.RequestURI, Host: r.Host, Proto: r.Proto, Scheme: x.scheme(),
		RemoteAddr: r.RemoteAddr, Header: r.Header,
		Status: x.status, Bytes: x.bytes,
	}
	if x.target != nil {
		x.entry.Service, x.entry.Route = x.target.Service, x.target.Host+x.target.Path
	}
	if x.up != nil && x.asked {
		x.entry.UpstreamAddr, x.entry.UpstreamScheme, x.entry.UpstreamURI = x.up.addr, x.up.scheme, x.send
	}
}
