package proxy

import "errors"

// auth and grpcservername belong to features that this version does not have. They are known so that the reason is
// clear, and they refuse the target: a route that asks for a password is never served without one.

var optAuth = option{
	name:   "auth",
	syntax: "auth=NAME",
	help:   "HTTP basic authentication; not part of this version: the target is refused",
	bind: func(*upstream, string) error {
		return errors.New("authentication is not part of this version, and the target is not served without it")
	},
}

var optGRPCServerName = option{
	name:   "grpcservername",
	syntax: "grpcservername=NAME",
	help:   "TLS server name of a grpcs upstream; not part of this version: the target is refused",
	bind: func(*upstream, string) error {
		return errors.New("gRPC is not part of this version")
	},
}
