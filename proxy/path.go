package proxy

import (
	"errors"
	"net/url"
	"path"
	"strings"
)

// A request's path has three forms. The client's own bytes, percent-encoding and all, are what the upstream gets. The
// decoded form, cleaned of "//" and dot segments, is what routes are compared with. And what two servers could read
// in two ways is refused before either is used, so that a rule for one route cannot be talked around by a spelling
// that the upstream reads as another:
//
//	/a%2Fb        forwarded so, compared as /a/b
//	/a/../b//c    forwarded so, compared as /b/c
//	/a/..%2fb     refused: is it /b, or a file called "..%2fb" below /a?
//	/a/..;x/b     refused: some servers cut ";x" first
//	/a\..\b /a%5c refused: some servers read \ as /
//
// An ambiguous path is let through to targets with path=raw. Malformed ones never are: a NUL, a control character, a
// "#", a "%" without two hex digits.

// requestPath is the path of a request in its three forms.
type requestPath struct {
	raw       string // as the client wrote it
	clean     string // decoded, cleaned; a last "/" is kept
	plain     bool   // raw has no escapes, "//" or dot segments: it is clean
	ambiguous bool
}

var (
	errNoPath     = errors.New("request target: want a path that starts with /")
	errPathByte   = errors.New("request target: control character or #")
	errPathEscape = errors.New("request target: invalid percent-encoding")
	errPathNUL    = errors.New("request target: encoded NUL")
)

// splitTarget cuts a request target in origin or absolute form into path?query and path. The path of an absolute
// target may be empty, which means "/".
func splitTarget(uri string) (target, rawPath string, err error) {
	if !strings.HasPrefix(uri, "/") {
		i := strings.Index(uri, "://")
		if i < 0 {
			return "", "", errNoPath
		}
		rest := uri[i+3:]
		j := strings.IndexAny(rest, "/?")
		switch {
		case j < 0:
			uri = "/"
		case rest[j] == '?':
			uri = "/" + rest[j:]
		default:
			uri = rest[j:]
		}
	}
	rawPath, _, _ = strings.Cut(uri, "?")
	return uri, rawPath, nil
}

// checkQuery refuses what must not stand in a request target. The query is otherwise nobody's business here.
func checkQuery(query string) error {
	for i := range len(query) {
		if c := query[i]; c <= ' ' || c == 0x7f || c == '#' {
			return errPathByte
		}
	}
	return nil
}

// parsePath reads the path of a request target. It allocates only for paths that are not plain.
func parsePath(raw string) (requestPath, error) {
	if !strings.HasPrefix(raw, "/") {
		return requestPath{}, errNoPath
	}
	plain, ambiguous := true, false
	for i := range len(raw) {
		switch c := raw[i]; {
		case c == '/':
			if i+1 < len(raw) && (raw[i+1] == '/' || raw[i+1] == '.') {
				plain = false
			}
		case c == '%', c == ';':
			plain = false
		case c == '\\', c >= 0x80:
			ambiguous = true
		case c <= ' ', c == 0x7f, c == '#':
			return requestPath{}, errPathByte
		}
	}
	if plain {
		return requestPath{raw: raw, clean: raw, plain: true, ambiguous: ambiguous}, nil
	}
	decoded, err := decodePath(raw)
	if err != nil {
		return requestPath{}, err
	}
	clean := cleanPath(decoded)
	return requestPath{raw: raw, clean: clean, ambiguous: ambiguous || ambiguousPath(raw, clean)}, nil
}

// decodePath resolves percent-encoding.
func decodePath(raw string) (string, error) {
	if strings.IndexByte(raw, '%') < 0 {
		return raw, nil
	}
	b := make([]byte, 0, len(raw))
	for i := 0; i < len(raw); i++ {
		c := raw[i]
		if c == '%' {
			if i+2 >= len(raw) || !ishex(raw[i+1]) || !ishex(raw[i+2]) {
				return "", errPathEscape
			}
			c = unhex(raw[i+1])<<4 | unhex(raw[i+2])
			if c == 0 {
				return "", errPathNUL
			}
			i += 2
		}
		b = append(b, c)
	}
	return string(b), nil
}

