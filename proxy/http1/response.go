package http1

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"
)

// response is the http.ResponseWriter of a connection. The header is serialised by WriteHeader into head; what frames
// the body is decided when the head has to leave: by the handler's Content-Length, by the body being complete in
// pending, or else chunked. Head and body leave in one write where they fit.
type response struct {
	c        *conn
	header   http.Header
	trailers []string // names announced in Trailer when the header was written

	code     int
	length   int64 // declared by the handler, -1 if not
	written  int64
	head     []byte // the serialised head, without the framing fields, until it is sent
	pending  []byte // body not yet sent
	wrote    bool   // WriteHeader was called
	sent     bool   // the head has left
	chunked  bool
	noBody   bool // HEAD, 1xx, 204, 304
	closing  bool // the connection ends with this response
	hijacked bool
	err      error // of writing to the client; sticky
}

const pendingSize = 4 << 10

var errHijacked = http.ErrHijacked

// Header answers the map to change before WriteHeader, and for trailers after it.
func (w *response) Header() http.Header { return w.header }

// WriteHeader sends a 1xx at once and notes any other status.
func (w *response) WriteHeader(code int) {
	if w.hijacked || w.wrote {
		return
	}
	if code < 100 || code > 999 {
		panic("http1: invalid WriteHeader code " + strconv.Itoa(code))
	}
	if code < 200 && code != http.StatusSwitchingProtocols {
		w.inform(code)
		return
	}
	w.wrote = true
	w.code = code
	w.noBody = w.c.x.head.method == http.MethodHead || code < 200 || code == http.StatusNoContent || code == http.StatusNotModified
	b := appendStatusLine(w.c.x.out[:0], w.c.x.head.minor, code)
	w.length = -1
	hasDate := false
	for k, vv := range w.header {
		switch k {
		case "Content-Length":
			if len(vv) == 1 {
				if n, ok := parseLength(vv[0]); ok {
					w.length = n
				}
			}
			continue
		case "Transfer-Encoding":
			continue
		case "Connection":
			if hasToken(vv, "close") {
				w.closing = true
				continue
			}
			if code != http.StatusSwitchingProtocols {
				continue
			}
		case "Date":
			hasDate = true
		case "Trailer":
			w.announce(vv)
		}
		if len(k) > len(http.TrailerPrefix) && k[:len(http.TrailerPrefix)] == http.TrailerPrefix {
			continue
		}
		b = appendField(b, k, vv)
	}
	if !hasDate && code != http.StatusSwitchingProtocols {
		b = append(b, "Date: "...)
		b = append(b, w.c.srv.date()...)
		b = append(b, "\r\n"...)
	}
	w.head = b
}

// inform sends an interim response. Headers set so far go with it (RFC 9110 section 15.2).
func (w *response) inform(code int) {
	if w.c.x.head.minor == 0 {
		return // HTTP/1.0 knows none
	}
	if code == http.StatusContinue {
		w.c.x.body.sentContinue()
	}
	b := appendStatusLine(w.c.x.out[:0], 1, code)
	for k, vv := range w.header {
		switch k {
		case "Content-Length", "Transfer-Encoding", "Connection":
			continue
		}
		b = appendField(b, k, vv)
	}
	b = append(b, "\r\n"...)
	w.c.x.out = b[:0]
	w.send(b)
}

func (w *response) announce(lists []string) {
	t, _ := announcedTrailer(http.Header{"Trailer": lists})
	for k := range t {
		w.trailers = append(w.trailers, k)
	}
}

// Write sends or buffers body bytes.
func (w *response) Write(p []byte) (int, error) {
	if w.hijacked {
		return 0, errHijacked
	}
	if !w.wrote {
		w.WriteHeader(http.StatusOK)
	}
	if w.err != nil {
		return 0, w.err
	}
	if w.noBody {
		if w.c.x.head.method == http.MethodHead {
			return len(p), nil
		}
		return 0, http.ErrBodyNotAllowed
	}
	if w.length >= 0 && w.written+int64(len(p)) > w.length {
		return 0, http.ErrContentLength
	}
	w.written += int64(len(p))
	if w.pending == nil {
		w.pending = *buffers.Get().(*[]byte)
		w.pending = w.pending[:0]
	}
	if len(w.pending)+len(p) <= pendingSize {
		w.pending = append(w.pending, p...)
		return len(p), nil
	}
	if err := w.flush(p, false); err != nil {
		return 0, err
	}
	return len(p), nil
}

// WriteString is Write for strings.
func (w *response) WriteString(s string) (int, error) { return w.Write([]byte(s)) }

// Flush sends what is buffered.
func (w *response) Flush() { w.FlushError() }

// FlushError is Flush with the error; http.ResponseController calls it.
func (w *response) FlushError() error {
	if w.hijacked {
		return errHijacked
	}
	if !w.wrote {
		w.WriteHeader(http.StatusOK)
	}
	return w.flush(nil, false)
}

