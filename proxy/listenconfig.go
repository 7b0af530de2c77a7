package proxy

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/go-sockaddr/template"
	"github.com/spf13/pflag"
)

// ListenDefaults is what can be set about the listeners together; a listener's own rt, wt and it come before. Each
// field names its flag.
type ListenDefaults struct {
	Addr string // proxy.addr

	ReadTimeout    time.Duration // proxy.readtimeout
	WriteTimeout   time.Duration // proxy.writetimeout
	HeaderTimeout  time.Duration // proxy.headertimeout
	BodyTimeout    time.Duration // proxy.bodytimeout
	StallTimeout   time.Duration // proxy.stalltimeout
	IdleTimeout    time.Duration // proxy.idletimeout
	TCPIdleTimeout time.Duration // proxy.tcp.idletimeout

	Connections int // proxy.limit.connections; 0 is as many as the machine can take
	HeaderBytes int // proxy.limit.header

	certs string // of another version
}

func (c *Config) tcpFlags(fs *pflag.FlagSet) {
	l := &c.Listen
	fs.StringVar(&l.Addr, "proxy.addr", ":9999", "listeners, separated by commas: [host]:port;proto=http|tcp;rt=5s;wt=5s;it=5s")
	fs.StringVar(&l.certs, "proxy.cs", "", "certificate sources; TLS listeners are not part of this version")
	fs.DurationVar(&l.ReadTimeout, "proxy.readtimeout", 0, "time to read a whole HTTP request, or for one read from a TCP client, where a listener has no rt; 0 is no limit")
	fs.DurationVar(&l.WriteTimeout, "proxy.writetimeout", 0, "time to write a whole HTTP answer, or for one write to a TCP client, where a listener has no wt; 0 is no limit")
	fs.DurationVar(&l.HeaderTimeout, "proxy.headertimeout", 10*time.Second, "time for a client to send the head of a request")
	fs.DurationVar(&l.BodyTimeout, "proxy.bodytimeout", 30*time.Second, "time without a byte of a request body before the request is given up; 0 is no limit")
	fs.DurationVar(&l.StallTimeout, "proxy.stalltimeout", time.Minute, "time without an HTTP client taking any of its answer before the connection is cut; 0 is no limit")
	fs.DurationVar(&l.IdleTimeout, "proxy.idletimeout", 75*time.Second, "time that an HTTP client connection may wait for its next request, where a listener has no it")
	fs.DurationVar(&l.TCPIdleTimeout, "proxy.tcp.idletimeout", time.Hour, "time without a byte in either direction before a TCP connection is closed, where a listener has no it; 0 is no limit")
	fs.IntVar(&l.Connections, "proxy.limit.connections", 0, "client connections of all listeners together, above it new ones wait; 0 is 25000 for each CPU core, as far as open files go")
	fs.IntVar(&l.HeaderBytes, "proxy.limit.header", 64<<10, "bytes that the head of a request may have, above it 431")
}

func (c *Config) validateListen() error {
	l := &c.Listen
	if l.certs != "" {
		return errors.New("proxy.cs: TLS listeners are not part of this version")
	}
	for _, d := range []struct {
		key        string
		value, min time.Duration
	}{
		{"proxy.readtimeout", l.ReadTimeout, 0},
		{"proxy.writetimeout", l.WriteTimeout, 0},
		{"proxy.headertimeout", l.HeaderTimeout, time.Millisecond},
		{"proxy.bodytimeout", l.BodyTimeout, 0},
		{"proxy.stalltimeout", l.StallTimeout, 0},
		{"proxy.idletimeout", l.IdleTimeout, time.Millisecond},
		{"proxy.tcp.idletimeout", l.TCPIdleTimeout, 0},
	} {
		if d.value < d.min {
			return fmt.Errorf("%s: %s: must be at least %s", d.key, d.value, d.min)
		}
	}
	if l.Connections < 0 {
		return fmt.Errorf("proxy.limit.connections: %d: must not be negative", l.Connections)
	}
	if l.HeaderBytes < 1024 {
		return fmt.Errorf("proxy.limit.header: %d: must be at least 1024", l.HeaderBytes)
	}
	_, err := l.listenConfigs()
	return err
}

