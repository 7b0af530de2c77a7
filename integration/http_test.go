package integration

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"
)

// TestRouteOptions sends a request through one route of each option; the routes are tags of one service.
func TestRouteOptions(t *testing.T) {
	t.Parallel()
	v := start(t, nil)
	o := newOrigin(t, "a")
	host := v.name + ".example.com"
	shared.consul.register(t, v.name+"-web", o,
		v.prefix+"/plain",
		v.prefix+"/strip strip=/strip",
		v.prefix+"/prepend prepend=/before",
		v.prefix+"/both strip=/both prepend=/before",
		v.prefix+"/host host=other.example.com",
		v.prefix+"/dst host=dst",
		v.prefix+"/allowed allow=ip:127.0.0.0/8",
		v.prefix+"/forbidden allow=ip:10.0.0.0/8",
		v.prefix+"/denied deny=ip:127.0.0.1",
		v.prefix+"/moved redirect=301,https://www.example.com$path",
		v.prefix+"/moved-host redirect=302,https://$host/there",
		v.prefix+"/exact match=exact",
		v.prefix+"/segment match=segment",
		v.prefix+host+"/",
	)
	v.reaches(5*time.Second, "/plain", "a")
	for _, tt := range []struct {
		uri      string
		host     string
		status   int
		wantURI  string
		wantHost string
		location string
	}{
		{uri: "/plain", wantURI: "/plain"},
		{uri: "/plain?a=1;b=%zz&c", wantURI: "/plain?a=1;b=%zz&c"},
		{uri: "/plain/a%2Fb%20c%23d", wantURI: "/plain/a%2Fb%20c%23d"},
		{uri: "/plains", wantURI: "/plains"},
		{uri: "/strip/x?q", wantURI: "/x?q"},
		{uri: "/strip/a%2Fb", wantURI: "/a%2Fb"},
		{uri: "/strip", wantURI: "/"},
		{uri: "/prepend/x", wantURI: "/before/prepend/x"},
		{uri: "/both/x", wantURI: "/before/x"},
		{uri: "/host", wantURI: "/host", wantHost: "other.example.com"},
		{uri: "/dst", wantURI: "/dst", wantHost: o.addr()},
		{uri: "/allowed", wantURI: "/allowed"},
		{uri: "/forbidden", status: http.StatusForbidden},
		{uri: "/denied", status: http.StatusForbidden},
		{uri: "/plain/../denied/x", status: http.StatusForbidden},
		{uri: "/moved/x?q=1", status: 301, location: "https://www.example.com/moved/x?q=1"},
		{uri: "/moved-host", host: "me.example.com", status: 302, location: "https://me.example.com/there"},
		{uri: "/exact", wantURI: "/exact"},
		{uri: "/exact/x", status: http.StatusNotFound},
		{uri: "/segment/x", wantURI: "/segment/x"},
		{uri: "/segments", status: http.StatusNotFound},
		{uri: "/x", host: strings.ToUpper(host), wantURI: "/x"},
		{uri: "/x", host: host + ":80", wantURI: "/x"},
		{uri: "/x", host: "www." + host, status: http.StatusNotFound},
	} {
		var header []string
		if tt.host != "" {
			header = []string{"Host", tt.host}
		}
		r := v.get(tt.uri, header...)
		if want := max(tt.status, 200); tt.status != 0 && r.status != want || tt.status == 0 && r.status != 200 {
			t.Errorf("GET %s (Host %q): %d %q, want %d", tt.uri, tt.host, r.status, r.body, want)
			continue
		}
		if got := r.header.Get("Location"); got != tt.location {
			t.Errorf("GET %s: Location %q, want %q", tt.uri, got, tt.location)
		}
		if tt.wantURI == "" {
			continue
		}
		e := r.echo(t)
		if e.URI != tt.wantURI {
			t.Errorf("GET %s reaches %s, want %s", tt.uri, e.URI, tt.wantURI)
		}
		if tt.wantHost != "" && e.Host != tt.wantHost {
			t.Errorf("GET %s reaches host %s, want %s", tt.uri, e.Host, tt.wantHost)
		}
	}
}

