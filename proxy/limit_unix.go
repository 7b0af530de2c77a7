//go:build unix

package proxy

import "syscall"

// openFiles is how many files the process may have open, 0 for unknown.
func openFiles() int {
	var r syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &r); err != nil {
		return 0
	}
	return int(min(r.Cur, 1<<30))
}
