package proxy

import "errors"

var optTLSSkipVerify = option{
	name:   "tlsskipverify",
	syntax: "tlsskipverify=true",
	help:   "the certificate of an https upstream is not verified; anyone in between can read and change the traffic",
	bind: func(u *upstream, value string) error {
		switch value {
		case "true":
			u.skipVerify = true
		case "false":
		default:
			return errors.New("want true or false")
		}
		return nil
	},
}
