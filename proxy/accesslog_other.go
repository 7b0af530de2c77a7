//go:build !unix

package proxy

// openNonblock is nothing where there are no named pipes in the file system.
const openNonblock = 0