func TestHeadersThatTheUpstreamGets(t *testing.T) {
	t.Parallel()
	v := start(t, flags{"proxy.header.requestid": "X-Request-Id", "proxy.header.clientip": "X-Client-Ip"})
	shared.consul.register(t, v.name+"-web", newOrigin(t, "a"), v.prefix+"/")
	v.reaches(5*time.Second, "/", "a")
	r := v.get("/", "Host", "www.example.com:81", "X-Forwarded-For", "192.0.2.7", "X-Request-Id", "mine",
		"X-Client-Ip", "192.0.2.8", "Connection", "X-Hop, close", "X-Hop", "1", "Te", "trailers", "Accept-Language", "de")
	h := r.echo(t).Header
	for name, want := range map[string]string{
		"X-Forwarded-For":  "192.0.2.7, 127.0.0.1",
		"X-Forwarded-Host": "www.example.com:81",
		"X-Forwarded-Port": "81",
		"X-Real-Ip":        "127.0.0.1",
		"X-Client-Ip":      "127.0.0.1",
		"X-Hop":            "",
		"Accept-Language":  "de",
		"Accept-Encoding":  "",
	} {
		if got := strings.Join(h.Values(name), "|"); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	if id := h.Get("X-Request-Id"); id == "mine" || len(id) < 32 {
		t.Errorf("X-Request-Id: %q, want a fresh one", id)
	}
	if got := h.Get("X-Forwarded-Proto"); got != "http" {
		t.Errorf("X-Forwarded-Proto: %q, want http", got)
	}
	if got := h.Get("Forwarded"); !strings.Contains(got, "for=127.0.0.1") {
		t.Errorf("Forwarded: %q", got)
	}
}

func TestUntrustedClientsCannotForge(t *testing.T) {
	t.Parallel()
	v := start(t, flags{"proxy.trusted": "10.0.0.0/8"})
	shared.consul.register(t, v.name+"-web", newOrigin(t, "a"), v.prefix+"/")
	v.reaches(5*time.Second, "/", "a")
	h := v.get("/", "X-Real-Ip", "192.0.2.7", "X-Forwarded-Proto", "https", "X-Forwarded-Host", "bank.example",
		"X-Forwarded-Port", "443", "Forwarded", "for=192.0.2.7;proto=https", "X-Forwarded-For", "192.0.2.7").echo(t).Header
	for name, want := range map[string]string{
		"X-Real-Ip": "127.0.0.1", "X-Forwarded-Proto": "http", "X-Forwarded-For": "192.0.2.7, 127.0.0.1",
	} {
		if got := h.Get(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	for _, name := range []string{"Forwarded", "X-Forwarded-Host"} {
		if got := h.Get(name); strings.Contains(got, "192.0.2.7") || strings.Contains(got, "bank.example") {
			t.Errorf("%s: %q comes from the client", name, got)
		}
	}
}

func TestUpstreamErrors(t *testing.T) {
	t.Parallel()
	v := start(t, flags{"proxy.responseheadertimeout": "300ms"})
	gate := make(chan struct{})
	defer close(gate)
	silent := newOriginFunc(t, "silent", func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-gate:
		case <-r.Context().Done():
		}
	})
	garbage := newTCPOrigin(t, "garbage", func(c *net.TCPConn) {
		io.WriteString(c, "this is not HTTP\r\n\r\n")
		c.Close()
	})
	shared.consul.register(t, v.name+"-refused", noOrigin("refused"), v.prefix+"/refused")
	shared.consul.register(t, v.name+"-silent", silent, v.prefix+"/silent")
	shared.consul.register(t, v.name+"-garbage", garbage, v.prefix+"/garbage")
	v.answers(5*time.Second, "/refused", http.StatusBadGateway)
	v.answers(5*time.Second, "/garbage", http.StatusBadGateway)
	v.answers(5*time.Second, "/silent", http.StatusGatewayTimeout)
}

func TestBodiesPassUntouched(t *testing.T) {
	t.Parallel()
	v := start(t, nil)
	shared.consul.register(t, v.name+"-web", newOrigin(t, "a"), v.prefix+"/")
	v.reaches(5*time.Second, "/", "a")
	big := strings.Repeat("0123456789abcdef", 64<<10) // 1 MiB
	for _, method := range []string{"POST", "PUT", "PATCH", "DELETE", "REPORT"} {
		r, err := v.send(v.proxy, method, "/x", big)
		if err != nil || r.status != http.StatusOK {
			t.Fatalf("%s: %d %v", method, r.status, err)
		}
		if e := r.echo(t); e.Method != method || e.Body != big {
			t.Errorf("%s of %d bytes arrives as %s of %d", method, len(big), e.Method, len(e.Body))
		}
	}
	for _, method := range []string{"TRACE", "CONNECT"} {
		conn := dial(t, v.proxy)
		fmt.Fprintf(conn, "%s / HTTP/1.1\r\nHost: example.com:80\r\nConnection: close\r\n\r\n", method)
		res, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil || res.StatusCode < 400 {
			t.Errorf("%s: %v %v, want it refused", method, res, err)
		}
	}
}

func TestWebSocket(t *testing.T) {
	t.Parallel()
	v := start(t, nil)
	o := newOriginFunc(t, "ws", func(w http.ResponseWriter, r *http.Request) {
		conn, err := websocket.Accept(w, r, &websocket.AcceptOptions{Subprotocols: []string{"echo"}})
		if err != nil {
			return
		}
		defer conn.CloseNow()
		for {
			kind, msg, err := conn.Read(r.Context())
			if err != nil {
				return
			}
			if err := conn.Write(r.Context(), kind, append([]byte(r.URL.Path+" "), msg...)); err != nil {
				return
			}
		}
	})
	shared.consul.register(t, v.name+"-ws", o, v.prefix+"/ws strip=/ws")
	v.answers(5*time.Second, "/ws", http.StatusUpgradeRequired)

	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	conn, _, err := websocket.Dial(ctx, "ws://"+v.proxy+"/ws/chat", &websocket.DialOptions{Subprotocols: []string{"echo"}})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.CloseNow()
	if got := conn.Subprotocol(); got != "echo" {
		t.Errorf("subprotocol %q", got)
	}
	for n := range 20 {
		msg := strings.Repeat("x", n*1000)
		if err := conn.Write(ctx, websocket.MessageText, []byte(msg)); err != nil {
			t.Fatal(err)
		}
		_, got, err := conn.Read(ctx)
		if err != nil || string(got) != "/chat "+msg {
			t.Fatalf("message %d: %d bytes, %v", n, len(got), err)
		}
	}
	if n, err := v.metric("ws_conn"); err != nil || n != 1 {
		t.Errorf("ws_conn = %v, %v, want 1", n, err)
	}
	if err := conn.Close(websocket.StatusNormalClosure, "bye"); err != nil {
		t.Errorf("close: %v", err)
	}
	eventually(t, 5*time.Second, "the tunnel is counted out", func() error {
		n, err := v.metric("ws_conn")
		if err == nil && n != 0 {
			err = fmt.Errorf("ws_conn = %v", n)
		}
		return err
	})
}

// TestOtherUpgradesAreDropped: a tunnel that is not a WebSocket would be a hole.
func TestOtherUpgradesAreDropped(t *testing.T) {
	t.Parallel()
	v := start(t, nil)
	shared.consul.register(t, v.name+"-web", newOrigin(t, "a"), v.prefix+"/")
	v.reaches(5*time.Second, "/", "a")
	r := v.get("/", "Connection", "Upgrade, HTTP2-Settings", "Upgrade", "h2c", "HTTP2-Settings", "AAMAAABkAAQAAP__")
	if r.status == http.StatusSwitchingProtocols {
		t.Fatal("h2c upgrade was accepted")
	}
	if r.status == http.StatusOK {
		for _, name := range []string{"Upgrade", "Http2-Settings"} {
			if got := r.echo(t).Header.Get(name); got != "" {
				t.Errorf("upstream got %s: %q", name, got)
			}
		}
	}
}

// TestEventsArriveAtOnce: the origin sends its second event only after the client has seen the first.
func TestEventsArriveAtOnce(t *testing.T) {
	t.Parallel()
	v := start(t, nil)
	next := make(chan struct{})
	o := newOriginFunc(t, "sse", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for n := range 5 {
			fmt.Fprintf(w, "data: %d\n\n", n)
			http.NewResponseController(w).Flush()
			select {
			case <-next:
			case <-r.Context().Done():
				return
			}
		}
	})
	shared.consul.register(t, v.name+"-sse", o, v.prefix+"/sse")
	shared.consul.register(t, v.name+"-ready", newOrigin(t, "ready"), v.prefix+"/ready")
	v.reaches(5*time.Second, "/ready", "ready")
	eventually(t, 5*time.Second, "the route is there", func() error {
		if !strings.Contains(v.table(), "/sse") {
			return fmt.Errorf("table: %s", v.table())
		}
		return nil
	})

	req, err := http.NewRequestWithContext(t.Context(), "GET", "http://"+v.proxy+"/sse", nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := v.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	lines := bufio.NewScanner(res.Body)
	for n := range 5 {
		if !lines.Scan() || lines.Text() != fmt.Sprint("data: ", n) {
			t.Fatalf("event %d: %q, %v", n, lines.Text(), lines.Err())
		}
		lines.Scan() // the empty line
		next <- struct{}{}
	}
	if lines.Scan() {
		t.Errorf("one more line: %q", lines.Text())
	}
}

// TestUploadStreams: the origin answers while the client is still sending, and each gets the other's bytes at once.
func TestUploadStreams(t *testing.T) {
	t.Parallel()
	v := start(t, nil)
	o := newOriginFunc(t, "duplex", func(w http.ResponseWriter, r *http.Request) {
		rc := http.NewResponseController(w)
		rc.EnableFullDuplex()
		lines := bufio.NewScanner(r.Body)
		for lines.Scan() {
			fmt.Fprintln(w, "got", lines.Text())
			rc.Flush()
		}
	})
	shared.consul.register(t, v.name+"-duplex", o, v.prefix+"/duplex")
	v.answers(5*time.Second, "/duplex", http.StatusOK)
	up, send := io.Pipe()
	req, err := http.NewRequestWithContext(t.Context(), "POST", "http://"+v.proxy+"/duplex", up)
	if err != nil {
		t.Fatal(err)
	}
	go fmt.Fprintln(send, "0")
	res, err := v.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	lines := bufio.NewScanner(res.Body)
	for n := range 5 {
		if !lines.Scan() || lines.Text() != fmt.Sprint("got ", n) {
			t.Fatalf("line %d: %q, %v", n, lines.Text(), lines.Err())
		}
		fmt.Fprintln(send, n+1)
	}
	send.Close()
}

func TestTrailersPassBothWays(t *testing.T) {
	t.Parallel()
	v := start(t, nil)
	o := newOriginFunc(t, "trailers", func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		w.Header().Set("Trailer", "X-Sum")
		io.WriteString(w, "body")
		w.Header().Set("X-Sum", "got "+r.Trailer.Get("X-Up"))
	})
	shared.consul.register(t, v.name+"-web", o, v.prefix+"/")
	v.answers(5*time.Second, "/", http.StatusOK)
	req, err := http.NewRequestWithContext(t.Context(), "POST", "http://"+v.proxy+"/", io.NopCloser(strings.NewReader("hello")))
	if err != nil {
		t.Fatal(err)
	}
	req.ContentLength = -1
	req.Trailer = http.Header{"X-Up": {"42"}}
	res, err := v.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if _, err := io.ReadAll(res.Body); err != nil {
		t.Fatal(err)
	}
	if got := res.Trailer.Get("X-Sum"); got != "got 42" {
		t.Errorf("trailer X-Sum = %q, want %q", got, "got 42")
	}
}

