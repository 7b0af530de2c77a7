package route

import (
	"fmt"
	"math"
	"strings"
	"testing"
)

func TestShares(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, in, want string }{
		{"one", `route add svc-a / http://aaa.com/`, `route add svc-a / http://aaa.com/ weight 1.0000`},
		{"three instances", `
			route add svc-a / http://aaa.com:1111/
			route add svc-a / http://aaa.com:2222/
			route add svc-a / http://aaa.com:3333/`, `
			route add svc-a / http://aaa.com:1111/ weight 0.3333
			route add svc-a / http://aaa.com:2222/ weight 0.3333
			route add svc-a / http://aaa.com:3333/ weight 0.3333`},
		{"options", `
			route add svc-a / http://aaa.com/ opts "strip=/foo"
			route add svc-b / http://bbb.com/ opts "strip=/bar"`, `
			route add svc-a / http://aaa.com/ weight 0.5000 opts "strip=/foo"
			route add svc-b / http://bbb.com/ weight 0.5000 opts "strip=/bar"`},
		{"two paths, the greater first", `
			route add svc-a /one http://aaa.com/
			route add svc-a /two http://aaa.com/
			route add svc-a /ab http://aaa.com/
			route add svc-a / http://aaa.com/`, `
			route add svc-a /two http://aaa.com/ weight 1.0000
			route add svc-a /one http://aaa.com/ weight 1.0000
			route add svc-a /ab http://aaa.com/ weight 1.0000
			route add svc-a / http://aaa.com/ weight 1.0000`},
		{"hosts descending, none last", `
			route add svc-a / http://aaa.com/
			route add svc-b b.com/ http://bbb.com/
			route add svc-c c.com/ http://ccc.com/`, `
			route add svc-c c.com/ http://ccc.com/ weight 1.0000
			route add svc-b b.com/ http://bbb.com/ weight 1.0000
			route add svc-a / http://aaa.com/ weight 1.0000`},
		{"del service, path and target", `
			route add svc-a / http://aaa.com/
			route add svc-b / http://bbb.com/
			route del svc-b / http://bbb.com/`, `
			route add svc-a / http://aaa.com/ weight 1.0000`},
		{"del compares whole URLs", `
			route add svc-a / http://aaa.com/
			route del svc-a / http://aaa.com`, `
			route add svc-a / http://aaa.com/ weight 1.0000`},
		{"del service and path", `
			route add svc-a / http://aaa.com/
			route add svc-a / http://aaa.com:2222/
			route add svc-b / http://bbb.com/
			route del svc-a /`, `
			route add svc-b / http://bbb.com/ weight 1.0000`},
		{"del service", `
			route add svc-a /a http://aaa.com/
			route add svc-a a.com/ http://aaa.com/
			route add svc-b / http://bbb.com/
			route del svc-a`, `
			route add svc-b / http://bbb.com/ weight 1.0000`},
		{"del service and tags", `
			route add svc-a /a http://aaa.com/ tags "a,b"
			route add svc-a / http://aaa.com/ tags "b,c"
			route add svc-b / http://bbb.com/ tags "c,d"
			route del svc-a tags "a,b"`, `
			route add svc-a / http://aaa.com/ weight 0.5000 tags "b,c"
			route add svc-b / http://bbb.com/ weight 0.5000 tags "c,d"`},
		{"del tags", `
			route add svc-a /a http://aaa.com/ tags "a,b"
			route add svc-a / http://aaa.com/ tags "b,c"
			route add svc-b / http://bbb.com/ tags "c,d"
			route del tags "b"`, `
			route add svc-b / http://bbb.com/ weight 1.0000 tags "c,d"`},
		{"del what is not there", `
			route add svc-a / http://aaa.com/
			route del svc-b
			route del svc-a /x
			route del svc-a b.com/
			route del tags "x"`, `
			route add svc-a / http://aaa.com/ weight 1.0000`},
		{"commands in order", `
			route del svc-a
			route add svc-a / http://aaa.com/
			route del svc-a /
			route add svc-a / http://bbb.com/`, `
			route add svc-a / http://bbb.com/ weight 1.0000`},
		{"upper case hosts", `
			route add svc-a Foo.COM/A http://aaa.com/
			route add svc-a foo.com/A http://bbb.com/
			route add svc-a FOO.com/a http://ccc.com/
			route weight svc-a FOO.com/A weight .5
			route del svc-a fOO.com/a`, `
			route add svc-a foo.com/A http://aaa.com/ weight 0.5000
			route add svc-a foo.com/A http://bbb.com/ weight 0.5000`},
		{"weight 0 is none", `route add svc / http://bar:111/ weight 0`, `route add svc / http://bar:111/ weight 1.0000`},
		{"all fixed, less than 1", `
			route add svc / http://bar:111/ weight 0.2
			route add svc / http://bar:222/ weight 0.3`, `
			route add svc / http://bar:111/ weight 0.4000
			route add svc / http://bar:222/ weight 0.6000`},
		{"all fixed, more than 1", `
			route add svc / http://bar:111/ weight 2
			route add svc / http://bar:222/ weight 3`, `
			route add svc / http://bar:111/ weight 0.4000
			route add svc / http://bar:222/ weight 0.6000`},
		{"the same twice", `
			route add svc / http://bar:111/
			route add svc / http://bar:111/
			route add svc / http://bar:222/`, `
			route add svc / http://bar:111/ weight 0.5000
			route add svc / http://bar:222/ weight 0.5000`},
		{"the same with other weight, tags or service", `
			route add svc / http://bar:111/
			route add svc / http://bar:111/ weight 0.5
			route add svc / http://bar:111/ tags "a"
			route add svc2 / http://bar:111/`, `
			route add svc / http://bar:111/ weight 0.1667
			route add svc / http://bar:111/ weight 0.5000
			route add svc / http://bar:111/ weight 0.1667 tags "a"
			route add svc2 / http://bar:111/ weight 0.1667`},
		{"fixed and dynamic", `
			route add svc / http://bar:111/
			route add svc / http://bar:222/
			route add svc / http://bar:333/ weight 0.5`, `
			route add svc / http://bar:111/ weight 0.2500
			route add svc / http://bar:222/ weight 0.2500
			route add svc / http://bar:333/ weight 0.5000`},
		{"fixed is 1: a stand-by", `
			route add svc / http://bar:111/
			route add svc / http://bar:222/ weight 0.2500
			route add svc / http://bar:333/ weight 0.7500`, `
			route add svc / http://bar:222/ weight 0.2500
			route add svc / http://bar:333/ weight 0.7500`},
		{"fixed is 1 up to rounding",
			"route add svc / http://standby/\n" + generate(10, `route add svc / http://bar:%d/ weight 0.1`),
			generate(10, `route add svc / http://bar:%d/ weight 0.1000`)},
		{"fixed more than 1", `
			route add svc / http://bar:111/
			route add svc / http://bar:222/ weight 1
			route add svc / http://bar:333/ weight 3`, `
			route add svc / http://bar:222/ weight 0.2500
			route add svc / http://bar:333/ weight 0.7500`},
		{"weight of a service", `
			route add svca / http://bar:111/
			route add svcb / http://bar:222/
			route add svcb / http://bar:333/
			route weight svcb / weight 0.1`, `
			route add svca / http://bar:111/ weight 0.9000
			route add svcb / http://bar:222/ weight 0.0500
			route add svcb / http://bar:333/ weight 0.0500`},
		{"weight of a service with tags", `
			route add svc / http://bar:111/ tags "a"
			route add svc / http://bar:222/ tags "b"
			route add svc / http://bar:333/ tags "b"
			route weight svc / weight 0.1 tags "b"`, `
			route add svc / http://bar:111/ weight 0.9000 tags "a"
			route add svc / http://bar:222/ weight 0.0500 tags "b"
			route add svc / http://bar:333/ weight 0.0500 tags "b"`},
		{"weight of tags", `
			route add svca / http://bar:111/ tags "a"
			route add svcb / http://bar:222/ tags "b"
			route add svcb / http://bar:333/ tags "b"
			route weight / weight 0.1 tags "b"`, `
			route add svca / http://bar:111/ weight 0.9000 tags "a"
			route add svcb / http://bar:222/ weight 0.0500 tags "b"
			route add svcb / http://bar:333/ weight 0.0500 tags "b"`},
		{"weight taken back", `
			route add svca / http://bar:111/ weight 0.9
			route add svcb / http://bar:222/
			route weight svca / weight 0`, `
			route add svca / http://bar:111/ weight 0.5000
			route add svcb / http://bar:222/ weight 0.5000`},
		{"weight within each of two matchers", `
			route add svc /a http://bar:111/
			route add svc /a http://bar:222/
			route add svc /a http://bar:333/ opts "match=exact"
			route add x   /a http://bar:444/ opts "match=exact"
			route weight svc /a weight 0.5`, `
			route add svc /a http://bar:333/ weight 0.5000 opts "match=exact"
			route add x /a http://bar:444/ weight 0.5000 opts "match=exact"
			route add svc /a http://bar:111/ weight 0.5000
			route add svc /a http://bar:222/ weight 0.5000`},
		{"weight that only its later lines share", `
			route add svc / http://bar:111/ tags "a"
			route add svc / http://bar:222/ tags "b"
			route add svc / http://bar:333/
			route weight svc / weight 0.6
			route weight svc / weight 0.1 tags "b"
			route del svc / http://bar:333/
			route add x / http://bar:444/`, `
			route add svc / http://bar:111/ weight 0.2000 tags "a"
			route add svc / http://bar:222/ weight 0.1000 tags "b"
			route add x / http://bar:444/ weight 0.7000`},
		{"huge", `
			route add svc / http://bar:111/ weight 1e308
			route add svc / http://bar:222/ weight 1e308
			route add svc / http://bar:333/ weight 1e307
			route add svc / http://bar:444/`, `
			route add svc / http://bar:111/ weight 0.4762
			route add svc / http://bar:222/ weight 0.4762
			route add svc / http://bar:333/ weight 0.0476`},
		{"many", generate(1234, `route add svc / http://bar:%d/`), generate(1234, `route add svc / http://bar:%d/ weight 0.0008`)},
		{"many and a fixed one", generate(1234, `route add svc / http://bar:%d/`) + `
			route add svc / http://static:12345/ tags "a"
			route weight svc / weight 0.2 tags "a"`,
			generate(1234, `route add svc / http://bar:%d/ weight 0.0006`) + `route add svc / http://static:12345/ weight 0.2000 tags "a"`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			table := mustTable(t, Config{}, tt.in)
			want := strings.ReplaceAll(strings.TrimSpace(tt.want), "\t", "")
			if got := sharesText(table); got != want {
				t.Errorf("shares of\n%s\n are\n%s\nwant\n%s", tt.in, got, want)
			}
			for r := range table.All() {
				sum := 0.0
				for _, x := range r.Targets {
					sum += x.Weight
				}
				if math.Abs(sum-1) > 1e-9 {
					t.Errorf("shares of %s%s add up to %v, want 1", r.Host, r.Path, sum)
				}
			}
		})
	}
}

