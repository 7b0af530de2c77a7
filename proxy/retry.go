package proxy

import (
	"errors"
	"net/http"
	"sync/atomic"
	"time"

	"varco/route"
)

// What is tried again, and where.
//
//   - Nothing of the request was written (no connection, or one that died before): any method, if the body is still
//     there. This costs the upstream nothing and is not limited by the budget.
//   - Something was written, but not a byte of an answer came: only idempotent requests (RFC 9110 9.2.2, or with an
//     Idempotency-Key), if the body is still there and the budget permits. A POST is never sent twice.
//   - A byte of an answer came, or the time for it is over: never.
//
// A connection that had served before and died is replaced by another one to the same target; everything else goes to
// another target of the route, and to the same one only when there is no other.

// maxAttempts bounds proxy.retries.
const maxAttempts = 8

// idempotent reports whether sending r twice has the effect of sending it once.
func idempotent(r *http.Request) bool {
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodPut, http.MethodDelete, http.MethodTrace:
		return true
	}
	return hasIdempotencyKey(r.Header)
}

// repeatable reports whether r may be sent twice as it is.
func repeatable(r *http.Request) bool {
	return (r.Body == nil || r.Body == http.NoBody) && idempotent(r)
}

func hasIdempotencyKey(h http.Header) bool {
	return len(h["Idempotency-Key"]) > 0 || len(h["X-Idempotency-Key"]) > 0
}

// again picks the target for another attempt after err, nil if there must be none.
func (x *exchange) again(err error) *route.Target {
	var a attempt
	if !errors.As(err, &a) || a.Answered() || x.attempts > x.p.config.HTTP.Retries || !x.body.replayable() {
		return nil
	}
	if a.Sent() {
		if timedOut(err) || !idempotent(x.req) {
			return nil
		}
		if !x.p.budget.take(time.Now()) {
			x.p.metrics.RetryLimited.Inc()
			return nil
		}
	}
	if a.Reused() && !x.sameTried {
		return x.same()
	}
	if other := x.route.PickOther(x.tried[:x.attempts]...); other != nil {
		return other
	}
	if a.Sent() && !x.sameTried {
		return x.same()
	}
	return nil
}

// same is another connection to the same target: a new one, since what else is idle may be as dead.
func (x *exchange) same() *route.Target {
	x.sameTried = true
	x.up.conns.closeIdle()
	return x.target
}

// retryBudget keeps retries from multiplying the load of upstreams in trouble: at most a fifth of the requests of the
// last ten seconds, and three a second. Not of the requests in flight, as elsewhere: where answers take a millisecond
// hardly any are, and a dying instance must still cost nobody a request.
type retryBudget struct {
	requests atomic.Int64
	window   atomic.Pointer[retryWindow]
}

// retryWindow counts the retries of ten seconds.
type retryWindow struct {
	start    time.Time
	requests int64 // of the proxy, when the window began
	before   int64 // in the window before
	taken    atomic.Int64
}

const (
	retryWindowTime = 10 * time.Second
	retryFloor      = 3 * int64(retryWindowTime/time.Second)
	retryShare      = 5 // one in
)

// take asks for one retry.
func (b *retryBudget) take(now time.Time) bool {
	requests := b.requests.Load()
	w := b.window.Load()
	if w == nil || now.Sub(w.start) >= retryWindowTime {
		next := &retryWindow{start: now, requests: requests}
		if w != nil && now.Sub(w.start) < 2*retryWindowTime {
			next.before = requests - w.requests
		}
		if b.window.CompareAndSwap(w, next) {
			w = next
		} else {
			w = b.window.Load()
		}
	}
	allowed := retryFloor + (w.before+requests-w.requests)/retryShare
	if w.taken.Add(1) > allowed {
		w.taken.Add(-1)
		return false
	}
	return true
}
