package proxy

import (
	"errors"
	"strings"
)

var optStrip = option{
	name:   "strip",
	syntax: "strip=/PREFIX",
	help:   "the prefix is cut from the path that the upstream gets; X-Forwarded-Prefix tells it",
	bind: func(u *upstream, value string) error {
		if err := checkPathOption(value); err != nil {
			return err
		}
		u.strip, u.stripValues = value, []string{value}
		return nil
	},
}

// checkPathOption refuses what could not stand in a request line or header.
func checkPathOption(value string) error {
	if !strings.HasPrefix(value, "/") {
		return errors.New("want a path that starts with /")
	}
	for i := range len(value) {
		if c := value[i]; c <= ' ' || c >= 0x7f || c == '#' || c == '?' || c == '\\' {
			return errors.New("want a path without white space, control characters, \\, ? and #")
		}
	}
	if _, err := parsePath(value); err != nil {
		return err
	}
	if hasDots(value) {
		return errors.New("want a path without . and .. segments")
	}
	return nil
}
