package integration

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// flags are command line flags by name.
type flags map[string]string

// with answers f with other flags added or in its place.
func (f flags) with(other flags) flags {
	all := maps.Clone(f)
	maps.Copy(all, other)
	return all
}

// args answers the command line, in order of the names.
func (f flags) args() []string {
	var args []string
	for _, name := range slices.Sorted(maps.Keys(f)) {
		args = append(args, "--"+name+"="+f[name])
	}
	return args
}

// varco is a running varco.
type varco struct {
	*process
	t      *testing.T
	client *http.Client
	proxy  string // address of its HTTP listener
	ui     string // address of its admin listener
	name   string // begins the names of the test's services
	prefix string // of the tags
	kvpath string // of the overrides
	noPage string // key of the no-route page
}

// settings answers the flags that keep a varco and its test apart from all others: ports, tag prefix, keys. It does not
// register itself and takes the instances of a route in turn, unless a test says otherwise.
func settings(t *testing.T) flags {
	t.Helper()
	s := shared.need(t)
	name := s.name()
	f := flags{
		"proxy.addr":                       loopback(freePort()),
		"proxy.strategy":                   "rr",
		"ui.addr":                          loopback(freePort()),
		"registry.consul.addr":             s.consul.addr,
		"registry.consul.tagprefix":        name + "-",
		"registry.consul.kvpath":           "/" + name + "/config",
		"registry.consul.noroutehtmlpath":  "/" + name + "/noroute.html",
		"registry.consul.register.name":    name + "-varco",
		"registry.consul.register.enabled": "false",
		"proxy.shutdownwait":               "2s",
		"registry.consul.register.addr":    loopback(freePort()),
	}
	if engine := os.Getenv("VARCO_TEST_ENGINE"); engine != "" {
		f["proxy.engine"] = engine // to see that both behave the same
	}
	return f
}

// start runs varco with settings(t), overlaid with other flags, and waits until it serves.
func start(t *testing.T, other flags) *varco {
	t.Helper()
	v := launchVarco(t, settings(t).with(other))
	v.serving()
	return v
}

// launchVarco runs varco with exactly these flags. At the end of the test it must still run, stop when told to, and not have
// seen a data race.
func launchVarco(t *testing.T, f flags, args ...string) *varco {
	t.Helper()
	return launchBinary(t, shared.need(t).binary, nil, f, args...)
}

func launchBinary(t *testing.T, binary string, env []string, f flags, args ...string) *varco {
	t.Helper()
	v := &varco{
		process: command(t, append(env, "GORACE=exitcode=66"), binary, append(args, f.args()...)...),
		t:       t,
		proxy:   address(f["proxy.addr"]),
		ui:      f["ui.addr"],
		name:    strings.TrimSuffix(f["registry.consul.tagprefix"], "-"),
		prefix:  f["registry.consul.tagprefix"],
		kvpath:  f["registry.consul.kvpath"],
		noPage:  f["registry.consul.noroutehtmlpath"],
		client:  newClient(),
	}
	t.Cleanup(v.finish)
	return v
}

// address answers the first address of a list of listeners.
func address(listeners string) string {
	first, _, _ := strings.Cut(listeners, ",")
	addr, _, _ := strings.Cut(first, ";")
	return addr
}

