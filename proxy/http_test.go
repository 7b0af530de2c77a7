package proxy

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"varco/metrics"
	"varco/route"
)

func TestNoRoute(t *testing.T) {
	p := newProxy(t, "route add svc bar.com/ http://10.0.0.1:1/")
	addr := serve(t, p)
	a := get(t, addr, "/")
	if a.StatusCode != 404 || a.body != "no route\n" || a.Header.Get("X-Edge-Error") != "no_route" {
		t.Errorf("GET / = %d %q %v", a.StatusCode, a.body, a.Header)
	}
	s := snapshot(t, "")
	s.NoRoute = "<h1>nothing here</h1>"
	p.Update(s)
	a = get(t, addr, "/")
	if a.StatusCode != 404 || a.body != s.NoRoute || a.Header.Get("Content-Type") != "text/html; charset=utf-8" {
		t.Errorf("GET / = %d %q %v, want the page", a.StatusCode, a.body, a.Header)
	}
	if a = send(t, addr, "HEAD / HTTP/1.1\r\nHost: foo.com\r\n\r\n"); a.StatusCode != 404 || a.body != "" || a.ContentLength != int64(len(s.NoRoute)) {
		t.Errorf("HEAD / = %d %q, length %d", a.StatusCode, a.body, a.ContentLength)
	}
	if got := p.metrics.NotFound.Value(); got != 3 {
		t.Errorf("notfound = %d, want 3", got)
	}
	for _, status := range []string{"503", "204", "999"} {
		p := newProxy(t, "", "--proxy.noroutestatus="+status)
		if a := get(t, serve(t, p), "/"); fmt.Sprint(a.StatusCode) != status {
			t.Errorf("GET / = %d, want %s", a.StatusCode, status)
		}
	}
}

func TestRouteDown(t *testing.T) {
	p := newProxy(t, "")
	p.Update(route.Snapshot{Services: []route.Service{{Name: "svc", Commands: []route.Command{
		{Verb: route.Add, Service: "svc", Src: "/", Down: true}}}}})
	a := get(t, serve(t, p), "/")
	if a.StatusCode != 503 || a.Header.Get("Retry-After") != "1" || a.Header.Get("X-Edge-Error") != "no_target" {
		t.Errorf("GET / = %d %v", a.StatusCode, a.Header)
	}
	if got := p.metrics.RouteDown.Value(); got != 1 {
		t.Errorf("RouteDown = %d, want 1", got)
	}
}

func TestRefusedBeforeForwarding(t *testing.T) {
	up := newUpstream(t, nil)
	addr := serve(t, newProxy(t, "route add svc / http://"+up.addr+"/"))
	for _, c := range []struct {
		request string
		status  int
		header  string // name and value that the answer must have
	}{
		{"CONNECT foo.com:443 HTTP/1.1\r\nHost: foo.com:443\r\n\r\n", 405, "Allow: " + allowedMethods},
		{"TRACE / HTTP/1.1\r\nHost: foo.com\r\n\r\n", 405, "X-Edge-Error: method"},
		{"OPTIONS * HTTP/1.1\r\nHost: foo.com\r\n\r\n", 200, "Allow: " + allowedMethods},
		{"GET * HTTP/1.1\r\nHost: foo.com\r\n\r\n", 400, "X-Edge-Error: bad_request"},
		{"GET / HTTP/1.1\r\nHost: foo.com\r\nExpect: 200-ok\r\n\r\n", 417, ""},
		{"GET / HTTP/1.1\r\nHost: \r\n\r\n", 400, "X-Edge-Error: bad_request"},
		{"GET / HTTP/1.1\r\nHost: a b\r\n\r\n", 400, ""},
	} {
		a := send(t, addr, c.request)
		if a.StatusCode != c.status {
			t.Errorf("%q = %d, want %d", c.request, a.StatusCode, c.status)
		}
		if missing := missingLine(a.Header, []string{c.header}); c.header != "" && missing != "" {
			t.Errorf("%q: answer has %v, want %s", c.request, a.Header, missing)
		}
		if a.StatusCode == 400 && !a.Close {
			t.Errorf("%q: the connection is kept", c.request)
		}
	}
	up.untouched(t)
}

