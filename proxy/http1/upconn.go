package http1

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// upConn is one connection to an upstream. One request at a time owns it, from pool.get to the close of the response
// body.
type upConn struct {
	pool      *pool
	nc        net.Conn
	tcp       *net.TCPConn // nc if it is plain TCP
	raw       syscall.RawConn
	src       source
	idleSince time.Time
	requests  int
	most      int // requests after which it is closed, 0 for no limit
	closeOnce sync.Once
	aborted   atomic.Bool
	onCancel  func() // abort, as a value made once

	// Of the current request:
	head        responseHead
	resp        http.Response
	hdr         http.Header
	vals        []string
	body        body
	rbody       responseBody
	sent        int  // bytes written
	bodyTouched bool // the request body was read
	answered    bool // a byte of the response has come
	reusable    bool
	upload      *upload
	stop        func() bool // ends the watch over the context, nil if there is none
	watched     Watchable   // the same for a context that can be watched for nothing
	deadline    time.Time   // the write deadline in force
}

// maxInterim bounds the 1xx responses before a final one.
const maxInterim = 16

// fresh reports whether an idle connection may be used: it is open and the upstream has sent nothing unasked.
func (u *upConn) fresh() bool {
	open, readable := peek(u.raw)
	return open && !readable && u.src.buffered() == 0
}

func (u *upConn) close() {
	u.closeOnce.Do(func() {
		u.nc.Close()
		u.src.release()
		u.pool.t.stats.open.Add(-1)
		u.pool.left()
	})
}

// replayable reports whether r, which failed on this reused connection, may go out again on another.
func (u *upConn) replayable(r *http.Request) bool {
	if u.answered || u.bodyTouched {
		return false
	}
	return u.sent == 0 || bodyless(r) && idempotent(r)
}

func bodyless(r *http.Request) bool { return r.Body == nil || r.Body == http.NoBody }

// idempotent follows RFC 9110 section 9.2.2, and net/http in taking an Idempotency-Key for a promise.
func idempotent(r *http.Request) bool {
	switch r.Method {
	case "", http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodPut, http.MethodDelete, http.MethodTrace:
		return true
	}
	return r.Header["Idempotency-Key"] != nil || r.Header["X-Idempotency-Key"] != nil
}

// watch has the connection broken when ctx is cancelled.
func (u *upConn) watch(ctx context.Context) {
	if w, ok := ctx.(Watchable); ok {
		u.watched = w // before OnCancel, which may call abort
		if w.OnCancel(u.onCancel) {
			return
		}
		u.watched = nil
	}
	if ctx.Done() != nil {
		u.stop = context.AfterFunc(ctx, u.onCancel)
	}
}

func (u *upConn) unwatch() {
	if u.watched != nil {
		u.watched.Release()
		u.watched = nil
	}
	if u.stop != nil {
		if !u.stop() {
			u.reusable = false // abort has run or is about to
		}
		u.stop = nil
	}
	if u.aborted.Load() {
		u.reusable = false
	}
}

// abort makes reads and writes in progress fail, and the connection useless.
func (u *upConn) abort() {
	u.aborted.Store(true)
	u.nc.SetDeadline(time.Unix(1, 0))
}

func (u *upConn) roundTrip(r *http.Request) (*http.Response, error) {
	u.sent, u.bodyTouched, u.answered, u.reusable, u.upload = 0, false, false, true, nil
	u.requests++
	ctx := r.Context()
	u.watch(ctx)
	resp, err := u.exchange(r)
	if err == nil {
		return resp, nil
	}
	u.endUpload()
	u.unwatch()
	u.close()
	if cerr := ctx.Err(); cerr != nil {
		return nil, cerr
	}
	return nil, err
}

func (u *upConn) exchange(r *http.Request) (*http.Response, error) {
	if err := u.writeRequest(r); err != nil {
		return nil, err
	}
	if u.pool.t.HeaderTimeout > 0 {
		u.src.within(u.pool.t.HeaderTimeout, time.Now())
	} else {
		u.src.within(0, time.Time{})
	}
	for interim := 0; ; interim++ {
		if err := u.readHead(); err != nil {
			return nil, err
		}
		if u.head.code >= 200 || u.head.code == http.StatusSwitchingProtocols {
			break
		}
		if interim == maxInterim {
			return nil, errors.New("http1: too many interim responses")
		}
		if err := u.interim(r.Context()); err != nil {
			return nil, err
		}
	}
	return u.response(r)
}

// interim passes a 1xx on.
func (u *upConn) interim(ctx context.Context) error {
	if u.head.code == http.StatusContinue {
		if u.upload != nil {
			u.upload.proceed()
		}
	}
	trace := httptrace.ContextClientTrace(ctx)
	if trace == nil {
		return nil
	}
	if u.head.code == http.StatusContinue && trace.Got100Continue != nil {
		trace.Got100Continue()
	}
	if trace.Got1xxResponse != nil {
		return trace.Got1xxResponse(u.head.code, textproto.MIMEHeader(u.hdr))
	}
	return nil
}

