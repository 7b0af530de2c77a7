package route

import (
	"slices"
	"strings"
)

// Option is one key=value pair of a target. Value is "" when no "=" was written.
type Option struct{ Key, Value string }

// Options are sorted by key, each key once. They are read-only once made.
type Options []Option

// NewOptions returns the pairs of m as Options.
func NewOptions(m map[string]string) Options {
	if len(m) == 0 {
		return nil
	}
	o := make(Options, 0, len(m))
	for k, v := range m {
		o = append(o, Option{k, v})
	}
	slices.SortFunc(o, byKey)
	return o
}

// ParseOptions reads options separated by white space: `strip=/foo proto=https flag`. The last of several with the
// same key counts. The escapes \" \\ \, \n \t \r \xNN stand for the characters they name, so that a value may hold
// blanks (`\x20`).
func ParseOptions(s string) Options {
	var o Options
	for f := range strings.FieldsSeq(s) {
		k, v, _ := strings.Cut(f, "=")
		o = append(o, Option{unescape(k), unescape(v)})
	}
	slices.SortStableFunc(o, byKey)
	last := 0
	for i := range o {
		if i+1 == len(o) || o[i+1].Key != o[i].Key {
			o[last] = o[i]
			last++
		}
	}
	return o[:last:last]
}

func byKey(a, b Option) int { return strings.Compare(a.Key, b.Key) }

// Get returns the value of key; ok says whether it is there.
func (o Options) Get(key string) (value string, ok bool) {
	// Options are few: walking is faster than a binary search.
	for i := range o {
		if o[i].Key == key {
			return o[i].Value, true
		}
	}
	return "", false
}

// Without returns the options whose key is none of keys. It may share memory with o.
func (o Options) Without(keys ...string) Options {
	drop := func(p Option) bool { return slices.Contains(keys, p.Key) }
	if !slices.ContainsFunc(o, drop) {
		return o
	}
	rest := slices.DeleteFunc(slices.Clone(o), drop)
	if len(rest) == 0 {
		return nil
	}
	return rest
}

// String returns the options as ParseOptions reads them, sorted by key.
func (o Options) String() string {
	var b strings.Builder
	for i, p := range o {
		if i > 0 {
			b.WriteByte(' ')
		}
		writeEscaped(&b, p.Key, " =")
		if p.Value != "" || p.Key == "" {
			b.WriteByte('=')
			writeEscaped(&b, p.Value, " ")
		}
	}
	return b.String()
}
