// Package integration drives the built varco from outside: a real Consul agent in front of it, real sockets around it
// and a real browser on its page. It has tests only and imports nothing of varco, so that whatever a test says holds
// for the binary that users run.
//
// How the pieces work together: TestMain builds varco once and starts one Consul agent in dev mode that all tests
// share (main_test.go). A test starts its own varco (varco_test.go) with a tag prefix and KV paths that are its own,
// and its own upstreams (origin_test.go); what other tests register does not touch it. Tests that hurt Consul put a
// fault-injecting proxy between the two (fault_test.go) or start an agent for themselves (consul_test.go). The other
// files hold one subject of behaviour each.
//
// Nothing here sleeps: a test waits for what it wants to see, under a deadline (wait_test.go).
//
// go test -short skips the package. The Consul binary is built on first use, see integration/consul.
package integration
