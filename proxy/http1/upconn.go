package http1

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
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
	// writeStopped is set once no write may succeed any more.
	writeStopped atomic.Bool
	onCancel     func() // abort, as a value made once

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
	u.src.interrupt()
	u.stopWrites()
}

// stopWrites makes a write in progress and all later ones fail; as interrupt does for reads.
func (u *upConn) stopWrites() {
	u.writeStopped.Store(true)
	u.nc.SetWriteDeadline(longAgo)
}

func (u *upConn) setWriteDeadline(t time.Time) {
	u.nc.SetWriteDeadline(t)
	if u.writeStopped.Load() {
		u.nc.SetWriteDeadline(longAgo)
	}
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
	if t, move := deadlineFor(d, now, u.deadline); move {
		u.deadline = t
		u.setWriteDeadline(t)
	}
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
	t := &tunnel{u: u, ahead: append([]byte(nil), u.src.bytes()...)}
	u.src.release()
	u.resp.Body = t
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

// tunnel is the Body of a 101: both directions of the connection. Close may be called while Read waits, so neither
// uses the connection's buffer: what was read ahead is its own.
type tunnel struct {
	u     *upConn
	ahead []byte
}

func (t *tunnel) Read(p []byte) (int, error) {
	if len(t.ahead) > 0 {
		n := copy(p, t.ahead)
		t.ahead = t.ahead[n:]
		return n, nil
	}
	return t.u.nc.Read(p)
}

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