// writeRequest sends the head, and the body with it if it is here and small; other bodies get a goroutine, so that a
// response that comes early, or while the body still goes out, is seen.
func (u *upConn) writeRequest(r *http.Request) error {
	bp := buffers.Get().(*[]byte)
	defer buffers.Put(bp)
	b := (*bp)[:0]
	method := r.Method
	if method == "" {
		method = http.MethodGet
	}
	b = append(b, method...)
	b = append(b, ' ')
	b = appendTarget(b, r.URL)
	b = append(b, " HTTP/1.1\r\nHost: "...)
	if r.Host != "" {
		b = append(b, r.Host...)
	} else {
		b = append(b, r.URL.Host...)
	}
	b = append(b, "\r\n"...)
	expects := false
	for k, vv := range r.Header {
		switch k {
		case "Host", "Content-Length", "Transfer-Encoding", "Trailer":
			continue
		case "Expect":
			expects = hasToken(vv, "100-continue")
		}
		b = appendField(b, k, vv)
	}
	length := r.ContentLength
	if bodyless(r) {
		length = 0
	} else if length == 0 {
		length = -1
	}
	chunked := length < 0
	switch {
	case chunked:
		b = append(b, "Transfer-Encoding: chunked\r\n"...)
		if len(r.Trailer) > 0 {
			b = append(b, "Trailer: "...)
			first := true
			for k := range r.Trailer {
				if !all(k, tokenByte) {
					continue
				}
				if !first {
					b = append(b, ", "...)
				}
				b, first = append(b, k...), false
			}
			b = append(b, "\r\n"...)
		}
	case length > 0 || !bodyless(r) || method == http.MethodPost || method == http.MethodPut || method == http.MethodPatch:
		b = appendLength(b, length)
	}
	if r.Close {
		b = append(b, "Connection: close\r\n"...)
		u.reusable = false
	}
	b = append(b, "\r\n"...)
	if length == 0 {
		return u.write(b)
	}
	if bd, ok := r.Body.(*body); ok && !expects && length > 0 && length <= int64(bd.src.buffered()) && int64(len(b))+length <= 32<<10 && bd.before == nil {
		u.bodyTouched = true
		n := len(b)
		b = append(b, make([]byte, length)...)
		if _, err := io.ReadFull(bd, b[n:]); err != nil {
			return &bodyError{err}
		}
		return u.write(b)
	}
	if err := u.write(b); err != nil {
		return err
	}
	u.bodyTouched = u.bodyTouched || !expects
	u.upload = startUpload(u, r, length, expects)
	return nil
}

func (u *upConn) write(b []byte) error {
	u.writeSoon()
	n, err := u.nc.Write(b)
	u.sent += n
	return err
}

func (u *upConn) writeSoon() {
	d, now := u.pool.t.WriteTimeout, time.Now()
	if left := u.deadline.Sub(now); left >= d && left <= d+d/8 {
		return
	}
	u.deadline = now.Add(d + d/8)
	u.nc.SetWriteDeadline(u.deadline)
}

func (u *upConn) readHead() error {
	var scan headScanner
	l := limits{u.pool.t.MaxHead, u.pool.t.MaxHead, defaultMaxFields * 2}
	for {
		n, err := scan.scan(u.src.bytes(), l)
		if err != nil {
			return err
		}
		if n > 0 {
			text := string(u.src.bytes()[:n])
			u.src.discard(n)
			clear(u.hdr)
			u.vals, err = parseResponse(text, &u.head, u.hdr, u.vals[:0])
			return err
		}
		if err := u.src.fill(u.pool.t.MaxHead); err != nil {
			if err == io.EOF {
				if u.answered {
					return io.ErrUnexpectedEOF
				}
				return errPeerGone
			}
			if uerr := u.uploadError(); uerr != nil && !u.answered {
				return uerr
			}
			return err
		}
		u.answered = true
	}
}

