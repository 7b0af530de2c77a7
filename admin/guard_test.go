package admin

import (
	"net/http"
	"os"
	"strings"
	"testing"

	"varco/registry"
)

// TestAccess asks for each path in each mode, with and without ui.path: fabio's cases, and those that varco adds.
func TestAccess(t *testing.T) {
	type codes struct{ ro, rw int }
	paths := map[string]codes{
		"/api/manual":         {403, 200},
		"/api/manual/sub":     {403, 200},
		"/api/paths":          {403, 200},
		"/api/config":         {200, 200},
		"/api/routes":         {200, 200},
		"/api/version":        {200, 200},
		"/manual":             {403, 200},
		"/manual/sub":         {403, 200},
		"/routes":             {200, 200},
		"/assets/logo.svg":    {200, 200},
		"/assets/logo.bw.svg": {200, 200},
		"/":                   {303, 303},
		"/nowhere":            {303, 303},

		"/problems":          {200, 200},
		"/config":            {200, 200},
		"/api/table":         {200, 200},
		"/api/problems":      {200, 200},
		"/api/info":          {200, 200},
		"/api/validate":      {403, 405},
		"/api":               {404, 404},
		"/api/":              {404, 404},
		"/api/nowhere":       {404, 404},
		"/api/routes/":       {404, 404},
		"/assets":            {404, 404},
		"/assets/nowhere":    {404, 404},
		"/assets/index.html": {404, 404},
	}
	for _, base := range []string{"", "/fabio", "/a/b"} {
		for _, access := range []string{"ro", "rw"} {
			s := newServer(t, testConfig(t, func(c *Config) { c.Access, c.Path = access, base }), Deps{Overrides: &memory{}})
			h := s.Handler()
			for path, codes := range paths {
				want := codes.ro
				if access == "rw" {
					want = codes.rw
				}
				w := ask(h, "GET", base+path, "")
				if w.Code != want {
					t.Errorf("%s: GET %s = %d, want %d", access, base+path, w.Code, want)
				}
				if got := w.Header().Get("Location"); w.Code == 303 && got != base+"/routes" {
					t.Errorf("%s: GET %s: Location = %q, want %q", access, base+path, got, base+"/routes")
				}
				if w.Code == 403 && w.Body.String() != "Forbidden\n" {
					t.Errorf("%s: GET %s: body = %q, want Forbidden", access, base+path, w.Body)
				}
			}
			for path, want := range map[string]int{"/health": 200, "/favicon.ico": 404, "/metrics": 404} {
				if w := ask(h, "GET", path, ""); w.Code != want {
					t.Errorf("%s: GET %s = %d, want %d", access, path, w.Code, want)
				}
			}
			if base != "" {
				for _, path := range []string{"/", "/routes", "/api/routes", base} {
					if w := ask(h, "GET", path, ""); w.Code != 303 || w.Header().Get("Location") != base+"/routes" {
						t.Errorf("GET %s = %d, want 303 to %s/routes", path, w.Code, base)
					}
				}
			}
		}
	}
}

// TestMethods sends every method to every endpoint: nothing is written in ro mode or without the token, and a method
// that an endpoint does not have is 405.
func TestMethods(t *testing.T) {
	all := []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT", "PROPFIND", "get"}
	for _, access := range []string{"ro", "rw"} {
		store := &memory{}
		s := newServer(t, testConfig(t, func(c *Config) { c.Access, c.Token = access, registry.NewSecret("sesam") }), Deps{Overrides: store})
		h := s.Handler()
		for _, e := range s.endpoints() {
			for _, method := range all {
				want := http.StatusMethodNotAllowed
				switch {
				case e.edits && access == "ro":
					want = 403
				case e.methods[method] != nil && method != "GET":
					want = 401
				case method == "GET" || method == "HEAD":
					continue // TestAccess
				}
				for _, headers := range [][]string{
					{jsonBody},
					{jsonBody, "Authorization: Bearer wrong"},
					{jsonBody, "Authorization: Basic sesam"},
					{jsonBody, "Authorization: sesam"},
					{jsonBody, "X-HTTP-Method-Override: GET", "X-Method-Override: GET", "X-HTTP-Method: GET"},
				} {
					w := ask(h, method, e.path, `{"value":""}`, headers...)
					if w.Code != want {
						t.Errorf("%s: %s %s %q = %d, want %d", access, method, e.path, headers, w.Code, want)
					}
					if w.Code == 405 && w.Header().Get("Allow") == "" {
						t.Errorf("%s %s: no Allow header", method, e.path)
					}
				}
			}
		}
		for _, override := range []string{"X-HTTP-Method-Override", "X-Method-Override", "X-HTTP-Method"} {
			ask(h, "GET", "/api/manual?_method=PUT", `{"value":"x"}`, jsonBody, override+": PUT", "Authorization: Bearer sesam")
		}
		if store.puts != 0 {
			t.Errorf("%s: %d writes got through", access, store.puts)
		}
	}
}

