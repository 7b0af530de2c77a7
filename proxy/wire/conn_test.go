package wire

import (
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"
)

func TestConnCutsStalledWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, server := net.Pipe()
		c := NewConn(server, time.Minute, nil)
		start := time.Now()
		_, err := c.Write([]byte("nobody reads this"))
		if !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(start) != time.Minute {
			t.Errorf("Write = %v after %v, want a timeout after 1m", err, time.Since(start))
		}
	})
}

func TestConnLetsSlowReaderFinish(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, server := net.Pipe()
		c := NewConn(server, time.Minute, nil)
		go func() {
			buf := make([]byte, writeStep)
			for range 20 {
				time.Sleep(40 * time.Second)
				if _, err := io.ReadFull(client, buf); err != nil {
					t.Error(err)
				}
			}
		}()
		n, err := c.Write(make([]byte, 20*writeStep))
		if n != 20*writeStep || err != nil {
			t.Errorf("Write = %d, %v", n, err)
		}
	})
}

func TestConnAfterLongSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, server := net.Pipe()
		c := NewConn(server, time.Minute, nil)
		go io.Copy(io.Discard, client)
		for range 3 {
			if _, err := c.Write([]byte("event")); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Hour)
		}
		client.Close()
	})
}

func TestConnKeepsAskedDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, server := net.Pipe()
		c := NewConn(server, time.Minute, nil)
		start := time.Now()
		c.SetDeadline(start.Add(90 * time.Second))
		go io.Copy(io.Discard, io.LimitReader(client, 1))
		if _, err := c.Write([]byte("x")); err != nil {
			t.Fatal(err)
		}
		time.Sleep(45 * time.Second)
		_, err := c.Write([]byte("y"))
		if !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(start) != 90*time.Second {
			t.Errorf("Write = %v after %v, want a timeout after 90s", err, time.Since(start))
		}
		if _, err := c.Write([]byte("z")); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("Write after the deadline = %v", err)
		}
		if _, err := c.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("Read after the deadline = %v", err)
		}
	})
}

func TestConnDeadlineFromOutsideWakesWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, server := net.Pipe()
		c := NewConn(server, time.Minute, nil)
		start := time.Now()
		time.AfterFunc(time.Second, func() { c.SetWriteDeadline(time.Now()) })
		if _, err := c.Write([]byte("x")); !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(start) != time.Second {
			t.Errorf("Write = %v after %v, want a timeout after 1s", err, time.Since(start))
		}
	})
}

func TestConnReleasesOnce(t *testing.T) {
	client, server := tcpPair(t)
	released := 0
	c := NewConn(server, 0, func() { released++ })
	if err := c.CloseWrite(); err != nil {
		t.Error(err)
	}
	if _, err := client.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("peer read %v after CloseWrite, want EOF", err)
	}
	c.Close()
	c.Close()
	if released != 1 {
		t.Errorf("released %d times", released)
	}
}

func TestConnWriteAllocatesNothing(t *testing.T) {
	client, server := tcpPair(t)
	go io.Copy(io.Discard, client)
	c := NewConn(server, time.Minute, nil)
	p := []byte("line\n")
	if n := testing.AllocsPerRun(100, func() { c.Write(p) }); n != 0 {
		t.Errorf("%v allocations per Write", n)
	}
	c.Close()
}
