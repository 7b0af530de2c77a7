package registry

import (
	"slices"
	"strings"
	"testing"

	"varco/route"
)

func testTagger() tagger { return newTagger([]string{"p-"}, "linux") }

func TestTagSplit(t *testing.T) {
	tg := newTagger([]string{"p-", "team-", "team-a-"}, "linux")
	for _, c := range []struct {
		tag, route, opts string
		ok               bool
	}{
		{"p", "", "", false},
		{"p-", "", "", true},
		{"", "", "", false},
		{" p-/ ", "/", "", true},
		{"p- /foo", "/foo", "", true},
		{"p-1.1.1.1:999", "1.1.1.1:999", "", true},
		{"p-:3306 proto=tcp", ":3306", "proto=tcp", true},
		{"p-bar/foo a b c", "bar/foo", "a b c", true},
		{"p-www.bar.com:80/foo redirect=302,https://www.bar.com", "www.bar.com:80/foo", "redirect=302,https://www.bar.com", true},
		{"team-/x", "/x", "", true},
		{"team-a-/x", "/x", "", true}, // the longest prefix counts
		{"xp-/", "", "", false},
		{"P-/", "", "", false},
	} {
		route, opts, ok := tg.split(c.tag)
		if route != c.route || opts != c.opts || ok != c.ok {
			t.Errorf("split(%q) = %q, %q, %v, want %q, %q, %v", c.tag, route, opts, ok, c.route, c.opts, c.ok)
		}
	}
}

func TestTagSource(t *testing.T) {
	for _, c := range []struct{ in, dc, want, err string }{
		{"/", "", "/", ""},
		{"WWW.BAR.COM/foo/Foo", "", "www.bar.com/foo/Foo", ""},
		{"Foo.COM", "", "foo.com", ""},
		{":3306", "", ":3306", ""},
		{"$DC.foo.com/x", "Dc1", "dc1.foo.com/x", ""},
		{"${DC}-foo.com/${DC}x/$DC", "Dc1", "dc1-foo.com/Dc1x/Dc1", ""},
		{"$DC.foo.com", "dc1", "dc1.foo.com", ""}, // fabio expands with a slash only
		{"/a$b", "dc1", "/a$b", ""},               // fabio makes it /a
		{"/$", "dc1", "/$", ""},
		{"/$DCx/$dc/$1/$$", "dc1", "/$DCx/$dc/$1/$$", ""},
		{"", "", "", "tag without a route"},
		{"$x/$Y", "dc1", "", `unknown variable in host "$x"`},
		{"/${Y}", "dc1", "", "unknown variable ${Y}"},
		{"/${DC", "dc1", "", `"${" without "}"`},
		{"/$DC", "", "", "the datacenter is not known"},
	} {
		got, err := source(c.in, c.dc)
		if got != c.want || errText(err) != c.err {
			t.Errorf("source(%q, %q) = %q, %v, want %q, %s", c.in, c.dc, got, err, c.want, c.err)
		}
	}
}

func errText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// instanceOf returns an entry with these tags.
func instanceOf(tags ...string) *entry {
	return &entry{Node: "n", Address: "10.0.0.1", Datacenter: "dc1", ServiceID: "web-1", ServiceName: "web", ServicePort: 8000, ServiceTags: tags}
}

