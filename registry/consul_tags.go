package registry

import (
	"errors"
	"fmt"
	"math"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"varco/route"
)

// A tag makes a route:
//
//	urlprefix-host/path [option…]      urlprefix-/path [option…]      urlprefix-:port [option…]
//
// $DC and ${DC} in host and path stand for the datacenter. The options proto=tcp|https|grpc|grpcs, weight= and
// redirect=code,url shape the destination and are used up here; all others are passed on. Each tag becomes a typed
// command, field by field: nothing in it can become a second command.

// maxTag is the longest tag that is read; Consul itself has no limit.
const maxTag = 4096

var errLongTag = fmt.Errorf("tag longer than %d bytes", maxTag)

// entry is one instance as the catalog describes it.
type entry struct {
	Node, Address, Datacenter string
	ServiceKind               string
	ServiceID, ServiceName    string
	ServiceAddress            string
	ServicePort               int
	ServiceTags               []string

	// unconfirmed marks what was read before the instance came back: its address may be another one now.
	unconfirmed bool
}

// tagger turns tags into commands.
type tagger struct {
	prefixes []string // the longest first
	darwin   bool
}

func newTagger(prefixes []string, goos string) tagger {
	p := slices.Clone(prefixes)
	slices.SortStableFunc(p, func(a, b string) int { return len(b) - len(a) })
	return tagger{p, goos == "darwin"}
}

// split returns what a route tag says behind its prefix: the route and its options. ok says that it is a route tag.
func (t tagger) split(tag string) (route, opts string, ok bool) {
	tag = strings.TrimSpace(tag)
	for _, p := range t.prefixes {
		if rest, ok := strings.CutPrefix(tag, p); ok {
			route, opts, _ = strings.Cut(strings.TrimSpace(rest), " ")
			return route, opts, true
		}
	}
	return "", "", false
}

// commands returns what the instance e adds to the table: one command for each of its route tags. One that cannot
// have a target, because the instance is not up or something is wrong with it, is a command with Down set, so that
// its route is known.
func (t tagger) commands(e *entry, up bool) ([]route.Command, []route.Problem) {
	var commands []route.Command
	var problems []route.Problem
	at := route.Origin{Service: e.ServiceName, Node: e.Node, Instance: e.ServiceID}
	refuse := func(tag string, err error) {
		o := at
		o.Tag = shorten(tag)
		problems = append(problems, route.Problem{Origin: o, Text: o.Tag, Reason: err.Error(), Hint: hintOf(err)})
	}
	var plainTags []string
	first := true
	for _, tag := range e.ServiceTags {
		src, opts, ok := t.split(tag)
		if !ok {
			continue
		}
		if len(src) > maxTag {
			refuse(tag, errLongTag)
			continue
		}
		if first { // most entries of a catalog have no route at all
			first = false
			for _, other := range e.ServiceTags {
				if _, _, ok := t.split(other); ok {
					continue
				}
				words, err := plainTag(other)
				if err != nil {
					refuse(other, err)
				}
				plainTags = append(plainTags, words...)
			}
		}
		src, err := source(src, e.Datacenter)
		if err != nil {
			refuse(tag, err)
			continue
		}
		c := route.Command{Verb: route.Add, Service: e.ServiceName, Src: src, Tags: plainTags, Down: true, Origin: at}
		c.Origin.Tag = tag
		if err := c.Validate(); err != nil {
			refuse(tag, err)
			if c.Service = oneWord(c.Service); c.Validate() == nil { // it was only the name
				commands = append(commands, c)
			}
			continue
		}
		err = errLongTag
		if len(tag) <= maxTag {
			err = t.destination(&c, opts, e)
		}
		if err != nil {
			c.Dst, c.Weight, c.Origin.Tag = "", 0, shorten(tag)
			refuse(tag, err)
		} else {
			c.Down = !up
		}
		commands = append(commands, c)
	}
	return commands, problems
}

