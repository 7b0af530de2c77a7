package integration

import (
	"encoding/json"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync/atomic"
	"testing"
)

// origin is an upstream server: the instance of a service.
type origin struct {
	name string
	host string
	port int
	hits atomic.Int64
}

// echo is what an origin answers by default: the request as it arrived.
type echo struct {
	Instance string
	Method   string
	Host     string
	URI      string
	Header   http.Header
	Body     string
}

// newOrigin starts an upstream that answers each request with its echo.
func newOrigin(t *testing.T, name string) *origin {
	t.Helper()
	return newOriginFunc(t, name, func(w http.ResponseWriter, r *http.Request) { writeEcho(name, w, r) })
}

// newOriginFunc starts an upstream that answers with a handler.
func newOriginFunc(t *testing.T, name string, h http.HandlerFunc) *origin {
	t.Helper()
	o := &origin{name: name}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		o.hits.Add(1)
		h(w, r)
	}))
	t.Cleanup(srv.Close)
	o.at(t, srv.Listener.Addr())
	return o
}

// newTLSOrigin starts an upstream that speaks TLS, with a certificate that nobody trusts.
func newTLSOrigin(t *testing.T, name string) *origin {
	t.Helper()
	o := &origin{name: name}
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		o.hits.Add(1)
		writeEcho(name, w, r)
	}))
	srv.Config.ErrorLog = log.New(io.Discard, "", 0) // refused handshakes are what the test wants
	srv.StartTLS()
	t.Cleanup(srv.Close)
	o.at(t, srv.Listener.Addr())
	return o
}

// newTCPOrigin starts an upstream that hands each connection to serve, which closes it.
func newTCPOrigin(t *testing.T, name string, serve func(*net.TCPConn)) *origin {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	o := &origin{name: name}
	o.at(t, l.Addr())
	go o.accept(l, serve)
	return o
}

func (o *origin) accept(l net.Listener, serve func(*net.TCPConn)) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		o.hits.Add(1)
		go serve(conn.(*net.TCPConn))
	}
}

// noOrigin answers an upstream that nothing listens for.
func noOrigin(name string) *origin {
	return &origin{name: name, host: "127.0.0.1", port: freePort()}
}

func (o *origin) at(t *testing.T, addr net.Addr) {
	t.Helper()
	host, port, err := net.SplitHostPort(addr.String())
	if err != nil {
		t.Fatal(err)
	}
	o.host = host
	if o.port, err = strconv.Atoi(port); err != nil {
		t.Fatal(err)
	}
}

// addr answers host:port, url the upstream as a route's destination.
func (o *origin) addr() string { return net.JoinHostPort(o.host, strconv.Itoa(o.port)) }
func (o *origin) url() string  { return "http://" + o.addr() + "/" }

func writeEcho(instance string, w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(echo{instance, r.Method, r.Host, r.RequestURI, r.Header, string(body)})
}
