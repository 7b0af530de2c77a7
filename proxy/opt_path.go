package proxy

import "errors"

var optPath = option{
	name:   "path",
	syntax: "path=raw",
	help:   "paths that servers read in different ways (backslash, encoded slash beside a dot segment, \";\" in a dot segment, raw 8-bit) are forwarded instead of getting 400",
	bind: func(u *upstream, value string) error {
		if value != "raw" {
			return errors.New("want raw")
		}
		u.rawPath = true
		return nil
	},
}
