package proxy

import "errors"

// grpcservername belongs to gRPC, which this version does not have. It is known so that the reason is clear.
var optGRPCServerName = option{
	name:   "grpcservername",
	syntax: "grpcservername=NAME",
	help:   "TLS server name of a grpcs upstream; not part of this version: the target is refused",
	bind: func(*upstream, string) error {
		return errors.New("gRPC is not part of this version")
	},
}
