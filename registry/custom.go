package registry

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/pflag"

	"varco/route"
)

// CustomConfig says where a JSON list of routes is fetched from.
type CustomConfig struct {
	Host, Scheme, Path    string
	QueryParams           Secret // the query, which often has a token
	Timeout, PollInterval time.Duration
	CheckTLSSkipVerify    bool
	// NoRoute is the HTML of the no-route page.
	NoRoute string
}

func (c *CustomConfig) flags(fs *pflag.FlagSet) {
	fs.StringVar(&c.Host, "registry.custom.host", "", "host or host:port that serves the routes as JSON")
	fs.StringVar(&c.Scheme, "registry.custom.scheme", "https", "http or https")
	fs.StringVar(&c.Path, "registry.custom.path", "", "path of the routes on that host")
	fs.Var(&c.QueryParams, "registry.custom.queryparams", "query of the request, without the question mark; not shown anywhere, it may hold a secret")
	fs.DurationVar(&c.Timeout, "registry.custom.timeout", 5*time.Second, "how long one request may take")
	fs.DurationVar(&c.PollInterval, "registry.custom.pollinterval", 10*time.Second, "pause between two requests")
	fs.BoolVar(&c.CheckTLSSkipVerify, "registry.custom.checkTLSSkipVerify", false, "do not check the host's certificate")
	fs.StringVar(&c.NoRoute, "registry.custom.noroutehtml", "", "page for requests without a route, as HTML text")
}

func checkCustom(config *Config) error {
	c := &config.Custom
	switch {
	case c.Scheme != "http" && c.Scheme != "https":
		return fmt.Errorf("registry.custom.scheme: %q: want http or https", c.Scheme)
	case c.Host == "" || strings.ContainsAny(c.Host, "/@?# "):
		return fmt.Errorf("registry.custom.host: %q: want host or host:port", c.Host)
	case c.Timeout <= 0:
		return fmt.Errorf("registry.custom.timeout: %s: want more than 0", c.Timeout)
	case c.PollInterval <= 0:
		return fmt.Errorf("registry.custom.pollinterval: %s: want more than 0", c.PollInterval)
	case len(c.NoRoute) > maxNoRoute:
		return fmt.Errorf("registry.custom.noroutehtml: longer than %d KiB", maxNoRoute>>10)
	}
	return nil
}

// custom is a backend that fetches a JSON list of routes over HTTP again and again. Only a complete answer with status
// 200 that is a JSON list counts; an entry of it that is not understood costs only itself.
type custom struct {
	config CustomConfig
	env    Env
	retry  time.Duration
	client *http.Client
	url    url.URL
	limit  int64  // of an answer
	source string // url without its query, which may hold a secret

	mu    sync.Mutex // guards wrong
	wrong error      // why the last request failed
}

func openCustom(c Config, e Env) (Backend, error) {
	b := &custom{config: c.Custom, env: e, retry: c.Retry, limit: maxBody}
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.TLSClientConfig = &tls.Config{InsecureSkipVerify: b.config.CheckTLSSkipVerify}
	b.client = &http.Client{
		Transport: t,
		Timeout:   b.config.Timeout,
		CheckRedirect: func(*http.Request, []*http.Request) error {
			return http.ErrUseLastResponse
		},
	}
	path, err := url.PathUnescape("/" + strings.TrimLeft(b.config.Path, "/"))
	if err != nil {
		return nil, fmt.Errorf("registry.custom.path: %q: %v", b.config.Path, err)
	}
	b.url = url.URL{Scheme: b.config.Scheme, Host: b.config.Host, Path: path}
	b.source = b.url.String()
	b.url.RawQuery = strings.TrimPrefix(b.config.QueryParams.Reveal(), "?")
	return b, nil
}

// Trouble says why the last request failed.
func (b *custom) Trouble() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.wrong
}

