package proxy

import (
	"crypto/tls"
	"net/http"
	"net/netip"
	"strings"
	"testing"
)

// headerCase is a request as it comes and what the upstream must get. "-" means that the header must be absent.
type headerCase struct {
	name   string
	flags  []string
	peer   string // RemoteAddr, 9.9.9.9:1234 if empty; 10.0.0.9:1 is trusted
	host   string // foo.com if empty
	tls    bool
	proto  string // HTTP/1.1 if empty
	header http.Header
	opts   string
	want   map[string]string // values joined by " | "
}

func (c headerCase) upstreamHeader(t *testing.T) http.Header {
	t.Helper()
	p := newProxy(t, `route add svc / http://10.0.0.1:1/ opts "`+c.opts+`"`, append(c.flags, "--proxy.localip=5.6.7.8")...)
	r := &http.Request{Method: "GET", Host: "foo.com", RemoteAddr: "9.9.9.9:1234", Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		RequestURI: "/", Header: http.Header{}}
	for name, values := range c.header {
		r.Header[name] = values
	}
	if c.peer != "" {
		r.RemoteAddr = c.peer
	}
	if c.host != "" {
		r.Host = c.host
	}
	if c.tls {
		r.TLS = &tls.ConnectionState{Version: tls.VersionTLS12, CipherSuite: 0xc02f}
	}
	if c.proto != "" {
		r.Proto, r.ProtoMinor = c.proto, 0
	}
	x := &exchange{p: p}
	x.begin(nil, r)
	x.up = upstreamOf(p.Table().Lookup("", "/", false).Pick())
	o := x.outgoing()
	x.setRequestHeader(o)
	return o.header
}

