package route

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
)

// targetsOf returns targets with the shares that the weights give; 0 is dynamic.
func targetsOf(weights ...float64) []*Target {
	var list []*Target
	for i, w := range weights {
		list = append(list, &Target{Dst: string(rune('a' + i)), FixedWeight: w})
	}
	weigh(list)
	return list
}

// picked returns the destinations of the next n picks of r.
func picked(r *Route, n int) string {
	var b strings.Builder
	for range n {
		b.WriteString(r.Pick().Dst)
	}
	return b.String()
}

func TestRoundRobinOrder(t *testing.T) {
	t.Parallel()
	tests := []struct {
		weights []float64
		want    string
	}{
		{[]float64{0}, "aaaa"},
		{[]float64{0, 0}, "abababab"},
		{[]float64{0, 0, 0}, "abcabcabc"},
		{[]float64{.5, 0, 0}, "abacabac"},
		{[]float64{0, 0, .5}, "acbcacbc"},
		{[]float64{.1, 0}, "bbbbbbbbbabbbbbbbbba"},
		{[]float64{1, 2, 3}, "cbcbcacbcbca"},
	}
	for _, tt := range tests {
		live := targetsOf(tt.weights...)
		r := &Route{Targets: live, live: live, picker: newRoundRobin(live, nil)}
		if got := picked(r, len(tt.want)); got != tt.want {
			t.Errorf("picks with weights %v = %s, want %s", tt.weights, got, tt.want)
		}
	}
}

// TestRoundRobinEven checks what pick_rr.go promises: a target never strays by more than four picks.
func TestRoundRobinEven(t *testing.T) {
	t.Parallel()
	worst := 0.0
	for seed := range uint64(60) {
		d := rand.New(rand.NewPCG(seed, 3))
		weights := make([]float64, 2+d.IntN(40))
		for i := range weights {
			switch seed % 4 {
			case 0:
				weights[i] = d.Float64()
			case 1:
				weights[i] = math.Pow(1.62, -float64(i))
			case 2:
				weights[i] = float64(1 + d.IntN(4))
			case 3:
				weights[i] = math.Exp(10 * d.NormFloat64())
			}
		}
		live := targetsOf(weights...)
		p := newRoundRobin(live, nil).(*roundRobin)
		count := make([]float64, len(live))
		for n := range 5000 {
			count[p.next()]++
			for i, x := range live {
				off := math.Abs(count[i] - x.Weight*float64(n+1))
				if worst = max(worst, off); off > 4 {
					t.Fatalf("seed %d: after %d picks target %d has %v, want %.2f", seed, n+1, i, count[i], x.Weight*float64(n+1))
				}
			}
		}
	}
	t.Logf("the worst target strayed by %.2f picks", worst)
}

func TestRandomIsExact(t *testing.T) {
	t.Parallel()
	for seed := range uint64(30) {
		d := rand.New(rand.NewPCG(seed, 4))
		weights := make([]float64, 1+d.IntN(30))
		for i := range weights {
			weights[i] = d.ExpFloat64()
		}
		live := targetsOf(weights...)
		p := newRandom(live, nil).(*random)
		share := make([]float64, len(live))
		for i := range live {
			own := 1.0
			if p.owns != nil {
				own = float64(p.owns[i]) / (1 << 63) / 2
				share[p.other[i]] += (1 - own) / float64(len(live))
			}
			share[i] += own / float64(len(live))
		}
		for i, x := range live {
			if math.Abs(share[i]-x.Weight) > 1e-9 {
				t.Errorf("seed %d: target %d has share %v, want %v", seed, i, share[i], x.Weight)
			}
		}
		for range 1000 {
			if i := p.at(d.Uint64()); i < 0 || i >= len(live) {
				t.Fatalf("at = %d of %d", i, len(live))
			}
		}
		if got := p.at(math.MaxUint64); got < 0 || got >= len(live) {
			t.Errorf("at(max) = %d of %d", got, len(live))
		}
	}
}

// TestRoundRobinKeepsItsPlace changes the targets and looks who comes next.
func TestRoundRobinKeepsItsPlace(t *testing.T) {
	t.Parallel()
	b := mustBuilder(t, Config{})
	table := func(targets string) *Route {
		var commands []Command
		for _, x := range targets {
			commands = append(commands, Command{Verb: Add, Service: "s", Src: "/", Dst: fmt.Sprintf("http://%c/", x),
				Opts: Options{{"strategy", "rr"}}})
		}
		if targets == "" {
			commands = append(commands, Command{Verb: Add, Service: "s", Src: "/", Down: true})
		}
		return b.Build(Snapshot{Overrides: commands}).Table.Lookup("", "/", false)
	}
	step := func(targets string, picks string) {
		t.Helper()
		r := table(targets)
		got := ""
		for range picks {
			got += r.Pick().URL.Host
		}
		if got != picks {
			t.Errorf("with targets %s: picks %s, want %s", targets, got, picks)
		}
	}
	step("abcd", "ab")
	step("abcde", "c")     // one came
	step("abce", "e")      // the next one left: its successor
	step("xabce", "a")     // one came before the next
	step("xabce", "bcexa") // the same again
	step("bca", "bcab")    // another order; x and e left
	step("", "")           // all down
	step("bca", "cabc")    // and back
	step("ca", "ac")       // the next one left
	step("yz", "zy")       // all others
	step("y", "yyy")
	step("yz", "yzyz")
}

