package admin

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"varco/registry"
)

// Config is the configuration of the page and the API.
type Config struct {
	// Addr is one listener in fabio's grammar: [host]:port;rt=…;wt=…;it=…
	Addr string
	// Access is ro or rw: whether overrides can be seen and changed.
	Access string
	// Path is put in front of every path but /health and /metrics; "" or "/fabio".
	Path string
	// Title and Color tell installations apart.
	Title, Color string
	// Hosts are names, besides IP addresses, localhost and the machine's own name, that the page answers to.
	Hosts []string
	// Token, when set, must be sent to change anything.
	Token registry.Secret
	// MaxConn bounds the connections open at a time.
	MaxConn int
	// Source says whether and where the routes on the page are links.
	Source SourceLink
}

// SourceLink says how the page links a route to the place it serves.
type SourceLink struct {
	Enabled bool
	// NewTab opens the link in a new tab.
	NewTab bool
	// Scheme is http or https; "" is that of the page.
	Scheme string
	// Host and Port complete a route without a host; "" is the host of the page and no port.
	Host, Port string
}

// Flags registers the flags of the page and the API with their defaults.
func (c *Config) Flags(fs *pflag.FlagSet) {
	fs.StringVar(&c.Addr, "ui.addr", "127.0.0.1:9998", "address of page and API, [host]:port[;rt=..;wt=..;it=..]; :9998 is every interface")
	fs.StringVar(&c.Access, "ui.access", "rw", "what the API may do with overrides: ro (nothing) or rw (see and change)")
	fs.StringVar(&c.Path, "ui.path", "", "path in front of page and API (not of /health and /metrics), like /fabio")
	fs.StringVar(&c.Title, "ui.title", "", "title of the page, to tell installations apart")
	fs.StringVar(&c.Color, "ui.color", "light-green", "color of the page's edge: "+strings.Join(colors, ", "))
	fs.StringSliceVar(&c.Hosts, "ui.hosts", nil, "names that page and API answer to besides IP addresses, localhost and this machine's name; *.example.com allowed")
	fs.Var(&c.Token, "ui.token", "secret that must be sent as \"Authorization: Bearer ..\" to change overrides")
	fs.IntVar(&c.MaxConn, "ui.maxconn", 64, "most connections to page and API at a time")
	fs.BoolVar(&c.Source.Enabled, "ui.routingtable.source.linkenabled", false, "whether the routes on the page are links")
	fs.BoolVar(&c.Source.NewTab, "ui.routingtable.source.newtab", true, "whether these links open in a new tab")
	fs.StringVar(&c.Source.Scheme, "ui.routingtable.source.scheme", "http", "scheme of these links: http or https")
	fs.StringVar(&c.Source.Host, "ui.routingtable.source.host", "", "host of these links for routes without a host; empty is the page's own host")
	fs.StringVar(&c.Source.Port, "ui.routingtable.source.port", "", "port of these links for routes without a host")
}

// colors are the names that ui.color may begin with: those of the palette that fabio's page uses. Each has a rule in
// page/style.css.
var colors = []string{
	"red", "pink", "purple", "deep-purple", "indigo", "blue", "light-blue", "cyan", "teal", "green", "light-green",
	"lime", "yellow", "amber", "orange", "deep-orange", "brown", "grey", "blue-grey", "black", "white",
}

var (
	uiPath   = regexp.MustCompile(`^(/[A-Za-z0-9_~-][A-Za-z0-9._~-]*)*$`)
	hostName = regexp.MustCompile(`^(\*\.)?[A-Za-z0-9_]([A-Za-z0-9_.-]*[A-Za-z0-9_])?$`)
	linkHost = regexp.MustCompile(`^[A-Za-z0-9_.:\[\]-]*$`)
)

// Validate reports every value that cannot be used, naming its flag.
func (c *Config) Validate() error {
	var errs []error
	fail := func(key, value, want string) {
		errs = append(errs, fmt.Errorf("%s: %q: want %s", key, value, want))
	}
	if _, err := parseAddr(c.Addr); err != nil {
		errs = append(errs, fmt.Errorf("ui.addr: %w", err))
	}
	if c.Access != "ro" && c.Access != "rw" {
		fail("ui.access", c.Access, "ro or rw")
	}
	if !uiPath.MatchString(strings.TrimRight(c.Path, "/")) {
		fail("ui.path", c.Path, "a path like /fabio, of letters, digits and - _ . ~")
	}
	if color := c.normal().Color; !slices.Contains(colors, color) {
		fail("ui.color", c.Color, "one of "+strings.Join(colors, ", "))
	}
	for _, h := range c.Hosts {
		if !hostName.MatchString(strings.TrimSpace(h)) {
			fail("ui.hosts", h, "a host name without port, or *. and a domain")
		}
	}
	if c.MaxConn < 4 {
		fail("ui.maxconn", strconv.Itoa(c.MaxConn), "4 or more")
	}
	if strings.ContainsAny(c.Token.Reveal(), " \t\r\n") {
		errs = append(errs, errors.New("ui.token: want a text without white space"))
	}
	return errors.Join(append(errs, c.Source.validate()...)...)
}

func (l SourceLink) validate() (errs []error) {
	const key = "ui.routingtable.source."
	if l.Scheme != "" && l.Scheme != "http" && l.Scheme != "https" {
		errs = append(errs, fmt.Errorf(key+"scheme: %q: want http or https", l.Scheme))
	}
	if !linkHost.MatchString(l.Host) {
		errs = append(errs, fmt.Errorf(key+"host: %q: want a host name or address", l.Host))
	}
	if l.Port != "" {
		if n, err := strconv.ParseUint(l.Port, 10, 16); err != nil || n == 0 {
			errs = append(errs, fmt.Errorf(key+"port: %q: want 1 to 65535", l.Port))
		}
	}
	return errs
}

// HostPort is the address of ui.addr with its template filled in and without options.
func (c *Config) HostPort() (string, error) {
	l, err := parseAddr(c.Addr)
	if err != nil {
		return "", fmt.Errorf("ui.addr: %w", err)
	}
	return l.addr, nil
}

// normal is c with its path and color in the form that the rest of the package uses.
func (c Config) normal() Config {
	c.Path = strings.TrimRight(c.Path, "/")
	// fabio puts the value into a class attribute: "red darken-2" is common there. The shade has no use here.
	c.Color, _, _ = strings.Cut(strings.TrimSpace(c.Color), " ")
	if c.Color == "" {
		c.Color = "light-green"
	}
	return c
}

func (c Config) writable() bool { return c.Access == "rw" }
