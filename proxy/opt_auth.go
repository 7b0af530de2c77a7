package proxy

import "errors"

// auth belongs to a feature that this version does not have. It is known so that the reason is clear, and it refuses
// the target: a route that asks for a password is never served without one.

var optAuth = option{
	name:   "auth",
	syntax: "auth=NAME",
	help:   "HTTP basic authentication; not part of this version: the target is refused",
	bind: func(*upstream, string) error {
		return errors.New("authentication is not part of this version, and the target is not served without it")
	},
}
