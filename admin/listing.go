package admin

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"varco/route"
)

// row is one line of the page: a target of a route, or a route that has none.
type row struct {
	route  *route.Route
	target *route.Target // nil when the route has no target
}

// listing is the rows of one table. It never changes.
type listing struct {
	table           *route.Table
	version         uint64
	seen            time.Time
	rows            []row
	routes, targets int
	found           cache[[]int32] // rows that a query leaves, by query
	sorted          cache[[]int32] // by query and an order that does not move
}

func newListing(t *route.Table, version uint64, now time.Time) *listing {
	l := &listing{table: t, version: version, seen: now}
	if t == nil {
		return l
	}
	l.routes, l.targets = t.Len()
	l.rows = make([]row, 0, l.targets)
	for r := range t.All() {
		for _, target := range r.Targets {
			l.rows = append(l.rows, row{r, target})
		}
		if len(r.Targets) == 0 {
			l.rows = append(l.rows, row{r, nil})
		}
	}
	return l
}

// filter answers which rows a query leaves, in table order. A query is words that a row must all have, somewhere or,
// as field:word, in one field; upper and lower case are the same.
func (l *listing) filter(query string) []int32 {
	words := parseQuery(query)
	return l.found.get(fmt.Sprint(words), func() []int32 {
		found := make([]int32, 0, len(l.rows))
		var scratch []byte
		for i, r := range l.rows {
			if r.has(words, &scratch) {
				found = append(found, int32(i))
			}
		}
		return found
	})
}

// queryWord is one word of a query.
type queryWord struct {
	field string // "" for any
	word  string // lower-case
}

// fields are what a query can ask for by name. Any other word with a colon, such as an address, is just a word.
var fields = []string{"host", "path", "service", "dst", "tag", "opt", "node", "is"}

func parseQuery(query string) (words []queryWord) {
	for word := range strings.FieldsSeq(strings.ToLower(query)) {
		field, rest, ok := strings.Cut(word, ":")
		if ok && rest != "" && slices.Contains(fields, field) {
			words = append(words, queryWord{field, rest})
		} else {
			words = append(words, queryWord{"", word})
		}
	}
	return words
}

func (r row) has(words []queryWord, scratch *[]byte) bool {
	for i, w := range words {
		// Words without a field, which are the rule, share one text.
		if i == 0 || w.field != "" || words[i-1].field != "" {
			*scratch = fold(r.text((*scratch)[:0], w.field))
		}
		if !bytes.Contains(*scratch, []byte(w.word)) {
			return false
		}
	}
	return true
}

// text appends what can be searched in a field, or in all of them.
func (r row) text(b []byte, field string) []byte {
	add := func(name, s string) {
		if field == name || field == "" {
			b = append(append(b, s...), '\n')
		}
	}
	if field == "" { // host and path are one word here: example.com/shop
		b = append(append(append(b, r.route.Host...), r.route.Path...), '\n')
	} else {
		add("host", r.route.Host)
		add("path", r.route.Path)
	}
	if field == "is" {
		return append(b, r.state()...)
	}
	t := r.target
	if t == nil {
		return b
	}
	add("service", t.Service)
	add("dst", t.Dst)
	add("node", t.Origin.Node)
	for _, tag := range t.Tags {
		add("tag", tag)
	}
	for _, o := range t.Opts {
		if field == "opt" || field == "" {
			b = append(append(append(append(b, o.Key...), '='), o.Value...), '\n')
		}
	}
	return b
}

// state is the word that is:… asks for: down is a route without a target, idle a target without a share of the
// traffic.
func (r row) state() string {
	switch {
	case r.target == nil:
		return "down"
	case r.target.Weight == 0:
		return "idle"
	}
	return "up"
}

// fold makes b lower-case, in place when it is ASCII.
func fold(b []byte) []byte {
	for i, c := range b {
		if c >= utf8.RuneSelf {
			return bytes.ToLower(b)
		}
		if 'A' <= c && c <= 'Z' {
			b[i] = c + 'a' - 'A'
		}
	}
	return b
}

// order is something that the page can be sorted by: a text or a number of each row.
type order struct {
	name   string
	text   func(r row) string
	number func(r row, n numbers) float64
	// moving says that the number changes from frame to frame.
	moving bool
}

// orders are what sort= can name; "-" in front of a name turns it round. The first is the order of the table, in
// which rows stay that are equal otherwise.
var orders = []order{
	{name: "route"},
	{name: "service", text: func(r row) string { return r.targetText(func(t *route.Target) string { return t.Service }) }},
	{name: "dst", text: func(r row) string { return r.targetText(func(t *route.Target) string { return t.Dst }) }},
	{name: "weight", number: func(r row, _ numbers) float64 { return r.weight() }},
	{name: "rate", number: func(_ row, n numbers) float64 { return n.rate }, moving: true},
	{name: "errors", number: func(_ row, n numbers) float64 { return n.errorRate }, moving: true},
	{name: "p99", number: func(_ row, n numbers) float64 { return float64(n.P99) }, moving: true},
	{name: "inflight", number: func(_ row, n numbers) float64 { return float64(n.InFlight) }, moving: true},
	{name: "requests", number: func(_ row, n numbers) float64 { return float64(n.Requests) }, moving: true},
}

// targetText is a text of the row's target, "" without one.
func (r row) targetText(text func(*route.Target) string) string {
	if r.target == nil {
		return ""
	}
	return text(r.target)
}

func (r row) weight() float64 {
	if r.target == nil {
		return 0
	}
	return r.target.Weight
}

// sort answers the rows that a query leaves in an order, or an error that names the orders.
func (fr *frame) sort(query, by string) ([]int32, error) {
	found := fr.filter(query)
	name, descending := strings.CutPrefix(by, "-")
	if name == "" {
		name = orders[0].name
	}
	i := slices.IndexFunc(orders, func(o order) bool { return o.name == name })
	if i < 0 {
		return nil, fmt.Errorf("sort: %q: want one of %s, with - in front to turn it round", by, orderNames())
	}
	o, memory := orders[i], &fr.listing.sorted
	if o.moving {
		memory = &fr.sorted
	}
	if i == 0 && !descending {
		return found, nil
	}
	return memory.get(by+"\n"+fmt.Sprint(parseQuery(query)), func() []int32 {
		switch rows := slices.Clone(found); {
		case o.text != nil:
			return sorted(rows, descending, func(i int32) string { return o.text(fr.rows[i]) })
		case o.number != nil:
			return sorted(rows, descending, func(i int32) float64 { return o.number(fr.rows[i], fr.numbers[i]) })
		default:
			slices.Reverse(rows)
			return rows
		}
	}), nil
}

// sorted sorts rows by a key; equal keys stay in the order of the table.
func sorted[K cmp.Ordered](rows []int32, descending bool, key func(int32) K) []int32 {
	type keyed struct {
		key K
		row int32
	}
	all := make([]keyed, len(rows))
	for i, r := range rows {
		all[i] = keyed{key(r), r}
	}
	slices.SortFunc(all, func(a, b keyed) int {
		c := cmp.Compare(a.key, b.key)
		if descending {
			c = -c
		}
		if c != 0 {
			return c
		}
		return cmp.Compare(a.row, b.row)
	})
	for i, k := range all {
		rows[i] = k.row
	}
	return rows
}

func orderNames() string {
	var names []string
	for _, o := range orders {
		names = append(names, o.name)
	}
	return strings.Join(names, ", ")
}
