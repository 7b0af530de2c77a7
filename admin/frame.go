package admin

import (
	"reflect"
	"sync"
	"time"

	"varco/route"
)

// What the page shows is a frame: the rows of one table, in table order, and the numbers of each at one moment. A
// frame never changes. The next one is made when somebody asks and the last one is old enough: at least frameAge, and
// long enough that making frames takes no more than a twentieth of one core, however large the table is and however
// many pages are open. Between two frames every page gets the same one.
//
//	table of 1,000 targets       a frame takes 1 ms, there is one a second
//	table of 100,000 targets     a frame takes 50 ms, there is one a second
//	table of 1,000,000 targets   a frame takes 500 ms, there is one in ten seconds
//
// The rate of a target is what its counters gained between two frames, divided by the time between them. The target
// of the last frame is found by what is bound to it, which lives as long as the target's identity, so that rates go
// on when a table changes.
//
// The last frame holds on to its table, and is forgotten when nobody has looked for a while.
const (
	frameAge    = 900 * time.Millisecond
	frameShare  = 20
	newTableAge = 100 * time.Millisecond
	// rateAge is the longest time that a rate may stand for.
	rateAge = 2 * time.Minute
)

// frame is the table as the page shows it.
type frame struct {
	*listing
	at      time.Time
	numbers []numbers // of listing.rows
	total   numbers
	sorted  cache[[]int32] // by query and an order that moves
}

// numbers are those of one row, or of all.
type numbers struct {
	Stat
	// rate and errorRate are per second; negative when unknown.
	rate, errorRate float64
}

// frames makes frames and keeps the last one.
type frames struct {
	table func() *route.Table
	stats func(*route.Target) (Stat, bool)
	now   func() time.Time

	mu      sync.Mutex // guards the fields below
	last    *frame
	cost    time.Duration // of making last
	version uint64        // number of tables seen
	idle    *time.Timer   // forgets last
}

// forget lets the last frame and its table go.
func (f *frames) forget() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.last = nil
	if f.idle != nil {
		f.idle.Stop()
	}
}

// latest is a frame that is as new as the share of a core allows.
func (f *frames) latest() *frame {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.last != nil {
		age, wait := f.now().Sub(f.last.at), frameAge
		if f.currentTable() != f.last.table {
			wait = newTableAge
		}
		if age < max(wait, frameShare*f.cost) {
			return f.last
		}
	}
	return f.next()
}

// current is a frame of the table in use.
func (f *frames) current() *frame {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.last != nil && f.currentTable() == f.last.table && f.now().Sub(f.last.at) < frameAge {
		return f.last
	}
	return f.next()
}

func (f *frames) currentTable() *route.Table {
	if f.table == nil {
		return nil
	}
	return f.table()
}

// next makes a frame. The caller holds mu.
func (f *frames) next() *frame {
	start := f.now()
	table, l := f.currentTable(), (*listing)(nil)
	if f.last != nil && f.last.table == table {
		l = f.last.listing
	} else {
		f.version++
		l = newListing(table, f.version, start)
	}
	fr := &frame{listing: l, at: start, numbers: make([]numbers, len(l.rows))}
	f.count(fr, f.last)
	f.last, f.cost = fr, f.now().Sub(start)
	if f.idle == nil {
		f.idle = time.AfterFunc(rateAge, f.forget)
	} else {
		f.idle.Reset(rateAge)
	}
	return fr
}

// count fills in the numbers, with rates since the frame before.
func (f *frames) count(fr, before *frame) {
	find := before.finder(fr.listing)
	seconds := 0.0
	if before != nil && fr.at.Sub(before.at) <= rateAge {
		seconds = fr.at.Sub(before.at).Seconds()
	}
	known := false
	for i, r := range fr.rows {
		n := &fr.numbers[i]
		n.rate, n.errorRate = -1, -1
		if r.target == nil || f.stats == nil {
			continue
		}
		stat, ok := f.stats(r.target)
		if !ok {
			continue
		}
		n.Stat = stat
		if old := find(i); old != nil && seconds > 0 && stat.Requests >= old.Requests && stat.Errors >= old.Errors {
			n.rate = float64(stat.Requests-old.Requests) / seconds
			n.errorRate = float64(stat.Errors-old.Errors) / seconds
			fr.total.rate += n.rate
			fr.total.errorRate += n.errorRate
			known = true
		}
		fr.total.Requests += stat.Requests
		fr.total.Errors += stat.Errors
		fr.total.InFlight += stat.InFlight
	}
	if !known {
		fr.total.rate, fr.total.errorRate = -1, -1
	}
}

// finder answers a function that finds the numbers, in fr, of row i of l; nil when there are none.
func (fr *frame) finder(l *listing) func(i int) *numbers {
	switch {
	case fr == nil:
		return func(int) *numbers { return nil }
	case fr.listing == l:
		return func(i int) *numbers { return &fr.numbers[i] }
	}
	rows := make(map[any]int32, len(fr.rows))
	for i, r := range fr.rows {
		if r.target != nil {
			rows[identity(r.target)] = int32(i)
		}
	}
	return func(i int) *numbers {
		if j, ok := rows[identity(l.rows[i].target)]; ok {
			return &fr.numbers[j]
		}
		return nil
	}
}

// identity is a comparable value that stays the same as long as the target's identity stays in the table.
func identity(t *route.Target) any {
	if t.Bound != nil && reflect.TypeOf(t.Bound).Kind() == reflect.Pointer {
		return t.Bound
	}
	return t
}

// cache keeps a few results by name; the oldest makes room.
type cache[T any] struct {
	mu     sync.Mutex // guards the fields below; held while a result is made, so that each is made once
	names  []string
	values []T
}

const cacheSize = 8

func (c *cache[T]) get(name string, make func() T) T {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, n := range c.names {
		if n == name {
			return c.values[i]
		}
	}
	if len(c.names) == cacheSize {
		c.names, c.values = c.names[1:], c.values[1:]
	}
	v := make()
	c.names, c.values = append(c.names, name), append(c.values, v)
	return v
}