func TestHTTP10WithoutHost(t *testing.T) {
	up := newUpstream(t, nil)
	a := send(t, serve(t, newProxy(t, "route add svc / http://"+up.addr+"/")), "GET /x HTTP/1.0\r\n\r\n")
	if a.StatusCode != 200 {
		t.Errorf("GET /x = %d, want 200", a.StatusCode)
	}
	if r := up.last(t); r.RequestURI != "/x" {
		t.Errorf("upstream got %s", r.RequestURI)
	}
}

func TestRedirectToItselfGoesOn(t *testing.T) {
	up := newUpstream(t, nil)
	addr := serve(t, newProxy(t, `route add red foo.com/ http://foo.com$path opts "redirect=301"
route add svc / http://`+up.addr+`/`))
	if a := get(t, addr, "/x"); a.StatusCode != 200 {
		t.Errorf("GET /x = %d, want 200 from the host-less route", a.StatusCode)
	}
	if a := get(t, addr, "/x", "X-Forwarded-Proto: https"); a.StatusCode != 301 {
		t.Errorf("GET /x by https = %d, want 301", a.StatusCode)
	}
}

func TestPanicCostsOneRequest(t *testing.T) {
	up := newUpstream(t, nil)
	p := newProxy(t, "route add svc / http://"+up.addr+"/\nroute add bad /panic http://"+up.addr+"/")
	upstreamOf(p.Table().Lookup("", "/panic", false).Pick()).serve = func(*exchange) { panic("injected") }
	addr := serve(t, p)
	a := get(t, addr, "/panic")
	if a.StatusCode != 500 || a.Header.Get("X-Edge-Error") != "panic" {
		t.Errorf("GET /panic = %d %v", a.StatusCode, a.Header)
	}
	if got := p.metrics.Panics.Value(); got != 1 {
		t.Errorf("panics = %d, want 1", got)
	}
	if a := get(t, addr, "/"); a.StatusCode != 200 {
		t.Errorf("GET / = %d afterwards", a.StatusCode)
	}
}

func TestUpdateKeepsWhatStays(t *testing.T) {
	up, other := newUpstream(t, nil), newUpstream(t, nil)
	routes := "route add svc / http://" + up.addr + "/"
	p := newProxy(t, routes)
	addr := serve(t, p)
	get(t, addr, "/")
	target := p.Table().Lookup("", "/", false).Pick()
	before := upstreamOf(target)

	r := p.Update(snapshot(t, routes+"\nroute add other /o http://"+other.addr+"/"))
	if len(r.Added) != 1 || len(r.Removed) != 0 || r.Table != p.Table() {
		t.Errorf("Update = added %q, removed %q", r.Added, r.Removed)
	}
	if got := upstreamOf(p.Table().Lookup("", "/", false).Pick()); got != before {
		t.Error("the target that stayed was bound anew")
	}
	if s, ok := p.Stats(target); !ok || s.Requests != 1 {
		t.Errorf("Stats = %+v, %v; want 1 request", s, ok)
	}
	if got := len(p.pools.byID); got != 2 {
		t.Errorf("%d pools, want 2", got)
	}
	r = p.Update(snapshot(t, "route add other /o http://"+other.addr+"/"))
	if len(r.Added) != 0 || len(r.Removed) != 1 {
		t.Errorf("Update = added %q, removed %q", r.Added, r.Removed)
	}
	if got := len(p.pools.byID); got != 1 {
		t.Errorf("%d pools, want 1", got)
	}
	if got := get(t, addr, "/"); got.StatusCode != 404 {
		t.Errorf("GET / = %d, want 404", got.StatusCode)
	}
}

func TestTargetsShareConnections(t *testing.T) {
	p := newProxy(t, `route add a /a http://10.0.0.1:80/
route add b /b http://10.0.0.1:80/ opts "strip=/b"
route add c /c http://10.0.0.1/
route add d /d https://10.0.0.1:443/
route add e /e https://10.0.0.1:443/ opts "tlsskipverify=true"
route add f /f https://10.0.0.1:443/ opts "host=foo.com"
route add g /g https://10.0.0.1:443/ opts "host=dst"`)
	var ids []string
	for id, pool := range p.pools.byID {
		ids = append(ids, fmt.Sprintf("%+v x%d", id, pool.refs))
		if pool.rt != nil {
			t.Errorf("%+v: made before a request", id)
		}
	}
	if len(ids) != 4 {
		t.Errorf("pools = %q, want 4", ids)
	}
}

