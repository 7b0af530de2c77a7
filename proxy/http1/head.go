package http1

import (
	"bytes"
	"net/http"
	"net/url"
	"strings"
)

// Reading a head takes two passes. The first, a headScanner, runs over the bytes as they arrive, looks only at the
// ends of lines, and finds the empty line or a limit that was passed; it keeps its place, so that a head that comes
// byte by byte costs no more than one that comes whole. The second runs once over the complete head, copied into one
// string: every name and value is a part of that string, so a head costs one allocation whatever it holds.

// limits bound a head. Zero means no limit.
type limits struct {
	line   int // bytes of the start line
	head   int // bytes of the whole head
	fields int // field lines
}

// headScanner finds the end of a head.
type headScanner struct {
	pos   int // where the line starts that has not ended yet
	lines int // lines that have ended
}

// scan looks at b, the bytes of the head so far, and answers the head's length once its empty line is there, else 0.
func (s *headScanner) scan(b []byte, l limits) (int, error) {
	if s.pos == 0 && len(b) > 0 && class[b[0]]&tokenByte == 0 {
		if b[0] == '\r' || b[0] == '\n' {
			return 0, errEmptyLine
		}
		return 0, errFirstByte
	}
	for {
		j := bytes.IndexByte(b[s.pos:], '\n')
		if j < 0 {
			switch {
			case s.lines == 0 && len(b) > l.line:
				return 0, errLineTooLong
			case len(b) >= l.head:
				return 0, errHeadTooLarge
			}
			return 0, nil
		}
		if j == 0 || b[s.pos+j-1] != '\r' {
			return 0, errBareLF
		}
		s.pos += j + 1
		s.lines++
		switch {
		case s.lines == 1 && s.pos > l.line:
			return 0, errLineTooLong
		case s.pos > l.head:
			return 0, errHeadTooLarge
		case j == 1:
			return s.pos, nil
		case s.lines-1 > l.fields:
			return 0, errTooManyFields
		}
	}
}

// framing is what the fields of a head say of its body and connection.
type framing struct {
	length     int64 // of Content-Length, -1 without
	chunked    bool
	lengths    int // how many Content-Length fields
	codings    int // how many Transfer-Encoding fields
	hosts      int
	host       string
	badHost    bool
	close      bool // Connection: close
	keepAlive  bool // Connection: keep-alive
	upgrade    bool // Connection: upgrade
	expect     string
	hasTrailer bool
	err        *messageError // the first fault of the framing fields
}

func (f *framing) fail(e *messageError) {
	if f.err == nil {
		f.err = e
	}
}

// parseFields reads field lines, each ended by CRLF, up to the empty line, into h. The values of fields that stand
// once share vals, which is answered so that it can be used again.
func parseFields(s string, h http.Header, vals []string, f *framing) ([]string, error) {
	for {
		end := strings.IndexByte(s, '\n') - 1 // scan made sure of CRLF
		if end < 0 {
			return vals, errStartLine
		}
		if end == 0 {
			return vals, nil
		}
		line := s[:end]
		s = s[end+2:]
		if line[0] == ' ' || line[0] == '\t' {
			return vals, errFold
		}
		colon := strings.IndexByte(line, ':')
		if colon < 0 {
			return vals, errNoColon
		}
		name, ok := fieldName(line[:colon])
		if !ok {
			return vals, errFieldName
		}
		value := trimOWS(line[colon+1:])
		if !validValue(value) {
			return vals, errFieldValue
		}
		switch len(name) {
		case 4, 6, 7, 10, 14, 17:
			f.note(name, value)
		}
		if old, ok := h[name]; ok {
			h[name] = append(old, value)
			continue
		}
		vals = append(vals, value)
		h[name] = vals[len(vals)-1 : len(vals) : len(vals)]
	}
}