// oneWord is the name of a service without what a word cannot hold: it stands for a service that is refused for its
// name, whose routes are known all the same.
func oneWord(name string) string {
	return strings.Map(func(r rune) rune {
		if r == '"' || unicode.IsSpace(r) || unicode.IsControl(r) {
			return '_'
		}
		return r
	}, name)
}

// destination reads the options of a tag into c: Dst, Weight and Opts.
func (t tagger) destination(c *route.Command, opts string, e *entry) error {
	c.Opts = route.ParseOptions(opts)
	for _, o := range c.Opts {
		if err := printableText(o.Key + o.Value); err != nil {
			c.Opts = nil
			return fmt.Errorf("option: %w", err)
		}
	}
	scheme, slash := "http", "/"
	if proto, _ := c.Opts.Get("proto"); slices.Contains([]string{"tcp", "https", "grpc", "grpcs"}, proto) {
		scheme, slash = proto, ""
		c.Opts = c.Opts.Without("proto")
	}
	if w, ok := c.Opts.Get("weight"); ok {
		c.Opts = c.Opts.Without("weight")
		f, err := strconv.ParseFloat(w, 64)
		if err != nil || math.IsNaN(f) || math.IsInf(f, 0) {
			return hinted(fmt.Errorf("weight %q is not a number", w), "want a share such as weight=0.2")
		}
		c.Weight = max(f, 0) // as in fabio, less than 0 is no fixed weight
	}
	if redirect, ok := c.Opts.Get("redirect"); ok {
		code, to, ok := strings.Cut(redirect, ",")
		if !ok || to == "" {
			return hinted(fmt.Errorf("redirect %q: no URL", redirect), "want redirect=code,url such as redirect=302,https://example.com$path")
		}
		o := slices.Clone(c.Opts)
		for i := range o {
			if o[i].Key == "redirect" {
				o[i].Value = code
			}
		}
		c.Opts, c.Dst = o, to
	} else {
		host, err := t.host(e)
		if err != nil {
			return err
		}
		c.Dst = scheme + "://" + net.JoinHostPort(host, strconv.Itoa(e.ServicePort)) + slash
	}
	up := *c
	up.Down = false
	return up.Validate()
}

// host returns the address of an instance, if it is one that can be an upstream.
func (t tagger) host(e *entry) (string, error) {
	addr, what := e.ServiceAddress, "service address"
	if addr == "" {
		addr, what = e.Address, "node address"
	}
	if e.ServicePort < 1 || e.ServicePort > 65535 {
		return "", hinted(fmt.Errorf("service port %d", e.ServicePort), "want 1 to 65535")
	}
	if ip, err := netip.ParseAddr(addr); err == nil {
		switch {
		case ip.Zone() != "":
			return "", hinted(fmt.Errorf("%s %q has a zone", what, addr), "zones mean something on one machine only")
		case ip.IsUnspecified(), ip.IsMulticast(), ip == netip.AddrFrom4([4]byte{255, 255, 255, 255}):
			return "", hinted(fmt.Errorf("%s %q is not the address of one machine", what, addr), "register the address on which the service is reached")
		}
		return addr, nil
	}
	if !isHostname(addr) {
		return "", hinted(fmt.Errorf("%s %q is no IP address and no host name", what, shorten(addr)), "want an address without scheme, port, brackets or user")
	}
	if t.darwin && !strings.Contains(addr, ".") {
		return addr + ".local", nil
	}
	return addr, nil
}

// isHostname accepts what DNS carries in practice, underscores included.
func isHostname(s string) bool {
	if s == "" || len(s) > 253 {
		return false
	}
	for label := range strings.SplitSeq(strings.TrimSuffix(s, "."), ".") {
		if label == "" || len(label) > 63 || label[0] == '-' || label[len(label)-1] == '-' {
			return false
		}
		for _, c := range []byte(label) {
			if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_') {
				return false
			}
		}
	}
	// "10.0.0" or "0x7f.1" are no names, and what a resolver makes of them is anybody's guess.
	last := strings.TrimSuffix(s, ".")
	last = last[strings.LastIndexByte(last, '.')+1:]
	return strings.Trim(last, "0123456789") != "" && !strings.HasPrefix(last, "0x") && !strings.HasPrefix(last, "0X")
}

