package integration

import (
	"fmt"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"
)

// inFlight sends a request that the origin holds until release is closed, and answers once it has arrived there.
func inFlight(t *testing.T, v *varco, uri string, o *origin) (answer chan reply) {
	t.Helper()
	answer = make(chan reply, 1)
	before := o.hits.Load()
	go func() {
		r, err := v.send(v.proxy, "GET", uri, "")
		if err != nil {
			r.body = err.Error()
		}
		answer <- r
	}()
	eventually(t, 5*time.Second, "the request has reached the upstream", func() error {
		if n := o.hits.Load() - before; n != 1 {
			return fmt.Errorf("%d requests", n)
		}
		return nil
	})
	return answer
}

// holding starts an upstream that answers when release is closed.
func holding(t *testing.T) (o *origin, release chan struct{}) {
	release = make(chan struct{})
	o = newOriginFunc(t, "slow", func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-release:
			fmt.Fprint(w, "finished")
		case <-r.Context().Done():
		}
	})
	return o, release
}

// TestStopOrder walks through a stop: /health fails first and the service is deregistered, traffic still flows for the
// grace period; then nothing new is accepted, what is in flight is finished, and varco ends with 0.
func TestStopOrder(t *testing.T) {
	t.Parallel()
	v, name := startRegistered(t, flags{
		"proxy.deregistergraceperiod": "2s",
		"proxy.shutdownwait":          "10s",
	})
	slow, release := holding(t)
	shared.consul.register(t, v.name+"-slow", slow, v.prefix+"/slow")
	shared.consul.register(t, v.name+"-web", newOrigin(t, "a"), v.prefix+"/web")
	v.reaches(5*time.Second, "/web", "a")
	v.routed("/slow")
	registered(t, name, 1)
	answer := inFlight(t, v, "/slow", slow)

	start := time.Now()
	v.signal(syscall.SIGTERM)
	eventually(t, time.Second, "/health fails", func() error {
		r, err := v.ask("GET", "/health")
		if err != nil {
			return fmt.Errorf("the admin listener is gone: %w", err)
		}
		if r.status != http.StatusServiceUnavailable {
			return fmt.Errorf("it answers %d", r.status)
		}
		return nil
	})
	registered(t, name, 0)
	if r := v.get("/web"); r.status != http.StatusOK {
		t.Errorf("GET /web in the grace period: %d", r.status)
	}
	eventually(t, 5*time.Second, "new connections are refused", func() error {
		if v.listening() == nil {
			return fmt.Errorf("accepted")
		}
		return nil
	})
	if grace := time.Since(start); grace < 1900*time.Millisecond {
		t.Errorf("the listener closed after %v, want the grace period of 2 s", grace)
	}
	if v.ended() {
		t.Fatal("varco ended with a request in flight")
	}
	close(release)
	if r := <-answer; r.status != http.StatusOK || r.body != "finished" {
		t.Errorf("request in flight: %d %q", r.status, r.body)
	}
	if code := v.exit(t, 5*time.Second); code != 0 {
		t.Errorf("exit code %d, want 0", code)
	}
}

// TestDrainIsLimited: a request that does not finish is cut after proxy.shutdownwait.
func TestDrainIsLimited(t *testing.T) {
	t.Parallel()
	v := start(t, flags{"proxy.shutdownwait": "500ms"})
	slow, release := holding(t)
	defer close(release)
	shared.consul.register(t, v.name+"-slow", slow, v.prefix+"/slow")
	v.routed("/slow")
	answer := inFlight(t, v, "/slow", slow)
	start := time.Now()
	v.signal(syscall.SIGTERM)
	v.exit(t, 5*time.Second)
	if took := time.Since(start); took < 450*time.Millisecond || took > 4*time.Second {
		t.Errorf("ended after %v, want shutdownwait of 500 ms", took)
	}
	<-answer
}

func TestSecondSignalEndsAtOnce(t *testing.T) {
	t.Parallel()
	v := start(t, flags{"proxy.shutdownwait": "1m"})
	slow, release := holding(t)
	defer close(release)
	shared.consul.register(t, v.name+"-slow", slow, v.prefix+"/slow")
	v.routed("/slow")
	answer := inFlight(t, v, "/slow", slow)
	v.signal(syscall.SIGTERM)
	eventually(t, 5*time.Second, "it stops accepting", func() error {
		if v.listening() == nil {
			return fmt.Errorf("it accepts")
		}
		return nil
	})
	v.signal(syscall.SIGTERM)
	if code := v.exit(t, 2*time.Second); code == 0 {
		t.Error("exit code 0 after a second signal, want another")
	}
	<-answer
}

func TestBusyPortIsAnError(t *testing.T) {
	t.Parallel()
	busy := newOrigin(t, "busy")
	f := settings(t).with(flags{"proxy.addr": busy.addr()})
	v := command(t, nil, shared.binary, f.args()...)
	defer v.kill()
	if code := v.exit(t, 20*time.Second); code == 0 {
		t.Error("exit code 0, want an error")
	}
	if msg := v.err.String(); !strings.Contains(msg, busy.addr()) {
		t.Errorf("stderr does not name the address %s: %s", busy.addr(), msg)
	}
}
