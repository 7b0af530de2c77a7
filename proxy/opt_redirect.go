package proxy

import (
	"errors"
	"fmt"
	"html"
	"net"
	"net/http"
	"strconv"
	"strings"
)

var optRedirect = option{
	name:   "redirect",
	syntax: "redirect=300..399",
	help:   "answers with this status and the destination as Location instead of forwarding; $path and $host in the destination stand for those of the request",
	bind: func(u *upstream, value string) (err error) {
		u.redirect, err = parseRedirect(value, u.target.Dst)
		return err
	},
}

// redirect is where a redirect leads: a destination URL in pieces. The scheme and the host are always its own, so no
// path that a client thinks of can lead to another site.
type redirect struct {
	code         int
	scheme, host string // host may contain $host
	path         string // before $path, or all of it
	after        string // after $path
	hasPath      bool   // there is a $path
	query        string // with its "?", "" for none
	fragment     string // with its "#"
}

// parseRedirect reads the status and takes the destination apart.
func parseRedirect(code, dst string) (*redirect, error) {
	n, err := strconv.Atoi(code)
	if err != nil || n < 300 || n > 399 {
		return nil, errors.New("want a status from 300 to 399")
	}
	r := &redirect{code: n}
	scheme, rest, ok := strings.Cut(dst, "://")
	if !ok || scheme != "http" && scheme != "https" {
		return nil, fmt.Errorf("destination %q: want an http or https URL", dst)
	}
	r.scheme = scheme
	rest, r.fragment = cutBefore(rest, "#")
	rest, r.query = cutBefore(rest, "?")
	end := strings.IndexByte(rest, '/')
	if i := strings.Index(rest, "$path"); i >= 0 && (end < 0 || i < end) {
		end = i
	}
	if end < 0 {
		end = len(rest)
	}
	r.host, r.path = rest[:end], rest[end:]
	if !validHost(strings.Replace(r.host, "$host", "h", 1)) {
		return nil, fmt.Errorf("destination %q: invalid host", dst)
	}
	if r.path, r.after, r.hasPath = strings.Cut(r.path, "$path"); r.hasPath {
		r.path = strings.TrimSuffix(r.path, "/")
	}
	for _, s := range []string{r.path, r.after, r.query, r.fragment} {
		if !plainText(s) {
			return nil, fmt.Errorf("destination %q: white space or control character", dst)
		}
	}
	return r, nil
}

// cutBefore cuts s before sep, which stays with the second part.
func cutBefore(s, sep string) (before, after string) {
	if i := strings.Index(s, sep); i >= 0 {
		return s[:i], s[i:]
	}
	return s, ""
}

func plainText(s string) bool {
	for i := range len(s) {
		if s[i] <= ' ' || s[i] == 0x7f {
			return false
		}
	}
	return true
}

// location is what the redirect answers to a request: the URL, and its path alone.
func (r *redirect) location(host, path, query string) (url, urlPath string) {
	urlPath = r.path
	if r.hasPath {
		urlPath += path + r.after
	}
	if urlPath == "" {
		urlPath = "/"
	}
	if r.query != "" || !r.hasPath {
		query = r.query
	}
	return r.scheme + "://" + r.hostFor(host) + urlPath + query + r.fragment, urlPath
}

// hostFor fills in $host. A port that the destination names replaces that of the request.
func (r *redirect) hostFor(host string) string {
	before, after, ok := strings.Cut(r.host, "$host")
	if !ok {
		return r.host
	}
	if strings.HasPrefix(after, ":") {
		if name, _, err := net.SplitHostPort(host); err == nil {
			host = name
			if strings.Contains(name, ":") {
				host = "[" + name + "]"
			}
		}
	}
	return before + host + after
}

// answerRedirect is the last handler of a target with a redirect.
func answerRedirect(x *exchange) {
	r := x.up.redirect
	path := x.up.rewritten(x.path, "")
	location, urlPath := r.location(x.req.Host, path, x.uri[len(x.path.raw):])
	if x.isSelf(r, urlPath) {
		x.skip = true
		return
	}
	x.p.metrics.Redirect(r.code)
	location = escapeLocation(location)
	h := x.Header()
	h["Location"] = []string{location}
	if x.req.Method != http.MethodGet && x.req.Method != http.MethodHead || r.code == http.StatusNotModified {
		h["Content-Length"] = []string{"0"}
		x.setSTS()
		x.WriteHeader(r.code)
		return
	}
	h["Content-Type"] = []string{"text/html; charset=utf-8"}
	text := http.StatusText(r.code)
	if text == "" {
		text = "redirect"
	}
	x.writeBody(r.code, []byte("<a href=\""+html.EscapeString(location)+"\">"+text+"</a>.\n"))
}

// isSelf reports whether the redirect would lead the client to where it is: then this route is not meant, but the next
// one that matches, as for one that sends http to https and whose clients arrive by https at a load balancer in front.
func (x *exchange) isSelf(r *redirect, urlPath string) bool {
	scheme := x.scheme()
	if told := x.req.Header["X-Forwarded-Proto"]; len(told) > 0 && x.trusted() {
		scheme = told[0]
	}
	return strings.EqualFold(scheme, r.scheme) && (urlPath == x.path.raw || urlPath == x.path.clean) &&
		strings.EqualFold(withoutDefaultPort(r.hostFor(x.req.Host), scheme), withoutDefaultPort(x.req.Host, scheme))
}

func withoutDefaultPort(host, scheme string) string {
	if scheme == "https" {
		return strings.TrimSuffix(host, ":443")
	}
	return strings.TrimSuffix(host, ":80")
}

// escapeLocation escapes what does not belong in a URL, and the backslash, which browsers take for a slash.
func escapeLocation(s string) string {
	for i := range len(s) {
		if c := s[i]; c <= ' ' || c >= 0x7f || c == '\\' || c == '"' || c == '<' || c == '>' {
			return escapeURL(s)
		}
	}
	return s
}

func escapeURL(s string) string {
	const hex = "0123456789ABCDEF"
	b := make([]byte, 0, len(s)+16)
	for i := range len(s) {
		c := s[i]
		if c <= ' ' || c >= 0x7f || c == '\\' || c == '"' || c == '<' || c == '>' {
			b = append(b, '%', hex[c>>4], hex[c&15])
			continue
		}
		b = append(b, c)
	}
	return string(b)
}