func ishex(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F'
}

func unhex(c byte) byte {
	switch {
	case c >= 'a':
		return c - 'a' + 10
	case c >= 'A':
		return c - 'A' + 10
	}
	return c - '0'
}

// cleanPath resolves dot segments and runs of "/"; a last "/" is kept.
func cleanPath(decoded string) string {
	c := path.Clean(decoded)
	if c != "/" && (strings.HasSuffix(decoded, "/") || strings.HasSuffix(decoded, "/.") || strings.HasSuffix(decoded, "/..")) {
		c += "/"
	}
	return c
}

// ambiguousPath reports whether servers could disagree about the segments of a path whose encoding is valid: one
// segment contains "\\", or a dot segment with parameters or beside an encoded slash, or nothing but parameters (which
// leave an empty segment where they are cut off), or a ".." takes away something else when the slashes are decoded first.
func ambiguousPath(raw, clean string) bool {
	dots := false
	for segment := range strings.SplitSeq(raw, "/") {
		s, err := decodePath(segment)
		if err != nil || strings.IndexByte(s, '\\') >= 0 {
			return true
		}
		dots = dots || s == ".."
		encodedSlash := strings.IndexByte(s, '/') >= 0
		for piece := range strings.SplitSeq(s, "/") {
			name, _, params := strings.Cut(piece, ";")
			if dot := name == "." || name == ".."; dot && (params || encodedSlash) || name == "" && params {
				return true
			}
		}
	}
	if !dots || strings.IndexByte(raw, '%') < 0 {
		return false
	}
	resolved, _ := decodePath(resolveRaw(raw))
	return cleanPath(resolved) != clean
}

// stripPrefix cuts a prefix from the path and returns the rest in the client's encoding; it starts with exactly one
// "/", or is empty when nothing is left. It reports false when the cleaned path does not have the prefix. Where the
// client's bytes do not begin with it, because of a dot segment or a double slash, the rest is that of the resolved
// path.
func (p requestPath) stripPrefix(prefix string) (string, bool) {
	if !strings.HasPrefix(p.clean, prefix) {
		return p.raw, false
	}
	rest := p.cut(prefix)
	switch slashes := len(rest) - len(strings.TrimLeft(rest, "/")); {
	case rest == "":
		return "", true
	case slashes > 0:
		return rest[slashes-1:], true
	}
	return "/" + rest, true
}

func (p requestPath) cut(prefix string) string {
	if p.plain {
		return p.raw[len(prefix):]
	}
	if rest, ok := cutDecoded(p.raw, prefix); ok && !hasDots(p.raw) {
		return rest
	}
	if rest, ok := cutDecoded(resolveRaw(p.raw), prefix); ok {
		return rest
	}
	return (&url.URL{Path: p.clean[len(prefix):]}).EscapedPath()
}

// cutDecoded cuts from raw what decodes to prefix.
func cutDecoded(raw, prefix string) (string, bool) {
	i := 0
	for j := range len(prefix) {
		if i >= len(raw) {
			return "", false
		}
		c, n := raw[i], 1
		if c == '%' && i+2 < len(raw) {
			c, n = unhex(raw[i+1])<<4|unhex(raw[i+2]), 3
		}
		if c != prefix[j] {
			return "", false
		}
		i += n
	}
	return raw[i:], true
}

// hasDots reports whether some segment decodes to "." or "..".
func hasDots(raw string) bool {
	for segment := range strings.SplitSeq(raw, "/") {
		if s, _ := decodePath(segment); s == "." || s == ".." {
			return true
		}
	}
	return false
}

// resolveRaw resolves dot segments and runs of "/" and keeps the encoding of all other segments.
func resolveRaw(raw string) string {
	var out []string
	last := ""
	for segment := range strings.SplitSeq(raw, "/") {
		last, _ = decodePath(segment)
		switch last {
		case "", ".":
		case "..":
			out = out[:max(len(out)-1, 0)]
		default:
			out = append(out, segment)
		}
	}
	s := "/" + strings.Join(out, "/")
	if len(out) > 0 && (last == "" || last == "." || last == "..") {
		s += "/"
	}
	return s
}