func TestInformationalAnswersPass(t *testing.T) {
	t.Parallel()
	v := start(t, nil)
	o := newOriginFunc(t, "early", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Link", "</style.css>; rel=preload")
		w.WriteHeader(http.StatusEarlyHints)
		w.WriteHeader(http.StatusProcessing)
		w.WriteHeader(http.StatusTeapot)
	})
	shared.consul.register(t, v.name+"-web", o, v.prefix+"/")
	v.answers(5*time.Second, "/", http.StatusTeapot)
	var codes []int
	var link string
	trace := &httptrace.ClientTrace{Got1xxResponse: func(code int, h textproto.MIMEHeader) error {
		codes = append(codes, code)
		link = h.Get("Link")
		return nil
	}}
	req, err := http.NewRequestWithContext(httptrace.WithClientTrace(t.Context(), trace), "GET", "http://"+v.proxy+"/", nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := v.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if want := []int{103, 102}; !slices.Equal(codes, want) || !strings.Contains(link, "style.css") {
		t.Errorf("informational answers %v with Link %q, want %v", codes, link, want)
	}
	if res.StatusCode != http.StatusTeapot {
		t.Errorf("status %d", res.StatusCode)
	}
}

// TestDyingUpstream has one instance of six that reads each request and resets the connection without an answer. A GET
// goes to another instance; a POST may have been carried out, so it is answered with an error and not sent again.
func TestDyingUpstream(t *testing.T) {
	t.Parallel()
	v := start(t, nil)
	var posts atomic.Int64
	dies := newTCPOrigin(t, "dies", func(c *net.TCPConn) {
		defer c.Close()
		c.SetLinger(0)
		req, err := http.ReadRequest(bufio.NewReader(c))
		if err != nil {
			return
		}
		io.Copy(io.Discard, req.Body)
		if req.Method == "POST" {
			posts.Add(1)
		}
	})
	for n := range 5 {
		lives := newOriginFunc(t, fmt.Sprint("lives", n), func(w http.ResponseWriter, r *http.Request) {
			if r.Method == "POST" {
				posts.Add(1)
			}
			writeEcho("lives", w, r)
		})
		shared.consul.register(t, v.name+"-web", lives, v.prefix+"/web")
	}
	shared.consul.register(t, v.name+"-web", dies, v.prefix+"/web")
	v.routed(dies.addr())
	for n := range 60 {
		if r := v.get("/web"); r.status != http.StatusOK {
			t.Errorf("GET %d: %d %s", n, r.status, r.body)
		}
	}
	if dies.hits.Load() == 0 {
		t.Fatal("the dying instance was never asked")
	}
	const sent = 60
	failed := 0
	for range sent {
		r, err := v.send(v.proxy, "POST", "/web", "pay 1 coin")
		switch {
		case err != nil:
			t.Errorf("POST: %v", err)
		case r.status == http.StatusBadGateway:
			failed++
		case r.status != http.StatusOK:
			t.Errorf("POST: %d %s", r.status, r.body)
		}
	}
	if n := posts.Load(); n != sent {
		t.Errorf("%d POSTs arrived as %d", sent, n)
	}
	if failed == 0 || failed > 15 {
		t.Errorf("%d of %d POSTs were answered 502, want a sixth", failed, sent)
	}
	t.Logf("%d of %d POSTs met the dying instance and were answered 502", failed, sent)
}

