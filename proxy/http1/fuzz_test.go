package http1

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"net/http"
	"net/url"
	"reflect"
	"strings"
	"testing"
	"time"
)

// bytesConn is a net.Conn that reads a text and forgets what is written.
type bytesConn struct {
	r *bytes.Reader
	w bytes.Buffer
}

func (c *bytesConn) Read(p []byte) (int, error)       { return c.r.Read(p) }
func (c *bytesConn) Write(p []byte) (int, error)      { return c.w.Write(p) }
func (c *bytesConn) Close() error                     { return nil }
func (c *bytesConn) LocalAddr() net.Addr              { return &net.TCPAddr{} }
func (c *bytesConn) RemoteAddr() net.Addr             { return &net.TCPAddr{} }
func (c *bytesConn) SetDeadline(time.Time) error      { return nil }
func (c *bytesConn) SetReadDeadline(time.Time) error  { return nil }
func (c *bytesConn) SetWriteDeadline(time.Time) error { return nil }

// parsed is what a parser made of one request.
type parsed struct {
	method, proto, host, uri, path, rawPath, query string
	header                                         http.Header
	trailer                                        http.Header
	length                                         int64
	chunked, close                                 bool
	body                                           string
}

func snapshot(r *http.Request) (parsed, error) {
	b, err := io.ReadAll(r.Body)
	p := parsed{r.Method, r.Proto, r.Host, r.RequestURI, r.URL.Path, r.URL.RawPath, r.URL.RawQuery, r.Header.Clone(), nil, r.ContentLength,
		len(r.TransferEncoding) == 1, r.Close, string(b)}
	for k, vv := range r.Trailer {
		if len(vv) > 0 {
			if p.trailer == nil {
				p.trailer = http.Header{}
			}
			p.trailer[k] = append([]string(nil), vv...)
		}
	}
	return p, err
}

// FuzzRequest compares the server with net/http's parser. Whatever is accepted here must be accepted there and mean
// the same, request by request, down to where the next one starts. What only net/http accepts is a refusal on this
// side and fine. These differences are meant: trailers that frame or route are dropped here, and so is a Trailer field
// where no chunked body can carry one; "Pragma: no-cache" does not add a Cache-Control.
func FuzzRequest(f *testing.F) {
	for _, tt := range refused {
		if len(tt.in) < 1000 {
			f.Add([]byte(tt.in))
		}
	}
	f.Add([]byte("GET /a?b HTTP/1.1\r\nHost: h\r\n\r\nPOST / HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\nabGET / HTTP/1.1\r\nHost: h\r\n\r\n"))
	f.Add([]byte("POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nTrailer: X\r\n\r\n1;a=b\r\nx\r\n0\r\nX: y\r\n\r\n"))
	f.Add([]byte("GET http://h/%41%2f HTTP/1.0\r\nHost: h\r\nConnection: keep-alive, x\r\n\r\n"))
	f.Fuzz(func(t *testing.T, in []byte) {
		var got []parsed
		var bad error
		nc := &bytesConn{r: bytes.NewReader(in)}
		s := &Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Header["Expect"] != nil {
				r.Close = true
			}
			p, err := snapshot(r)
			got = append(got, p)
			if err != nil {
				bad = err
			}
		})}
		s.ServeConn(nc)
		br := bufio.NewReaderSize(bytes.NewReader(in), len(in)+16)
		for i, g := range got {
			if bad != nil && i == len(got)-1 {
				return // a body that turned out malformed: the connection ended with it
			}
			r, err := http.ReadRequest(br)
			if err != nil {
				t.Fatalf("request %d: accepted here, refused by net/http: %v", i, err)
			}
			w, err := snapshot(r)
			if err != nil {
				t.Fatalf("request %d: body accepted here, refused by net/http: %v", i, err)
			}
			for k := range w.trailer {
				if !trailerAllowed(k) {
					delete(w.trailer, k)
				}
			}
			if len(w.trailer) == 0 {
				w.trailer = nil
			}
			if g.header["Pragma"] != nil {
				delete(w.header, "Cache-Control")
				delete(g.header, "Cache-Control")
			}
			if r.URL.Host != "" && strings.EqualFold(r.URL.Host, g.host) {
				w.host = g.host
			}
			if !g.chunked {
				delete(w.header, "Trailer")
			}
			g.close, w.close = false, false
			if !reflect.DeepEqual(g, w) {
				t.Fatalf("request %d differs:\nhere     %+v\nnet/http %+v", i, g, w)
			}
		}
	})
}

// FuzzResponse does the same for responses.
func FuzzResponse(f *testing.F) {
	f.Add([]byte("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"), false)
	f.Add([]byte("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nX: y\r\n\r\n"), false)
	f.Add([]byte("HTTP/1.0 404 \r\n\r\nto the end"), true)
	f.Fuzz(func(t *testing.T, in []byte, head bool) {
		method := "GET"
		if head {
			method = "HEAD"
		}
		nc := &bytesConn{r: bytes.NewReader(in)}
		tr := &Transport{Dial: nil, MaxRequests: -1}
		tr.once.Do(tr.defaults)
		u := &upConn{pool: &pool{t: tr, open: 1}, nc: nc, hdr: http.Header{}}
		u.src.init(nc)
		r := &http.Request{Method: method, URL: &url.URL{Scheme: "http", Host: "h", Path: "/"}}
		resp, err := u.roundTrip(r)
		if err != nil {
			return
		}
		code, header := resp.StatusCode, resp.Header.Clone()
		b, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil {
			return
		}
		br := bufio.NewReader(bytes.NewReader(in))
		var w *http.Response
		for {
			if w, err = http.ReadResponse(br, r); err != nil {
				t.Fatalf("accepted here, refused by net/http: %v", err)
			}
			if w.StatusCode >= 200 {
				break
			}
		}
		wb, err := io.ReadAll(w.Body)
		if err != nil {
			t.Fatalf("body accepted here, refused by net/http: %v", err)
		}
		if code != w.StatusCode || !bytes.Equal(b, wb) {
			t.Fatalf("here %d %q, net/http %d %q", code, b, w.StatusCode, wb)
		}
		delete(header, "Connection")
		delete(w.Header, "Connection")
		if header["Pragma"] != nil {
			delete(w.Header, "Cache-Control")
			delete(header, "Cache-Control")
		}
		if !reflect.DeepEqual(header, w.Header) {
			t.Fatalf("here %q, net/http %q", header, w.Header)
		}
	})
}