// listenConfigs reads proxy.addr.
func (l *ListenDefaults) listenConfigs() ([]ListenConfig, error) {
	configs, err := ParseListen(l.Addr)
	if err != nil {
		return nil, fmt.Errorf("proxy.addr: %w", err)
	}
	for i := range configs {
		configs[i].fill(l)
	}
	return configs, nil
}

// listenLimits are the limits and timeouts in force.
func (c *Config) listenLimits() []slog.Attr {
	l := &c.Listen
	conns, files := l.connections()
	return []slog.Attr{
		slog.Int("connections", conns),
		slog.Int("openFiles", files),
		slog.Int("headerBytes", l.HeaderBytes),
		slog.Duration("header", l.HeaderTimeout),
		slog.Duration("bodyStall", l.BodyTimeout),
		slog.Duration("writeStall", l.StallTimeout),
		slog.Duration("idle", l.IdleTimeout),
		slog.Duration("tcpIdle", l.TCPIdleTimeout),
		slog.Duration("read", l.ReadTimeout),
		slog.Duration("write", l.WriteTimeout),
	}
}

// ListenConfig is one listener of proxy.addr.
type ListenConfig struct {
	// Addr is host:port; an empty host is all addresses of this machine.
	Addr string
	// Proto is the name of a protocol.
	Proto string
	// ReadTimeout, WriteTimeout and IdleTimeout are rt, wt and it; zero is the default.
	ReadTimeout, WriteTimeout, IdleTimeout time.Duration
}

// String writes l as ParseListen reads it.
func (l ListenConfig) String() string {
	s := l.Addr + ";proto=" + l.Proto
	for _, d := range []struct {
		key   string
		value time.Duration
	}{{"rt", l.ReadTimeout}, {"wt", l.WriteTimeout}, {"it", l.IdleTimeout}} {
		if d.value != 0 {
			s += ";" + d.key + "=" + d.value.String()
		}
	}
	return s
}

func (l *ListenConfig) fill(d *ListenDefaults) {
	if l.ReadTimeout == 0 {
		l.ReadTimeout = d.ReadTimeout
	}
	if l.WriteTimeout == 0 {
		l.WriteTimeout = d.WriteTimeout
	}
	if l.IdleTimeout == 0 {
		l.IdleTimeout = d.IdleTimeout
		if l.Proto == "tcp" {
			l.IdleTimeout = d.TCPIdleTimeout
		}
	}
}

// listenKey is a key of a listener.
type listenKey struct {
	name, help string
	set        func(l *ListenConfig, value string) error
}

// listenKeys are all that this version has.
var listenKeys = []listenKey{
	{"addr", "host:port; a go-sockaddr template is allowed; the key may be left out at the beginning", (*ListenConfig).setAddr},
	{"proto", "protocol", (*ListenConfig).setProto},
	{"rt", "read timeout", func(l *ListenConfig, v string) error { return setTimeout(&l.ReadTimeout, v) }},
	{"wt", "write timeout", func(l *ListenConfig, v string) error { return setTimeout(&l.WriteTimeout, v) }},
	{"it", "idle timeout", func(l *ListenConfig, v string) error { return setTimeout(&l.IdleTimeout, v) }},
}

// laterListenKeys are fabio's others, with the value that asks for nothing.
var laterListenKeys = []struct{ name, off, what string }{
	{"cs", "", "TLS listeners are"},
	{"strictmatch", "false", "TLS listeners are"},
	{"tlsmin", "", "TLS listeners are"},
	{"tlsmax", "", "TLS listeners are"},
	{"tlsciphers", "", "TLS listeners are"},
	{"pxyproto", "false", "PROXY protocol from clients is"},
	{"pxytimeout", "", "PROXY protocol from clients is"},
	{"refresh", "", "protocol tcp-dynamic is"},
}

// ListenKeys lists the keys of a listener for the documentation.
func ListenKeys() []OptionHelp {
	var list []OptionHelp
	for _, k := range listenKeys {
		list = append(list, OptionHelp{Name: k.name, Syntax: k.name + "=", Help: k.help})
	}
	return list
}