// TestAmbiguousRequestsAreRefused: what two servers could read in two ways, or what names no place, is not forwarded.
func TestAmbiguousRequestsAreRefused(t *testing.T) {
	t.Parallel()
	v := start(t, nil)
	o := newOrigin(t, "a")
	shared.consul.register(t, v.name+"-web", o, v.prefix+"/")
	v.reaches(5*time.Second, "/", "a")
	for _, raw := range []string{
		"GET / HTTP/1.1\r\n\r\n", // no Host
		"GET / HTTP/1.1\r\nHost: a.example\r\nHost: b.example\r\n\r\n",                                                        // two
		"GET / HTTP/1.1\r\nHost: a.example/x\r\n\r\n",                                                                         // not a host
		"GET / HTTP/1.1\r\nHost: user@a.example\r\n\r\n",                                                                      // not a host
		"GET  / HTTP/1.1\r\nHost: a.example\r\n\r\n",                                                                          // two spaces
		"GET / HTTP/1.1\r\nHost : a.example\r\n\r\n",                                                                          // space before the colon
		"GET / HTTP/1.1\r\nHost: a.example\r\nX: a\r\n b\r\n\r\n",                                                             // a folded line
		"POST / HTTP/1.1\r\nHost: a.example\r\nContent-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nG",             // a length beside chunks
		"GET / HTTP/1.1\nHost: a.example\n\n",                                                                                 // bare line feeds
		"GET / HTTP/1.1\r\nHost: a.example\r\nX: a\x00b\r\n\r\n",                                                              // NUL
		"POST / HTTP/1.1\r\nHost: a.example\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd",                            // two lengths
		"POST / HTTP/1.1\r\nHost: a.example\r\nContent-Length: +3\r\n\r\nabc",                                                 // not a number
		"POST / HTTP/1.1\r\nHost: a.example\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",                                  // unknown
		"POST / HTTP/1.1\r\nHost: a.example\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n",    // two
		"GET / HTTP/2.0\r\nHost: a.example\r\n\r\n",                                                                           // no such version here
		"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",                                                                                    // HTTP/2
		"GET / HTTP/1.1\r\nHost: a.example\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\r\n", // no key
		"POST / HTTP/1.1\r\nHost: a.example\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nContent-Length: 0\r\n\r\n", // not a GET
	} {
		before := o.hits.Load()
		conn := dial(t, v.proxy)
		io.WriteString(conn, raw)
		conn.CloseWrite()
		res, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err == nil && (res.StatusCode < 400 || res.StatusCode > 599) {
			t.Errorf("%q: %d, want it refused", raw, res.StatusCode)
		}
		if n := o.hits.Load() - before; n != 0 {
			t.Errorf("%q reached the upstream", raw)
		}
		conn.Close()
	}
}

func TestHTTPSUpstream(t *testing.T) {
	t.Parallel()
	v := start(t, nil)
	o := newTLSOrigin(t, "tls")
	shared.consul.register(t, v.name+"-tls", o, v.prefix+"/unverified proto=https tlsskipverify=true", v.prefix+"/verified proto=https")
	v.answers(5*time.Second, "/unverified", http.StatusOK)
	v.answers(5*time.Second, "/verified", http.StatusBadGateway) // its certificate is signed by nobody we know
}

// dial opens a connection that ends with the test.
func dial(t *testing.T, addr string) *net.TCPConn {
	t.Helper()
	conn, err := net.DialTimeout("tcp", addr, 5*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	conn.SetDeadline(time.Now().Add(20 * time.Second))
	return conn.(*net.TCPConn)
}
