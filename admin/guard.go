package admin

import (
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"mime"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"
)

// csp lets the page load its own files and nothing else, and forbids scripts to turn text into markup.
const csp = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; " +
	"frame-ancestors 'none'; base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// guard decides whether a request is answered. Its steps, in this order:
//
//	headers          every answer forbids framing, sniffing, referrers and caching
//	/health          is answered for any Host: it tells nothing, and Consul's check must not depend on names
//	Host             421 for a name that is not ours, which is what DNS rebinding looks like
//	cross-origin     403 for a write that a page of another origin makes
//	endpoint         404, or 303 to the page, when the path belongs to none
//	access           403 when the endpoint is part of editing overrides and ui.access is ro
//	method           405 when the endpoint does not have it; no header can stand in for it
//	token            401 for a write without ui.token, when one is set
//	content type     415 for a body that is not JSON: no HTML form can send that
//
// The decision hangs on the endpoint that the path was matched with, once, in its encoded form; nobody looks at the
// path a second time.
type guard struct {
	server    *Server
	endpoints []endpoint
	origin    *http.CrossOriginProtection
}

// Handler answers everything on ui.addr.
func (s *Server) Handler() http.Handler {
	return &guard{server: s, endpoints: s.endpoints(), origin: http.NewCrossOriginProtection()}
}

// ServeHTTP answers a request or refuses it.
func (g *guard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	setHeaders(w.Header())
	if r.URL.Path == "/health" {
		g.server.health(w, r)
		return
	}
	if !g.server.hosts.allow(r.Host) {
		text := fmt.Sprintf("this server does not answer to the name %q; if the name is yours, add it to ui.hosts", r.Host)
		http.Error(w, text, http.StatusMisdirectedRequest)
		return
	}
	if err := g.origin.Check(r); err != nil {
		http.Error(w, "a page of another origin may not change anything here", http.StatusForbidden)
		return
	}
	e, sub, ok := g.match(r.URL.EscapedPath())
	if !ok {
		g.unknown(w, r)
		return
	}
	if e.edits && !g.server.config.writable() {
		http.Error(w, "Forbidden", http.StatusForbidden)
		return
	}
	handle := e.methods[r.Method]
	if r.Method == http.MethodHead {
		handle = e.methods[http.MethodGet]
	}
	if handle == nil {
		w.Header().Set("Allow", e.allow())
		http.Error(w, "not allowed", http.StatusMethodNotAllowed)
		return
	}
	if write := r.Method != http.MethodGet && r.Method != http.MethodHead; write && !g.authorized(r) {
		w.Header().Set("WWW-Authenticate", `Bearer realm="varco"`)
		http.Error(w, "the token of ui.token is missing or wrong: send it as \"Authorization: Bearer ...\"", http.StatusUnauthorized)
		return
	}
	if r.ContentLength != 0 && !isJSON(r.Header.Get("Content-Type")) {
		http.Error(w, "want \"Content-Type: application/json\"", http.StatusUnsupportedMediaType)
		return
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxBody)
	handle(w, r, sub)
}

// match finds the endpoint that an encoded path belongs to, and what is left of the path.
func (g *guard) match(path string) (e *endpoint, sub string, ok bool) {
	for i := range g.endpoints {
		e := &g.endpoints[i]
		sub, ok := strings.CutPrefix(path, e.path)
		if ok && (sub == "" || e.subtree && sub[0] == '/') {
			return e, sub, true
		}
	}
	return nil, "", false
}

// unknown leads to the page, as fabio does, except where a program is more likely to ask than a person.
func (g *guard) unknown(w http.ResponseWriter, r *http.Request) {
	base := g.server.config.Path
	for _, area := range []string{base + "/api", base + "/assets"} {
		if r.URL.Path == area || strings.HasPrefix(r.URL.Path, area+"/") {
			http.Error(w, "not found", http.StatusNotFound)
			return
		}
	}
	w.Header().Set("Location", base+"/routes")
	w.WriteHeader(http.StatusSeeOther)
}

// authorized reports whether r carries the token, or none is wanted. The comparison takes the same time for any token.
func (g *guard) authorized(r *http.Request) bool {
	if g.server.config.Token.IsZero() {
		return true
	}
	scheme, got, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	a, b := sha256.Sum256([]byte(got)), sha256.Sum256([]byte(g.server.config.Token.Reveal()))
	return subtle.ConstantTimeCompare(a[:], b[:]) == 1 && strings.EqualFold(scheme, "Bearer")
}

func setHeaders(h http.Header) {
	h.Set("Content-Security-Policy", csp)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
}

func isJSON(contentType string) bool {
	media, _, err := mime.ParseMediaType(contentType)
	return err == nil && media == "application/json"
}

// hostList is the names that the page and the API answer to. An address is always allowed: a rebinding attack needs
// a name.
type hostList struct {
	names    map[string]bool
	suffixes []string // ".example.com"
}

// newHostList makes the list of localhost, this machine's names, the host of ui.addr and ui.hosts.
func newHostList(extra []string, listenHost string) hostList {
	l := hostList{names: map[string]bool{"localhost": true}, suffixes: []string{".localhost"}}
	if name, err := os.Hostname(); err == nil && name != "" {
		name = foldHost(name)
		short, _, _ := strings.Cut(name, ".")
		l.names[name], l.names[short] = true, true
	}
	for _, name := range append([]string{listenHost}, extra...) {
		name = foldHost(strings.TrimSpace(name))
		if suffix, ok := strings.CutPrefix(name, "*"); ok {
			l.suffixes = append(l.suffixes, suffix)
		} else if name != "" {
			l.names[name] = true
		}
	}
	return l
}

// allow reports whether a request's Host, with or without port, is an address or one of the names.
func (l hostList) allow(hostport string) bool {
	host := hostport
	if h, _, err := net.SplitHostPort(hostport); err == nil {
		host = h
	}
	if _, err := netip.ParseAddr(strings.Trim(host, "[]")); err == nil {
		return true
	}
	host = foldHost(host)
	if l.names[host] {
		return true
	}
	for _, suffix := range l.suffixes {
		if len(host) > len(suffix) && strings.HasSuffix(host, suffix) {
			return true
		}
	}
	return false
}

func foldHost(host string) string { return strings.ToLower(strings.TrimSuffix(host, ".")) }
