package proxy

import "unicode/utf8"

// A line of the log is one line of printable ASCII, whatever a client sends: a value can neither start a line of its
// own, nor end the quotes it stands in, nor speak to the terminal of whoever reads it. It is cut at maxLogValue bytes.

const (
	maxLogValue = 2 << 10
	maxLogToken = 32 // method and protocol
	cutMark     = "..."
	hexDigits   = "0123456789abcdef"
)

// escape appends s in at most room bytes.
type escape func(b []byte, s string, room int) []byte

// appendText is the escape of the text formats, that of Apache: \" \\ \n \r \t, everything else that is not printable
// ASCII as \xHH.
func appendText(b []byte, s string, room int) []byte {
	end := len(b) + room - len(cutMark)
	for i := 0; i < len(s); i++ {
		c := s[i]
		if 0x20 <= c && c < 0x7f && c != '"' && c != '\\' {
			if len(b)+1 > end {
				return append(b, cutMark...)
			}
			b = append(b, c)
			continue
		}
		if len(b)+4 > end {
			return append(b, cutMark...)
		}
		if short := shortEscape(c); short != 0 {
			b = append(b, '\\', short)
			continue
		}
		b = append(b, '\\', 'x', hexDigits[c>>4], hexDigits[c&15])
	}
	return b
}

// appendJSON is the escape of a JSON string, in ASCII. A byte that is not UTF-8 becomes \ufffd.
func appendJSON(b []byte, s string, room int) []byte {
	end := len(b) + room - len(cutMark)
	for i := 0; i < len(s); {
		c := s[i]
		if 0x20 <= c && c < 0x7f && c != '"' && c != '\\' {
			if len(b)+1 > end {
				return append(b, cutMark...)
			}
			b = append(b, c)
			i++
			continue
		}
		if len(b)+12 > end {
			return append(b, cutMark...)
		}
		if short := shortEscape(c); short != 0 {
			b = append(b, '\\', short)
			i++
			continue
		}
		r, size := utf8.DecodeRuneInString(s[i:])
		i += size
		if r > 0xffff {
			r -= 0x10000
			b = appendUnit(b, 0xd800+r>>10)
			r = 0xdc00 + r&0x3ff
		}
		b = appendUnit(b, r)
	}
	return b
}

func appendUnit(b []byte, u rune) []byte {
	return append(b, '\\', 'u', hexDigits[u>>12&15], hexDigits[u>>8&15], hexDigits[u>>4&15], hexDigits[u&15])
}

// shortEscape is the letter after the backslash, 0 when c has none.
func shortEscape(c byte) byte {
	switch c {
	case '"', '\\':
		return c
	case '\n':
		return 'n'
	case '\r':
		return 'r'
	case '\t':
		return 't'
	}
	return 0
}
