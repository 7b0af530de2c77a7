package http1

import (
	"net/textproto"
	"strings"
)

// Classes of bytes, RFC 9110 section 5.6.2 (token) and 5.5 (field-value), RFC 3986 section 3.2.2 (host).
const (
	tokenByte  = 1 << iota // tchar
	valueByte              // SP, HTAB, VCHAR and obs-text
	targetByte             // VCHAR but "#": what a request target may be made of
	hostByte               // reg-name without percent-encoding
	pathByte               // what net/url leaves alone in a path: such a path is its own decoded form
)

var class = makeClasses()

func makeClasses() (t [256]uint8) {
	for c := range t {
		switch {
		case c == '\t' || c == ' ':
			t[c] |= valueByte
		case c > 0x20 && c < 0x7f:
			t[c] |= valueByte
			if c != '#' {
				t[c] |= targetByte
			}
		case c >= 0x80:
			t[c] |= valueByte
		}
		alnum := c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
		if alnum || c < 0x80 && strings.IndexByte("!#$%&'*+-.^_`|~", byte(c)) >= 0 {
			t[c] |= tokenByte
		}
		if alnum || c < 0x80 && strings.IndexByte("-._~!$&'()*+;=", byte(c)) >= 0 {
			t[c] |= hostByte
		}
		if alnum || c < 0x80 && strings.IndexByte("-._~$&+,/:;=@", byte(c)) >= 0 {
			t[c] |= pathByte
		}
	}
	return t
}

// all reports whether s is not empty and each of its bytes is of class k.
func all(s string, k uint8) bool {
	for i := 0; i < len(s); i++ {
		if class[s[i]]&k == 0 {
			return false
		}
	}
	return len(s) > 0
}

// validValue reports whether s may stand as a field value: no control characters but HTAB (RFC 9110 section 5.5).
func validValue(s string) bool {
	for i := 0; i < len(s); i++ {
		if class[s[i]]&valueByte == 0 {
			return false
		}
	}
	return true
}

// trimOWS cuts optional white space (SP and HTAB, RFC 9110 section 5.6.3) from both ends.
func trimOWS(s string) string {
	for len(s) > 0 && (s[0] == ' ' || s[0] == '\t') {
		s = s[1:]
	}
	for len(s) > 0 && (s[len(s)-1] == ' ' || s[len(s)-1] == '\t') {
		s = s[:len(s)-1]
	}
	return s
}

// fieldName answers the canonical form of a field name and whether it is a token. Names that are canonical already
// are answered as they are, the usual lower-case ones from a table; only others allocate.
func fieldName(s string) (string, bool) {
	upper, canonical := true, true // upper: a capital letter is due
	for i := 0; i < len(s); i++ {
		c := s[i]
		if class[c]&tokenByte == 0 {
			return "", false
		}
		if upper && 'a' <= c && c <= 'z' || !upper && 'A' <= c && c <= 'Z' {
			canonical = false
		}
		upper = c == '-'
	}
	if canonical {
		return s, len(s) > 0
	}
	if k, ok := commonNames[s]; ok {
		return k, true
	}
	return textproto.CanonicalMIMEHeaderKey(s), true
}

// commonNames maps the lower-case spelling of usual field names to the canonical one.
var commonNames = makeCommonNames(
	"Accept", "Accept-Encoding", "Accept-Language", "Accept-Ranges", "Access-Control-Allow-Origin", "Age", "Allow",
	"Authorization", "Cache-Control", "Connection", "Content-Disposition", "Content-Encoding", "Content-Language",
	"Content-Length", "Content-Location", "Content-Range", "Content-Security-Policy", "Content-Type", "Cookie", "Date",
	"Etag", "Expect", "Expires", "Forwarded", "Host", "If-Match", "If-Modified-Since", "If-None-Match",
	"If-Unmodified-Since", "Keep-Alive", "Last-Modified", "Link", "Location", "Origin", "Pragma", "Range", "Referer",
	"Sec-Fetch-Dest", "Sec-Fetch-Mode", "Sec-Fetch-Site", "Sec-Fetch-User", "Server", "Set-Cookie",
	"Strict-Transport-Security", "Te", "Trailer", "Transfer-Encoding", "Upgrade", "Upgrade-Insecure-Requests",
	"User-Agent", "Vary", "Via", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Real-Ip",
	"X-Request-Id")

func makeCommonNames(names ...string) map[string]string {
	m := make(map[string]string, len(names))
	for _, n := range names {
		m[strings.ToLower(n)] = n
	}
	return m
}

// hasToken reports whether one of the comma-separated lists holds token, in any case (RFC 9110 section 5.6.1).
func hasToken(lists []string, token string) bool {
	for _, l := range lists {
		for l != "" {
			var t string
			t, l, _ = strings.Cut(l, ",")
			if strings.EqualFold(trimOWS(t), token) {
				return true
			}
		}
	}
	return false
}

// validAuthority reports whether s is host[:port] with a name, an IPv4 or a bracketed IPv6 address (RFC 9110 section
// 7.2): no userinfo, no percent-encoding, a port of 1 to 5 digits up to 65535.
func validAuthority(s string) bool {
	host, port, hasPort := s, "", false
	if strings.HasPrefix(s, "[") {
		end := strings.IndexByte(s, ']')
		if end < 0 || !validIPv6(s[1:end]) {
			return false
		}
		rest := s[end+1:]
		if rest != "" {
			if rest[0] != ':' {
				return false
			}
			port, hasPort = rest[1:], true
		}
	} else {
		host, port, hasPort = strings.Cut(s, ":")
		if !all(host, hostByte) {
			return false
		}
	}
	if !hasPort {
		return true
	}
	n := 0
	for i := 0; i < len(port); i++ {
		if port[i] < '0' || port[i] > '9' {
			return false
		}
		n = n*10 + int(port[i]-'0')
		if n > 65535 {
			return false
		}
	}
	return len(port) > 0 && n > 0
}

func validIPv6(s string) bool {
	colon := false
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch {
		case c == ':':
			colon = true
		case c >= '0' && c <= '9', c >= 'a' && c <= 'f', c >= 'A' && c <= 'F', c == '.':
		default:
			return false
		}
	}
	return colon && len(s) <= 45
}
