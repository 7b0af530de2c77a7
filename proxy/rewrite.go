package proxy

import (
	"errors"
	"net/url"
	"strings"
)

// rewrites reports whether the upstream gets another path than the client sent.
func (u *upstream) rewrites() bool {
	return u.strip != "" || u.prepend != "" || u.base != "" || u.query != ""
}

// readBase takes from the destination URL what it says beyond the address: the path that all paths of the upstream
// begin with, and the query that is put in front of that of the request.
func (u *upstream) readBase(dst *url.URL) error {
	base := strings.TrimSuffix(dst.EscapedPath(), "/")
	if base != "" {
		if err := checkPathOption(base); err != nil {
			return errors.New("destination: path: " + err.Error())
		}
		if strings.HasPrefix(base, "//") {
			return errors.New("destination: path: it begins with //")
		}
	}
	if err := checkQuery(dst.RawQuery); err != nil {
		return errors.New("destination: query: control character or white space")
	}
	u.base, u.query = base, dst.RawQuery
	return nil
}

// rewrite makes the request target for the upstream; it stands before forward in the chains of those who need it.
func rewrite(next handler) handler {
	return func(x *exchange) {
		u := x.up
		x.send = u.base + u.rewritten(x.path, "/") + u.mergeQuery(x.uri[len(x.path.raw):])
		next(x)
	}
}

// rewritten applies strip, then prepend. The rest keeps the client's encoding and starts with exactly one "/"; when
// strip leaves nothing it is empty.
func (u *upstream) rewritten(p requestPath, empty string) string {
	s := p.raw
	if u.strip != "" {
		var ok bool
		if s, ok = p.stripPrefix(u.strip); ok && s == "" {
			s = empty
		}
	}
	if u.prepend != "" && s != "" {
		return u.prepend + "/" + strings.TrimLeft(s, "/")
	}
	return u.prepend + s
}

// mergeQuery puts the destination's query in front of the client's, which comes with its "?" or is empty.
func (u *upstream) mergeQuery(query string) string {
	switch {
	case u.query == "":
		return query
	case len(query) <= 1:
		return "?" + u.query
	}
	return "?" + u.query + "&" + query[1:]
}
