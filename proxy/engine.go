package proxy

import (
	"fmt"
	"slices"
	"strings"
)

// An engine is the machinery that speaks HTTP/1.x with clients and upstreams. All behave the same; what they do with a
// request in between is decided elsewhere. To add one: a file engine_NAME.go and a line in the list below.
type engine struct {
	name, help string
	// open makes the transport for one upstream identity.
	open func(p *Proxy, id identity) transport
	// serve makes the server of one listener.
	serve func(p *Proxy, l ListenConfig) httpServer
}

// engines are all there are; the first is the default.
var engines = []engine{
	{"http1", "varco's own, the fastest and strictest", (*Proxy).openHTTP1, (*Proxy).newHTTP1Server},
	{"std", "net/http, to compare with and to fall back on", (*Proxy).openStd, (*Proxy).newStdServer},
}

func engineNames() []string {
	var names []string
	for _, e := range engines {
		names = append(names, e.name)
	}
	return names
}

func findEngine(name string) (engine, error) {
	i := slices.IndexFunc(engines, func(e engine) bool { return e.name == name })
	if i < 0 {
		return engine{}, fmt.Errorf("proxy.engine: %q: want %s", name, strings.Join(engineNames(), " or "))
	}
	return engines[i], nil
}