// newClient answers a client that takes redirects as answers and each request over a new connection.
func newClient() *http.Client {
	return &http.Client{
		Transport:     &http.Transport{DisableKeepAlives: true, DisableCompression: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Timeout:       20 * time.Second,
	}
}

// serving waits until the admin API and the proxy answer.
func (v *varco) serving() {
	v.t.Helper()
	eventually(v.t, 15*time.Second, "varco serves", func() error {
		if v.ended() {
			v.t.Fatalf("varco ended: %s%s", v.out.String(), v.err.String())
		}
		if r, err := v.ask("GET", "/health"); err != nil || r.status != http.StatusOK {
			return fmt.Errorf("/health: %v %v", r.status, err)
		}
		return v.listening()
	})
}

// listens waits until the proxy's listener is open.
func (v *varco) listens(limit time.Duration) {
	v.t.Helper()
	eventually(v.t, limit, "varco listens", func() error {
		if v.ended() {
			v.t.Fatalf("varco ended: %s%s", v.out.String(), v.err.String())
		}
		return v.listening()
	})
}

// listening says why the proxy's listener can't be reached.
func (v *varco) listening() error {
	conn, err := net.DialTimeout("tcp", v.proxy, time.Second)
	if err == nil {
		conn.Close()
	}
	return err
}

// finish stops varco at the end of a test, if the test has not.
func (v *varco) finish() {
	if !v.ended() {
		v.signal(syscall.SIGTERM)
		if code := v.exit(v.t, 15*time.Second); code != 0 {
			v.t.Errorf("exit code %d after SIGTERM, want 0", code)
		}
	}
	if strings.Contains(v.err.String(), "DATA RACE") {
		v.t.Errorf("data race in varco")
	}
	for _, bad := range []string{"panic:", "goroutine 1 ["} {
		if strings.Contains(v.err.String(), bad) {
			v.t.Errorf("varco's stderr has %q", bad)
		}
	}
	if v.t.Failed() {
		v.t.Logf("varco %s\nstdout: %s\nstderr: %s", strings.Join(v.cmd.Args[1:], " "),
			lastLines(v.out.String(), 30), lastLines(v.err.String(), 60))
	}
}

// reply is an answer, read to its end.
type reply struct {
	status  int
	header  http.Header
	trailer http.Header
	body    string
}

// echo reads the body as what a default origin answers.
func (r reply) echo(t *testing.T) echo {
	t.Helper()
	var e echo
	if err := json.Unmarshal([]byte(r.body), &e); err != nil {
		t.Fatalf("not an echo of an origin: %d %q", r.status, r.body)
	}
	return e
}

// send sends a request to an address of varco's; header holds pairs of name and value, "Host" too.
func (v *varco) send(addr, method, uri, body string, header ...string) (reply, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, "http://"+addr, strings.NewReader(body))
	if err != nil {
		return reply{}, err
	}
	path, query, _ := strings.Cut(uri, "?")
	if req.URL.Path, err = url.PathUnescape(path); err != nil {
		return reply{}, err
	}
	req.URL.RawPath, req.URL.RawQuery = path, query
	for pair := range slices.Chunk(header, 2) {
		req.Header.Add(pair[0], pair[1])
		if pair[0] == "Host" {
			req.Host = pair[1]
		}
	}
	res, err := v.client.Do(req)
	if err != nil {
		return reply{}, err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	return reply{res.StatusCode, res.Header, res.Trailer, string(text)}, err
}

// get sends a GET to the proxy; an error fails the test.
func (v *varco) get(uri string, header ...string) reply {
	v.t.Helper()
	r, err := v.send(v.proxy, "GET", uri, "", header...)
	if err != nil {
		v.t.Fatalf("GET %s: %v", uri, err)
	}
	return r
}

// ask sends a request to the admin API.
func (v *varco) ask(method, uri string, header ...string) (reply, error) {
	return v.send(v.ui, method, uri, "", header...)
}

// api reads from the admin API; anything but 200 fails the test.
func (v *varco) api(uri string) string {
	v.t.Helper()
	r, err := v.ask("GET", uri)
	if err != nil || r.status != http.StatusOK {
		v.t.Fatalf("GET %s: %d %q, %v", uri, r.status, r.body, err)
	}
	return r.body
}

// table answers the text of the routing table.
func (v *varco) table() string {
	v.t.Helper()
	return v.api("/api/routes?raw")
}

// answers waits until a GET of the proxy has this status.
func (v *varco) answers(limit time.Duration, uri string, status int, header ...string) time.Duration {
	v.t.Helper()
	return eventually(v.t, limit, fmt.Sprintf("GET %s answers %d", uri, status), func() error {
		r, err := v.send(v.proxy, "GET", uri, "", header...)
		if err != nil {
			return err
		}
		if r.status != status {
			return fmt.Errorf("it answers %d %q", r.status, r.body)
		}
		return nil
	})
}

// reaches waits until the GETs of a path reach exactly these instances.
func (v *varco) reaches(limit time.Duration, uri string, instances ...string) time.Duration {
	v.t.Helper()
	slices.Sort(instances)
	return eventually(v.t, limit, fmt.Sprintf("GET %s reaches %v", uri, instances), func() error {
		seen := map[string]bool{}
		for range 4 * len(instances) {
			r, err := v.send(v.proxy, "GET", uri, "")
			if err != nil {
				return err
			}
			if r.status != http.StatusOK {
				return fmt.Errorf("it answers %d", r.status)
			}
			seen[r.echo(v.t).Instance] = true
		}
		if got := slices.Sorted(maps.Keys(seen)); !slices.Equal(got, instances) {
			return fmt.Errorf("it reaches %v", got)
		}
		return nil
	})
}

// problem is one of those that the admin API tells about.
type problem struct {
	Origin struct {
		Service, Node, Instance, Tag, Source string
		Line, Column                         int
	}
	Text, Reason, Hint string
}

func (v *varco) problems() []problem {
	v.t.Helper()
	var all []problem
	if err := json.Unmarshal([]byte(v.api("/api/problems")), &all); err != nil {
		v.t.Fatalf("/api/problems: %v", err)
	}
	return all
}

// problemWith waits for a problem whose text holds these words.
func (v *varco) problemWith(words string) problem {
	v.t.Helper()
	var found problem
	eventually(v.t, 5*time.Second, fmt.Sprintf("a problem with %q", words), func() error {
		all := v.problems()
		for _, p := range all {
			if strings.Contains(p.Text, words) {
				found = p
				return nil
			}
		}
		return fmt.Errorf("problems: %+v", all)
	})
	return found
}

// metric reads the value of a series, given as it is written in the text format; the prefix of the namespace aside.
func (v *varco) metric(series string) (float64, error) {
	v.t.Helper()
	r, err := v.ask("GET", "/metrics")
	if err != nil {
		return 0, err
	}
	re := regexp.MustCompile(`(?m)^(?:[a-z0-9_]+_)?` + regexp.QuoteMeta(series) + ` (\S+)$`)
	m := re.FindStringSubmatch(r.body)
	if m == nil {
		return 0, errors.New("no series " + series)
	}
	var n float64
	_, err = fmt.Sscan(m[1], &n)
	return n, err
}

// write makes a file in the test's own folder and answers its path.
func write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}
