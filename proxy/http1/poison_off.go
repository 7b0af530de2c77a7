//go:build !http1poison

package http1

func poison(*exchange) {}

func poisonResponse(*upConn) {}