// Watch fetches the routes until ctx ends.
func (b *custom) Watch(ctx context.Context, update func(route.Snapshot)) error {
	defer b.client.CloseIdleConnections()
	retry := backoff{base: b.retry}
	var good, last route.Snapshot // the last good answer; what update got last
	known := false
	for ctx.Err() == nil {
		var s route.Snapshot
		err := b.env.query("custom", func() (err error) {
			s, err = b.fetch(ctx)
			return err
		})
		if ctx.Err() != nil {
			return nil
		}
		b.note(err)
		if err != nil {
			if !known {
				pause(ctx, retry.next())
				continue
			}
			s = good
			s.Problems = append(slices.Clip(s.Problems), route.Problem{
				Origin: route.Origin{Source: b.source},
				Reason: "request for the routes fails: " + cause(err),
				Hint:   "the last good routes stay",
			})
		} else {
			good = s
		}
		if !known || !sameSnapshot(&s, &last) {
			known, last = true, s
			update(s)
		}
		pause(ctx, b.config.PollInterval)
	}
	return nil
}

// note remembers how the last request went and logs when that changes.
func (b *custom) note(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	was := b.wrong
	b.wrong = nil
	if err != nil {
		b.wrong = fmt.Errorf("%s: %s", b.source, cause(err))
	}
	switch {
	case err != nil && was == nil:
		b.env.Log.Warn("request for the routes failed, the last good ones stay", "url", b.source, "err", cause(err))
	case err == nil && was != nil:
		b.env.Log.Info("routes are served again", "url", b.source)
	}
}

func (b *custom) fetch(ctx context.Context) (route.Snapshot, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, b.url.String(), nil)
	if err != nil {
		return route.Snapshot{}, err
	}
	req.Header.Set("Accept", "application/json")
	resp, err := b.client.Do(req)
	if err != nil {
		return route.Snapshot{}, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return route.Snapshot{}, &statusError{Code: resp.StatusCode}
	}
	// The list is taken apart first, so that an entry of the wrong type costs only itself.
	var list []json.RawMessage
	dec := json.NewDecoder(capBody(resp.Body, b.limit))
	if err := dec.Decode(&list); err != nil {
		return route.Snapshot{}, fmt.Errorf("not a JSON list: %w", err)
	}
	if _, err := dec.Token(); list == nil || err != io.EOF {
		return route.Snapshot{}, errors.New("not a JSON list")
	}
	s := route.Snapshot{NoRoute: b.config.NoRoute}
	for i, raw := range list {
		at := route.Origin{Source: b.source, Line: i + 1}
		c, err := parseDef(raw)
		if err != nil {
			s.Problems = append(s.Problems, route.Problem{Origin: at, Text: shorten(string(raw)), Reason: err.Error(), Hint: hintOf(err)})
		}
		if c.Verb != 0 {
			c.Origin = at
			s.Overrides = append(s.Overrides, c)
		}
	}
	return s, nil
}

// routeDef is one entry of the list, in fabio's form.
type routeDef struct {
	Cmd     string            `json:"cmd"`
	Service string            `json:"service"`
	Src     string            `json:"src"`
	Dst     string            `json:"dst"`
	Weight  float64           `json:"weight"`
	Tags    []string          `json:"tags"`
	Opts    map[string]string `json:"opts"`
}

// parseDef makes a command of one entry. An add that is wrong but names its service and source gives both an error and
// a command with Down set, so that its route is known.
func parseDef(raw []byte) (route.Command, error) {
	var d routeDef
	if err := json.Unmarshal(raw, &d); err != nil {
		return route.Command{}, err
	}
	c := route.Command{Service: d.Service, Src: lowerHost(d.Src), Dst: d.Dst, Weight: max(d.Weight, 0), Tags: d.Tags, Opts: route.NewOptions(d.Opts)}
	switch strings.Join(strings.Fields(d.Cmd), " ") {
	case "route add":
		c.Verb = route.Add
	case "route del":
		c.Verb = route.Del
	case "route weight":
		c.Verb = route.Weight
	default:
		return route.Command{}, fmt.Errorf("invalid command %q: want route add, route del or route weight", shorten(d.Cmd))
	}
	err := c.Validate()
	for i := 0; err == nil && i < len(c.Opts); i++ {
		err = printableText(c.Opts[i].Key + c.Opts[i].Value)
	}
	for i := 0; err == nil && i < len(c.Tags); i++ {
		err = printableText(c.Tags[i])
	}
	if err == nil {
		return c, nil
	}
	down := route.Command{Verb: route.Add, Service: oneWord(c.Service), Src: c.Src, Down: true}
	if c.Verb != route.Add || down.Validate() != nil {
		return route.Command{}, err
	}
	return down, err
}
