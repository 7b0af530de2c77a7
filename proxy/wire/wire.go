// Package wire handles bytes on the wire: connections, not requests, and no policy.
//
// Relay joins two connections, with half-close, an idle timeout and byte counts; while a connection is idle it holds
// no buffer, and bulk data between two TCP connections is spliced by the kernel. AppendProxyHeader writes the PROXY
// protocol, version 1 and 2. Listener accepts under a Limit and survives every error of accept; Conn guards the writes
// of an accepted connection against a peer that stopped reading.
//
// The package imports nothing of the project's. Who may connect, where a connection goes and what is counted under
// which name is its caller's business.
package wire