func TestTagCommands(t *testing.T) {
	for _, c := range []struct {
		tags []string
		want string // commands, one a line
	}{
		{[]string{"p-/foo"}, `route add web /foo http://10.0.0.1:8000/`},
		{[]string{"p-Foo.com/Foo strip=/Foo"}, `route add web foo.com/Foo http://10.0.0.1:8000/ opts "strip=/Foo"`},
		{[]string{"p-/ proto=https tlsskipverify=true"}, `route add web / https://10.0.0.1:8000 opts "tlsskipverify=true"`},
		{[]string{"p-:3306 proto=tcp"}, `route add web :3306 tcp://10.0.0.1:8000`},
		{[]string{"p-:3306 proto=tcp pxyproto=true"}, `route add web :3306 tcp://10.0.0.1:8000 opts "pxyproto=true"`},
		{[]string{"p-/my.service/Method proto=grpc"}, `route add web /my.service/Method grpc://10.0.0.1:8000`},
		{[]string{"p-/s proto=grpcs grpcservername=x"}, `route add web /s grpcs://10.0.0.1:8000 opts "grpcservername=x"`},
		{[]string{"p-/ proto=xyz"}, `route add web / http://10.0.0.1:8000/ opts "proto=xyz"`},
		{[]string{"p-/ proto=tcp proto=https"}, `route add web / https://10.0.0.1:8000`},
		{[]string{"p-/ weight=0.2"}, `route add web / http://10.0.0.1:8000/ weight 0.2`},
		{[]string{"p-/ weight=-1"}, `route add web / http://10.0.0.1:8000/`},
		{[]string{"p-/ a b  c=d=e"}, `route add web / http://10.0.0.1:8000/ opts "a b c=d=e"`},
		{[]string{"p-www.bar.com:80/foo redirect=302,https://www.bar.com"}, `route add web www.bar.com:80/foo https://www.bar.com opts "redirect=302"`},
		{[]string{"p-*:80/ redirect=301,https://$host$path"}, `route add web *:80/ https://$host$path opts "redirect=301"`},
		{[]string{"p-/x redirect=302,https://h/?a=1,2"}, `route add web /x https://h/?a=1,2 opts "redirect=302"`}, // fabio drops it
		{[]string{"p-/x redirect=302,https://h weight=.5 allow=ip:10.0.0.0/8"}, `route add web /x https://h weight 0.5 opts "allow=ip:10.0.0.0/8 redirect=302"`},
		{[]string{"v1", " p-/a ", "b, c", "p-/d"}, "route add web /a http://10.0.0.1:8000/ tags \"v1,b,c\"\nroute add web /d http://10.0.0.1:8000/ tags \"v1,b,c\""},
		{[]string{"p-$DC.foo.com/"}, `route add web dc1.foo.com/ http://10.0.0.1:8000/`},
		{[]string{`note="x"`, "p-/a"}, `route add web /a http://10.0.0.1:8000/ tags "note=\"x\""`},
		{[]string{"v1"}, ""},
		{nil, ""},
	} {
		commands, problems := testTagger().commands(instanceOf(c.tags...), true)
		if len(problems) > 0 {
			t.Errorf("%q: problems %v", c.tags, problems)
		}
		var lines []string
		for _, cmd := range commands {
			lines = append(lines, cmd.String())
			if cmd.Down {
				t.Errorf("%q: down", c.tags)
			}
			if cmd.Origin.Service != "web" || cmd.Origin.Node != "n" || cmd.Origin.Instance != "web-1" || !slices.Contains(c.tags, cmd.Origin.Tag) {
				t.Errorf("%q: origin %+v", c.tags, cmd.Origin)
			}
		}
		if got := strings.Join(lines, "\n"); got != c.want {
			t.Errorf("%q:\ngot  %s\nwant %s", c.tags, got, c.want)
		}
		// The same instance in trouble: the same commands, but down.
		down, _ := testTagger().commands(instanceOf(c.tags...), false)
		for i := range down {
			if !down[i].Down {
				t.Errorf("%q: not down", c.tags)
			}
			down[i].Down = false
		}
		if !sameCommands(down, commands) {
			t.Errorf("%q: down %v, want %v", c.tags, down, commands)
		}
	}
}

