// Package http1 is an HTTP/1.x server and transport behind net/http's own interfaces, made for a proxy: one goroutine
// per connection, one blocking read and one write per message, pooled objects, strict parsing.
//
// Server is like http.Server for HTTP/1.0 and 1.1: it takes an http.Handler and serves a net.Listener or one net.Conn.
// Transport is an http.RoundTripper for HTTP/1.x upstreams with a pool of connections per upstream. Each works with
// any counterpart: net/http's handlers and middleware between them, other servers in front, other transports behind.
// Used together they skip what neither needs: request contexts cost nothing until somebody waits for them, a small
// answer leaves in one write, a large body between two plain TCP sockets moves by splice(2).
//
// # Ownership
//
// The *http.Request, its Header and URL, and the ResponseWriter belong to the connection: they are not valid after
// ServeHTTP returns. The *http.Response that RoundTrip answers, its Header and Trailer, are not valid after its Body
// is closed. Strings taken out of them are ordinary Go strings and stay valid. Whoever keeps more must Clone. The
// build tag http1poison overwrites what is given back, so that a middleware that keeps one fails its tests.
//
// # Strictness
//
// What two parsers could read in two ways is refused: requests with 400 (or 414, 431, 408, 501, 505) and the end of
// the connection, responses with an error and the end of theirs. RFC 9110 and RFC 9112 are the grammar, without the
// leniencies that they allow: a bare LF never ends a line, a header is never folded, Content-Length is one run of
// digits in one field and never stands beside Transfer-Encoding, whose only value is "chunked". What is sent is
// always serialised anew from the parsed form.
//
// # What it does not do
//
// No routing, no policy, no content sniffing, no compression, no redirects, no cookies, no HTTP/2, and no header of
// its own except Date, Connection and those that frame the message.
package http1
