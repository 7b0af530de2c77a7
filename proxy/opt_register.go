package proxy

import (
	"errors"
	"strings"
	"unicode"
)

var optRegister = option{
	name:   "register",
	syntax: "register=NAME",
	help:   "varco registers itself in Consul under this service name too, as long as the route exists",
	bind: func(u *upstream, value string) error {
		if value == "" || strings.ContainsFunc(value, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }) {
			return errors.New("want the name of a service")
		}
		u.alias = value
		return nil
	},
}
