package registry

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/consul/api"
)

// guard stands between Consul's client and the network: it sends the token of the day, bounds each body, and turns
// every status that is not an answer into a *statusError. 404 goes through: it means "no such key".
type guard struct {
	next  http.RoundTripper
	token *token
	limit int64 // of a body
}

func (g *guard) RoundTrip(r *http.Request) (*http.Response, error) {
	if t := g.token.current(); t != "" {
		r = r.Clone(r.Context())
		r.Header.Set("X-Consul-Token", t)
	}
	resp, err := g.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	resp.Body = capBody(resp.Body, g.limit)
	if resp.StatusCode < 300 || resp.StatusCode == http.StatusNotFound {
		return resp, nil
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusForbidden {
		g.token.doubt()
	}
	text, _ := io.ReadAll(io.LimitReader(resp.Body, 200))
	return nil, &statusError{resp.StatusCode, retryAfter(resp.Header), strings.TrimSpace(string(text))}
}

// statusError is an answer that is not an answer. Text is the beginning of its body, hostile like all of it.
type statusError struct {
	Code  int
	After time.Duration // what Retry-After asks for
	Text  string
}

func (e *statusError) Error() string {
	switch {
	case e.Code/100 == 3:
		return fmt.Sprintf("answered %d; redirects are not followed", e.Code)
	case e.Text == "":
		return fmt.Sprintf("answered %d", e.Code)
	}
	return fmt.Sprintf("answered %d: %q", e.Code, e.Text)
}

// retryAfter reads Retry-After, seconds or a date.
func retryAfter(h http.Header) time.Duration {
	s := h.Get("Retry-After")
	if n, err := strconv.ParseUint(s, 10, 32); err == nil {
		return min(time.Duration(n)*time.Second, maxRetryAfter)
	}
	if t, err := http.ParseTime(s); err == nil {
		return min(max(time.Until(t), 0), maxRetryAfter)
	}
	return 0
}

// askedPause returns the pause that err asks for, 0 when it asks for none.
func askedPause(err error) time.Duration {
	if s, ok := errors.AsType[*statusError](err); ok {
		return s.After
	}
	return 0
}

// cause shortens an error to what an operator needs and what stays the same from try to try: no URL, no local port.
func cause(err error) string {
	if s, ok := errors.AsType[*statusError](err); ok {
		return s.Error()
	}
	if s, ok := errors.AsType[api.StatusError](err); ok {
		return (&statusError{Code: s.Code, Text: s.Body[:min(len(s.Body), 200)]}).Error()
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return "no answer in time"
	}
	if o, ok := errors.AsType[*net.OpError](err); ok {
		if o.Op == "dial" {
			return o.Error()
		}
		return o.Err.Error()
	}
	if u, ok := errors.AsType[*url.Error](err); ok {
		return u.Err.Error()
	}
	return err.Error()
}

// cappedBody fails a body that is too long, instead of ending it.
type cappedBody struct {
	io.ReadCloser
	limit, left int64
}

func capBody(b io.ReadCloser, limit int64) *cappedBody { return &cappedBody{b, limit, limit} }

func (b *cappedBody) Read(p []byte) (int, error) {
	if b.left <= 0 {
		// One byte more tells a body of exactly the limit from a longer one.
		var one [1]byte
		if n, err := b.ReadCloser.Read(one[:]); n == 0 {
			return 0, err
		}
		return 0, fmt.Errorf("answer longer than %d KiB", b.limit>>10)
	}
	n, err := b.ReadCloser.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	return n, err
}