func TestTagRefused(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(e *entry)
		tag    string
		reason string
		known  bool // the route is known, so it is down
	}{
		{"no route", nil, "p-", "tag without a route", false},
		{"bad port", nil, "p-:0", `source ":0" is not a port`, false},
		{"port and path", nil, "p-:80/ redirect=301,https://x", "has a path", false},
		{"scheme", nil, "p-http://foo.com/", "starts with a scheme", false},
		{"line break", nil, "p-/x\nroute add evil / http://evil/", "white space or a control character", false},
		{"line break in options", nil, "p-/x strip=/y\nroute add evil / http://evil/", "", true},
		{"tab", nil, "p-/x\tstrip=/y", "white space", false},
		{"NUL", nil, "p-/x\x00", "control character", false},
		{"quote first", nil, `p-"/x"`, "starts with a quote", false},
		{"escape in an option", nil, `p-/x host=a\r\nb`, "control character", true},
		{"long", nil, "p-/" + strings.Repeat("x", maxTag), "longer than", false},
		{"long options", nil, "p-/x allow=ip:10.0.0.1" + strings.Repeat(",ip:10.0.0.1", maxTag/10), "longer than", true},
		{"weight", nil, "p-/x weight=abc", `weight "abc" is not a number`, true},
		{"weight NaN", nil, "p-/x weight=NaN", "is not a number", true},
		{"weight Inf", nil, "p-/x weight=+Inf", "is not a number", true},
		{"weight too big", nil, "p-/x weight=1e999", "is not a number", true},
		{"redirect without URL", nil, "p-/x redirect=301", `redirect "301": no URL`, true},
		{"redirect with empty URL", nil, "p-/x redirect=301,", "no URL", true},
		{"redirect to script", nil, "p-/x redirect=301,javascript:alert(1)", "scheme", true},
		{"variable", nil, "p-$X.com/", "unknown variable", false},
		{"port 0", func(e *entry) { e.ServicePort = 0 }, "p-/x", "service port 0", true},
		{"port 70000", func(e *entry) { e.ServicePort = 70000 }, "p-/x", "service port 70000", true},
		{"port -1", func(e *entry) { e.ServicePort = -1 }, "p-/x", "service port -1", true},
		{"service with a blank", func(e *entry) { e.ServiceName = "my web" }, "p-/x", "white space", true},
		{"service with a line break", func(e *entry) { e.ServiceName = "x\nroute add evil / http://evil" }, "p-/x", "white space", true},
		{"service with a quote", func(e *entry) { e.ServiceName = `"web"` }, "p-/x", "starts with a quote", true},
		{"no address", func(e *entry) { e.Address = "" }, "p-/x", "no IP address and no host name", true},
	} {
		e := instanceOf("v1", c.tag, "p-/good")
		if c.change != nil {
			e = instanceOf("v1", c.tag)
			c.change(e)
		}
		commands, problems := testTagger().commands(e, true)
		if c.reason != "" {
			if len(problems) != 1 || !strings.Contains(problems[0].Reason, c.reason) || problems[0].Origin.Instance != "web-1" || problems[0].Text == "" {
				t.Errorf("%s: problems %+v, want one with %q", c.name, problems, c.reason)
			}
		}
		if c.change == nil {
			last := commands[len(commands)-1]
			if last.Src != "/good" || last.Down {
				t.Errorf("%s: the good tag next to it gives %v", c.name, last)
			}
			commands = commands[:len(commands)-1]
		}
		if known := len(commands) == 1 && (commands[0].Down && commands[0].Dst == "" || c.reason == ""); known != c.known {
			t.Errorf("%s: commands %+v, want the route known: %v", c.name, commands, c.known)
		}
		for _, cmd := range commands {
			if cmd.Service == "evil" || strings.Contains(cmd.String(), "\n") {
				t.Errorf("%s: injected: %q", c.name, cmd.String())
			}
		}
	}
}

