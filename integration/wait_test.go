package integration

import (
	"fmt"
	"net"
	"os"
	"sync/atomic"
	"testing"
	"time"
)

// eventually asks ok every few milliseconds until it answers nil, and fails the test with its last answer when it
// hasn't within the deadline. It answers how long that took.
func eventually(t *testing.T, within time.Duration, what string, ok func() error) time.Duration {
	t.Helper()
	took, err := poll(within, ok)
	if err != nil {
		t.Fatalf("%s: not within %v: %v", what, within, err)
	}
	return took
}

// throughout fails the test if ok answers an error at any time during the span.
func throughout(t *testing.T, span time.Duration, what string, ok func() error) {
	t.Helper()
	end := time.Now().Add(span)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for time.Now().Before(end) {
		if err := ok(); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		<-tick.C
	}
}

// poll asks ok until it answers nil or the time is over; its last error comes back then.
func poll(within time.Duration, ok func() error) (time.Duration, error) {
	start := time.Now()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		err := ok()
		took := time.Since(start)
		if err == nil || took > within {
			return took, err
		}
		<-tick.C
	}
}

// nextPort is the last port that freePort gave out. They lie below the range from which the kernel picks the ports of
// outgoing connections, so that none of those can take one between now and its use.
var nextPort atomic.Int64

// freePort answers a loopback port that nothing listens on and that this process was not given before.
func freePort() int {
	const first, count = 12000, 18000
	nextPort.CompareAndSwap(0, int64(os.Getpid()*131%count))
	for range count {
		port := first + int(nextPort.Add(1)%count)
		l, err := net.Listen("tcp", loopback(port))
		if err != nil {
			continue
		}
		l.Close()
		return port
	}
	panic("no free loopback port")
}

func loopback(port int) string { return fmt.Sprintf("127.0.0.1:%d", port) }
