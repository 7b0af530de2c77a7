package registry

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/consul/api"
)

const (
	// maxBody is the most that is read of one answer, after decompression.
	maxBody = 64 << 20
	// slack is what a call may take beyond the time that Consul was asked to wait.
	slack = 10 * time.Second
	// bodyTime is what the body of a health answer may take once its head is there: it can have tens of megabytes.
	bodyTime = 30 * time.Second
	// maxRetryAfter bounds what Consul may ask for.
	maxRetryAfter = time.Minute
)

// client talks to one Consul agent. Consul's own client makes the calls; the one big answer, the health of all
// checks, is read as a stream by a request that shares its transport, token and parameters.
type client struct {
	api  *api.Client
	http *http.Client
	// base is scheme, host and path prefix of the agent; auth and params are what each request carries.
	base   url.URL
	auth   *api.HttpBasicAuth
	params url.Values
	opts   api.QueryOptions
	// addrs are the host:port under which the agent is reached; none for a unix socket.
	addrs []string
}

// newClient makes a client. network is nil but in tests, where it stands in for the network.
func newClient(c ConsulConfig, network http.RoundTripper, e Env) (*client, error) {
	conf := api.DefaultConfig() // reads CONSUL_HTTP_* and CONSUL_*
	if c.Addr != "" && c.Addr != defaultAddr {
		conf.Address = c.Addr
	}
	if c.Namespace != "" {
		conf.Namespace = c.Namespace
	}
	if c.Partition != "" {
		conf.Partition = c.Partition
	}
	setTLS(&conf.TLSConfig, c.TLS)
	token, err := newToken(c, conf, e.Log)
	if err != nil {
		return nil, err
	}
	conf.Token, conf.TokenFile = token.current(), "" // the guard replaces it: the file may change
	t := conf.Transport
	t.MaxIdleConnsPerHost = 64
	// A connection that died without a word is found by probes, not only by the deadline of the call.
	d := &net.Dialer{Timeout: slack, KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 15 * time.Second, Interval: 5 * time.Second, Count: 3}}
	t.DialContext = d.DialContext
	cl := &client{auth: conf.HttpAuth, params: url.Values{}, opts: api.QueryOptions{AllowStale: c.AllowStale, RequireConsistent: c.RequireConsistent}}
	if err := cl.setAddr(conf, d); err != nil {
		return nil, err
	}
	if t.TLSClientConfig, err = tlsConfig(conf); err != nil {
		return nil, fmt.Errorf("registry.consul.tls: %w", err)
	}
	if network == nil {
		network = t
	}
	cl.http = &http.Client{
		Transport:     &guard{next: network, token: token, limit: maxBody},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	conf.HttpClient = cl.http
	if cl.api, err = api.NewClient(conf); err != nil {
		return nil, fmt.Errorf("registry.consul: %w", err)
	}
	for _, p := range []struct{ key, value string }{{"ns", conf.Namespace}, {"partition", conf.Partition}} {
		if p.value != "" {
			cl.params.Set(p.key, p.value)
		}
	}
	return cl, nil
}

