package registry

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"varco/route"
)

// The catalog knows what checks do not tell: address, port, kind and current tags. It is asked service by service, and
// only when there is reason to: when an answer of the health watch shows a service with other instances, other tags or
// another set of passing instances than before. What it said is kept per instance (node and service ID), so that
//
//   - an instance that stops passing leaves at once, without a question;
//   - an instance that comes, or comes back, waits for the answer: its port may be a new one;
//   - a question that fails costs nothing but its own answer: what was known stays, and it is asked again after a pause,
//     without waiting for another change;
//   - the health answer alone says who is there: an instance that passes but is missing in the catalog's answer keeps
//     what was known of it, and the catalog is asked again.
//
// A service that was registered again with another address or port and the same checks shows in no check. Only the index
// of Consul's list of services moves then, and it does not say for which service. So when it moves, the routed services
// are looked up once more, one after the other, a few each second (registry.consul.refresh): a new port is seen at the
// latest after (number of routed services / refresh) seconds.

// settle is how long a change waits for other look-ups that are under way, so that they make one update together.
const settle = 200 * time.Millisecond

// maxMissing is how often the catalog is asked for an instance that passes but is not there.
const maxMissing = 8

// catalog turns what the health watch says into the commands of each service. All of it runs in one goroutine, run.
type catalog struct {
	lookup  func(ctx context.Context, service string) ([]entry, error)
	tagger  tagger
	deliver func([]route.Service, []route.Problem)
	log     *slog.Logger

	parallel int           // look-ups at a time
	refresh  time.Duration // pause between two look-ups after the list of services moved; 0 = none
	patience time.Duration // how long a failing service may hold up the first table
	retry    time.Duration

	services map[string]*service
	unknown  int       // how many of them the catalog has never answered for
	health   bool      // an answer of the health watch is known
	ready    bool      // the first table is out
	changed  time.Time // since when there is something to deliver; zero when there is nothing

	flying  int // look-ups under way
	queue   []*service
	waiting map[*service]bool // those with a time to try again
	sweep   []string          // names to look up because the list of services moved
	swept   time.Time
	era     uint64 // counts the moves of the list of services

	misses int       // failed look-ups in a row, of any service
	hold   time.Time // no look-up before
	pause  backoff
}

// service is what is known of one service.
type service struct {
	name      string
	instances []instance // as the last health answer has them
	entries   map[key]entry
	// commands and problems are what the service contributes.
	commands []route.Command
	problems []route.Problem

	known   bool   // the catalog has answered once
	queued  bool   // in queue or flying
	again   bool   // something changed since the look-up started
	gone    bool   // no instance is left; forgotten
	era     uint64 // when it was looked up last
	failing string // why the look-up fails, as the operator sees it; "" when it does not
	since   time.Time
	next    time.Time // when to try again, while in waiting
	missing int
	pause   backoff
}

// found is the answer to one look-up.
type found struct {
	service *service
	entries []entry
	err     error
	era     uint64
}

// run works until ctx ends. healths and moves are the two watches.
func (c *catalog) run(ctx context.Context, healths <-chan health, moves <-chan struct{}) {
	c.services, c.waiting = map[string]*service{}, map[*service]bool{}
	c.pause.base = c.retry
	results := make(chan found)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		now := time.Now()
		c.schedule(now)
		for c.flying < c.parallel && len(c.queue) > 0 && !now.Before(c.hold) {
			s := c.queue[0]
			c.queue = c.queue[1:]
			if s.gone {
				continue
			}
			s.again = false
			c.flying++
			go c.fetch(ctx, s, c.era, results)
		}
		c.emit(now)
		timer.Reset(time.Until(c.wake(now)))
		select {
		case <-ctx.Done():
			for range c.flying {
				<-results
			}
			return
		case h := <-healths:
			c.apply(h)
		case <-moves:
			c.era++
			if c.refresh > 0 {
				c.sweep = slices.Sorted(maps.Keys(c.services))
			}
		case f := <-results:
			c.flying--
			c.answer(f)
		case <-timer.C:
		}
	}
}

func (c *catalog) fetch(ctx context.Context, s *service, era uint64, to chan<- found) {
	entries, err := c.lookup(ctx, s.name)
	to <- found{s, entries, err, era}
}

