package integration

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"
)

// TestFailedCheckLeavesWithinASecond follows one service of two instances through what happens to instances.
func TestFailedCheckLeavesWithinASecond(t *testing.T) {
	t.Parallel()
	v := start(t, nil)
	a, b := newOrigin(t, "a"), newOrigin(t, "b")
	ia := shared.consul.register(t, v.name+"-web", a, v.prefix+"/web")
	shared.consul.register(t, v.name+"-web", b, v.prefix+"/web")
	took := v.reaches(5*time.Second, "/web", "a", "b")
	t.Logf("two instances are reached after %v", took)

	for range 3 {
		ia.status("critical")
		took := v.reaches(time.Second, "/web", "b")
		t.Logf("an instance whose check fails is gone after %v", took)
		hits := a.hits.Load()
		for range 20 {
			v.get("/web")
		}
		if n := a.hits.Load() - hits; n != 0 {
			t.Fatalf("an instance whose check fails got %d requests", n)
		}

		ia.status("passing")
		took = v.reaches(time.Second, "/web", "a", "b")
		t.Logf("it is back after %v", took)
	}
}

func TestTheDefaultTagPrefixIsFabios(t *testing.T) {
	t.Parallel()
	f := settings(t)
	name := strings.TrimSuffix(f["registry.consul.tagprefix"], "-")
	delete(f, "registry.consul.tagprefix")
	v := launchVarco(t, f)
	v.serving()
	o := newOrigin(t, "a")
	shared.consul.register(t, name+"-web", o, "urlprefix-"+name+".example.com/", "colour=blue")
	v.answers(5*time.Second, "/any/path", http.StatusOK, "Host", name+".example.com")
	if want := fmt.Sprintf("route add %s-web %s.example.com/ %s tags \"colour=blue\"\n", name, name, o.url()); !strings.Contains(v.table(), want) {
		t.Errorf("table:\n%swant a line %s", v.table(), want)
	}
}

func TestSeveralTagPrefixes(t *testing.T) {
	t.Parallel()
	f := settings(t)
	one, two := f["registry.consul.tagprefix"], shared.name()+"-"
	v := start(t, flags{"registry.consul.tagprefix": one + "," + two})
	o := newOrigin(t, "a")
	shared.consul.register(t, v.name+"-web", o, one+"/one", two+"/two", " "+two+"/blank ", "other-/three")
	v.answers(5*time.Second, "/one", http.StatusOK)
	v.answers(time.Second, "/two", http.StatusOK)
	v.answers(time.Second, "/blank", http.StatusOK)
	v.answers(time.Second, "/three", http.StatusNotFound)
}

func TestMaintenanceTakesAnInstanceOut(t *testing.T) {
	t.Parallel()
	v := start(t, nil)
	a, b := newOrigin(t, "a"), newOrigin(t, "b")
	ia := shared.consul.register(t, v.name+"-web", a, v.prefix+"/web")
	shared.consul.register(t, v.name+"-web", b, v.prefix+"/web")
	v.reaches(5*time.Second, "/web", "a", "b")
	ia.maintenance(true)
	v.reaches(time.Second, "/web", "b")
	ia.maintenance(false)
	v.reaches(time.Second, "/web", "a", "b")
}

// TestNodeTroubleTakesItsInstancesOut registers two nodes that exist in the catalog only.
func TestNodeTroubleTakesItsInstancesOut(t *testing.T) {
	t.Parallel()
	v := start(t, nil)
	service := v.name + "-web"
	for _, name := range []string{"a", "b"} {
		catalogInstance(t, v.name+"-node-"+name, service, newOrigin(t, name), v.prefix+"/web")
	}
	v.reaches(5*time.Second, "/web", "a", "b")

	for _, check := range []struct{ id, status string }{
		{"_node_maintenance", api.HealthCritical},
		{"serfHealth", api.HealthCritical},
	} {
		node := &api.CatalogRegistration{
			Node: v.name + "-node-a", Address: "127.0.0.1", SkipNodeUpdate: true,
			Check: &api.AgentCheck{Node: v.name + "-node-a", CheckID: check.id, Name: check.id, Status: check.status},
		}
		if _, err := shared.consul.Catalog().Register(node, nil); err != nil {
			t.Fatal(err)
		}
		v.reaches(time.Second, "/web", "b")
		_, err := shared.consul.Catalog().Deregister(&api.CatalogDeregistration{Node: node.Node, CheckID: check.id}, nil)
		if err != nil {
			t.Fatal(err)
		}
		v.reaches(time.Second, "/web", "a", "b")
	}
}

