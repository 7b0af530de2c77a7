package metrics

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"time"
)

// A fold decides, at each scrape, which rows (targets, services, or pairs of service and status) are exported under
// their own labels and which are summed in the series _other. It has a fixed number of places. These hold, whatever
// traffic, updates and scrapes do, and the property test checks them:
//
//   - Every count is exported in one series, once: in the row's own while it has a place, else in _other.
//   - No series ever falls, and none jumps by what happened long ago. So rate() and increase() over all series are
//     exact, and nothing looks like a restart or a burst that there never was.
//   - All series of a metric, and what ended with series that are gone, add up to everything that was ever counted.
//
// The first two leave little choice when a row changes sides, because a count that has been exported cannot be moved:
//
//   - A row that gets a place after it was summed in _other starts at 0. What it had counted stays in _other.
//   - A row that loses its place takes its series' count along, as a target that leaves the table does: the series
//     ends. (Adding the count to _other instead would look like that many requests in one scrape interval.) What it
//     counts from then on is in _other.
//   - What a row counted in _other stays there when the row goes.
//
// So moving costs something, and places are given away with reserve. A free place goes at once to the busiest row
// without one. A row keeps its place for tenure at least, and then loses it only to a row more than twice as busy.
// Busy means: requests, tunnels and failed tries, each worth half after halfLife. A row without traffic takes no place.
//
// One thing is lost to rate(): what a row with a place did between the last scrape and its leaving, since there is no
// series left to show it. It is in the ended count, and in the numbers of its service.
//
// One scrape reads every row once and, when places are short, sorts no more than the places: O(rows · log places).

const (
	halfLife = 5 * time.Minute
	tenure   = 10 * time.Minute
)

// rowState is what a fold remembers of a row.
type rowState struct {
	named  bool // it has a place
	folded bool // something of it has been exported in _other
	since  time.Time
	score  float64
	seen   uint64   // activity at the last scrape
	base   []uint64 // its counts that no longer count as its own; nil is all zero
	losing bool     // its place goes after this scrape
	lost   bool     // its place went after the last scrape
}

// row is something that a fold exports.
type row interface {
	state() *rowState
	// key tells apart the rows that must not share a series _other: the status, or 0.
	key() int
	// order says which of two equally busy rows comes first; no two rows have the same.
	order() uint64
	// homeless reports whether the row may not have a place: it has left, or its labels are those of _other.
	homeless() bool
	// activity is a number that grows with each request, given the row's words. It is 0 before the first.
	activity(words []uint64) uint64
}

// reading is a row and its words: as many counts as the fold is wide, then the gauges.
type reading struct {
	row   row // nil for a series _other
	key   int // of a series _other
	words []uint64
}

// fold is the state of a group of metrics that share their places. Its owner serialises all calls.
type fold struct {
	places int
	width  int // words that only grow
	gauges int // words after them that go up and down

	named   int
	last    time.Time        // of the last scrape
	carried map[int][]uint64 // what _other holds of rows that are gone or have a place now
	ended   []uint64         // what ended with series
	ending  []uint64         // what the series had that the last scrape showed for the last time
	resting int              // rows with something in _other only, at the last scrape
}

func newFold(places, width, gauges int) *fold {
	return &fold{
		places: places, width: width, gauges: gauges,
		carried: map[int][]uint64{}, ended: make([]uint64, width), ending: make([]uint64, width),
	}
}

// openOther makes the series _other of key appear before there is something in it.
func (f *fold) openOther(key int) { f.carried[key] = make([]uint64, f.width) }

// scrape turns what was read of every row into what is exported: the rows that have a place with their own words, then
// the series _other by key. It changes and keeps the words of the rows.
func (f *fold) scrape(now time.Time, rows []reading) []reading {
	addWords(f.ended, f.ending)
	clear(f.ending)
	f.place(now, rows)
	f.resting = 0
	exported := make([]reading, 0, f.named+len(f.carried))
	rest := map[int][]uint64{}
	for key, words := range f.carried {
		rest[key] = append(make([]uint64, 0, f.width+f.gauges), words...)[:f.width+f.gauges]
	}
	for _, r := range rows {
		s := r.row.state()
		switch {
		case s.seen == 0:
		case !s.named:
			f.resting++
			s.folded = true
			key := r.row.key()
			if rest[key] == nil {
				rest[key] = make([]uint64, f.width+f.gauges)
			}
			addWords(rest[key], r.words)
		default:
			exported = append(exported, r)
			if s.losing {
				f.end(r, f.ending)
			}
		}
	}
	for _, key := range slices.Sorted(maps.Keys(rest)) {
		exported = append(exported, reading{key: key, words: rest[key]})
	}
	return exported
}