// note remembers what a field says of framing. It runs for names of a length that a framing field has.
func (f *framing) note(name, value string) {
	switch name {
	case "Host":
		f.hosts++
		f.host = value
		f.badHost = f.badHost || !validAuthority(value)
	case "Expect":
		if f.expect != "" {
			value = f.expect + ", " + value
		}
		f.expect = value
	case "Trailer":
		f.hasTrailer = true
	case "Connection":
		f.connection(value)
	case "Content-Length":
		f.lengths++
		n, ok := parseLength(value)
		switch {
		case f.lengths > 1:
			f.fail(errLengthTwice)
		case !ok:
			f.fail(errLength)
		}
		f.length = n
	case "Transfer-Encoding":
		f.codings++
		switch {
		case f.codings > 1:
			f.fail(errCodingTwice)
		case strings.EqualFold(value, "chunked"):
			f.chunked = true
		case all(value, tokenByte):
			f.fail(errCoding)
		default:
			f.fail(errCodingEmpty)
		}
	}
}

func (f *framing) connection(list string) {
	switch list { // as nearly everybody writes it
	case "keep-alive", "Keep-Alive":
		f.keepAlive = true
		return
	case "close":
		f.close = true
		return
	}
	for list != "" {
		var t string
		t, list, _ = strings.Cut(list, ",")
		t = trimOWS(t)
		switch {
		case strings.EqualFold(t, "close"):
			f.close = true
		case strings.EqualFold(t, "keep-alive"):
			f.keepAlive = true
		case strings.EqualFold(t, "upgrade"):
			f.upgrade = true
		}
	}
}

// parseLength reads a Content-Length: digits only, without a leading zero, at most 18 of them.
func parseLength(s string) (int64, bool) {
	if len(s) == 0 || len(s) > 18 || s[0] == '0' && len(s) > 1 {
		return 0, false
	}
	var n int64
	for i := 0; i < len(s); i++ {
		if s[i] < '0' || s[i] > '9' {
			return 0, false
		}
		n = n*10 + int64(s[i]-'0')
	}
	return n, true
}

// requestHead is a parsed request head.
type requestHead struct {
	method, target string
	minor          int // of HTTP/1.minor
	framing
}

// parseRequest reads the complete head s into q and h, and the target into u.
func parseRequest(s string, q *requestHead, u *url.URL, h http.Header, vals []string) ([]string, error) {
	*q = requestHead{framing: framing{length: -1}}
	end := strings.IndexByte(s, '\n') - 1
	line := s[:end]
	sp := strings.IndexByte(line, ' ')
	if sp < 0 {
		return vals, errStartLine
	}
	last := len(line) - len(" HTTP/1.1")
	if last <= sp || line[last] != ' ' {
		return vals, startLineFault(line, sp)
	}
	q.method, q.target = line[:sp], line[sp+1:last]
	switch line[last+1:] {
	case "HTTP/1.1":
		q.minor = 1
	case "HTTP/1.0":
	default:
		return vals, startLineFault(line, sp)
	}
	if !validMethod(q.method) {
		return vals, errMethod
	}
	if !all(q.target, targetByte) {
		if strings.ContainsAny(q.target, " \t") || q.target == "" {
			return vals, errStartLine
		}
		return vals, errFragment
	}
	vals, err := parseFields(s[end+2:], h, vals, &q.framing)
	if err != nil {
		return vals, err
	}
	if err := q.check(); err != nil {
		return vals, err
	}
	return vals, q.parseTarget(u)
}

// startLineFault tells a version that is not spoken here from a line that is no request line.
func startLineFault(line string, sp int) error {
	v := line[strings.LastIndexByte(line, ' ')+1:]
	if strings.Count(line, " ") == 2 && len(v) == 8 && strings.HasPrefix(v, "HTTP/") && v[5] >= '0' && v[5] <= '9' &&
		v[6] == '.' && v[7] >= '0' && v[7] <= '9' {
		return errVersion
	}
	return errStartLine
}

// validMethod takes the methods in use and any other token without lower-case letters: a method is case-sensitive
// (RFC 9110 section 9.1) and "get" is what a confused or hostile client sends.
func validMethod(m string) bool {
	switch m {
	case "GET", "POST", "HEAD", "PUT", "DELETE", "OPTIONS", "PATCH":
		return true
	}
	for i := 0; i < len(m); i++ {
		if c := m[i]; class[c]&tokenByte == 0 || c >= 'a' && c <= 'z' {
			return false
		}
	}
	return m != ""
}

