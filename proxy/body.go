package proxy

import (
	"errors"
	"io"
	"sync"
	"sync/atomic"
)

// body is the client's request body as the attempts see it. Its first bytes are kept, so that another attempt can
// begin anew as long as no more than those were read. An engine may go on reading for an attempt that has failed; mu
// makes it harmless: what it still gets is kept too. Methods work on a nil body, which is none.
type body struct {
	src   io.Reader
	limit int

	lost atomic.Bool // more was read than is kept
	mu   sync.Mutex  // guards the fields below; held while the client is read
	read int64       // from src
	kept []byte
	err  error // what ended src
}

// newBody returns the body of a request of the given length, -1 for unknown. One that is longer than limit is not
// kept at all.
func newBody(src io.Reader, length int64, limit int) *body {
	if length > int64(limit) {
		limit = 0
	}
	return &body{src: src, limit: limit}
}

// replayable reports whether another attempt would get the whole body.
func (b *body) replayable() bool { return b == nil || !b.lost.Load() }

// clientError is what went wrong while the client was read, nil for nothing. A Read that is in progress is waited for
// only if the client is known to have failed: then it is about to return.
func (b *body) clientError(failed bool) error {
	if b == nil {
		return nil
	}
	if failed {
		b.mu.Lock()
	} else if !b.mu.TryLock() {
		return nil
	}
	defer b.mu.Unlock()
	if b.err == io.EOF {
		return nil
	}
	return b.err
}

// bytes is how much of the body was read so far.
func (b *body) bytes() int64 {
	if b == nil || !b.mu.TryLock() {
		return 0
	}
	defer b.mu.Unlock()
	return b.read
}

// next reads the client.
func (b *body) next(p []byte) int {
	n, err := b.src.Read(p)
	b.read += int64(n)
	b.err = err
	if b.lost.Load() {
		return n
	}
	if len(b.kept)+n > b.limit {
		b.lost.Store(true)
		b.kept = nil
		return n
	}
	b.kept = append(b.kept, p[:n]...)
	return n
}

// view is the body from its beginning, for one attempt.
type view struct {
	b      *body
	at     int64  // what this attempt has got
	onEOF  func() // called once, before the end is told; nil for nothing
	closed atomic.Bool
}

var (
	errAttemptOver = errors.New("attempt is over")
	errBodyLost    = errors.New("the beginning of the body is not there any more")
)

// Read implements io.Reader: first what is kept, then what the client sends.
func (v *view) Read(p []byte) (int, error) {
	b := v.b
	b.mu.Lock()
	defer b.mu.Unlock()
	for {
		switch {
		case v.closed.Load():
			return 0, errAttemptOver
		case v.at < b.read && b.lost.Load():
			return 0, errBodyLost
		case v.at < b.read:
			n := copy(p, b.kept[v.at:])
			v.at += int64(n)
			return n, nil
		case b.err != nil:
			if b.err == io.EOF && v.onEOF != nil {
				v.onEOF()
				v.onEOF = nil
			}
			return 0, b.err
		}
		if n := b.next(p); n > 0 {
			v.at += int64(n)
			return n, nil
		}
	}
}

// Close ends the view. The client's body itself is the server's to close.
func (v *view) Close() error {
	v.closed.Store(true)
	return nil
}
