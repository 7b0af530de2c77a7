package route

import "strings"

// Nearest returns the one of known that word is most likely a slip of, "" if none is near: at most two letters are
// wrong, and at most a third of them. Case does not matter. Of several that are equally near the first is returned.
func Nearest(word string, known []string) string {
	const long = 64 // nobody mistypes more
	word = strings.ToLower(word)
	if len(word) > long {
		return ""
	}
	best, least := "", min(2, max(1, len(word)/3))+1
	for _, k := range known {
		if d := distance(word, strings.ToLower(k)); d < least && d < len(k) && d < len(word) {
			best, least = k, d
		}
	}
	return best
}

// distance returns how many letters to insert, drop or change to make b of a, or to swap with their neighbour.
func distance(a, b string) int {
	before, last, this := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := range len(a) {
		this[0] = i + 1
		for j := range len(b) {
			d := last[j]
			if a[i] != b[j] {
				d++
			}
			d = min(d, last[j+1]+1, this[j]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				d = min(d, before[j-1]+1)
			}
			this[j+1] = d
		}
		before, last, this = last, this, before
	}
	return last[len(b)]
}
