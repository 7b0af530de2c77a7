package route

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// The text between the quotes of tags "…" and opts "…" may hold escapes, so that every tag and every value can be
// written:
//
//	\"  \\  \,  \n  \t  \r  \xNN
//
// An escaped character has no other meaning: \, does not separate tags and \x20 does not separate options. A
// backslash that starts none of these stands for itself, so that lines written for fabio, which had no escapes, keep
// their meaning (`strip=/a\b`). No escape holds white space or "=", and only \, holds a comma; so a text is first cut
// at its separators and each piece is unescaped afterwards.

// escape decodes the escape at the start of s, which starts with a backslash. n is its length, 1 when the backslash
// stands for itself.
func escape(s string) (b byte, n int) {
	if len(s) >= 2 {
		switch s[1] {
		case '"', '\\', ',':
			return s[1], 2
		case 'n':
			return '\n', 2
		case 't':
			return '\t', 2
		case 'r':
			return '\r', 2
		case 'x':
			if len(s) >= 4 {
				hi, ok1 := unhex(s[2])
				lo, ok2 := unhex(s[3])
				if ok1 && ok2 {
					return hi<<4 | lo, 4
				}
			}
		}
	}
	return '\\', 1
}

func unhex(c byte) (byte, bool) {
	switch {
	case '0' <= c && c <= '9':
		return c - '0', true
	case 'a' <= c && c <= 'f':
		return c - 'a' + 10, true
	case 'A' <= c && c <= 'F':
		return c - 'A' + 10, true
	}
	return 0, false
}

// indexPlain returns the index of the first c in s that is not part of an escape, or -1.
func indexPlain(s string, c byte) int {
	for i := 0; i < len(s); {
		switch s[i] {
		case c:
			return i
		case '\\':
			_, n := escape(s[i:])
			i += n
		default:
			i++
		}
	}
	return -1
}

// unescape decodes the escapes of s.
func unescape(s string) string {
	i := strings.IndexByte(s, '\\')
	if i < 0 {
		return s
	}
	var b strings.Builder
	for i >= 0 {
		c, n := escape(s[i:])
		b.WriteString(s[:i])
		b.WriteByte(c)
		s = s[i+n:]
		i = strings.IndexByte(s, '\\')
	}
	b.WriteString(s)
	return b.String()
}

// parseTags reads the text between the quotes of tags "…". Blank text means no tags.
func parseTags(s string) []string {
	if strings.TrimSpace(s) == "" {
		return nil
	}
	var tags []string
	for {
		i := indexPlain(s, ',')
		if i < 0 {
			return append(tags, unescape(strings.TrimSpace(s)))
		}
		tags = append(tags, unescape(strings.TrimSpace(s[:i])))
		s = s[i+1:]
	}
}

// formatTags is the inverse of parseTags. A single empty tag, which no text can hold, gives "".
func formatTags(tags []string) string {
	var b strings.Builder
	for i, tag := range tags {
		if i > 0 {
			b.WriteByte(',')
		}
		inner := strings.Trim(tag, " ")
		if inner == "" { // blanks only
			writeEscaped(&b, tag, " ")
			continue
		}
		start := strings.Index(tag, inner)
		writeEscaped(&b, tag[:start], " ")
		writeEscaped(&b, inner, ",")
		writeEscaped(&b, tag[start+len(inner):], " ")
	}
	return b.String()
}

// writeEscaped writes s with escapes for quotes, backslashes, control characters, white space other than the blank,
// and the characters in also.
func writeEscaped(b *strings.Builder, s, also string) {
	const hex = "0123456789abcdef"
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == '"' || r == '\\' || r == ',' && strings.ContainsRune(also, ','):
			b.WriteByte('\\')
			b.WriteByte(s[i])
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case r == '\r':
			b.WriteString(`\r`)
		case unicode.IsControl(r), unicode.IsSpace(r) && r != ' ', r < utf8.RuneSelf && strings.ContainsRune(also, r):
			for _, c := range []byte(s[i : i+n]) {
				b.WriteString(`\x`)
				b.WriteByte(hex[c>>4])
				b.WriteByte(hex[c&15])
			}
		default:
			b.WriteString(s[i : i+n])
		}
		i += n
	}
}
