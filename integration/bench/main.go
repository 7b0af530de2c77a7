// Command bench measures what a proxied request costs: varco and its peers (nginx, HAProxy, Caddy, a raw TCP relay)
// take turns, round by round, in front of the same upstream and under the same load, and the CPU time of each one's
// processes is read from /proc over the measured window. The machine is shared and noisy, so what counts are medians
// over the rounds and ratios within one run.
//
//	go run ./integration/bench -varco ./varco [-case small,routes10k] [-peers varco,nginx] [-seconds 5] [-rounds 3]
//
// Each case prints a table; -json FILE adds one JSON object a line for each peer and case. Everything stays on
// loopback, stops by itself, and needs wrk and the peers' Debian packages (integration/bench/install.sh).
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// result is one measured window.
type result struct {
	Case   string  `json:"case"`
	Proxy  string  `json:"proxy"`
	CPU    float64 `json:"cpu_us_per_req"`
	RPS    float64 `json:"rps"`
	P50    float64 `json:"p50_ms"`
	P99    float64 `json:"p99_ms"`
	RSS    float64 `json:"rss_mib"`
	Errors int     `json:"errors"`
	// KiB is the memory of one idle connection; only in case idle.
	KiB float64 `json:"kib_per_conn,omitempty"`
}

type options struct {
	varco   string
	seconds int
	rounds  int
	dir     string
}

func main() {
	if len(os.Args) == 4 && os.Args[1] == "relay" {
		fmt.Fprintln(os.Stderr, "bench: relay:", relay(os.Args[2], os.Args[3]))
		os.Exit(1)
	}
	var o options
	var names, peers, out string
	flag.StringVar(&o.varco, "varco", "./varco", "the `binary` to measure")
	flag.StringVar(&names, "case", "", "comma list of cases (all: "+strings.Join(caseNames(), ", ")+")")
	flag.StringVar(&peers, "peers", "varco,varco-std,nginx,haproxy,caddy,relay", "comma list of proxies that take turns")
	flag.IntVar(&o.seconds, "seconds", 5, "length of one measured window")
	flag.IntVar(&o.rounds, "rounds", 3, "windows for each proxy and case")
	flag.StringVar(&out, "json", "", "`file` for the results as JSON lines")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, o, split(names), split(peers), out); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func split(s string) []string {
	if s == "" {
		return nil
	}
	return strings.Split(s, ",")
}

func run(ctx context.Context, o options, names, peers []string, out string) error {
	var err error
	if o.dir, err = os.MkdirTemp("", "varco-bench"); err != nil {
		return err
	}
	defer os.RemoveAll(o.dir)
	if o.varco, err = filepath.Abs(o.varco); err != nil {
		return err
	}
	up, err := startUpstream()
	if err != nil {
		return err
	}
	defer up.close()
	for _, n := range names {
		if !slices.Contains(caseNames(), n) {
			return fmt.Errorf("unknown case %q: want one of %s", n, strings.Join(caseNames(), ", "))
		}
	}
	var all []result
	for _, c := range cases {
		if len(names) > 0 && !slices.Contains(names, c.name) {
			continue
		}
		rs, err := measure(ctx, o, c, peers, up.addr)
		if err != nil {
			return fmt.Errorf("case %s: %w", c.name, err)
		}
		printTable(c, rs)
		all = append(all, rs...)
	}
	if out == "" {
		return nil
	}
	f, err := os.Create(out)
	if err != nil {
		return err
	}
	defer f.Close()
	enc := json.NewEncoder(f)
	for _, r := range all {
		if err := enc.Encode(r); err != nil {
			return err
		}
	}
	return f.Close()
}

// measure lets the peers take turns and answers the median of each one's rounds.
func measure(ctx context.Context, o options, c benchCase, peers []string, upstream string) ([]result, error) {
	var running []*proxy
	defer func() {
		for _, p := range running {
			p.stop()
		}
	}()
	for _, name := range peers {
		start, ok := starters[name]
		if !ok {
			return nil, fmt.Errorf("unknown proxy %q", name)
		}
		p, err := start(o, c, upstream)
		if err != nil {
			return nil, fmt.Errorf("starting %s: %w", name, err)
		}
		if p == nil {
			continue // does not have what the case needs
		}
		p.name = name
		running = append(running, p)
		if err := p.ready(ctx); err != nil {
			return nil, fmt.Errorf("starting %s: %w", name, err)
		}
	}
	rounds := map[string][]result{}
	for round := range o.rounds {
		for i := range running {
			p := running[(i+round)%len(running)] // another one goes first each round
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			r, err := c.run(ctx, o, p)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", p.name, err)
			}
			r.Case, r.Proxy = c.name, p.name
			rounds[p.name] = append(rounds[p.name], r)
		}
	}
	var out []result
	for _, p := range running {
		out = append(out, medianResult(rounds[p.name]))
	}
	return out, nil
}

// medianResult takes each figure's median on its own, and the sum of the errors.
func medianResult(rs []result) result {
	m := rs[0]
	pick := func(f func(result) float64) float64 {
		v := make([]float64, len(rs))
		for i, r := range rs {
			v[i] = f(r)
		}
		slices.Sort(v)
		return v[len(v)/2]
	}
	m.CPU = pick(func(r result) float64 { return r.CPU })
	m.RPS = pick(func(r result) float64 { return r.RPS })
	m.P50 = pick(func(r result) float64 { return r.P50 })
	m.P99 = pick(func(r result) float64 { return r.P99 })
	m.RSS = pick(func(r result) float64 { return r.RSS })
	m.KiB = pick(func(r result) float64 { return r.KiB })
	m.Errors = 0
	for _, r := range rs {
		m.Errors += r.Errors
	}
	return m
}

func printTable(c benchCase, rs []result) {
	var varco float64
	for _, r := range rs {
		if r.Proxy == "varco" {
			varco = r.CPU
		}
	}
	fmt.Printf("\n%s: %s\n", c.name, c.help)
	fmt.Printf("%-10s %12s %10s %9s %9s %9s %8s %14s\n", "proxy", "CPU µs/req", "req/s", "p50 ms", "p99 ms", "RSS MiB", "errors", "varco's CPU is")
	for _, r := range rs {
		ratio := ""
		if varco > 0 && r.CPU > 0 && r.Proxy != "varco" {
			ratio = fmt.Sprintf("%.2f x", varco/r.CPU)
		}
		fmt.Printf("%-10s %12.1f %10.0f %9.2f %9.2f %9.1f %8d %14s", r.Proxy, r.CPU, r.RPS, r.P50, r.P99, r.RSS, r.Errors, ratio)
		if r.KiB != 0 {
			fmt.Printf("  %.1f KiB per idle connection", r.KiB)
		}
		fmt.Println()
	}
}

// warmUp is how long a proxy is loaded before what is measured.
func warmUp(o options) time.Duration { return time.Duration(min(o.seconds, 1)) * time.Second }
