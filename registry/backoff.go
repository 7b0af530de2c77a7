package registry

import (
	"context"
	"math/rand/v2"
	"time"
)

// maxBackoff is the longest pause between two tries.
const maxBackoff = 10 * time.Second

// backoff makes the pauses between tries: each about twice as long as the one before, up to maxBackoff, and each with
// jitter, so that many routers do not come back in step. The zero value with a base is ready.
type backoff struct{ base, last time.Duration }

// next returns the next pause: between half and all of base·2ⁿ.
func (b *backoff) next() time.Duration {
	b.last = min(max(2*b.last, b.base), maxBackoff)
	return b.last/2 + rand.N(b.last/2+1)
}

func (b *backoff) reset() { b.last = 0 }

// pause waits for d or until ctx ends, and says whether ctx goes on.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}
