package proxy

import (
	"errors"
	"net"
)

var optHost = option{
	name:   "host",
	syntax: "host=NAME|dst",
	help:   "the Host header that the upstream gets; dst is the host of the destination; for https upstreams also the name in the TLS handshake and the certificate",
	bind: func(u *upstream, value string) error {
		if value == "dst" {
			u.host = u.target.URL.Host
			return nil
		}
		if !validHost(value) {
			return errors.New("want dst or host[:port]")
		}
		u.host, u.sni = value, value
		if name, _, err := net.SplitHostPort(value); err == nil {
			u.sni = name
		}
		return nil
	},
}
