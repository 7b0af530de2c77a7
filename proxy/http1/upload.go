package http1

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// bodyError is a request body that could not be read: the fault is the client's.
type bodyError struct{ err error }

func (e *bodyError) Error() string { return fmt.Sprintf("http1: reading request body: %v", e.err) }
func (e *bodyError) Unwrap() error { return e.err }

// upload sends a request body from its own goroutine.
type upload struct {
	u      *upConn
	r      *http.Request
	length int64 // -1: chunked
	goOn   chan struct{}
	once   sync.Once
	done   chan struct{}
	// ending is set before the last write: the upstream may answer before this goroutine knows that it is done.
	ending atomic.Bool

	mu   sync.Mutex // guards the fields below
	err  error
	quit bool
}

func startUpload(u *upConn, r *http.Request, length int64, expects bool) *upload {
	l := &upload{u: u, r: r, length: length, done: make(chan struct{})}
	if expects {
		l.goOn = make(chan struct{})
	}
	go l.run()
	return l
}

// proceed lets a body go that waits for 100 Continue.
func (l *upload) proceed() {
	if l.goOn != nil {
		l.once.Do(func() { close(l.goOn) })
	}
}

func (l *upload) run() {
	defer close(l.done)
	defer l.r.Body.Close()
	if l.goOn != nil {
		timer := time.NewTimer(l.u.pool.t.ContinueTimeout)
		defer timer.Stop()
		select {
		case <-l.goOn:
		case <-timer.C:
		}
		if l.stopped() {
			l.fail(errBodyClosed)
			return
		}
	}
	if err := l.copy(); err != nil {
		l.fail(err)
		// The response will not come, or not whole: end the wait for it.
		var be *bodyError
		if errors.As(err, &be) {
			l.u.abort()
		}
	}
}

func (l *upload) copy() error {
	bp := copyBuffers.Get().(*[]byte)
	defer copyBuffers.Put(bp)
	const room = 16 // before the data for a chunk's size line, behind it for CRLF
	buf := (*bp)[room : len(*bp)-room]
	left := l.length
	for {
		n, err := l.r.Body.Read(buf)
		if n > 0 {
			if l.length >= 0 && int64(n) > left {
				return &bodyError{errors.New("http1: body longer than its Content-Length")}
			}
			if left -= int64(n); left == 0 {
				l.ending.Store(true)
			}
			if werr := l.send(*bp, room, n); werr != nil {
				return werr
			}
			if left == 0 {
				return nil
			}
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			return &bodyError{err}
		}
	}
	if l.length > 0 && left > 0 {
		return &bodyError{io.ErrUnexpectedEOF}
	}
	if l.length < 0 {
		l.ending.Store(true)
		b := append((*bp)[:0], "0\r\n"...)
		for k, vv := range l.r.Trailer {
			if trailerAllowed(k) {
				b = appendField(b, k, vv)
			}
		}
		return l.write(append(b, "\r\n"...))
	}
	return nil
}

// send writes n bytes that stand at buf[room:], framed as one chunk if the body is chunked.
func (l *upload) send(buf []byte, room, n int) error {
	if l.length >= 0 {
		return l.write(buf[room : room+n])
	}
	var size [room16]byte
	s := strconv.AppendInt(size[:0], int64(n), 16)
	s = append(s, "\r\n"...)
	start := room - len(s)
	copy(buf[start:], s)
	copy(buf[room+n:], "\r\n")
	return l.write(buf[start : room+n+2])
}

const room16 = 16

func (l *upload) write(b []byte) error {
	l.u.setWriteDeadline(time.Now().Add(l.u.pool.t.WriteTimeout))
	_, err := l.u.nc.Write(b)
	return err
}

func (l *upload) fail(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err == nil {
		l.err = err
	}
}

func (l *upload) stopped() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.quit
}

// uploadError answers why the body could not be sent, if that is the request's own fault.
func (u *upConn) uploadError() error {
	if u.upload == nil {
		return nil
	}
	u.upload.mu.Lock()
	defer u.upload.mu.Unlock()
	var be *bodyError
	if errors.As(u.upload.err, &be) {
		return be
	}
	return nil
}

// endUpload makes sure that nobody reads the request body or writes to the connection any more. A body that was not
// sent whole ends the connection with it: what the upstream read of it must not meet another request.
func (u *upConn) endUpload() {
	l := u.upload
	if l == nil {
		return
	}
	u.upload = nil
	u.deadline = time.Time{}
	if !l.finished() {
		u.reusable = false
		l.mu.Lock()
		l.quit = true
		l.mu.Unlock()
		l.proceed()
		u.stopWrites()
		if b, ok := l.r.Body.(*body); ok {
			b.src.interrupt()
			<-l.done
			b.src.resume()
		} else {
			l.r.Body.Close()
			<-l.done
		}
	}
	if l.err != nil {
		u.reusable = false
	}
}

// endGrace is how long an upload that has only its last write to make may take for it once the answer is there.
const endGrace = 100 * time.Millisecond

// finished reports whether the upload is over, and waits a little if it is about to be.
func (l *upload) finished() bool {
	select {
	case <-l.done:
		return true
	default:
	}
	if !l.ending.Load() {
		return false
	}
	timer := time.NewTimer(endGrace)
	defer timer.Stop()
	select {
	case <-l.done:
		return true
	case <-timer.C:
		return false
	}
}
