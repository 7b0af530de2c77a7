package integration

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// process is a program that a test started. Whatever happens to the test process, it does not outlive it.
type process struct {
	cmd  *exec.Cmd
	out  output        // its stdout
	err  output        // its stderr
	done chan struct{} // closed when it has ended
}

// command starts a program.
func command(t testing.TB, env []string, name string, args ...string) *process {
	t.Helper()
	p, err := startProcess(env, name, args...)
	if err != nil {
		t.Fatalf("start %s: %v", name, err)
	}
	return p
}

func startProcess(env []string, name string, args ...string) (*process, error) {
	p := &process{cmd: exec.Command(name, args...), done: make(chan struct{})}
	p.cmd.Env = append(slices.DeleteFunc(os.Environ(), setting), env...)
	p.cmd.Stdout, p.cmd.Stderr = &p.out, &p.err
	if err := launch(p.cmd); err != nil {
		return nil, err
	}
	go p.wait()
	return p, nil
}

// setting reports whether a variable of our own environment would be a setting of what we start.
func setting(variable string) bool {
	for _, prefix := range []string{"VARCO_", "FABIO_", "CONSUL_"} {
		if strings.HasPrefix(strings.ToUpper(variable), prefix) {
			return true
		}
	}
	return false
}

func (p *process) wait() {
	p.cmd.Wait()
	close(p.done)
}

func (p *process) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// exit waits for the end and answers the exit code, -1 after a signal.
func (p *process) exit(t testing.TB, limit time.Duration) int {
	t.Helper()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-p.done:
		return p.cmd.ProcessState.ExitCode()
	case <-timer.C:
		t.Fatalf("%s has not ended within %v\n%s", p.cmd.Path, limit, p.err.String())
		return 0
	}
}

func (p *process) signal(s os.Signal) { p.cmd.Process.Signal(s) }
func (p *process) hangup()            { p.signal(syscall.SIGHUP) }

// kill ends the process at once and waits for its end.
func (p *process) kill() {
	p.signal(syscall.SIGKILL)
	<-p.done
}

// output is what a program wrote so far. It is safe for concurrent use.
type output struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.Write(b)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String()
}

// launch starts cmd from a thread that lives as long as this process: the kernel ends a child that asks for it (see
// orphanless) when the thread that started it ends, and Go is free to end other threads.
var launch = func() func(*exec.Cmd) error {
	type request struct {
		cmd   *exec.Cmd
		reply chan error
	}
	requests := make(chan request)
	go func() {
		runtime.LockOSThread()
		for r := range requests {
			orphanless(r.cmd)
			r.reply <- r.cmd.Start()
		}
	}()
	return func(cmd *exec.Cmd) error {
		r := request{cmd, make(chan error)}
		requests <- r
		return <-r.reply
	}
}()

// lastLines answers the end of a text, for a message.
func lastLines(s string, n int) string {
	lines := bytes.Split(bytes.TrimSpace([]byte(s)), []byte("\n"))
	if cut := len(lines) - n; cut > 0 {
		return fmt.Sprintf("(%d lines cut)\n%s", cut, bytes.Join(lines[cut:], []byte("\n")))
	}
	return s
}
