package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode"

	"varco/registry"
	"varco/route"
)

// maxOverrides is what Consul keeps under one key.
const maxOverrides = 512 << 10

// registryTimeout bounds one question to the registry.
const registryTimeout = 10 * time.Second

// manual is an overrides text as the API shows and takes it.
type manual struct {
	// Value is nil when a request has none; taking that for "" would delete every line for the sake of a typo.
	Value   *string `json:"value"`
	Version version `json:"version"`
}

// version is a version of an overrides text. fabio writes it as a string; a number is taken, too.
type version uint64

// MarshalJSON writes a string.
func (v version) MarshalJSON() ([]byte, error) {
	return json.Marshal(strconv.FormatUint(uint64(v), 10))
}

// UnmarshalJSON reads a string or a number; "" and null are 0.
func (v *version) UnmarshalJSON(b []byte) error {
	text := strings.Trim(string(b), `"`)
	if text == "" || text == "null" {
		*v = 0
		return nil
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return errors.New("version: want a whole number, as GET gave it")
	}
	*v = version(n)
	return nil
}

// findings is the answer about an overrides text: empty problems mean that it is good.
type findings struct {
	Error    string    `json:"error,omitempty"`
	Problems []finding `json:"problems"`
}

// finding is one bad line.
type finding struct {
	Line   int    `json:"line"`
	Column int    `json:"column"`
	Text   string `json:"text"`
	Reason string `json:"reason"`
	Hint   string `json:"hint,omitempty"`
}

func newFindings(problems []route.Problem) findings {
	f := findings{Problems: []finding{}}
	for _, p := range problems {
		f.Problems = append(f.Problems, finding{p.Origin.Line, p.Origin.Column, clip(p.Text), p.Reason, p.Hint})
	}
	return f
}

// apiPaths lists the keys that hold overrides, relative to the registry's own, "" for that one; null when there are
// none, as fabio has it.
func (s *Server) apiPaths(w http.ResponseWriter, r *http.Request, _ string) {
	var paths []string
	if s.deps.Overrides != nil {
		ctx, cancel := context.WithTimeout(r.Context(), registryTimeout)
		defer cancel()
		var err error
		paths, err = s.deps.Overrides.Paths(ctx)
		if err != nil && !errors.Is(err, registry.ErrNoOverrides) {
			s.registryFailed(w, "list", "", err)
			return
		}
	}
	writeJSON(w, r, http.StatusOK, paths)
}

// apiManualGet answers with an overrides text and its version. A key that does not exist is an empty text.
func (s *Server) apiManualGet(w http.ResponseWriter, r *http.Request, sub string) {
	key, err := manualKey(sub)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	var m registry.Manual
	if s.deps.Overrides != nil {
		ctx, cancel := context.WithTimeout(r.Context(), registryTimeout)
		defer cancel()
		m, err = s.deps.Overrides.Get(ctx, key)
		if err != nil && !errors.Is(err, registry.ErrNoOverrides) {
			s.registryFailed(w, "read", key, err)
			return
		}
	}
	writeJSON(w, r, http.StatusOK, manual{&m.Value, version(m.Version)})
}

// apiManualPut saves an overrides text if every line of it is good and nobody has saved another one since its version
// was read.
func (s *Server) apiManualPut(w http.ResponseWriter, r *http.Request, sub string) {
	key, err := manualKey(sub)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	m, ok := s.readManual(w, r)
	if !ok {
		return
	}
	if s.deps.Overrides == nil {
		http.Error(w, "the registry backend keeps no overrides", http.StatusConflict)
		return
	}
	if problems := s.check(*m.Value, source(key)); len(problems) > 0 {
		f := newFindings(problems)
		f.Error = fmt.Sprintf("not saved: %s", count(len(problems), "problem"))
		writeJSON(w, r, http.StatusBadRequest, f)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), registryTimeout)
	defer cancel()
	err = s.deps.Overrides.Put(ctx, key, registry.Manual{Value: *m.Value, Version: uint64(m.Version)})
	s.finishWrite(w, r, "save", key, err)
}

