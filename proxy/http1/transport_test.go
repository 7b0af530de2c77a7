package http1

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/textproto"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// rawUpstream accepts connections and hands each to f with its number, counting from 0.
func rawUpstream(t testing.TB, f func(n int, nc *net.TCPConn, r *bufio.Reader)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	t.Cleanup(func() { l.Close(); wg.Wait() })
	wg.Go(func() {
		for n := 0; ; n++ {
			nc, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer nc.Close()
				nc.SetDeadline(time.Now().Add(10 * time.Second))
				f(n, nc.(*net.TCPConn), bufio.NewReader(nc))
			})
		}
	})
	return l.Addr().String()
}

func request(t testing.TB, method, addr string, body io.Reader) *http.Request {
	t.Helper()
	r, err := http.NewRequest(method, "http://"+addr+"/x?y=z", body)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// fetch makes one round trip and answers "code body" or the error.
func fetch(tr *Transport, r *http.Request) (string, error) {
	resp, err := tr.RoundTrip(r)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	s := fmt.Sprintf("%d %s", resp.StatusCode, b)
	for k, vv := range resp.Trailer {
		s += fmt.Sprintf(" trailer %s=%q", k, vv)
	}
	return s, err
}

// readHead reads a request head off the wire, as text.
func readHead(r *bufio.Reader) (string, error) {
	var b strings.Builder
	for {
		line, err := r.ReadString('\n')
		b.WriteString(line)
		if err != nil || line == "\r\n" {
			return b.String(), err
		}
	}
}

func TestTransportReadsResponses(t *testing.T) {
	const ok = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
	for _, tt := range []struct {
		name, method, answer, want string
		kept                       bool // the connection may carry another request
	}{
		{"length", "GET", ok, "200 ok", true},
		{"no reason", "GET", "HTTP/1.1 200\r\nContent-Length: 2\r\n\r\nok", "200 ok", true},
		{"chunked", "GET", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2;x\r\nok\r\n1\r\n!\r\n0\r\n\r\n", "200 ok!", true},
		{"trailer", "GET", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n2\r\nok\r\n0\r\nX-Sum: 1\r\nContent-Length: 9\r\n\r\n", `200 ok trailer X-Sum=["1"]`, true},
		{"HEAD", "HEAD", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n", "200 ", true},
		{"204", "GET", "HTTP/1.1 204 No Content\r\n\r\n", "204 ", true},
		{"304 with length", "GET", "HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n", "304 ", true},
		{"to its end", "GET", "HTTP/1.1 200 OK\r\n\r\nok", "200 ok", false},
		{"close", "GET", "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok", "200 ok", false},
		{"1.0", "GET", "HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok", "200 ok", false},
		{"1.0 keep-alive", "GET", "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\nok", "200 ok", true},
		{"bytes behind the body", "GET", ok + "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil", "200 ok", false},
		{"1xx first", "GET", "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + ok, "200 ok", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			addr := rawUpstream(t, func(n int, nc *net.TCPConn, r *bufio.Reader) {
				for {
					if _, err := readHead(r); err != nil {
						return
					}
					io.WriteString(nc, tt.answer)
					if !tt.kept {
						nc.CloseWrite()
					}
				}
			})
			tr := &Transport{}
			defer tr.Close()
			for range 2 {
				if got, err := fetch(tr, request(t, tt.method, addr, nil)); err != nil || got != tt.want {
					t.Fatalf("got %q, %v, want %q", got, err, tt.want)
				}
			}
			if got, want := tr.Stats().Reused, int64(0); tt.kept != (got > want) {
				t.Errorf("reused = %d, want reuse %t", got, tt.kept)
			}
		})
	}
}

// An answer that two readers could take for two things is none.
func TestTransportRefusesResponses(t *testing.T) {
	for _, tt := range []struct{ name, answer string }{
		{"CL and TE", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"},
		{"CL twice", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\nok"},
		{"CL bad", "HTTP/1.1 200 OK\r\nContent-Length: 2x\r\n\r\nok"},
		{"TE unknown", "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n"},
		{"bare LF", "HTTP/1.1 200 OK\nContent-Length: 2\n\nok"},
		{"obs-fold", "HTTP/1.1 200 OK\r\nX: a\r\n b\r\nContent-Length: 2\r\n\r\nok"},
		{"NUL", "HTTP/1.1 200 OK\r\nX: a\x00\r\nContent-Length: 2\r\n\r\nok"},
		{"space before colon", "HTTP/1.1 200 OK\r\nContent-Length : 2\r\n\r\nok"},
		{"version", "HTTP/2.0 200 OK\r\nContent-Length: 2\r\n\r\nok"},
		{"code", "HTTP/1.1 20 OK\r\nContent-Length: 2\r\n\r\nok"},
		{"code 999", "HTTP/1.1 999 OK\r\nContent-Length: 2\r\n\r\nok"},
		{"no HTTP", "SSH-2.0-OpenSSH\r\n"},
		{"101 unasked", "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n"},
		{"1xx flood", strings.Repeat("HTTP/1.1 103 Early Hints\r\n\r\n", 100)},
		{"300 KB head", "HTTP/1.1 200 OK\r\nX: " + strings.Repeat("a", 300<<10) + "\r\n\r\n"},
		{"chunk line", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n+2\r\nok\r\n0\r\n\r\n"},
		{"empty", ""},
		{"cut head", "HTTP/1.1 200 OK\r\nContent-"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			addr := rawUpstream(t, func(n int, nc *net.TCPConn, r *bufio.Reader) {
				readHead(r)
				io.WriteString(nc, tt.answer)
				nc.CloseWrite()
				io.Copy(io.Discard, nc)
			})
			tr := &Transport{}
			defer tr.Close()
			if got, err := fetch(tr, request(t, "GET", addr, nil)); err == nil {
				t.Errorf("got %.100q, want an error", got)
			}
			if s := tr.Stats(); s.Open != 0 || s.Idle != 0 {
				t.Errorf("stats = %+v, want no connection left", s)
			}
		})
	}
}

// A body that is cut must not look complete.
func TestTransportCutBodies(t *testing.T) {
	for _, answer := range []string{
		"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nab",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n",
	} {
		addr := rawUpstream(t, func(n int, nc *net.TCPConn, r *bufio.Reader) {
			readHead(r)
			io.WriteString(nc, answer)
		})
		tr := &Transport{}
		if got, err := fetch(tr, request(t, "GET", addr, nil)); err == nil {
			t.Errorf("%q: got %q, want an error", answer, got)
		}
		if s := tr.Stats(); s.Open != 0 {
			t.Errorf("%q: %d connections left", answer, s.Open)
		}
		tr.Close()
	}
}

// What is sent, byte for byte.
func TestTransportWritesRequests(t *testing.T) {
	for _, tt := range []struct {
		name  string
		build func(addr string) *http.Request
		want  string
	}{
		{"GET", func(a string) *http.Request { return request(t, "GET", a, nil) }, "GET /x?y=z HTTP/1.1\r\nHost: ADDR\r\n\r\n"},
		{"fields", func(a string) *http.Request {
			r := request(t, "GET", a, nil)
			r.Host = "h:81"
			r.Header["X"] = []string{"1", "2"}
			return r
		}, "GET /x?y=z HTTP/1.1\r\nHost: h:81\r\nX: 1\r\nX: 2\r\n\r\n"},
		{"escapes", func(a string) *http.Request {
			r := request(t, "GET", a, nil)
			r.URL.Path, r.URL.RawPath, r.URL.RawQuery = "/a/b c", "/a%2Fb%20c", "p=%41;q"
			return r
		}, "GET /a%2Fb%20c?p=%41;q HTTP/1.1\r\nHost: ADDR\r\n\r\n"},
		{"length", func(a string) *http.Request { return request(t, "PUT", a, strings.NewReader("abc")) }, "PUT /x?y=z HTTP/1.1\r\nHost: ADDR\r\nContent-Length: 3\r\n\r\nabc"},
		{"no body", func(a string) *http.Request { return request(t, "POST", a, nil) }, "POST /x?y=z HTTP/1.1\r\nHost: ADDR\r\nContent-Length: 0\r\n\r\n"},
		{"chunked", func(a string) *http.Request {
			r := request(t, "POST", a, struct{ io.Reader }{strings.NewReader("abc")})
			r.Trailer = http.Header{"X-Sum": {"1"}}
			return r
		}, "POST /x?y=z HTTP/1.1\r\nHost: ADDR\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n3\r\nabc\r\n0\r\nX-Sum: 1\r\n\r\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := make(chan string, 1)
			addr := rawUpstream(t, func(n int, nc *net.TCPConn, r *bufio.Reader) {
				b := make([]byte, len(tt.want)-len("ADDR")+len(nc.LocalAddr().String()))
				if !strings.Contains(tt.want, "ADDR") {
					b = b[:len(tt.want)]
				}
				io.ReadFull(r, b)
				got <- string(b)
				io.WriteString(nc, "HTTP/1.1 204 No Content\r\n\r\n")
			})
			tr := &Transport{}
			defer tr.Close()
			if _, err := fetch(tr, tt.build(addr)); err != nil {
				t.Fatal(err)
			}
			if g, w := <-got, strings.ReplaceAll(tt.want, "ADDR", addr); g != w {
				t.Errorf("sent %q\nwant %q", g, w)
			}
		})
	}
	tr := &Transport{}
	for _, bad := range []func(*http.Request){
		func(r *http.Request) { r.Header["X"] = []string{"a\r\nEvil: 1"} },
		func(r *http.Request) { r.Header["X Y"] = []string{"a"} },
		func(r *http.Request) { r.Host = "a b" },
		func(r *http.Request) { r.Host = "a\r\nEvil: 1" },
		func(r *http.Request) { r.Method = "GET /" },
	} {
		r := request(t, "GET", "127.0.0.1:1", nil)
		bad(r)
		if _, err := tr.RoundTrip(r); !errors.Is(err, ErrNotSent) {
			t.Errorf("RoundTrip(%v %v) = %v, want an error of ErrNotSent", r.Method, r.Header, err)
		}
	}
}

// The upstream closes an idle connection in the same moment: a GET goes out on another, a POST of which bytes were
// sent does not.
func TestTransportDeadReusedConnection(t *testing.T) {
	var executed atomic.Int64
	start := func(t *testing.T) (*Transport, string) {
		executed.Store(0)
		addr := rawUpstream(t, func(n int, nc *net.TCPConn, r *bufio.Reader) {
			for i := 0; ; i++ {
				if _, err := readHead(r); err != nil {
					return
				}
				if n == 0 && i == 1 {
					nc.SetLinger(0) // read the second request and die of it
					return
				}
				executed.Add(1)
				io.WriteString(nc, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
			}
		})
		tr := &Transport{}
		t.Cleanup(tr.Close)
		if _, err := fetch(tr, request(t, "GET", addr, nil)); err != nil {
			t.Fatal(err)
		}
		return tr, addr
	}
	tr, addr := start(t)
	if got, err := fetch(tr, request(t, "GET", addr, nil)); err != nil || got != "200 ok" {
		t.Errorf("GET = %q, %v, want it to be retried", got, err)
	}
	if s := tr.Stats(); s.Retried != 1 {
		t.Errorf("retried = %d, want 1", s.Retried)
	}
	tr, addr = start(t)
	if got, err := fetch(tr, request(t, "POST", addr, strings.NewReader("x"))); err == nil || errors.Is(err, ErrNotSent) {
		t.Errorf("POST = %q, %v, want an error that does not claim it was not sent", got, err)
	}
	if n := executed.Load(); n != 1 {
		t.Errorf("executed %d requests, want 1", n)
	}
}

// A connection on which the upstream spoke unasked, or that it closed, is never used again.
func TestTransportStaleConnection(t *testing.T) {
	for _, unasked := range []string{"", "HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n\r\n"} {
		spoke := make(chan struct{}, 2)
		addr := rawUpstream(t, func(n int, nc *net.TCPConn, r *bufio.Reader) {
			if _, err := readHead(r); err != nil {
				return
			}
			fmt.Fprintf(nc, "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n%d", n)
			if n == 0 {
				<-spoke
				io.WriteString(nc, unasked)
				if unasked == "" {
					nc.CloseWrite()
				}
				spoke <- struct{}{}
				readHead(r)
			}
		})
		tr := &Transport{}
		if got, err := fetch(tr, request(t, "GET", addr, nil)); got != "200 0" {
			t.Fatal(got, err)
		}
		spoke <- struct{}{}
		<-spoke
		r := request(t, "POST", addr, strings.NewReader("x"))
		if got, err := fetch(tr, r); err != nil || got != "200 1" {
			t.Errorf("after %q: %q, %v, want a fresh connection", unasked, got, err)
		}
		tr.Close()
	}
}

func TestTransportRetiresConnections(t *testing.T) {
	ts := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {}))
	defer ts.Close()
	tr := &Transport{MaxRequests: 10}
	defer tr.Close()
	for range 60 {
		if _, err := fetch(tr, request(t, "GET", ts.Listener.Addr().String(), nil)); err != nil {
			t.Fatal(err)
		}
	}
	if s := tr.Stats(); s.Retired < 5 || s.Retired > 7 {
		t.Errorf("retired = %d of 60 requests at 10 each, want 5 to 7", s.Retired)
	}
}

func TestTransportLimits(t *testing.T) {
	release := make(chan struct{})
	ts := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { <-release }))
	defer ts.Close()
	tr := &Transport{MaxConns: 1, MaxPending: 1}
	defer tr.Close()
	addr := ts.Listener.Addr().String()
	done := make(chan error, 2)
	for range 2 {
		go func() { _, err := fetch(tr, request(t, "GET", addr, nil)); done <- err }()
	}
	for s := tr.Stats(); s.Open != 1 || s.Pending != 1; s = tr.Stats() {
		if t.Context().Err() != nil {
			t.Fatal("no request waits")
		}
	}
	if _, err := fetch(tr, request(t, "GET", addr, nil)); !errors.Is(err, ErrOverflow) || !errors.Is(err, ErrNotSent) {
		t.Errorf("third request = %v, want %v", err, ErrOverflow)
	}
	close(release)
	for range 2 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	if s := tr.Stats(); s.Open != 1 || s.Overflow != 1 || s.Pending != 0 {
		t.Errorf("stats = %+v", s)
	}
}

