package proxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"strings"
	"syscall"
	"testing"

	"varco/metrics"
)

func TestClassify(t *testing.T) {
	dial := func(err error) error { return &net.OpError{Op: "dial", Net: "tcp", Err: err} }
	for _, c := range []struct {
		err    error
		status int
		code   string
		kind   metrics.ErrorKind
	}{
		{dial(syscall.ECONNREFUSED), 502, "dial", metrics.ErrDial},
		{dial(&net.DNSError{IsNotFound: true}), 502, "dial", metrics.ErrDial},
		{dial(os.ErrDeadlineExceeded), 504, "timeout", metrics.ErrTimeout},
		{dial(fmt.Errorf("x %w", errForbidden)), 502, "forbidden_upstream", metrics.ErrDial},
		{context.DeadlineExceeded, 504, "timeout", metrics.ErrTimeout},
		{&tlsError{errTLSTimeout}, 504, "timeout", metrics.ErrTimeout},
		{&tlsError{errors.New("x")}, 502, "tls", metrics.ErrTLS},
		{&net.OpError{Op: "read", Err: syscall.ECONNRESET}, 502, "reset", metrics.ErrReset},
		{io.ErrUnexpectedEOF, 502, "reset", metrics.ErrReset},
		{&stdAttempt{err: errors.New("x"), sent: true}, 502, "reset", metrics.ErrReset},
		{&stdAttempt{err: errors.New("x"), sent: true, answered: true}, 502, "protocol", metrics.ErrProtocol},
		{errors.New("malformed"), 502, "protocol", metrics.ErrProtocol},
	} {
		if got := classify(c.err); got.status != c.status || got.code != c.code || got.kind != c.kind {
			t.Errorf("classify(%v) = %+v, want %d %s %s", c.err, got, c.status, c.code, c.kind)
		}
	}
}

func TestGuard(t *testing.T) {
	g := &guard{local: func() []netip.Addr { return []netip.Addr{netip.MustParseAddr("10.1.1.1")} }}
	g.forbid(":80", "own listener")
	g.forbid("10.9.9.9:81", "agent")
	g.forbid("localhost:82", "agent")
	g.forbid("not an address", "agent")
	g.forbid("10.9.9.9:0", "agent")
	for _, s := range []string{"192.0.2.0/24", "[fe80::1]:90", "allowed.example:80"} {
		a, err := parseAllowedUpstream(s)
		if err != nil {
			t.Fatal(err)
		}
		g.allowed = append(g.allowed, a)
	}
	for _, c := range []struct {
		addr, name string
		want       string // part of the error, "" for none
	}{
		{"10.2.2.2:80", "", ""},
		{"10.1.1.1:80", "", "own listener"},
		{"127.0.0.5:80", "", "own listener"},
		{"[::1]:80", "", "own listener"},
		{"10.1.1.1:80", "Allowed.example:80", ""},
		{"10.9.9.9:81", "", "agent"},
		{"10.9.9.8:81", "", ""},
		{"10.1.1.1:82", "", "agent"},
		{"169.254.169.254:80", "", "link-local"},
		{"[::ffff:169.254.169.254]:80", "", "link-local"},
		{"[fe80::1%eth0]:91", "", "link-local"},
		{"[fe80::1]:90", "", ""},
		{"[fd00:ec2::254]:80", "", "metadata"},
		{"0.0.0.0:1", "", "unspecified"},
		{"[::]:1", "", "unspecified"},
		{"224.0.0.1:1", "", "multicast"},
	} {
		err := g.check(netip.MustParseAddrPort(c.addr), c.name)
		if (err == nil) != (c.want == "") || err != nil && (!strings.Contains(err.Error(), c.want) || !errors.Is(err, errForbidden)) {
			t.Errorf("check(%s, %q) = %v, want %q", c.addr, c.name, err, c.want)
		}
	}
}

func TestBadDestinations(t *testing.T) {
	for _, c := range []struct{ dst, want string }{
		{"http://a_b!c:80/", "is not a host name"},
		{"http://10.0.0.1:70000/", "ort"},
		{"tcp://10.0.0.1", "host:port"},
		{"http://10.0.0.1//x/", "begins with //"},
		{"http:///x", "host"},
	} {
		problems := newProxy(t, "").Check(snapshot(t, "route add svc / "+c.dst))
		if len(problems) != 1 || !strings.Contains(problems[0].Error(), c.want) {
			t.Errorf("%s: problems = %v, want %q", c.dst, problems, c.want)
		}
	}
}

// TestPanicAfterTheHeader must not leave an answer that looks complete.
func TestPanicAfterTheHeader(t *testing.T) {
	p := newProxy(t, "route add svc / http://10.0.0.1:1/")
	upstreamOf(p.Table().Lookup("", "/", false).Pick()).serve = func(x *exchange) {
		x.Header().Set("Content-Length", "10")
		io.WriteString(x, "half")
		http.NewResponseController(x).Flush()
		panic("injected")
	}
	if a := get(t, serve(t, p), "/"); a.StatusCode != 200 || a.err == nil {
		t.Errorf("GET = %d %q, body error %v; want a body that is cut off", a.StatusCode, a.body, a.err)
	}
}

// TestPlainWriter has a ResponseWriter that can do nothing beyond the interface.
func TestPlainWriter(t *testing.T) {
	up := newUpstream(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "50000")
		io.WriteString(w, strings.Repeat("x", 50000))
	})
	p := newProxy(t, "route add svc / http://"+up.addr+"/")
	w := httptest.NewRecorder()
	p.ServeHTTP(struct{ http.ResponseWriter }{w}, httptest.NewRequest("GET", "/", nil))
	if w.Code != 200 || w.Body.Len() != 50000 {
		t.Errorf("%d with %d bytes", w.Code, w.Body.Len())
	}
}