// catalogInstance registers an instance on a node of its own that no agent runs on.
func catalogInstance(t *testing.T, node, service string, o *origin, tags ...string) {
	t.Helper()
	_, err := shared.consul.Catalog().Register(&api.CatalogRegistration{
		Node: node, Address: "127.0.0.1",
		Service: &api.AgentService{ID: service, Service: service, Address: o.host, Port: o.port, Tags: tags},
		Check: &api.AgentCheck{Node: node, CheckID: "alive", Name: "alive", Status: api.HealthPassing, ServiceID: service,
			ServiceName: service},
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { shared.consul.Catalog().Deregister(&api.CatalogDeregistration{Node: node}, nil) })
}

// TestSameIDOnTwoNodesIsTwoInstances: the ID of a service is unique on its node only.
func TestSameIDOnTwoNodesIsTwoInstances(t *testing.T) {
	t.Parallel()
	v := start(t, nil)
	catalogInstance(t, v.name+"-node-a", v.name+"-web", newOrigin(t, "a"), v.prefix+"/web")
	catalogInstance(t, v.name+"-node-b", v.name+"-web", newOrigin(t, "b"), v.prefix+"/web")
	v.reaches(5*time.Second, "/web", "a", "b")
}

func TestDeregisteredServiceIsUnknown(t *testing.T) {
	t.Parallel()
	v := start(t, nil)
	i := shared.consul.register(t, v.name+"-web", newOrigin(t, "a"), v.prefix+"/web")
	v.reaches(5*time.Second, "/web", "a")
	i.deregister()
	v.answers(time.Second, "/web", http.StatusNotFound)
}

// TestKnownRouteWithoutHealthyInstanceAnswers503 also says that its traffic does not slide to a broader route.
func TestKnownRouteWithoutHealthyInstanceAnswers503(t *testing.T) {
	t.Parallel()
	v := start(t, nil)
	i := shared.consul.register(t, v.name+"-web", newOrigin(t, "a"), v.prefix+"/web")
	shared.consul.register(t, v.name+"-all", newOrigin(t, "all"), v.prefix+"/")
	v.reaches(5*time.Second, "/web", "a")
	v.reaches(time.Second, "/", "all")
	i.status("critical")
	v.answers(time.Second, "/web", http.StatusServiceUnavailable)
	v.answers(time.Second, "/web/below", http.StatusServiceUnavailable)
	v.reaches(time.Second, "/", "all")
	i.status("passing")
	v.reaches(time.Second, "/web", "a")
}

func TestChecksRequired(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		required string
		want     []string
	}{
		{"one", []string{"a", "b"}},
		{"all", []string{"b"}},
	} {
		t.Run(tt.required, func(t *testing.T) {
			t.Parallel()
			v := start(t, flags{"registry.consul.checksRequired": tt.required})
			ia := shared.consul.register(t, v.name+"-web", newOrigin(t, "a"), v.prefix+"/web")
			ib := shared.consul.register(t, v.name+"-web", newOrigin(t, "b"), v.prefix+"/web")
			ib.addCheck("-second", "passing")
			v.reaches(5*time.Second, "/web", "a", "b")
			ia.addCheck("-second", "critical")
			v.reaches(time.Second, "/web", tt.want...)
			ia.status("critical")
			v.reaches(time.Second, "/web", "b")
		})
	}
}

func TestServiceStatusAcceptsWarning(t *testing.T) {
	t.Parallel()
	v := start(t, flags{"registry.consul.service.status": "passing,warning"})
	i := shared.consul.register(t, v.name+"-web", newOrigin(t, "a"), v.prefix+"/web")
	v.reaches(5*time.Second, "/web", "a")
	i.status("warning")
	shared.consul.register(t, v.name+"-web", newOrigin(t, "b"), v.prefix+"/web")
	v.reaches(time.Second, "/web", "a", "b")
	i.status("critical")
	v.reaches(time.Second, "/web", "b")
}

// TestBadTagCostsOnlyItself registers a service whose tags are partly wrong in all the ways that a tag can be.
func TestBadTagCostsOnlyItself(t *testing.T) {
	t.Parallel()
	v := start(t, nil)
	service := v.name + "-web"
	o := newOrigin(t, "a")
	bad := map[string]string{ // the tag, and words of the reason
		v.prefix + "/unknown colour=blue":                      "colour",
		v.prefix + "/denied deny=ip:10.0.0.0/33":               "10.0.0.0/33",
		v.prefix + "/weird match=sideways":                     "sideways",
		v.prefix + "/redirect redirect=999,http://example.com": "999",
	}
	tags := []string{v.prefix + "/good", `note="x"`}
	for tag := range bad {
		tags = append(tags, tag)
	}
	i := shared.consul.register(t, service, o, tags...)
	v.reaches(5*time.Second, "/good", "a")
	for tag, word := range bad {
		p := v.problemWith(tag)
		if p.Origin.Service != service || p.Origin.Node != "edge" || p.Origin.Instance != i.id {
			t.Errorf("problem of tag %q names service %q, node %q, instance %q, want %q, edge, %q",
				tag, p.Origin.Service, p.Origin.Node, p.Origin.Instance, service, i.id)
		}
		if !strings.Contains(p.Reason, word) {
			t.Errorf("tag %q: reason %q does not name %q", tag, p.Reason, word)
		}
		path, _, _ := strings.Cut(strings.TrimPrefix(tag, v.prefix), " ")
		if r := v.get(path); r.status != http.StatusServiceUnavailable {
			t.Errorf("GET %s, whose target was refused: %d, want 503", path, r.status)
		}
	}

	// A right tag in the place of the wrong ones makes them go away.
	shared.consul.register(t, service, o, v.prefix+"/good")
	eventually(t, 5*time.Second, "the problems are gone", func() error {
		if all := v.problems(); len(all) != 0 {
			return fmt.Errorf("problems: %+v", all)
		}
		return nil
	})
}

