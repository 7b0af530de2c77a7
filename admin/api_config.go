package admin

import (
	"io"
	"net/http"
	"time"
)

// apiConfig lists every setting with its value, where that came from, and its default.
func (s *Server) apiConfig(w http.ResponseWriter, r *http.Request, _ string) {
	settings := []Setting{}
	if s.deps.Config != nil {
		settings = append(settings, s.deps.Config()...)
	}
	writeJSON(w, r, http.StatusOK, settings)
}

// apiVersion answers with the bare version, without a line end, as fabio does.
func (s *Server) apiVersion(w http.ResponseWriter, _ *http.Request, _ string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	io.WriteString(w, s.deps.Version)
}

// info is what the page needs to know once.
type info struct {
	Version string    `json:"version"`
	Started time.Time `json:"started"`
	Title   string    `json:"title"`
	Access  string    `json:"access"`
	// Token says that a write needs one.
	Token bool `json:"token"`
	// Overrides says that the registry backend keeps overrides.
	Overrides bool     `json:"overrides"`
	Link      linkInfo `json:"link"`
	Options   []Help   `json:"options"`
}

type linkInfo struct {
	Enabled bool   `json:"enabled"`
	NewTab  bool   `json:"newtab"`
	Scheme  string `json:"scheme"`
	Host    string `json:"host"`
	Port    string `json:"port"`
}

func (s *Server) apiInfo(w http.ResponseWriter, r *http.Request, _ string) {
	writeJSON(w, r, http.StatusOK, info{
		Version:   s.deps.Version,
		Started:   s.started,
		Title:     s.config.Title,
		Access:    s.config.Access,
		Token:     !s.config.Token.IsZero(),
		Overrides: s.deps.Overrides != nil,
		Link: linkInfo{
			Enabled: s.config.Source.Enabled,
			NewTab:  s.config.Source.NewTab,
			Scheme:  s.config.Source.Scheme,
			Host:    s.config.Source.Host,
			Port:    s.config.Source.Port,
		},
		Options: append([]Help{}, s.deps.Options...),
	})
}