func TestTransportIdleTimeout(t *testing.T) {
	ended := make(chan struct{})
	addr := rawUpstream(t, func(n int, nc *net.TCPConn, r *bufio.Reader) {
		readHead(r)
		io.WriteString(nc, "HTTP/1.1 204 No Content\r\n\r\n")
		r.ReadByte()
		close(ended)
	})
	tr := &Transport{IdleTimeout: 50 * time.Millisecond}
	defer tr.Close()
	if _, err := fetch(tr, request(t, "GET", addr, nil)); err != nil {
		t.Fatal(err)
	}
	<-ended
}

func TestTransportTimeouts(t *testing.T) {
	addr := rawUpstream(t, func(n int, nc *net.TCPConn, r *bufio.Reader) {
		head, _ := readHead(r)
		if strings.HasPrefix(head, "PUT") {
			io.WriteString(nc, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n")
		}
		r.ReadByte()
	})
	tr := &Transport{HeaderTimeout: 100 * time.Millisecond, BodyTimeout: 100 * time.Millisecond}
	defer tr.Close()
	for _, method := range []string{"GET", "PUT"} {
		start := time.Now()
		_, err := fetch(tr, request(t, method, addr, nil))
		var to interface{ Timeout() bool }
		if d := time.Since(start); err == nil || d < 90*time.Millisecond || d > time.Second {
			t.Errorf("%s: %v after %v, want a timeout after 100 ms", method, err, d)
		}
		if method == "GET" && (!errors.As(err, &to) || !to.Timeout()) {
			t.Errorf("%s: %v, want a timeout", method, err)
		}
	}
}

func TestTransportCancel(t *testing.T) {
	began, gone := make(chan struct{}), make(chan struct{})
	addr := rawUpstream(t, func(n int, nc *net.TCPConn, r *bufio.Reader) {
		readHead(r)
		close(began)
		r.ReadByte()
		close(gone)
	})
	tr := &Transport{}
	defer tr.Close()
	ctx, cancel := context.WithCancel(context.Background())
	go func() { <-began; cancel() }()
	if _, err := fetch(tr, request(t, "GET", addr, nil).WithContext(ctx)); !errors.Is(err, context.Canceled) {
		t.Errorf("RoundTrip = %v, want %v", err, context.Canceled)
	}
	<-gone
}

// The upstream answers before it has had the body, and the answer gets through; the connection is not used again.
func TestTransportEarlyResponse(t *testing.T) {
	addr := rawUpstream(t, func(n int, nc *net.TCPConn, r *bufio.Reader) {
		if _, err := readHead(r); err != nil {
			return
		}
		fmt.Fprintf(nc, "HTTP/1.1 413 Content Too Large\r\nContent-Length: 1\r\n\r\n%d", n)
		r.ReadByte()
	})
	tr := &Transport{}
	defer tr.Close()
	for n := range 2 {
		pr, pw := io.Pipe()
		r := request(t, "POST", addr, pr)
		go io.WriteString(pw, "some, but never all")
		if got, err := fetch(tr, r); err != nil || got != fmt.Sprintf("413 %d", n) {
			t.Errorf("got %q, %v, want 413 %d", got, err, n)
		}
		pw.Close()
	}
}

// Request and response stream at the same time.
func TestTransportDuplex(t *testing.T) {
	ts := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.NewResponseController(w).EnableFullDuplex()
		w.WriteHeader(200)
		http.NewResponseController(w).Flush()
		b := make([]byte, 4)
		for {
			n, err := r.Body.Read(b)
			w.Write(b[:n])
			http.NewResponseController(w).Flush()
			if err != nil {
				return
			}
		}
	}))
	defer ts.Close()
	tr := &Transport{}
	defer tr.Close()
	pr, pw := io.Pipe()
	resp, err := tr.RoundTrip(request(t, "POST", ts.Listener.Addr().String(), pr))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	for range 3 {
		io.WriteString(pw, "ping")
		b := make([]byte, 4)
		if _, err := io.ReadFull(resp.Body, b); err != nil || string(b) != "ping" {
			t.Fatalf("echo = %q, %v", b, err)
		}
	}
	pw.Close()
	if b, err := io.ReadAll(resp.Body); err != nil || len(b) > 0 {
		t.Errorf("end = %q, %v", b, err)
	}
}

