//go:build race

package integration

// withRace says that the tests run under the race detector; varco is built with it too then.
const withRace = true
