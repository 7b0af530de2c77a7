package proxy

import (
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"regexp"
	"runtime"
	"strings"
	"time"

	"github.com/hashicorp/go-sockaddr/template"
	"github.com/spf13/pflag"
	"golang.org/x/net/http/httpguts"
)

// HTTPConfig is what can be set about requests and HTTP upstreams. Each field names its flag; a zero duration means
// no limit where the flag's help says so.
type HTTPConfig struct {
	Engine        string // proxy.engine
	NoRouteStatus int    // proxy.noroutestatus

	ShutdownWait          time.Duration // proxy.shutdownwait: what is in flight has this long to finish
	DeregisterGracePeriod time.Duration // proxy.deregistergraceperiod: still serving after deregistration

	DialTimeout           time.Duration // proxy.dialtimeout
	TLSHandshakeTimeout   time.Duration // proxy.upstream.tlstimeout
	ResponseHeaderTimeout time.Duration // proxy.responseheadertimeout
	ResponseStallTimeout  time.Duration // proxy.upstream.stalltimeout
	KeepAliveTimeout      time.Duration // proxy.keepalivetimeout
	IdleConnTimeout       time.Duration // proxy.idleconntimeout
	TunnelIdleTimeout     time.Duration // proxy.ws.idletimeout
	FlushInterval         time.Duration // proxy.flushinterval
	GlobalFlushInterval   time.Duration // proxy.globalflushinterval

	MaxIdleConns    int // proxy.maxconn, for each upstream
	MaxInFlight     int // proxy.upstream.maxinflight, for each target and core
	MaxHeaderBytes  int // proxy.upstream.maxheader, of a response
	Retries         int // proxy.retries, further attempts
	MaxReplayedBody int // proxy.retries.maxbody, bytes

	LocalIP  string   // proxy.localip
	Trusted  []string // proxy.trusted
	Upstream []string // proxy.upstream.allow

	ClientIPHeader  string // proxy.header.clientip
	TLSHeader       string // proxy.header.tls
	TLSHeaderValue  string // proxy.header.tls.value
	RequestIDHeader string // proxy.header.requestid
	STS             STSConfig

	// KeepUnknownOptions is route.unknown-options=keep.
	KeepUnknownOptions bool

	gzip, auth     string // of another version
	unknownOptions string
}

// STSConfig is the Strict-Transport-Security header of answers over TLS; none while MaxAge is 0.
type STSConfig struct {
	MaxAge              int  // proxy.header.sts.maxage, seconds
	Subdomains, Preload bool // proxy.header.sts.subdomains, proxy.header.sts.preload
}

var trustedByDefault = []string{
	"127.0.0.0/8", "::1/128", "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7",
}

