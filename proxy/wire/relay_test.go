package wire

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// hidden is a TCP connection that does not look like one, so that the relay takes its plain path.
type hidden struct{ net.Conn }

func (h hidden) CloseWrite() error { return h.Conn.(*net.TCPConn).CloseWrite() }

// The kinds of connection that a relay meets.
var kinds = []struct {
	name string
	wrap func(*net.TCPConn) io.ReadWriteCloser
}{
	{"tcp", func(c *net.TCPConn) io.ReadWriteCloser { return c }},
	{"guarded", func(c *net.TCPConn) io.ReadWriteCloser { return NewConn(c, time.Minute, nil) }},
	{"plain", func(c *net.TCPConn) io.ReadWriteCloser { return hidden{c} }},
}

// tunnel is a relay under test: a client and a server with a relay between them.
type tunnel struct {
	client, server *net.TCPConn
	forth, back    atomic.Int64
	ended          chan error
}

func newTunnel(t *testing.T, r Relay, wrap func(*net.TCPConn) io.ReadWriteCloser) *tunnel {
	t.Helper()
	client, a := tcpPair(t)
	server, b := tcpPair(t)
	u := &tunnel{client: client, server: server, ended: make(chan error, 1)}
	r.Forth = func(n int64) { u.forth.Add(n) }
	r.Back = func(n int64) { u.back.Add(n) }
	go func() { u.ended <- r.Run(wrap(a), wrap(b)) }()
	return u
}

func (u *tunnel) wait(t *testing.T) error {
	t.Helper()
	select {
	case err := <-u.ended:
		return err
	case <-time.After(patience):
		t.Fatal("the relay did not end")
		return nil
	}
}

func TestRelayCarriesHalfClose(t *testing.T) {
	for _, k := range kinds {
		t.Run(k.name, func(t *testing.T) {
			u := newTunnel(t, Relay{}, k.wrap)
			io.WriteString(u.client, "question")
			u.client.CloseWrite()
			if got, err := io.ReadAll(u.server); string(got) != "question" || err != nil {
				t.Fatalf("server read %q, %v", got, err)
			}
			answer := bytes.Repeat([]byte("answer "), 100_000)
			go func() {
				u.server.Write(answer)
				u.server.CloseWrite()
			}()
			if got, err := io.ReadAll(u.client); !bytes.Equal(got, answer) || err != nil {
				t.Fatalf("client read %d bytes, %v, want %d", len(got), err, len(answer))
			}
			if err := u.wait(t); err != nil {
				t.Errorf("Run = %v, want nil", err)
			}
			if f, b := u.forth.Load(), u.back.Load(); f != 8 || b != int64(len(answer)) {
				t.Errorf("counted %d forth, %d back", f, b)
			}
		})
	}
}

func TestRelayCarriesHalfCloseOfServer(t *testing.T) {
	u := newTunnel(t, Relay{}, kinds[0].wrap)
	io.WriteString(u.server, "220 ready\r\n") // the server speaks first
	u.server.CloseWrite()
	if got, err := io.ReadAll(u.client); string(got) != "220 ready\r\n" || err != nil {
		t.Fatalf("client read %q, %v", got, err)
	}
	io.WriteString(u.client, "still here")
	u.client.Close()
	if got, err := io.ReadAll(u.server); string(got) != "still here" || err != nil {
		t.Fatalf("server read %q, %v", got, err)
	}
	if err := u.wait(t); err != nil {
		t.Errorf("Run = %v, want nil", err)
	}
}

func TestRelayCarriesReset(t *testing.T) {
	tests := []struct {
		name string
		kill func(u *tunnel) (victim *net.TCPConn)
	}{
		{"client", func(u *tunnel) *net.TCPConn {
			u.client.SetLinger(0)
			u.client.Close()
			return u.server
		}},
		{"server", func(u *tunnel) *net.TCPConn {
			u.server.SetLinger(0)
			u.server.Close()
			return u.client
		}},
	}
	for _, tt := range tests {
		for _, k := range kinds {
			t.Run(tt.name+"/"+k.name, func(t *testing.T) {
				u := newTunnel(t, Relay{}, k.wrap)
				pingPong(t, u)
				victim := tt.kill(u)
				if _, err := victim.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
					t.Errorf("other side read %v, want a reset or an end", err)
				}
				if err := u.wait(t); !errors.Is(err, syscall.ECONNRESET) {
					t.Errorf("Run = %v, want a reset", err)
				}
			})
		}
	}
}

func pingPong(t *testing.T, u *tunnel) {
	t.Helper()
	b := make([]byte, 1)
	for _, pair := range [][2]net.Conn{{u.client, u.server}, {u.server, u.client}} {
		pair[0].Write([]byte("x"))
		if _, err := io.ReadFull(pair[1], b); err != nil {
			t.Fatal(err)
		}
	}
}