func TestAllowNamesTheMethods(t *testing.T) {
	h := newServer(t, testConfig(t), Deps{}).Handler()
	for path, want := range map[string]string{
		"/api/routes":   "GET, HEAD",
		"/api/manual":   "DELETE, GET, HEAD, PUT",
		"/api/validate": "POST",
	} {
		if got := ask(h, "PATCH", path, "").Header().Get("Allow"); got != want {
			t.Errorf("PATCH %s: Allow = %q, want %q", path, got, want)
		}
	}
}

// TestPathTricks spells the paths that ro mode closes in other ways.
func TestPathTricks(t *testing.T) {
	store := &memory{keys: map[string]registry.Manual{"": {Value: "secret overrides", Version: 1}}}
	h := newServer(t, testConfig(t, func(c *Config) { c.Access = "ro" }), Deps{Overrides: store}).Handler()
	for _, path := range []string{
		"/api/../api/manual", "/api/./manual", "//api/manual", "/api//manual", "/%61pi/manual", "/api%2Fmanual",
		"/api/%6Danual", "/api/manual/", "/api/manual/..", "/api/manual/../paths", "/api/routes/../manual",
		"/api/routes%2f..%2fmanual", "/API/manual", "/api/manual;x", "/api/manual%00", "/api/manual%20", "/api\\manual",
		"/routes/../manual", "/assets/../api/manual", "/assets/..%2fapi%2fmanual", "/health/../api/manual",
		"/metrics/../api/manual", "/api/manual%2F", "/api/manual?x", "/api/manual/a/../../manual",
	} {
		for _, method := range []string{"GET", "PUT", "POST", "DELETE"} {
			w := ask(h, method, path, `{"value":"x"}`, jsonBody)
			if w.Code == 200 || strings.Contains(w.Body.String(), "secret overrides") {
				t.Errorf("%s %s = %d %q, want a refusal", method, path, w.Code, w.Body)
			}
		}
	}
	if store.puts > 0 {
		t.Error("a write got through")
	}
}

func TestHostAllowList(t *testing.T) {
	machine, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	h := newServer(t, testConfig(t, func(c *Config) {
		c.Hosts = []string{"admin.example.com", "*.internal.example"}
	}), Deps{}).Handler()
	for host, want := range map[string]int{
		"localhost":                   200,
		"localhost:9998":              200,
		"LOCALHOST.":                  200,
		"varco.localhost":             200,
		"127.0.0.1:9998":              200,
		"10.1.2.3":                    200,
		"[::1]:9998":                  200,
		"[::1]":                       200,
		"[fe80::1%25eth0]:9998":       200,
		machine + ":9998":             200,
		"admin.example.com":           200,
		"Admin.Example.COM:9998":      200,
		"a.internal.example":          200,
		"a.b.internal.example:1":      200,
		"internal.example":            421,
		".internal.example":           421,
		"x-internal.example":          421,
		"admin.example.com.evil.test": 421,
		"evil.test":                   421,
		"evil.test:9998":              421,
		"127.0.0.1.evil.test":         421,
		"localhost.evil.test":         421,
		"localhost evil":              421,
		"":                            421,
	} {
		if w := ask(h, "GET", "/api/version", "", "Host: "+host); w.Code != want {
			t.Errorf("Host %q = %d, want %d", host, w.Code, want)
		}
		if w := ask(h, "GET", "/health", "", "Host: "+host); w.Code != 200 {
			t.Errorf("/health with Host %q = %d, want 200", host, w.Code)
		}
	}
	w := ask(h, "GET", "/metrics", "", "Host: prometheus.example")
	if w.Code != 421 || !strings.Contains(w.Body.String(), "ui.hosts") {
		t.Errorf("/metrics under a strange name = %d %q, want 421 and the flag to set", w.Code, w.Body)
	}
}

func TestHostOfAddrIsAllowed(t *testing.T) {
	h := newServer(t, testConfig(t, func(c *Config) { c.Addr = "router.example.net:9998" }), Deps{}).Handler()
	if w := ask(h, "GET", "/api/version", "", "Host: router.example.net:9998"); w.Code != 200 {
		t.Errorf("host of ui.addr = %d, want 200", w.Code)
	}
}

