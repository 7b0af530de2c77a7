package registry

import (
	"encoding/json"
	"errors"
	"io"
	"unicode/utf8"
)

// A health answer has tens of megabytes of JSON of which a router needs a few percent. jsonReader walks it as a
// stream: it checks the grammar of everything, keeps nothing, and gives the caller the bytes of the values it wants.
// The caller sets a mark at the start of an object; the bytes from the mark on stay in the buffer, so that the
// offsets of the object's members, counted from the mark, stay valid until the mark is moved.
//
// It accepts exactly the values that encoding/json accepts, nested at most maxDepth deep.
type jsonReader struct {
	r   io.Reader
	err error // what r said last, io.EOF included

	buf  []byte // buf[mark:] is kept, buf[pos:] is not read yet
	mark int
	pos  int
}

const maxDepth = 100

// errJSON is the one error for bytes that are not what was expected; where they are does not help an operator.
var errJSON = errors.New("not the JSON that was expected")

// span is a piece of the buffer, counted from the mark.
type span struct{ from, to int }

// reset makes j read from r with its old buffer.
func (j *jsonReader) reset(r io.Reader) {
	*j = jsonReader{r: r, buf: j.buf[:0]}
}

// more reads more bytes behind buf. It may move the buffer, but not what offsets from the mark mean.
func (j *jsonReader) more() error {
	if j.err != nil {
		if j.err == io.EOF {
			return io.ErrUnexpectedEOF
		}
		return j.err
	}
	if j.mark > 0 {
		n := copy(j.buf, j.buf[j.mark:])
		j.buf, j.pos, j.mark = j.buf[:n], j.pos-j.mark, 0
	}
	if len(j.buf) == cap(j.buf) {
		j.buf = append(j.buf, make([]byte, max(64<<10, len(j.buf)))...)[:len(j.buf)]
	}
	n, err := j.r.Read(j.buf[len(j.buf):cap(j.buf)])
	j.buf, j.err = j.buf[:len(j.buf)+n], err
	return nil
}

// setMark lets go of everything before the next byte.
func (j *jsonReader) setMark() { j.mark = j.pos }

// offset is where the next byte is, counted from the mark.
func (j *jsonReader) offset() int { return j.pos - j.mark }

// bytes returns a span. It is valid until the next read.
func (j *jsonReader) bytes(s span) []byte { return j.buf[j.mark+s.from : j.mark+s.to] }

// next skips white space and returns the byte after it without consuming it.
func (j *jsonReader) next() (byte, error) {
	for {
		for ; j.pos < len(j.buf); j.pos++ {
			switch c := j.buf[j.pos]; c {
			case ' ', '\n', '\t', '\r':
			default:
				return c, nil
			}
		}
		if err := j.more(); err != nil {
			return 0, err
		}
	}
}

// take skips white space and consumes the byte after it, which must be want.
func (j *jsonReader) take(want byte) error {
	c, err := j.next()
	if err != nil {
		return err
	}
	if c != want {
		return errJSON
	}
	j.pos++
	return nil
}

// raw returns the next byte as it is.
func (j *jsonReader) raw() (byte, error) {
	for j.pos == len(j.buf) {
		if err := j.more(); err != nil {
			return 0, err
		}
	}
	c := j.buf[j.pos]
	j.pos++
	return c, nil
}

// end checks that nothing but white space is left.
func (j *jsonReader) end() error {
	_, err := j.next()
	switch err {
	case nil:
		return errJSON
	case io.ErrUnexpectedEOF:
		if j.err == io.EOF {
			return nil
		}
	}
	return err
}

// list walks an array: item is called in front of each value and must consume it.
func (j *jsonReader) list(item func() error) error {
	if err := j.take('['); err != nil {
		return err
	}
	for first := true; ; first = false {
		c, err := j.next()
		if err != nil {
			return err
		}
		if c == ']' && first {
			j.pos++
			return nil
		}
		if err := item(); err != nil {
			return err
		}
		if c, err = j.next(); err != nil {
			return err
		}
		j.pos++
		switch c {
		case ',':
		case ']':
			return nil
		default:
			return errJSON
		}
	}
}

// object walks an object: member is called with each key (quotes included) in front of its value and must consume it.
func (j *jsonReader) object(member func(key span) error) error {
	if err := j.take('{'); err != nil {
		return err
	}
	for first := true; ; first = false {
		c, err := j.next()
		if err != nil {
			return err
		}
		if c == '}' && first {
			j.pos++
			return nil
		}
		key, err := j.str()
		if err != nil {
			return err
		}
		if err := j.take(':'); err != nil {
			return err
		}
		if _, err := j.next(); err != nil {
			return err
		}
		if err := member(key); err != nil {
			return err
		}
		if c, err = j.next(); err != nil {
			return err
		}
		j.pos++
		switch c {
		case ',':
		case '}':
			return nil
		default:
			return errJSON
		}
	}
}

