package route

import (
	"strings"
	"testing"
)

func TestNearest(t *testing.T) {
	t.Parallel()
	known := []string{"route", "add", "del", "weight", "strip", "tlsskipverify", "Proxy.Addr"}
	tests := []struct{ word, want string }{
		{"wieght", "weight"},
		{"WEIGHT", "weight"},
		{"weigh", "weight"},
		{"rout", "route"},
		{"ad", "add"},
		{"dell", "del"},
		{"a", ""},
		{"x", ""},
		{"", ""},
		{"xyz", ""},
		{"stripe", "strip"},
		{"strap", "strip"},
		{"tlskipverfy", "tlsskipverify"},
		{"tlskipvrfy", ""},
		{"proxy.adr", "Proxy.Addr"},
		{strings.Repeat("route", 100), ""},
	}
	for _, tt := range tests {
		if got := Nearest(tt.word, known); got != tt.want {
			t.Errorf("Nearest(%.20q) = %q, want %q", tt.word, got, tt.want)
		}
	}
}