func (c *Config) httpFlags(fs *pflag.FlagSet) {
	h := &c.HTTP
	fs.StringVar(&h.Engine, "proxy.engine", engines[0].name, "machinery that speaks HTTP: "+strings.Join(engineNames(), " or "))
	fs.IntVar(&h.NoRouteStatus, "proxy.noroutestatus", 404, "status of the answer when no route matches: 200 to 999")
	fs.DurationVar(&h.ShutdownWait, "proxy.shutdownwait", 30*time.Second, "time for requests and connections in flight to finish when varco stops")
	fs.DurationVar(&h.DeregisterGracePeriod, "proxy.deregistergraceperiod", 0, "time between deregistration and closing the listeners, still serving")

	fs.DurationVar(&h.DialTimeout, "proxy.dialtimeout", 2*time.Second, "time to connect to an upstream before another target is tried; 0 is no limit")
	fs.DurationVar(&h.TLSHandshakeTimeout, "proxy.upstream.tlstimeout", 5*time.Second, "time for the TLS handshake with an upstream; 0 is no limit")
	fs.DurationVar(&h.ResponseHeaderTimeout, "proxy.responseheadertimeout", time.Minute, "time for an upstream to begin its answer, then 504; 0 is no limit")
	fs.DurationVar(&h.ResponseStallTimeout, "proxy.upstream.stalltimeout", 5*time.Minute, "time without a byte of a response body before the response is cut; 0 is no limit")
	fs.DurationVar(&h.KeepAliveTimeout, "proxy.keepalivetimeout", 0, "interval of TCP keep-alive probes to upstreams; 0 is 15s, negative is off")
	fs.DurationVar(&h.IdleConnTimeout, "proxy.idleconntimeout", 4500*time.Millisecond, "time after which an idle upstream connection is closed; keep it below that of your upstreams; 0 is no limit")
	fs.DurationVar(&h.TunnelIdleTimeout, "proxy.ws.idletimeout", time.Hour, "time without a byte in either direction before a websocket is closed; 0 is no limit")
	fs.DurationVar(&h.FlushInterval, "proxy.flushinterval", time.Second, "fabio's flush interval for event streams; accepted, they are flushed at once")
	fs.DurationVar(&h.GlobalFlushInterval, "proxy.globalflushinterval", 0, "other than 0: responses of known length are flushed at once too, as event streams and unknown lengths always are")

	fs.IntVar(&h.MaxIdleConns, "proxy.maxconn", 10000, "idle connections kept for each upstream")
	fs.IntVar(&h.MaxInFlight, "proxy.upstream.maxinflight", 1024, "requests in flight for each target and CPU core, above it 503; 0 is no limit")
	fs.IntVar(&h.MaxHeaderBytes, "proxy.upstream.maxheader", 64<<10, "bytes that the header of a response may have, above it 502")
	fs.IntVar(&h.Retries, "proxy.retries", 2, "further attempts for a request that did not reach an upstream, or that is idempotent and got no byte of an answer; 0 is none")
	fs.IntVar(&h.MaxReplayedBody, "proxy.retries.maxbody", 16<<10, "bytes of a request body kept for a further attempt")

	fs.StringVar(&h.LocalIP, "proxy.localip", "", "address of this machine for by= of the Forwarded header; a go-sockaddr template is allowed; empty is detected")
	fs.StringSliceVar(&h.Trusted, "proxy.trusted", trustedByDefault, "peers, as CIDR, whose X-Real-Ip, X-Forwarded-Proto/-Host/-Port/-Prefix and Forwarded headers are believed")
	fs.StringSliceVar(&h.Upstream, "proxy.upstream.allow", nil, "CIDR or host:port that may be an upstream although it is link-local, varco's own or the Consul agent")

	fs.StringVar(&h.ClientIPHeader, "proxy.header.clientip", "", "request header that is set to the address of the peer")
	fs.StringVar(&h.TLSHeader, "proxy.header.tls", "", "request header that is set on TLS connections and removed on others")
	fs.StringVar(&h.TLSHeaderValue, "proxy.header.tls.value", "", "value of the header proxy.header.tls")
	fs.StringVar(&h.RequestIDHeader, "proxy.header.requestid", "", "request header that is set to a fresh UUID")
	fs.IntVar(&h.STS.MaxAge, "proxy.header.sts.maxage", 0, "max-age in seconds of the Strict-Transport-Security header on TLS; 0 is no header")
	fs.BoolVar(&h.STS.Subdomains, "proxy.header.sts.subdomains", false, "the Strict-Transport-Security header includes subdomains")
	fs.BoolVar(&h.STS.Preload, "proxy.header.sts.preload", false, "the Strict-Transport-Security header asks for preloading")

	fs.StringVar(&h.unknownOptions, "route.unknown-options", "refuse", "what to do with a target that has an unknown option: refuse, or keep it and ignore the option")

	fs.StringVar(&h.gzip, "proxy.gzip.contenttype", "", "compression of responses; not part of this version")
	fs.StringVar(&h.auth, "proxy.auth", "", "authentication schemes; not part of this version")
	fs.Int("proxy.grpcmaxrxmsgsize", 4<<20, "limit of gRPC messages; no effect")
	fs.Int("proxy.grpcmaxtxmsgsize", 4<<20, "limit of gRPC messages; no effect")
	fs.Duration("proxy.grpcshutdowntimeout", 2*time.Second, "time for gRPC streams to end; no effect")
	for _, name := range []string{"proxy.grpcmaxrxmsgsize", "proxy.grpcmaxtxmsgsize", "proxy.grpcshutdowntimeout"} {
		fs.Lookup(name).Deprecated = "gRPC is not part of this version, the flag has no effect"
	}
}

// validateHTTP checks the values and normalises those that have two spellings.
func (c *Config) validateHTTP() error {
	h := &c.HTTP
	if _, err := findEngine(h.Engine); err != nil {
		return err
	}
	switch h.unknownOptions {
	case "keep":
		h.KeepUnknownOptions = true
	case "refuse", "":
	default:
		return fmt.Errorf("route.unknown-options: %q: want refuse or keep", h.unknownOptions)
	}
	if h.NoRouteStatus < 200 || h.NoRouteStatus > 999 {
		return fmt.Errorf("proxy.noroutestatus: %d: must be between 200 and 999", h.NoRouteStatus)
	}
	if h.gzip != "" {
		if _, err := regexp.Compile(h.gzip); err != nil {
			return fmt.Errorf("proxy.gzip.contenttype: invalid expression for content types: %v", err)
		}
		return errors.New("proxy.gzip.contenttype: compression is not part of this version")
	}
	if h.auth != "" {
		return errors.New("proxy.auth: authentication is not part of this version")
	}
	if err := h.validateNumbers(); err != nil {
		return err
	}
	return h.validateHeaders()
}