// value consumes any value and returns its span.
func (j *jsonReader) value() (span, error) { return j.nested(maxDepth) }

func (j *jsonReader) nested(depth int) (span, error) {
	c, err := j.next()
	if err != nil {
		return span{}, err
	}
	if depth == 0 {
		return span{}, errJSON
	}
	from := j.offset()
	switch c {
	case '"':
		return j.str()
	case '[':
		err = j.list(func() error { _, err := j.nested(depth - 1); return err })
	case '{':
		err = j.object(func(span) error { _, err := j.nested(depth - 1); return err })
	case 't':
		err = j.word("true")
	case 'f':
		err = j.word("false")
	case 'n':
		err = j.word("null")
	default:
		err = j.number()
	}
	return span{from, j.offset()}, err
}

func (j *jsonReader) word(w string) error {
	for i := range len(w) {
		if c, err := j.raw(); err != nil || c != w[i] {
			return orJSON(err)
		}
	}
	return nil
}

// special marks the bytes at which the plain run of a string stops.
var special = func() (t [256]bool) {
	for i := range 0x20 {
		t[i] = true
	}
	t['"'], t['\\'] = true, true
	return t
}()

// str consumes a string and returns its span, quotes included.
func (j *jsonReader) str() (span, error) {
	if err := j.take('"'); err != nil {
		return span{}, err
	}
	from := j.offset() - 1
	for {
		rest := j.buf[j.pos:]
		i := 0
		for i < len(rest) && !special[rest[i]] {
			i++
		}
		j.pos += i
		c, err := j.raw()
		if err != nil {
			return span{}, err
		}
		switch c {
		case '"':
			return span{from, j.offset()}, nil
		case '\\':
			if err := j.escape(); err != nil {
				return span{}, err
			}
		default:
			if c < 0x20 {
				return span{}, errJSON
			}
		}
	}
}

// escape consumes what follows a backslash.
func (j *jsonReader) escape() error {
	c, err := j.raw()
	if err != nil {
		return err
	}
	switch c {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return nil
	case 'u':
		for range 4 {
			h, err := j.raw()
			if err != nil {
				return err
			}
			if !(h >= '0' && h <= '9' || h >= 'a' && h <= 'f' || h >= 'A' && h <= 'F') {
				return errJSON
			}
		}
		return nil
	}
	return errJSON
}

// number consumes -?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?. A number at the very end of the stream is not
// needed and ends in an error.
func (j *jsonReader) number() error {
	c, err := j.raw()
	if err == nil && c == '-' {
		c, err = j.raw()
	}
	switch {
	case err != nil:
		return err
	case c == '0':
		c, err = j.raw()
	case c >= '1' && c <= '9':
		c, err = j.digits()
	default:
		return errJSON
	}
	if err == nil && c == '.' {
		c, err = j.someDigits(j.raw())
	}
	if err == nil && (c == 'e' || c == 'E') {
		c, err = j.raw()
		if err == nil && (c == '+' || c == '-') {
			c, err = j.raw()
		}
		_, err = j.someDigits(c, err)
	}
	if err != nil {
		return err
	}
	j.pos-- // the last byte belongs to what comes next
	return nil
}

// digits consumes digits and the byte after them, which it returns.
func (j *jsonReader) digits() (c byte, err error) {
	for c, err = j.raw(); err == nil && c >= '0' && c <= '9'; c, err = j.raw() {
	}
	return c, err
}

// someDigits is digits, of which c must be the first.
func (j *jsonReader) someDigits(c byte, err error) (byte, error) {
	if err != nil || c < '0' || c > '9' {
		return 0, orJSON(err)
	}
	return j.digits()
}

// orJSON is err, or errJSON if there is none.
func orJSON(err error) error {
	if err != nil {
		return err
	}
	return errJSON
}

// unquote returns the text of a string that str has accepted. The result is valid as long as raw is.
func unquote(raw []byte) []byte {
	text := raw[1 : len(raw)-1]
	if plain(text) {
		return text
	}
	var s string
	if err := json.Unmarshal(raw, &s); err != nil {
		return nil // cannot be: str accepts what encoding/json accepts
	}
	return []byte(s)
}

// plain says that text means itself between quotes.
func plain(text []byte) bool {
	ascii := true
	for _, c := range text {
		if c == '\\' {
			return false
		}
		ascii = ascii && c < utf8.RuneSelf
	}
	return ascii || utf8.Valid(text)
}