// leave settles a row that is gone for good, given all its words.
func (f *fold) leave(r reading) {
	s := r.row.state()
	f.own(r)
	if s.named {
		f.end(r, f.ended)
		return
	}
	f.carry(r)
}

// own takes from the words what no longer counts as the row's own.
func (f *fold) own(r reading) {
	for i, n := range r.row.state().base {
		r.words[i] -= n
	}
}

// disown makes the row's own words no longer its own.
func (f *fold) disown(r reading) {
	s := r.row.state()
	if s.base == nil {
		s.base = make([]uint64, f.width)
	}
	addWords(s.base, r.words[:f.width])
}

// carry leaves the row's own words in _other for good.
func (f *fold) carry(r reading) {
	key := r.row.key()
	if f.carried[key] == nil {
		f.openOther(key)
	}
	addWords(f.carried[key], r.words[:f.width])
}

// end ends the row's series and keeps its words in sums.
func (f *fold) end(r reading, sums []uint64) {
	s := r.row.state()
	f.disown(r)
	addWords(sums, r.words[:f.width])
	s.named, s.losing, s.lost = false, false, true
	f.named--
}

// give gives the row a place.
func (f *fold) give(r reading, now time.Time) {
	s := r.row.state()
	if s.folded {
		f.carry(r)
		f.disown(r)
		clear(r.words[:f.width])
	}
	s.named, s.since = true, now
	f.named++
}

// place brings scores up to date, makes the words the rows' own, and gives away places: free ones now, others after
// this scrape.
func (f *fold) place(now time.Time, rows []reading) {
	decay := 1.0
	if !f.last.IsZero() {
		decay = math.Exp2(-max(now.Sub(f.last), 0).Seconds() / halfLife.Seconds())
	}
	f.last = now

	var without, old []candidate
	for _, r := range rows {
		s := r.row.state()
		n := r.row.activity(r.words)
		s.score = s.score*decay + float64(n-s.seen)
		s.seen = n
		f.own(r)
		homeless := r.row.homeless()
		switch {
		case n == 0:
		case s.lost: // its series must be seen to be gone before it may begin anew
			s.lost = false
		case !s.named && !homeless:
			without = append(without, candidate{r, s.score})
		case s.named && homeless:
			f.end(r, f.ended)
			s.lost = false
			clear(r.words[:f.width])
		case s.named && now.Sub(s.since) >= tenure:
			old = append(old, candidate{r, -s.score}) // the least busy is the best
		}
	}

	free := min(max(f.places-f.named, 0), len(without))
	swaps := min(len(old), f.places/8+1)
	best := top(without, free+swaps)
	for _, c := range best[:free] {
		f.give(c.reading, now)
	}
	least := top(old, swaps)
	for i, c := range best[free:] {
		if s := least[i].row.state(); c.score > 2*s.score+1 {
			s.losing = true
		}
	}
}

// candidate is a row that may change sides.
type candidate struct {
	reading
	score float64
}

func (c candidate) compare(d candidate) int {
	return cmp.Or(cmp.Compare(d.score, c.score), cmp.Compare(c.row.order(), d.row.order()))
}

// top sorts the best k of all to the front and answers them. It keeps them in a heap with the worst at its root.
func top(all []candidate, k int) []candidate {
	k = min(k, len(all))
	if k == 0 || k == len(all) {
		slices.SortFunc(all[:k], candidate.compare)
		return all[:k]
	}
	heap := all[:k]
	for i := k/2 - 1; i >= 0; i-- {
		sink(heap, i)
	}
	for i := k; i < len(all); i++ {
		if all[i].compare(heap[0]) < 0 {
			heap[0], all[i] = all[i], heap[0]
			sink(heap, 0)
		}
	}
	slices.SortFunc(heap, candidate.compare)
	return heap
}

func sink(heap []candidate, i int) {
	for {
		worst := i
		for child := 2*i + 1; child <= 2*i+2 && child < len(heap); child++ {
			if heap[child].compare(heap[worst]) > 0 {
				worst = child
			}
		}
		if worst == i {
			return
		}
		heap[i], heap[worst] = heap[worst], heap[i]
		i = worst
	}
}
