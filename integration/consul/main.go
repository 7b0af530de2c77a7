// Command consul prints the path of the Consul binary that the integration tests drive, and builds it when it is not
// there yet:
//
//	go -C integration/consul run .
//
// Consul is an ordinary Go tool of this module, so go.mod and go.sum say exactly which source is built. Building takes
// a few minutes; the result is kept in the user's cache folder, under a key made of go.sum and the version of Go, so
// that a change of either builds anew. A lock makes processes that want it at the same moment build it once.
//
// VARCO_TEST_CONSUL names a Consul binary to use instead; it is not built, only checked for existence.
package main

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
)

// tool is the package that is built.
const tool = "github.com/hashicorp/consul"

func main() {
	path, err := binary()
	if err != nil {
		fmt.Fprintln(os.Stderr, "consul:", err)
		os.Exit(1)
	}
	fmt.Println(path)
}

// binary answers the path of a Consul binary that exists.
func binary() (string, error) {
	if path := os.Getenv("VARCO_TEST_CONSUL"); path != "" {
		if _, err := os.Stat(path); err != nil {
			return "", fmt.Errorf("VARCO_TEST_CONSUL: %w", err)
		}
		return path, nil
	}
	path, err := cached()
	if err != nil {
		return "", err
	}
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return "", err
	}
	unlock, err := lock(path + ".lock")
	if err != nil {
		return "", err
	}
	defer unlock()
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		return path, err // another process built it while we waited
	}
	return path, build(path)
}

// cached answers where the binary belongs.
func cached() (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	mod, err := os.ReadFile("go.mod")
	if err != nil {
		return "", fmt.Errorf("run me in integration/consul: %w", err)
	}
	sum, err := os.ReadFile("go.sum")
	if err != nil {
		return "", err
	}
	key := sha256.Sum256(append(sum, runtime.Version()+runtime.GOOS+runtime.GOARCH...))
	return filepath.Join(cache, "varco", "consul-"+version(string(mod)), hex.EncodeToString(key[:8]), "consul"), nil
}

// version finds the version of tool in the text of a go.mod.
func version(mod string) string {
	for line := range strings.Lines(mod) {
		if f := strings.Fields(line); len(f) >= 2 && f[0] == tool {
			return strings.TrimPrefix(f[1], "v")
		}
	}
	return "unknown"
}

// build compiles the tool beside path and moves it there when it is whole.
func build(path string) error {
	fmt.Fprintln(os.Stderr, "consul: building", tool, "once; this takes a few minutes")
	part := fmt.Sprintf("%s.%d", path, os.Getpid())
	defer os.Remove(part)
	cmd := exec.Command("go", "build", "-o", part, tool)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("go build %s: %w; set VARCO_TEST_CONSUL to use a Consul that you have", tool, err)
	}
	return os.Rename(part, path)
}

// lock waits until this process alone holds the file, and answers what gives it up.
func lock(path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		f.Close()
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return func() { f.Close() }, nil
}