func TestRoundRobinKeepsCountWithWeights(t *testing.T) {
	t.Parallel()
	b := mustBuilder(t, Config{Strategy: "rr"})
	text := "route add s / http://a/ weight .25\nroute add s / http://b/ weight .75\n"
	r := b.Build(Snapshot{Overrides: mustParse(t, text)}).Table.Lookup("", "/", false)
	for range 3 {
		r.Pick()
	}
	r = b.Build(Snapshot{Overrides: mustParse(t, text+"route add s / http://c/ weight .25")}).Table.Lookup("", "/", false)
	if got := r.picker.(*roundRobin).picks.Load(); got != 3 {
		t.Errorf("after the change the counter is %d, want 3", got)
	}
}

func TestPickOther(t *testing.T) {
	t.Parallel()
	for _, strategy := range Strategies() {
		r := mustTable(t, Config{Strategy: strategy.Name}, `
route add s / http://a/ weight .5
route add s / http://b/ weight .3
route add s / http://b/ weight .2
route add s / http://c/`).Lookup("", "/", false)
		if len(r.live) != 3 || len(r.Targets) != 4 {
			t.Fatalf("live, Targets = %d, %d, want 3, 4", len(r.live), len(r.Targets))
		}
		for range 100 {
			first := r.Pick()
			second := r.PickOther(first)
			if second == nil || second.Dst == first.Dst || second.Weight == 0 {
				t.Fatalf("%s: PickOther(%v) = %v", strategy.Name, first, second)
			}
			if third := r.PickOther(first, second); third != nil {
				t.Fatalf("%s: PickOther of all = %v, want nil", strategy.Name, third)
			}
			if r.PickOther(nil) == nil {
				t.Fatalf("%s: PickOther(nil) = nil", strategy.Name)
			}
		}
	}
	down := &Route{}
	if got := down.Pick(); got != nil {
		t.Errorf("Pick of no targets = %v, want nil", got)
	}
	if got := down.PickOther(); got != nil {
		t.Errorf("PickOther of no targets = %v, want nil", got)
	}
}

func TestPickIsConcurrent(t *testing.T) {
	t.Parallel()
	for _, strategy := range Strategies() {
		r := mustTable(t, Config{Strategy: strategy.Name}, generate(7, "route add s / http://a:%d/")+"route add s / http://x/ weight .3").Lookup("", "/", false)
		counts := make([]map[*Target]int, 8)
		var wg sync.WaitGroup
		for i := range counts {
			counts[i] = make(map[*Target]int)
			wg.Go(func() {
				for range 1000 {
					counts[i][r.Pick()]++
				}
			})
		}
		wg.Wait()
		for _, x := range r.Targets {
			n := 0
			for _, c := range counts {
				n += c[x]
			}
			if got := float64(n) / 8000; math.Abs(got-x.Weight) > 0.03 {
				t.Errorf("%s: %s was picked %.4f of the times, want %.4f", strategy.Name, x.Dst, got, x.Weight)
			}
		}
	}
}

func TestPickAllocatesNothing(t *testing.T) {
	for _, strategy := range Strategies() {
		r := mustTable(t, Config{Strategy: strategy.Name}, rampText(50)).Lookup("", "/", false)
		first := r.Pick()
		if n := testing.AllocsPerRun(100, func() {
			if r.PickOther(first, r.Pick()) == nil {
				t.Error("PickOther = nil")
			}
		}); n != 0 {
			t.Errorf("%s: %v allocations, want 0", strategy.Name, n)
		}
	}
}

func TestStrategies(t *testing.T) {
	t.Parallel()
	var names []string
	for _, s := range append(Strategies(), Matchers()...) {
		if s.Help == "" {
			t.Errorf("%s has no help", s.Name)
		}
		names = append(names, s.Name)
	}
	if want := []string{"rnd", "rr", "exact", "segment", "prefix", "iprefix", "glob"}; !slices.Equal(names, want) {
		t.Errorf("Strategies and Matchers = %v, want %v", names, want)
	}
	r := mustTable(t, Config{}, "route add a / http://a/\nroute add a / http://b/ opts \"strategy=rr\"").Lookup("", "/", false)
	if r.Strategy != "rr" {
		t.Errorf("Strategy = %s, want rr", r.Strategy)
	}
}
