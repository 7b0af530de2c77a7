package main

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"runtime"
	"strings"
	"testing"

	"varco/proxy"
	"varco/route"
)

func TestLogLevels(t *testing.T) {
	for _, tt := range []struct {
		flag string
		want []string // of the levels logged below
	}{
		{"TRACE", []string{"TRACE", "DEBUG", "INFO", "WARN", "ERROR", "FATAL"}},
		{"info", []string{"INFO", "WARN", "ERROR", "FATAL"}},
		{"FATAL", []string{"FATAL"}},
	} {
		level, ok := levelOf(tt.flag)
		if !ok {
			t.Fatalf("levelOf(%q) is unknown", tt.flag)
		}
		var out bytes.Buffer
		log := newLogger(&out, level)
		for _, l := range logLevels {
			log.Log(context.Background(), l.level, "x")
		}
		var got []string
		for line := range strings.Lines(out.String()) {
			_, rest, _ := strings.Cut(line, "level=")
			name, _, _ := strings.Cut(rest, " ")
			got = append(got, name)
		}
		if strings.Join(got, " ") != strings.Join(tt.want, " ") {
			t.Errorf("log.level=%s logs %q, want %q", tt.flag, got, tt.want)
		}
	}
	if _, ok := levelOf("LOUD"); ok {
		t.Error("levelOf(LOUD) is known")
	}
}

func TestProfiles(t *testing.T) {
	for _, mode := range profileNames() {
		dir := t.TempDir()
		path, stop, err := startProfile(mode, dir)
		if err != nil {
			t.Fatalf("%s: %v", mode, err)
		}
		if err := stop(); err != nil {
			t.Errorf("%s: %v", mode, err)
		}
		if info, err := os.Stat(path); err != nil || info.Size() == 0 && mode != "cpu" {
			t.Errorf("%s: %v, size %d; want a profile", mode, err, info.Size())
		}
	}
	if path, stop, err := startProfile("", t.TempDir()); path != "" || err != nil || stop() != nil {
		t.Errorf("no mode: %q, %v; want nothing", path, err)
	}
	if _, _, err := startProfile("mem", "/nowhere"); err == nil || !strings.Contains(err.Error(), "profile.path") {
		t.Errorf("missing folder: error %v, want one that names profile.path", err)
	}
}

// testUpdates are the results of three updates: first one route, then another one, then many.
func testUpdates(t *testing.T) []proxy.UpdateResult {
	t.Helper()
	builder, err := route.NewBuilder(route.Config{})
	if err != nil {
		t.Fatal(err)
	}
	var all []proxy.UpdateResult
	last := builder.Build(route.Snapshot{}).Table
	var many string
	for i := range 150 {
		many += "route add m /m" + strings.Repeat("x", i) + " http://h:1/\n"
	}
	for _, text := range []string{
		"route add a /a http://h:1/\nroute nonsense\n", "route add b /b http://h:1/\nroute nonsense\n", many,
	} {
		commands, problems := route.Parse(text, "test")
		build := builder.Build(route.Snapshot{Overrides: commands, Problems: problems})
		added, removed := route.Diff(last, build.Table)
		all = append(all, proxy.UpdateResult{Table: build.Table, Problems: build.Problems, Added: added, Removed: removed})
		last = build.Table
	}
	return all
}

func logUpdates(t *testing.T, format string) string {
	t.Helper()
	var out bytes.Buffer
	l := tableLog{log: slog.New(slog.NewTextHandler(&out, nil)), format: format}
	for _, r := range testUpdates(t) {
		l.changed(r)
	}
	return out.String()
}

func TestTableLogDelta(t *testing.T) {
	log := logUpdates(t, "delta")
	for want, times := range map[string]int{
		`msg="table updated"`: 3,
		`msg="route added" line="route add a /a http://h:1/"`:   1,
		`msg="route removed" line="route add a /a http://h:1/"`: 1,
		`msg="route added" line="route add b /b http://h:1/"`:   1,
		`msg=refused where=test:2:7`:                            1, // it stays from the first update to the second
		`nothing is refused any more`:                           1,
		`more not shown`:                                        1,
	} {
		if got := strings.Count(log, want); got != times {
			t.Errorf("%q is logged %d times, want %d:\n%s", want, got, times, log)
		}
	}
	if n := strings.Count(log, "\n"); n > mostLines+20 {
		t.Errorf("%d lines, want about %d", n, mostLines)
	}
}