// source makes the source of a command from the route of a tag: variables replaced, host in lower case.
func source(s, dc string) (string, error) {
	if s == "" {
		return "", hinted(errors.New("tag without a route"), "want host/path, /path or :port behind the prefix")
	}
	host, path, slash := s, "", ""
	if i := strings.IndexByte(s, '/'); i >= 0 {
		host, path, slash = s[:i], s[i+1:], "/"
	}
	host, err := expand(host, dc)
	if err != nil {
		return "", err
	}
	if strings.Contains(host, "$") {
		return "", hinted(fmt.Errorf("unknown variable in host %q", shorten(host)), "the only one is $DC")
	}
	if path, err = expand(path, dc); err != nil {
		return "", err
	}
	return lowerHost(host + slash + path), nil
}

// lowerHost puts the host of a source in lower case.
func lowerHost(src string) string {
	i := strings.IndexByte(src, '/')
	if i < 0 {
		i = len(src)
	}
	return strings.ToLower(src[:i]) + src[i:]
}

// expand replaces $DC and ${DC}. Another ${name} is an error; another $ is just that: paths may have one.
func expand(s, dc string) (string, error) {
	var b strings.Builder
	for {
		i := strings.IndexByte(s, '$')
		if i < 0 {
			return b.String() + s, nil
		}
		b.WriteString(s[:i])
		s = s[i+1:]
		name, rest, braces := "", s, false
		if inner, ok := strings.CutPrefix(s, "{"); ok {
			if name, rest, braces = strings.Cut(inner, "}"); !braces {
				return "", hinted(errors.New(`"${" without "}"`), "want ${DC}")
			}
		} else {
			n := strings.IndexFunc(s, func(r rune) bool { return r != '_' && !unicode.IsLetter(r) && !unicode.IsDigit(r) })
			if n < 0 {
				n = len(s)
			}
			name, rest = s[:n], s[n:]
		}
		switch {
		case name == "DC" && dc == "":
			return "", hinted(errors.New("the datacenter is not known"), "Consul's catalog names none")
		case name == "DC":
			b.WriteString(dc)
			s = rest
		case braces:
			return "", hinted(fmt.Errorf("unknown variable ${%s}", shorten(name)), "the only one is $DC")
		default:
			b.WriteByte('$')
		}
	}
}

// plainTag returns the tags that a tag which is no route stands for: as in fabio, a comma separates.
func plainTag(tag string) ([]string, error) {
	if len(tag) > maxTag {
		return nil, errLongTag
	}
	if err := printableText(tag); err != nil {
		return nil, err
	}
	if strings.TrimSpace(tag) == "" {
		return nil, nil
	}
	words := strings.Split(tag, ",")
	for i := range words {
		words[i] = strings.TrimSpace(words[i])
	}
	return words, nil
}

// printableText refuses what no line of text should have.
func printableText(s string) error {
	if !utf8.ValidString(s) {
		return errors.New("not valid UTF-8")
	}
	if i := strings.IndexFunc(s, unicode.IsControl); i >= 0 {
		return fmt.Errorf("control character %q", s[i:i+1])
	}
	return nil
}

// shorten cuts a text that is shown to a length that does not hurt.
func shorten(s string) string {
	const most = 200
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}

// hintedError is an error with a way out.
type hintedError struct {
	error
	hint string
}

func hinted(err error, hint string) error { return &hintedError{err, hint} }

func (e *hintedError) Unwrap() error { return e.error }

func hintOf(err error) string {
	if h, ok := errors.AsType[*hintedError](err); ok {
		return h.hint
	}
	return ""
}
