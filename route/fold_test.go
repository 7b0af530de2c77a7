package route

import (
	"strings"
	"testing"
	"unicode"
)

func TestLower(t *testing.T) {
	t.Parallel()
	for _, s := range []string{"", "abc", "ABC", "aBc.DE:80", "Straße", "ÄÖÜ", "İ", "Ⱥ", "a\xffB", "\u212a"} {
		want := strings.ToLower(s)
		if !strings.Contains(s, "\xff") && lower(s) != want {
			t.Errorf("lower(%q) = %q, want %q", s, lower(s), want)
		}
		if !isLower(lower(s)) || lower(lower(s)) != lower(s) {
			t.Errorf("lower(%q) = %q is not lower", s, lower(s))
		}
	}
	if got, want := lower("A\xffB\xc3"), "a\xffb\xc3"; got != want {
		t.Errorf("lower of bytes = %q, want %q", got, want)
	}
	for r := rune(0); r <= unicode.MaxRune; r++ {
		if low := unicode.ToLower(r); unicode.ToLower(low) != low {
			t.Errorf("%U: lower twice differs from lower once", r)
		}
	}
}

func TestAppendLowerLimit(t *testing.T) {
	t.Parallel()
	if got, want := string(appendLower(nil, "ABCDEF", 3)), "abc"; got != want {
		t.Errorf("appendLower = %q, want %q", got, want)
	}
	if got, want := string(appendLower([]byte("ab"), "CÄF", 4)), "abcä"; got != want {
		t.Errorf("appendLower = %q, want %q", got, want)
	}
}

func FuzzHasPrefixLower(f *testing.F) {
	f.Add("/Foo/Bar", "/foo")
	f.Add("/ÄẞÖ", "/ä")
	f.Add("Ⱥ\xc3", "ⱥ\xc3")
	f.Fuzz(func(t *testing.T, s, prefix string) {
		prefix = lower(prefix)
		if got, want := hasPrefixLower(s, prefix), strings.HasPrefix(lower(s), prefix); got != want {
			t.Errorf("hasPrefixLower(%q, %q) = %v, want %v", s, prefix, got, want)
		}
		if got, want := string(appendLower(nil, s, len(prefix))), lower(s); !strings.HasPrefix(want, got) || len(got) < min(len(prefix), len(want)) {
			t.Errorf("appendLower(%q, %d) = %q", s, len(prefix), got)
		}
	})
}
