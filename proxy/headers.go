package proxy

import (
	"crypto/tls"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/netip"
	"strconv"
	"strings"

	"github.com/google/uuid"
)

// The header of a request on its way to the upstream. First everything of the client's is copied but what concerns
// only its own connection (hop-by-hop, RFC 9110 7.6.1), what claims to be a header of varco's under another spelling,
// and, from peers that are not trusted, what only a proxy may say. Then varco's own headers are set. Since they come
// last, no client can name them away in a Connection header.

// headerNames are the headers whose names are configured, in canonical form; "" for none.
type headerNames struct {
	clientIP, tls, requestID string
	tlsValue                 string
	by                       string // for the Forwarded header: "; by=..." or ""
	sts                      string // Strict-Transport-Security, "" for none
}

func newHeaderNames(c *HTTPConfig) (*headerNames, error) {
	n := &headerNames{
		clientIP:  http.CanonicalHeaderKey(c.ClientIPHeader),
		tls:       http.CanonicalHeaderKey(c.TLSHeader),
		requestID: http.CanonicalHeaderKey(c.RequestIDHeader),
		tlsValue:  c.TLSHeaderValue,
	}
	if n.clientIP == "X-Forwarded-For" || n.clientIP == "X-Real-Ip" {
		n.clientIP = "" // they have rules of their own
	}
	ip, err := c.localIP()
	if err != nil {
		return nil, err
	}
	if ip.IsValid() {
		n.by = "; by=" + forwardedNode(ip.String())
	}
	if c.STS.MaxAge > 0 {
		n.sts = "max-age=" + strconv.Itoa(c.STS.MaxAge)
		if c.STS.Subdomains {
			n.sts += "; includeSubdomains"
		}
		if c.STS.Preload {
			n.sts += "; preload"
		}
	}
	return n, nil
}

// hopByHop reports the names, in canonical form, that concern one connection only, and Proxy, which CGI programs take
// for a setting (httpoxy).
func hopByHop(name string) bool {
	switch name {
	case "Connection", "Keep-Alive", "Proxy-Connection", "Proxy-Authenticate", "Proxy-Authorization", "Te", "Trailer",
		"Transfer-Encoding", "Upgrade", "Http2-Settings", "Proxy":
		return true
	}
	return false
}

// protectedName reports the names that the message itself depends on: no configured header may have one.
func protectedName(name string) bool {
	switch name = http.CanonicalHeaderKey(name); name {
	case "Host", "Content-Length", "Authorization", "Cookie", "Expect", "Content-Type", "Content-Encoding":
		return true
	}
	return hopByHop(name)
}

// forwardedName reports the headers that tell what a proxy has seen; varco sets all of them itself.
func forwardedName(name string) bool {
	switch name {
	case "X-Forwarded-For", "X-Forwarded-Proto", "X-Forwarded-Host", "X-Forwarded-Port", "X-Forwarded-Prefix",
		"X-Real-Ip", "Forwarded":
		return true
	}
	return false
}

// own reports the names of the headers that varco sets.
func (n *headerNames) own(name string) bool {
	return forwardedName(name) || name != "" && (name == n.clientIP || name == n.tls || name == n.requestID)
}

// alias reports whether name is, to a server that takes "_" for "-", one of varco's headers or one that frames the
// message.
func (n *headerNames) alias(name string) bool {
	if strings.IndexByte(name, '_') < 0 {
		return false
	}
	canonical := http.CanonicalHeaderKey(strings.ReplaceAll(name, "_", "-"))
	return n.own(canonical) || protectedName(canonical)
}

// removable reports whether a client may name a header away in its Connection header: a hop-by-hop header of some
// extension is called X-something; Authorization, Cookie or Content-Type are nobody's hop-by-hop headers.
func (n *headerNames) removable(name string) bool {
	return strings.HasPrefix(name, "X-") && !n.own(name)
}

