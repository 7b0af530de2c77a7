package route

import (
	"fmt"
	"unicode"
	"unicode/utf8"
)

func compileIPrefix(path string) (pattern, error) {
	low := lower(path)
	if len(low) > maxLowered {
		return pattern{}, fmt.Errorf("path is longer than %d bytes", maxLowered)
	}
	return pattern{literal: low, fold: true}, nil
}

// hasPrefixLower reports whether lower(s) starts with prefix, which is in lower case.
func hasPrefixLower(s, prefix string) bool {
	for i := 0; prefix != ""; {
		if i == len(s) {
			return false
		}
		c := s[i]
		if c < utf8.RuneSelf {
			if 'A' <= c && c <= 'Z' {
				c += 'a' - 'A'
			}
			if prefix[0] != c {
				return false
			}
			i, prefix = i+1, prefix[1:]
			continue
		}
		r, n := utf8.DecodeRuneInString(s[i:])
		var buf [utf8.UTFMax]byte
		low := buf[:0]
		if l := unicode.ToLower(r); l != r {
			low = utf8.AppendRune(low, l)
		} else {
			low = append(low, s[i:i+n]...)
		}
		m := min(len(low), len(prefix))
		if string(low[:m]) != prefix[:m] {
			return false
		}
		i, prefix = i+n, prefix[m:]
	}
	return true
}
