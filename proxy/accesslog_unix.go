//go:build unix

package proxy

import "syscall"

// openNonblock makes opening and writing named pipes return instead of wait.
const openNonblock = syscall.O_NONBLOCK