func (h *HTTPConfig) validateNumbers() error {
	for _, d := range []struct {
		key   string
		value time.Duration
	}{
		{"proxy.shutdownwait", h.ShutdownWait},
		{"proxy.deregistergraceperiod", h.DeregisterGracePeriod},
		{"proxy.dialtimeout", h.DialTimeout},
		{"proxy.upstream.tlstimeout", h.TLSHandshakeTimeout},
		{"proxy.responseheadertimeout", h.ResponseHeaderTimeout},
		{"proxy.upstream.stalltimeout", h.ResponseStallTimeout},
		{"proxy.idleconntimeout", h.IdleConnTimeout},
		{"proxy.ws.idletimeout", h.TunnelIdleTimeout},
	} {
		if d.value < 0 {
			return fmt.Errorf("%s: %s: must not be negative", d.key, d.value)
		}
	}
	for _, n := range []struct {
		key        string
		value, min int
	}{
		{"proxy.maxconn", h.MaxIdleConns, 0},
		{"proxy.upstream.maxinflight", h.MaxInFlight, 0},
		{"proxy.upstream.maxheader", h.MaxHeaderBytes, 1024},
		{"proxy.retries", h.Retries, 0},
		{"proxy.retries.maxbody", h.MaxReplayedBody, 0},
		{"proxy.header.sts.maxage", h.STS.MaxAge, 0},
	} {
		if n.value < n.min {
			return fmt.Errorf("%s: %d: must be at least %d", n.key, n.value, n.min)
		}
	}
	if h.Retries > maxAttempts-1 {
		return fmt.Errorf("proxy.retries: %d: must be at most %d", h.Retries, maxAttempts-1)
	}
	return nil
}

func (h *HTTPConfig) validateHeaders() error {
	for _, n := range []struct{ key, name string }{
		{"proxy.header.clientip", h.ClientIPHeader},
		{"proxy.header.tls", h.TLSHeader},
		{"proxy.header.requestid", h.RequestIDHeader},
	} {
		if n.name != "" && !httpguts.ValidHeaderFieldName(n.name) {
			return fmt.Errorf("%s: %q is not the name of a header", n.key, n.name)
		}
		if n.name != "" && protectedName(n.name) {
			return fmt.Errorf("%s: %q has a meaning of its own in HTTP", n.key, n.name)
		}
	}
	if !httpguts.ValidHeaderFieldValue(h.TLSHeaderValue) {
		return fmt.Errorf("proxy.header.tls.value: %q cannot be the value of a header", h.TLSHeaderValue)
	}
	if _, err := parseTrusted(h.Trusted); err != nil {
		return err
	}
	for _, s := range h.Upstream {
		if _, err := parseAllowedUpstream(s); err != nil {
			return fmt.Errorf("proxy.upstream.allow: %q: %v", s, err)
		}
	}
	_, err := h.localIP()
	return err
}

// parseTrusted reads proxy.trusted; an empty list trusts nobody.
func parseTrusted(list []string) (*accessRule, error) {
	if len(list) == 0 {
		return &accessRule{allow: true}, nil
	}
	rule, err := parseAccess(true, strings.Join(list, ","))
	if err != nil {
		return nil, fmt.Errorf("proxy.trusted: %v", err)
	}
	return rule, nil
}

// localIP evaluates proxy.localip.
func (h *HTTPConfig) localIP() (netip.Addr, error) {
	if h.LocalIP == "" {
		return detectLocalIP(localAddrs()), nil
	}
	s := h.LocalIP
	if strings.Contains(s, "{{") {
		var err error
		if s, err = template.Parse(s); err != nil {
			return netip.Addr{}, fmt.Errorf("proxy.localip: %v", err)
		}
	}
	addr, err := netip.ParseAddr(strings.TrimSpace(s))
	if err != nil {
		return netip.Addr{}, fmt.Errorf("proxy.localip: %q: want an IP address", s)
	}
	return addr.Unmap(), nil
}

// detectLocalIP picks the first address that others can reach, IPv4 before IPv6.
func detectLocalIP(addrs []netip.Addr) netip.Addr {
	var found netip.Addr
	for _, a := range addrs {
		if !a.IsGlobalUnicast() {
			continue
		}
		if a.Is4() {
			return a
		}
		if !found.IsValid() {
			found = a
		}
	}
	return found
}

// Limits are the limits and timeouts in force, for the line that main logs at start.
func (c *Config) Limits() []slog.Attr {
	h := &c.HTTP
	return append([]slog.Attr{
		slog.Duration("dial", h.DialTimeout),
		slog.Duration("upstreamTLS", h.TLSHandshakeTimeout),
		slog.Duration("responseHeader", h.ResponseHeaderTimeout),
		slog.Duration("responseStall", h.ResponseStallTimeout),
		slog.Duration("upstreamIdle", h.IdleConnTimeout),
		slog.Duration("websocketIdle", h.TunnelIdleTimeout),
		slog.Int("upstreamIdleConns", h.MaxIdleConns),
		slog.Int("inFlightPerTarget", h.maxInFlight()),
		slog.Int("upstreamHeaderBytes", h.MaxHeaderBytes),
		slog.Int("retries", h.Retries),
		slog.Duration("shutdownWait", h.ShutdownWait),
	}, c.listenLimits()...)
}

// maxInFlight is the limit for one target on this machine, 0 for none.
func (h *HTTPConfig) maxInFlight() int { return h.MaxInFlight * runtime.GOMAXPROCS(0) }
