package integration

import (
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestRouteSeries: the series of a route appear with its traffic and vanish with its target.
func TestRouteSeries(t *testing.T) {
	t.Parallel()
	v := start(t, nil)
	o := newOrigin(t, "a")
	service := v.name + "-web"
	i := shared.consul.register(t, service, o, v.prefix+"www.example.com/web")
	v.answers(5*time.Second, "/web", http.StatusOK, "Host", "www.example.com")
	for range 9 {
		v.get("/web", "Host", "www.example.com")
	}
	labels := fmt.Sprintf(`host="www.example.com",path="/web",service="%s",target="%s"`, service, o.url())
	eventually(t, 5*time.Second, "ten requests are counted", func() error {
		n, err := v.metric("route_count{" + labels + "}")
		if err == nil && n != 10 {
			err = fmt.Errorf("route_count = %v", n)
		}
		return err
	})
	if n, err := v.metric(fmt.Sprintf(`http_status_count{code="200",service="%s"}`, service)); err != nil || n != 10 {
		t.Errorf("http_status_count = %v, %v", n, err)
	}
	if text := v.api("/metrics"); !strings.Contains(text, "go_goroutines") || !strings.Contains(text, "process_cpu_seconds_total") {
		t.Error("no series about the process")
	}
	i.deregister()
	eventually(t, 5*time.Second, "the series of the route are gone", func() error {
		if text := v.api("/metrics"); strings.Contains(text, labels) {
			return fmt.Errorf("still there")
		}
		return nil
	})
}

// TestClientsMakeNoSeries: whatever a client sends, the number of series stays.
func TestClientsMakeNoSeries(t *testing.T) {
	t.Parallel()
	v := start(t, nil)
	shared.consul.register(t, v.name+"-web", newOrigin(t, "a"), v.prefix+"/web")
	v.reaches(5*time.Second, "/web", "a")
	visit := func(n int) {
		v.get(fmt.Sprintf("/web/%d", n), "Host", fmt.Sprintf("h%d.example.com", n), "User-Agent", fmt.Sprint("agent", n))
		v.get(fmt.Sprintf("/none/%d", n))
		v.send(v.proxy, fmt.Sprintf("METHOD%d", n), "/web", "")
	}
	visit(0)
	before := series(v.api("/metrics"))
	for n := range 50 {
		visit(n + 1)
	}
	after := series(v.api("/metrics"))
	for name := range before {
		delete(after, name)
	}
	if len(after) > 0 {
		t.Errorf("new series: %v", slices.Sorted(maps.Keys(after)))
	}
}

// TestMaxSeriesFoldsTheRest: 300 routes, room for 20: the sum stays exact.
func TestMaxSeriesFoldsTheRest(t *testing.T) {
	t.Parallel()
	o := newOrigin(t, "a")
	var routes strings.Builder
	for n := range 300 {
		fmt.Fprintf(&routes, "route add s%d /r%d/ %s\n", n, n, o.url())
	}
	v := start(t, flags{"registry.backend": "file", "registry.file.path": write(t, "routes", routes.String()), "metrics.max-series": "20"})
	want := 0
	for n := range 300 {
		for range 1 + n%2 {
			if r := v.get(fmt.Sprintf("/r%d/", n)); r.status != http.StatusOK {
				t.Fatalf("GET /r%d/: %d", n, r.status)
			}
			want++
		}
	}
	counted := regexp.MustCompile(`(?m)^(?:[a-z0-9_]+_)?route_count\{.*\} (\d+)$`)
	eventually(t, 5*time.Second, "the series add up", func() error {
		text := v.api("/metrics")
		all := counted.FindAllStringSubmatch(text, -1)
		got := 0
		for _, m := range all {
			var n int
			fmt.Sscan(m[1], &n)
			got += n
		}
		switch {
		case len(all) > 21 || len(all) < 2:
			return fmt.Errorf("%d series", len(all))
		case !strings.Contains(text, "_other"):
			return fmt.Errorf("no series _other")
		case got != want:
			return fmt.Errorf("the sum is %d, want %d", got, want)
		}
		return nil
	})
}

// series answers the names and labels in a metrics text.
func series(text string) map[string]bool {
	all := map[string]bool{}
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		if cut := strings.LastIndexByte(line, ' '); cut > 0 {
			all[line[:cut]] = true
		}
	}
	return all
}