// setAddr reads the agent's address: host:port, http://host:port/prefix, https://… or unix:///path. It does itself
// what api.NewClient would do, because that makes a client of its own for unix sockets, without the guard.
func (c *client) setAddr(conf *api.Config, d *net.Dialer) error {
	bad := func(reason string) error {
		return fmt.Errorf("registry.consul.addr: %q: %s: want host:port, http://host:port, https://host:port or unix:///path", redactURL(conf.Address), reason)
	}
	scheme, rest, ok := strings.Cut(conf.Address, "://")
	if !ok {
		scheme, rest = conf.Scheme, conf.Address
	}
	switch strings.ToLower(scheme) {
	case "http":
	case "https":
		conf.Scheme = "https" // never back to http once TLS was asked for
	case "unix":
		if rest == "" {
			return bad("no path")
		}
		conf.Scheme, conf.Address = "http", "localhost"
		conf.Transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return d.DialContext(ctx, "unix", rest)
		}
		conf.Transport.DisableCompression = true
		c.base = url.URL{Scheme: "http", Host: "localhost"}
		return nil
	default:
		return bad("unknown scheme")
	}
	host, prefix, _ := strings.Cut(rest, "/")
	if host == "" || strings.ContainsAny(host, " ,@?#") {
		return bad("no single host")
	}
	conf.Address, conf.PathPrefix = strings.ToLower(host), ""
	if prefix = strings.TrimRight(prefix, "/"); prefix != "" {
		conf.PathPrefix = "/" + prefix
	}
	c.base = url.URL{Scheme: conf.Scheme, Host: conf.Address, Path: conf.PathPrefix}
	name, port := c.base.Hostname(), c.base.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[conf.Scheme]
	}
	c.addrs = []string{net.JoinHostPort(name, port)}
	if name == "localhost" {
		c.addrs = append(c.addrs, net.JoinHostPort("127.0.0.1", port), net.JoinHostPort("::1", port))
	}
	if ip, err := netip.ParseAddr(name); name == "localhost" || err == nil && ip.IsLoopback() {
		conf.Transport.DisableCompression = true // it would only cost both sides
	}
	return nil
}

// redactURL cuts a user and password out of an address that is to be shown.
func redactURL(s string) string {
	if at := strings.LastIndexByte(s, '@'); at >= 0 {
		scheme, _, ok := strings.Cut(s[:at], "://")
		if !ok {
			return "***" + s[at:]
		}
		return scheme + "://***" + s[at:]
	}
	return s
}

// setTLS lays the flags over what the environment said.
func setTLS(t *api.TLSConfig, c ConsulTLSConfig) {
	for _, f := range []struct {
		to   *string
		from string
	}{{&t.KeyFile, c.KeyFile}, {&t.CertFile, c.CertFile}, {&t.CAFile, c.CAFile}, {&t.CAPath, c.CAPath}} {
		if f.from != "" {
			*f.to = f.from
		}
	}
	t.InsecureSkipVerify = t.InsecureSkipVerify || c.InsecureSkipVerify
}

// tlsConfig makes Consul's TLS settings; they count only for https, as in fabio.
func tlsConfig(conf *api.Config) (*tls.Config, error) {
	if conf.Scheme != "https" {
		conf.TLSConfig = api.TLSConfig{}
		return nil, nil
	}
	return api.SetupTLSConfig(&conf.TLSConfig)
}

// query returns the options of a call for Consul's client.
func (c *client) query(ctx context.Context, a ask, wait time.Duration) *api.QueryOptions {
	q := c.opts
	if a.index > 0 {
		q.WaitIndex, q.WaitTime = a.index, wait
	}
	if a.sure {
		q.RequireConsistent, q.AllowStale = true, false
	}
	return q.WithContext(ctx)
}

// health sends the one request that Consul's client cannot stream. The caller closes the body.
func (c *client) health(ctx context.Context, a ask, wait time.Duration) (*http.Response, error) {
	u := c.base
	u.Path += "/v1/health/state/any"
	q := c.query(ctx, a, wait)
	p := maps.Clone(c.params)
	if q.RequireConsistent {
		p.Set("consistent", "")
	}
	if q.AllowStale {
		p.Set("stale", "")
	}
	if q.WaitIndex > 0 {
		p.Set("index", strconv.FormatUint(q.WaitIndex, 10))
		p.Set("wait", strconv.FormatInt(wait.Milliseconds(), 10)+"ms")
	}
	u.RawQuery = p.Encode()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, err
	}
	if c.auth != nil {
		req.SetBasicAuth(c.auth.Username, c.auth.Password)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		resp.Body.Close()
		return nil, &statusError{Code: resp.StatusCode}
	}
	return resp, nil
}

