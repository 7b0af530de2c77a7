package registry

import (
	"context"
	"reflect"
	"slices"
	"sync"

	"varco/route"
)

// collector brings the parts of a Snapshot together. The setters are safe for concurrent use.
type collector struct {
	wake chan struct{} // holds one

	mu                              sync.Mutex     // guards the fields below
	services, overrides, page       bool           // which parts are known
	snapshot                        route.Snapshot // without problems
	ofServices, ofOverrides, ofPage []route.Problem
}

func (c *collector) setServices(s []route.Service, p []route.Problem) {
	c.set(func() { c.services, c.snapshot.Services, c.ofServices = true, s, p })
}

func (c *collector) setOverrides(o []route.Command, p []route.Problem) {
	c.set(func() { c.overrides, c.snapshot.Overrides, c.ofOverrides = true, o, p })
}

func (c *collector) setNoRoute(page string, p []route.Problem) {
	c.set(func() { c.page, c.snapshot.NoRoute, c.ofPage = true, page, p })
}

func (c *collector) set(f func()) {
	c.mu.Lock()
	f()
	c.mu.Unlock()
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// current returns the Snapshot of the moment; ok says that all its parts are known.
func (c *collector) current() (s route.Snapshot, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s = c.snapshot
	s.Problems = slices.Concat(c.ofServices, c.ofOverrides, c.ofPage)
	return s, c.services && c.overrides && c.page
}

// run hands on each new Snapshot until ctx ends.
func (c *collector) run(ctx context.Context, update func(route.Snapshot)) {
	var last route.Snapshot
	for first := true; ; {
		select {
		case <-ctx.Done():
			return
		case <-c.wake:
		}
		s, ok := c.current()
		if !ok || !first && sameSnapshot(&s, &last) {
			continue
		}
		first, last = false, s
		update(s)
	}
}

// sameSnapshot says that two Snapshots have the same content. Services that did not change share their commands.
func sameSnapshot(a, b *route.Snapshot) bool {
	return a.NoRoute == b.NoRoute &&
		slices.EqualFunc(a.Services, b.Services, func(s, t route.Service) bool { return s.Name == t.Name && sameCommands(s.Commands, t.Commands) }) &&
		sameCommands(a.Overrides, b.Overrides) &&
		slices.Equal(a.Problems, b.Problems)
}

func sameCommands(a, b []route.Command) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0] || reflect.DeepEqual(a, b))
}