func TestCheckLeavesTheTableAlone(t *testing.T) {
	p := newProxy(t, "route add svc / http://10.0.0.1:1/")
	table := p.Table()
	problems := p.Check(snapshot(t, "route add svc / http://10.0.0.1:1/ opts \"nosuch=1\"\nnonsense\nroute add ok /ok http://10.0.0.2:1/"))
	if len(problems) != 2 {
		t.Errorf("Check = %v, want 2 problems", problems)
	}
	if p.Table() != table || len(p.pools.byID) != 1 {
		t.Error("Check changed the proxy")
	}
}

func TestAliases(t *testing.T) {
	p := newProxy(t, `route add a /a http://10.0.0.1:80/ opts "register=two"
route add b /b http://10.0.0.1:80/ opts "register=one"
route add c /c http://10.0.0.1:80/ opts "register=two"`)
	if got := fmt.Sprint(p.Aliases()); got != "[one two]" {
		t.Errorf("Aliases() = %s, want [one two]", got)
	}
}

func TestEveryAnswerIsLogged(t *testing.T) {
	up := newUpstream(t, func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "hello") })
	file := filepath.Join(t.TempDir(), "access.log")
	p := newProxy(t, `route add svc foo.com/ok http://`+up.addr+`/ opts "strip=/ok"
route add svc foo.com/denied http://`+up.addr+`/ opts "deny=ip:127.0.0.1"
route add svc foo.com/red https://bar.com/ opts "redirect=301"
route add svc foo.com/dead http://`+unusedAddr(t)+`/`, "--log.access.target="+file, "--log.access.format=json")
	addr := serve(t, p)
	for _, target := range []string{"/ok/x?y", "/denied", "/red", "/dead", "/none", "/a%zz"} {
		get(t, addr, target, "Host: foo.com")
	}
	if err := p.access.Close(); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for line := range bytes.Lines(b) {
		var e map[string]any
		if err := json.Unmarshal(line, &e); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		got = append(got, fmt.Sprint(e["response_status"]))
		if e["request_uri"] == "/ok/x?y" && (e["upstream_addr"] != up.addr || e["upstream_request_uri"] != "/x?y" ||
			e["upstream_service"] != "svc" || fmt.Sprint(e["response_body_size"]) != "5") {
			t.Errorf("line of the forwarded request: %s", line)
		}
	}
	// net/http answers /a%zz before anyone else sees it.
	if want := "[200 403 301 502 404]"; fmt.Sprint(got) != want {
		t.Errorf("statuses = %v, want %s\n%s", got, want, b)
	}
}