// answerIndex reads X-Consul-Index. An answer without a sane one is no answer of Consul's.
func answerIndex(h http.Header) (uint64, error) {
	s := h.Get("X-Consul-Index")
	i, err := strconv.ParseUint(s, 10, 64)
	if err != nil || i == 0 {
		return 0, fmt.Errorf("answer without a valid X-Consul-Index (%.20q)", s)
	}
	return i, nil
}

// metaIndex is answerIndex for an answer that Consul's client has read.
func metaIndex(m *api.QueryMeta) (uint64, error) {
	if m.LastIndex == 0 {
		return 0, errors.New("answer without a valid X-Consul-Index")
	}
	return m.LastIndex, nil
}

// guard stands between Consul's client and the network: it sends the token of the day, bounds each body, and turns
// every status that is not an answer into a *statusError. 404 goes through: it means "no such key".
type guard struct {
	next  http.RoundTripper
	token *token
	limit int64 // of a body
}

func (g *guard) RoundTrip(r *http.Request) (*http.Response, error) {
	if t := g.token.current(); t != "" {
		r = r.Clone(r.Context())
		r.Header.Set("X-Consul-Token", t)
	}
	resp, err := g.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	resp.Body = capBody(resp.Body, g.limit)
	if resp.StatusCode < 300 || resp.StatusCode == http.StatusNotFound {
		return resp, nil
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusForbidden {
		g.token.doubt()
	}
	text, _ := io.ReadAll(io.LimitReader(resp.Body, 200))
	return nil, &statusError{resp.StatusCode, retryAfter(resp.Header), strings.TrimSpace(string(text))}
}

// statusError is an answer that is not an answer. Text is the beginning of its body, hostile like all of it.
type statusError struct {
	Code  int
	After time.Duration // what Retry-After asks for
	Text  string
}

func (e *statusError) Error() string {
	switch {
	case e.Code/100 == 3:
		return fmt.Sprintf("answered %d; redirects are not followed", e.Code)
	case e.Text == "":
		return fmt.Sprintf("answered %d", e.Code)
	}
	return fmt.Sprintf("answered %d: %q", e.Code, e.Text)
}

// retryAfter reads Retry-After, seconds or a date.
func retryAfter(h http.Header) time.Duration {
	s := h.Get("Retry-After")
	if n, err := strconv.ParseUint(s, 10, 32); err == nil {
		return min(time.Duration(n)*time.Second, maxRetryAfter)
	}
	if t, err := http.ParseTime(s); err == nil {
		return min(max(time.Until(t), 0), maxRetryAfter)
	}
	return 0
}

// askedPause returns the pause that err asks for, 0 when it asks for none.
func askedPause(err error) time.Duration {
	if s, ok := errors.AsType[*statusError](err); ok {
		return s.After
	}
	return 0
}

// cause shortens an error to what an operator needs and what stays the same from try to try: no URL, no local port.
func cause(err error) string {
	if s, ok := errors.AsType[*statusError](err); ok {
		return s.Error()
	}
	if s, ok := errors.AsType[api.StatusError](err); ok {
		return (&statusError{Code: s.Code, Text: s.Body[:min(len(s.Body), 200)]}).Error()
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return "no answer in time"
	}
	if o, ok := errors.AsType[*net.OpError](err); ok {
		if o.Op == "dial" {
			return o.Error()
		}
		return o.Err.Error()
	}
	if u, ok := errors.AsType[*url.Error](err); ok {
		return u.Err.Error()
	}
	return err.Error()
}

// cappedBody fails a body that is too long, instead of ending it.
type cappedBody struct {
	io.ReadCloser
	limit, left int64
}

func capBody(b io.ReadCloser, limit int64) *cappedBody { return &cappedBody{b, limit, limit} }

func (b *cappedBody) Read(p []byte) (int, error) {
	if b.left <= 0 {
		// One byte more tells a body of exactly the limit from a longer one.
		var one [1]byte
		if n, err := b.ReadCloser.Read(one[:]); n == 0 {
			return 0, err
		}
		return 0, fmt.Errorf("answer longer than %d KiB", b.limit>>10)
	}
	n, err := b.ReadCloser.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	return n, err
}
