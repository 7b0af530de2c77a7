package route

import (
	"strings"
	"unicode"
	"unicode/utf8"
	"unsafe"
)

// lower returns s in lower case. Bytes that are not UTF-8 stay as they are. It allocates only if something changes.
func lower(s string) string {
	if isLower(s) {
		return s
	}
	return string(appendLower(make([]byte, 0, len(s)+8), s, -1))
}

// isLower reports whether lower(s) is s.
func isLower(s string) bool {
	for i := 0; i < len(s); i++ {
		if c := s[i]; c >= utf8.RuneSelf {
			return isLowerRunes(s[i:])
		} else if 'A' <= c && c <= 'Z' {
			return false
		}
	}
	return true
}

func isLowerRunes(s string) bool {
	for _, r := range s {
		if unicode.ToLower(r) != r {
			return false
		}
	}
	return true
}

// appendLower appends lower(s) to b and stops once b holds limit bytes or a few more; a negative limit means none.
func appendLower(b []byte, s string, limit int) []byte {
	for i := 0; i < len(s) && (limit < 0 || len(b) < limit); {
		c := s[i]
		if c < utf8.RuneSelf {
			if 'A' <= c && c <= 'Z' {
				c += 'a' - 'A'
			}
			b = append(b, c)
			i++
			continue
		}
		r, n := utf8.DecodeRuneInString(s[i:])
		if low := unicode.ToLower(r); low != r {
			b = utf8.AppendRune(b, low)
		} else {
			b = append(b, s[i:i+n]...)
		}
		i += n
	}
	return b
}

// isFolded reports whether foldHost(name) is name, or at least whether it is when true.
func isFolded(name string) bool {
	for i := range len(name) {
		switch c := name[i]; {
		case 'A' <= c && c <= 'Z', c >= utf8.RuneSelf:
			return false
		case c == '.' && i > 0 && (i == len(name)-1 || name[i+1] == ':'):
			return false
		}
	}
	return true
}

// foldHost returns name in lower case and without the dot at the end of a full name, before a port too. It writes to
// buf if something changes; then what it returns lives as long as buf does not change.
func foldHost(buf []byte, name string) string {
	b := buf
	if dot := endDot(name); dot >= 0 {
		b = appendLower(appendLower(b, name[:dot], maxHost+1), name[dot+1:], maxHost+1)
	} else if !isLower(name) {
		b = appendLower(b, name, maxHost+1)
	} else {
		return name
	}
	return unsafe.String(unsafe.SliceData(b), len(b))
}

// endDot returns the index of the dot at the end of the name, -1 if there is none.
func endDot(name string) int {
	end := len(name)
	if colon := strings.LastIndexByte(name, ':'); colon > 0 {
		end = colon
	}
	if end > 1 && name[end-1] == '.' {
		return end - 1
	}
	return -1
}