// TestCrossOriginWrites sends what a browser sends when a page of another origin tries to write.
func TestCrossOriginWrites(t *testing.T) {
	store := &memory{}
	h := newServer(t, testConfig(t), Deps{Overrides: store}).Handler()
	for _, tt := range []struct {
		name    string
		headers []string
		want    int
	}{
		{"curl", nil, 200},
		{"own page", []string{"Sec-Fetch-Site: same-origin", "Origin: http://localhost:9998"}, 200},
		{"own page, old browser", []string{"Origin: http://localhost:9998"}, 200},
		{"other page", []string{"Sec-Fetch-Site: cross-site", "Origin: http://evil.test"}, 403},
		{"other port", []string{"Sec-Fetch-Site: same-site", "Origin: http://localhost:8080"}, 403},
		{"other page, old browser", []string{"Origin: http://evil.test"}, 403},
		{"sandboxed frame", []string{"Origin: null"}, 403},
	} {
		for _, method := range []string{"PUT", "DELETE"} {
			w := ask(h, method, "/api/manual/x?version=0", `{"value":""}`, append(tt.headers, jsonBody)...)
			if method == "DELETE" && tt.want == 200 {
				continue // CAS decides
			}
			if w.Code != tt.want {
				t.Errorf("%s: %s = %d, want %d", tt.name, method, w.Code, tt.want)
			}
			store.keys = nil
		}
		if w := ask(h, "GET", "/routes", "", tt.headers...); w.Code != 200 {
			t.Errorf("%s: GET = %d, want 200", tt.name, w.Code)
		}
	}
	for _, contentType := range []string{"", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "application/jsonx", "text/plain; application/json"} {
		if w := ask(h, "PUT", "/api/manual", `{"value":""}`, "Content-Type: "+contentType); w.Code != 415 {
			t.Errorf("PUT with Content-Type %q = %d, want 415", contentType, w.Code)
		}
	}
	if w := ask(h, "PUT", "/api/manual", `{"value":""}`, "Content-Type: application/json; charset=utf-8"); w.Code != 200 {
		t.Errorf("PUT with a charset = %d, want 200", w.Code)
	}
}

func TestToken(t *testing.T) {
	h := newServer(t, testConfig(t, func(c *Config) { c.Token = registry.NewSecret("sesam") }), Deps{Overrides: &memory{}}).Handler()
	for auth, want := range map[string]int{
		"":               401,
		"Bearer":         401,
		"Bearer ":        401,
		"Bearer wrong":   401,
		"Bearer sesam ":  401,
		"Bearer SESAM":   401,
		"Basic sesam":    401,
		"Bearer sesam":   200,
		"bearer sesam":   200,
		"Bearer  sesam":  401,
		"Bearer sesam\t": 401,
	} {
		w := ask(h, "POST", "/api/validate", `{"value":""}`, jsonBody, "Authorization: "+auth)
		if w.Code != want {
			t.Errorf("Authorization %q = %d, want %d", auth, w.Code, want)
		}
		if w.Code == 401 && !strings.HasPrefix(w.Header().Get("WWW-Authenticate"), "Bearer ") {
			t.Errorf("Authorization %q: WWW-Authenticate = %q, want Bearer", auth, w.Header().Get("WWW-Authenticate"))
		}
	}
	if w := ask(h, "GET", "/api/manual", ""); w.Code != 200 {
		t.Errorf("reading without a token = %d, want 200", w.Code)
	}
}

// TestHeaders wants the protecting headers on every kind of answer.
func TestHeaders(t *testing.T) {
	h := newServer(t, testConfig(t), Deps{}).Handler()
	for _, path := range []string{"/routes", "/api/routes", "/api/routes?raw", "/api/table", "/api/nowhere", "/nowhere", "/assets/app.js", "/health", "/metrics", "/api/validate"} {
		for _, host := range []string{"localhost", "evil.test"} {
			got := ask(h, "GET", path, "", "Host: "+host).Header()
			for name, want := range map[string]string{
				"X-Content-Type-Options":       "nosniff",
				"X-Frame-Options":              "DENY",
				"Referrer-Policy":              "no-referrer",
				"Cross-Origin-Opener-Policy":   "same-origin",
				"Cross-Origin-Resource-Policy": "same-origin",
			} {
				if got.Get(name) != want {
					t.Errorf("%s (%s): %s = %q, want %q", path, host, name, got.Get(name), want)
				}
			}
			for _, want := range []string{"default-src 'none'", "script-src 'self'", "style-src 'self'", "connect-src 'self'", "frame-ancestors 'none'", "base-uri 'none'", "form-action 'none'"} {
				if !strings.Contains(got.Get("Content-Security-Policy"), want) {
					t.Errorf("%s (%s): policy %q lacks %s", path, host, got.Get("Content-Security-Policy"), want)
				}
			}
			if strings.Contains(got.Get("Content-Security-Policy"), "unsafe") {
				t.Errorf("%s: the policy allows something unsafe", path)
			}
			if cache := got.Get("Cache-Control"); cache != "no-store" && cache != "no-cache" {
				t.Errorf("%s (%s): Cache-Control = %q", path, host, cache)
			}
			if got.Get("Access-Control-Allow-Origin") != "" {
				t.Errorf("%s: other origins may read", path)
			}
		}
	}
}

func TestMetricsHasItsPath(t *testing.T) {
	metrics := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte("up 1\n")) })
	h := newServer(t, testConfig(t, func(c *Config) { c.Path = "/fabio" }), Deps{Metrics: metrics, MetricsPath: "/stats"}).Handler()
	if w := ask(h, "GET", "/stats", ""); w.Code != 200 || w.Body.String() != "up 1\n" {
		t.Errorf("GET /stats = %d %q, want the metrics", w.Code, w.Body)
	}
}