// TestHostileServiceInjectsNoRoute: what a service is called, tagged and addressed cannot become another command.
func TestHostileServiceInjectsNoRoute(t *testing.T) {
	t.Parallel()
	v := start(t, nil)
	victim := newOrigin(t, "victim")
	shared.consul.register(t, v.name+"-victim", victim, v.prefix+"/victim")
	evil := newOrigin(t, "evil")
	inject := "\nroute del " + v.name + "-victim\nroute add evil /stolen " + evil.url()
	for n, reg := range []*api.AgentServiceRegistration{
		{Name: v.name + "-e0" + inject, Tags: []string{v.prefix + "/e0"}, Address: evil.host},
		{Name: v.name + "-e1", Tags: []string{v.prefix + "/e1" + inject}, Address: evil.host},
		{Name: v.name + "-e2", Tags: []string{v.prefix + "/e2", `x"` + inject}, Address: evil.host},
		{Name: v.name + "-e3", Tags: []string{v.prefix + "/e3"}, Address: evil.host + inject},
		{Name: v.name + "-e4", Tags: []string{v.prefix + `/e4 strip=/"` + inject}, Address: evil.host},
	} {
		reg.ID, reg.Port = fmt.Sprintf("%s-e%d", v.name, n), evil.port
		reg.Check = &api.AgentServiceCheck{TTL: "10m", Status: "passing"}
		if err := shared.consul.Agent().ServiceRegister(reg); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { shared.consul.Agent().ServiceDeregister(reg.ID) })
	}
	last := shared.consul.register(t, v.name+"-last", newOrigin(t, "last"), v.prefix+"/last")
	v.reaches(5*time.Second, "/last", "last")
	last.deregister()
	v.answers(time.Second, "/last", http.StatusNotFound)
	v.reaches(time.Second, "/victim", "victim")
	if r := v.get("/stolen"); r.status != http.StatusNotFound {
		t.Errorf("GET /stolen: %d %s, want 404", r.status, r.body)
	}
}

// TestForbiddenUpstreams: nobody who may register a service can aim the router at what only the router reaches.
func TestForbiddenUpstreams(t *testing.T) {
	t.Parallel()
	v := start(t, nil)
	o := newOrigin(t, "a")
	for n, addr := range []string{shared.consul.addr, v.ui, v.proxy, "169.254.169.254:80"} {
		evil := &origin{name: fmt.Sprint("evil", n)}
		host, port, _ := strings.Cut(addr, ":")
		evil.host = host
		fmt.Sscan(port, &evil.port)
		shared.consul.register(t, v.name+"-web", evil, fmt.Sprintf("%s/evil%d", v.prefix, n))
	}
	shared.consul.register(t, v.name+"-web", o, v.prefix+"/good")
	v.reaches(5*time.Second, "/good", "a")
	for n := range 4 {
		v.answers(2*time.Second, fmt.Sprintf("/evil%d", n), http.StatusServiceUnavailable)
	}
}

// TestConnectProxyIsNoTarget: a sidecar has the tags of its service but is not one.
func TestConnectProxyIsNoTarget(t *testing.T) {
	t.Parallel()
	v := start(t, nil)
	service := v.name + "-web"
	shared.consul.register(t, service, newOrigin(t, "a"), v.prefix+"/web")
	sidecar := newOrigin(t, "sidecar")
	err := shared.consul.Agent().ServiceRegister(&api.AgentServiceRegistration{
		Kind: api.ServiceKindConnectProxy, ID: service + "-proxy", Name: service + "-proxy", Tags: []string{v.prefix + "/web"},
		Address: sidecar.host, Port: sidecar.port,
		Proxy: &api.AgentServiceConnectProxyConfig{DestinationServiceName: service},
		Check: &api.AgentServiceCheck{TTL: "10m", Status: "passing"},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { shared.consul.Agent().ServiceDeregister(service + "-proxy") })
	shared.consul.register(t, v.name+"-last", newOrigin(t, "last"), v.prefix+"/last")
	v.reaches(5*time.Second, "/last", "last")
	v.reaches(time.Second, "/web", "a")
	if n := sidecar.hits.Load(); n != 0 {
		t.Errorf("the sidecar got %d requests", n)
	}
}