// apiManualDelete removes a key if it still has the version in the query.
func (s *Server) apiManualDelete(w http.ResponseWriter, r *http.Request, sub string) {
	key, err := manualKey(sub)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if s.deps.Overrides == nil {
		http.Error(w, "the registry backend keeps no overrides", http.StatusConflict)
		return
	}
	n, err := strconv.ParseUint(r.URL.Query().Get("version"), 10, 64)
	if err != nil {
		http.Error(w, "want ?version= with the version that GET gave", http.StatusBadRequest)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), registryTimeout)
	defer cancel()
	s.finishWrite(w, r, "delete", key, s.deps.Overrides.Delete(ctx, key, n))
}

// apiValidate says what is wrong with an overrides text, and changes nothing.
func (s *Server) apiValidate(w http.ResponseWriter, r *http.Request, _ string) {
	m, ok := s.readManual(w, r)
	if !ok {
		return
	}
	writeJSON(w, r, http.StatusOK, newFindings(s.check(*m.Value, source(""))))
}

// check answers what is wrong with an overrides text. With a large table that is work: one core does it at most.
func (s *Server) check(text, source string) []route.Problem {
	s.checking.Lock()
	defer s.checking.Unlock()
	return s.deps.Validate(text, source)
}

// readManual reads the body of a write, or answers why it cannot be used.
func (s *Server) readManual(w http.ResponseWriter, r *http.Request) (m manual, ok bool) {
	d := json.NewDecoder(r.Body)
	err := d.Decode(&m)
	if err == nil {
		if _, end := d.Token(); end != io.EOF {
			err = errors.New("more than one value")
		}
	}
	if tooLong := new(http.MaxBytesError); errors.As(err, &tooLong) || m.Value != nil && len(*m.Value) > maxOverrides {
		http.Error(w, "the text is longer than 512 KiB", http.StatusRequestEntityTooLarge)
		return manual{}, false
	}
	if err != nil {
		http.Error(w, fmt.Sprintf("the body is not the JSON that is wanted: %v", err), http.StatusBadRequest)
		return manual{}, false
	}
	if m.Value == nil {
		http.Error(w, `the body has no "value"`, http.StatusBadRequest)
		return manual{}, false
	}
	return m, true
}

// finishWrite answers a write and keeps a trace of it.
func (s *Server) finishWrite(w http.ResponseWriter, r *http.Request, verb, key string, err error) {
	switch {
	case errors.Is(err, registry.ErrConflict):
		http.Error(w, "version mismatch", http.StatusConflict)
	case err != nil:
		s.registryFailed(w, verb, key, err)
	default:
		s.log.Info("overrides changed", "what", verb, "key", key, "client", r.RemoteAddr)
	}
}

func (s *Server) registryFailed(w http.ResponseWriter, verb, key string, err error) {
	status := http.StatusInternalServerError
	switch {
	case errors.Is(err, registry.ErrPath):
		status = http.StatusBadRequest
	case errors.Is(err, registry.ErrTooLarge):
		status = http.StatusRequestEntityTooLarge
	case errors.Is(err, registry.ErrNoOverrides):
		status = http.StatusConflict
	default:
		s.log.Warn("overrides not reached", "what", verb, "key", key, "err", err)
	}
	http.Error(w, err.Error(), status)
}

// manualKey decodes what follows /api/manual. Parts that a registry's own HTTP API would take for a step up or leave
// out are refused: the key that is checked is the key that is used.
func manualKey(sub string) (string, error) {
	key, err := url.PathUnescape(sub)
	if err != nil {
		return "", errors.New("the key is not properly encoded")
	}
	if strings.ContainsFunc(key, unicode.IsControl) {
		return "", errors.New("the key has a control character")
	}
	parts := strings.Split(strings.TrimPrefix(key, "/"), "/")
	for i, part := range parts {
		if part == "." || part == ".." || part == "" && i < len(parts)-1 {
			return "", fmt.Errorf("the key has a part %q", part)
		}
	}
	return key, nil
}

// source names an overrides key in messages.
func source(key string) string {
	if key == "" {
		return "overrides"
	}
	return "overrides" + key
}

func count(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}
