package proxy

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// optCase is one case of testdata/opt/NAME.txt: blocks separated by blank lines, "#" begins a comment. Lines:
//
//	opts    the options of the target
//	src     host/path of the route, / if left out
//	dst     the destination; UP stands for the address of an upstream, http://UP/ if left out
//	get     the request target; or send METHOD target
//	with    a header line of the request; Host: foo.com if there is none
//	path    the request target that the upstream must get
//	host    the Host that it must get
//	has     a header line that it must get
//	lacks   a header that it must not get
//	status  that the client must get; 200 if left out
//	answer  a header line that the client must get
//	body    a text that the client's answer must contain
//	refused a text that the reason for refusing the target must contain
type optCase struct {
	place                        string
	opts, src, dst, method       string
	target                       string
	with, has, lacks, answer     []string
	path, host, status, in, deny string
}

func readOptCases(t *testing.T, file string) []optCase {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var list []optCase
	line := 0
	for block := range strings.SplitSeq(string(b), "\n\n") {
		c := optCase{place: fmt.Sprintf("%s:%d", file, line+1), src: "/", dst: "http://UP/", method: "GET", status: "200"}
		used := false
		for s := range strings.SplitSeq(block, "\n") {
			line++
			key, value, _ := strings.Cut(strings.TrimSpace(s), " ")
			value = strings.TrimSpace(value)
			if key == "" || strings.HasPrefix(key, "#") {
				continue
			}
			used = true
			switch key {
			case "opts":
				c.opts = value
			case "src":
				c.src = value
			case "dst":
				c.dst = value
			case "get":
				c.target = value
			case "send":
				c.method, c.target, _ = strings.Cut(value, " ")
			case "with":
				c.with = append(c.with, value)
			case "path":
				c.path = value
			case "host":
				c.host = value
			case "has":
				c.has = append(c.has, value)
			case "lacks":
				c.lacks = append(c.lacks, value)
			case "status":
				c.status = value
			case "answer":
				c.answer = append(c.answer, value)
			case "body":
				c.in = value
			case "refused":
				c.deny = value
			default:
				t.Fatalf("%s:%d: unknown word %q", file, line, key)
			}
		}
		line++
		if used {
			list = append(list, c)
		}
	}
	return list
}

func TestOptions(t *testing.T) {
	files, err := filepath.Glob("testdata/opt/*.txt")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".txt")
		if _, ok := findOption(name); !ok && name != "none" {
			t.Errorf("%s: there is no option %s", file, name)
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			up := newUpstream(t, nil)
			for _, c := range readOptCases(t, file) {
				c.run(t, up)
			}
		})
	}
}

func (c optCase) run(t *testing.T, up *upstreamServer) {
	t.Helper()
	dst := strings.ReplaceAll(c.dst, "UP", up.addr)
	p := newProxy(t, "")
	problems := setRoutes(t, p, fmt.Sprintf("route add svc %s %s opts %q", c.src, dst, c.opts))
	if c.deny != "" {
		if len(problems) != 1 || !strings.Contains(problems[0].Reason+problems[0].Hint, c.deny) {
			t.Errorf("%s: problems = %v, want one that says %q", c.place, problems, c.deny)
		}
		if c.target == "" {
			return
		}
	} else if len(problems) > 0 {
		t.Errorf("%s: %v", c.place, problems)
		return
	}
	request := c.method + " " + c.target + " HTTP/1.1\r\n"
	if !slices.ContainsFunc(c.with, func(s string) bool { return strings.HasPrefix(s, "Host:") }) {
		request += "Host: foo.com\r\n"
	}
	for _, s := range c.with {
		request += s + "\r\n"
	}
	a := send(t, serve(t, p), request+"\r\n")
	if got := fmt.Sprint(a.StatusCode); got != c.status {
		t.Errorf("%s: %s %s = %s %s, want %s", c.place, c.method, c.target, got, a.body, c.status)
	}
	if missing := missingLine(a.Header, c.answer); missing != "" {
		t.Errorf("%s: answer has %v, want %q", c.place, a.Header, missing)
	}
	if !strings.Contains(a.body, c.in) {
		t.Errorf("%s: body = %q, want %q in it", c.place, a.body, c.in)
	}
	if c.path == "" && c.host == "" && c.has == nil && c.lacks == nil {
		up.drain()
		return
	}
	c.checkUpstream(t, up.last(t))
}

func (c optCase) checkUpstream(t *testing.T, r *http.Request) {
	t.Helper()
	if c.path != "" && r.RequestURI != c.path {
		t.Errorf("%s: upstream got %s for %s, want %s", c.place, r.RequestURI, c.target, c.path)
	}
	if c.host != "" && r.Host != c.host {
		t.Errorf("%s: upstream got Host %s, want %s", c.place, r.Host, c.host)
	}
	if missing := missingLine(r.Header, c.has); missing != "" {
		t.Errorf("%s: upstream got %v, want %q", c.place, r.Header, missing)
	}
	for _, name := range c.lacks {
		if v, ok := r.Header[http.CanonicalHeaderKey(name)]; ok {
			t.Errorf("%s: upstream got %s: %q", c.place, name, v)
		}
	}
}

// missingLine is the first line that is not the whole value of its header.
func missingLine(h http.Header, lines []string) string {
	for _, line := range lines {
		name, value, _ := strings.Cut(line, ":")
		if got := strings.Join(h[http.CanonicalHeaderKey(name)], " | "); got != strings.TrimSpace(value) {
			return line
		}
	}
	return ""
}

func (u *upstreamServer) drain() {
	for {
		select {
		case <-u.got:
		default:
			return
		}
	}
}

func TestEveryOptionHasCases(t *testing.T) {
	for _, o := range options {
		if o.bind == nil {
			continue // package route has them
		}
		if _, err := os.Stat("testdata/opt/" + o.name + ".txt"); err != nil {
			t.Error(err)
		}
	}
}

func TestOptionsAreDescribed(t *testing.T) {
	list := Options()
	if len(list) != len(options) || !slices.IsSortedFunc(list, func(a, b OptionHelp) int { return strings.Compare(a.Name, b.Name) }) {
		t.Fatalf("Options() = %v", list)
	}
	for _, o := range list {
		if o.Help == "" || !strings.HasPrefix(o.Syntax, o.Name) {
			t.Errorf("option %q: syntax %q, help %q", o.Name, o.Syntax, o.Help)
		}
	}
}

func TestUnknownOption(t *testing.T) {
	up := newUpstream(t, nil)
	routes := `route add svc / http://` + up.addr + `/ opts "stripp=/a"`
	p := newProxy(t, "")
	problems := setRoutes(t, p, routes)
	if len(problems) != 1 || !strings.Contains(problems[0].Error(), `did you mean "strip"`) ||
		!strings.Contains(problems[0].Error(), "tlsskipverify") {
		t.Errorf("problems = %v, want one that hints at strip and names all", problems)
	}
	if a := get(t, serve(t, p), "/"); a.StatusCode != 503 {
		t.Errorf("GET / = %d, want 503", a.StatusCode)
	}
	p = newProxy(t, routes, "--route.unknown-options=keep")
	if a := get(t, serve(t, p), "/"); a.StatusCode != 200 {
		t.Errorf("GET / = %d with unknown-options=keep, want 200", a.StatusCode)
	}
}