// hasToken reports whether the comma list in values contains the lower-case token.
func hasToken(values []string, token string) bool {
	for _, line := range values {
		for t := range strings.SplitSeq(line, ",") {
			if strings.EqualFold(strings.TrimSpace(t), token) {
				return true
			}
		}
	}
	return false
}

// copyRequestHeader copies to the upstream's header what the client may tell it.
func (x *exchange) copyRequestHeader(to http.Header) {
	n, from := x.p.names, x.req.Header
	connection := from["Connection"]
	if len(connection) == 1 && (connection[0] == "keep-alive" || connection[0] == "close") {
		connection = nil
	}
	for name, values := range from {
		switch {
		case hopByHop(name), name == "Content-Length", n.alias(name):
		case connection != nil && n.removable(name) && hasToken(connection, name):
		case name == "X-Forwarded-Prefix" && !x.trusted():
		default:
			to[name] = values
		}
	}
}

// setRequestHeader fills in the header of o for the exchange's upstream.
func (x *exchange) setRequestHeader(o *outgoing) {
	h := o.header
	x.copyRequestHeader(h)
	if te := x.req.Header["Te"]; te != nil && hasToken(te, "trailers") {
		o.set("Te", "trailers")
	}
	if x.upgrade {
		o.set("Connection", "Upgrade")
		o.set("Upgrade", "websocket")
	}
	if h["User-Agent"] == nil {
		h["User-Agent"] = nil // present but empty: none is invented
	}
	x.setForwarded(o)
	if x.up.stripValues != nil {
		h["X-Forwarded-Prefix"] = x.up.stripValues
	}
	x.setConfigured(o)
}

// setForwarded sets what tells the upstream about the client: kept where a trusted peer has said it.
func (x *exchange) setForwarded(o *outgoing) {
	h := o.header
	if x.peer != "" {
		o.set("X-Forwarded-For", appendElement(x.req.Header["X-Forwarded-For"], x.peer))
	}
	told := x.req.Header
	if !x.trusted() {
		told = nil
		delete(h, "X-Real-Ip")
		delete(h, "Forwarded")
	}
	if len(told["X-Real-Ip"]) == 0 && x.peer != "" {
		o.set("X-Real-Ip", x.peer)
	}
	if len(told["X-Forwarded-Proto"]) == 0 {
		proto := forwardedProto(told["Forwarded"])
		if proto == "" {
			proto = x.scheme()
		}
		o.set("X-Forwarded-Proto", proto)
	}
	if len(told["X-Forwarded-Port"]) == 0 {
		o.set("X-Forwarded-Port", x.port())
	}
	if len(told["X-Forwarded-Host"]) == 0 {
		o.set("X-Forwarded-Host", x.req.Host)
	}
	o.set("Forwarded", x.forwarded(told["Forwarded"]))
}

// setConfigured sets the headers that the configuration names.
func (x *exchange) setConfigured(o *outgoing) {
	n := x.p.names
	if n.clientIP != "" {
		o.set(n.clientIP, x.peer)
	}
	if n.tls != "" {
		delete(o.header, n.tls)
		if x.req.TLS != nil {
			o.set(n.tls, n.tlsValue)
		}
	}
}

// appendElement adds an element to a list that may stand in several lines.
func appendElement(lines []string, element string) string {
	switch len(lines) {
	case 0:
		return element
	case 1:
		if lines[0] == "" {
			return element
		}
		return lines[0] + ", " + element
	}
	return strings.Join(lines, ", ") + ", " + element
}

// port is what the client has connected to, as far as its Host header tells.
func (x *exchange) port() string {
	if port := hostPort(x.req.Host); port != "" {
		return port
	}
	if x.req.TLS != nil {
		return "443"
	}
	return "80"
}

