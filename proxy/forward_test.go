package proxy

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"strings"
	"testing"
	"time"
)

func TestBytesPassUntouched(t *testing.T) {
	lines := make(chan []string, 1)
	addr := rawServer(t, func(c net.Conn) {
		r := bufio.NewReader(c)
		var got []string
		for {
			line, err := r.ReadString('\n')
			if err != nil || line == "\r\n" {
				break
			}
			got = append(got, strings.TrimSpace(line))
		}
		lines <- got
		io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 3\r\nX-Up: 1\r\nKeep-Alive: timeout=5\r\nConnection: X-Hop\r\nX-Hop: 1\r\n\r\nabc")
	})
	a := get(t, serve(t, newProxy(t, "route add svc / http://"+addr+"/")), "/a%2fb?q=1;%zz")
	got := <-lines
	if got[0] != "GET /a%2fb?q=1;%zz HTTP/1.1" {
		t.Errorf("request line = %q", got[0])
	}
	for _, line := range got {
		name, _, _ := strings.Cut(line, ":")
		if name == "Accept-Encoding" || name == "User-Agent" || name == "Connection" {
			t.Errorf("invented: %s", line)
		}
	}
	if a.body != "abc" || a.Header.Get("X-Up") != "1" || a.Header["Content-Type"] != nil || a.Header["X-Hop"] != nil || a.Header["Keep-Alive"] != nil {
		t.Errorf("answer = %q %v", a.body, a.Header)
	}
}

func TestStatusesWithoutBody(t *testing.T) {
	up := newUpstream(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/204":
			w.WriteHeader(204)
		case "/304":
			w.Header().Set("Etag", `"1"`)
			w.WriteHeader(304)
		case "/head":
			w.Header().Set("Content-Length", "12345")
		}
	})
	addr := serve(t, newProxy(t, "route add svc / http://"+up.addr+"/"))
	for _, c := range []struct {
		method, target string
		status         int
		length         int64
	}{
		{"GET", "/204", 204, 0}, {"GET", "/304", 304, 0}, {"HEAD", "/head", 200, 12345},
	} {
		conn := dialRaw(t, addr)
		io.WriteString(conn, request(c.method, c.target, ""))
		r := bufio.NewReader(conn)
		a := readAnswer(t, r, c.method)
		if a.StatusCode != c.status || a.body != "" || a.ContentLength != c.length {
			t.Errorf("%s %s = %d %q, length %d", c.method, c.target, a.StatusCode, a.body, a.ContentLength)
		}
		// The connection is in step.
		io.WriteString(conn, request("GET", "/204", ""))
		if a := readAnswer(t, r, "GET"); a.StatusCode != 204 {
			t.Errorf("after %s %s: %d", c.method, c.target, a.StatusCode)
		}
	}
}

// TestStreaming has each side wait for the other's bytes: nothing may be held back.
func TestStreaming(t *testing.T) {
	for _, c := range []struct{ name, contentType, length, flag string }{
		{"events", "text/event-stream", "", "--proxy.globalflushinterval=0"},
		{"unknown length", "text/plain", "", "--proxy.globalflushinterval=0"},
		{"known length, told to flush", "text/plain", "9", "--proxy.globalflushinterval=1s"},
	} {
		t.Run(c.name, func(t *testing.T) {
			next := make(chan bool)
			up := newUpstream(t, func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", c.contentType)
				if c.length != "" {
					w.Header().Set("Content-Length", c.length)
				}
				w.(http.Flusher).Flush()
				for range 3 {
					<-next
					io.WriteString(w, "abc")
					w.(http.Flusher).Flush()
				}
			})
			conn := dialRaw(t, serve(t, newProxy(t, "route add svc / http://"+up.addr+"/", c.flag)))
			io.WriteString(conn, request("GET", "/", ""))
			resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil {
				t.Fatal(err)
			}
			buf := make([]byte, 3)
			for range 3 {
				next <- true
				if _, err := io.ReadFull(resp.Body, buf); err != nil || string(buf) != "abc" {
					t.Fatalf("got %q, %v", buf, err)
				}
			}
		})
	}
}

// TestUploadStreams answers while the request is still being sent.
func TestUploadStreams(t *testing.T) {
	addr := rawServer(t, func(c net.Conn) {
		r := bufio.NewReader(c)
		req, err := http.ReadRequest(r)
		if err != nil {
			return
		}
		buf := make([]byte, 3)
		io.WriteString(c, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
		for {
			if _, err := io.ReadFull(req.Body, buf); err != nil {
				break
			}
			fmt.Fprintf(c, "3\r\n%s\r\n", strings.ToUpper(string(buf)))
		}
		io.WriteString(c, "0\r\n\r\n")
	})
	conn := dialRaw(t, serve(t, newProxy(t, "route add svc / http://"+addr+"/")))
	io.WriteString(conn, "POST / HTTP/1.1\r\nHost: foo.com\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n")
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 3)
	for _, s := range []string{"abc", "def"} {
		if s != "abc" {
			fmt.Fprintf(conn, "3\r\n%s\r\n", s)
		}
		if _, err := io.ReadFull(resp.Body, buf); err != nil || string(buf) != strings.ToUpper(s) {
			t.Fatalf("got %q, %v; want %q", buf, err, strings.ToUpper(s))
		}
	}
	io.WriteString(conn, "0\r\n\r\n")
	if rest, err := io.ReadAll(resp.Body); len(rest) != 0 || err != nil {
		t.Errorf("rest = %q, %v", rest, err)
	}
}

