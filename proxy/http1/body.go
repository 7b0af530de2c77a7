package http1

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"
)

// The kinds of framing a body can have (RFC 9112 section 6.3).
type bodyKind uint8

const (
	bodyLength bodyKind = iota // Content-Length
	bodyChunked
	bodyToEOF // a response that ends with its connection
)

const (
	maxChunkLine = 256     // bytes of a chunk's size line, its extension included
	maxChunkExt  = 4 << 10 // bytes of extensions in one body
	maxTrailer   = 8 << 10 // bytes of a trailer section
)

// body reads one message body. Read may be called from another goroutine than the rest; mu guards what follows it.
type body struct {
	src  *source
	kind bodyKind

	mu      sync.Mutex
	left    int64 // bytes left of the body, or of the current chunk
	inChunk bool  // a chunk's data has begun (its CRLF is still due)
	ext     int   // extension bytes so far
	err     error // sticky; io.EOF once the body is complete

	trailer *http.Header  // where the trailer section goes; may hold announced names
	timeout time.Duration // for progress
	until   time.Time     // for all of it; zero for no limit
	before  func() error  // called once before the first byte is read: 100 Continue
}

var errBodyClosed = http.ErrBodyReadAfterClose

// complete reports whether all of the body has been read.
func (b *body) complete() bool { return b.err == io.EOF }

func (b *body) Read(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.read(p)
}

func (b *body) read(p []byte) (int, error) {
	if b.err != nil {
		return 0, b.err
	}
	if len(p) == 0 {
		return 0, nil
	}
	if b.before != nil {
		f := b.before
		b.before = nil
		if err := f(); err != nil {
			b.err = err
			return 0, err
		}
	}
	if b.src.buffered() == 0 {
		b.arm()
	}
	n, err := b.readKind(p)
	if err != nil {
		b.err = b.fault(err)
		err = b.err
		if n > 0 && err == io.EOF {
			return n, nil
		}
	}
	return n, err
}

// arm sets the deadline of the next read.
func (b *body) arm() {
	now := time.Now()
	b.src.within(sooner(b.timeout, b.until, now), now)
}

// sooner answers how long something may take that has d at most, 0 for no limit, and must be over by until.
func sooner(d time.Duration, until, now time.Time) time.Duration {
	if until.IsZero() {
		return d
	}
	left := max(until.Sub(now), 1)
	if d <= 0 || left < d {
		return left
	}
	return d
}

// fault turns what a source says into what a reader of the body is to know.
func (b *body) fault(err error) error {
	var m *messageError
	switch {
	case err == io.EOF || errors.As(err, &m):
		return err
	case isTimeout(err):
		return errBodyTimeout
	}
	return err
}

func (b *body) readKind(p []byte) (int, error) {
	if b.kind == bodyToEOF {
		return b.src.Read(p)
	}
	if b.kind == bodyChunked && b.left == 0 {
		if err := b.nextChunk(); err != nil {
			return 0, err
		}
	}
	if int64(len(p)) > b.left {
		p = p[:b.left]
	}
	n, err := b.src.Read(p)
	b.left -= int64(n)
	if err == io.EOF && b.left > 0 {
		err = errBodyCut
	}
	if err != nil {
		return n, err
	}
	if b.left > 0 {
		return n, nil
	}
	if b.kind == bodyLength {
		return n, io.EOF
	}
	// The rest of a chunked body may be there already: knowing its end now saves a reader one more call.
	if done, err := b.endBuffered(); done || err != nil {
		if err == nil {
			err = io.EOF
		}
		return n, err
	}
	return n, nil
}

// endBuffered consumes what ends the body if all of it is buffered and there is no trailer section.
func (b *body) endBuffered() (bool, error) {
	const end = "\r\n0\r\n\r\n"
	p := b.src.bytes()
	if len(p) < len(end) || string(p[:len(end)]) != end {
		return false, nil
	}
	b.src.discard(len(end))
	b.inChunk = false
	return true, nil
}

