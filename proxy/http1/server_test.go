package http1

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// serve starts a server for h on a free loopback port and answers its address.
func serve(t testing.TB, s *Server) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- s.Serve(l) }()
	t.Cleanup(func() {
		s.Close()
		if err := <-done; err != http.ErrServerClosed {
			t.Errorf("Serve = %v, want %v", err, http.ErrServerClosed)
		}
	})
	return l.Addr().String()
}

func dial(t testing.TB, addr string) *net.TCPConn {
	t.Helper()
	nc, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { nc.Close() })
	nc.SetDeadline(time.Now().Add(10 * time.Second))
	return nc.(*net.TCPConn)
}

// talk sends input, ends the client's direction, and answers all that comes back.
func talk(t testing.TB, addr, input string) string {
	t.Helper()
	nc := dial(t, addr)
	if _, err := io.WriteString(nc, input); err != nil {
		t.Fatal(err)
	}
	nc.CloseWrite()
	b, err := io.ReadAll(nc)
	if err != nil {
		t.Fatalf("reading answer to %q: %v (got %q)", input, err, b)
	}
	return string(b)
}

// Each of these could be read in two ways by two parsers, or is no HTTP at all. None may reach the handler.
var refused = []struct {
	name, in string
	status   int
}{
	// Framing: A1 to A9 of the catalogue of attacks.
	{"CL.TE", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n", 400},
	{"TE.CL", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n5c\r\nGPOST / HTTP/1.1\r\n\r\n0\r\n\r\n", 400},
	{"TE twice", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400},
	{"TE twice, one odd", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: x\r\n\r\n0\r\n\r\n", 400},
	{"TE list", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n", 400},
	{"TE gzip, chunked", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", 400},
	{"TE chunked, chunked", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n", 400},
	{"TE xchunked", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n", 501},
	{"TE identity", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: identity\r\n\r\n", 501},
	{"TE identity and CL", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: identity\r\nContent-Length: 5\r\n\r\nhello", 400},
	{"TE empty", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding:\r\n\r\n0\r\n\r\n", 400},
	{"TE quoted", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: \"chunked\"\r\n\r\n0\r\n\r\n", 400},
	{"TE VT", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n", 400},
	{"TE NUL", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\x00\r\n\r\n0\r\n\r\n", 400},
	{"TE space before colon", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding : chunked\r\n\r\n0\r\n\r\n", 400},
	{"TE tab before colon", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding\t: chunked\r\n\r\n0\r\n\r\n", 400},
	{"TE folded", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n", 400},
	{"TE in 1.0", "POST / HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400},
	{"TE and CL in 1.0", "POST / HTTP/1.0\r\nHost: a\r\nConnection: keep-alive\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400},
	{"CL twice, differs", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello!", 400},
	{"CL twice, same", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\nhello", 400},
	{"CL list", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5, 5\r\n\r\nhello", 400},
	{"CL plus", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: +5\r\n\r\nhello", 400},
	{"CL minus", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n", 400},
	{"CL hex", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0x5\r\n\r\nhello", 400},
	{"CL underscore", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1_0\r\n\r\nhellohello", 400},
	{"CL empty", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length:\r\n\r\n", 400},
	{"CL overflow", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 18446744073709551621\r\n\r\nhello", 400},
	{"CL leading zeros", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 005\r\n\r\nhello", 400},
	{"CL space before colon", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length : 5\r\n\r\nhello", 400},
	{"CL inner space", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1 0\r\n\r\nhellohello", 400},

	// Chunks: B1 to B6. The first chunk line is judged before the handler runs.
	{"chunk bare LF", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\nhello\r\n0\r\n\r\n", 400},
	{"chunk ext bare LF", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5;a\nhello\r\n0\r\n\r\n", 400},
	{"chunk TERM.EXT", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n2;\nxx\r\n4c\r\n0\r\n\r\n", 400},
	{"chunk ext bare CR", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5;a\rb\r\nhello\r\n0\r\n\r\n", 400},
	{"chunk hex prefix", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0x5\r\nhello\r\n0\r\n\r\n", 400},
	{"chunk plus", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n+5\r\nhello\r\n0\r\n\r\n", 400},
	{"chunk minus", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\nhello\r\n0\r\n\r\n", 400},
	{"chunk empty size", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n\r\nhello\r\n0\r\n\r\n", 400},
	{"chunk underscore", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1_0\r\nhellohellohelloh\r\n0\r\n\r\n", 400},
	{"chunk leading space", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n 5\r\nhello\r\n0\r\n\r\n", 400},
	{"chunk trailing space", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5 \r\nhello\r\n0\r\n\r\n", 400},
	{"chunk 17 digits", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n00000000000000005\r\nhello\r\n0\r\n\r\n", 400},
	{"chunk ext NUL", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5;a\x00b\r\nhello\r\n0\r\n\r\n", 400},
	{"chunk ext long", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5;" + strings.Repeat("a", 20<<10) + "\r\nhello\r\n0\r\n\r\n", 400},

	// Request line and header lines: C1 to C8.
	{"bare LF line", "GET / HTTP/1.1\r\nHost: a\nX: y\r\n\r\n", 400},
	{"bare LF request line", "GET / HTTP/1.1\nHost: a\r\n\r\n", 400},
	{"bare LF head", "GET / HTTP/1.1\r\nHost: a\n\n", 400},
	{"LF CR LF", "GET / HTTP/1.1\r\nHost: a\r\n\n", 400},
	{"bare CR in value", "GET / HTTP/1.1\r\nHost: a\r\nX: a\rb\r\n\r\n", 400},
	{"NUL in value", "GET / HTTP/1.1\r\nHost: a\r\nX: a\x00b\r\n\r\n", 400},
	{"0x01 in value", "GET / HTTP/1.1\r\nHost: a\r\nX: a\x01b\r\n\r\n", 400},
	{"DEL in value", "GET / HTTP/1.1\r\nHost: a\r\nX: a\x7fb\r\n\r\n", 400},
	{"obs-fold", "GET / HTTP/1.1\r\nHost: a\r\nX: a\r\n b\r\n\r\n", 400},
	{"fold on first line", "GET / HTTP/1.1\r\n Host: a\r\nHost: a\r\n\r\n", 400},
	{"space in name", "GET / HTTP/1.1\r\nHost: a\r\nX Y: a\r\n\r\n", 400},
	{"empty name", "GET / HTTP/1.1\r\nHost: a\r\n: a\r\n\r\n", 400},
	{"8-bit name", "GET / HTTP/1.1\r\nHost: a\r\nX\xc3\xa4: a\r\n\r\n", 400},
	{"no colon", "GET / HTTP/1.1\r\nHost: a\r\nnonsense\r\n\r\n", 400},
	{"two spaces", "GET  / HTTP/1.1\r\nHost: a\r\n\r\n", 400},
	{"tab", "GET\t/ HTTP/1.1\r\nHost: a\r\n\r\n", 400},
	{"trailing space", "GET / HTTP/1.1 \r\nHost: a\r\n\r\n", 400},
	{"space in target", "GET /a b HTTP/1.1\r\nHost: a\r\n\r\n", 400},
	{"1.10", "GET / HTTP/1.10\r\nHost: a\r\n\r\n", 400},
	{"1.2", "GET / HTTP/1.2\r\nHost: a\r\n\r\n", 505},
	{"2.0", "GET / HTTP/2.0\r\nHost: a\r\n\r\n", 505},
	{"PRI", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505},
	{"lower-case version", "GET / http/1.1\r\nHost: a\r\n\r\n", 400},
	{"lower-case method", "get / HTTP/1.1\r\nHost: a\r\n\r\n", 400},
	{"0.9", "GET /\r\n\r\n", 400},
	{"leading CRLF", "\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", 400},
	{"leading LF", "\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", 400},
	{"TLS hello", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 400},
	{"GET *", "GET * HTTP/1.1\r\nHost: a\r\n\r\n", 400},
	{"no slash", "GET x HTTP/1.1\r\nHost: a\r\n\r\n", 400},
	{"fragment", "GET /x#frag HTTP/1.1\r\nHost: a\r\n\r\n", 400},
	{"8-bit target", "GET /\x80 HTTP/1.1\r\nHost: a\r\n\r\n", 400},
	{"bad percent", "GET /a%zz HTTP/1.1\r\nHost: a\r\n\r\n", 400},
	{"cut percent", "GET /a% HTTP/1.1\r\nHost: a\r\n\r\n", 400},
	{"9 KB value is fine but 70 KB is not", "GET / HTTP/1.1\r\nHost: a\r\nX: " + strings.Repeat("a", 70<<10) + "\r\n\r\n", 431},
	{"101 fields", "GET / HTTP/1.1\r\nHost: a\r\n" + strings.Repeat("X: y\r\n", 100) + "\r\n", 431},
	{"10,000 fields", "GET / HTTP/1.1\r\nHost: a\r\n" + strings.Repeat("X: y\r\n", 10000) + "\r\n", 431},
	{"17 KB target", "GET /" + strings.Repeat("a", 17<<10) + " HTTP/1.1\r\nHost: a\r\n\r\n", 414},
	{"70 KB target", "GET /" + strings.Repeat("a", 70<<10) + " HTTP/1.1\r\nHost: a\r\n\r\n", 414},

	// Authority: D1 to D5.
	{"no Host", "GET / HTTP/1.1\r\n\r\n", 400},
	{"two Hosts", "GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", 400},
	{"two Hosts in 1.0", "GET / HTTP/1.0\r\nHost: a\r\nHost: b\r\n\r\n", 400},
	{"empty Host", "GET / HTTP/1.1\r\nHost:\r\n\r\n", 400},
	{"userinfo in Host", "GET / HTTP/1.1\r\nHost: u@a\r\n\r\n", 400},
	{"path in Host", "GET / HTTP/1.1\r\nHost: a/b\r\n\r\n", 400},
	{"list in Host", "GET / HTTP/1.1\r\nHost: a, b\r\n\r\n", 400},
	{"space in Host", "GET / HTTP/1.1\r\nHost: a b\r\n\r\n", 400},
	{"port 80a", "GET / HTTP/1.1\r\nHost: a:80a\r\n\r\n", 400},
	{"port empty", "GET / HTTP/1.1\r\nHost: a:\r\n\r\n", 400},
	{"port 70000", "GET / HTTP/1.1\r\nHost: a:70000\r\n\r\n", 400},
	{"IPv6 cut", "GET / HTTP/1.1\r\nHost: [::1\r\n\r\n", 400},
	{"IPv6 zone", "GET / HTTP/1.1\r\nHost: [fe80::1%25lo]\r\n\r\n", 400},
	{"target and Host differ", "GET http://b/x HTTP/1.1\r\nHost: a\r\n\r\n", 400},
	{"userinfo in target", "GET http://u:p@a/x HTTP/1.1\r\nHost: a\r\n\r\n", 400},
	{"file target", "GET file:///etc/passwd HTTP/1.1\r\nHost: a\r\n\r\n", 400},
	{"opaque target", "GET http:a HTTP/1.1\r\nHost: a\r\n\r\n", 400},

	{"unknown Expect", "POST / HTTP/1.1\r\nHost: a\r\nExpect: 200-ok\r\nContent-Length: 1\r\n\r\nx", 417},
	{"Trailer names framing", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTrailer: Content-Length\r\n\r\n0\r\n\r\n", 400},
}

func TestServerRefuses(t *testing.T) {
	var called, counted atomic.Int64
	addr := serve(t, &Server{
		Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) { called.Add(1) }),
		Refused: func(string, int, string) { counted.Add(1) },
	})
	for _, tt := range refused {
		t.Run(tt.name, func(t *testing.T) {
			before, beforeCounted := called.Load(), counted.Load()
			got := talk(t, addr, tt.in)
			if want := fmt.Sprintf("HTTP/1.1 %d ", tt.status); !strings.HasPrefix(got, want) {
				t.Errorf("answer to %.200q = %.200q, want %s", tt.in, got, want)
			}
			if strings.Count(got, "HTTP/1.1 ") != 1 || !strings.Contains(got, "\r\nConnection: close\r\n") {
				t.Errorf("answer to %.200q = %.300q, want one that closes", tt.in, got)
			}
			if called.Load() != before {
				t.Errorf("handler was called for %.200q", tt.in)
			}
			if counted.Load() != beforeCounted+1 {
				t.Errorf("Refused was called %d times for %.200q, want once", counted.Load()-beforeCounted, tt.in)
			}
		})
	}
}

// seen is what a handler got.
func seen(r *http.Request) string {
	b, err := io.ReadAll(r.Body)
	s := fmt.Sprintf("%s %s host=%s path=%q raw=%q query=%q len=%d close=%t body=%q", r.Method, r.Proto, r.Host, r.URL.Path, r.URL.RawPath, r.URL.RawQuery, r.ContentLength, r.Close, b)
	if err != nil {
		s += " err=" + err.Error()
	}
	for k, vv := range r.Trailer {
		s += fmt.Sprintf(" trailer %s=%q", k, vv)
	}
	return s
}

func TestServerServes(t *testing.T) {
	var mu sync.Mutex
	var got []string
	addr := serve(t, &Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s := seen(r)
		mu.Lock()
		got = append(got, s)
		mu.Unlock()
		io.WriteString(w, "ok")
	})})
	for _, tt := range []struct {
		name, in string
		want     []string
	}{
		{"plain", "GET /a?b=c HTTP/1.1\r\nHost: h\r\n\r\n", []string{`GET HTTP/1.1 host=h path="/a" raw="" query="b=c" len=0 close=false body=""`}},
		{"1.0", "GET / HTTP/1.0\r\n\r\n", []string{`GET HTTP/1.0 host= path="/" raw="" query="" len=0 close=false body=""`}},
		{"pipelined", "GET /1 HTTP/1.1\r\nHost: h\r\n\r\nPOST /2 HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabcGET /3 HTTP/1.1\r\nHost: h\r\n\r\n", []string{
			`GET HTTP/1.1 host=h path="/1" raw="" query="" len=0 close=false body=""`,
			`POST HTTP/1.1 host=h path="/2" raw="" query="" len=3 close=false body="abc"`,
			`GET HTTP/1.1 host=h path="/3" raw="" query="" len=0 close=false body=""`}},
		{"close ends pipelining", "GET /1 HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\nGET /2 HTTP/1.1\r\nHost: h\r\n\r\n", []string{
			`GET HTTP/1.1 host=h path="/1" raw="" query="" len=0 close=true body=""`}},
		{"chunked", "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: Chunked\r\n\r\n3;x=\"y\"\r\nabc\r\nA\r\n0123456789\r\n0\r\n\r\nGET /2 HTTP/1.1\r\nHost: h\r\n\r\n", []string{
			`POST HTTP/1.1 host=h path="/" raw="" query="" len=-1 close=false body="abc0123456789"`,
			`GET HTTP/1.1 host=h path="/2" raw="" query="" len=0 close=false body=""`}},
		{"trailer, those that frame or route dropped", "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n1\r\na\r\n0\r\nX-Sum: 1\r\nHost: evil\r\nX-Forwarded-For: 1.1.1.1\r\n\r\n", []string{
			`POST HTTP/1.1 host=h path="/" raw="" query="" len=-1 close=false body="a" trailer X-Sum=["1"]`}},
		{"body on GET", "GET / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhello", []string{
			`GET HTTP/1.1 host=h path="/" raw="" query="" len=5 close=false body="hello"`}},
		{"escapes kept", "GET /a%2Fb/%20?x=%41;y&z HTTP/1.1\r\nHost: h\r\n\r\n", []string{
			`GET HTTP/1.1 host=h path="/a/b/ " raw="/a%2Fb/%20" query="x=%41;y&z" len=0 close=false body=""`}},
		{"double slash", "GET //x/y HTTP/1.1\r\nHost: h\r\n\r\n", []string{
			`GET HTTP/1.1 host=h path="//x/y" raw="" query="" len=0 close=false body=""`}},
		{"absolute form", "GET http://H:81/x HTTP/1.1\r\nHost: h:81\r\n\r\n", []string{
			`GET HTTP/1.1 host=H:81 path="/x" raw="" query="" len=0 close=false body=""`}},
		{"IPv6 host", "GET / HTTP/1.1\r\nHost: [::1]:80\r\n\r\n", []string{
			`GET HTTP/1.1 host=[::1]:80 path="/" raw="" query="" len=0 close=false body=""`}},
		{"OPTIONS *", "OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n", []string{
			`OPTIONS HTTP/1.1 host=h path="*" raw="" query="" len=0 close=false body=""`}},
		{"100 fields", "GET / HTTP/1.1\r\nHost: h\r\n" + strings.Repeat("X: y\r\n", 99) + "\r\n", []string{
			`GET HTTP/1.1 host=h path="/" raw="" query="" len=0 close=false body=""`}},
		{"cut body", "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhe", []string{
			`POST HTTP/1.1 host=h path="/" raw="" query="" len=5 close=false body="he" err=http1: body ended early`}},
		{"chunk too long for its size", "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello!!\r\n0\r\n\r\n", []string{
			`POST HTTP/1.1 host=h path="/" raw="" query="" len=-1 close=false body="hello" err=http1: chunk does not end with CRLF`}},
		{"later chunk malformed", "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n5\nhello\r\n0\r\n\r\n", []string{
			`POST HTTP/1.1 host=h path="/" raw="" query="" len=-1 close=false body="hello" err=http1: line ends without CR`}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			mu.Lock()
			got = nil
			mu.Unlock()
			answer := talk(t, addr, tt.in)
			mu.Lock()
			defer mu.Unlock()
			if g, w := strings.Join(got, "\n"), strings.Join(tt.want, "\n"); g != w {
				t.Errorf("handler saw\n%s\nwant\n%s", g, w)
			}
			if n := strings.Count(answer, " 200 OK\r\n"); n != len(tt.want) {
				t.Errorf("%d answers in %q, want %d", n, answer, len(tt.want))
			}
		})
	}
}

// A head may come byte by byte.
func TestServerTakesBytes(t *testing.T) {
	addr := serve(t, &Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, seen(r)) })})
	nc := dial(t, addr)
	for _, b := range []byte("POST /x HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n") {
		if _, err := nc.Write([]byte{b}); err != nil {
			t.Fatal(err)
		}
	}
	resp, err := http.ReadResponse(bufio.NewReader(nc), nil)
	if err != nil {
		t.Fatal(err)
	}
	b, _ := io.ReadAll(resp.Body)
	if !bytes.Contains(b, []byte(`body="ab"`)) {
		t.Errorf("handler saw %s", b)
	}
}

func TestServerResponses(t *testing.T) {
	big := strings.Repeat("x", 100<<10)
	for _, tt := range []struct {
		name, in string
		h        http.HandlerFunc
		want     []string // what the answer must hold
		not      []string
	}{
		{"length of a small body", "GET / HTTP/1.1\r\nHost: h\r\n\r\n", func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "abc") },
			[]string{"\r\nContent-Length: 3\r\n", "\r\n\r\nabc", "\r\nDate: "}, []string{"chunked", "Connection", "Content-Type"}},
		{"empty", "GET / HTTP/1.1\r\nHost: h\r\n\r\n", func(http.ResponseWriter, *http.Request) {}, []string{"200 OK", "\r\nContent-Length: 0\r\n"}, nil},
		{"unknown length", "GET / HTTP/1.1\r\nHost: h\r\n\r\n", func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, big) },
			[]string{"\r\nTransfer-Encoding: chunked\r\n", "\r\n19000\r\nxxx", "\r\n0\r\n\r\n"}, []string{"Content-Length"}},
		{"unknown length in 1.0", "GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, big) },
			[]string{"\r\nConnection: close\r\n"}, []string{"Content-Length", "chunked"}},
		{"keep-alive in 1.0", "GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "a") },
			[]string{"HTTP/1.0 200 OK", "\r\nConnection: keep-alive\r\n"}, nil},
		{"HEAD", "HEAD / HTTP/1.1\r\nHost: h\r\n\r\n", func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Length", "5")
			io.WriteString(w, "hello")
		}, []string{"\r\nContent-Length: 5\r\n"}, []string{"hello"}},
		{"204", "GET / HTTP/1.1\r\nHost: h\r\n\r\n", func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(204) }, []string{"204 No Content"}, []string{"Content-Length", "chunked"}},
		{"304", "GET / HTTP/1.1\r\nHost: h\r\n\r\n", func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Length", "7")
			w.WriteHeader(304)
		}, []string{"304 Not Modified", "Content-Length: 7"}, []string{"chunked"}},
		{"103 then 200", "GET / HTTP/1.1\r\nHost: h\r\n\r\n", func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Link", "</x>")
			w.WriteHeader(103)
			w.Header().Del("Link")
			io.WriteString(w, "x")
		}, []string{"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\nHTTP/1.1 200 OK\r\n"}, nil},
		{"trailer", "GET / HTTP/1.1\r\nHost: h\r\n\r\n", func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Trailer", "X-Sum")
			io.WriteString(w, "x")
			w.Header().Set("X-Sum", "1")
			w.Header().Set(http.TrailerPrefix+"X-Late", "2")
		}, []string{"Transfer-Encoding: chunked", "\r\n0\r\nX-Sum: 1\r\nX-Late: 2\r\n\r\n"}, nil},
		{"no response splitting", "GET / HTTP/1.1\r\nHost: h\r\n\r\n", func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("X", "a\r\nEvil: 1")
			w.Header()["Bad Name\r\nEvil"] = []string{"x"}
		}, []string{"X: a  Evil: 1\r\n"}, []string{"\r\nEvil"}},
		{"Expect", "POST / HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\nab", func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, seen(r)) },
			[]string{"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n", `body="ab"`}, nil},
		{"Expect refused", "POST / HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n", func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(403) },
			[]string{"HTTP/1.1 403 Forbidden\r\n"}, []string{"100 Continue"}},
		{"panic", "GET / HTTP/1.1\r\nHost: h\r\n\r\n", func(http.ResponseWriter, *http.Request) { panic("x") }, []string{"500 Internal Server Error", "Connection: close"}, nil},
		{"handler's close", "GET / HTTP/1.1\r\nHost: h\r\n\r\nGET / HTTP/1.1\r\nHost: h\r\n\r\n", func(w http.ResponseWriter, r *http.Request) { w.Header().Set("Connection", "close") }, []string{"Connection: close"}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := talk(t, serve(t, &Server{Handler: tt.h}), tt.in)
			for _, s := range tt.want {
				if !strings.Contains(got, s) {
					t.Errorf("answer %.400q lacks %q", got, s)
				}
			}
			for _, s := range tt.not {
				if strings.Contains(got, s) {
					t.Errorf("answer %.400q holds %q", got, s)
				}
			}
		})
	}
}

// A body that the handler left alone never becomes the next request.
func TestServerDrains(t *testing.T) {
	var paths []string
	addr := serve(t, &Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		paths = append(paths, r.URL.Path)
		io.WriteString(w, "ok")
	})})
	smuggled := "GET /smuggled HTTP/1.1\r\nHost: h\r\n\r\n"
	talk(t, addr, fmt.Sprintf("POST /1 HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n%sGET /2 HTTP/1.1\r\nHost: h\r\n\r\n", len(smuggled), smuggled))
	if got, want := strings.Join(paths, " "), "/1 /2"; got != want {
		t.Errorf("paths = %s, want %s", got, want)
	}
}

// The client goes away while the handler waits: the request's context tells it.
func TestServerClientGone(t *testing.T) {
	began, gone := make(chan struct{}), make(chan error, 1)
	addr := serve(t, &Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		close(began)
		select {
		case <-r.Context().Done():
			gone <- r.Context().Err()
		case <-time.After(5 * time.Second):
			gone <- errors.New("not noticed")
		}
	})})
	nc := dial(t, addr)
	io.WriteString(nc, "GET / HTTP/1.1\r\nHost: h\r\n\r\n")
	<-began
	start := time.Now()
	nc.Close()
	if err := <-gone; err != context.Canceled {
		t.Fatalf("context error = %v, want %v", err, context.Canceled)
	}
	if d := time.Since(start); d > 1500*time.Millisecond {
		t.Errorf("noticed after %v, want about a second at most", d)
	}
}

func TestServerHijack(t *testing.T) {
	addr := serve(t, &Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		nc, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer nc.Close()
		if got := rw.Reader.Buffered(); got < 5 {
			t.Errorf("Buffered() = %d, want 5 at least", got)
		}
		b := make([]byte, 9)
		io.ReadFull(rw, b)
		fmt.Fprintf(nc, "got %s", b)
	})})
	nc := dial(t, addr)
	io.WriteString(nc, "GET / HTTP/1.1\r\nHost: h\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\nearly")
	io.WriteString(nc, "late")
	b, _ := io.ReadAll(nc)
	if got, want := string(b), "got earlylate"; got != want {
		t.Errorf("tunnel said %q, want %q", got, want)
	}
}

func TestServerTimeouts(t *testing.T) {
	addr := serve(t, &Server{HeadTimeout: 100 * time.Millisecond, IdleTimeout: 100 * time.Millisecond, BodyTimeout: 100 * time.Millisecond,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, err := io.ReadAll(r.Body)
			w.WriteHeader(max(StatusOf(err), 200))
		})})
	for _, tt := range []struct{ name, in, want string }{
		{"idle", "", ""},
		{"head", "GET / HT", "HTTP/1.1 408 "},
		{"body", "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nab", "HTTP/1.1 408 "},
		{"first chunk line", "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n", "HTTP/1.1 408 "},
	} {
		t.Run(tt.name, func(t *testing.T) {
			nc := dial(t, addr)
			io.WriteString(nc, tt.in)
			b, err := io.ReadAll(nc)
			if err != nil || !strings.HasPrefix(string(b), tt.want) || tt.want == "" && len(b) > 0 {
				t.Errorf("answer = %q, %v, want %s", b, err, tt.want)
			}
		})
	}
}

func TestServerShedIdle(t *testing.T) {
	s := &Server{Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})}
	addr := serve(t, s)
	var conns []*net.TCPConn
	for range 3 {
		nc := dial(t, addr)
		io.WriteString(nc, "GET / HTTP/1.1\r\nHost: h\r\n\r\n")
		if _, err := http.ReadResponse(bufio.NewReader(nc), nil); err != nil {
			t.Fatal(err)
		}
		conns = append(conns, nc)
	}
	s.ShedIdle()
	if _, err := conns[0].Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("the connection that waited longest: %v, want its end", err)
	}
	io.WriteString(conns[2], "GET / HTTP/1.1\r\nHost: h\r\n\r\n")
	if _, err := http.ReadResponse(bufio.NewReader(conns[2]), nil); err != nil {
		t.Errorf("a connection that was not shed: %v", err)
	}
}

func TestServerShutdown(t *testing.T) {
	began, finish := make(chan struct{}), make(chan struct{})
	s := &Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			close(began)
			<-finish
		}
		io.WriteString(w, "ok")
	})}
	addr := serve(t, s)
	idle, busy := dial(t, addr), dial(t, addr)
	io.WriteString(idle, "GET / HTTP/1.1\r\nHost: h\r\n\r\n")
	ir := bufio.NewReader(idle)
	if _, err := http.ReadResponse(ir, nil); err != nil {
		t.Fatal(err)
	}
	io.WriteString(busy, "GET /slow HTTP/1.1\r\nHost: h\r\n\r\n")
	<-began
	down := make(chan error, 1)
	go func() { down <- s.Shutdown(context.Background()) }()
	io.ReadFull(ir, make([]byte, 2))
	if _, err := ir.ReadByte(); err == nil {
		t.Error("idle connection is still open")
	}
	if nc, err := net.Dial("tcp", addr); err == nil {
		nc.Close()
		t.Error("new connection was accepted")
	}
	close(finish)
	b, err := io.ReadAll(busy)
	if err != nil || !strings.Contains(string(b), "200 OK") || !strings.Contains(string(b), "Connection: close") || !strings.HasSuffix(string(b), "ok") {
		t.Errorf("request in flight got %q, %v", b, err)
	}
	if err := <-down; err != nil {
		t.Errorf("Shutdown = %v", err)
	}
}
