package route

import (
	"errors"
	"reflect"
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	t.Parallel()
	bar := Options{{"baz", "bang"}, {"blimp", ""}, {"foo", "bar"}}
	tests := []struct {
		name, in string
		want     []Command
	}{
		{"nothing", ``, nil},
		{"blank", " \t \n\r\n", nil},
		{"comments", "# route add a / http://a/\n// route add\n  # x\n\t//", nil},
		{"add", `route add svc /prefix http://1.2.3.4/`,
			[]Command{{Verb: Add, Service: "svc", Src: "/prefix", Dst: "http://1.2.3.4/"}}},
		{"add tcp", `route add svc :1234 tcp://1.2.3.4:5678`,
			[]Command{{Verb: Add, Service: "svc", Src: ":1234", Dst: "tcp://1.2.3.4:5678"}}},
		{"add grpc", `route add svc :1234 grpc://1.2.3.4:5678`,
			[]Command{{Verb: Add, Service: "svc", Src: ":1234", Dst: "grpc://1.2.3.4:5678"}}},
		{"add weight", `route add svc /prefix http://1.2.3.4/ weight 1.2`,
			[]Command{{Verb: Add, Service: "svc", Src: "/prefix", Dst: "http://1.2.3.4/", Weight: 1.2}}},
		{"add weight tags", `route add svc /prefix http://1.2.3.4/ weight 1.2 tags "a,b"`,
			[]Command{{Verb: Add, Service: "svc", Src: "/prefix", Dst: "http://1.2.3.4/", Weight: 1.2, Tags: []string{"a", "b"}}}},
		{"add weight opts", `route add svc /prefix http://1.2.3.4/ weight 1.2 opts "foo=bar baz=bang blimp"`,
			[]Command{{Verb: Add, Service: "svc", Src: "/prefix", Dst: "http://1.2.3.4/", Weight: 1.2, Opts: bar}}},
		{"add all, more blanks", " route  add\tsvc  /prefix  http://1.2.3.4/  weight  1.2  tags  \" a , b \"  opts  \"foo=bar  baz=bang  blimp\" \r",
			[]Command{{Verb: Add, Service: "svc", Src: "/prefix", Dst: "http://1.2.3.4/", Weight: 1.2, Tags: []string{"a", "b"}, Opts: bar}}},
		{"add tags", `route add svc /prefix http://1.2.3.4/ tags "a,b"`,
			[]Command{{Verb: Add, Service: "svc", Src: "/prefix", Dst: "http://1.2.3.4/", Tags: []string{"a", "b"}}}},
		{"add tags opts", `route add svc /prefix http://1.2.3.4/ tags "a,b" opts "foo=bar baz=bang blimp"`,
			[]Command{{Verb: Add, Service: "svc", Src: "/prefix", Dst: "http://1.2.3.4/", Tags: []string{"a", "b"}, Opts: bar}}},
		{"add empty tags and opts", `route add svc /prefix http://1.2.3.4/ tags " " opts ""`,
			[]Command{{Verb: Add, Service: "svc", Src: "/prefix", Dst: "http://1.2.3.4/"}}},
		{"add empty tag kept", `route add svc / http://1.2.3.4/ tags "a,,b"`,
			[]Command{{Verb: Add, Service: "svc", Src: "/", Dst: "http://1.2.3.4/", Tags: []string{"a", "", "b"}}}},
		{"add no weight", "route add svc / http://1.2.3.4/ weight -1\nroute add svc / http://1.2.3.4/ weight 0",
			[]Command{{Verb: Add, Service: "svc", Src: "/", Dst: "http://1.2.3.4/"}, {Verb: Add, Service: "svc", Src: "/", Dst: "http://1.2.3.4/"}}},
		{"weights as Go writes them", "route weight s / weight 1e-3\nroute weight s / weight 0x1p-2\nroute weight s / weight .05",
			[]Command{{Verb: Weight, Service: "s", Src: "/", Weight: 1e-3}, {Verb: Weight, Service: "s", Src: "/", Weight: .25},
				{Verb: Weight, Service: "s", Src: "/", Weight: .05}}},
		{"option values", `route add svc / http://1.2.3.4/ opts "a=b=c a=d e="`,
			[]Command{{Verb: Add, Service: "svc", Src: "/", Dst: "http://1.2.3.4/", Opts: Options{{"a", "d"}, {"e", ""}}}}},
		{"host lower, path not", "route add s FOO.com/Bar http://A/\nroute del s FOO.com/Bar\nroute weight s FOO.com/Bar weight 1",
			[]Command{{Verb: Add, Service: "s", Src: "foo.com/Bar", Dst: "http://A/"}, {Verb: Del, Service: "s", Src: "foo.com/Bar"},
				{Verb: Weight, Service: "s", Src: "foo.com/Bar", Weight: 1}}},
		{"words as names", "route add tags weight/ http://opts/\nroute del tags\nroute del tags tags\nroute weight weight weight weight 1",
			[]Command{{Verb: Add, Service: "tags", Src: "weight/", Dst: "http://opts/"}, {Verb: Del, Service: "tags"},
				{Verb: Del, Service: "tags", Src: "tags"}, {Verb: Weight, Service: "weight", Src: "weight", Weight: 1}}},
		{"escapes", `route add s / http://a/ tags "say \"hi\", a\\b ,\x20x\x20,c\,d,\n\r\t\x41,\q\x4,\\x41" opts "k=a\x20b\"c d\x3d=\\ e=\d"`,
			[]Command{{Verb: Add, Service: "s", Src: "/", Dst: "http://a/",
				Tags: []string{`say "hi"`, `a\b`, ` x `, `c,d`, "\n\r\tA", `\q\x4`, `\x41`},
				Opts: Options{{"d=", `\`}, {"e", `\d`}, {"k", `a b"c`}}}}},
		{"del service", `route del svc`, []Command{{Verb: Del, Service: "svc"}}},
		{"del tags", ` route  del  tags  " a , b " `, []Command{{Verb: Del, Tags: []string{"a", "b"}}}},
		{"del service tags", `route del svc tags "a,b"`, []Command{{Verb: Del, Service: "svc", Tags: []string{"a", "b"}}}},
		{"del service empty tags", `route del svc tags ""`, []Command{{Verb: Del, Service: "svc"}}},
		{"del service called tags by tags", `route del tags tags "a"`, []Command{{Verb: Del, Service: "tags", Tags: []string{"a"}}}},
		{"del src", `route del svc /prefix`, []Command{{Verb: Del, Service: "svc", Src: "/prefix"}}},
		{"del port", `route del svc :1234`, []Command{{Verb: Del, Service: "svc", Src: ":1234"}}},
		{"del src dst", `route del svc /prefix http://1.2.3.4/`,
			[]Command{{Verb: Del, Service: "svc", Src: "/prefix", Dst: "http://1.2.3.4/"}}},
		{"del host called tags", `route del svc tags http://1.2.3.4/`,
			[]Command{{Verb: Del, Service: "svc", Src: "tags", Dst: "http://1.2.3.4/"}}},
		{"weight service src", `route weight svc /prefix weight 1.2`,
			[]Command{{Verb: Weight, Service: "svc", Src: "/prefix", Weight: 1.2}}},
		{"weight service src tags", `route weight svc /prefix weight 1.2 tags "a,b"`,
			[]Command{{Verb: Weight, Service: "svc", Src: "/prefix", Weight: 1.2, Tags: []string{"a", "b"}}}},
		{"weight src tags", `  route  weight  /prefix  weight  1.2  tags  " a , b " `,
			[]Command{{Verb: Weight, Src: "/prefix", Weight: 1.2, Tags: []string{"a", "b"}}}},
		{"weight src empty tags", `route weight /prefix weight 0 tags ""`, []Command{{Verb: Weight, Src: "/prefix"}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, problems := Parse(tt.in, "")
			for _, p := range problems {
				t.Error(p)
			}
			for i := range got {
				got[i].Origin = Origin{}
			}
			if !reflect.DeepEqual(got, tt.want) {
				t.Errorf("Parse(%q) =\n%+v, want\n%+v", tt.in, got, tt.want)
			}
		})
	}
}

func TestParsePlaces(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 200_000)
	text := "\ufeff# first\n\n  route add a / http://a/\r\nbang\r\nroute add " + long + " /x http://b/\nroute add c / http://c/ opts \"o=" + long
	commands, problems := Parse(text, "file")
	if len(commands) != 2 || len(problems) != 2 {
		t.Fatalf("Parse = %d commands, %d problems, want 2, 2", len(commands), len(problems))
	}
	if got, want := commands[0].Origin, (Origin{Source: "file", Line: 3, Column: 3}); got != want {
		t.Errorf("Origin = %v, want %v", got, want)
	}
	if got, want := commands[1].Origin, (Origin{Source: "file", Line: 5, Column: 1}); got != want || commands[1].Service != long {
		t.Errorf("Origin = %v, want %v", got, want)
	}
	if got, want := problems[0], (Problem{Origin{Source: "file", Line: 4, Column: 1}, "bang", `expected route, found "bang"`, ""}); got != want {
		t.Errorf("problem = %+v, want %+v", got, want)
	}
	if got, want := problems[1].Origin, (Origin{Source: "file", Line: 6, Column: 30}); got != want {
		t.Errorf("problem at %v, want %v", got, want)
	}
}

func TestParseLineErrors(t *testing.T) {
	t.Parallel()
	tests := []struct {
		line   string
		column int
		reason string
		hint   string
	}{
		{``, 1, "expected route but the line ends here", ""},
		{`route`, 6, "expected one of add, del, weight but the line ends here", ""},
		{`route x`, 7, "expected one of add", ""},
		{`Route add a / http://a/`, 1, `expected route, found "Route"`, "did you mean route?"},
		{`route add`, 10, "expected a service", ""},
		{`route add svc`, 14, "expected a source", ""},
		{`route add svc /x`, 17, "expected a destination", ""},
		{`route add s / "http://a/"`, 15, "destination starts with a quote", "only tags and opts are quoted"},
		{"route add s\u00a0x / http://a/", 18, `unexpected "http://a/"`, ""},
		{"route add s\x01x / http://a/", 11, "service holds white space or a control character (U+0001)", "want one word"},
		{`route add s :0 tcp://a:1`, 13, `source ":0" is not a port`, ""},
		{`route add s :080 tcp://a:1`, 13, `source ":080" is not a port`, ""},
		{`route add s / http://a/ weight x`, 32, `weight value invalid: "x" is not a number`, "want a share like 0.25"},
		{`route add s / http://a/ weight a,b`, 32, `weight value invalid`, "want a share like 0.25"},
		{`route add s / http://a/ weight 1 weight 2`, 34, `unexpected "weight"`, "the order is weight, tags, opts"},
		{`route add s / http://a/ tags`, 29, `expected a quoted text after tags but the line ends here`, "quote the tags"},
		{`route add s / http://a/ opts a=b`, 30, `expected a quoted text after opts, found "a=b"`, "quote the opts"},
		{`route add s / http://a/ tags "x"opts "y"`, 33, `expected a blank after the closing quote`, ""},
		{`route add s / http://a/ ` + strings.Repeat("y", 50), 25, `unexpected "` + strings.Repeat("y", 40) + `"…`, ""},
		{`route add s ` + strings.Repeat("h", 600) + `/ http://a/`, 13, `source host is longer than 512 bytes`, ""},
		{`route del s / http://a/ x`, 25, `unexpected "x"`, ""},
		{`route del tags "a" x`, 20, `unexpected "x"`, ""},
		{`route del s tags "a" x`, 22, `unexpected "x"`, ""},
		{`route del tags "a`, 16, `the quote is never closed`, ""},
		{`route weight`, 13, `expected a service`, ""},
		{`route weight s`, 15, `expected a source`, ""},
		{`route weight s /x`, 18, `expected weight but the line ends here`, ""},
		{`route weight /x weight`, 23, `expected a number`, ""},
		{`route weight s /x weight .1 opts "a=b"`, 29, `unexpected "opts"`, ""},
		{"route add s /\nroute del s", 21, `unexpected "del"`, ""},
	}
	for _, tt := range tests {
		c, err := ParseLine(tt.line)
		var e *SyntaxError
		if !errors.As(err, &e) {
			t.Errorf("ParseLine(%q) = %+v, %v, want a SyntaxError", tt.line, c, err)
			continue
		}
		if e.Column != tt.column || !strings.HasPrefix(e.Reason, tt.reason) || !strings.HasPrefix(e.Hint, tt.hint) {
			t.Errorf("ParseLine(%q) = column %d, %q, %q, want %d, %q, %q", tt.line, e.Column, e.Reason, e.Hint, tt.column, tt.reason, tt.hint)
		}
		if !strings.HasPrefix(err.Error(), "syntax error: column ") {
			t.Errorf("Error() = %q, want a syntax error", err)
		}
		if !reflect.DeepEqual(c, Command{}) {
			t.Errorf("ParseLine(%q) = %+v and an error", tt.line, c)
		}
	}
}

// FuzzParse checks that what is understood is written back as one line that means the same, and that each line costs
// only itself.
func FuzzParse(f *testing.F) {
	for _, s := range []string{
		`route add svc a.com/b http://c:80/ weight .5 tags "a,b\"" opts "k=v \x20"`,
		`route del svc tags "a"`, `route del tags "\,"`, `route weight svc / weight 1 tags ","`, `route weight / weight 1 tags "x"`,
		`route del tags tags http://x/`, "route add a İ.com/ http://b/", "# x\n// y\nroute add a : http://b/",
		`route add a / http://b/ tags "\x20,\xff" opts "=x =y a= \\="`, "route add \u2028 / http://b/",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		commands, problems := Parse(text, "fuzz")
		lines := 0
		for line := range strings.Lines(text) {
			line = strings.TrimSpace(strings.TrimPrefix(line, "\ufeff"))
			if line != "" && !strings.HasPrefix(line, "#") && !strings.HasPrefix(line, "//") {
				lines++
			}
		}
		if got := len(commands) + len(problems); got > lines || len(problems) < lines-len(commands)-1 {
			t.Errorf("Parse(%q): %d commands and %d problems of %d lines", text, len(commands), len(problems), lines)
		}
		for _, p := range problems {
			if p.Origin.Line < 1 || p.Origin.Column < 1 || p.Origin.Column > len(p.Text)+2 || p.Reason == "" {
				t.Errorf("Parse(%q): problem %+v", text, p)
			}
		}
		for _, c := range commands {
			line := c.String()
			again, more := Parse(line, "fuzz")
			if len(more) > 0 || len(again) != 1 {
				t.Fatalf("Parse(%q) = %+v, %v", line, again, more)
			}
			c.Origin, again[0].Origin = Origin{}, Origin{}
			if !reflect.DeepEqual(again[0], c) {
				t.Errorf("Parse(%q) = %+v, want %+v", line, again[0], c)
			}
			if got := again[0].String(); got != line {
				t.Errorf("String() = %q, want %q", got, line)
			}
			if err := c.check(); err != nil {
				t.Errorf("check() of %q = %v", line, err)
			}
		}
	})
}