func TestRequestHeaders(t *testing.T) {
	const trusted = "10.0.0.9:1"
	for _, c := range []headerCase{
		{name: "plain", want: map[string]string{
			"X-Forwarded-For": "9.9.9.9", "X-Real-Ip": "9.9.9.9", "X-Forwarded-Proto": "http", "X-Forwarded-Port": "80",
			"X-Forwarded-Host": "foo.com", "X-Forwarded-Prefix": "-",
			"Forwarded": "for=9.9.9.9; proto=http; by=5.6.7.8; httpproto=http/1.1",
		}},
		{name: "tls", tls: true, want: map[string]string{
			"X-Forwarded-Proto": "https", "X-Forwarded-Port": "443",
			"Forwarded": "for=9.9.9.9; proto=https; by=5.6.7.8; httpproto=http/1.1; tlsver=tls12; tlscipher=0xc02f",
		}},
		{name: "HTTP/1.0", proto: "HTTP/1.0", want: map[string]string{
			"Forwarded": "for=9.9.9.9; proto=http; by=5.6.7.8; httpproto=http/1.0",
		}},
		{name: "port in Host", host: "foo.com:8080", want: map[string]string{
			"X-Forwarded-Host": "foo.com:8080", "X-Forwarded-Port": "8080",
		}},
		{name: "IPv6 Host", host: "[::1]", tls: true, want: map[string]string{"X-Forwarded-Port": "443"}},
		{name: "IPv6 peer", peer: "[2001:db8::1]:99", want: map[string]string{
			"X-Forwarded-For": "2001:db8::1", "X-Real-Ip": "2001:db8::1",
			"Forwarded": `for="[2001:db8::1]"; proto=http; by=5.6.7.8; httpproto=http/1.1`,
		}},
		{name: "IPv6 by", flags: []string{"--proxy.localip=2001:db8::2"}, want: map[string]string{"X-Forwarded-For": "9.9.9.9"}},
		{name: "mapped peer with zone", peer: "[::ffff:9.8.7.6]:99", want: map[string]string{"X-Real-Ip": "9.8.7.6"}},
		{name: "zone", peer: "[fe80::1%eth0]:99", want: map[string]string{"X-Real-Ip": "fe80::1"}},
		{name: "no peer", peer: "@", want: map[string]string{"X-Real-Ip": "-", "X-Forwarded-For": "-",
			"Forwarded": "for=unknown; proto=http; by=5.6.7.8; httpproto=http/1.1"}},
		{name: "appends to X-Forwarded-For", header: http.Header{"X-Forwarded-For": {"1.1.1.1, 2.2.2.2"}}, want: map[string]string{
			"X-Forwarded-For": "1.1.1.1, 2.2.2.2, 9.9.9.9",
		}},
		{name: "joins lines of X-Forwarded-For", header: http.Header{"X-Forwarded-For": {"1.1.1.1", "2.2.2.2"}}, want: map[string]string{
			"X-Forwarded-For": "1.1.1.1, 2.2.2.2, 9.9.9.9",
		}},
		{name: "empty X-Forwarded-For", header: http.Header{"X-Forwarded-For": {""}}, want: map[string]string{"X-Forwarded-For": "9.9.9.9"}},
		{name: "a stranger is not believed", header: http.Header{
			"X-Real-Ip": {"6.6.6.6"}, "X-Forwarded-Proto": {"https"}, "X-Forwarded-Host": {"evil"}, "X-Forwarded-Port": {"1"},
			"X-Forwarded-Prefix": {"//evil"}, "Forwarded": {"for=6.6.6.6;proto=https;host=evil"},
		}, want: map[string]string{
			"X-Real-Ip": "9.9.9.9", "X-Forwarded-Proto": "http", "X-Forwarded-Host": "foo.com", "X-Forwarded-Port": "80",
			"X-Forwarded-Prefix": "-", "Forwarded": "for=9.9.9.9; proto=http; by=5.6.7.8; httpproto=http/1.1",
		}},
		{name: "a trusted peer is", peer: trusted, header: http.Header{
			"X-Real-Ip": {"6.6.6.6"}, "X-Forwarded-Proto": {"https"}, "X-Forwarded-Host": {"bar.com"}, "X-Forwarded-Port": {"444"},
			"X-Forwarded-Prefix": {"/p"}, "Forwarded": {"for=6.6.6.6; proto=https"}, "X-Forwarded-For": {"6.6.6.6"},
		}, want: map[string]string{
			"X-Real-Ip": "6.6.6.6", "X-Forwarded-Proto": "https", "X-Forwarded-Host": "bar.com", "X-Forwarded-Port": "444",
			"X-Forwarded-Prefix": "/p", "X-Forwarded-For": "6.6.6.6, 10.0.0.9",
			"Forwarded": "for=6.6.6.6; proto=https; by=5.6.7.8; httpproto=http/1.1",
		}},
		{name: "proto from Forwarded", peer: trusted, header: http.Header{"Forwarded": {`for=1.1.1.1;Proto="https";by=2.2.2.2, for=3.3.3.3`}},
			want: map[string]string{
				"X-Forwarded-Proto": "https",
				"Forwarded":         `for=1.1.1.1;Proto="https";by=2.2.2.2, for=3.3.3.3; by=5.6.7.8; httpproto=http/1.1`,
			}},
		{name: "a complete Forwarded gets a new element", peer: trusted, header: http.Header{"Forwarded": {"for=1.1.1.1", "for=2.2.2.2;by=3.3.3.3"}},
			want: map[string]string{
				"Forwarded": "for=1.1.1.1, for=2.2.2.2;by=3.3.3.3, for=10.0.0.9; proto=http; by=5.6.7.8; httpproto=http/1.1",
			}},
		{name: "nobody is trusted", flags: []string{"--proxy.trusted="}, peer: "127.0.0.1:1",
			header: http.Header{"X-Real-Ip": {"6.6.6.6"}}, want: map[string]string{"X-Real-Ip": "127.0.0.1"}},
		{name: "hop-by-hop", header: http.Header{
			"Connection": {"keep-alive, X-Hop, close"}, "Keep-Alive": {"timeout=5"}, "Proxy-Connection": {"keep-alive"}, "Te": {"gzip"},
			"Trailer": {"X-T"}, "Transfer-Encoding": {"chunked"}, "Upgrade": {"h2c"}, "Http2-Settings": {"AAMAAABkAARAAAAAAAIAAAAA"},
			"Proxy-Authorization": {"Basic x"}, "X-Hop": {"1"}, "Proxy": {"http://evil"}, "X-Other": {"1"},
		}, want: map[string]string{
			"Connection": "-", "Keep-Alive": "-", "Proxy-Connection": "-", "Te": "-", "Trailer": "-", "Transfer-Encoding": "-", "Upgrade": "-",
			"Http2-Settings": "-", "Proxy-Authorization": "-", "X-Hop": "-", "Proxy": "-", "X-Other": "1",
		}},
		{name: "TE: trailers", header: http.Header{"Te": {"gzip;q=1, Trailers"}}, want: map[string]string{"Te": "trailers"}},
		{name: "nothing of ours can be named away", flags: []string{"--proxy.header.clientip=x-client", "--proxy.header.requestid=X-Id", "--proxy.header.tls=Secure", "--proxy.header.tls.value=yes"},
			tls: true,
			header: http.Header{"Connection": {"close, x-forwarded-for", "X-Client, x-id, SECURE, x-real-ip, Forwarded, X-Forwarded-Proto"},
				"X-Client": {"6.6.6.6"}, "Secure": {"no"}, "X-Forwarded-For": {"1.1.1.1"}},
			want: map[string]string{"X-Client": "9.9.9.9", "Secure": "yes", "X-Forwarded-For": "1.1.1.1, 9.9.9.9", "X-Real-Ip": "9.9.9.9",
				"X-Forwarded-Proto": "https"}},
		{name: "only hop-by-hop headers can be named away", header: http.Header{"Connection": {"Authorization, cookie, Content-Type, Accept"},
			"Authorization": {"Basic x"}, "Cookie": {"a=b"}, "Content-Type": {"text/plain"}, "Accept": {"*/*"}},
			want: map[string]string{"Authorization": "Basic x", "Cookie": "a=b", "Content-Type": "text/plain", "Accept": "*/*"}},
		{name: "the TLS header is removed on plain", flags: []string{"--proxy.header.tls=Secure", "--proxy.header.tls.value=yes"},
			header: http.Header{"Secure": {"yes"}}, want: map[string]string{"Secure": "-"}},
		{name: "clientip with a name of its own rules", flags: []string{"--proxy.header.clientip=X-Real-IP"}, peer: trusted,
			header: http.Header{"X-Real-Ip": {"6.6.6.6"}}, want: map[string]string{"X-Real-Ip": "6.6.6.6"}},
		{name: "underscore aliases", flags: []string{"--proxy.header.clientip=X-Client"}, header: http.Header{
			"X_forwarded_for": {"6.6.6.6"}, "X-Forwarded_for": {"6.6.6.6"}, "X_client": {"6.6.6.6"}, "Transfer_encoding": {"chunked"},
			"Content_length": {"5"}, "X_other": {"1"}},
			want: map[string]string{"X_forwarded_for": "-", "X-Forwarded_for": "-", "X_client": "-", "Transfer_encoding": "-", "Content_length": "-", "X_other": "1"}},
		{name: "no User-Agent is invented", want: map[string]string{"User-Agent": ""}},
		{name: "User-Agent", header: http.Header{"User-Agent": {"me"}}, want: map[string]string{"User-Agent": "me"}},
		{name: "strip", opts: "strip=/p", header: http.Header{"X-Forwarded-Prefix": {"/evil"}}, want: map[string]string{"X-Forwarded-Prefix": "/p"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := c.upstreamHeader(t)
			for name, want := range c.want {
				values, ok := got[name]
				if text := strings.Join(values, " | "); ok == (want == "-") || ok && text != want {
					t.Errorf("%s = %q (%v), want %q", name, text, ok, want)
				}
			}
		})
	}
}

