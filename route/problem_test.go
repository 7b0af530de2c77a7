package route

import "testing"

func TestOriginString(t *testing.T) {
	t.Parallel()
	tests := []struct {
		o    Origin
		want string
	}{
		{Origin{}, ""},
		{Origin{Source: "overrides", Line: 3, Column: 11}, "overrides:3:11"},
		{Origin{Source: "overrides", Line: 3}, "overrides:3"},
		{Origin{Source: "a b"}, "a b"},
		{Origin{Line: 3, Column: 4}, ":3:4"},
		{Origin{Service: "web", Node: "n1", Instance: "web-1", Tag: "urlprefix-/x y"}, `service web, instance web-1, node n1, tag "urlprefix-/x y"`},
		{Origin{Service: "w\nb", Tag: "\x1b[31m"}, `service "w\nb", tag "\x1b[31m"`},
	}
	for _, tt := range tests {
		if got := tt.o.String(); got != tt.want {
			t.Errorf("%+v.String() = %s, want %s", tt.o, got, tt.want)
		}
	}
}

func TestProblemError(t *testing.T) {
	t.Parallel()
	tests := []struct {
		p    Problem
		want string
	}{
		{Problem{Reason: "no"}, "no"},
		{Problem{Reason: "no", Hint: "yes"}, "no (yes)"},
		{Problem{Origin: Origin{Source: "f", Line: 1}, Reason: "no", Hint: "yes"}, "f:1: no (yes)"},
	}
	for _, tt := range tests {
		if got := tt.p.Error(); got != tt.want {
			t.Errorf("Error() = %q, want %q", got, tt.want)
		}
	}
}
