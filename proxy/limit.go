package proxy

import (
	"runtime"
	"sync/atomic"
	"time"

	"varco/proxy/wire"
)

// connsPerCore is how many client connections a core is expected to carry.
const connsPerCore = 25000

// limit makes the limit that all listeners share.
func (l *ListenDefaults) limit() *wire.Limit {
	return wire.NewLimit(l.connections())
}

// connections is how many client connections there may be, and how many descriptors they may take; 0 files is no
// limit.
func (l *ListenDefaults) connections() (conns, files int) {
	conns = l.Connections
	if conns == 0 {
		conns = connsPerCore * runtime.GOMAXPROCS(0)
	}
	if open := openFiles(); open > 0 {
		files = max(open-fileReserve(open), 1)
		conns = min(conns, files)
	}
	return conns, files
}

// fileReserve is what is kept of the open files for upstreams, the registry, the page and logs: a tenth where there
// are many; half where there are few, since each request in flight needs a second descriptor.
func fileReserve(open int) int {
	return max(open/10, min(open/2, 1024))
}

// occasional says when something that happens often may be logged: once a minute.
type occasional struct{ last atomic.Int64 }

func (o *occasional) due() bool {
	now := time.Now().UnixNano()
	last := o.last.Load()
	return now-last > int64(time.Minute) && o.last.CompareAndSwap(last, now)
}
