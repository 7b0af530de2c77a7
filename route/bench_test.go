package route

import (
	"fmt"
	"slices"
	"testing"
)

// Shapes of tables: many hosts with one path each, or one host with many paths.
func manyHosts(n int) []Command {
	list := make([]Command, n)
	for i := range list {
		list[i] = Command{Verb: Add, Service: fmt.Sprintf("svc-%d", i), Src: fmt.Sprintf("www.host-%d.example.com/", i),
			Dst: fmt.Sprintf("http://10.0.%d.%d:8080/", i/256%256, i%256)}
	}
	return list
}

func manyPatterns(n int) []Command {
	list := manyHosts(n)
	for i := range list {
		list[i].Src = fmt.Sprintf("*.host-%d.example.com/", i)
	}
	return list
}

func manyPaths(n int) []Command {
	list := manyHosts(n)
	for i := range list {
		list[i].Src = fmt.Sprintf("/team-%d/service-%d/v1", i%100, i)
	}
	return list
}

var sizes = []int{10, 1_000, 100_000}

// BenchmarkLookup asks whether a look-up depends on the size of the table.
func BenchmarkLookup(b *testing.B) {
	for _, n := range sizes {
		mid := n / 2
		for _, bb := range []struct {
			name       string
			commands   []Command
			host, path string
		}{
			{"host", manyHosts(n), fmt.Sprintf("www.host-%d.example.com", mid), "/index.html"},
			{"host-upper", manyHosts(n), fmt.Sprintf("WWW.HOST-%d.example.com:80", mid), "/index.html"},
			{"pattern", manyPatterns(n), fmt.Sprintf("www.host-%d.example.com", mid), "/index.html"},
			{"path-exact", manyPaths(n), "www.example.com", fmt.Sprintf("/team-%d/service-%d/v1", mid%100, mid)},
			{"path-prefix", manyPaths(n), "www.example.com", fmt.Sprintf("/team-%d/service-%d/v1/some/thing.html", mid%100, mid)},
			{"miss", append(manyHosts(n), manyPaths(n)...), "www.example.com", "/nothing/here/at/all"},
		} {
			b.Run(fmt.Sprintf("%s/%d", bb.name, n), func(b *testing.B) {
				table := mustBuilder(b, Config{}).Build(Snapshot{Overrides: bb.commands}).Table
				if r := table.Lookup(bb.host, bb.path, false); (r == nil) != (bb.name == "miss") {
					b.Fatalf("Lookup = %v", r)
				}
				b.ReportAllocs()
				for b.Loop() {
					table.Lookup(bb.host, bb.path, false)
				}
			})
		}
	}
}

// BenchmarkPick asks what a strategy costs.
func BenchmarkPick(b *testing.B) {
	for _, strategy := range Strategies() {
		for _, n := range []int{2, 1000} {
			for name, text := range map[string]string{"equal": generate(n, "route add s / http://a:%d/"), "weighted": rampText(n)} {
				b.Run(fmt.Sprintf("%s/%s/%d", strategy.Name, name, n), func(b *testing.B) {
					r := mustTable(b, Config{Strategy: strategy.Name}, text).Lookup("", "/", false)
					b.ReportAllocs()
					for b.Loop() {
						r.Pick()
					}
				})
			}
		}
	}
}

// BenchmarkBuild asks what the first table costs, and what one flip of an instance after it.
func BenchmarkBuild(b *testing.B) {
	for _, n := range sizes[1:] {
		for _, bb := range []struct {
			name     string
			commands []Command
		}{{"hosts", manyHosts(n)}, {"patterns", manyPatterns(n)}, {"paths", manyPaths(n)}} {
			b.Run(fmt.Sprintf("first/%s/%d", bb.name, n), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					mustBuilder(b, Config{}).Build(Snapshot{Overrides: bb.commands})
				}
			})
			b.Run(fmt.Sprintf("flip/%s/%d", bb.name, n), func(b *testing.B) {
				var flips [2]Snapshot
				for i := range flips {
					commands := slices.Clone(bb.commands)
					commands[n/2].Down = i == 1
					flips[i] = Snapshot{Overrides: commands}
				}
				builder := mustBuilder(b, Config{})
				builder.Build(flips[1])
				b.ReportAllocs()
				for i := 0; b.Loop(); i++ {
					if out := builder.Build(flips[i%2]); out.Hosts != 1 {
						b.Fatalf("%d hosts compiled, want 1", out.Hosts)
					}
				}
			})
		}
	}
}
