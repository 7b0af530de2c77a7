package proxy

import (
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// fakeTransport answers at once; it keeps the promise of an engine that pools.
type fakeTransport struct {
	response http.Response
	header   http.Header
}

func newFakeTransport() *fakeTransport {
	return &fakeTransport{header: http.Header{"Content-Type": {"text/plain"}, "Date": {"Tue, 01 Dec 2026 03:36:54 GMT"}, "Server": {"fake"}}}
}

func (f *fakeTransport) RoundTrip(*http.Request) (*http.Response, error) {
	f.response = http.Response{StatusCode: 200, Header: f.header, Body: http.NoBody, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1}
	return &f.response, nil
}

func (f *fakeTransport) CloseIdleConnections() {}
func (f *fakeTransport) Synchronous() bool     { return true }

// fakeWriter is a ResponseWriter that is used again.
type fakeWriter struct {
	header http.Header
	status int
}

func (w *fakeWriter) Header() http.Header         { return w.header }
func (w *fakeWriter) WriteHeader(status int)      { w.status = status }
func (w *fakeWriter) Write(p []byte) (int, error) { return len(p), nil }

func browserRequest() *http.Request {
	return &http.Request{
		Method: "GET", Host: "foo.com", RemoteAddr: "9.9.9.9:1234", Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		RequestURI: "/some/path?query=1", URL: &url.URL{Path: "/some/path", RawQuery: "query=1"}, Body: http.NoBody,
		Header: http.Header{
			"User-Agent": {"Mozilla/5.0"}, "Accept": {"*/*"}, "Accept-Language": {"en"}, "Accept-Encoding": {"gzip"}, "Cookie": {"a=b"},
			"Referer": {"http://foo.com/"}, "Connection": {"keep-alive"}, "Cache-Control": {"no-cache"}, "Sec-Fetch-Mode": {"navigate"}, "Dnt": {"1"},
		},
	}
}

// withFakeTransport gives every upstream of p the same fake.
func withFakeTransport(t testing.TB, routes string, flags ...string) *Proxy {
	t.Helper()
	p := newProxy(t, "", flags...)
	p.pools.open = func(identity) transport { return newFakeTransport() }
	if problems := setRoutes(t, p, routes); len(problems) > 0 {
		t.Fatal(problems)
	}
	return p
}

// TestAllocations holds what a request costs between the two engines: one string, the Forwarded header.
func TestAllocations(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector makes pools forget")
	}
	for _, c := range []struct {
		name, opts string
		flags      []string
		want       float64
	}{
		{"no option", "", nil, 1},
		{"allow", "allow=ip:9.0.0.0/8", nil, 1},
		{"host", "host=bar.com", nil, 1},
		{"strip", "strip=/some", nil, 2},
		{"log", "", []string{"--log.access.target=/dev/null"}, 1},
	} {
		p := withFakeTransport(t, `route add svc / http://10.0.0.1:80/ opts "`+c.opts+`"`, c.flags...)
		r, w := browserRequest(), &fakeWriter{header: http.Header{}}
		got := testing.AllocsPerRun(1000, func() {
			clear(w.header)
			p.ServeHTTP(w, r)
		})
		if w.status != 200 || got > c.want {
			t.Errorf("%s: status %d, %v allocations, want at most %v", c.name, w.status, got, c.want)
		}
		p.access.Close()
	}
}

func BenchmarkServeHTTP(b *testing.B) {
	for _, c := range []struct{ name, opts string }{{"plain", ""}, {"strip+allow", "strip=/some allow=ip:9.0.0.0/8"}} {
		b.Run(c.name, func(b *testing.B) {
			p := withFakeTransport(b, `route add svc / http://10.0.0.1:80/ opts "`+c.opts+`"`)
			r, w := browserRequest(), &fakeWriter{header: http.Header{}}
			b.ReportAllocs()
			for b.Loop() {
				clear(w.header)
				p.ServeHTTP(w, r)
			}
		})
	}
}

// TestPooledEngine has an engine that keeps its promise serve requests with bodies, trailers and options: nothing of
// one may be left in the next.
func TestPooledEngine(t *testing.T) {
	p := newProxy(t, "")
	var got *http.Request
	var body string
	p.pools.open = func(identity) transport {
		return engineFunc(func(r *http.Request) (*http.Response, error) {
			b, _ := io.ReadAll(r.Body)
			body = string(b)
			got = r.Clone(r.Context())
			return &http.Response{StatusCode: 200, Header: http.Header{}, Body: http.NoBody}, nil
		})
	}
	setRoutes(t, p, `route add svc / http://10.0.0.1:80/
route add svc /s http://10.0.0.1:80/ opts "strip=/s host=bar.com"`)
	addr := serve(t, p)
	send(t, addr, "POST /s/x HTTP/1.1\r\nHost: foo.com\r\nX-A: 1\r\nTransfer-Encoding: chunked\r\nTrailer: X-T\r\n\r\n1\r\nx\r\n0\r\nX-T: 1\r\n\r\n")
	if got.URL.Opaque != "/x" || got.Host != "bar.com" || got.Header.Get("X-A") != "1" || got.Trailer.Get("X-T") != "1" || body != "x" {
		t.Errorf("first: %s %s %v %v %q", got.URL.Opaque, got.Host, got.Header, got.Trailer, body)
	}
	send(t, addr, "POST /y HTTP/1.1\r\nHost: foo.com\r\nContent-Length: 2\r\n\r\nyy")
	if got.URL.Opaque != "/y" || got.Host != "foo.com" || got.Header.Get("X-A") != "" || got.Header["X-Forwarded-Prefix"] != nil || len(got.Trailer) != 0 || body != "yy" {
		t.Errorf("second: %s %s %v %v %q", got.URL.Opaque, got.Host, got.Header, got.Trailer, body)
	}
	get(t, addr, "/z")
	if got.URL.Opaque != "/z" || got.ContentLength != 0 || body != "" || strings.Contains(got.Header.Get("X-Forwarded-For"), ",") {
		t.Errorf("third: %s %d %v %q", got.URL.Opaque, got.ContentLength, got.Header, body)
	}
}

type engineFunc func(*http.Request) (*http.Response, error)

func (f engineFunc) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body == nil {
		r.Body = http.NoBody
	}
	return f(r)
}
func (engineFunc) CloseIdleConnections() {}
func (engineFunc) Synchronous() bool     { return true }
