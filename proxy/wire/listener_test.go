package wire

import (
	"errors"
	"net"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// script is a listener whose Accept gives what the test says.
type script struct {
	net.Listener
	accepts chan any // error or net.Conn
	closed  chan struct{}
}

func newScript() *script {
	return &script{accepts: make(chan any, 16), closed: make(chan struct{})}
}

func (s *script) Accept() (net.Conn, error) {
	select {
	case v := <-s.accepts:
		if err, ok := v.(error); ok {
			return nil, err
		}
		return v.(net.Conn), nil
	case <-s.closed:
		return nil, net.ErrClosed
	}
}

func (s *script) Close() error {
	close(s.closed)
	return nil
}

func TestListenerSurvivesAcceptErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScript()
		failures := 0
		l := NewListener(s, nil, 1, Hooks{Failed: func(error) { failures++ }})
		for _, err := range []error{syscall.EMFILE, syscall.ENFILE, syscall.ECONNABORTED, syscall.EINVAL, errors.New("odd")} {
			s.accepts <- &net.OpError{Op: "accept", Err: err}
		}
		_, server := net.Pipe()
		s.accepts <- server
		start := time.Now()
		c, err := l.Accept()
		if c != server || err != nil {
			t.Fatalf("Accept = %v, %v", c, err)
		}
		if failures != 5 {
			t.Errorf("%d failures told, want 5", failures)
		}
		if got, want := time.Since(start), (5+10+20+40+80)*time.Millisecond; got != want {
			t.Errorf("paused for %v, want %v", got, want)
		}
		for range 12 {
			s.accepts <- syscall.EMFILE
		}
		time.AfterFunc(5*time.Second, func() { l.Close() })
		start = time.Now()
		if _, err := l.Accept(); err != net.ErrClosed || time.Since(start) != 5*time.Second {
			t.Errorf("Accept = %v after %v, want net.ErrClosed at once on Close", err, time.Since(start))
		}
		if err := l.Close(); err != nil {
			t.Errorf("second Close = %v", err)
		}
	})
}

func TestListenersShareLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limit := NewLimit(3, 4)
		var limited atomic.Int32
		hooks := Hooks{Limited: func() { limited.Add(1) }}
		sh, st := newScript(), newScript()
		http, tcp := NewListener(sh, limit, 1, hooks), NewListener(st, limit, 2, hooks)
		_, pipe := net.Pipe()
		for range 3 {
			sh.accepts <- pipe
			st.accepts <- pipe
		}
		accept(t, http) // 1 connection, 1 file
		accept(t, tcp)  // 2 connections, 3 files
		if limited.Load() != 0 {
			t.Error("limited too early")
		}
		waiting := make(chan net.Conn)
		go func() {
			c, _ := tcp.Accept() // would be file 5 of 4
			waiting <- c
		}()
		synctest.Wait()
		if limited.Load() != 1 {
			t.Error("not limited by files")
		}
		accept(t, http) // 3 connections, 4 files
		if limit.Conns() != 3 {
			t.Errorf("Conns() = %d, want 3", limit.Conns())
		}
		http.Release() // 3 files: one is free, two are wanted
		synctest.Wait()
		select {
		case <-waiting:
			t.Fatal("accepted without room")
		default:
		}
		tcp.Release()
		if c := <-waiting; c == nil {
			t.Fatal("not accepted after a release")
		}
		accept(t, http)
		go func() {
			c, _ := http.Accept()
			waiting <- c
		}()
		synctest.Wait()
		http.Close()
		if c := <-waiting; c != nil {
			t.Error("accepted after Close")
		}
		tcp.Close()
	})
}

func accept(t *testing.T, l *Listener) {
	t.Helper()
	if _, err := l.Accept(); err != nil {
		t.Fatal(err)
	}
}

func TestLimitAlwaysAdmitsOne(t *testing.T) {
	l := NewLimit(1, 1)
	if !l.TryAcquire(2) {
		t.Error("an unused limit refused a connection")
	}
	if l.TryAcquire(1) {
		t.Error("a full limit took a connection")
	}
	l.Release(2)
	if !l.TryAcquire(1) {
		t.Error("refused after Release")
	}
	for none, n := NewLimit(0, 0), 0; n < 1000; n++ {
		if !none.TryAcquire(2) {
			t.Fatal("zero means no limit")
		}
	}
}
