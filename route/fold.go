package route

import (
	"unicode"
	"unicode/utf8"
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
