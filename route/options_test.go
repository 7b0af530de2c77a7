package route

import (
	"reflect"
	"testing"
)

func TestParseOptions(t *testing.T) {
	t.Parallel()
	tests := []struct {
		in   string
		want Options
		text string
	}{
		{"", nil, ""},
		{" \t", nil, ""},
		{"strip=/foo proto=https flag", Options{{"flag", ""}, {"proto", "https"}, {"strip", "/foo"}}, "flag proto=https strip=/foo"},
		{"a=1 b=2 a=3", Options{{"a", "3"}, {"b", "2"}}, "a=3 b=2"},
		{"a=b=c a.b=", Options{{"a", "b=c"}, {"a.b", ""}}, "a=b=c a.b"},
		{"a=1 b=1 a=2 b=2 a=3 b=3 a=4 b=4 a=5 b=5 a=6 b=6 a=7 b=7 a=8 b=8 a=9 b=9", Options{{"a", "9"}, {"b", "9"}}, "a=9 b=9"},
		{"=x", Options{{"", "x"}}, "=x"},
		{"=", Options{{"", ""}}, "="},
		{`a=x\x20y b=\" c=C:\dir`, Options{{"a", "x y"}, {"b", `"`}, {"c", `C:\dir`}}, `a=x\x20y b=\" c=C:\\dir`},
	}
	for _, tt := range tests {
		got := ParseOptions(tt.in)
		if len(got)+len(tt.want) > 0 && !reflect.DeepEqual(got, tt.want) {
			t.Errorf("ParseOptions(%q) = %q, want %q", tt.in, got, tt.want)
		}
		if got.String() != tt.text {
			t.Errorf("ParseOptions(%q).String() = %q, want %q", tt.in, got, tt.text)
		}
	}
}

func TestOptions(t *testing.T) {
	t.Parallel()
	o := NewOptions(map[string]string{"b": "2", "a": "1", "c": ""})
	if want := (Options{{"a", "1"}, {"b", "2"}, {"c", ""}}); !reflect.DeepEqual(o, want) {
		t.Errorf("NewOptions = %v, want %v", o, want)
	}
	if o := NewOptions(nil); o != nil {
		t.Errorf("NewOptions(nil) = %v, want nil", o)
	}
	if v, ok := o.Get("b"); v != "2" || !ok {
		t.Errorf("Get(b) = %q, %v, want 2, true", v, ok)
	}
	if v, ok := o.Get("c"); v != "" || !ok {
		t.Errorf("Get(c) = %q, %v, want empty, true", v, ok)
	}
	if v, ok := o.Get("d"); v != "" || ok {
		t.Errorf("Get(d) = %q, %v, want empty, false", v, ok)
	}
	if got := o.Without("a", "x", "c"); got.String() != "b=2" || len(o) != 3 {
		t.Errorf("Without(a, x, c) = %v, want b=2; o = %v", got, o)
	}
	if got := o.Without("x"); len(got) != 3 {
		t.Errorf("Without(x) = %v, want all", got)
	}
	if got := o.Without("a", "b", "c"); got != nil {
		t.Errorf("Without(all) = %v, want nil", got)
	}
}

func FuzzParseOptions(f *testing.F) {
	f.Add("a=b c")
	f.Add(`=\x3d \x20=\\ \,=" =`)
	f.Fuzz(func(t *testing.T, s string) {
		o := ParseOptions(s)
		for i := 1; i < len(o); i++ {
			if o[i-1].Key >= o[i].Key {
				t.Fatalf("ParseOptions(%q) = %q: not sorted", s, o)
			}
		}
		if again := ParseOptions(o.String()); len(o)+len(again) > 0 && !reflect.DeepEqual(again, o) {
			t.Errorf("ParseOptions(%q) = %q, want %q", o.String(), again, o)
		}
	})
}
