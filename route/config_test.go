package route

import (
	"io"
	"testing"

	"github.com/spf13/pflag"
)

func TestConfigFlags(t *testing.T) {
	t.Parallel()
	var c Config
	fs := pflag.NewFlagSet("test", pflag.ContinueOnError)
	c.Flags(fs)
	fs.SetOutput(io.Discard) // pflag says itself what is deprecated
	if c.Matcher != "prefix" || c.Strategy != "rnd" || c.ExactHosts {
		t.Errorf("defaults %+v, want prefix, rnd, false", c)
	}
	if err := fs.Parse([]string{"--proxy.matcher=glob", "--proxy.strategy=rr", "--glob.matching.disabled", "--glob.cache.size=0"}); err != nil {
		t.Fatal(err)
	}
	if c.Matcher != "glob" || c.Strategy != "rr" || !c.ExactHosts {
		t.Errorf("parsed %+v, want glob, rr, true", c)
	}
	fs.VisitAll(func(f *pflag.Flag) {
		if f.Usage == "" {
			t.Errorf("--%s has no help", f.Name)
		}
	})
}

func TestConfigValidate(t *testing.T) {
	t.Parallel()
	tests := []struct {
		c    Config
		want string
	}{
		{Config{}, ""},
		{Config{Matcher: "segment", Strategy: "rr"}, ""},
		{Config{Matcher: "x"}, `proxy.matcher: "x": want exact, segment, prefix, iprefix or glob`},
		{Config{Strategy: "x"}, `proxy.strategy: "x": want rnd or rr`},
	}
	for _, tt := range tests {
		got := ""
		if err := tt.c.Validate(); err != nil {
			got = err.Error()
		}
		if got != tt.want {
			t.Errorf("Validate(%+v) = %q, want %q", tt.c, got, tt.want)
		}
		if _, err := NewBuilder(tt.c); (err != nil) != (tt.want != "") {
			t.Errorf("NewBuilder(%+v) = %v, want %q", tt.c, err, tt.want)
		}
	}
}
