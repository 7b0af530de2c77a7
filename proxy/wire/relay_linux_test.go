package wire

import (
	"errors"
	"io"
	"net"
	"os"
	"runtime"
	"syscall"
	"testing"
	"time"
)

func TestRelaySeesResetAfterHalfClose(t *testing.T) {
	u := newTunnel(t, Relay{}, kinds[0].wrap)
	pingPong(t, u)
	u.client.CloseWrite()
	if _, err := io.ReadAll(u.server); err != nil {
		t.Fatal(err)
	}
	u.client.SetLinger(0)
	u.client.Close()
	if _, err := u.server.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("server read %v, want a reset", err)
	}
	if err := u.wait(t); !errors.Is(err, syscall.EPIPE) && !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("Run = %v, want a reset", err)
	}
}

func TestRelayIdleTunnelsAreCheap(t *testing.T) {
	const tunnels = 1000
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil || limit.Cur < 5*tunnels {
		t.Skipf("needs %d descriptors", 5*tunnels)
	}
	type ends struct{ client, a, server, b *net.TCPConn }
	var all []ends
	for range tunnels {
		var e ends
		e.client, e.a = tcpPair(t)
		e.server, e.b = tcpPair(t)
		all = append(all, e)
	}
	filesBefore, bytesBefore := openFiles(t), memory()
	ended := make(chan error, tunnels)
	for _, e := range all {
		go func() { ended <- Relay{Idle: time.Hour}.Run(e.a, e.b) }()
	}
	// One exchange each, so that every tunnel has moved something before it idles.
	for _, e := range all {
		pingPong(t, &tunnel{client: e.client, server: e.server})
	}
	files, used := openFiles(t)-filesBefore, int64(memory())-int64(bytesBefore)
	t.Logf("%d bytes and %.3f descriptors per idle tunnel", used/tunnels, float64(files)/tunnels)
	if files > 10 {
		t.Errorf("%d idle tunnels hold %d descriptors beside their connections", tunnels, files)
	}
	if limit := int64(24 << 10); used/tunnels > limit {
		t.Errorf("an idle tunnel holds %d bytes, want at most %d", used/tunnels, limit)
	}
	for _, e := range all {
		e.client.Close()
		e.server.Close()
	}
	for range all {
		<-ended
	}
}

func openFiles(t *testing.T) int {
	t.Helper()
	files, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(files)
}

// memory is what the heap and the stacks take after a collection.
func memory() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc + m.StackInuse
}