func TestRelayMovesBulkBothWays(t *testing.T) {
	const size = 2 << 20
	for _, k := range kinds {
		t.Run(k.name, func(t *testing.T) {
			u := newTunnel(t, Relay{Idle: time.Minute}, k.wrap)
			up, down := noise(1, size), noise(2, size)
			type result struct {
				data []byte
				err  error
			}
			received := make(chan result, 1)
			go func() {
				u.client.Write(up)
				u.client.CloseWrite()
			}()
			go func() {
				u.server.Write(down)
				u.server.CloseWrite()
			}()
			go func() {
				data, err := io.ReadAll(u.server)
				received <- result{data, err}
			}()
			got, err := io.ReadAll(u.client)
			if !bytes.Equal(got, down) || err != nil {
				t.Errorf("client read %d bytes, %v", len(got), err)
			}
			if r := <-received; !bytes.Equal(r.data, up) || r.err != nil {
				t.Errorf("server read %d bytes, %v", len(r.data), r.err)
			}
			if err := u.wait(t); err != nil {
				t.Errorf("Run = %v", err)
			}
			if f, b := u.forth.Load(), u.back.Load(); f != size || b != size {
				t.Errorf("counted %d forth, %d back, want %d", f, b, size)
			}
		})
	}
}

func noise(seed byte, n int) []byte {
	b := make([]byte, n)
	r := rand.NewChaCha8([32]byte{seed})
	r.Read(b)
	return b
}

func TestRelayCountsWhileOpen(t *testing.T) {
	client, a := tcpPair(t)
	server, b := tcpPair(t)
	counted := make(chan int64, 16)
	ended := make(chan error, 1)
	go func() { ended <- Relay{Back: func(n int64) { counted <- n }}.Run(a, b) }()
	io.WriteString(server, "hello")
	select {
	case n := <-counted:
		if n != 5 {
			t.Errorf("counted %d, want 5", n)
		}
	case <-time.After(patience):
		t.Fatal("nothing counted while the connection was open")
	}
	client.Close()
	server.Close()
	<-ended
}

func TestRelayEndsWhenIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, a := net.Pipe()
		server, b := net.Pipe()
		start := time.Now()
		ended := make(chan error, 1)
		go func() { ended <- Relay{Idle: time.Hour}.Run(a, b) }()

		time.Sleep(50 * time.Minute)
		go io.WriteString(server, "x")
		io.ReadFull(client, make([]byte, 1))
		synctest.Wait()
		select {
		case err := <-ended:
			t.Fatalf("Run = %v before the timeout", err)
		default:
		}
		if err := <-ended; err != ErrIdle {
			t.Errorf("Run = %v, want ErrIdle", err)
		}
		if got, want := time.Since(start), 110*time.Minute; got != want {
			t.Errorf("ended after %v, want %v", got, want)
		}
		if _, err := client.Read(make([]byte, 1)); err != io.EOF {
			t.Errorf("client read %v, want EOF", err)
		}
	})
}

func TestRelayReadTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, a := net.Pipe()
		_, b := net.Pipe()
		start := time.Now()
		err := Relay{ReadTimeout: 3 * time.Second}.Run(a, b)
		if !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(start) != 3*time.Second {
			t.Errorf("Run = %v after %v, want a timeout after 3s", err, time.Since(start))
		}
	})
}

func TestRelayWriteTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, a := net.Pipe() // nobody reads at its other end
		server, b := net.Pipe()
		go io.WriteString(server, "x")
		start := time.Now()
		err := Relay{WriteTimeout: 3 * time.Second}.Run(a, b)
		if !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(start) != 3*time.Second {
			t.Errorf("Run = %v after %v, want a timeout after 3s", err, time.Since(start))
		}
	})
}

func TestRelayReadTimeoutSparesHalfClose(t *testing.T) {
	u := newTunnel(t, Relay{ReadTimeout: 50 * time.Millisecond}, kinds[0].wrap)
	u.client.CloseWrite()
	if _, err := io.ReadAll(u.server); err != nil {
		t.Fatal(err)
	}
	// A relay that starts later and is cut by the same timeout shows that the time is over.
	if err := newTunnel(t, Relay{ReadTimeout: 50 * time.Millisecond}, kinds[0].wrap).wait(t); err == nil {
		t.Fatal("the read timeout did not cut a silent client")
	}
	io.WriteString(u.server, "late")
	u.server.Close()
	if got, err := io.ReadAll(u.client); string(got) != "late" || err != nil {
		t.Errorf("client read %q, %v", got, err)
	}
	if err := u.wait(t); err != nil {
		t.Errorf("Run = %v", err)
	}
}

func TestRelayRaisesPanicInCaller(t *testing.T) {
	for _, way := range []string{"forth", "back"} {
		t.Run(way, func(t *testing.T) {
			client, a := tcpPair(t)
			server, b := tcpPair(t)
			io.WriteString(client, "x")
			io.WriteString(server, "x")
			fail := func(int64) { panic("count " + way) }
			r := Relay{Forth: fail}
			if way == "back" {
				r = Relay{Back: fail}
			}
			defer func() {
				if v := recover(); v != "count "+way {
					t.Errorf("recovered %v", v)
				}
			}()
			r.Run(a, b)
			t.Error("Run returned")
		})
	}
}

func TestRelayEndsWithoutHalfClose(t *testing.T) {
	client, a := net.Pipe()
	_, b := net.Pipe()
	client.Close()
	if err := (Relay{}).Run(a, b); err != nil {
		t.Errorf("Run = %v, want nil", err)
	}
}
