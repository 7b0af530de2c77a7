package integration

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"
)

// startTCP runs varco with an HTTP and a TCP listener and answers the address of the latter and its route.
func startTCP(t *testing.T, other flags) (v *varco, addr, route string) {
	t.Helper()
	f := settings(t).with(other)
	port := freePort()
	addr = loopback(port)
	f["proxy.addr"] += "," + addr + ";proto=tcp"
	v = launchVarco(t, f)
	v.serving()
	return v, addr, fmt.Sprintf(":%d proto=tcp", port)
}

// routed waits until the table holds a word.
func (v *varco) routed(word string) {
	v.t.Helper()
	eventually(v.t, 5*time.Second, "the table has "+word, func() error {
		if table := v.table(); !strings.Contains(table, word) {
			return fmt.Errorf("table:\n%s", table)
		}
		return nil
	})
}

// TestTCPHalfClose: the origin answers only after the client has closed its side, and the client still gets it all.
func TestTCPHalfClose(t *testing.T) {
	t.Parallel()
	v, addr, route := startTCP(t, nil)
	o := newTCPOrigin(t, "sum", func(c *net.TCPConn) {
		defer c.Close()
		sum := sha256.New()
		n, err := io.Copy(sum, c)
		if err != nil {
			return
		}
		fmt.Fprintf(c, "%d %x", n, sum.Sum(nil))
	})
	shared.consul.register(t, v.name+"-tcp", o, v.prefix+route)
	v.routed(o.addr())

	conn := dial(t, addr)
	data := make([]byte, 3<<20)
	rand.Read(data)
	if _, err := conn.Write(data); err != nil {
		t.Fatal(err)
	}
	if err := conn.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(conn)
	if want := fmt.Sprintf("%d %x", len(data), sha256.Sum256(data)); err != nil || string(got) != want {
		t.Fatalf("answer %q, %v, want %q", got, err, want)
	}
	// rx is from upstream to client, tx the other way.
	eventually(t, 5*time.Second, "the bytes are counted", func() error {
		series := fmt.Sprintf(`{host="%s",path="",service="%s-tcp",target="tcp://%s"}`,
			strings.Fields(route)[0], v.name, o.addr())
		tx, err := v.metric("route_tx" + series)
		if err != nil {
			return err
		}
		rx, err := v.metric("route_rx" + series)
		if err != nil {
			return err
		}
		if int(tx) != len(data) || int(rx) != len(got) {
			return fmt.Errorf("tx %v rx %v, want %d and %d", tx, rx, len(data), len(got))
		}
		return nil
	})
}

// TestTCPUpstreamSpeaksFirstAndHalfCloses is the other direction.
func TestTCPUpstreamSpeaksFirstAndHalfCloses(t *testing.T) {
	t.Parallel()
	v, addr, route := startTCP(t, nil)
	heard := make(chan string, 1)
	o := newTCPOrigin(t, "first", func(c *net.TCPConn) {
		defer c.Close()
		io.WriteString(c, "hello\n")
		c.CloseWrite()
		all, _ := io.ReadAll(c)
		heard <- string(all)
	})
	shared.consul.register(t, v.name+"-tcp", o, v.prefix+route)
	v.routed(o.addr())
	conn := dial(t, addr)
	if got, err := io.ReadAll(conn); err != nil || string(got) != "hello\n" {
		t.Fatalf("greeting %q, %v", got, err)
	}
	io.WriteString(conn, "still here")
	conn.CloseWrite()
	select {
	case got := <-heard:
		if got != "still here" {
			t.Errorf("upstream heard %q", got)
		}
	case <-t.Context().Done():
	}
}

func TestTCPSendsPROXYHeader(t *testing.T) {
	t.Parallel()
	for _, option := range []string{"true", "v1", "v2"} {
		t.Run(option, func(t *testing.T) {
			t.Parallel()
			v, addr, route := startTCP(t, nil)
			o := newTCPOrigin(t, "pxy", func(c *net.TCPConn) {
				defer c.Close()
				io.Copy(c, c)
			})
			shared.consul.register(t, v.name+"-tcp", o, v.prefix+route+" pxyproto="+option)
			v.routed(o.addr())
			conn := dial(t, addr)
			io.WriteString(conn, "hello")
			conn.CloseWrite()
			got, err := io.ReadAll(conn)
			local, remote := conn.LocalAddr().(*net.TCPAddr), conn.RemoteAddr().(*net.TCPAddr)
			want := fmt.Sprintf("PROXY TCP4 127.0.0.1 127.0.0.1 %d %d\r\nhello", local.Port, remote.Port)
			if option == "v2" { // the header of the PROXY protocol, section 2.2: signature, PROXY, TCP over IPv4, length 12
				want = "\r\n\r\n\x00\r\nQUIT\n\x21\x11\x00\x0c\x7f\x00\x00\x01\x7f\x00\x00\x01" +
					string(binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(nil, uint16(local.Port)), uint16(remote.Port))) + "hello"
			}
			if err != nil || string(got) != want {
				t.Errorf("upstream got %q, %v, want %q", got, err, want)
			}
		})
	}
}

func TestTCPDenied(t *testing.T) {
	t.Parallel()
	v, addr, route := startTCP(t, nil)
	o := newTCPOrigin(t, "never", func(c *net.TCPConn) { c.Close() })
	i := shared.consul.register(t, v.name+"-tcp", o, v.prefix+route+" deny=ip:127.0.0.0/8")
	v.routed(o.addr())
	closedSilently := func() error {
		conn, err := net.DialTimeout("tcp", addr, 5*time.Second)
		if err != nil {
			return err
		}
		defer conn.Close()
		conn.SetDeadline(time.Now().Add(5 * time.Second))
		if n, err := conn.Read(make([]byte, 1)); n != 0 || isTimeout(err) {
			return fmt.Errorf("read %d bytes, %v, want the end", n, err)
		}
		return nil
	}
	if err := closedSilently(); err != nil {
		t.Errorf("denied: %v", err)
	}
	if n := o.hits.Load(); n != 0 {
		t.Errorf("the upstream got %d connections", n)
	}
	// No route at all closes too, and is counted.
	i.deregister()
	eventually(t, 5*time.Second, "no route is counted", func() error {
		if err := closedSilently(); err != nil {
			return err
		}
		n, err := v.metric("tcp_noroute")
		if err != nil {
			n, err = v.metric("tcp_noroute_total")
		}
		if err == nil && n == 0 {
			err = fmt.Errorf("tcp_noroute = 0")
		}
		return err
	})
}

func isTimeout(err error) bool {
	ne, ok := err.(net.Error)
	return ok && ne.Timeout()
}
