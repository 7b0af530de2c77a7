package route

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// Globs are those of gobwas/glob without separators, which fabio uses:
//
//	*  **     any characters, none too, "/" and "." included
//	?         one character
//	[abc]     one of these characters; [!abc] one that is none of them
//	[a-z]     one character of this range; [!a-z] one outside
//	{a,b*}    one of these patterns; they may be nested
//	\x        the character x
//
// A pattern is compiled once. Alternatives are multiplied out, at most maxGlobs of them, so that each is a plain
// sequence of texts, single characters and stars. Such a sequence is matched from left to right; when it gets stuck it
// goes back to the last star only, and lets that one take a character more. Going back further never helps: what an
// earlier star could give away, the last one can take. So the cost is bounded by the length of the text times the
// longest run between two stars. Characters are decoded as UTF-8; a byte that is not UTF-8 is one character.

const (
	maxGlobSize  = 4096 // bytes of a pattern
	maxGlobs     = 256  // alternatives once multiplied out
	maxGlobDepth = 16   // nested braces
)

// globMeta are the characters that make a pattern of a text.
const globMeta = `*?[{\`

// glob is a compiled pattern, safe for concurrent use.
type glob struct {
	any []globRun
	// literal starts every text that matches.
	literal string
	// wild counts the stars, single characters, classes and braces. Without any, the pattern matches only literal.
	wild int
}

// globRun is one alternative: what it matches has no choice but how much a star takes.
type globRun struct {
	items  []globItem
	suffix string // ends every text that matches
	least  int    // bytes that every text that matches has
}

type globItem struct {
	kind globKind
	text string // globText; the characters of globClass
	lo   rune   // globRange
	hi   rune
	not  bool       // globClass, globRange
	alts []globList // globAlts, only until multiplied out
}

type globList []globItem

type globKind uint8

const (
	globText globKind = iota
	globStar
	globOne
	globClass
	globRange
	globAlts
)

// compileGlob compiles a pattern.
func compileGlob(pattern string) (*glob, error) {
	switch {
	case len(pattern) > maxGlobSize:
		return nil, fmt.Errorf("pattern is longer than %d bytes", maxGlobSize)
	case !utf8.ValidString(pattern):
		return nil, errors.New("pattern is not valid UTF-8")
	}
	p := &globParser{rest: pattern}
	list, err := p.list(0)
	if err != nil {
		return nil, fmt.Errorf("pattern %q: %w", pattern, err)
	}
	runs, err := multiply(list)
	if err != nil {
		return nil, fmt.Errorf("pattern %q: %w", pattern, err)
	}
	g := &glob{wild: p.wild}
	for i, items := range runs {
		run := newGlobRun(items)
		g.any = append(g.any, run)
		head := ""
		if len(run.items) > 0 && run.items[0].kind == globText {
			head = run.items[0].text
		}
		if i == 0 {
			g.literal = head
		} else {
			g.literal = g.literal[:commonPrefix(g.literal, head)]
		}
	}
	return g, nil
}

// globParser reads a pattern from left to right.
type globParser struct {
	rest string
	wild int
}

// list reads up to the end of the pattern or, inside braces, up to the comma or brace that ends an alternative, which
// it leaves there.
func (p *globParser) list(depth int) (globList, error) {
	var items globList
	text := func(s string) {
		if n := len(items); n > 0 && items[n-1].kind == globText {
			items[n-1].text += s
			return
		}
		items = append(items, globItem{kind: globText, text: s})
	}
	for p.rest != "" {
		c := p.rest[0]
		if depth > 0 && (c == ',' || c == '}') {
			return items, nil
		}
		switch c {
		case '*':
			p.rest = strings.TrimLeft(p.rest, "*")
			p.wild++
			items = append(items, globItem{kind: globStar})
		case '?':
			p.rest = p.rest[1:]
			p.wild++
			items = append(items, globItem{kind: globOne})
		case '[':
			p.wild++
			item, err := p.class()
			if err != nil {
				return nil, err
			}
			items = append(items, item)
		case '{':
			p.wild++
			item, err := p.braces(depth + 1)
			if err != nil {
				return nil, err
			}
			items = append(items, item)
		default:
			r, err := p.char()
			if err != nil {
				return nil, err
			}
			text(r)
		}
	}
	return items, nil
}

// char reads one character, escaped or not.
func (p *globParser) char() (string, error) {
	if p.rest[0] == '\\' {
		p.rest = p.rest[1:]
		if p.rest == "" {
			return "", errors.New(`ends in a backslash`)
		}
	}
	_, n := utf8.DecodeRuneInString(p.rest)
	s := p.rest[:n]
	p.rest = p.rest[n:]
	return s, nil
}

// class reads [abc], [!abc], [a-z] or [!a-z].
func (p *globParser) class() (globItem, error) {
	item := globItem{kind: globClass}
	p.rest = p.rest[1:]
	if strings.HasPrefix(p.rest, "!") {
		item.not = true
		p.rest = p.rest[1:]
	}
	var chars []string
	dash := false // the second character is an unescaped "-" with something after it
	for {
		switch {
		case p.rest == "":
			return item, errors.New("[ is never closed")
		case p.rest[0] == ']' && len(chars) == 0:
			return item, errors.New("[] names no character")
		case p.rest[0] == ']':
			p.rest = p.rest[1:]
			if dash && len(chars) != 3 {
				return item, errors.New("a range is written [a-z], one in each pair of brackets")
			}
			if dash {
				item.kind = globRange
				item.lo, _ = utf8.DecodeRuneInString(chars[0])
				item.hi, _ = utf8.DecodeRuneInString(chars[2])
				if item.lo > item.hi {
					return item, fmt.Errorf("range %s-%s is upside down", chars[0], chars[2])
				}
				return item, nil
			}
			item.text = strings.Join(chars, "")
			return item, nil
		}
		dash = dash || len(chars) == 1 && p.rest[0] == '-'
		c, err := p.char()
		if err != nil {
			return item, err
		}
		chars = append(chars, c)
	}
}

// braces reads {a,b}.
func (p *globParser) braces(depth int) (globItem, error) {
	item := globItem{kind: globAlts}
	if depth > maxGlobDepth {
		return item, fmt.Errorf("braces are nested more than %d deep", maxGlobDepth)
	}
	for {
		p.rest = p.rest[1:] // the brace or comma
		list, err := p.list(depth)
		if err != nil {
			return item, err
		}
		item.alts = append(item.alts, list)
		if p.rest == "" {
			return item, errors.New("{ is never closed")
		}
		if p.rest[0] == '}' {
			p.rest = p.rest[1:]
			return item, nil
		}
	}
}

// multiply returns the lists without alternatives that together mean the same as list.
func multiply(list globList) ([]globList, error) {
	runs := []globList{nil}
	size := 0
	for _, item := range list {
		if item.kind != globAlts {
			for i := range runs {
				runs[i] = append(runs[i], item)
			}
			continue
		}
		var heads []globList
		heads, runs = runs, nil
		for _, alt := range item.alts {
			tails, err := multiply(alt)
			if err != nil {
				return nil, err
			}
			for _, head := range heads {
				for _, tail := range tails {
					run := append(head[:len(head):len(head)], tail...)
					size += len(run)
					if len(runs) == maxGlobs || size > maxGlobs*maxGlobDepth {
						return nil, fmt.Errorf("braces make more than %d alternatives", maxGlobs)
					}
					runs = append(runs, run)
				}
			}
		}
	}
	return runs, nil
}

// newGlobRun joins neighbours and notes what can be told without matching.
func newGlobRun(list globList) globRun {
	var r globRun
	for _, item := range list {
		n := len(r.items)
		switch {
		case n > 0 && item.kind == globText && r.items[n-1].kind == globText:
			r.items[n-1].text += item.text
		case n > 0 && item.kind == globStar && r.items[n-1].kind == globStar:
		default:
			r.items = append(r.items, item)
		}
	}
	for _, item := range r.items {
		switch item.kind {
		case globStar:
		case globText:
			r.least += len(item.text)
		default:
			r.least++
		}
	}
	if n := len(r.items); n > 0 && r.items[n-1].kind == globText {
		r.suffix = r.items[n-1].text
	}
	return r
}

// match reports whether the whole of s matches.
func (g *glob) match(s string) bool {
	if !strings.HasPrefix(s, g.literal) {
		return false
	}
	for i := range g.any {
		if g.any[i].match(s) {
			return true
		}
	}
	return false
}

func (r *globRun) match(s string) bool {
	if len(s) < r.least || !strings.HasSuffix(s, r.suffix) {
		return false
	}
	i, at := 0, 0        // the next item, the next byte of s
	star, taken := -1, 0 // the last star, and where what it took ends
	for {
		if i == len(r.items) && at == len(s) {
			return true
		}
		if i < len(r.items) {
			item := &r.items[i]
			if item.kind == globStar {
				if i+1 == len(r.items) {
					return true
				}
				i++
				star, taken = i, at
				continue
			}
			if n := item.match(s[at:]); n >= 0 {
				i, at = i+1, at+n
				continue
			}
		}
		if star < 0 || taken == len(s) {
			return false
		}
		_, n := utf8.DecodeRuneInString(s[taken:])
		taken += n
		if next := &r.items[star]; next.kind == globText {
			// A text in UTF-8 is only ever found where a character starts.
			skip := strings.Index(s[taken:], next.text)
			if skip < 0 {
				return false
			}
			taken += skip
		}
		i, at = star, taken
	}
}

// match returns how many bytes of s the item takes, -1 if it does not match. The item is no star.
func (m *globItem) match(s string) int {
	if m.kind == globText {
		if strings.HasPrefix(s, m.text) {
			return len(m.text)
		}
		return -1
	}
	if s == "" {
		return -1
	}
	r, n := utf8.DecodeRuneInString(s)
	in := true
	switch m.kind {
	case globClass:
		in = strings.ContainsRune(m.text, r) != m.not
	case globRange:
		in = (m.lo <= r && r <= m.hi) != m.not
	}
	if !in {
		return -1
	}
	return n
}

// commonPrefix returns how many bytes a and b share at their start.
func commonPrefix(a, b string) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}