func TestTransportExpectContinue(t *testing.T) {
	for _, tt := range []struct{ name, first, want string }{
		{"continue", "HTTP/1.1 100 Continue\r\n\r\n", "200 abc"},
		{"silent", "", "200 abc"},
		{"refused", "HTTP/1.1 417 Expectation Failed\r\nContent-Length: 0\r\n\r\n", "417 "},
	} {
		t.Run(tt.name, func(t *testing.T) {
			addr := rawUpstream(t, func(n int, nc *net.TCPConn, r *bufio.Reader) {
				readHead(r)
				io.WriteString(nc, tt.first)
				b := make([]byte, 3)
				if _, err := io.ReadFull(r, b); err == nil {
					fmt.Fprintf(nc, "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n%s", b)
				}
			})
			tr := &Transport{ContinueTimeout: 50 * time.Millisecond}
			defer tr.Close()
			r := request(t, "POST", addr, strings.NewReader("abc"))
			r.Header.Set("Expect", "100-continue")
			if tt.name == "refused" {
				tr.ContinueTimeout = time.Minute
			}
			if got, err := fetch(tr, r); err != nil || got != tt.want {
				t.Errorf("got %q, %v, want %q", got, err, tt.want)
			}
		})
	}
}

func TestTransport1xx(t *testing.T) {
	addr := rawUpstream(t, func(n int, nc *net.TCPConn, r *bufio.Reader) {
		readHead(r)
		io.WriteString(nc, "HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n")
	})
	tr := &Transport{}
	defer tr.Close()
	var got string
	ctx := httptrace.WithClientTrace(context.Background(), &httptrace.ClientTrace{Got1xxResponse: func(code int, h textproto.MIMEHeader) error {
		got += fmt.Sprint(code, h["Link"])
		return nil
	}})
	if _, err := fetch(tr, request(t, "GET", addr, nil).WithContext(ctx)); err != nil || got != "103 [</x>]" {
		t.Errorf("hook saw %q, %v", got, err)
	}
}