// TestPickKeepsShares picks from routes as TestShares builds them and counts.
func TestPickKeepsShares(t *testing.T) {
	t.Parallel()
	tests := map[string]string{
		"one":    "route add s / http://a/",
		"three":  "route add s / http://a/\nroute add s / http://b/\nroute add s / http://c/",
		"fabio":  "route add s / http://a/\nroute add t / http://b/\nroute add t / http://c/\nroute weight t / weight 0.1",
		"uneven": "route add s / http://a/ weight .61\nroute add s / http://b/ weight .007\nroute add s / http://c/ weight .13\nroute add s / http://d/",
		"many":   generate(200, "route add s / http://a:%d/") + "route add s / http://x/ weight .2",
		"huge":   "route add s / http://a/ weight 1e308\nroute add s / http://b/ weight 1e308\nroute add s / http://c/ weight 1e307",
		"ramp":   rampText(100),
	}
	for name, text := range tests {
		for _, strategy := range Strategies() {
			t.Run(name+" "+strategy.Name, func(t *testing.T) {
				t.Parallel()
				r := mustTable(t, Config{Strategy: strategy.Name}, text).Lookup("", "/", false)
				const picks = 10_000
				count := make(map[*Target]int)
				for range picks {
					count[r.Pick()]++
				}
				for _, x := range r.Targets {
					if got := float64(count[x]) / picks; math.Abs(got-x.Weight) > 0.02 {
						t.Errorf("%s was picked %.4f of the times, want %.4f", x.Dst, got, x.Weight)
					}
				}
			})
		}
	}
}

// rampText returns commands for n targets with the weights 1 to n.
func rampText(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "route add s / http://a:%d/ weight %d\n", i, i+1)
	}
	return b.String()
}
