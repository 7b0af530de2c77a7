package proxy

import (
	"net/netip"
	"strconv"
	"strings"
)

// validHost reports whether s is host or host:port: a name of letters, digits, "-", "." and "_", an IPv4 address, or
// an IPv6 address in brackets. Everything else (user@, a path, a list, a bad port) could be read in two ways.
func validHost(s string) bool {
	host, port, hasPort := s, "", false
	if strings.HasPrefix(s, "[") {
		end := strings.IndexByte(s, ']')
		if end < 0 {
			return false
		}
		addr, err := netip.ParseAddr(s[1:end])
		if err != nil || !addr.Is6() || addr.Zone() != "" {
			return false
		}
		rest := s[end+1:]
		return rest == "" || rest[0] == ':' && validPort(rest[1:])
	}
	if i := strings.IndexByte(s, ':'); i >= 0 {
		host, port, hasPort = s[:i], s[i+1:], true
	}
	if host == "" || len(host) > 255 || hasPort && !validPort(port) {
		return false
	}
	for i := range len(host) {
		if !hostByte[host[i]] {
			return false
		}
	}
	return host[0] != '.'
}

var hostByte = func() (t [256]bool) {
	for c := range t {
		t[c] = c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '.' || c == '_'
	}
	return t
}()

// validPort reports whether s is a decimal number from 1 to 65535 without a sign or leading zeros.
func validPort(s string) bool {
	if s == "" || len(s) > 5 || s[0] < '1' {
		return false
	}
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	n, _ := strconv.Atoi(s)
	return n <= 65535
}

// hostPort returns the port written in a valid host, "" if there is none.
func hostPort(s string) string {
	i := strings.LastIndexByte(s, ':')
	if i < 0 || strings.HasSuffix(s, "]") {
		return ""
	}
	return s[i+1:]
}
