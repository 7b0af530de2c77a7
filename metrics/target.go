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
	live   atomic.Pointer[traffic] // nil until something happens

	service *service
	born    uint64

	// The rest is guarded by m.mu.
	refs    int
	left    time.Time // when refs became 0
	leaving bool      // it is in m.leaving
}

// traffic is what a target without traffic does not need. A request touches inFlight twice, reads codes, and adds to
// two words of the histogram of its status. Those stand at the front, and a histogram has cache lines of its own, so
// that two busy targets do not slow each other down.
type traffic struct {
	inFlight atomic.Int64
	codes    atomic.Pointer[[]codeCells]
	rx, tx   atomic.Uint64

	open           atomic.Int64
	retries, conns atomic.Uint64
	connTime       atomic.Uint64 // of closed tunnels, in microseconds
	errors         [errorKinds]atomic.Uint64

	mu     sync.Mutex // held while codes gets a new entry
	recent window

	// The rest is guarded by Metrics.folding.
	series rowState
	left   bool // nobody refers to the target any more
}

// codeCells is the histogram of the answers with one status.
type codeCells struct {
	code int
	cells
}

// other is the value of the labels of the series that sums the rest.
const other = "_other"

func otherTarget() TargetLabels { return TargetLabels{other, other, other, other} }

func (l TargetLabels) isOther() bool { return l == otherTarget() }

// The words of a target after those of its histogram: first what only grows, then the gauges.
const (
	wordRx = iota
	wordTx
	wordRetries
	wordConns
	wordConnTime
	wordErrors
	targetCounts = wordErrors + errorKinds

	wordInFlight = targetCounts
	wordOpen     = targetCounts + 1
	targetGauges = 2
)

func (t *Target) state() *rowState { return &t.live.Load().series }

// activity also grows with tunnels and failed tries, and begins with the first sign of life.
func (t *Target) activity(words []uint64) uint64 {
	width := t.m.bounds.width()
	n := 1 + countOf(words[:width])
	words = words[width:]
	n += words[wordConns]
	for _, e := range words[wordErrors:][:errorKinds] {
		n += e
	}
	return n
}

// read adds all words of a target with traffic.
func (t *Target) read(words []uint64) {
	l := t.live.Load()
	for _, c := range l.statuses() {
		c.addTo(words)
	}
	w := words[t.m.bounds.width():]
	w[wordRx] += l.rx.Load()
	w[wordTx] += l.tx.Load()
	w[wordRetries] += l.retries.Load()
	w[wordConns] += l.conns.Load()
	w[wordConnTime] += l.connTime.Load()
	for k := range l.errors {
		w[wordErrors+k] += l.errors[k].Load()
	}
	w[wordInFlight] += uint64(l.inFlight.Load())
	w[wordOpen] += uint64(l.open.Load())
}

func (t *Target) key() int      { return 0 }
func (t *Target) order() uint64 { return t.born }
func (t *Target) homeless() bool {
	return t.live.Load().left || t.labels.isOther()
}

// idle reports whether nothing is going on at the target.
func (t *Target) idle() bool {
	l := t.live.Load()
	return l == nil || l.inFlight.Load() == 0 && l.open.Load() == 0
}

// Labels are the labels that the target was acquired with, as they are exported.
func (t *Target) Labels() TargetLabels { return t.labels }

// Start counts a request as in flight. Every Start needs one Finish or Abandon.
func (t *Target) Start() { t.traffic().inFlight.Add(1) }

// Finish ends what Start began: the client got status code after d. For a client that left first it is 499. The
// handshake of a tunnel finishes with 101 when the tunnel opens; what comes then is for ConnOpen and ConnClose.
func (t *Target) Finish(code int, d time.Duration) {
	l := t.traffic()
	l.inFlight.Add(-1)
	l.cellsOf(code, t.m.bounds).observe(t.m.bounds, d)
}

// Abandon ends what Start began without an answer: the try failed, and another one follows, maybe at another target.
func (t *Target) Abandon() { t.traffic().inFlight.Add(-1) }

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
	l.connTime.Add(uint64(max(d, 0) / time.Microsecond))
}

// InFlight is the number of requests between Start and Finish.
func (t *Target) InFlight() int64 {
	if l := t.live.Load(); l != nil {
		return l.inFlight.Load()
	}
	return 0
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