func TestRequestID(t *testing.T) {
	up := newUpstream(t, nil)
	p := newProxy(t, "route add svc / http://"+up.addr+"/", "--proxy.header.requestid=X-Request-Id")
	get(t, serve(t, p), "/", "X-Request-Id: mine")
	got := up.last(t).Header.Get("X-Request-Id")
	if len(got) != 36 || got[14] != '4' {
		t.Errorf("X-Request-Id = %q, want a version 4 UUID", got)
	}
	if a, b := newRequestID(), newRequestID(); a == b {
		t.Errorf("newRequestID() = %s twice", a)
	}
}

func TestSTS(t *testing.T) {
	up := newUpstream(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Strict-Transport-Security", "max-age=1")
	})
	for _, c := range []struct {
		flags []string
		want  string
	}{
		{nil, "max-age=1"},
		{[]string{"--proxy.header.sts.maxage=10"}, "max-age=10"},
		{[]string{"--proxy.header.sts.maxage=10", "--proxy.header.sts.subdomains", "--proxy.header.sts.preload"}, "max-age=10; includeSubdomains; preload"},
	} {
		s := serveTLS(t, newProxy(t, "route add svc / http://"+up.addr+"/", c.flags...))
		resp, err := s.Client().Get(s.URL)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if got := strings.Join(resp.Header["Strict-Transport-Security"], " | "); got != c.want {
			t.Errorf("%v: Strict-Transport-Security = %q, want %q", c.flags, got, c.want)
		}
	}
	a := get(t, serve(t, newProxy(t, "", "--proxy.header.sts.maxage=10")), "/")
	if got := a.Header["Strict-Transport-Security"]; got != nil {
		t.Errorf("Strict-Transport-Security = %q without TLS", got)
	}
}

