//go:build http1poison

package http1

// Under this build tag what is given back is overwritten first, so that code that keeps a request, a header map or a
// response longer than it may reads rubbish and its tests fail.

const poisoned = "http1: used after it was given back"

func poison(x *exchange) {
	for k, vv := range x.hdr {
		for i := range vv {
			vv[i] = poisoned
		}
		x.hdr[k] = vv
	}
	if r := x.req; r != nil {
		r.Method, r.Host, r.RequestURI, r.RemoteAddr = poisoned, poisoned, poisoned, poisoned
		r.URL, r.Header, r.Body = nil, nil, nil
	}
	x.url.Path, x.url.RawQuery = poisoned, poisoned
}

func poisonResponse(u *upConn) {
	for k, vv := range u.hdr {
		for i := range vv {
			vv[i] = poisoned
		}
		u.hdr[k] = vv
	}
	u.resp.Status, u.resp.StatusCode, u.resp.Header = poisoned, -1, nil
}