// ParseListen reads the listeners of proxy.addr: "[host]:port;key=value;...", separated by commas. An unknown key or
// protocol is an error that names the known ones. Zero timeouts are left zero.
func ParseListen(s string) ([]ListenConfig, error) {
	groups, err := parsePairs(s)
	if err != nil {
		return nil, fmt.Errorf("%q: %w", s, err)
	}
	if len(groups) == 0 {
		return nil, fmt.Errorf("%q: want host:port", s)
	}
	var configs []ListenConfig
	for _, g := range groups {
		l, err := parseListener(g)
		if err != nil {
			return nil, fmt.Errorf("%q: %w", g, err)
		}
		twice := func(o ListenConfig) bool { return o.Addr == l.Addr && !strings.HasSuffix(l.Addr, ":0") }
		if slices.ContainsFunc(configs, twice) {
			return nil, fmt.Errorf("%q: address %s is given twice", g, l.Addr)
		}
		configs = append(configs, l)
	}
	return configs, nil
}

func parseListener(pairs pairs) (ListenConfig, error) {
	l := ListenConfig{Proto: protocols[0].name}
	seen := map[string]bool{}
	for _, p := range pairs {
		key := p.key
		if key == "" {
			key = "addr"
		}
		if seen[key] {
			return ListenConfig{}, fmt.Errorf("%s is given twice", key)
		}
		seen[key] = true
		if err := l.set(key, strings.TrimSpace(p.value)); err != nil {
			return ListenConfig{}, err
		}
	}
	if l.Addr == "" {
		return ListenConfig{}, errors.New("need listening host:port")
	}
	return l, nil
}

func (l *ListenConfig) set(key, value string) error {
	var names []string
	for _, k := range listenKeys {
		if k.name == key {
			if err := k.set(l, value); err != nil {
				return fmt.Errorf("%s: %w", key, err)
			}
			return nil
		}
		names = append(names, k.name)
	}
	for _, k := range laterListenKeys {
		if k.name == key {
			if value == k.off {
				return nil
			}
			return fmt.Errorf("%s: %s not part of this version, which has %s", key, k.what, strings.Join(names, ", "))
		}
	}
	return fmt.Errorf("unknown key %q: want %s", key, strings.Join(names, ", "))
}

func (l *ListenConfig) setProto(value string) error {
	if value == "" {
		return nil
	}
	proto, err := findProtocol(value)
	if err != nil {
		return err
	}
	l.Proto = proto.name
	return nil
}

// setAddr evaluates a template and checks that the result is one host:port.
func (l *ListenConfig) setAddr(value string) error {
	if strings.Contains(value, "{{") {
		result, err := template.Parse(value)
		if err != nil {
			return err
		}
		value = strings.TrimSpace(result)
		// An interface without an address gives "". Behind it stands ":9999", which would listen on every one.
		if strings.HasPrefix(value, ":") {
			return fmt.Errorf("the template gives no address, only %q", value)
		}
	}
	host, port, err := net.SplitHostPort(value)
	if err != nil {
		if _, err := strconv.ParseUint(value, 10, 16); err == nil {
			return fmt.Errorf("%q: need listening host:port, such as \":%s\"", value, value)
		}
		return fmt.Errorf("%q: need listening host:port", value)
	}
	if strings.ContainsFunc(host, func(r rune) bool { return !isHostRune(r) }) {
		return fmt.Errorf("%q: %q is not a host", value, host)
	}
	n, err := net.LookupPort("tcp", port)
	if err != nil || port == "" {
		return fmt.Errorf("%q: port %q: want 0 to 65535", value, port)
	}
	l.Addr = net.JoinHostPort(host, strconv.Itoa(n))
	return nil
}

func isHostRune(r rune) bool {
	return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune(".-_:%", r)
}

func setTimeout(to *time.Duration, value string) error {
	d, err := time.ParseDuration(value)
	if err != nil || d < 0 {
		return fmt.Errorf("%q: want a duration, such as 5s", value)
	}
	*to = d
	return nil
}
