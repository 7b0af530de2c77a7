//go:build !linux

package integration

import (
	"errors"
	"os/exec"
	"time"
)

func orphanless(*exec.Cmd) {}

func (p *process) cpu() (time.Duration, error) {
	return 0, errors.ErrUnsupported
}
