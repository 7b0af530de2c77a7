package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// benchCase is one kind of load.
type benchCase struct {
	name, help string
	path       string // of the request; the upstream reads size and delay from it
	conns      int
	body       int  // bytes of a POST, 0 for a GET
	closing    bool // a connection for each request
	hosts      int  // routes by host name; requests go over them in turn
	log        bool // access log on
	idle       int  // connections that do nothing; nothing else is measured then
}

var cases = []benchCase{
	{name: "small", help: "10 request fields, 128-byte answers, 64 keep-alive connections", path: "/128", conns: 64},
	{name: "body64k", help: "64 KiB answers, 64 connections", path: "/65536", conns: 64},
	{name: "upload64k", help: "POST of 64 KiB, 64 connections", path: "/128", conns: 64, body: 64 << 10},
	{name: "newconn", help: "a connection for each request, 64 at a time", path: "/128", conns: 64, closing: true},
	{name: "routes10k", help: "10,000 hosts", path: "/128", conns: 64, hosts: 10000},
	{name: "log+stats", help: "like small, access log on", path: "/128", conns: 64, log: true},
	{name: "slow", help: "1,000 connections, upstream takes 50 ms", path: "/128/50", conns: 1000},
	{name: "idle", help: "10,000 connections that made one request and wait", path: "/128", idle: 10000},
}

func caseNames() []string {
	var n []string
	for _, c := range cases {
		n = append(n, c.name)
	}
	return n
}

// fields are what a browser sends.
var fields = []string{
	"User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0",
	"Accept: text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8",
	"Accept-Language: en-US,en;q=0.5",
	"Accept-Encoding: gzip, deflate, br, zstd",
	"Cookie: session=0123456789abcdef0123456789abcdef; theme=dark",
	"Referer: http://example.test/somewhere",
	"Upgrade-Insecure-Requests: 1",
	"Cache-Control: no-cache",
	"Pragma: no-cache",
}

// script writes the wrk script of a case: Host is the tenth field.
func (c benchCase) script(o options) (string, error) {
	var b strings.Builder
	if c.body > 0 {
		fmt.Fprintf(&b, "wrk.method = \"POST\"\nwrk.body = string.rep(\"x\", %d)\n", c.body)
	}
	for _, f := range fields {
		k, v, _ := strings.Cut(f, ": ")
		fmt.Fprintf(&b, "wrk.headers[%q] = %q\n", k, v)
	}
	if c.closing {
		b.WriteString("wrk.headers[\"Connection\"] = \"close\"\n")
	}
	if c.hosts > 0 {
		fmt.Fprintf(&b, `local reqs, n = {}, 0
function init()
  for i = 0, %d do
    wrk.headers["Host"] = "host-" .. (i * 7919 %% %d) .. ".example.test"
    reqs[i] = wrk.format()
  end
end
function request()
  n = (n + 1) %% %d
  return reqs[n]
end
`, c.hosts-1, c.hosts, c.hosts)
	}
	return o.write(c, "wrk.lua", b.String())
}

func (c benchCase) run(ctx context.Context, o options, p *proxy) (result, error) {
	if c.idle > 0 {
		return c.runIdle(o, p)
	}
	script, err := c.script(o)
	if err != nil {
		return result{}, err
	}
	if _, err := c.wrk(ctx, p, script, int(warmUp(o)/time.Second)); err != nil {
		return result{}, err
	}
	before := p.usage()
	r, err := c.wrk(ctx, p, script, o.seconds)
	if err != nil {
		return result{}, err
	}
	after := p.usage()
	if r.requests > 0 {
		r.CPU = float64((after.cpu - before.cpu).Microseconds()) / float64(r.requests)
	}
	r.RSS = float64(after.rss) / (1 << 20)
	return r.result, nil
}

// wrkResult is what one run of wrk said.
type wrkResult struct {
	result
	requests int
}

var (
	wrkCount   = regexp.MustCompile(`(\d+) requests in`)
	wrkRate    = regexp.MustCompile(`Requests/sec:\s+([\d.]+)`)
	wrkLatency = regexp.MustCompile(`(50|99)%\s+([\d.]+)(us|ms|s)`)
	wrkSocket  = regexp.MustCompile(`Socket errors: connect (\d+), read (\d+), write (\d+), timeout (\d+)`)
	wrkStatus  = regexp.MustCompile(`Non-2xx or 3xx responses: (\d+)`)
)

func (c benchCase) wrk(ctx context.Context, p *proxy, script string, seconds int) (wrkResult, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(seconds+30)*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, "wrk", "-t1", "-c"+strconv.Itoa(c.conns), "-d"+strconv.Itoa(seconds)+"s", "--latency", "-s", script, "http://"+p.addr+c.path)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return wrkResult{}, fmt.Errorf("wrk: %w: %s", err, out)
	}
	return parseWrk(string(out))
}

func parseWrk(out string) (r wrkResult, err error) {
	m := wrkCount.FindStringSubmatch(out)
	if m == nil {
		return r, fmt.Errorf("wrk said: %s", out)
	}
	r.requests, _ = strconv.Atoi(m[1])
	if m := wrkRate.FindStringSubmatch(out); m != nil {
		r.RPS, _ = strconv.ParseFloat(m[1], 64)
	}
	for _, m := range wrkLatency.FindAllStringSubmatch(out, -1) {
		v, _ := strconv.ParseFloat(m[2], 64)
		switch m[3] {
		case "us":
			v /= 1000
		case "s":
			v *= 1000
		}
		if m[1] == "50" {
			r.P50 = v
		} else {
			r.P99 = v
		}
	}
	if m := wrkSocket.FindStringSubmatch(out); m != nil {
		for _, n := range m[1:] {
			k, _ := strconv.Atoi(n)
			r.Errors += k
		}
	}
	if m := wrkStatus.FindStringSubmatch(out); m != nil {
		k, _ := strconv.Atoi(m[1])
		r.Errors += k
	}
	return r, nil
}

// runIdle opens connections that make one request each and then wait, and divides the memory that they added.
func (c benchCase) runIdle(o options, p *proxy) (result, error) {
	before := p.usage()
	var conns []net.Conn
	defer func() {
		for _, nc := range conns {
			nc.Close()
		}
	}()
	var r result
	for range c.idle {
		nc, err := net.Dial("tcp", p.addr)
		if err != nil {
			r.Errors++
			continue
		}
		conns = append(conns, nc)
		nc.SetDeadline(time.Now().Add(10 * time.Second))
		fmt.Fprintf(nc, "GET %s HTTP/1.1\r\nHost: %s\r\n%s\r\n\r\n", c.path, hostName(0), strings.Join(fields, "\r\n"))
		br := bufio.NewReaderSize(nc, 512)
		length := 0
		for {
			line, err := br.ReadString('\n')
			if err != nil {
				r.Errors++
				break
			}
			if v, ok := strings.CutPrefix(strings.ToLower(line), "content-length: "); ok {
				length, _ = strconv.Atoi(strings.TrimSpace(v))
			}
			if line == "\r\n" {
				io.CopyN(io.Discard, br, int64(length))
				break
			}
		}
	}
	<-time.After(time.Duration(o.seconds) * time.Second) // let a garbage collector come by, as it does in life
	after := p.usage()
	r.RSS = float64(after.rss) / (1 << 20)
	r.KiB = float64(after.rss-before.rss) / 1024 / float64(max(len(conns), 1))
	return r, nil
}
