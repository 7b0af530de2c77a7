package http1

import (
	"context"
	"errors"
	"sync"
	"time"
)

// ErrOverflow is what a request gets that would wait for a connection while Transport.MaxPending others do already.
var ErrOverflow = errors.New("http1: too many requests wait for a connection to this upstream")

// A pool holds the connections to one upstream. The one used last is used next, so that those not needed grow old.
type pool struct {
	t *Transport

	mu      sync.Mutex // guards the fields below
	idle    []*upConn  // oldest first
	open    int        // connections that exist or are being dialled
	waiting []chan *upConn
	timer   *time.Timer // ends idle connections that grew old; nil while none is idle
	closed  bool
}

// get answers a connection: an idle one that is still good (reused is true), a fresh one (nil, to be dialled by the
// caller, who owns a place in open), or after a wait for its turn whichever comes first.
func (p *pool) get(ctx context.Context) (u *upConn, reused bool, err error) {
	p.mu.Lock()
	for len(p.idle) > 0 {
		u := p.idle[len(p.idle)-1]
		p.idle[len(p.idle)-1] = nil
		p.idle = p.idle[:len(p.idle)-1]
		if p.t.IdleTimeout < 0 || time.Since(u.idleSince) < p.t.IdleTimeout {
			p.mu.Unlock()
			if u.fresh() {
				p.t.stats.reused.Add(1)
				p.t.stats.idle.Add(-1)
				return u, true, nil
			}
			p.t.stats.idle.Add(-1)
			u.close()
			p.mu.Lock()
			continue
		}
		p.mu.Unlock()
		p.t.stats.idle.Add(-1)
		u.close()
		p.mu.Lock()
	}
	if p.t.MaxConns <= 0 || p.open < p.t.MaxConns {
		p.open++
		p.mu.Unlock()
		return nil, false, nil
	}
	if len(p.waiting) >= p.t.MaxPending {
		p.mu.Unlock()
		p.t.stats.overflow.Add(1)
		return nil, false, ErrOverflow
	}
	turn := make(chan *upConn, 1)
	p.waiting = append(p.waiting, turn)
	p.mu.Unlock()
	p.t.stats.pending.Add(1)
	defer p.t.stats.pending.Add(-1)
	var timeout <-chan time.Time
	if p.t.PendingTimeout > 0 {
		timer := time.NewTimer(p.t.PendingTimeout)
		defer timer.Stop()
		timeout = timer.C
	}
	select {
	case u := <-turn:
		return u, u != nil, nil
	case <-ctx.Done():
		err = ctx.Err()
	case <-timeout:
		err = ErrOverflow
	}
	p.mu.Lock()
	for i, w := range p.waiting {
		if w == turn {
			p.waiting = append(p.waiting[:i], p.waiting[i+1:]...)
			p.mu.Unlock()
			return nil, false, err
		}
	}
	p.mu.Unlock()
	// Our turn came at the same moment: pass it on.
	if u := <-turn; u != nil {
		p.put(u)
	} else {
		p.left()
	}
	return nil, false, err
}

// put takes back a connection that is good for another request.
func (p *pool) put(u *upConn) {
	p.mu.Lock()
	if len(p.waiting) > 0 && !p.closed {
		turn := p.waiting[0]
		p.waiting = p.waiting[1:]
		p.mu.Unlock()
		turn <- u
		return
	}
	if p.closed || p.t.MaxIdle > 0 && len(p.idle) >= p.t.MaxIdle {
		p.mu.Unlock()
		u.close()
		return
	}
	u.idleSince = time.Now()
	p.idle = append(p.idle, u)
	p.t.stats.idle.Add(1)
	if p.timer == nil && p.t.IdleTimeout > 0 {
		p.timer = time.AfterFunc(p.t.IdleTimeout, p.expire)
	}
	p.mu.Unlock()
}

// left gives up a place in open, to whoever waits for one.
func (p *pool) left() {
	p.mu.Lock()
	if len(p.waiting) > 0 {
		turn := p.waiting[0]
		p.waiting = p.waiting[1:]
		p.mu.Unlock()
		turn <- nil
		return
	}
	p.open--
	p.mu.Unlock()
}

// expire closes idle connections that grew old and comes again while there are others.
func (p *pool) expire() {
	p.mu.Lock()
	now := time.Now()
	n := 0
	for n < len(p.idle) && (p.closed || now.Sub(p.idle[n].idleSince) >= p.t.IdleTimeout) {
		n++
	}
	old := append([]*upConn(nil), p.idle[:n]...)
	p.idle = append(p.idle[:0], p.idle[n:]...)
	p.timer = nil
	if len(p.idle) > 0 {
		p.timer = time.AfterFunc(p.t.IdleTimeout-now.Sub(p.idle[0].idleSince), p.expire)
	}
	p.mu.Unlock()
	p.t.stats.idle.Add(int64(-len(old)))
	for _, u := range old {
		u.close()
	}
}

// closeIdle closes what is idle; with for good, also what comes back later.
func (p *pool) closeIdle(forGood bool) {
	p.mu.Lock()
	p.closed = p.closed || forGood
	old := p.idle
	p.idle = nil
	if p.timer != nil {
		p.timer.Stop()
		p.timer = nil
	}
	p.mu.Unlock()
	p.t.stats.idle.Add(int64(-len(old)))
	for _, u := range old {
		u.close()
	}
}
