package main

import (
	"cmp"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"
)

// Where the demo serves unless the command line says otherwise: fabio's ports, on loopback.
const (
	demoProxy = "127.0.0.1:9999"
	demoAdmin = "127.0.0.1:9998"
)

// demo is two small upstreams and the settings that route to them.
type demo struct {
	servers      [2]*http.Server
	addrs        [2]string
	proxy, admin string // as a client writes them: host:port
}

// startDemo starts the upstreams on free loopback ports and checks that the ports varco will want are free, so that a
// busy one is told before anything else happens.
func startDemo(c *config) (*demo, error) {
	d := &demo{
		proxy: firstAddr(cmp.Or(c.args["proxy.addr"], demoProxy)),
		admin: firstAddr(cmp.Or(c.args["ui.addr"], demoAdmin)),
	}
	for name, addr := range map[string]string{"proxy.addr": d.proxy, "ui.addr": d.admin} {
		l, err := net.Listen("tcp", addr)
		if err != nil {
			return nil, fmt.Errorf("%s: %w; choose another, such as --%[1]s=127.0.0.1:8080", name, err)
		}
		l.Close()
	}
	for i, name := range []string{"one", "two"} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			d.close()
			return nil, fmt.Errorf("demo upstream: %w", err)
		}
		d.addrs[i] = l.Addr().String()
		d.servers[i] = &http.Server{Handler: demoUpstream(name), ReadHeaderTimeout: 10 * time.Second}
		go d.servers[i].Serve(l)
	}
	return d, nil
}

// firstAddr is the address of the first listener, without its options.
func firstAddr(listeners string) string {
	addr, _, _ := strings.Cut(listeners, ",")
	addr, _, _ = strings.Cut(addr, ";")
	return addr
}

func (d *demo) close() {
	for _, s := range d.servers {
		if s != nil {
			s.Close()
		}
	}
}

// settings are what the demo wants where the command line says nothing.
func (d *demo) settings() map[string]string {
	one, two := "http://"+d.addrs[0]+"/", "http://"+d.addrs[1]+"/"
	return map[string]string{
		"registry.backend": "static",
		"registry.static.routes": strings.Join([]string{
			`route add hello / ` + one + ` tags "one"`,
			`route add hello / ` + two + ` tags "two"`,
			`route add api /api/ ` + one + ` opts "strip=/api"`,
			`route add two two.localhost/ ` + two,
			`route add moved /old/ http://$host/new$path opts "redirect=302 strip=/old"`,
			`route add office /office/ ` + one + ` opts "deny=ip:0.0.0.0/0,ip:::/0"`,
		}, "\n"),
		"proxy.strategy": "rr",
		"proxy.addr":     demoProxy,
		"ui.addr":        demoAdmin,
		"log.level":      "WARN", // what to try should stay on the screen
		"insecure":       "true", // it is on loopback
	}
}

// explain prints what to try.
func (d *demo) explain(w io.Writer) {
	fmt.Fprintf(w, `varco %s demo: two upstreams on %s and %s

  page     http://%[4]s/
  proxy    http://%[5]s/

  curl http://%[5]s/                          run it twice: the upstreams take turns
  curl http://%[5]s/api/users                 the upstream sees /users
  curl -H 'Host: two.localhost' http://%[5]s/ a host of its own
  curl -i http://%[5]s/old/page               a redirect
  curl -i http://%[5]s/office/                access denied
  curl -N http://%[5]s/events                 a stream, passed on line by line
  curl http://%[4]s/api/routes?raw            the table
  curl http://%[4]s/metrics                   the figures

Ctrl-C stops it.

`, version, d.addrs[0], d.addrs[1], d.admin, d.proxy)
}

// demoUpstream answers with what it received.
func demoUpstream(name string) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		fmt.Fprintf(w, "upstream %s got %s %s for host %s\n", name, r.Method, r.URL.RequestURI(), r.Host)
		fmt.Fprintf(w, "X-Forwarded-For: %s\n", r.Header.Get("X-Forwarded-For"))
	})
	mux.HandleFunc("/events", demoEvents)
	return mux
}

// demoEvents sends the time once a second, for half a minute.
func demoEvents(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for range 30 {
		fmt.Fprintf(w, "data: %s\n\n", time.Now().Format(time.TimeOnly))
		if err := http.NewResponseController(w).Flush(); err != nil {
			return
		}
		select {
		case <-tick.C:
		case <-r.Context().Done():
			return
		}
	}
}
