package integration

import (
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"
)

// agent is a Consul agent that runs on ports of its own.
type agent struct {
	*api.Client
	addr string // host:port of its HTTP API
	bin  string
	args []string
	proc *process
}

// consulBinary answers the path of a Consul to run; it builds one when there is none.
func consulBinary() (string, error) {
	cmd := exec.Command("go", "run", ".")
	cmd.Dir = "consul"
	var msg strings.Builder
	cmd.Stderr = &msg
	path, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("no Consul to test with (go -C integration/consul run .): %w\n%s", err, msg.String())
	}
	return strings.TrimSpace(string(path)), nil
}

// newAgent prepares an agent with free ports; start runs it. With a data folder it is a server of one that keeps what
// it knows when it is killed and started again; without, an agent in dev mode that forgets everything.
func newAgent(bin, data string) (*agent, error) {
	port, server, serf := freePort(), freePort(), freePort()
	a := &agent{addr: loopback(port), bin: bin}
	mode := []string{"-dev"}
	if data != "" {
		mode = []string{"-server", "-bootstrap-expect=1", "-data-dir=" + data}
	}
	// A dev agent opens ports that it is not told to close.
	config := fmt.Sprintf(`
		node_name = "edge"
		bind_addr = "127.0.0.1"
		disable_update_check = true
		enable_central_service_config = false
		ports { http = %d, dns = -1, grpc = -1, grpc_tls = -1, server = %d, serf_lan = %d, serf_wan = -1 }
		limits { http_max_conns_per_client = 10000 }
		performance { raft_multiplier = 1 }
		connect { enabled = false }
	`, port, server, serf)
	a.args = append([]string{"agent", "-log-level=warn", "-hcl=" + config}, mode...)
	var err error
	a.Client, err = api.NewClient(&api.Config{Address: a.addr})
	return a, err
}

// ownAgent starts an agent for one test.
func ownAgent(t *testing.T, data string) *agent {
	t.Helper()
	a, err := newAgent(shared.need(t).consul.bin, data)
	if err != nil {
		t.Fatal(err)
	}
	if err := a.start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.stop)
	return a
}

// start runs the agent and waits until it has a leader and knows itself.
func (a *agent) start() error {
	proc, err := startProcess(nil, a.bin, a.args...)
	if err != nil {
		return fmt.Errorf("start Consul: %w", err)
	}
	a.proc = proc
	_, err = poll(30*time.Second, func() error {
		if proc.ended() {
			return nil
		}
		checks, _, err := a.Health().State("any", nil)
		if err != nil {
			return err
		}
		if len(checks) == 0 {
			return errors.New("the agent has not registered itself")
		}
		return nil
	})
	if proc.ended() {
		err = errors.New("it ended")
	}
	if err != nil {
		proc.kill()
		return fmt.Errorf("Consul is not ready: %w\n%s%s", err, proc.out.String(), proc.err.String())
	}
	return nil
}

// stop ends the agent at once; its data folder, if it has one, is left as a crash leaves it.
func (a *agent) stop() {
	a.proc.signal(syscall.SIGKILL)
	<-a.proc.done
}

// instance is one instance of a service, registered at an agent with one check that the test decides about.
type instance struct {
	t       *testing.T
	a       *agent
	id      string
	service string
	check   string
}

// register adds an instance of a service to the agent's catalog, with a check that passes. The ID is the origin's name.
func (a *agent) register(t *testing.T, service string, o *origin, tags ...string) *instance {
	t.Helper()
	i := &instance{t: t, a: a, id: service + "-" + o.name, service: service, check: service + "-" + o.name + "-check"}
	err := a.Agent().ServiceRegister(&api.AgentServiceRegistration{
		ID: i.id, Name: service, Address: o.host, Port: o.port, Tags: tags,
		Check: &api.AgentServiceCheck{CheckID: i.check, TTL: "10m", Status: "passing"},
	})
	if err != nil {
		t.Fatalf("register %s: %v", i.id, err)
	}
	t.Cleanup(i.forget)
	return i
}

// status sets the state of the instance's check: passing, warning or critical.
func (i *instance) status(state string) {
	i.t.Helper()
	if err := i.a.Agent().UpdateTTL(i.check, "set by a test", state); err != nil {
		i.t.Fatalf("set %s to %s: %v", i.check, state, err)
	}
}

// addCheck gives the instance one more check in the given state.
func (i *instance) addCheck(id, state string) {
	i.t.Helper()
	err := i.a.Agent().CheckRegister(&api.AgentCheckRegistration{
		ID: i.id + id, Name: id, ServiceID: i.id,
		AgentServiceCheck: api.AgentServiceCheck{TTL: "10m", Status: state},
	})
	if err != nil {
		i.t.Fatalf("add check %s to %s: %v", id, i.id, err)
	}
}

func (i *instance) maintenance(on bool) {
	i.t.Helper()
	var err error
	if on {
		err = i.a.Agent().EnableServiceMaintenance(i.id, "by a test")
	} else {
		err = i.a.Agent().DisableServiceMaintenance(i.id)
	}
	if err != nil {
		i.t.Fatalf("maintenance of %s: %v", i.id, err)
	}
}

func (i *instance) deregister() {
	i.t.Helper()
	if err := i.a.Agent().ServiceDeregister(i.id); err != nil {
		i.t.Fatalf("deregister %s: %v", i.id, err)
	}
}

// forget deregisters at the end of a test, when the instance or even the agent may be gone.
func (i *instance) forget() { i.a.Agent().ServiceDeregister(i.id) }

// put writes a key, and removes it at the end of the test.
func (a *agent) put(t *testing.T, key, value string) {
	t.Helper()
	key = strings.TrimPrefix(key, "/")
	if _, err := a.KV().Put(&api.KVPair{Key: key, Value: []byte(value)}, nil); err != nil {
		t.Fatalf("put %s: %v", key, err)
	}
	t.Cleanup(func() { a.KV().Delete(key, nil) })
}

func (a *agent) delete(t *testing.T, key string) {
	t.Helper()
	if _, err := a.KV().Delete(strings.TrimPrefix(key, "/"), nil); err != nil {
		t.Fatalf("delete %s: %v", key, err)
	}
}

// own answers the instances of a service that the agent knows, by ID.
func (a *agent) own(t *testing.T, service string) map[string]*api.AgentService {
	t.Helper()
	all, err := a.Agent().ServicesWithFilterOpts(fmt.Sprintf("Service == %q", service), nil)
	if err != nil {
		t.Fatalf("services of the agent: %v", err)
	}
	return all
}