// apply takes over a health answer. Both sides are sorted by service, so one walk finds what differs.
func (c *catalog) apply(h health) {
	c.health = true
	seen := 0
	for list := h.instances; len(list) > 0; {
		n := 1
		for n < len(list) && list[n].service == list[0].service {
			n++
		}
		c.update(list[0].service, list[:n:n])
		list = list[n:]
		seen++
	}
	if seen == len(c.services) {
		return
	}
	for name, s := range c.services {
		if _, ok := slices.BinarySearchFunc(h.instances, name, func(i instance, name string) int { return strings.Compare(i.service, name) }); !ok {
			s.gone = true
			delete(c.services, name)
			delete(c.waiting, s)
			if !s.known {
				c.unknown--
			}
			c.touch()
		}
	}
}

// update takes over the instances of one service.
func (c *catalog) update(name string, instances []instance) {
	s := c.services[name]
	if s == nil {
		s = &service{name: name, entries: map[key]entry{}, pause: backoff{base: c.retry}}
		c.services[name] = s
		c.unknown++
	}
	if slices.EqualFunc(s.instances, instances, func(a, b instance) bool { return a.same(&b) }) {
		s.instances = instances // the old answer can be freed
		return
	}
	old := map[key]*instance{}
	for i := range s.instances {
		old[s.instances[i].key()] = &s.instances[i]
	}
	entries := make(map[key]entry, len(instances))
	for i := range instances {
		in := &instances[i]
		e, ok := s.entries[in.key()]
		if !ok {
			continue
		}
		was := old[in.key()]
		if in.up && (!was.up || was.created != in.created) {
			e.unconfirmed = true
		}
		entries[in.key()] = e
	}
	s.instances, s.entries, s.missing = instances, entries, 0
	c.rebuild(s)
	c.enqueue(s)
}

// enqueue asks for a look-up of s.
func (c *catalog) enqueue(s *service) {
	delete(c.waiting, s)
	s.again = true
	if !s.queued {
		s.queued = true
		c.queue = append(c.queue, s)
	}
}

// answer takes over the answer to a look-up.
func (c *catalog) answer(f found) {
	s := f.service
	s.queued = false
	if s.gone {
		return
	}
	if f.err != nil {
		c.failed(s, f.err)
		return
	}
	c.misses = 0
	c.pause.reset()
	s.pause.reset()
	if !s.known {
		s.known = true
		c.unknown--
	}
	s.era = f.era
	if s.failing != "" {
		c.log.Info("consul catalog answers again", "service", s.name)
		s.failing = ""
	}
	there := make(map[key]entry, len(f.entries))
	for _, e := range f.entries {
		e.ServiceName = s.name
		there[key{e.Node, e.ServiceID}] = e
	}
	missing := false
	for i := range s.instances {
		k := s.instances[i].key()
		e, ok := there[k]
		if ok {
			e.unconfirmed = s.again && s.entries[k].unconfirmed
			s.entries[k] = e
		} else if s.instances[i].up {
			missing = true
			c.trust(s, k)
		}
	}
	c.rebuild(s)
	switch {
	case s.again:
		c.enqueue(s)
	case missing && s.missing < maxMissing:
		s.missing++
		c.later(s, s.pause.next())
	}
}

// failed takes over that a look-up failed.
func (c *catalog) failed(s *service, err error) {
	now := time.Now()
	if errors.Is(err, context.Canceled) {
		return
	}
	if s.failing == "" {
		s.failing, s.since = cause(err), now
		c.log.Warn("consul catalog query failed; the last good routes of the service stay", "service", s.name, "err", s.failing)
	}
	for k := range s.entries {
		c.trust(s, k)
	}
	c.rebuild(s)
	c.later(s, max(s.pause.next(), askedPause(err)))
	// One service that fails is its own trouble; many in a row are Consul's.
	c.misses++
	if after := askedPause(err); after > 0 {
		c.hold = now.Add(after)
	} else if c.misses > c.parallel {
		c.hold = now.Add(c.pause.next())
	}
}

// later asks for a look-up of s after a pause.
func (c *catalog) later(s *service, d time.Duration) {
	s.next = time.Now().Add(d)
	c.waiting[s] = true
}

// trust makes do with what is known of an instance.
func (c *catalog) trust(s *service, k key) {
	if e, ok := s.entries[k]; ok {
		e.unconfirmed = false
		s.entries[k] = e
	}
}

