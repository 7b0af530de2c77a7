package http1

import (
	"context"
	"net"
)

// Listen opens n listeners for one address, between which the kernel shares out the connections (SO_REUSEPORT), so
// that accepting is spread over as many goroutines. Where that does not exist, or with n below 2, it opens one. Each
// has an accept queue of its own: close them only together.
func Listen(ctx context.Context, network, addr string, n int) ([]net.Listener, error) {
	if n < 2 || reusePort == nil {
		n = 1
	}
	var lc net.ListenConfig
	if n > 1 {
		lc.Control = reusePort
	}
	var ls []net.Listener
	for range n {
		l, err := lc.Listen(ctx, network, addr)
		if err != nil {
			for _, l := range ls {
				l.Close()
			}
			return nil, err
		}
		ls = append(ls, l)
		addr = l.Addr().String() // the port that :0 became
	}
	return ls, nil
}