func TestPeerOf(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"1.2.3.4:5", "1.2.3.4"},
		{"[::1]:5", "::1"},
		{"[fe80::1%eth0]:5", "fe80::1"},
		{"[::ffff:1.2.3.4]:5", "1.2.3.4"},
		{"", ""},
		{"@", ""},
		{"/run/varco.sock", ""},
	} {
		if got := peerOf(c.in); got != c.want {
			t.Errorf("peerOf(%q) = %q, want %q", c.in, got, c.want)
		}
	}
}

func TestDetectLocalIP(t *testing.T) {
	for _, c := range []struct {
		addrs []string
		want  string
	}{
		{[]string{"127.0.0.1", "::1", "fe80::1", "2001:db8::1", "10.0.0.1"}, "10.0.0.1"},
		{[]string{"127.0.0.1", "fe80::1", "2001:db8::1"}, "2001:db8::1"},
		{[]string{"127.0.0.1"}, "invalid IP"},
	} {
		var addrs []netip.Addr
		for _, s := range c.addrs {
			addrs = append(addrs, netip.MustParseAddr(s))
		}
		if got := detectLocalIP(addrs).String(); got != c.want {
			t.Errorf("detectLocalIP(%v) = %s, want %s", c.addrs, got, c.want)
		}
	}
}

func FuzzConnectionHeader(f *testing.F) {
	f.Add("close, X-Forwarded-For")
	f.Add("Authorization")
	f.Add("x-hop,\tX-Other;q=1")
	p := newProxy(f, "route add svc / http://10.0.0.1:1/", "--proxy.header.clientip=X-Client", "--proxy.localip=5.6.7.8")
	up := upstreamOf(p.Table().Lookup("", "/", false).Pick())
	f.Fuzz(func(t *testing.T, connection string) {
		r := &http.Request{Method: "GET", Host: "foo.com", RemoteAddr: "9.9.9.9:1", Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, RequestURI: "/",
			Header: http.Header{"Connection": {connection}, "Authorization": {"a"}, "Cookie": {"c"}, "X-Forwarded-For": {"1.1.1.1"}, "Accept": {"x"}}}
		x := &exchange{p: p, up: up}
		x.begin(nil, r)
		o := x.outgoing()
		x.setRequestHeader(o)
		for name, want := range map[string]string{"Authorization": "a", "Cookie": "c", "Accept": "x", "X-Forwarded-For": "1.1.1.1, 9.9.9.9",
			"X-Real-Ip": "9.9.9.9", "X-Client": "9.9.9.9", "X-Forwarded-Host": "foo.com", "Connection": ""} {
			if got := o.header.Get(name); got != want {
				t.Errorf("Connection: %q: %s = %q, want %q", connection, name, got, want)
			}
		}
	})
}