func TestTransportTunnel(t *testing.T) {
	addr := rawUpstream(t, func(n int, nc *net.TCPConn, r *bufio.Reader) {
		readHead(r)
		io.WriteString(nc, "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\nfirst ")
		b, _ := io.ReadAll(r)
		fmt.Fprintf(nc, "then %s", b)
	})
	tr := &Transport{}
	defer tr.Close()
	r := request(t, "GET", addr, nil)
	r.Header["Connection"], r.Header["Upgrade"] = []string{"upgrade"}, []string{"x"}
	resp, err := tr.RoundTrip(r)
	if err != nil || resp.StatusCode != 101 {
		t.Fatal(resp, err)
	}
	rw := resp.Body.(io.ReadWriteCloser)
	io.WriteString(rw, "mine")
	rw.(interface{ CloseWrite() error }).CloseWrite()
	if b, err := io.ReadAll(rw); err != nil || string(b) != "first then mine" {
		t.Errorf("tunnel = %q, %v", b, err)
	}
	rw.Close()
	if s := tr.Stats(); s.Open != 0 {
		t.Errorf("open = %d, want 0", s.Open)
	}
}

// Close ends a Read that waits, and touches nothing that the Read uses.
func TestTransportTunnelClose(t *testing.T) {
	addr := rawUpstream(t, func(n int, nc *net.TCPConn, r *bufio.Reader) {
		readHead(r)
		io.WriteString(nc, "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\nfirst")
		r.ReadByte()
	})
	tr := &Transport{}
	defer tr.Close()
	r := request(t, "GET", addr, nil)
	r.Header["Connection"], r.Header["Upgrade"] = []string{"upgrade"}, []string{"x"}
	resp, err := tr.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	read := make(chan string)
	go func() {
		b, _ := io.ReadAll(resp.Body)
		read <- string(b)
	}()
	resp.Body.Close()
	if got := <-read; got != "" && got != "first" {
		t.Errorf("read %q", got)
	}
}