// check judges the fields of a request together (RFC 9112 sections 3.2 and 6.3).
func (q *requestHead) check() error {
	switch {
	case q.hosts > 1, q.hosts == 0 && q.minor == 1:
		return errHostCount
	case q.badHost:
		return errHost
	case q.lengths > 0 && q.codings > 0:
		return errLengthCoding
	case q.codings > 0 && q.minor == 0:
		return errCodingOld
	case q.framing.err != nil:
		return q.framing.err
	}
	return nil
}

// parseTarget reads the request target (RFC 9112 section 3.2) into u as net/http does. A path that needs no decoding
// is taken as it is.
func (q *requestHead) parseTarget(u *url.URL) error {
	t := q.target
	if t[0] == '/' {
		path, query, hasQuery := strings.Cut(t, "?")
		if all(path, pathByte) {
			*u = url.URL{Path: path, RawQuery: query, ForceQuery: hasQuery && query == ""}
			return nil
		}
		p, err := url.ParseRequestURI(t)
		if err != nil {
			return errTarget
		}
		*u = *p
		return nil
	}
	if t == "*" {
		if q.method != http.MethodOptions {
			return errTarget
		}
		*u = url.URL{Path: "*"}
		return nil
	}
	if q.method == http.MethodConnect {
		if !validAuthority(t) {
			return errTarget
		}
		*u = url.URL{Host: t}
		return nil
	}
	p, err := url.ParseRequestURI(t)
	if err != nil || p.User != nil || p.Opaque != "" || !validAuthority(p.Host) ||
		!strings.EqualFold(p.Scheme, "http") && !strings.EqualFold(p.Scheme, "https") {
		return errTarget
	}
	if q.hosts == 1 && !strings.EqualFold(p.Host, q.host) {
		return errAuthority
	}
	q.host = p.Host
	*u = *p
	return nil
}

// responseHead is a parsed response head.
type responseHead struct {
	code   int
	status string // "200 OK"
	minor  int
	framing
}

// parseResponse reads the complete head s into p and h (RFC 9112 section 4).
func parseResponse(s string, p *responseHead, h http.Header, vals []string) ([]string, error) {
	*p = responseHead{framing: framing{length: -1}}
	end := strings.IndexByte(s, '\n') - 1
	line := s[:end]
	const prefix = len("HTTP/1.1 200")
	if len(line) < prefix || line[8] != ' ' || len(line) > prefix && line[prefix] != ' ' {
		return vals, errStatusLine
	}
	switch line[:8] {
	case "HTTP/1.1":
		p.minor = 1
	case "HTTP/1.0":
	default:
		return vals, errStatusLine
	}
	for _, c := range []byte(line[9:12]) {
		if c < '0' || c > '9' {
			return vals, errStatusLine
		}
		p.code = p.code*10 + int(c-'0')
	}
	if p.code < 100 || p.code > 599 || !validValue(line[9:]) {
		return vals, errStatusLine
	}
	p.status = line[9:]
	vals, err := parseFields(s[end+2:], h, vals, &p.framing)
	if err != nil {
		return vals, err
	}
	switch {
	case p.lengths > 0 && p.codings > 0:
		return vals, errLengthCoding
	case p.codings > 0 && p.minor == 0:
		return vals, errCodingOld
	case p.framing.err != nil:
		return vals, p.framing.err
	}
	return vals, nil
}

// announcedTrailer answers the fields that a Trailer field names, with nil values, as net/http does. Fields that frame
// or route a message must not come late (RFC 9110 section 6.5.1).
func announcedTrailer(h http.Header) (http.Header, error) {
	lists := h["Trailer"]
	delete(h, "Trailer")
	var t http.Header
	for _, l := range lists {
		for l != "" {
			var n string
			n, l, _ = strings.Cut(l, ",")
			if n = trimOWS(n); n == "" {
				continue
			}
			name, ok := fieldName(n)
			if !ok || !trailerAllowed(name) {
				return nil, errTrailerName
			}
			if t == nil {
				t = http.Header{}
			}
			t[name] = nil
		}
	}
	return t, nil
}

func trailerAllowed(name string) bool {
	switch name {
	case "Transfer-Encoding", "Content-Length", "Trailer", "Host", "Connection", "Te", "Upgrade", "Content-Encoding",
		"Content-Type", "Content-Range", "Authorization", "Cookie", "Set-Cookie", "Expect", "Forwarded", "X-Real-Ip":
		return false
	}
	return !strings.HasPrefix(name, "X-Forwarded-")
}
