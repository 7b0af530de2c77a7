package route

import (
	"errors"
	"fmt"
	"math"
	"net/url"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Verb is what a Command does.
type Verb uint8

// The verbs of the route language.
const (
	Add Verb = iota + 1
	Del
	Weight
)

// String returns the word of the route language for v.
func (v Verb) String() string {
	switch v {
	case Add:
		return "add"
	case Del:
		return "del"
	case Weight:
		return "weight"
	}
	return "Verb(" + strconv.Itoa(int(v)) + ")"
}

// Command is one statement of the route language as a typed value. Commands from a catalog are made directly, never
// by parsing text, so nothing in a service's name, tag or address can add a statement.
type Command struct {
	Verb Verb
	// Service is required by Add; "" means any service in the forms of Del and Weight that allow it.
	Service string
	// Src is host/path or :port; its host is lower-case. "" means any route (Del only).
	Src string
	// Dst is the destination URL. "" means any (Del only), or none when Down is set.
	Dst string
	// Weight is the fixed weight, 0 for none; finite, never negative.
	Weight float64
	// Tags are the tags of the target (Add), or those that a target must all have (Del and Weight).
	Tags []string
	// Opts are the options of the target (Add).
	Opts Options
	// Down marks a route that is known but has no passing instance (Add): its route stays in the table without a
	// target of this command, so that its traffic gets 503 and does not slide to a broader route.
	Down bool
	// Origin says where the command came from.
	Origin Origin
}

// String returns the canonical line for c: Parse reads it back as c, apart from Origin. A Command with Down has no
// line of its own; it gives a comment.
func (c Command) String() string {
	var b strings.Builder
	if c.Down {
		b.WriteString("# down: ")
	}
	b.WriteString("route ")
	b.WriteString(c.Verb.String())
	for _, w := range []string{c.Service, c.Src, c.Dst} {
		if w != "" {
			b.WriteByte(' ')
			b.WriteString(w)
		}
	}
	if c.Weight != 0 || c.Verb == Weight {
		b.WriteString(" weight ")
		b.WriteString(strconv.FormatFloat(c.Weight, 'g', -1, 64))
	}
	tags := formatTags(c.Tags)
	if tags != "" || c.Verb == Weight && c.Service == "" { // without a service the grammar wants tags
		b.WriteString(` tags "`)
		b.WriteString(tags)
		b.WriteByte('"')
	}
	if len(c.Opts) > 0 {
		b.WriteString(` opts "`)
		b.WriteString(c.Opts.String())
		b.WriteByte('"')
	}
	return b.String()
}

// Validate reports what is wrong with c, for commands that were not made by Parse, which checks all of this but Dst.
// A command with a wrong Dst is still worth handing to a Builder: it keeps the route and answers 503.
func (c Command) Validate() error {
	if err := c.check(); err != nil {
		return err
	}
	if c.Verb == Add && !c.Down {
		_, err := parseDst(c.Dst)
		return err
	}
	return nil
}

// A fieldError says which part of a command is wrong. Error has no prefix; hint may be "".
type fieldError struct{ field, reason, hint string }

func (e *fieldError) Error() string {
	s := e.field + " " + e.reason
	if e.hint != "" {
		s += " (" + e.hint + ")"
	}
	return s
}

// check checks everything that has to hold before the command can be executed: the words are words, the weight is a
// number, and the parts that the verb needs are there.
func (c *Command) check() error {
	for _, w := range [...]struct{ field, text string }{
		{"service", c.Service}, {"source", c.Src}, {"destination", c.Dst},
	} {
		if err := checkWord(w.field, w.text); err != nil {
			return err
		}
	}
	if math.IsNaN(c.Weight) || math.IsInf(c.Weight, 0) || c.Weight < 0 {
		return &fieldError{"weight", fmt.Sprintf("%v is not a share", c.Weight), "want a number from 0 up"}
	}
	missing := ""
	switch c.Verb {
	case Add:
		switch {
		case c.Service == "":
			missing = "service"
		case c.Src == "":
			missing = "source"
		case c.Dst == "" && !c.Down:
			missing = "destination"
		}
	case Del:
		switch {
		case c.Service == "" && len(c.Tags) == 0:
			return &fieldError{"service", "is missing, and there are no tags",
				`want route del <service>, or route del tags "<tag>"`}
		case c.Src != "" && (c.Service == "" || len(c.Tags) > 0):
			return &fieldError{"source", "cannot be joined with tags", `want route del <service> tags "<tag>"`}
		case c.Dst != "" && c.Src == "":
			missing = "source"
		case c.Dst != "":
			if _, err := parseDst(c.Dst); err != nil {
				return err
			}
		}
	case Weight:
		if c.Src == "" {
			missing = "source"
		}
	default:
		return &fieldError{"verb", "is none of add, del, weight", ""}
	}
	if missing != "" {
		return &fieldError{missing, "is missing", ""}
	}
	return checkSrc(c.Src)
}

// checkWord refuses what the route language cannot write as a word.
func checkWord(field, s string) error {
	if strings.HasPrefix(s, `"`) {
		return &fieldError{field, "starts with a quote", "only tags and opts are quoted"}
	}
	for _, r := range s {
		switch {
		case r == utf8.RuneError || r > ' ' && r < 0x7f:
		case unicode.IsSpace(r), unicode.IsControl(r):
			return &fieldError{field, fmt.Sprintf("holds white space or a control character (%U)", r), "want one word"}
		}
	}
	return nil
}

// maxHost bounds the names of hosts, in routes and in requests; DNS allows 253 bytes and a port.
const maxHost = 512

func checkSrc(src string) error {
	if src == "" {
		return nil
	}
	host, _ := splitSrc(src)
	switch scheme, rest, ok := strings.Cut(src, "://"); {
	case len(host) > maxHost:
		return &fieldError{"source", fmt.Sprintf("host is longer than %d bytes", maxHost), ""}
	case strings.HasPrefix(src, ":"):
		port, path, ok := strings.Cut(src[1:], "/")
		n, err := strconv.ParseUint(port, 10, 16)
		if err != nil || n == 0 || port[0] == '0' {
			return &fieldError{"source", fmt.Sprintf("%q is not a port", src), "want :port from 1 to 65535, or host/path"}
		}
		if ok {
			return &fieldError{"source", fmt.Sprintf("%q has a path, but a port has none", src),
				fmt.Sprintf("for requests to any host on port %s write *:%s/%s", port, port, path)}
		}
	case ok && !strings.ContainsAny(scheme, "/.*:") && rest != "":
		return &fieldError{"source", "starts with a scheme", "write " + rest}
	}
	return nil
}

// schemes are those a destination may have, for upstreams and redirects.
const schemes = "http, https, tcp, grpc or grpcs"

const pathVariable = "$path"

// urlText returns the destination u, written as dst, in one form for all ways to write it.
func urlText(u *url.URL, dst string) string {
	if strings.Contains(dst, pathVariable) { // may be lost in u
		return dst
	}
	return u.String()
}

// parseDst parses the URL of a destination and refuses what no listener can use. The destination of a redirect may
// hold the variables $host and $path; where $path would make a URL wrong (http://a.com:81$path) it counts as "/".
func parseDst(dst string) (*url.URL, error) {
	bad := func(reason, hint string) (*url.URL, error) { return nil, &fieldError{"destination", reason, hint} }
	u, err := url.Parse(dst)
	if err != nil && strings.Contains(dst, pathVariable) {
		u, err = url.Parse(strings.Replace(dst, pathVariable, "/", 1))
	}
	if err != nil {
		var e *url.Error
		if errors.As(err, &e) {
			err = e.Err
		}
		return bad(fmt.Sprintf("%q is not a URL: %v", dst, err), "want scheme://host:port/")
	}
	switch u.Scheme {
	case "http", "https", "grpc", "grpcs":
		if u.Host == "" {
			return bad(fmt.Sprintf("%q names no host", dst), "want "+u.Scheme+"://host:port/")
		}
	case "tcp":
		if u.Hostname() == "" || u.Port() == "" {
			return bad(fmt.Sprintf("%q names no host and port", dst), "want tcp://host:port")
		}
	case "":
		return bad(fmt.Sprintf("%q has no scheme", dst), "want "+schemes+": http://"+strings.TrimLeft(dst, "/"))
	default:
		// "10.0.0.1:80" fails to parse, "web:80" is read as scheme "web".
		return bad(fmt.Sprintf("scheme %q is not supported", u.Scheme), "want "+schemes)
	}
	return u, nil
}