// flush sends the head if it is still here, the pending bytes and more; last says that the body ends with them.
func (w *response) flush(more []byte, last bool) error {
	if w.err != nil {
		return w.err
	}
	n := len(w.pending) + len(more)
	if w.sent && n == 0 && !(last && w.chunked) {
		return nil
	}
	b := w.c.x.out[:0]
	if !w.sent {
		b = w.frame(w.head, int64(n), last)
		w.head, w.sent = nil, true
	}
	if n > 0 && w.chunked {
		b = strconv.AppendInt(b, int64(n), 16)
		b = append(b, "\r\n"...)
	}
	b = append(b, w.pending...)
	w.pending = w.pending[:0]
	tail := ""
	if n > 0 && w.chunked {
		tail = "\r\n"
	}
	const joined = 16 << 10 // more than that is not copied but written with its neighbours by writev
	if len(more) > joined && w.c.tcp != nil {
		bufs := net.Buffers{b, more}
		if tail != "" {
			bufs = append(bufs, []byte(tail))
		}
		w.c.x.out = b[:0]
		w.c.writeSoon()
		_, err := bufs.WriteTo(w.c.tcp)
		w.fail(err)
		if w.err != nil || !last {
			return w.err
		}
		b, tail = b[:0], ""
	} else {
		b = append(b, more...)
		b = append(b, tail...)
	}
	if last && w.chunked {
		b = w.appendTrailer(append(b, "0\r\n"...))
	}
	w.c.x.out = b[:0]
	if len(b) > 0 {
		w.send(b)
	}
	return w.err
}

// frame appends the fields that frame the body and the connection, and the empty line. n is the length of the body
// that is here; it is all of it if last is true.
func (w *response) frame(b []byte, n int64, last bool) []byte {
	old := w.c.x.head.minor == 0
	switch {
	case w.noBody:
		if w.length >= 0 && w.code != http.StatusNoContent && w.code >= 200 {
			b = appendLength(b, w.length)
		}
	case w.length >= 0:
		b = appendLength(b, w.length)
	case last && len(w.trailers) == 0:
		b = appendLength(b, n)
	case old:
		w.closing = true
	default:
		w.chunked = true
		b = append(b, "Transfer-Encoding: chunked\r\n"...)
	}
	if w.c.srv.draining.Load() {
		w.closing = true
	}
	switch {
	case w.code == http.StatusSwitchingProtocols:
	case w.closing:
		b = append(b, "Connection: close\r\n"...)
	case old:
		b = append(b, "Connection: keep-alive\r\n"...)
	}
	return append(b, "\r\n"...)
}

func (w *response) appendTrailer(b []byte) []byte {
	for _, k := range w.trailers {
		b = appendField(b, k, w.header[k])
	}
	for k, vv := range w.header {
		if len(k) > len(http.TrailerPrefix) && k[:len(http.TrailerPrefix)] == http.TrailerPrefix {
			if n, ok := fieldName(k[len(http.TrailerPrefix):]); ok && trailerAllowed(n) {
				b = appendField(b, n, vv)
			}
		}
	}
	return append(b, "\r\n"...)
}

// finish ends the response after the handler: it reports whether the client has had all of it.
func (w *response) finish() bool {
	if !w.wrote {
		w.WriteHeader(http.StatusOK)
	}
	if !w.noBody && w.length >= 0 && w.written != w.length {
		w.err = errors.Join(w.err, errShort) // the client must see that the body is cut: the connection ends
	}
	w.flush(nil, true)
	return w.err == nil
}

var errShort = errors.New("http1: handler wrote less than the declared Content-Length")

func (w *response) fail(err error) {
	if err != nil && w.err == nil {
		w.err = err
	}
}

func (w *response) send(b []byte) {
	if w.err != nil {
		return
	}
	w.c.writeSoon()
	_, err := w.c.nc.Write(b)
	w.fail(err)
}

// spliceFrom is how much must be left for splice(2) to pay, spliceStep how much moves under one deadline.
const (
	spliceFrom = 128 << 10
	spliceStep = 4 << 20
)

// ReadFrom copies a body. Each read's bytes leave before the next read, so nothing waits in a buffer for more; a large
// body of known length moves from one plain TCP socket to the other inside the kernel.
func (w *response) ReadFrom(r io.Reader) (int64, error) {
	if !w.wrote {
		w.WriteHeader(http.StatusOK)
	}
	if w.noBody || w.hijacked {
		return io.Copy(struct{ io.Writer }{w}, r)
	}
	if rb, ok := r.(*responseBody); ok && !rb.done {
		r = &rb.u.body
	}
	bp := copyBuffers.Get().(*[]byte)
	defer copyBuffers.Put(bp)
	buf := *bp
	var total int64
	for {
		if b, ok := r.(*body); ok && w.c.tcp != nil && w.length >= 0 && !w.chunked {
			n, err := w.splice(b)
			total += n
			if err != nil {
				return total, err
			}
		}
		n, rerr := r.Read(buf)
		if n > 0 {
			if w.length >= 0 && w.written+int64(n) > w.length {
				return total, http.ErrContentLength
			}
			w.written += int64(n)
			total += int64(n)
			// The last bytes of a body of declared length may as well leave with the end.
			last := w.length >= 0 && w.written == w.length
			if last && n <= pendingSize && !w.sent {
				w.keep(buf[:n])
			} else if err := w.flush(buf[:n], false); err != nil {
				return total, err
			}
		}
		if rerr == io.EOF {
			return total, nil
		}
		if rerr != nil {
			return total, rerr
		}
	}
}

