package admin

import (
	"maps"
	"net/http"
	"slices"
	"strings"
)

// handler answers a request that the guard let pass. sub is what follows the endpoint's path, in its encoded form: ""
// or a text that begins with "/".
type handler func(w http.ResponseWriter, r *http.Request, sub string)

// endpoint is one place of the API or the page.
type endpoint struct {
	path string
	// subtree hands paths below path to the endpoint, too.
	subtree bool
	// edits marks what is part of editing the overrides: 403 when ui.access is ro, reading included.
	edits   bool
	methods methods
}

// methods are the methods that an endpoint has; HEAD comes with GET.
type methods map[string]handler

// allow is the Allow header.
func (e *endpoint) allow() string {
	names := slices.Sorted(maps.Keys(e.methods))
	if i := slices.Index(names, http.MethodGet); i >= 0 {
		names = slices.Insert(names, i+1, http.MethodHead)
	}
	return strings.Join(names, ", ")
}

// endpoints lists all of them. A longer path stands before its prefix.
func (s *Server) endpoints() []endpoint {
	get := func(h handler) methods { return methods{http.MethodGet: h} }
	list := []endpoint{
		{path: "/routes", methods: get(s.page.html)},
		{path: "/problems", methods: get(s.page.html)},
		{path: "/config", methods: get(s.page.html)},
		{path: "/manual", subtree: true, edits: true, methods: get(s.page.html)},
		{path: "/assets", subtree: true, methods: get(s.page.asset)},

		{path: "/api/routes", methods: get(s.apiRoutes)},
		{path: "/api/table", methods: get(s.apiTable)},
		{path: "/api/problems", methods: get(s.apiProblems)},
		{path: "/api/config", methods: get(s.apiConfig)},
		{path: "/api/version", methods: get(s.apiVersion)},
		{path: "/api/info", methods: get(s.apiInfo)},
		{path: "/api/paths", edits: true, methods: get(s.apiPaths)},
		{path: "/api/manual", subtree: true, edits: true, methods: methods{
			http.MethodGet:    s.apiManualGet,
			http.MethodPut:    s.apiManualPut,
			http.MethodDelete: s.apiManualDelete,
		}},
		{path: "/api/validate", edits: true, methods: methods{http.MethodPost: s.apiValidate}},
	}
	for i := range list {
		list[i].path = s.config.Path + list[i].path
	}
	// Not below ui.path, so that a scraper's configuration does not depend on it; the same goes for /health.
	list = append(list, endpoint{path: s.deps.MetricsPath, methods: get(s.metrics)})
	// fabio has none either; browsers are told of /assets/logo.svg.
	return append(list, endpoint{path: "/favicon.ico", methods: get(func(w http.ResponseWriter, _ *http.Request, _ string) {
		http.Error(w, "not found", http.StatusNotFound)
	})})
}
