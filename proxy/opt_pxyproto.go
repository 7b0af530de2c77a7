package proxy

import "errors"

var optPxyProto = option{
	name:   "pxyproto",
	syntax: "pxyproto=true|v1|v2|false",
	help:   "a TCP upstream is told the client's address by a PROXY protocol header; true is v1; no effect on HTTP upstreams",
	bind: func(u *upstream, value string) error {
		switch value {
		case "true", "v1":
			u.proxyHeader = 1
		case "v2":
			u.proxyHeader = 2
		case "false":
			u.proxyHeader = 0
		default:
			return errors.New("want true, v1, v2 or false")
		}
		return nil
	},
}
