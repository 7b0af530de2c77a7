package integration

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// originEnv holds an address in a process that is not a test but an upstream, to be killed: see newKillable.
const originEnv = "VARCO_TEST_ORIGIN"

// shared is what all tests have in common.
var shared suite

// suite is the built binary and the Consul agent. need answers it ready for use.
type suite struct {
	once   sync.Once
	err    error
	dir    string // removed at the end
	binary string // varco, built for the tests
	plain  string // varco as a user builds it, for measurements
	consul *agent // one dev agent for all
	tests  atomic.Int64
}

func TestMain(m *testing.M) {
	if addr := os.Getenv(originEnv); addr != "" {
		serveOrigin(addr)
	}
	flag.Parse()
	code := 1
	defer func() { os.Exit(code) }()
	defer shared.close()
	if !testing.Short() {
		shared.once.Do(shared.open) // here and not in the first test, whose time is limited
	}
	code = m.Run()
}

// need skips the test in short mode, and fails it when varco or Consul is missing.
func (s *suite) need(t *testing.T) *suite {
	t.Helper()
	if testing.Short() {
		t.Skip("drives the real binary and a real Consul: not in short mode")
	}
	s.once.Do(s.open)
	if s.err != nil {
		t.Fatal(s.err)
	}
	return s
}

func (s *suite) open() {
	dir, err := os.MkdirTemp("", "varco-integration-")
	if err != nil {
		s.err = err
		return
	}
	s.dir = dir
	built := make(chan error, 1)
	go func() { built <- s.build() }()
	s.err = errors.Join(s.startConsul(), <-built)
}

// build compiles varco, under the race detector if the tests are, and as users do.
func (s *suite) build() error {
	var err error
	if s.plain, err = s.goBuild("varco"); err != nil {
		return err
	}
	s.binary = s.plain
	if withRace {
		s.binary, err = s.goBuild("varco-race", "-race")
	}
	return err
}

func (s *suite) goBuild(name string, args ...string) (string, error) {
	path := filepath.Join(s.dir, name)
	cmd := exec.Command("go", append([]string{"build", "-o", path}, append(args, "varco")...)...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build varco: %w\n%s", err, out)
	}
	return path, nil
}

func (s *suite) startConsul() error {
	bin, err := consulBinary()
	if err != nil {
		return err
	}
	a, err := newAgent(bin, "")
	if err != nil {
		return err
	}
	if err := a.start(); err != nil {
		return err
	}
	s.consul = a
	return nil
}

func (s *suite) close() {
	if s.consul != nil {
		s.consul.stop()
	}
	if s.dir != "" {
		os.RemoveAll(s.dir)
	}
}

// name answers a name that no other test has: for services, tag prefixes and keys.
func (s *suite) name() string { return "t" + strconv.FormatInt(s.tests.Add(1), 10) }

// newKillable starts an upstream in a process of its own.
func newKillable(t *testing.T, name string) (*origin, *process) {
	t.Helper()
	o := noOrigin(name)
	p := command(t, []string{originEnv + "=" + o.addr() + " " + name}, os.Args[0])
	t.Cleanup(p.kill)
	eventually(t, 10*time.Second, "the upstream listens", func() error {
		conn, err := net.Dial("tcp", o.addr())
		if err == nil {
			conn.Close()
		}
		return err
	})
	return o, p
}

// serveOrigin is the life of such a process.
func serveOrigin(where string) {
	var addr, name string
	if _, err := fmt.Sscan(where, &addr, &name); err != nil {
		panic(err)
	}
	l, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", addr)
	if err != nil {
		panic(err)
	}
	panic(http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { writeEcho(name, w, r) })))
}