func (w *response) keep(p []byte) {
	if w.pending == nil {
		w.pending = (*buffers.Get().(*[]byte))[:0]
	}
	w.pending = append(w.pending, p...)
}

// splice moves what it can of b without copying it through this process.
func (w *response) splice(b *body) (int64, error) {
	from, ok := b.src.nc.(*net.TCPConn)
	if !ok || b.kind != bodyLength || b.src.buffered() > 0 || b.left < spliceFrom || b.before != nil {
		return 0, nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.err != nil || w.written+b.left > w.length {
		return 0, nil
	}
	if err := w.flush(nil, false); err != nil {
		return 0, err
	}
	var total int64
	for b.left > 0 {
		b.arm()
		w.c.writeSoon()
		n, err := w.c.tcp.ReadFrom(&io.LimitedReader{R: from, N: min(b.left, spliceStep)})
		b.left -= n
		w.written += n
		total += n
		if err != nil {
			b.err = b.fault(err)
			w.fail(err)
			return total, err
		}
		if n == 0 {
			b.err = errBodyCut
			return total, errBodyCut
		}
	}
	b.err = io.EOF
	return total, nil
}

// Hijack hands the connection over with what the client has already sent.
func (w *response) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	if w.hijacked {
		return nil, nil, errHijacked
	}
	if w.wrote && !w.sent {
		if err := w.flush(nil, false); err != nil {
			return nil, nil, err
		}
	}
	w.hijacked = true
	return w.c.hijack()
}

// SetReadDeadline and its siblings serve http.ResponseController.
func (w *response) SetReadDeadline(t time.Time) error {
	w.c.src.deadline = time.Time{}
	return w.c.nc.SetReadDeadline(t)
}

// SetWriteDeadline bounds the writes of this response.
func (w *response) SetWriteDeadline(t time.Time) error {
	w.c.ownDeadline = !t.IsZero()
	w.c.writeDeadline = time.Time{}
	return w.c.nc.SetWriteDeadline(t)
}

// EnableFullDuplex has nothing to do: a body may always be read after the response has begun.
func (w *response) EnableFullDuplex() error { return nil }

func appendStatusLine(b []byte, minor, code int) []byte {
	if minor == 0 {
		b = append(b, "HTTP/1.0 "...)
	} else {
		b = append(b, "HTTP/1.1 "...)
	}
	if code == http.StatusOK {
		return append(b, "200 OK\r\n"...)
	}
	b = strconv.AppendInt(b, int64(code), 10)
	b = append(b, ' ')
	b = append(b, http.StatusText(code)...)
	return append(b, "\r\n"...)
}

func appendLength(b []byte, n int64) []byte {
	b = append(b, "Content-Length: "...)
	b = strconv.AppendInt(b, n, 10)
	return append(b, "\r\n"...)
}

// appendField serialises one field, a line for each value. A name that is no token is left out and control characters
// in a value become blanks: nothing that a handler sets can add a line.
func appendField(b []byte, k string, vv []string) []byte {
	if !all(k, tokenByte) {
		return b
	}
	for _, v := range vv {
		b = append(b, k...)
		b = append(b, ": "...)
		start := len(b)
		b = append(b, v...)
		if !validValue(v) {
			for i := start; i < len(b); i++ {
				if class[b[i]]&valueByte == 0 {
					b[i] = ' '
				}
			}
		}
		b = append(b, "\r\n"...)
	}
	return b
}

// clock keeps the text of the Date field, made anew once a second.
type clock struct{ text atomic.Pointer[dateText] }

type dateText struct {
	second int64
	text   []byte
}

func (c *clock) date() []byte {
	now := time.Now()
	if d := c.text.Load(); d != nil && d.second == now.Unix() {
		return d.text
	}
	d := &dateText{now.Unix(), now.UTC().AppendFormat(nil, http.TimeFormat)}
	c.text.Store(d)
	return d.text
}

// leftover makes a bufio.ReadWriter whose reader already holds what was read ahead.
func leftover(nc net.Conn, ahead []byte) *bufio.ReadWriter {
	r := bufio.NewReaderSize(io.MultiReader(bytes.NewReader(ahead), nc), max(len(ahead), 4<<10))
	if len(ahead) > 0 {
		r.Peek(len(ahead))
	}
	return bufio.NewReadWriter(r, bufio.NewWriter(nc))
}
