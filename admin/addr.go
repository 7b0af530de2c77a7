package admin

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/hashicorp/go-sockaddr/template"
)

// listenAddr is ui.addr taken apart.
type listenAddr struct {
	addr                                   string // host:port
	readTimeout, writeTimeout, idleTimeout time.Duration
}

// parseAddr reads fabio's grammar of a listener, as far as the page can have it: one address, which may be a
// go-sockaddr template and may be named with addr=, and options after semicolons.
func parseAddr(s string) (listenAddr, error) {
	var l listenAddr
	for i, part := range splitAddr(s) {
		if part == "" {
			continue
		}
		key, value, named := strings.Cut(part, "=")
		if i == 0 && (!named || strings.Contains(key, "{{")) {
			key, value = "addr", part
		}
		value = unquote(strings.TrimSpace(value))
		var err error
		switch key = strings.TrimSpace(key); key {
		case "addr":
			l.addr, err = expand(value)
		case "rt":
			l.readTimeout, err = timeout(value)
		case "wt":
			l.writeTimeout, err = timeout(value)
		case "it":
			l.idleTimeout, err = timeout(value)
		case "proto":
			if value == "https" {
				err = errors.New("TLS on the page's listener is not part of this version")
			} else if value != "http" {
				err = errors.New("want http")
			}
		case "cs", "strictmatch", "tlsmin", "tlsmax", "tlsciphers":
			err = errors.New("TLS on the page's listener is not part of this version")
		case "pxyproto", "pxytimeout":
			err = errors.New("the page's listener does not read PROXY headers")
		default:
			err = errors.New("unknown; known are addr, proto, rt, wt, it")
		}
		if err != nil {
			return listenAddr{}, fmt.Errorf("%s: %q: %w", key, value, err)
		}
	}
	if l.addr == "" {
		return listenAddr{}, errors.New("want exactly one listener, like 127.0.0.1:9998")
	}
	return l, nil
}

// host is the host part of the address, "" for every interface.
func (l listenAddr) host() string {
	host, _, _ := net.SplitHostPort(l.addr)
	return host
}

// splitAddr splits s at semicolons outside of quotes and templates.
func splitAddr(s string) (parts []string) {
	var quote byte
	start, depth := 0, 0
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case quote != 0:
			if c == quote {
				quote = 0
			}
		case c == '"' || c == '\'' || c == '`' && depth > 0:
			quote = c
		case strings.HasPrefix(s[i:], "{{"):
			depth++
		case strings.HasPrefix(s[i:], "}}"):
			depth--
		case c == ';' && depth == 0:
			parts = append(parts, strings.TrimSpace(s[start:i]))
			start = i + 1
		}
	}
	if last := strings.TrimSpace(s[start:]); last != "" {
		parts = append(parts, last)
	}
	return parts
}

func unquote(s string) string {
	if len(s) >= 2 && (s[0] == '"' || s[0] == '\'') && s[len(s)-1] == s[0] {
		return s[1 : len(s)-1]
	}
	return s
}

func expand(s string) (string, error) {
	if strings.Contains(s, "{{") {
		var err error
		if s, err = template.Parse(s); err != nil {
			return "", fmt.Errorf("template: %w", err)
		}
		s = strings.TrimSpace(s)
		// An interface without an address gives "". Behind it stands ":9998", which would open the page to everybody.
		if strings.HasPrefix(s, ":") {
			return "", fmt.Errorf("the template gives no address, only %q", s)
		}
	}
	if strings.Contains(s, ",") {
		return "", errors.New("want exactly one listener")
	}
	host, port, err := net.SplitHostPort(s)
	if err != nil {
		return "", errors.New("want host:port, like 127.0.0.1:9998 or :9998")
	}
	if n, err := net.LookupPort("tcp", port); err != nil || n < 0 {
		return "", errors.New("want a port from 0 to 65535")
	}
	return net.JoinHostPort(host, port), nil
}

func timeout(s string) (time.Duration, error) {
	d, err := time.ParseDuration(s)
	if err != nil || d < 0 {
		return 0, errors.New("want a duration with its unit, such as 30s")
	}
	return d, nil
}