// response makes the http.Response of the final head.
func (u *upConn) response(r *http.Request) (*http.Response, error) {
	p := &u.resp
	*p = http.Response{Status: u.head.status, StatusCode: u.head.code, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: u.head.minor,
		Header: u.hdr, Request: r}
	if u.head.minor == 0 {
		p.Proto = "HTTP/1.0"
	}
	if u.head.code == http.StatusSwitchingProtocols {
		return u.switchProtocols(r)
	}
	if u.head.close || u.head.minor == 0 && !u.head.keepAlive {
		u.reusable = false
		p.Close = true
	}
	if u.head.hasTrailer {
		t, err := announcedTrailer(u.hdr)
		if err != nil {
			return nil, err
		}
		if u.head.chunked {
			p.Trailer = t
		}
	}
	u.rbody = responseBody{u: u}
	p.Body = &u.rbody
	u.body = body{src: &u.src, timeout: u.pool.t.BodyTimeout, trailer: &p.Trailer}
	switch {
	case r.Method == http.MethodHead || u.head.code == http.StatusNoContent || u.head.code == http.StatusNotModified:
		p.ContentLength = u.head.length
		if u.head.chunked {
			delete(u.hdr, "Transfer-Encoding")
		}
		u.body.err = io.EOF
	case u.head.chunked:
		delete(u.hdr, "Transfer-Encoding")
		p.ContentLength, p.TransferEncoding = -1, chunkedCoding
		u.body.kind = bodyChunked
		if err := u.body.checkBuffered(); err != nil {
			return nil, err
		}
	case u.head.length >= 0:
		p.ContentLength = u.head.length
		u.body.left = u.head.length
		if u.head.length == 0 {
			u.body.err = io.EOF
		}
	default:
		p.ContentLength = -1
		u.body.kind = bodyToEOF
		u.reusable = false
	}
	return p, nil
}

// checkBuffered looks at the first chunk line if it is here already, so that a malformed one becomes an error of the
// response and not of its body. It does not wait.
func (b *body) checkBuffered() error {
	p := b.src.bytes()
	for i, c := range p {
		if c == '\n' || i >= maxChunkLine {
			return b.checkFirst()
		}
	}
	return nil
}

func (u *upConn) switchProtocols(r *http.Request) (*http.Response, error) {
	if len(r.Header["Upgrade"]) == 0 || !bodyless(r) {
		return nil, errors.New("http1: upstream switches protocols unasked")
	}
	u.unwatch()
	u.nc.SetDeadline(time.Time{})
	u.resp.Body = &tunnel{u: u}
	u.resp.ContentLength = -1
	return &u.resp, nil
}

// giveBack returns the connection to its pool if it is good for another request, and closes it if not.
func (u *upConn) giveBack() {
	u.endUpload()
	u.unwatch()
	poisonResponse(u)
	if u.most > 0 && u.requests >= u.most && u.reusable {
		u.reusable = false
		u.pool.t.stats.retired.Add(1)
	}
	if !u.reusable || u.src.buffered() > 0 {
		u.close()
		return
	}
	u.pool.put(u)
}

// responseBody is the Body of a response. Once it is read to its end or closed, the connection goes back or dies.
type responseBody struct {
	u    *upConn
	done bool
}

func (b *responseBody) Read(p []byte) (int, error) {
	if b.done {
		return 0, errBodyClosed
	}
	n, err := b.u.body.read(p)
	if err != nil && err != io.EOF {
		b.u.reusable = false
	}
	return n, err
}

// WriteTo hands the body itself to writers that know it, so that a server of this package may splice.
func (b *responseBody) WriteTo(w io.Writer) (int64, error) {
	if b.done {
		return 0, errBodyClosed
	}
	if rf, ok := w.(io.ReaderFrom); ok {
		return rf.ReadFrom(&b.u.body)
	}
	bp := copyBuffers.Get().(*[]byte)
	defer copyBuffers.Put(bp)
	return io.CopyBuffer(struct{ io.Writer }{w}, struct{ io.Reader }{b}, *bp)
}

// Close ends the response. What is left of its body is not read: the connection ends with it.
func (b *responseBody) Close() error {
	if b.done {
		return nil
	}
	b.done = true
	if !b.u.body.complete() {
		b.u.reusable = false
	}
	b.u.giveBack()
	return nil
}

// tunnel is the Body of a 101: both directions of the connection.
type tunnel struct{ u *upConn }

func (t *tunnel) Read(p []byte) (int, error)  { return t.u.src.Read(p) }
func (t *tunnel) Write(p []byte) (int, error) { return t.u.nc.Write(p) }

// CloseWrite ends our direction.
func (t *tunnel) CloseWrite() error {
	if c, ok := t.u.nc.(interface{ CloseWrite() error }); ok {
		return c.CloseWrite()
	}
	return errors.New("http1: connection cannot be half-closed")
}

// Close ends both directions.
func (t *tunnel) Close() error { t.u.close(); return nil }

// Conn answers the connection under the tunnel and the bytes of it that were read ahead; the caller owns both then.
func (t *tunnel) Conn() (net.Conn, []byte) {
	ahead := append([]byte(nil), t.u.src.bytes()...)
	t.u.src.release()
	return t.u.nc, ahead
}

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
	l.u.nc.SetWriteDeadline(time.Now().Add(l.u.pool.t.WriteTimeout))
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
		u.nc.SetWriteDeadline(time.Unix(1, 0))
		interruptBody(l.r.Body)
		<-l.done
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

// interruptBody ends a Read of a request body that waits for the client.
func interruptBody(rc io.ReadCloser) {
	b, ok := rc.(*body)
	if !ok {
		rc.Close()
		return
	}
	b.src.nc.SetReadDeadline(time.Unix(1, 0))
}
