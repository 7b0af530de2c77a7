package proxy

import (
	"errors"
)

var optProto = option{
	name:   "proto",
	syntax: "proto=http|https|tcp",
	help:   "the protocol of the upstream: https speaks TLS to it, tcp makes a TCP route; without it the scheme of the destination decides",
	bind: func(u *upstream, value string) error {
		switch value {
		case "", "http", "tcp":
			return nil
		case "https":
			if u.scheme == "http" {
				u.scheme = "https"
			}
			return nil
		case "grpc", "grpcs":
			return errors.New("gRPC is not part of this version")
		}
		return errors.New("want http, https or tcp")
	},
}