// forwarded is the value of the Forwarded header (RFC 7239). What a trusted peer has sent is kept, and its last
// element completed, as fabio does; if a proxy has completed that one already, a new element tells of the peer.
func (x *exchange) forwarded(told []string) string {
	b := make([]byte, 0, 192)
	complete := true
	if len(told) > 0 {
		all := strings.Join(told, ", ")
		complete = hasPair(all[strings.LastIndexByte(all, ',')+1:], "by")
		b = append(b, all...)
		if complete {
			b = append(b, ", "...)
		}
	}
	if complete {
		b = append(b, "for="...)
		b = append(b, forwardedNode(x.peer)...)
		b = append(b, "; proto="...)
		b = append(b, x.scheme()...)
	}
	b = append(b, x.p.names.by...)
	b = append(b, "; httpproto="...)
	b = append(b, lowerProto(x.req.Proto)...)
	if t := x.req.TLS; t != nil {
		b = append(b, "; tlsver="...)
		b = append(b, tlsVersion(t.Version)...)
		b = fmt.Appendf(b, "; tlscipher=0x%04x", t.CipherSuite)
	}
	return string(b)
}

func lowerProto(proto string) string {
	if proto == "HTTP/1.1" {
		return "http/1.1"
	}
	return strings.ToLower(proto)
}

// forwardedNode writes an address as RFC 7239 6 wants it: IPv6 in brackets and quotes.
func forwardedNode(addr string) string {
	switch {
	case addr == "":
		return "unknown"
	case strings.IndexByte(addr, ':') >= 0:
		return `"[` + addr + `]"`
	}
	return addr
}

// hasPair reports whether an element of a Forwarded header has a pair of that name.
func hasPair(element, name string) bool { return pairValue(element, name) != "" }

func pairValue(element, name string) string {
	for pair := range strings.SplitSeq(element, ";") {
		k, v, _ := strings.Cut(strings.TrimSpace(pair), "=")
		if strings.EqualFold(k, name) {
			return strings.Trim(v, `"`)
		}
	}
	return ""
}

// forwardedProto is the first proto= in a Forwarded header.
func forwardedProto(lines []string) string {
	for _, line := range lines {
		for element := range strings.SplitSeq(line, ",") {
			if v := strings.ToLower(pairValue(element, "proto")); v == "http" || v == "https" {
				return v
			}
		}
	}
	return ""
}

func tlsVersion(v uint16) string {
	switch v {
	case tls.VersionTLS10:
		return "tls10"
	case tls.VersionTLS11:
		return "tls11"
	case tls.VersionTLS12:
		return "tls12"
	case tls.VersionTLS13:
		return "tls13"
	}
	return fmt.Sprintf("0x%04x", v)
}

// newRequestID makes a random UUID. It identifies, it is no secret.
func newRequestID() string {
	var id uuid.UUID
	hi, lo := rand.Uint64(), rand.Uint64()
	for i := range 8 {
		id[i], id[8+i] = byte(hi>>(8*i)), byte(lo>>(8*i))
	}
	id[6] = id[6]&0x0f | 0x40
	id[8] = id[8]&0x3f | 0x80
	return id.String()
}

// copyResponseHeader copies an upstream's header to the client but for what concerns only its own connection.
func copyResponseHeader(to, from http.Header) {
	connection := from["Connection"]
	for name, values := range from {
		switch {
		case hopByHop(name):
		case connection != nil && strings.HasPrefix(name, "X-") && hasToken(connection, name):
		default:
			to[name] = values
		}
	}
}

// peerOf cuts the address from a RemoteAddr; "" if there is none, as for a unix socket.
func peerOf(remoteAddr string) string {
	i := strings.LastIndexByte(remoteAddr, ':')
	if i < 0 {
		i = len(remoteAddr)
	}
	s := strings.TrimSuffix(strings.TrimPrefix(remoteAddr[:i], "["), "]")
	s, _, _ = strings.Cut(s, "%")
	for i := range len(s) {
		if c := s[i]; !ishex(c) && c != '.' && c != ':' {
			return ""
		}
	}
	if strings.HasPrefix(s, "::ffff:") {
		if addr, err := netip.ParseAddr(s); err == nil && addr.Is4In6() {
			return addr.Unmap().String()
		}
	}
	return s
}