func TestTrailers(t *testing.T) {
	got := make(chan http.Header, 1)
	up := newUpstream(t, func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		got <- r.Trailer.Clone()
		w.Header().Set("Trailer", "X-Sum")
		io.WriteString(w, "body")
		w.Header().Set("X-Sum", "2")
		w.Header().Set(http.TrailerPrefix+"X-Late", "3")
	})
	a := send(t, serve(t, newProxy(t, "route add svc / http://"+up.addr+"/")), "POST / HTTP/1.1\r\nHost: foo.com\r\nTransfer-Encoding: chunked\r\n"+
		"Trailer: X-T, X-Forwarded-For, X_real_ip\r\n\r\n1\r\nx\r\n0\r\nX-T: 1\r\nX-Forwarded-For: 6.6.6.6\r\nX-Unannounced: 1\r\n\r\n")
	if a.StatusCode != 200 {
		t.Fatalf("POST = %d %s", a.StatusCode, a.body)
	}
	if h := <-got; len(h) != 1 || h.Get("X-T") != "1" {
		t.Errorf("upstream's trailers = %v, want X-T only", h)
	}
	if a.body != "body" || a.Trailer.Get("X-Sum") != "2" || a.Trailer.Get("X-Late") != "3" {
		t.Errorf("answer = %q, trailers %v", a.body, a.Trailer)
	}
}

func TestInformationalAnswers(t *testing.T) {
	up := newUpstream(t, func(w http.ResponseWriter, r *http.Request) {
		for i := range 2 {
			w.Header().Set("Link", fmt.Sprint(i))
			w.WriteHeader(http.StatusEarlyHints)
		}
		w.Header().Del("Link")
		w.WriteHeader(200)
	})
	s := serve(t, newProxy(t, "route add svc / http://"+up.addr+"/"))
	var links []string
	ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{Got1xxResponse: func(code int, h textproto.MIMEHeader) error {
		links = append(links, fmt.Sprint(code, h.Get("Link")))
		return nil
	}})
	r, _ := http.NewRequestWithContext(ctx, "GET", "http://"+s+"/", nil)
	resp, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if got := fmt.Sprint(links); got != "[1030 1031]" || resp.StatusCode != 200 || resp.Header["Link"] != nil {
		t.Errorf("1xx = %s, then %d %v", got, resp.StatusCode, resp.Header)
	}
	if a := send(t, s, "GET / HTTP/1.0\r\nHost: foo.com\r\n\r\n"); a.StatusCode != 200 {
		t.Errorf("HTTP/1.0 client got %d first", a.StatusCode)
	}
}

func TestExpectContinue(t *testing.T) {
	up := newUpstream(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/no" {
			w.WriteHeader(413)
			return
		}
		io.Copy(w, r.Body)
	})
	addr := serve(t, newProxy(t, "route add svc / http://"+up.addr+"/"))
	conn := dialRaw(t, addr)
	r := bufio.NewReader(conn)
	io.WriteString(conn, "POST / HTTP/1.1\r\nHost: foo.com\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n")
	if a := readAnswer(t, r, "POST"); a.StatusCode != 100 {
		t.Fatalf("got %d, want 100", a.StatusCode)
	}
	io.WriteString(conn, "hello")
	if a := readAnswer(t, r, "POST"); a.StatusCode != 200 || a.body != "hello" {
		t.Errorf("got %d %q", a.StatusCode, a.body)
	}
	if a := send(t, addr, "POST /no HTTP/1.1\r\nHost: foo.com\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n"); a.StatusCode != 413 {
		t.Errorf("got %d, want 413 without 100", a.StatusCode)
	}
}

