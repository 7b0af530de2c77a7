package proxy

import (
	"net/url"
	"strings"
	"testing"
)

func TestParsePath(t *testing.T) {
	for _, c := range []struct {
		raw, clean string
		plain      bool
		ambiguous  bool
		err        error
	}{
		{raw: "/", clean: "/", plain: true},
		{raw: "/a/b/", clean: "/a/b/", plain: true},
		{raw: "/a//b", clean: "/a/b"},
		{raw: "//a", clean: "/a"},
		{raw: "/a/./b", clean: "/a/b"},
		{raw: "/a/../b", clean: "/b"},
		{raw: "/../../x", clean: "/x"},
		{raw: "/a/..", clean: "/"},
		{raw: "/a/b/..", clean: "/a/"},
		{raw: "/a/b/.", clean: "/a/b/"},
		{raw: "/a/%2e%2e/b", clean: "/b"},
		{raw: "/.well-known/x", clean: "/.well-known/x"},
		{raw: "/...", clean: "/..."},
		{raw: "/a%2Fb", clean: "/a/b"},
		{raw: "/a%20b%41", clean: "/a bA"},
		{raw: "/%252e%252e/x", clean: "/%2e%2e/x"},
		{raw: "/a;v=1/b", clean: "/a;v=1/b"},
		{raw: "/a..;/b", clean: "/a..;/b"},
		{raw: "/a/..;/b", clean: "/a/..;/b", ambiguous: true},
		{raw: "/a/.;/b", clean: "/a/.;/b", ambiguous: true},
		{raw: "/;/admin", clean: "/;/admin", ambiguous: true},
		{raw: "/;a=b/admin", clean: "/;a=b/admin", ambiguous: true},
		{raw: "/x/;/../admin", clean: "/x/admin", ambiguous: true},
		{raw: "/%3b/admin", clean: "/;/admin", ambiguous: true},
		{raw: "/a/..%2fb", clean: "/b", ambiguous: true},
		{raw: "/a/%2e%2e%2fb", clean: "/b", ambiguous: true},
		{raw: "/a%2f../b", clean: "/b", ambiguous: true},
		{raw: "/a%2fb/../c", clean: "/a/c", ambiguous: true},
		{raw: "/a%2fb/c/../../d", clean: "/a/d", ambiguous: true},
		{raw: "/x/../a%2fb", clean: "/a/b"},
		{raw: "/a%2fb/./c", clean: "/a/b/c"},
		{raw: `/a\b`, clean: `/a\b`, plain: true, ambiguous: true},
		{raw: "/a%5cb", clean: `/a\b`, ambiguous: true},
		{raw: "/\xc3\xa9", clean: "/\xc3\xa9", plain: true, ambiguous: true},
		{raw: "/%c3%a9", clean: "/\xc3\xa9"},
		{raw: "/a%00", err: errPathNUL},
		{raw: "/a%", err: errPathEscape},
		{raw: "/a%4", err: errPathEscape},
		{raw: "/a%zz", err: errPathEscape},
		{raw: "/a#b", err: errPathByte},
		{raw: "/a b", err: errPathByte},
		{raw: "/a\x7f", err: errPathByte},
		{raw: "/a\tb", err: errPathByte},
		{raw: "a", err: errNoPath},
		{raw: "", err: errNoPath},
	} {
		p, err := parsePath(c.raw)
		if err != c.err {
			t.Errorf("parsePath(%q) = %v, want %v", c.raw, err, c.err)
			continue
		}
		if err == nil && (p.clean != c.clean || p.plain != c.plain || p.ambiguous != c.ambiguous) {
			t.Errorf("parsePath(%q) = %+v, want clean %q, plain %v, ambiguous %v", c.raw, p, c.clean, c.plain, c.ambiguous)
		}
	}
}

func TestSplitTarget(t *testing.T) {
	for _, c := range []struct {
		in, uri, path string
		ok            bool
	}{
		{"/a?b", "/a?b", "/a", true},
		{"/a?b?c", "/a?b?c", "/a", true},
		{"//a", "//a", "//a", true},
		{"http://foo.com/a?b", "/a?b", "/a", true},
		{"http://foo.com", "/", "/", true},
		{"http://foo.com?b", "/?b", "/", true},
		{"http://foo.com?b/c", "/?b/c", "/", true},
		{"*", "", "", false},
		{"foo.com:443", "", "", false},
		{"", "", "", false},
	} {
		uri, path, err := splitTarget(c.in)
		if uri != c.uri || path != c.path || (err == nil) != c.ok {
			t.Errorf("splitTarget(%q) = %q, %q, %v", c.in, uri, path, err)
		}
	}
}

