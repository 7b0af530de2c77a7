package proxy

import (
	"errors"
	"strings"
)

var optPrepend = option{
	name:   "prepend",
	syntax: "prepend=/PREFIX",
	help:   "the prefix is put in front of the path that the upstream gets, after strip",
	bind: func(u *upstream, value string) error {
		if !strings.HasPrefix(value, "/") {
			value = "/" + value
		}
		if err := checkPathOption(value); err != nil {
			return err
		}
		if strings.HasPrefix(value, "//") {
			return errors.New("want a path that starts with one /")
		}
		u.prepend = strings.TrimSuffix(value, "/")
		return nil
	},
}