// An interruption holds, whatever deadline is set at the same moment.
func TestSourceInterrupt(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var s source
	s.init(dial(t, l.Addr().String()))
	s.interrupt()
	s.within(time.Minute, time.Now())
	if err := s.fill(bufferSize); !isTimeout(err) {
		t.Errorf("fill = %v, want a timeout", err)
	}
	s.resume()
	s.within(time.Nanosecond, time.Now().Add(50*time.Millisecond))
	start := time.Now()
	if err := s.fill(bufferSize); !isTimeout(err) || time.Since(start) < 20*time.Millisecond {
		t.Errorf("after resume: fill = %v after %v, want a timeout after 50 ms", err, time.Since(start))
	}
}

func TestTransportTLS(t *testing.T) {
	ts := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "secret") }))
	defer ts.Close()
	r := request(t, "GET", ts.Listener.Addr().String(), nil)
	r.URL.Scheme = "https"
	bad := &Transport{}
	if _, err := fetch(bad, r.Clone(context.Background())); err == nil || !errors.Is(err, ErrNotSent) {
		t.Errorf("unverified certificate: %v, want an error", err)
	}
	tr := &Transport{TLS: ts.Client().Transport.(*http.Transport).TLSClientConfig}
	defer tr.Close()
	for range 2 {
		if got, err := fetch(tr, r.Clone(context.Background())); err != nil || got != "200 secret" {
			t.Errorf("got %q, %v", got, err)
		}
	}
	if tr.Stats().Reused != 1 {
		t.Errorf("stats = %+v, want one reuse", tr.Stats())
	}
}