func TestPlainPathAllocatesNothing(t *testing.T) {
	if n := testing.AllocsPerRun(100, func() { parsePath("/a/plain/path.html") }); n != 0 {
		t.Errorf("parsePath allocates %v times", n)
	}
}

// FuzzPath holds what the rest relies on: the clean form is that of net/url and has no dot segments, and what strip and
// prepend leave is a path that cannot be taken for a host.
func FuzzPath(f *testing.F) {
	for _, s := range []string{"/", "/a/../b", "//a", "/a%2F..%2fb", "/%2e%2e/p", "/p/x/../../p/y", `/p\x`, "/p%2f/..", "/p/%2e%2e/p/x", "/p;x/..;y"} {
		f.Add(s, "/p")
	}
	f.Add("/\xff%ff/p", "/\xff")
	f.Fuzz(func(t *testing.T, raw, prefix string) {
		p, err := parsePath(raw)
		if err != nil {
			return
		}
		u, err := url.ParseRequestURI(strings.ReplaceAll(raw, "?", "%3F"))
		if err != nil {
			t.Fatalf("parsePath(%q) is fine, net/url says %v", raw, err)
		}
		decoded, err := decodePath(raw)
		if err != nil {
			t.Fatalf("decodePath(%q): %v", raw, err)
		}
		if !strings.Contains(raw, "?") && u.Path != decoded {
			t.Errorf("decodePath(%q) = %q, net/url says %q", raw, decoded, u.Path)
		}
		if !strings.HasPrefix(p.clean, "/") || strings.Contains(p.clean, "//") || strings.Contains(p.clean+"/", "/../") || strings.Contains(p.clean+"/", "/./") {
			t.Errorf("parsePath(%q).clean = %q", raw, p.clean)
		}
		if resolved, err := decodePath(resolveRaw(raw)); err != nil || !p.ambiguous && cleanPath(resolved) != p.clean {
			t.Errorf("parsePath(%q).clean = %q, but resolved it is %q, %v", raw, p.clean, cleanPath(resolved), err)
		}
		if checkPathOption(prefix) != nil {
			return
		}
		got, ok := p.stripPrefix(prefix)
		if !ok {
			if got != raw {
				t.Errorf("stripPrefix(%q, %q) = %q", raw, prefix, got)
			}
			return
		}
		if got != "" && (got[0] != '/' || strings.HasPrefix(got, "//")) {
			t.Errorf("stripPrefix(%q, %q) = %q", raw, prefix, got)
		}
		rest, err := decodePath(got)
		if err != nil {
			t.Fatalf("stripPrefix(%q, %q) = %q: %v", raw, prefix, got, err)
		}
		if want := strings.TrimLeft(p.clean[len(prefix):], "/"); !p.ambiguous && !strings.Contains(strings.ToLower(raw), "%2f") &&
			strings.TrimLeft(cleanPath("/"+rest), "/") != strings.TrimLeft(cleanPath("/"+want), "/") {
			t.Errorf("stripPrefix(%q, %q) = %q, want the rest of %q", raw, prefix, got, p.clean)
		}
	})
}

func FuzzHost(f *testing.F) {
	for _, s := range []string{"foo.com", "foo.com:80", "[::1]:80", "u@foo.com", "a,b", "foo.com:80a", "", "[::1", "1.2.3.4:65536", "a:b:c"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, host string) {
		if !validHost(host) {
			return
		}
		u, err := url.Parse("http://" + host + "/")
		if err != nil || u.Host != host || u.User != nil || u.Path != "/" {
			t.Fatalf("validHost(%q), but net/url reads %+v, %v", host, u, err)
		}
		if u.Port() != hostPort(host) {
			t.Errorf("hostPort(%q) = %q, want %q", host, hostPort(host), u.Port())
		}
	})
}

func TestValidHost(t *testing.T) {
	for _, c := range []struct {
		in   string
		want bool
	}{
		{"foo.com", true}, {"foo.com.", true}, {"FOO_1-x.com:8080", true}, {"1.2.3.4:80", true}, {"[2001:db8::1]", true}, {"[::1]:80", true},
		{"", false}, {":80", false}, {"foo.com:", false}, {"foo.com:0", false}, {"foo.com:080", false}, {"foo.com:65536", false}, {"foo.com:80a", false},
		{"a@b", false}, {"a/b", false}, {"a,b", false}, {"a b", false}, {"::1", false}, {"[::1", false}, {"[::1]x", false}, {"[1.2.3.4]", false},
		{"[fe80::1%25eth0]", false}, {"a:1:2", false}, {"a\x00", false}, {"\xff", false}, {".com", false}, {strings.Repeat("a", 256), false},
	} {
		if got := validHost(c.in); got != c.want {
			t.Errorf("validHost(%q) = %v, want %v", c.in, got, c.want)
		}
	}
}