func TestTruncatedAnswerIsCut(t *testing.T) {
	for _, c := range []struct{ name, head string }{
		{"length", "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf"},
		{"chunked", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n"},
	} {
		addr := rawServer(t, func(c2 net.Conn) {
			http.ReadRequest(bufio.NewReader(c2))
			io.WriteString(c2, c.head)
		})
		p := newProxy(t, "route add svc / http://"+addr+"/")
		a := get(t, serve(t, p), "/")
		if a.StatusCode != 200 || a.body != "half" || a.err == nil {
			t.Errorf("%s: %d %q, body error %v; want a body that is cut off", c.name, a.StatusCode, a.body, a.err)
		}
	}
}

func TestSilentAnswerIsCut(t *testing.T) {
	hold := make(chan bool)
	defer close(hold)
	addr := rawServer(t, func(c net.Conn) {
		http.ReadRequest(bufio.NewReader(c))
		io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf")
		<-hold
	})
	a := get(t, serve(t, newProxy(t, "route add svc / http://"+addr+"/", "--proxy.upstream.stalltimeout=50ms")), "/")
	if a.StatusCode != 200 || a.err == nil {
		t.Errorf("%d %q, body error %v; want a body that is cut off", a.StatusCode, a.body, a.err)
	}
}

// deadlineConn remembers the read deadline that is set.
type deadlineConn struct {
	net.Conn
	deadline time.Time
}

func (c *deadlineConn) SetReadDeadline(t time.Time) error {
	c.deadline = t
	return nil
}

// TestStallDeadlineIsLifted has a connection get its next request.
func TestStallDeadlineIsLifted(t *testing.T) {
	raw := &deadlineConn{}
	conn := &stdConn{Conn: raw}
	body := &stallBody{ReadCloser: io.NopCloser(strings.NewReader("x")), conn: conn, limit: time.Hour}
	body.Read(make([]byte, 1))
	first := raw.deadline
	if left := time.Until(first); left < 50*time.Minute || left > time.Hour {
		t.Errorf("deadline in %v, want one hour", left)
	}
	body.Read(make([]byte, 1))
	if raw.deadline != first {
		t.Error("the deadline was moved at once")
	}
	newOutgoing(t.Context()).onConn(httptrace.GotConnInfo{Conn: conn, Reused: true})
	if !raw.deadline.IsZero() {
		t.Error("the deadline is still set for the next request")
	}
}

func TestClientGone(t *testing.T) {
	gone := make(chan bool)
	up := newUpstream(t, func(w http.ResponseWriter, r *http.Request) {
		<-r.Context().Done()
		gone <- true
	})
	p := newProxy(t, "route add svc / http://"+up.addr+"/")
	conn := dialRaw(t, serve(t, p))
	io.WriteString(conn, request("GET", "/", ""))
	up.last(t)
	conn.Close()
	select {
	case <-gone:
	case <-time.After(deadline):
		t.Fatal("the upstream request goes on")
	}
	waitFor(t, "the client's leaving to be counted", func() bool {
		s, _ := p.Stats(p.Table().Lookup("", "/", false).Targets[0])
		return s.Codes[4] == 1 && s.InFlight == 0
	})
}

func TestBrokenRequestBody(t *testing.T) {
	up := newUpstream(t, func(w http.ResponseWriter, r *http.Request) { io.Copy(io.Discard, r.Body) })
	p := newProxy(t, "route add svc / http://"+up.addr+"/")
	a := send(t, serve(t, p), "POST / HTTP/1.1\r\nHost: foo.com\r\nTransfer-Encoding: chunked\r\n\r\nnonsense\r\n")
	if a.StatusCode != 400 || a.Header.Get("X-Edge-Error") != "client_body" {
		t.Errorf("POST = %d %v, want 400", a.StatusCode, a.Header)
	}
}

func TestTLSUpstream(t *testing.T) {
	up := serveTLS(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, r.TLS.ServerName) }))
	addr := up.Listener.Addr().String()
	_, port, _ := net.SplitHostPort(addr)
	for _, c := range []struct {
		dst, opts string
		status    int
		sni       string
	}{
		{"https://" + addr, "", 502, ""}, // nobody vouches for it
		{"https://" + addr, "tlsskipverify=true", 200, ""},
		{"https://" + addr, "tlsskipverify=false", 502, ""},
		{"https://" + addr, "tlsskipverify=true host=foo.com", 200, "foo.com"},
		{"https://" + addr, "tlsskipverify=true host=foo.com:8443", 200, "foo.com"},
		{"https://localhost:" + port, "tlsskipverify=true", 200, "localhost"},
		{"https://localhost:" + port, "tlsskipverify=true host=dst", 200, "localhost"},
		{"http://" + addr, "tlsskipverify=true proto=https", 200, ""},
	} {
		p := newProxy(t, fmt.Sprintf("route add svc / %s opts %q", c.dst, c.opts))
		a := get(t, serve(t, p), "/")
		if a.StatusCode != c.status || c.status == 200 && a.body != c.sni {
			t.Errorf("%s %s: %d %q, want %d and SNI %q", c.dst, c.opts, a.StatusCode, a.body, c.status, c.sni)
		}
	}
}

func TestIdleConnectionsAreClosedWithTheTarget(t *testing.T) {
	closed := make(chan bool, 1)
	addr := rawServer(t, func(c net.Conn) {
		r := bufio.NewReader(c)
		http.ReadRequest(r)
		io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
		r.ReadByte()
		closed <- true
	})
	p := newProxy(t, "route add svc / http://"+addr+"/", "--proxy.idleconntimeout=1h")
	if a := get(t, serve(t, p), "/"); a.StatusCode != 200 {
		t.Fatalf("GET / = %d", a.StatusCode)
	}
	setRoutes(t, p, "")
	select {
	case <-closed:
	case <-time.After(deadline / 2):
		t.Error("the idle connection is still open")
	}
}