func TestServerTLS(t *testing.T) {
	ts := httptest.NewUnstartedServer(nil)
	ts.StartTLS()
	cfg := ts.TLS.Clone()
	client := ts.Client()
	ts.Close()
	cfg.NextProtos = nil
	l, err := tls.Listen("tcp", "127.0.0.1:0", cfg)
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.TLS != nil) })}
	go s.Serve(l)
	defer s.Close()
	for range 2 {
		resp, err := client.Get("https://" + l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		b, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if string(b) != "true" {
			t.Errorf("body = %s", b)
		}
	}
}

// Server and Transport together, with bodies of all sizes in both directions.
func TestProxy(t *testing.T) {
	up := serve(t, &Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("length") != "" {
			w.Header().Set("Content-Length", fmt.Sprint(r.ContentLength))
		}
		io.Copy(w, r.Body)
	})})
	tr := &Transport{}
	defer tr.Close()
	front := serve(t, &Server{Handler: forward(tr, up)})
	for _, size := range []int{0, 1, 100, 4 << 10, 10 << 10, 100 << 10, 2 << 20} {
		for _, chunked := range []bool{false, true} {
			for _, length := range []string{"", "?length=1"} {
				body := strings.Repeat("0123456789abcdef", size/16+1)[:size]
				var rd io.Reader = strings.NewReader(body)
				if chunked {
					if length != "" {
						continue
					}
					rd = struct{ io.Reader }{rd}
				}
				resp, err := http.Post("http://"+front+"/"+length, "text/plain", rd)
				if err != nil {
					t.Fatalf("size %d chunked %t: %v", size, chunked, err)
				}
				b, err := io.ReadAll(resp.Body)
				resp.Body.Close()
				if err != nil || string(b) != body {
					t.Errorf("size %d chunked %t%s: %d bytes back, %v", size, chunked, length, len(b), err)
				}
			}
		}
	}
}

