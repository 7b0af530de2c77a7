package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// proxy is a running peer: a process with its children, or, for the relay, none.
type proxy struct {
	name string
	addr string // of its HTTP listener
	cmd  *exec.Cmd
	log  bytes.Buffer
	end  func()
}

// launch starts a peer in a process group of its own.
func launch(addr string, name string, args ...string) (*proxy, error) {
	p := &proxy{addr: addr, cmd: exec.Command(name, args...)}
	p.cmd.Stdout, p.cmd.Stderr = io.Discard, &p.log
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	return p, p.cmd.Start()
}

func (p *proxy) stop() {
	if p.end != nil {
		p.end()
	}
	if p.cmd != nil {
		syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
		p.cmd.Wait()
	}
}

// ready waits until the proxy accepts connections.
func (p *proxy) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		if c, err := net.Dial("tcp", p.addr); err == nil {
			return c.Close()
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("does not listen on %s: %s", p.addr, p.log.String())
		case <-tick.C:
		}
	}
}

// usage is what a proxy's processes have used so far.
type usage struct {
	cpu time.Duration
	rss int64 // bytes
}

func (p *proxy) usage() usage {
	if p.cmd == nil {
		return usage{}
	}
	var u usage
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, f := range stats {
		b, err := os.ReadFile(f)
		if err != nil {
			continue
		}
		// The fields behind the parenthesised name: state ppid pgrp … utime (12) stime (13) … rss in pages (22).
		_, rest, ok := strings.Cut(string(b), ") ")
		fields := strings.Fields(rest)
		if !ok || len(fields) < 22 || fields[2] != strconv.Itoa(p.cmd.Process.Pid) {
			continue
		}
		ut, _ := strconv.ParseInt(fields[11], 10, 64)
		st, _ := strconv.ParseInt(fields[12], 10, 64)
		rss, _ := strconv.ParseInt(fields[21], 10, 64)
		u.cpu += time.Duration(ut+st) * (time.Second / 100)
		u.rss += rss * int64(os.Getpagesize())
	}
	return u
}

func freeAddr() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return l.Addr().String(), nil
}
