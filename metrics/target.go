package metrics

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// TargetLabels say whose numbers a Target holds: fabio's labels of the metric route.
type TargetLabels struct {
	Service, Host, Path string
	// Target is the destination's URL.
	Target string
}

// ErrorKind is why a request or connection to an upstream failed.
type ErrorKind uint8

// The kinds of upstream errors.
const (
	ErrDial     ErrorKind = iota // no connection: refused, unreachable, unknown name
	ErrTimeout                   // dialled, connected or answered too late
	ErrTLS                       // handshake or certificate
	ErrReset                     // the connection broke before the answer was complete
	ErrProtocol                  // the answer is not what the protocol allows
	ErrOverflow                  // a limit of this target was hit, nothing was sent
	ErrCanceled                  // the client went away first; not the upstream's fault
	ErrOther                     // anything else

	errorKinds = iota
)

// errorKindNames are the values of the label kind, in the order of the constants.
var errorKindNames = [errorKinds]string{"dial", "timeout", "tls", "reset", "protocol", "overflow", "canceled", "other"}

// String is the value of the label kind.
func (k ErrorKind) String() string { return errorKindNames[min(k, ErrOther)] }

// Target counts what happens at one target of the table. Get it with Metrics.Acquire, once, when the target enters the
// table. Safe for concurrent use: no method that counts takes a lock or looks anything up, and none allocates, but for
// the first request and the first answer with a new status.
type Target struct {
	m      *Metrics
	labels TargetLabels
	refs   int // guarded by m.mu

	live atomic.Pointer[traffic] // nil until something happens
}

// traffic is what a target without traffic does not need.
type traffic struct {
	inFlight, open        atomic.Int64
	rx, tx                atomic.Uint64
	retries, conns, connT atomic.Uint64 // connT in microseconds
	errors                [errorKinds]atomic.Uint64
	codes                 atomic.Pointer[[]codeCells]

	mu sync.Mutex // held while codes gets a new entry
}

// codeCells is the histogram of the answers with one status.
type codeCells struct {
	code int
	cells
}

// Labels are the labels that the target was acquired with, as they are exported.
func (t *Target) Labels() TargetLabels { return t.labels }

// Start counts a request as in flight. Every Start needs one Finish.
func (t *Target) Start() { t.traffic().inFlight.Add(1) }

// Finish ends what Start began: the client got status code after d. For a client that left first it is 499. The
// handshake of a tunnel finishes with 101 when the tunnel opens; what comes then is for ConnOpen and ConnClose.
func (t *Target) Finish(code int, d time.Duration) {
	l := t.traffic()
	l.inFlight.Add(-1)
	l.cellsOf(code, t.m.bounds).observe(t.m.bounds, d)
}

// UpstreamError counts a failed try. A request that is tried again may count several.
func (t *Target) UpstreamError(k ErrorKind) {
	k = min(k, ErrOther)
	t.traffic().errors[k].Add(1)
	t.m.upstreamErrors[k].Inc()
}

// Retry counts a request that was tried again after it failed at this target.
func (t *Target) Retry() {
	t.traffic().retries.Add(1)
	t.m.retries.Inc()
}

// AddRx counts n bytes of body or stream from the upstream to the client.
func (t *Target) AddRx(n int64) {
	if n > 0 {
		t.traffic().rx.Add(uint64(n))
	}
}

// AddTx counts n bytes of body or stream from the client to the upstream.
func (t *Target) AddTx(n int64) {
	if n > 0 {
		t.traffic().tx.Add(uint64(n))
	}
}

// ConnOpen counts a tunnel (TCP or WebSocket) to the target. Every ConnOpen needs one ConnClose.
func (t *Target) ConnOpen() {
	l := t.traffic()
	l.conns.Add(1)
	l.open.Add(1)
}

// ConnClose ends what ConnOpen began, d after it.
func (t *Target) ConnClose(d time.Duration) {
	l := t.traffic()
	l.open.Add(-1)
	l.connT.Add(uint64(max(d, 0) / time.Microsecond))
}

// InFlight is the number of requests between Start and Finish.
func (t *Target) InFlight() int64 {
	if l := t.live.Load(); l != nil {
		return l.inFlight.Load()
	}
	return 0
}

// Stats are a target's numbers for the page. All but InFlight, Open, P50 and P99 only grow: rates are differences.
type Stats struct {
	// Requests are the finished ones; Errors those of them answered with 5xx.
	Requests, Errors uint64
	// Codes are the requests by class: Codes[2] are the 2xx, Codes[0] what has no class.
	Codes [6]uint64
	// Rx are bytes from the upstream to the client, Tx those to the upstream.
	Rx, Tx uint64
	// Retries are requests tried again after they failed here.
	Retries uint64
	// UpstreamErrors are the failed tries, by ErrorKind.
	UpstreamErrors [errorKinds]uint64
	// Conns are the tunnels opened so far, Open those open now.
	Conns uint64
	Open  int64
	// InFlight are the requests being served now.
	InFlight int64
	// P50 and P99 are the latencies that half and 99 % of the requests did not exceed; 0 without one.
	P50, P99 time.Duration
}

// Stats reads the numbers. It is not part of the hot path, but never holds it up.
func (t *Target) Stats() Stats {
	l := t.live.Load()
	if l == nil {
		return Stats{}
	}
	b := t.m.bounds
	s := Stats{
		Rx: l.rx.Load(), Tx: l.tx.Load(), Retries: l.retries.Load(),
		Conns: l.conns.Load(), Open: l.open.Load(), InFlight: l.inFlight.Load(),
	}
	for k := range l.errors {
		s.UpstreamErrors[k] = l.errors[k].Load()
	}
	words := make([]uint64, b.width())
	for _, c := range l.statuses() {
		clear(words)
		c.addTo(words)
		n := b.count(words)
		s.Requests += n
		s.Codes[classOf(c.code)] += n
	}
	s.Errors = s.Codes[5]
	clear(words)
	for _, c := range l.statuses() {
		c.addTo(words)
	}
	s.P50, s.P99 = b.quantile(0.5, words), b.quantile(0.99, words)
	return s
}

func classOf(code int) int {
	if code < 100 || code > 599 {
		return 0
	}
	return code / 100
}

func (t *Target) traffic() *traffic {
	if l := t.live.Load(); l != nil {
		return l
	}
	t.live.CompareAndSwap(nil, new(traffic))
	return t.live.Load()
}

// statuses are the histograms by status, in the order in which they were first seen.
func (l *traffic) statuses() []codeCells {
	if p := l.codes.Load(); p != nil {
		return *p
	}
	return nil
}

// maxCodes is how many different statuses of one target are told apart. An upstream that makes up more has them
// counted under code 0.
const maxCodes = 64

func (l *traffic) cellsOf(code int, b bounds) cells {
	if code < 100 || code > 999 {
		code = 0
	}
	for _, c := range l.statuses() {
		if c.code == code {
			return c.cells
		}
	}
	return l.addCode(code, b)
}

func (l *traffic) addCode(code int, b bounds) cells {
	l.mu.Lock()
	defer l.mu.Unlock()
	have := l.statuses()
	if len(have) >= maxCodes {
		code = 0
	}
	for _, c := range have {
		if c.code == code {
			return c.cells
		}
	}
	c := codeCells{code, newCells(b)}
	more := append(slices.Clip(have), c)
	l.codes.Store(&more)
	return c.cells
}