// Nobody who writes an override or a tag fills the disk with one line.
func TestTableLogLongTexts(t *testing.T) {
	builder, err := route.NewBuilder(route.Config{})
	if err != nil {
		t.Fatal(err)
	}
	long := strings.Repeat("a", 500_000)
	commands, problems := route.Parse("route add a /a http://h:1/ tags \""+long+"\"\nroute add b /b http://h:1/ opts \""+long+"\n", "test")
	if len(commands) != 1 || len(problems) != 1 {
		t.Fatalf("%d commands and %d problems, want one of each", len(commands), len(problems))
	}
	empty := builder.Build(route.Snapshot{}).Table
	build := builder.Build(route.Snapshot{Overrides: commands, Problems: problems})
	added, _ := route.Diff(empty, build.Table)
	var out bytes.Buffer
	l := tableLog{log: slog.New(slog.NewTextHandler(&out, nil)), format: "delta"}
	l.changed(proxy.UpdateResult{Table: build.Table, Problems: build.Problems, Added: added})
	for line := range strings.Lines(out.String()) {
		if len(line) > 2*mostText {
			t.Errorf("a line of %d bytes is logged: %.60s…", len(line), line)
		}
	}
	if n := strings.Count(out.String(), "\n"); n != 3 {
		t.Errorf("%d lines, want 3", n)
	}
}

func TestTableLogAllAndDetail(t *testing.T) {
	if log := logUpdates(t, "all"); strings.Count(log, `line="route add m /m`) < 150 {
		t.Error("format all does not log every route")
	}
	if log := logUpdates(t, "detail"); !strings.Contains(log, "+-- host=") {
		t.Errorf("format detail does not log the tree:\n%.300s", log)
	}
}

func TestProcessSettingsAreChecked(t *testing.T) {
	for arg, want := range map[string]string{
		"-log.level=LOUD":        `log.level: "LOUD": want TRACE, DEBUG, INFO, WARN, ERROR or FATAL`,
		"-log.routes.format=x":   `log.routes.format: "x": want delta, detail, all`,
		"-proxy.log.routes=x":    `proxy.log.routes: "x": want delta, detail, all`,
		"-runtime.gomaxprocs=0":  `runtime.gomaxprocs: 0: want a number above 0, or -1`,
		"-runtime.gogc=-2":       `runtime.gogc: -2: want a percentage, or -1 for no collection`,
		"-profile.mode=x":        `profile.mode: "x": want cpu, mem, mutex, block, trace`,
		"-metrics.max-series=-1": `metrics.max-series: -1: want 0 or more`,
		"-registry.backend=zk":   `registry.backend: "zk": want consul, static, file or custom`,
	} {
		c, errs := loadConfig(t, "", nil, arg)
		errs = append(errs, c.validate()...)
		if len(errs) != 1 || errs[0].Error() != "command line: "+want {
			t.Errorf("%s: errors = %q, want %q", arg, errs, want)
		}
	}
}

func TestEnvironmentOfTheRuntimeWins(t *testing.T) {
	procs := runtime.GOMAXPROCS(0)
	defer runtime.GOMAXPROCS(procs)
	p := processConfig{gogc: 100, gomaxprocs: procs + 1}
	p.apply(func(string) string { return "1" })
	if got := runtime.GOMAXPROCS(0); got != procs {
		t.Errorf("GOMAXPROCS = %d with the variable set, want it untouched: %d", got, procs)
	}
	p.apply(func(string) string { return "" })
	if got := runtime.GOMAXPROCS(0); got != procs+1 {
		t.Errorf("GOMAXPROCS = %d, want the flag's %d", got, procs+1)
	}
}
