package route

import (
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestGlob(t *testing.T) {
	t.Parallel()
	tests := []struct {
		pattern string
		literal string
		wild    int
		yes, no []string
	}{
		{"", "", 0, []string{""}, []string{"a"}},
		{"/foo", "/foo", 0, []string{"/foo"}, []string{"/fo", "/fools", ""}},
		{"*", "", 1, []string{"", "a", "a/b.c", "\xff"}, nil},
		{"**", "", 1, []string{"", "a/b"}, nil},
		{"/foo?", "/foo", 1, []string{"/fool", "/foo/", "/fooß", "/foo\xff"}, []string{"/foo", "/fools", "/foo\xff\xff"}},
		{"/foo*", "/foo", 1, []string{"/foo", "/fools", "/foo/x/y"}, []string{"/fo"}},
		{"/foo.*", "/foo.", 1, []string{"/foo.", "/foo.x"}, []string{"/fools"}},
		{"/foo/*/bar", "/foo/", 1, []string{"/foo/x/bar", "/foo/x/y/bar", "/foo//bar", "/foo/bar/bar"}, []string{"/foo/bar", "/foo/x/baz"}},
		{"/foo/**/bar", "/foo/", 1, []string{"/foo/x/y/z/w/bar"}, []string{"/foo/x/y/z/w/baz"}},
		{"*.abc.com", "", 1, []string{"x.abc.com", "x.y.abc.com", ".abc.com"}, []string{"abc.com", "x.abc.com.", "x-abc.com"}},
		{"a*b*c", "a", 2, []string{"abc", "aXbYc", "abbcc", "abcbc"}, []string{"ab", "acb", "abcd"}},
		{"*aab*", "", 2, []string{"aaab", "xaaby"}, []string{"aba", "aa"}},
		{"?*?", "", 3, []string{"ab", "äxö"}, []string{"a", ""}},
		{"[abc]x", "", 1, []string{"ax", "cx"}, []string{"dx", "x", "abx"}},
		{"[!abc]x", "", 1, []string{"dx", "!x", "äx"}, []string{"ax", "x"}},
		{"[a-c]x", "", 1, []string{"ax", "bx", "cx"}, []string{"dx", "-x"}},
		{"[!a-c]x", "", 1, []string{"dx", "-x"}, []string{"bx"}},
		{"[-ac]", "", 1, []string{"-", "a"}, []string{"b"}},
		{`[a\-c]`, "", 1, []string{"-", "a", "c"}, []string{"b", `\`}},
		{`[ab-]`, "", 1, []string{"-", "a", "b"}, []string{"c"}},
		{`[\]]`, "", 1, []string{"]"}, []string{`\`}},
		{"[ä-ü]", "", 1, []string{"ö"}, []string{"o"}},
		{"{a,b}.com", "", 1, []string{"a.com", "b.com"}, []string{"c.com", "ab.com", "{a,b}.com"}},
		{"x{a,b*,{c,d}e,}", "x", 3, []string{"xa", "xb", "xbbb", "xce", "xde", "x"}, []string{"xe", "xc", "xae"}},
		{"abc{d,e}", "abc", 1, []string{"abcd", "abce"}, []string{"abc"}},
		{"ab{cd,ce}", "abc", 1, []string{"abcd", "abce"}, []string{"abc"}},
		{"{a}", "a", 1, []string{"a"}, nil},
		{"{*x,y*}z", "", 3, []string{"xz", "axz", "yz", "ybz"}, []string{"z", "az"}},
		{`\*\?\[\{\\\a`, `*?[{\a`, 0, []string{`*?[{\a`}, []string{"x"}},
		{"a}b]c,d-e!", "a}b]c,d-e!", 0, []string{"a}b]c,d-e!"}, nil},
		{`{a\,b,c\}}`, "", 1, []string{"a,b", "c}"}, []string{"a", "b"}},
		{"*{a,b}*", "", 3, []string{"xay", "b"}, []string{"xy"}},
	}
	for _, tt := range tests {
		g, err := compileGlob(tt.pattern)
		if err != nil {
			t.Errorf("compileGlob(%q) = %v", tt.pattern, err)
			continue
		}
		if g.literal != tt.literal || g.wild != tt.wild {
			t.Errorf("compileGlob(%q) has literal %q and %d wildcards, want %q, %d", tt.pattern, g.literal, g.wild, tt.literal, tt.wild)
		}
		for _, s := range tt.yes {
			if !g.match(s) {
				t.Errorf("glob %q does not match %q", tt.pattern, s)
			}
		}
		for _, s := range tt.no {
			if g.match(s) {
				t.Errorf("glob %q matches %q", tt.pattern, s)
			}
		}
	}
}

func TestGlobErrors(t *testing.T) {
	t.Parallel()
	tests := []struct{ pattern, want string }{
		{"[", "[ is never closed"},
		{"[a", "[ is never closed"},
		{"[a-", "[ is never closed"},
		{"[]", "[] names no character"},
		{"[!]", "[] names no character"},
		{"[a-]", "a range is written [a-z]"},
		{"[a-bc]", "a range is written [a-z]"},
		{"[b-a]", "range b-a is upside down"},
		{`[\`, "ends in a backslash"},
		{"{", "{ is never closed"},
		{"{a,b", "{ is never closed"},
		{"{a,{b}", "{ is never closed"},
		{"{[}", "[ is never closed"},
		{`a\`, "ends in a backslash"},
		{"a\xff", "not valid UTF-8"},
		{strings.Repeat("a", 5000), "longer than 4096 bytes"},
		{strings.Repeat("{", 20) + strings.Repeat("}", 20), "nested more than 16 deep"},
		{strings.Repeat("{a,b}", 9), "more than 256 alternatives"},
		{"{" + strings.Repeat("{a,b}", 9) + "}", "more than 256 alternatives"},
		{strings.Repeat("{a,b}", 500), "more than 256 alternatives"},
		{strings.Repeat("a*", 1000) + "{a,b}{c,d,e}", "more than 256 alternatives"},
	}
	for _, tt := range tests {
		if _, err := compileGlob(tt.pattern); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("compileGlob(%.40q) = %v, want %q", tt.pattern, err, tt.want)
		}
	}
}

// TestGlobNeverExplodes matches what makes naive matchers run for ages.
func TestGlobNeverExplodes(t *testing.T) {
	t.Parallel()
	g, err := compileGlob(strings.Repeat("a*", 1000) + "b")
	if err != nil {
		t.Fatal(err)
	}
	if g.match(strings.Repeat("a", 20_000)) {
		t.Error("matches")
	}
	if g, err = compileGlob(strings.Repeat("*?", 500) + "b"); err != nil {
		t.Fatal(err)
	}
	if g.match(strings.Repeat("a", 20_000) + "c") {
		t.Error("matches")
	}
	if !g.match(strings.Repeat("a", 20_000) + "b") {
		t.Error("does not match")
	}
}

// naiveGlob translates a valid pattern to a regular expression.
func naiveGlob(pattern string) *regexp.Regexp {
	var b strings.Builder
	b.WriteString(`(?s)\A(?:`)
	depth := 0
	for i := 0; i < len(pattern); {
		_, n := utf8.DecodeRuneInString(pattern[i:])
		switch c := pattern[i]; {
		case c == '*':
			b.WriteString(".*")
		case c == '?':
			b.WriteString(".")
		case c == '{':
			depth++
			b.WriteString("(?:")
		case c == '}' && depth > 0:
			depth--
			b.WriteString(")")
		case c == ',' && depth > 0:
			b.WriteString("|")
		case c == '\\':
			i++
			_, n = utf8.DecodeRuneInString(pattern[i:])
			b.WriteString(regexp.QuoteMeta(pattern[i : i+n]))
		case c == '[':
			i++
			b.WriteString("[")
			if pattern[i] == '!' {
				b.WriteString("^")
				i++
			}
			for chars := 0; pattern[i] != ']'; chars++ {
				if chars == 1 && pattern[i] == '-' {
					b.WriteString("-")
					i++
					continue
				}
				if pattern[i] == '\\' {
					i++
				}
				_, n := utf8.DecodeRuneInString(pattern[i:])
				if strings.ContainsAny(pattern[i:i+n], `\^-[]&~:`) {
					b.WriteString(`\`)
				}
				b.WriteString(pattern[i : i+n])
				i += n
			}
			b.WriteString("]")
			n = 1
		default:
			b.WriteString(regexp.QuoteMeta(pattern[i : i+n]))
		}
		i += n
	}
	b.WriteString(`)\z`)
	return regexp.MustCompile(b.String())
}

// FuzzGlob compares globs with regular expressions.
func FuzzGlob(f *testing.F) {
	for _, s := range []string{"a*b*c", "*.abc.com", "/foo/**/ba?", "[a-c]{x,y*}", `[!ab]\**`, "{a,{b,c}d}*", "?*ä", "[^-a]", "*ab?*a"} {
		f.Add(s, "axbyc")
		f.Add(s, "/foo/bab")
	}
	f.Fuzz(func(t *testing.T, pattern, s string) {
		// U+FFFD is what both take a byte for that is not UTF-8, but not in the same places.
		if len(pattern) > 100 || strings.ContainsRune(pattern, utf8.RuneError) {
			return
		}
		g, err := compileGlob(pattern)
		if err != nil {
			return
		}
		if got, want := g.match(s), naiveGlob(pattern).MatchString(s); got != want {
			t.Errorf("glob %q matches %q: %v, want %v", pattern, s, got, want)
		}
		if g.match(s) && !strings.HasPrefix(s, g.literal) {
			t.Errorf("glob %q matches %q without its literal %q", pattern, s, g.literal)
		}
		if g.wild == 0 && !g.match(g.literal) {
			t.Errorf("glob %q does not match its literal %q", pattern, g.literal)
		}
	})
}