func TestTagUpstreamAddress(t *testing.T) {
	for _, c := range []struct{ service, node, want string }{
		{"", "10.0.0.1", "10.0.0.1:8000"},
		{"10.0.0.2", "10.0.0.1", "10.0.0.2:8000"},
		{"fd00::1", "", "[fd00::1]:8000"},
		{"::ffff:10.0.0.1", "", "[::ffff:10.0.0.1]:8000"},
		{"web.example.com", "", "web.example.com:8000"},
		{"web_1.example.com.", "", "web_1.example.com.:8000"},
		{"localhost", "", "localhost:8000"},
		{"1e100.net", "", "1e100.net:8000"},
		// refused
		{"0.0.0.0", "", ""},
		{"::", "", ""},
		{"224.0.0.1", "", ""},
		{"ff02::1", "", ""},
		{"255.255.255.255", "", ""},
		{"fe80::1%eth0", "", ""},
		{"[fd00::1]", "", ""},
		{"10.0.0.1:80", "", ""},
		{"http://10.0.0.1", "", ""},
		{"user@10.0.0.1", "", ""},
		{"evil/@host", "", ""},
		{"a b", "", ""},
		{"a\r\nb", "", ""},
		{`a"b`, "", ""},
		{"/var/run/x.sock", "", ""},
		{"-a.com", "", ""},
		{"a..com", "", ""},
		{"10.0.1", "", ""},
		{"2130706433", "", ""},
		{"0x7f000001", "", ""},
		{"0x7f.0x1", "", ""},
		{"010.0.0.1", "", ""},
		{strings.Repeat("a", 64) + ".com", "", ""},
		{strings.Repeat("a.", 200), "", ""},
		{"é.com", "", ""},
	} {
		e := instanceOf("p-/")
		e.ServiceAddress, e.Address = c.service, c.node
		commands, problems := testTagger().commands(e, true)
		if len(commands) != 1 {
			t.Fatalf("%q: commands %v, problems %v", c.service, commands, problems)
		}
		want := ""
		if c.want != "" {
			want = "http://" + c.want + "/"
		}
		if got := commands[0]; got.Dst != want || got.Down != (want == "") || len(problems) != len(commands)-btoi(want != "") {
			t.Errorf("%q: dst %q, down %v, problems %v, want dst %q", c.service, got.Dst, got.Down, problems, want)
		}
		if want == "" && problems[0].Hint == "" {
			t.Errorf("%q: no hint", c.service)
		}
	}
	darwin := newTagger([]string{"p-"}, "darwin")
	for addr, want := range map[string]string{"mac": "http://mac.local:8000/", "mac.lan": "http://mac.lan:8000/", "fd00::1": "http://[fd00::1]:8000/"} {
		e := instanceOf("p-/")
		e.ServiceAddress = addr
		if commands, _ := darwin.commands(e, true); commands[0].Dst != want {
			t.Errorf("darwin, %q: %q, want %q", addr, commands[0].Dst, want)
		}
	}
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// A redirect needs no upstream, so its instance may have any address.
func TestTagRedirectNeedsNoAddress(t *testing.T) {
	e := instanceOf("p-/ redirect=301,https://x/")
	e.ServicePort, e.Address = 0, ""
	commands, problems := testTagger().commands(e, true)
	if len(problems) > 0 || len(commands) != 1 || commands[0].Down || commands[0].Dst != "https://x/" {
		t.Errorf("commands %v, problems %v", commands, problems)
	}
}

func TestSortCommandsIsFabiosOrder(t *testing.T) {
	var commands []route.Command
	for _, tag := range []string{"p-/a", "p-/a strip=/a", "p-/b", "p-/a weight=.5"} {
		c, _ := testTagger().commands(instanceOf(tag), true)
		commands = append(commands, c...)
	}
	commands[2].Down = true // has no influence
	sortCommands(commands)
	var got []string
	for _, c := range commands {
		got = append(got, c.Origin.Tag)
	}
	if want := []string{"p-/b", "p-/a weight=.5", "p-/a strip=/a", "p-/a"}; !slices.Equal(got, want) {
		t.Errorf("order %q, want %q", got, want)
	}
}

// FuzzTag makes sure that whatever a catalog holds gives commands that are whole: valid, one line each, read back by
// Parse as what they are, and never for another service.
func FuzzTag(f *testing.F) {
	for _, tag := range []string{"p-", "p-/", "p-$DC/x", "p-a/b strip=/x weight=1", "p-:1 proto=tcp", "p-/ redirect=301,https://$host$path", `p-/ a="b\n"`, "p-/x\nroute add y / http://z"} {
		f.Add(tag, "web", "10.0.0.1", 80)
	}
	f.Add("p-/", "a\nb", "x y", -1)
	f.Fuzz(func(t *testing.T, tag, service, addr string, port int) {
		e := instanceOf(tag, "other", tag+"x")
		e.ServiceName, e.ServiceAddress, e.ServicePort = service, addr, port
		commands, problems := testTagger().commands(e, true)
		for _, p := range problems {
			if p.Reason == "" || len(p.Text) > maxTag+10 {
				t.Errorf("problem %+v", p)
			}
		}
		for _, c := range commands {
			if err := c.Validate(); err != nil {
				t.Errorf("%q: %v", tag, err)
			}
			if c.Down {
				continue
			}
			got, ps := route.Parse(c.String(), "")
			if len(ps) > 0 || len(got) != 1 {
				t.Fatalf("%q gives %q, which Parse reads as %v, %v", tag, c.String(), got, ps)
			}
			got[0].Origin = c.Origin
			if !sameCommands(got, []route.Command{c}) {
				t.Errorf("%q gives %+v, read back as %+v", tag, c, got[0])
			}
			if c.Service != service {
				t.Errorf("service %q", c.Service)
			}
		}
	})
}
