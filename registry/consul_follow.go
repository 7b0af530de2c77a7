package registry

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	// minPause is the least time between two queries of one watch, however fast Consul answers.
	minPause = 100 * time.Millisecond
	// maxPause bounds the pause after an answer that took long to work off.
	maxPause = time.Second
)

// answer is what one query of a watch has brought.
type answer[T any] struct {
	value T
	index uint64
	// at is when the answer began to come; what it took from there on is work, not waiting.
	at time.Time
}

// limit is how long a query may take until its answer begins.
func (b *consul) limit(index uint64) time.Duration {
	if index == 0 {
		return slack
	}
	return b.config.Consul.Wait + b.config.Consul.Wait/16 + slack // Consul adds up to a 16th of jitter
}

// ask is one query of a watch.
type ask struct {
	// index to wait for a change of; 0 reads at once.
	index uint64
	// sure asks for a read that the leader has verified, whatever the configuration says.
	sure bool
}

// errDoubt is what the judge of a watch says of an answer that takes away too much to be believed at once.
var errDoubt = errors.New("the answer lacks most of what was there")

// follow asks one query after the other and delivers what they bring. It minds Consul's rules for blocking queries: an
// index that fell belongs to another history, so it is dropped with its answer, and all is read anew; after an error
// too, because an index higher than Consul's own would wait for nothing. There is a pause between any two queries.
//
// judge looks at each answer before it counts: errDoubt has it confirmed by a second read, any other error is a failed
// query. Nil believes everything.
func follow[T any](ctx context.Context, b *consul, kind string, query func(ctx context.Context, q ask) (answer[T], error), judge func(T) error, deliver func(T)) {
	retry := backoff{base: b.config.Retry}
	var index, last uint64 // to ask with; of the last answer
	again := false         // the last answer was not believed
	for ctx.Err() == nil {
		var a answer[T]
		doubt := false
		err := b.env.query(kind, func() (err error) {
			if a, err = query(ctx, ask{index, again}); err == nil && judge != nil {
				err = judge(a.value)
			}
			if doubt = err == errDoubt; doubt {
				err = nil
			}
			return err
		})
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			d := max(retry.next(), askedPause(err))
			level := slog.LevelDebug
			if b.watches.fails(kind, cause(err)) {
				level = slog.LevelWarn
			}
			b.env.Log.Log(ctx, level, "consul query failed; the last good routes stay", "query", kind, "err", cause(err), "retry", d.Round(time.Millisecond))
			index, again = 0, false
			pause(ctx, d)
			continue
		}
		retry.reset()
		if b.watches.works(kind) {
			b.env.Log.Info("consul answers again", "query", kind)
		}
		if fell := a.index < last; (fell || doubt) && !again {
			why := errDoubt.Error()
			if fell {
				why = "its index fell"
			}
			b.env.Log.Warn("consul's answer is not believed before a second one", "query", kind, "why", why, "index", a.index, "last", last)
			again, last, index = true, a.index, 0
			pause(ctx, minPause)
			continue
		}
		again, last, index = false, a.index, a.index
		deliver(a.value)
		// A big answer is work for both sides: leave as much time as it took.
		d := min(max(time.Since(a.at), minPause), maxPause)
		if poll := b.config.Consul.PollInterval; poll > 0 {
			d, index = max(d, poll), 0
		}
		pause(ctx, d)
	}
}

// watches knows which watches get no answers, and since when. The zero value is ready; safe for concurrent use.
type watches struct {
	mu      sync.Mutex // guards failing
	failing map[string]failure
}

type failure struct {
	cause string
	since time.Time
}

// fails notes that a watch failed and says whether it worked before.
func (w *watches) fails(kind, cause string) (first bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f, ok := w.failing[kind]
	if !ok {
		f.since = time.Now()
	}
	f.cause = cause
	if w.failing == nil {
		w.failing = map[string]failure{}
	}
	w.failing[kind] = f
	return !ok
}

// works notes that a watch works and says whether it failed before.
func (w *watches) works(kind string) (first bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	_, ok := w.failing[kind]
	delete(w.failing, kind)
	return ok
}

// trouble describes all failures in one line.
func (w *watches) trouble() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	var lines []string
	for kind, f := range w.failing {
		lines = append(lines, fmt.Sprintf("%s for %s: %s", kind, time.Since(f.since).Round(time.Second), f.cause))
	}
	if lines == nil {
		return nil
	}
	slices.Sort(lines)
	return errors.New("consul: " + strings.Join(lines, "; "))
}
