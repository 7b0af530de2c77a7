package route

import (
	"math"
	"reflect"
	"strings"
	"testing"
)

func TestCommandValidate(t *testing.T) {
	t.Parallel()
	good := Command{Verb: Add, Service: "s", Src: "a.com/", Dst: "http://b/"}
	with := func(change func(*Command)) Command {
		c := good
		change(&c)
		return c
	}
	tests := []struct {
		name string
		c    Command
		want string // "" is valid
	}{
		{"good", good, ""},
		{"down", with(func(c *Command) { c.Down, c.Dst = true, "" }), ""},
		{"redirect", with(func(c *Command) { c.Dst = "https://$host$path" }), ""},
		{"six", with(func(c *Command) { c.Dst = "grpcs://[::1]:80" }), ""},
		{"no verb", Command{}, "verb is none of add, del, weight"},
		{"unknown verb", with(func(c *Command) { c.Verb = 9 }), "verb is none of"},
		{"no service", with(func(c *Command) { c.Service = "" }), "service is missing"},
		{"no source", with(func(c *Command) { c.Src = "" }), "source is missing"},
		{"no destination", with(func(c *Command) { c.Dst = "" }), "destination is missing"},
		{"blank", with(func(c *Command) { c.Service = "my svc" }), "service holds white space"},
		{"new line", with(func(c *Command) { c.Service = "s\nroute del x" }), "service holds white space or a control character (U+000A)"},
		{"nbsp", with(func(c *Command) { c.Src = "a\u00a0b/" }), "source holds white space"},
		{"quote", with(func(c *Command) { c.Src = `"a"/` }), "source starts with a quote"},
		{"tab", with(func(c *Command) { c.Dst = "http://b/\t" }), "destination holds"},
		{"NaN", with(func(c *Command) { c.Weight = math.NaN() }), "weight NaN is not a share"},
		{"Inf", with(func(c *Command) { c.Weight = math.Inf(1) }), "weight +Inf is not a share"},
		{"negative", with(func(c *Command) { c.Weight = -1 }), "weight -1 is not a share"},
		{"not a URL", with(func(c *Command) { c.Dst = "://b" }), `destination "://b" is not a URL: missing protocol scheme (want`},
		{"scheme", with(func(c *Command) { c.Dst = "javascript:alert(1)" }), `destination scheme "javascript" is not supported`},
		{"no scheme", with(func(c *Command) { c.Dst = "//b/" }), `destination "//b/" has no scheme (want http, https, tcp, grpc or grpcs: http://b/)`},
		{"port only", with(func(c *Command) { c.Src = ":x" }), `source ":x" is not a port`},
		{"del", Command{Verb: Del, Service: "s"}, ""},
		{"del tags", Command{Verb: Del, Tags: []string{"a"}}, ""},
		{"del nothing", Command{Verb: Del}, "service is missing, and there are no tags"},
		{"del source of any", Command{Verb: Del, Src: "/", Tags: []string{"a"}}, "source cannot be joined with tags"},
		{"del destination only", Command{Verb: Del, Service: "s", Dst: "http://b/"}, "source is missing"},
		{"del bad destination", Command{Verb: Del, Service: "s", Src: "/", Dst: "b"}, `destination "b" has no scheme`},
		{"weight", Command{Verb: Weight, Src: "/", Weight: 1}, ""},
		{"weight no source", Command{Verb: Weight, Service: "s", Weight: 1}, "source is missing"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := tt.c.Validate()
			if got := ""; (err == nil) != (tt.want == "") || err != nil && !strings.HasPrefix(err.Error(), tt.want) {
				if err != nil {
					got = err.Error()
				}
				t.Errorf("Validate() = %q, want %q", got, tt.want)
			}
		})
	}
}

func TestCommandString(t *testing.T) {
	t.Parallel()
	tests := []struct {
		c    Command
		want string
	}{
		{Command{Verb: Add, Service: "s", Src: "a.com/", Dst: "http://b/", Weight: .05, Tags: []string{"x", ` "y", `},
			Opts: NewOptions(map[string]string{"z": "1", "a b": "c\nd", "flag": ""})},
			`route add s a.com/ http://b/ weight 0.05 tags "x,\x20\"y\"\,\x20" opts "a\x20b=c\nd flag z=1"`},
		{Command{Verb: Add, Service: "s", Src: "a.com/", Down: true}, `# down: route add s a.com/`},
		{Command{Verb: Add, Service: "s", Src: "/", Dst: "http://b/", Tags: []string{"é\u00a0", "\x7f\xff", "  "}},
			"route add s / http://b/ tags \"é\\xc2\\xa0,\\x7f\xff,\\x20\\x20\""},
		{Command{Verb: Del, Service: "s", Tags: []string{"a"}}, `route del s tags "a"`},
		{Command{Verb: Weight, Src: "/", Weight: 1e-9}, `route weight / weight 1e-09 tags ""`},
		{Command{Verb: 7}, `route Verb(7)`},
	}
	for _, tt := range tests {
		if got := tt.c.String(); got != tt.want {
			t.Errorf("String() = %s, want %s", got, tt.want)
			continue
		}
		if tt.c.Down || tt.c.Verb == 7 {
			continue
		}
		again, err := ParseLine(tt.want)
		if err != nil || !reflect.DeepEqual(again, tt.c) {
			t.Errorf("ParseLine(%q) = %+v, %v, want %+v", tt.want, again, err, tt.c)
		}
	}
}

// FuzzCommandTags checks that any tags and options survive being written and read.
func FuzzCommandTags(f *testing.F) {
	f.Add(`a"`, ` b `, `k`, `v=\`)
	f.Add(",", "\\", "", "")
	f.Add("\u2028x\u0085", "\xff\x80", "=\\x20", "\\x3d \t")
	f.Fuzz(func(t *testing.T, tag1, tag2, key, value string) {
		c := Command{Verb: Add, Service: "s", Src: "/", Dst: "http://b/", Tags: []string{tag1, tag2}, Opts: Options{{key, value}}}
		got, err := ParseLine(c.String())
		if err != nil || !reflect.DeepEqual(got, c) {
			t.Errorf("ParseLine(%q) = %+v, %v, want %+v", c.String(), got, err, c)
		}
	})
}