// forward is the least a proxy does.
func forward(tr http.RoundTripper, addr string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		u := *r.URL
		u.Scheme, u.Host = "http", addr
		out := *r
		out.URL, out.RequestURI, out.Close = &u, "", false
		delete(out.Header, "Connection")
		resp, err := tr.RoundTrip(&out)
		if err != nil {
			w.WriteHeader(max(StatusOf(err), 502))
			return
		}
		defer resp.Body.Close()
		h := w.Header()
		for k, vv := range resp.Header {
			h[k] = vv
		}
		delete(h, "Connection")
		w.WriteHeader(resp.StatusCode)
		io.Copy(w, resp.Body)
	})
}

// What a proxied request allocates, net/http's own copy of the request in forward included.
func TestProxyAllocs(t *testing.T) {
	up := serve(t, &Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header()["Content-Length"] = two
		io.WriteString(w, "ok")
	})})
	tr := &Transport{}
	defer tr.Close()
	front := serve(t, &Server{Handler: forward(tr, up)})
	nc := dial(t, front)
	buf := make([]byte, 4096)
	in := []byte("GET /x HTTP/1.1\r\nHost: h\r\nUser-Agent: t\r\nAccept: */*\r\nAccept-Encoding: gzip\r\n\r\n")
	got := testing.AllocsPerRun(500, func() {
		nc.Write(in)
		if n, err := nc.Read(buf); err != nil || n < 20 {
			t.Fatal(n, err)
		}
	})
	most := 16.0
	if raceEnabled {
		most = 40 // sync.Pool drops at random under the race detector
	}
	if got > most {
		t.Errorf("%.1f allocations per request on both hops, want %v at most", got, most)
	}
}

var two = []string{"2"}
