package integration

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"
)

// startRegistered runs a varco that registers itself, and answers the name it does so under.
func startRegistered(t *testing.T, other flags) (v *varco, name string) {
	t.Helper()
	f := settings(t).with(flags{
		"registry.consul.register.enabled": "true",
		"registry.consul.register.tags":    "edge,blue",
	}).with(other)
	f["registry.consul.register.addr"] = f["ui.addr"]
	v = launchVarco(t, f)
	v.serving()
	return v, f["registry.consul.register.name"]
}

// registered waits until the agent has (or no longer has) an instance of the name with all its checks passing.
func registered(t *testing.T, name string, want int) *api.AgentService {
	t.Helper()
	var found *api.AgentService
	eventually(t, 20*time.Second, fmt.Sprintf("%d instances of %s are registered and pass", want, name), func() error {
		all := shared.consul.own(t, name)
		if len(all) != want {
			return fmt.Errorf("%d are registered", len(all))
		}
		checks, _, err := shared.consul.Health().Checks(name, nil)
		if err != nil {
			return err
		}
		if s := checks.AggregatedStatus(); want > 0 && s != api.HealthPassing {
			return fmt.Errorf("it is %s: %v", s, describe(checks))
		}
		for _, s := range all {
			found = s
		}
		return nil
	})
	return found
}

func describe(checks api.HealthChecks) (all []string) {
	for _, c := range checks {
		all = append(all, fmt.Sprintf("%s %s %q", c.CheckID, c.Status, c.Output))
	}
	return all
}

func TestSelfRegistration(t *testing.T) {
	t.Parallel()
	v, name := startRegistered(t, nil)
	s := registered(t, name, 1)
	if addr := fmt.Sprintf("%s:%d", s.Address, s.Port); addr != v.ui {
		t.Errorf("registered address %s, want that of the admin listener %s", addr, v.ui)
	}
	if want := []string{"blue", "edge"}; !slices.Equal(slices.Sorted(slices.Values(s.Tags)), want) {
		t.Errorf("registered tags %v, want %v", s.Tags, want)
	}
	if !strings.HasPrefix(s.ID, name+"-") {
		t.Errorf("registered ID %s, want it to begin with %s-", s.ID, name)
	}
	checks, _, err := shared.consul.Health().Checks(name, nil)
	if err != nil {
		t.Fatal(err)
	}
	kinds := map[string]int{}
	for _, c := range checks {
		kinds[c.Type]++
	}
	if want := map[string]int{"ttl": 1, "http": 1}; !maps.Equal(kinds, want) {
		t.Errorf("registered checks %v, want %v", kinds, want)
	}

	// Somebody, or an agent that lost its data, takes the entry away: it comes back.
	if err := shared.consul.Agent().ServiceDeregister(s.ID); err != nil {
		t.Fatal(err)
	}
	registered(t, name, 0)
	registered(t, name, 1)

	v.signal(syscall.SIGTERM)
	registered(t, name, 0)
	if code := v.exit(t, 10*time.Second); code != 0 {
		t.Errorf("exit code %d, want 0", code)
	}
}

func TestRegisterAlias(t *testing.T) {
	t.Parallel()
	v, name := startRegistered(t, nil)
	alias := v.name + "-alias"
	o := newOrigin(t, "a")
	shared.consul.register(t, v.name+"-web", o, v.prefix+"/web register="+alias)
	v.reaches(5*time.Second, "/web", "a")
	s := registered(t, alias, 1)
	if addr := fmt.Sprintf("%s:%d", s.Address, s.Port); addr != v.ui {
		t.Errorf("alias at %s, want %s", addr, v.ui)
	}

	// A bad line in the overrides does not take the alias away.
	shared.consul.put(t, v.kvpath, "route ad nonsense")
	v.problemWith("nonsense")
	registered(t, alias, 1)

	// The alias goes with its option.
	shared.consul.register(t, v.name+"-web", o, v.prefix+"/web")
	registered(t, alias, 0)
	registered(t, name, 1)

	// And with varco.
	shared.consul.register(t, v.name+"-web", o, v.prefix+"/web register="+alias)
	registered(t, alias, 1)
	v.signal(syscall.SIGTERM)
	registered(t, alias, 0)
	registered(t, name, 0)
	if code := v.exit(t, 10*time.Second); code != 0 {
		t.Errorf("exit code %d, want 0", code)
	}
}
