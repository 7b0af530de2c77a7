package proxy

import (
	"errors"
	"strconv"
	"strings"
)

// fabio's grammar for values with a structure: groups separated by ",", pairs of key=value in a group separated by
// ";". The first pair of a group may be a value without a key. Keys are trimmed. A value may be quoted, with " or ',
// and has Go's escapes then; unquoted it may contain "=". Empty pairs and groups are skipped.

// pair is one key=value; key is "" for a value without one.
type pair struct{ key, value string }

// pairs are a group, in the order they were written.
type pairs []pair

// String shows a group in error messages.
func (ps pairs) String() string {
	var words []string
	for _, p := range ps {
		if p.key == "" {
			words = append(words, p.value)
			continue
		}
		words = append(words, p.key+"="+p.value)
	}
	return strings.Join(words, ";")
}

// parsePairs reads all groups.
func parsePairs(s string) ([]pairs, error) {
	var groups []pairs
	var group pairs
	for {
		p, end, rest, err := parsePair(s, len(group) == 0)
		if err != nil {
			return nil, err
		}
		if p != (pair{}) {
			group = append(group, p)
		}
		if end != ';' && len(group) > 0 {
			groups = append(groups, group)
			group = nil
		}
		if end == 0 {
			return groups, nil
		}
		s = rest
	}
}

// parsePair reads one pair, which may be empty, and what ends it: "," or ";", or 0 for the end of s.
func parsePair(s string, first bool) (p pair, end byte, rest string, err error) {
	word, s, err := parseWord(s, ";,=")
	if err != nil {
		return pair{}, 0, "", err
	}
	word = strings.TrimSpace(word)
	if s == "" || s[0] != '=' {
		if word != "" && !first {
			return pair{}, 0, "", errors.New(strconv.Quote(word) + " has no value: want key=value")
		}
		p.value = word
	} else {
		if word == "" {
			return pair{}, 0, "", errors.New(`"=" has no key in front`)
		}
		p.key = word
		if p.value, s, err = parseWord(s[1:], ";,"); err != nil {
			return pair{}, 0, "", err
		}
	}
	if s == "" {
		return p, 0, "", nil
	}
	return p, s[0], s[1:], nil
}

// parseWord reads up to one of the bytes in stop, and through quotes at its beginning.
func parseWord(s, stop string) (word, rest string, err error) {
	s = strings.TrimLeft(s, " \t")
	if s != "" && (s[0] == '"' || s[0] == '\'') {
		if word, s, err = parseQuoted(s); err != nil {
			return "", "", err
		}
	}
	i := strings.IndexAny(s, stop)
	if i < 0 {
		i = len(s)
	}
	return word + s[:i], s[i:], nil
}

// parseQuoted reads the quoted string that s begins with.
func parseQuoted(s string) (text, rest string, err error) {
	quote := s[0]
	for i := 1; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case quote:
			text, err := unquote(s[1:i], quote)
			return text, s[i+1:], err
		}
	}
	return "", "", errors.New("unbalanced quotes")
}

// unquote reads Go's escapes. Between single quotes the two quotes change their parts.
func unquote(s string, quote byte) (string, error) {
	if quote == '\'' {
		s = strings.NewReplacer(`\\`, `\\`, `\'`, `'`, `\"`, `\"`, `"`, `\"`).Replace(s)
	}
	text, err := strconv.Unquote(`"` + s + `"`)
	if err != nil {
		return "", errors.New("invalid escape sequence")
	}
	return text, nil
}
