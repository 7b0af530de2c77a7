package registry

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
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
	conf := clientConfig(c)
	token, err := newToken(c, conf, e.Log)
	if err != nil {
		return nil, err
	}
	conf.Token, conf.TokenFile = token.current(), "" // the guard replaces it: the file may change
	cl := &client{auth: conf.HttpAuth, params: url.Values{}, opts: api.QueryOptions{AllowStale: c.AllowStale, RequireConsistent: c.RequireConsistent}}
	if err := cl.setAddr(conf); err != nil {
		return nil, err
	}
	if conf.Transport.TLSClientConfig, err = tlsConfig(conf); err != nil {
		return nil, fmt.Errorf("registry.consul.tls: %w", err)
	}
	if network == nil {
		network = conf.Transport
	}
	cl.http = &http.Client{
		Transport:     &guard{next: network, token: token, limit: maxBody},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	conf.HttpClient = cl.http
	if cl.api, err = api.NewClient(conf); err != nil {
		return nil, fmt.Errorf("registry.consul: %w", err)
	}
	if conf.Namespace != "" {
		cl.params.Set("ns", conf.Namespace)
	}
	if conf.Partition != "" {
		cl.params.Set("partition", conf.Partition)
	}
	return cl, nil
}

// clientConfig lays the flags that were set over what the environment says (CONSUL_HTTP_ADDR and its like).
func clientConfig(c ConsulConfig) *api.Config {
	conf := api.DefaultConfig()
	if c.Addr != defaultAddr && c.Addr != "" {
		conf.Address = c.Addr
	}
	for _, f := range []struct {
		to   *string
		from string
	}{
		{&conf.Namespace, c.Namespace},
		{&conf.Partition, c.Partition},
		{&conf.TLSConfig.KeyFile, c.TLS.KeyFile},
		{&conf.TLSConfig.CertFile, c.TLS.CertFile},
		{&conf.TLSConfig.CAFile, c.TLS.CAFile},
		{&conf.TLSConfig.CAPath, c.TLS.CAPath},
	} {
		if f.from != "" {
			*f.to = f.from
		}
	}
	conf.TLSConfig.InsecureSkipVerify = conf.TLSConfig.InsecureSkipVerify || c.TLS.InsecureSkipVerify
	conf.Transport.MaxIdleConnsPerHost = 64
	conf.Transport.DialContext = dialer().DialContext
	return conf
}

// dialer finds a connection that died without a word by probing it, not only by the deadline of a call.
func dialer() *net.Dialer {
	probes := net.KeepAliveConfig{Enable: true, Idle: 15 * time.Second, Interval: 5 * time.Second, Count: 3}
	return &net.Dialer{Timeout: slack, KeepAliveConfig: probes}
}

// setAddr reads the agent's address: host:port, http://host:port/prefix, https://… or unix:///path. It does itself
// what api.NewClient would do, because that makes a client of its own for unix sockets, without the guard.
func (c *client) setAddr(conf *api.Config) error {
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
			return dialer().DialContext(ctx, "unix", rest)
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
