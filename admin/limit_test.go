package admin

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"
	"time"
)

// limited starts a server with at most n connections whose /slow waits until release is closed.
func limited(t *testing.T, n int) (addr string, slow <-chan struct{}, release chan<- struct{}) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	entered, gate := make(chan struct{}, n), make(chan struct{})
	limit := newLimitListener(l, n)
	server := &http.Server{
		ConnState: limit.connState,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/slow" {
				entered <- struct{}{}
				<-gate
			}
			fmt.Fprint(w, "OK")
		}),
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		server.Serve(limit)
	}()
	t.Cleanup(func() {
		server.Close()
		<-done
	})
	return l.Addr().String(), entered, gate
}

func dial(t *testing.T, addr string) (net.Conn, *bufio.Reader) {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(10 * time.Second))
	return c, bufio.NewReader(c)
}

func request(t *testing.T, c net.Conn, path string) {
	t.Helper()
	if _, err := fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: x\r\n\r\n", path); err != nil {
		t.Fatal(err)
	}
}

func answer(t *testing.T, r *bufio.Reader) {
	t.Helper()
	res, err := http.ReadResponse(r, nil)
	if err != nil {
		t.Fatalf("no answer: %v", err)
	}
	io.Copy(io.Discard, res.Body)
	if res.StatusCode != 200 {
		t.Fatalf("status = %d, want 200", res.StatusCode)
	}
}

// TestIdleConnectionsMakeRoom fills all places with connections that say nothing, and then with idle ones.
func TestIdleConnectionsMakeRoom(t *testing.T) {
	const n = 4
	addr, _, _ := limited(t, n)
	first, firstReader := dial(t, addr)
	_ = first
	for range n - 1 {
		dial(t, addr)
	}
	for range 3 * n {
		c, r := dial(t, addr)
		request(t, c, "/health")
		answer(t, r)
	}
	if _, err := firstReader.ReadByte(); err == nil {
		t.Error("the first idle connection is still open")
	}
}

// TestBusyConnectionsStay fills all places with requests in progress: a new connection is closed, and they finish.
func TestBusyConnectionsStay(t *testing.T) {
	const n = 4
	addr, entered, release := limited(t, n)
	var readers []*bufio.Reader
	for range n {
		c, r := dial(t, addr)
		request(t, c, "/slow")
		readers = append(readers, r)
	}
	for range n {
		<-entered
	}
	c, r := dial(t, addr)
	fmt.Fprint(c, "GET /health HTTP/1.1\r\nHost: x\r\n\r\n") // may fail: the connection is closed at once
	if res, err := http.ReadResponse(r, nil); err == nil {
		t.Errorf("connection above the limit was answered: %d", res.StatusCode)
	}
	close(release)
	for _, r := range readers {
		answer(t, r)
	}
	c, r = dial(t, addr)
	request(t, c, "/health")
	answer(t, r)
}
