package route

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"strings"
)

// String returns the table as commands that make it again, one a line: what /api/routes?raw answers. Hosts are in
// descending order, the routes without a host last. Weights are those that were asked for. Targets without a share
// are left out, and so are routes without targets.
func (t *Table) String() string {
	var b strings.Builder
	write := func(h *host) {
		for line := range h.lines() {
			if b.Len() > 0 {
				b.WriteByte('\n')
			}
			b.WriteString(line)
		}
	}
	for _, h := range slices.Backward(t.hosts) {
		write(h) // "" sorts first, so it is written last
	}
	return b.String()
}

// lines yields the commands that make h.
func (h *host) lines() iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, r := range h.routes {
			for _, t := range r.live {
				if !yield(t.line()) {
					return
				}
			}
		}
	}
}

// line returns the command that makes t.
func (t *Target) line() string {
	var b strings.Builder
	fmt.Fprintf(&b, "route add %s %s%s %s", t.Service, t.Host, t.Path, urlText(t.URL, t.Dst))
	if t.FixedWeight > 0 {
		fmt.Fprintf(&b, " weight %.4f", t.FixedWeight)
	}
	if tags := formatTags(t.Tags); tags != "" {
		fmt.Fprintf(&b, ` tags "%s"`, tags)
	}
	if len(t.Opts) > 0 {
		fmt.Fprintf(&b, ` opts "%s"`, t.Opts)
	}
	return b.String()
}

// Diff returns the lines of String that only new has and that only old has, each in their order. Hosts that both
// share cost nothing.
func Diff(old, new *Table) (added, removed []string) {
	i, j := len(old.hosts), len(new.hosts)
	for i > 0 || j > 0 {
		var was, is *host
		switch {
		case i == 0:
			j--
			is = new.hosts[j]
		case j == 0:
			i--
			was = old.hosts[i]
		default:
			order := cmp.Compare(old.hosts[i-1].name, new.hosts[j-1].name)
			if order >= 0 {
				i--
				was = old.hosts[i]
			}
			if order <= 0 {
				j--
				is = new.hosts[j]
			}
		}
		if was == is {
			continue
		}
		added = append(added, onlyIn(is, was)...)
		removed = append(removed, onlyIn(was, is)...)
	}
	return added, removed
}

// onlyIn returns the lines of h that other has not, or not as often. Either may be nil.
func onlyIn(h, other *host) (lines []string) {
	if h == nil {
		return nil
	}
	has := make(map[string]int)
	if other != nil {
		for line := range other.lines() {
			has[line]++
		}
	}
	for line := range h.lines() {
		if has[line] > 0 {
			has[line]--
			continue
		}
		lines = append(lines, line)
	}
	return lines
}

// slotsPerRoute is how finely Dump writes shares; it is the size of the ring that fabio picks from.
const slotsPerRoute = 10000

// Dump returns the table as a tree for the log. The slots are those of a ring in which each target has its share.
func (t *Table) Dump() string {
	var b strings.Builder
	for i, h := range t.hosts {
		fmt.Fprintf(&b, "+-- host=%s\n", h.name)
		trunk := "|   "
		if i == len(t.hosts)-1 {
			trunk = "    "
		}
		for j, r := range h.routes {
			fork, branch := "|-- ", "|    "
			if j == len(h.routes)-1 {
				fork, branch = "+-- ", "    "
			}
			fmt.Fprintf(&b, "%s%spath=%s\n", trunk, fork, r.Path)
			slots, total := r.slots()
			for k, t := range r.live {
				fork := "|-- "
				if k == len(r.live)-1 {
					fork = "+-- "
				}
				fmt.Fprintf(&b, "%s%s%saddr=%s weight %2.2f slots %d/%d\n",
					trunk, branch, fork, t.URL.Host, float64(slots[k])/float64(total), slots[k], total)
			}
		}
	}
	return b.String()
}

// slots returns how many slots of a ring each live target has, and how many there are.
func (r *Route) slots() (slots []int, total int) {
	slots = make([]int, len(r.live))
	fixed := slices.ContainsFunc(r.Targets, func(t *Target) bool { return t.FixedWeight > 0 })
	for i, t := range r.live {
		slots[i] = 1
		if fixed {
			slots[i] = max(int(slotsPerRoute*t.Weight), 1)
		}
		total += slots[i]
	}
	return slots, total
}
