package admin

import (
	"fmt"
	"net/http"
)

// health answers OK once there is a complete routing table, until draining begins. Trouble with the registry later on
// does not make it fail: the last good routes keep working.
func (s *Server) health(w http.ResponseWriter, _ *http.Request) {
	if s.draining.Load() {
		http.Error(w, "draining", http.StatusServiceUnavailable)
		return
	}
	if s.deps.Ready != nil {
		if err := s.deps.Ready(); err != nil {
			http.Error(w, "not ready: "+err.Error(), http.StatusServiceUnavailable)
			return
		}
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	fmt.Fprintln(w, "OK")
}

// metrics serves Deps.Metrics.
func (s *Server) metrics(w http.ResponseWriter, r *http.Request, _ string) {
	if s.deps.Metrics == nil {
		http.Error(w, "not found", http.StatusNotFound)
		return
	}
	s.deps.Metrics.ServeHTTP(w, r)
}
