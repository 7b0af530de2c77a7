package main

import (
	"fmt"
	"os"
	"runtime"
	"runtime/pprof"
	"runtime/trace"
)

// profiles are the values of profile.mode. start begins to record into the file; stop writes what is left.
var profiles = []struct {
	name  string
	start func(*os.File) error
	stop  func(*os.File) error
}{
	{"cpu", func(f *os.File) error { return pprof.StartCPUProfile(f) }, func(*os.File) error { pprof.StopCPUProfile(); return nil }},
	{"mem", nil, func(f *os.File) error { runtime.GC(); return pprof.Lookup("allocs").WriteTo(f, 0) }},
	{"mutex", func(*os.File) error { runtime.SetMutexProfileFraction(1); return nil },
		func(f *os.File) error { return pprof.Lookup("mutex").WriteTo(f, 0) }},
	{"block", func(*os.File) error { runtime.SetBlockProfileRate(1); return nil },
		func(f *os.File) error { return pprof.Lookup("block").WriteTo(f, 0) }},
	{"trace", func(f *os.File) error { return trace.Start(f) }, func(*os.File) error { trace.Stop(); return nil }},
}

func profileNames() []string {
	var names []string
	for _, p := range profiles {
		names = append(names, p.name)
	}
	return names
}

// startProfile records the profile called mode into a file of dir until stop is called. mode "" records nothing.
func startProfile(mode, dir string) (path string, stop func() error, err error) {
	for _, p := range profiles {
		if p.name != mode {
			continue
		}
		f, err := os.CreateTemp(dir, "varco-"+mode+"-*.pprof")
		if err != nil {
			return "", nil, fmt.Errorf("profile.path: %w", err)
		}
		if p.start != nil {
			if err := p.start(f); err != nil {
				f.Close()
				return "", nil, fmt.Errorf("profile.mode: %w", err)
			}
		}
		return f.Name(), func() error {
			if err := p.stop(f); err != nil {
				f.Close()
				return err
			}
			return f.Close()
		}, nil
	}
	return "", func() error { return nil }, nil
}