// nextChunk reads up to the data of the next chunk; io.EOF means that the last chunk and the trailer were read.
func (b *body) nextChunk() error {
	if b.inChunk {
		line, err := b.line(2, errChunkEnd)
		if err != nil {
			return err
		}
		if line != "" {
			return errChunkEnd
		}
		b.inChunk = false
	}
	line, err := b.line(maxChunkLine, errChunkExt)
	if err != nil {
		return err
	}
	n, ext, err := parseChunkLine(line)
	if err != nil {
		return err
	}
	if b.ext += ext; b.ext > maxChunkExt {
		return errChunkExt
	}
	if n == 0 {
		return b.readTrailer()
	}
	b.left, b.inChunk = n, true
	return nil
}

// line reads one line of at most max bytes, its CRLF included, and answers it without.
func (b *body) line(max int, tooLong error) (string, error) {
	for {
		p := b.src.bytes()
		for i, c := range p {
			switch {
			case c == '\n':
				if i == 0 || p[i-1] != '\r' {
					return "", errBareLF
				}
				s := string(p[:i-1])
				b.src.discard(i + 1)
				return s, nil
			case i+1 >= max && c != '\r', i >= max:
				return "", tooLong
			}
		}
		b.arm()
		if err := b.src.fill(bufferSize); err != nil {
			if err == io.EOF {
				err = errBodyCut
			}
			return "", err
		}
	}
}

// parseChunkLine reads chunk-size [chunk-ext] (RFC 9112 section 7.1): hexadecimal digits, at most 15 of them, and
// behind them nothing but an extension that starts with ";". ext is the extension's length.
func parseChunkLine(s string) (n int64, ext int, err error) {
	i := 0
	for ; i < len(s); i++ {
		c := s[i]
		switch {
		case c >= '0' && c <= '9':
			c -= '0'
		case c >= 'a' && c <= 'f':
			c -= 'a' - 10
		case c >= 'A' && c <= 'F':
			c -= 'A' - 10
		default:
			c = 0xff
		}
		if c == 0xff {
			break
		}
		n = n<<4 | int64(c)
	}
	if i == 0 || i > 15 {
		return 0, 0, errChunkSize
	}
	if rest := s[i:]; rest != "" {
		if rest[0] != ';' || !validValue(rest) || strings.IndexByte(rest, '\r') >= 0 {
			return 0, 0, errChunkSize
		}
		return n, len(rest), nil
	}
	return n, 0, nil
}

// readTrailer reads the trailer section. Fields that frame or route a message are dropped, never merged into the head
// (RFC 9110 section 6.5.1).
func (b *body) readTrailer() error {
	total := 0
	for {
		line, err := b.line(maxTrailer-total, errTrailer)
		if err != nil {
			return err
		}
		if line == "" {
			return io.EOF
		}
		total += len(line) + 2
		colon := strings.IndexByte(line, ':')
		if colon < 0 {
			return errTrailer
		}
		name, ok := fieldName(line[:colon])
		value := trimOWS(line[colon+1:])
		if !ok || !validValue(value) || total >= maxTrailer {
			return errTrailer
		}
		if b.trailer == nil || !trailerAllowed(name) {
			continue
		}
		if *b.trailer == nil {
			*b.trailer = http.Header{}
		}
		(*b.trailer)[name] = append((*b.trailer)[name], value)
	}
}

// checkFirst makes sure of the first chunk line before anybody is told of the request, so that a malformed body costs
// nothing upstream. It waits for the line.
func (b *body) checkFirst() error {
	if b.kind != bodyChunked {
		return nil
	}
	err := b.nextChunk()
	if err == nil {
		return nil
	}
	b.err = b.fault(err)
	if b.err == io.EOF {
		return nil
	}
	return b.err
}

// Close makes further reads fail. It reads nothing.
func (b *body) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.err == nil {
		b.err = errBodyClosed
	}
	return nil
}
