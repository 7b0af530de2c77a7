package main

import (
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// starters know how to start each proxy for a case. They answer nil where the proxy does not have what the case needs.
var starters = map[string]func(o options, c benchCase, upstream string) (*proxy, error){
	"varco":     func(o options, c benchCase, up string) (*proxy, error) { return startVarco(o, c, up, "http1") },
	"varco-std": func(o options, c benchCase, up string) (*proxy, error) { return startVarco(o, c, up, "std") },
	"nginx":     startNginx,
	"haproxy":   startHAProxy,
	"caddy":     startCaddy,
	"relay":     startRelay,
}

// write makes a file in a folder of its own for this proxy and case.
func (o options) write(c benchCase, name, text string) (string, error) {
	path := filepath.Join(o.dir, c.name+"-"+name)
	return path, os.WriteFile(path, []byte(text), 0o600)
}

// hostName is the i-th of the hosts of case routes10k.
func hostName(i int) string { return fmt.Sprintf("host-%d.example.test", i) }

func startVarco(o options, c benchCase, upstream, engine string) (*proxy, error) {
	addr, err := freeAddr()
	if err != nil {
		return nil, err
	}
	ui, err := freeAddr()
	if err != nil {
		return nil, err
	}
	var routes strings.Builder
	for i := range c.hosts {
		fmt.Fprintf(&routes, "route add svc %s/ http://%s/\n", hostName(i), upstream)
	}
	fmt.Fprintf(&routes, "route add svc / http://%s/\n", upstream)
	path, err := o.write(c, "varco-"+engine, routes.String())
	if err != nil {
		return nil, err
	}
	args := []string{"--registry.backend=file", "--registry.file.path=" + path, "--proxy.addr=" + addr, "--ui.addr=" + ui, "--insecure", "--proxy.engine=" + engine}
	if c.log {
		args = append(args, "--log.access.target="+filepath.Join(o.dir, "varco-"+engine+".log"))
	}
	return launch(addr, o.varco, args...)
}

func startNginx(o options, c benchCase, upstream string) (*proxy, error) {
	addr, err := freeAddr()
	if err != nil {
		return nil, err
	}
	access := "off"
	if c.log {
		access = filepath.Join(o.dir, "nginx.log") + " combined"
	}
	var servers strings.Builder
	server := func(listen, name string) {
		fmt.Fprintf(&servers, "server { listen %s%s; server_name %s; location / { proxy_pass http://up; proxy_http_version 1.1; proxy_set_header Connection \"\"; proxy_set_header Host $http_host; proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for; proxy_set_header X-Forwarded-Proto $scheme; } }\n", addr, listen, name)
	}
	server(" default_server", "_")
	for i := range c.hosts {
		server("", hostName(i))
	}
	conf, err := o.write(c, "nginx.conf", fmt.Sprintf(`
daemon off; pid %s/nginx-%s.pid; error_log stderr error; worker_processes 2; 
events { worker_connections 19000; }
http {
 access_log %s; keepalive_requests 1000000000; client_max_body_size 0; server_names_hash_max_size 65536; server_names_hash_bucket_size 128;
 upstream up { server %s; keepalive 256; keepalive_requests 1000000000; }
 %s
}`, o.dir, c.name, access, upstream, servers.String()))
	if err != nil {
		return nil, err
	}
	return launch(addr, "nginx", "-c", conf)
}

func startHAProxy(o options, c benchCase, upstream string) (*proxy, error) {
	if c.idle > 9900 {
		return nil, nil // it reserves two descriptors for each connection and refuses to start with fewer
	}
	addr, err := freeAddr()
	if err != nil {
		return nil, err
	}
	log := ""
	if c.log {
		l, err := net.ListenPacket("udp", "127.0.0.1:0") // haproxy logs to syslog only: somebody has to read it
		if err != nil {
			return nil, err
		}
		go io.Copy(io.Discard, l.(io.Reader))
		log = "log " + l.LocalAddr().String() + " local0\n option httplog"
	}
	use := "default_backend up"
	if c.hosts > 0 {
		var m strings.Builder
		for i := range c.hosts {
			fmt.Fprintf(&m, "%s up\n", hostName(i))
		}
		path, err := o.write(c, "haproxy.map", m.String())
		if err != nil {
			return nil, err
		}
		use = "use_backend %[req.hdr(host),lower,map(" + path + ",up)]"
	}
	conf, err := o.write(c, "haproxy.cfg", fmt.Sprintf(`
global
 maxconn 9900
defaults
 mode http
 timeout client 60s
 timeout server 60s
 timeout connect 5s
 http-reuse always
frontend f
 bind %s
 maxconn 9900
 %s
 option forwardfor
 http-request set-header X-Forwarded-Proto http
 %s
backend up
 server s %s pool-max-conn 256
`, addr, log, use, upstream))
	if err != nil {
		return nil, err
	}
	return launch(addr, "haproxy", "-db", "-f", conf)
}

func startCaddy(o options, c benchCase, upstream string) (*proxy, error) {
	if _, err := exec.LookPath("caddy"); err != nil || c.hosts > 0 {
		return nil, nil
	}
	addr, err := freeAddr()
	if err != nil {
		return nil, err
	}
	log := ""
	if c.log {
		log = "log {\n output file " + filepath.Join(o.dir, "caddy.log") + "\n }"
	}
	conf, err := o.write(c, "Caddyfile", fmt.Sprintf("{\n admin off\n auto_https off\n}\nhttp://%s {\n %s\n reverse_proxy %s {\n transport http {\n keepalive_idle_conns_per_host 256\n compression off\n }\n }\n}\n", addr, log, upstream))
	if err != nil {
		return nil, err
	}
	return launch(addr, "caddy", "run", "--config", conf, "--adapter", "caddyfile")
}

// startRelay runs this program's own raw relay in a process of its own: the floor.
func startRelay(o options, c benchCase, upstream string) (*proxy, error) {
	if c.hosts > 0 || c.log || c.closing || c.idle > 0 {
		return nil, nil
	}
	addr, err := freeAddr()
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	p, err := launch(addr, self, "relay", addr, upstream)
	return p, err
}

// relay copies bytes both ways without looking at them.
func relay(addr, upstream string) error {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	for {
		c, err := l.Accept()
		if err != nil {
			return err
		}
		go func() {
			defer c.Close()
			u, err := net.Dial("tcp", upstream)
			if err != nil {
				return
			}
			defer u.Close()
			go copyBytes(u, c)
			copyBytes(c, u)
		}()
	}
}

func copyBytes(dst, src net.Conn) {
	b := make([]byte, 32<<10)
	for {
		n, err := src.Read(b)
		if n > 0 {
			if _, err := dst.Write(b[:n]); err != nil {
				return
			}
		}
		if err != nil {
			dst.Close()
			return
		}
	}
}