func TestUpstreamErrors(t *testing.T) {
	slow := rawServer(t, func(c net.Conn) { io.Copy(io.Discard, c) })
	nonsense := rawServer(t, func(c net.Conn) {
		bufio.NewReader(c).ReadString('\n')
		io.WriteString(c, "SSH-2.0-OpenSSH\r\n\r\n")
	})
	closes := rawServer(t, func(c net.Conn) { bufio.NewReader(c).ReadString('\n') })
	switches := rawServer(t, func(c net.Conn) {
		http.ReadRequest(bufio.NewReader(c))
		io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: foo\r\n\r\n")
	})
	big := rawServer(t, func(c net.Conn) {
		http.ReadRequest(bufio.NewReader(c))
		io.WriteString(c, "HTTP/1.1 200 OK\r\nX-Big: "+strings.Repeat("x", 300<<10)+"\r\n\r\n")
	})
	interim := rawServer(t, func(c net.Conn) {
		http.ReadRequest(bufio.NewReader(c))
		for range 100 {
			io.WriteString(c, "HTTP/1.1 103 Early Hints\r\n\r\n")
		}
		io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
	})
	tls := serveTLS(t, http.NotFoundHandler()).Listener.Addr().String()
	p := newProxy(t, `route add a /nonsense http://`+nonsense+`/
route add a /closes http://`+closes+`/
route add a /switches http://`+switches+`/
route add a /big http://`+big+`/
route add a /interim http://`+interim+`/
route add a /tls https://`+tls+`/
route add a /dead http://`+unusedAddr(t)+`/`)
	impatient := newProxy(t, "route add a /slow http://"+slow+"/", "--proxy.responseheadertimeout=50ms")
	for _, c := range []struct {
		p      *Proxy
		target string
		status int
		code   string
		kind   metrics.ErrorKind
	}{
		{impatient, "/slow", 504, "timeout", metrics.ErrTimeout},
		{p, "/nonsense", 502, "protocol", metrics.ErrProtocol},
		{p, "/closes", 502, "reset", metrics.ErrReset},
		{p, "/switches", 502, "protocol", metrics.ErrProtocol},
		{p, "/big", 502, "protocol", metrics.ErrProtocol},
		{p, "/interim", 502, "protocol", metrics.ErrProtocol},
		{p, "/tls", 502, "tls", metrics.ErrTLS},
		{p, "/dead", 502, "dial", metrics.ErrDial},
	} {
		conn := dialRaw(t, serve(t, c.p))
		fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: foo.com\r\n\r\n", c.target)
		r := bufio.NewReader(conn)
		a := readAnswer(t, r, "GET")
		for a.StatusCode < 200 {
			a = readAnswer(t, r, "GET")
		}
		if a.StatusCode != c.status || a.Header.Get("X-Edge-Error") != c.code {
			t.Errorf("GET %s = %d %v, want %d %s", c.target, a.StatusCode, a.Header, c.status, c.code)
		}
		if strings.Contains(a.body, "127.0.0.1") {
			t.Errorf("GET %s names the upstream: %q", c.target, a.body)
		}
		s, _ := c.p.Stats(c.p.Table().Lookup("", c.target, false).Targets[0])
		if s.UpstreamErrors[c.kind] == 0 || s.InFlight != 0 || s.Errors != 1 {
			t.Errorf("GET %s: stats %+v, want one error of kind %s", c.target, s, c.kind)
		}
	}
}

func TestForbiddenUpstreams(t *testing.T) {
	up := newUpstream(t, nil)
	_, port, _ := net.SplitHostPort(up.addr)
	routes := "route add svc / http://127.0.0.1:" + port + "/"
	for _, c := range []struct {
		name, forbid, routes string
		flags                []string
		bound                bool
		status               int
	}{
		{"nothing", "", routes, nil, true, 200},
		{"the address", up.addr, routes, nil, false, 503},
		{"all local addresses", ":" + port, routes, nil, false, 503},
		{"another port", "127.0.0.1:1", routes, nil, true, 200},
		{"another address", "10.1.1.1:" + port, routes, nil, true, 200},
		{"allowed again", ":" + port, routes, []string{"--proxy.upstream.allow=127.0.0.0/8"}, true, 200},
		{"allowed by host:port", ":" + port, routes, []string{"--proxy.upstream.allow=127.0.0.1:" + port}, true, 200},
		{"allowed for another port", ":" + port, routes, []string{"--proxy.upstream.allow=127.0.0.1:1"}, false, 503},
		{"localhost", up.addr, "route add svc / http://localhost:" + port + "/", nil, false, 503},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newProxy(t, "", c.flags...)
			if c.forbid != "" {
				p.Forbid(c.forbid)
			}
			if problems := setRoutes(t, p, c.routes); (len(problems) == 0) != c.bound {
				t.Errorf("problems = %v", problems)
			}
			if a := get(t, serve(t, p), "/"); a.StatusCode != c.status {
				t.Errorf("GET / = %d, want %d", a.StatusCode, c.status)
			}
		})
	}
}

// TestForbiddenAtConnect has a name lead where only the connection shows it.
func TestForbiddenAtConnect(t *testing.T) {
	up := newUpstream(t, nil)
	p := newProxy(t, "route add svc / http://"+up.addr+"/")
	p.Forbid(up.addr)
	a := get(t, serve(t, p), "/")
	if a.StatusCode != 502 || a.Header.Get("X-Edge-Error") != "forbidden_upstream" {
		t.Errorf("GET / = %d %v, want 502 forbidden_upstream", a.StatusCode, a.Header)
	}
	up.untouched(t)
}