// schedule queues what is due.
func (c *catalog) schedule(now time.Time) {
	for s := range c.waiting {
		if !now.Before(s.next) {
			c.enqueue(s)
		}
	}
	for len(c.sweep) > 0 && now.Sub(c.swept) >= c.refresh {
		s := c.services[c.sweep[0]]
		c.sweep = c.sweep[1:]
		if s != nil && s.known && s.era < c.era && !s.queued {
			c.enqueue(s)
			c.swept = now
		}
	}
}

// wake returns when there is something to do next.
func (c *catalog) wake(now time.Time) time.Time {
	next := now.Add(time.Hour)
	sooner := func(t time.Time) {
		if t.Before(next) {
			next = t
		}
	}
	for s := range c.waiting {
		sooner(s.next)
		if end := s.since.Add(c.patience); s.failing != "" && !c.ready && now.Before(end) {
			sooner(end)
		}
	}
	if len(c.queue) > 0 && now.Before(c.hold) {
		sooner(c.hold)
	}
	if len(c.sweep) > 0 {
		sooner(c.swept.Add(c.refresh))
	}
	if c.ready && !c.changed.IsZero() {
		sooner(c.changed.Add(settle))
	}
	if next.Before(now) {
		return now
	}
	return next
}

// rebuild makes the commands of s anew.
func (c *catalog) rebuild(s *service) {
	var commands []route.Command
	var problems []route.Problem
	if s.failing != "" {
		problems = append(problems, route.Problem{
			Origin: route.Origin{Service: s.name},
			Reason: "look-up in Consul's catalog fails: " + s.failing,
			Hint:   "the last good routes of the service stay",
		})
	}
	for i := range s.instances {
		in := &s.instances[i]
		e, ok := s.entries[in.key()]
		if !ok || e.ServiceKind == "connect-proxy" {
			continue
		}
		cs, ps := c.tagger.commands(&e, in.up && !e.unconfirmed)
		commands = append(commands, cs...)
		problems = append(problems, ps...)
	}
	sortCommands(commands)
	if !reflect.DeepEqual(commands, s.commands) || !reflect.DeepEqual(problems, s.problems) {
		s.commands, s.problems = commands, problems
		c.touch()
	}
}

// sortCommands puts the commands of one service in fabio's order, the reverse of that of their texts: it decides which
// of two that differ only in options counts, and the order of the targets of a route.
func sortCommands(commands []route.Command) {
	type keyed struct {
		text string
		c    route.Command
	}
	list := make([]keyed, len(commands))
	for i, c := range commands {
		list[i].c = c
		c.Down = false
		o := c.Origin
		list[i].text = strings.Join([]string{c.String(), o.Node, o.Instance, o.Tag}, "\x00")
	}
	slices.SortFunc(list, func(a, b keyed) int { return strings.Compare(b.text, a.text) })
	for i := range list {
		commands[i] = list[i].c
	}
}

// touch notes that there is something to deliver.
func (c *catalog) touch() {
	if c.changed.IsZero() {
		c.changed = time.Now()
	}
}

// emit delivers what has changed, once nothing is under way any more or it has waited long enough. The first time it
// waits until every service is known, but for a few whose look-ups keep failing.
func (c *catalog) emit(now time.Time) {
	busy := c.flying > 0 || len(c.queue) > 0
	switch {
	case !c.health:
		return
	case !c.ready:
		if !c.complete(now) {
			return
		}
		c.ready = true
	case c.changed.IsZero(), busy && now.Sub(c.changed) < settle:
		return
	}
	c.changed = time.Time{}
	names := slices.Sorted(maps.Keys(c.services))
	services := make([]route.Service, 0, len(names))
	var problems []route.Problem
	for _, name := range names {
		s := c.services[name]
		if len(s.commands) > 0 {
			services = append(services, route.Service{Name: name, Commands: s.commands})
		}
		problems = append(problems, s.problems...)
	}
	c.deliver(services, problems)
}

// complete says whether the first table can go out.
func (c *catalog) complete(now time.Time) bool {
	if c.unknown == 0 {
		return true
	}
	// If the catalog fails for most of them, it is Consul that is ill, and a table now would be a bad one.
	if 2*c.unknown > len(c.services) || len(c.waiting) == 0 {
		return false
	}
	for _, s := range c.services {
		if !s.known && (s.failing == "" || now.Sub(s.since) < c.patience) {
			return false
		}
	}
	return true
}
