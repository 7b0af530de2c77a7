package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"
)

// upstream is a server that does nothing, fast: it reads a request, waits if told to, and answers with as many bytes as
// told to. Path: /SIZE/DELAY_MS/…, both optional.
type upstream struct {
	l    net.Listener
	addr string
}

func startUpstream() (*upstream, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	u := &upstream{l, l.Addr().String()}
	go func() {
		for {
			c, err := l.Accept()
			if errors.Is(err, net.ErrClosed) {
				return
			}
			if err == nil {
				go serveNothing(c)
			}
		}
	}()
	return u, nil
}

func (u *upstream) close() { u.l.Close() }

func serveNothing(c net.Conn) {
	defer c.Close()
	r := bufio.NewReaderSize(c, 16<<10)
	answers := map[string][]byte{}
	for {
		line, err := r.ReadSlice('\n')
		if err != nil {
			return
		}
		_, path, _ := strings.Cut(string(line), " /")
		path, _, _ = strings.Cut(path, " ")
		length, closing := 0, false
		for {
			line, err := r.ReadSlice('\n')
			if err != nil {
				return
			}
			if len(line) <= 2 {
				break
			}
			switch line[0] {
			case 'C', 'c':
				k, v, _ := strings.Cut(strings.ToLower(strings.TrimSpace(string(line))), ": ")
				if k == "content-length" {
					length, _ = strconv.Atoi(v)
				}
				closing = closing || k == "connection" && v == "close"
			}
		}
		if _, err := io.CopyN(io.Discard, r, int64(length)); err != nil {
			return
		}
		parts := strings.Split(path, "/")
		if len(parts) > 1 {
			if ms, err := strconv.Atoi(parts[1]); err == nil && ms > 0 {
				<-time.After(time.Duration(ms) * time.Millisecond)
			}
		}
		a := answers[parts[0]]
		if a == nil {
			n, err := strconv.Atoi(parts[0])
			if err != nil {
				n = 128
			}
			a = fmt.Appendf(nil, "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: %d\r\n\r\n%s", n, strings.Repeat("x", n))
			answers[parts[0]] = a
		}
		if _, err := c.Write(a); err != nil || closing {
			return
		}
	}
}