func TestInFlightLimit(t *testing.T) {
	release := make(chan struct{})
	up := newUpstream(t, func(w http.ResponseWriter, r *http.Request) { <-release })
	p := newProxy(t, "route add svc / http://"+up.addr+"/")
	p.maxInFlight = 2
	addr := serve(t, p)
	var waiting []net.Conn
	for range 2 {
		c := dialRaw(t, addr)
		io.WriteString(c, "GET / HTTP/1.1\r\nHost: foo.com\r\n\r\n")
		up.last(t)
		waiting = append(waiting, c)
	}
	a := get(t, addr, "/")
	if a.StatusCode != 503 || a.Header.Get("X-Edge-Error") != "overflow" || a.Header.Get("Retry-After") == "" {
		t.Errorf("GET / = %d %v, want 503 overflow", a.StatusCode, a.Header)
	}
	if got := p.metrics.UpstreamLimited.Value(); got != 1 {
		t.Errorf("UpstreamLimited = %d, want 1", got)
	}
	close(release)
	for _, c := range waiting {
		if a := readAnswer(t, bufio.NewReader(c), "GET"); a.StatusCode != 200 {
			t.Errorf("waiting request = %d", a.StatusCode)
		}
	}
	if a := get(t, addr, "/"); a.StatusCode != 200 {
		t.Errorf("GET / = %d afterwards", a.StatusCode)
	}
}

func TestOverflowGoesToAnotherTarget(t *testing.T) {
	release := make(chan struct{})
	defer close(release)
	block := func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/wait" {
			<-release
		}
	}
	a, b := newUpstream(t, block), newUpstream(t, block)
	p := newProxy(t, "route add svc / http://"+a.addr+"/\nroute add svc / http://"+b.addr+"/", "--proxy.strategy=rr")
	p.maxInFlight = 1
	addr := serve(t, p)
	c := dialRaw(t, addr)
	io.WriteString(c, "GET /wait HTTP/1.1\r\nHost: foo.com\r\n\r\n")
	select {
	case <-a.got:
	case <-b.got:
	case <-time.After(deadline):
		t.Fatal("nothing reached an upstream")
	}
	for range 4 {
		if a := get(t, addr, "/"); a.StatusCode != 200 {
			t.Errorf("GET / = %d, want the other target's 200", a.StatusCode)
		}
	}
}

func TestConfigErrors(t *testing.T) {
	for _, c := range []struct{ flag, want string }{
		{"--proxy.noroutestatus=199", "proxy.noroutestatus: 199: must be between 200 and 999"},
		{"--proxy.noroutestatus=1000", "proxy.noroutestatus: 1000: must be between 200 and 999"},
		{"--route.unknown-options=ignore", `route.unknown-options: "ignore": want refuse or keep`},
		{"--proxy.gzip.contenttype=text/.*", "proxy.gzip.contenttype: compression is not part of this version"},
		{"--proxy.gzip.contenttype=[", "proxy.gzip.contenttype: invalid expression for content types"},
		{"--proxy.auth=name=x;type=basic;file=y", "proxy.auth: authentication is not part of this version"},
		{"--proxy.dialtimeout=-1s", "proxy.dialtimeout: -1s: must not be negative"},
		{"--proxy.retries=99", "proxy.retries: 99: must be at most 7"},
		{"--proxy.maxconn=-1", "proxy.maxconn: -1: must be at least 0"},
		{"--proxy.header.clientip=a b", `proxy.header.clientip: "a b" is not the name of a header`},
		{"--proxy.header.requestid=host", `proxy.header.requestid: "host" has a meaning of its own in HTTP`},
		{"--proxy.header.tls.value=a\r\nb", "proxy.header.tls.value"},
		{"--proxy.trusted=10.0.0.0/99", `proxy.trusted: "10.0.0.0/99": want an IP address or CIDR`},
		{"--proxy.upstream.allow=x", `proxy.upstream.allow: "x": want an IP address, CIDR or host:port`},
		{"--proxy.localip=x", `proxy.localip: "x": want an IP address`},
		{"--proxy.localip={{ nonsense }}", "proxy.localip: "},
	} {
		_, err := New(testConfig(t, c.flag), testMetrics(t), slog.New(slog.DiscardHandler))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("New(%s) = %v, want %q", c.flag, err, c.want)
		}
	}
	c := testConfig(t, "--proxy.localip={{ \"127.0.0.1\" }}")
	if ip, err := c.HTTP.localIP(); err != nil || ip.String() != "127.0.0.1" {
		t.Errorf("localIP() = %v, %v", ip, err)
	}
	if len(c.Limits()) == 0 {
		t.Error("Limits() is empty")
	}
}
