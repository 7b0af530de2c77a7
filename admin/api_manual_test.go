package admin

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"varco/registry"
	"varco/route"
)

type manualAnswer struct{ Value, Version string }

func readManual(t *testing.T, w *httptest.ResponseRecorder) manualAnswer {
	t.Helper()
	wantStatus(t, w, 200)
	var m manualAnswer
	if err := json.Unmarshal(w.Body.Bytes(), &m); err != nil {
		t.Fatalf("body %q: %v", w.Body, err)
	}
	return m
}

func TestManualRoundTrip(t *testing.T) {
	store := &memory{last: 41}
	h := newServer(t, testConfig(t), Deps{Overrides: store}).Handler()
	if got := ask(h, "GET", "/api/manual", "").Body.String(); got != `{"value":"","version":"0"}` {
		t.Errorf("GET of nothing = %s", got)
	}
	if got := ask(h, "GET", "/api/paths", "").Body.String(); got != `null` {
		t.Errorf("paths of nothing = %s, want null", got)
	}
	text := "# <b>bold</b>\nroute add a /a http://10.0.0.1/\n"
	body, _ := json.Marshal(map[string]string{"value": text, "version": "0"})
	w := ask(h, "PUT", "/api/manual", string(body), jsonBody)
	if w.Code != 200 || w.Body.Len() > 0 {
		t.Fatalf("PUT = %d %q, want 200 and nothing", w.Code, w.Body)
	}
	if got, want := readManual(t, ask(h, "GET", "/api/manual", "")), (manualAnswer{text, "42"}); got != want {
		t.Errorf("GET = %+v, want %+v", got, want)
	}
	// A version may be a number, and a new key needs none.
	wantStatus(t, ask(h, "PUT", "/api/manual", `{"value":"","version":42}`, jsonBody), 200)
	wantStatus(t, ask(h, "PUT", "/api/manual/team/a%20b", `{"value":""}`, jsonBody), 200)
	wantStatus(t, ask(h, "PUT", "/api/manual/q%3F?pretty", `{"value":"","version":""}`, jsonBody), 200)
	if got := ask(h, "GET", "/api/paths", "").Body.String(); got != `["","/q?","/team/a b"]` {
		t.Errorf("paths = %s", got)
	}
	if got := ask(h, "GET", "/api/manual/team/a%20b?pretty", "").Body.String(); got != "{\n    \"value\": \"\",\n    \"version\": \"44\"\n}" {
		t.Errorf("pretty = %s", got)
	}
}

func TestManualConflicts(t *testing.T) {
	store := &memory{last: 7, keys: map[string]registry.Manual{"": {Value: "# one", Version: 7}}}
	h := newServer(t, testConfig(t), Deps{Overrides: store}).Handler()
	for _, version := range []string{"0", "6", "8", "18446744073709551615"} {
		w := ask(h, "PUT", "/api/manual", `{"value":"# two","version":"`+version+`"}`, jsonBody)
		if w.Code != 409 || w.Body.String() != "version mismatch\n" {
			t.Errorf("PUT with version %s = %d %q, want 409", version, w.Code, w.Body)
		}
		wantStatus(t, ask(h, "DELETE", "/api/manual?version="+version, ""), 409)
	}
	wantStatus(t, ask(h, "PUT", "/api/manual", `{"value":"# two","version":"7"}`, jsonBody), 200)
	wantStatus(t, ask(h, "PUT", "/api/manual", `{"value":"# three","version":"7"}`, jsonBody), 409)
	if got := store.keys[""].Value; got != "# two" {
		t.Errorf("stored = %q, want what the first one saved", got)
	}
	wantStatus(t, ask(h, "DELETE", "/api/manual", ""), 400)
	wantStatus(t, ask(h, "DELETE", "/api/manual?version=x", ""), 400)
	wantStatus(t, ask(h, "DELETE", "/api/manual?version=8", ""), 200)
	if len(store.keys) != 0 {
		t.Errorf("keys = %v after DELETE, want none", store.keys)
	}
}

// TestBadLineIsNotSaved wants a refusal that names the place, and an untouched store.
func TestBadLineIsNotSaved(t *testing.T) {
	store := &memory{}
	h := newServer(t, testConfig(t), Deps{Overrides: store}).Handler()
	body, _ := json.Marshal(map[string]string{"value": "# fine\nroute add a /a http://10.0.0.1/\nroute ad b /b http://10.0.0.2/\nroute weight x /x weight NaN\n"})
	w := ask(h, "PUT", "/api/manual/team", string(body), jsonBody)
	wantStatus(t, w, 400)
	if got := w.Header().Get("Content-Type"); got != "application/json; charset=utf-8" {
		t.Errorf("Content-Type = %q, want JSON", got)
	}
	var f findings
	if err := json.Unmarshal(w.Body.Bytes(), &f); err != nil {
		t.Fatal(err)
	}
	if f.Error != "not saved: 2 problems" || len(f.Problems) != 2 || f.Problems[0].Line != 3 || f.Problems[0].Column != 7 || f.Problems[1].Line != 4 {
		t.Errorf("answer = %+v, want line 3 column 7 and line 4", f)
	}
	for _, p := range f.Problems {
		if p.Reason == "" || p.Text == "" {
			t.Errorf("problem without reason or text: %+v", p)
		}
	}
	if store.puts != 0 {
		t.Error("the store was asked to save")
	}

	w = ask(h, "POST", "/api/validate", string(body), jsonBody)
	wantStatus(t, w, 200)
	var checked findings
	if err := json.Unmarshal(w.Body.Bytes(), &checked); err != nil {
		t.Fatal(err)
	}
	if fmt.Sprint(checked.Problems) != fmt.Sprint(f.Problems) || checked.Error != "" {
		t.Errorf("validate = %+v, want the same problems", checked)
	}
	if got := ask(h, "POST", "/api/validate", `{"value":"# fine"}`, jsonBody).Body.String(); got != `{"problems":[]}` {
		t.Errorf("validate of a good text = %s", got)
	}
}

func TestValidateGetsTheKey(t *testing.T) {
	var sources []string
	h := newServer(t, testConfig(t), Deps{Overrides: &memory{}, Validate: func(_, source string) []route.Problem {
		sources = append(sources, source)
		return []route.Problem{{Reason: `option allow: "x": no address`, Origin: route.Origin{Line: 1}}}
	}}).Handler()
	for _, path := range []string{"/api/manual", "/api/manual/team"} {
		wantStatus(t, ask(h, "PUT", path, `{"value":"x"}`, jsonBody), 400)
	}
	wantStatus(t, ask(h, "POST", "/api/validate", `{"value":"x"}`, jsonBody), 200)
	if got := fmt.Sprint(sources); got != "[overrides overrides/team overrides]" {
		t.Errorf("sources = %v", got)
	}
}

func TestManualBodies(t *testing.T) {
	store := &memory{}
	h := newServer(t, testConfig(t), Deps{Overrides: store}).Handler()
	long := "# " + strings.Repeat("x", maxOverrides-2)
	for name, tt := range map[string]struct {
		body string
		want int
	}{
		"empty":                 {``, 400},
		"not JSON":              {`route add`, 400},
		"null":                  {`null`, 400},
		"no value":              {`{"version":"1"}`, 400},
		"misspelled value":      {`{"val":"","version":"0"}`, 400},
		"null value":            {`{"value":null}`, 400},
		"value of another type": {`{"value":1}`, 400},
		"negative version":      {`{"value":"","version":"-1"}`, 400},
		"version is no number":  {`{"value":"","version":"x"}`, 400},
		"two values":            {`{"value":""} {"value":""}`, 400},
		"rubbish behind":        {`{"value":""}}`, 400},
		"deep":                  {strings.Repeat("[", 1e5), 400},
		"just fits":             {`{"value":"` + long + `"}`, 200},
		"one byte too long":     {`{"value":"` + long + `x"}`, 413},
		"body too long":         {`{"value":"` + strings.Repeat("x", maxBody) + `"}`, 413},
	} {
		store.keys = nil
		w := ask(h, "PUT", "/api/manual", tt.body, jsonBody)
		if w.Code != tt.want {
			t.Errorf("%s: %d %q, want %d", name, w.Code, w.Body, tt.want)
		}
	}
}

func TestManualKeys(t *testing.T) {
	for sub, want := range map[string]string{
		"":               "",
		"/":              "/",
		"/a":             "/a",
		"/a/":            "/a/",
		"/a/b%20c":       "/a/b c",
		"/a%2Fb":         "/a/b",
		"/..a/b..":       "/..a/b..",
		"/..":            "error",
		"/a/../b":        "error",
		"/a/%2e%2e/b":    "error",
		"/a%2F..%2Fb":    "error",
		"/./a":           "error",
		"//a":            "error",
		"/a//b":          "error",
		"/a%00":          "error",
		"/a%0d%0aX:%20y": "error",
		"/a%7f":          "error",
		"/%zz":           "error",
	} {
		got, err := manualKey(sub)
		if err != nil {
			got = "error"
		}
		if got != want {
			t.Errorf("manualKey(%q) = %q, %v, want %q", sub, got, err, want)
		}
	}
}

func FuzzManualKey(f *testing.F) {
	for _, s := range []string{"/a", "/a%2Fb", "/%2e%2e/", "//", "/a/./b"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, sub string) {
		key, err := manualKey(sub)
		if err != nil {
			return
		}
		for part := range strings.SplitSeq(key, "/") {
			if part == "." || part == ".." {
				t.Errorf("manualKey(%q) = %q, a key that goes elsewhere", sub, key)
			}
		}
		if again, err := manualKey((&url.URL{Path: key}).EscapedPath()); err != nil || again != key {
			t.Errorf("manualKey of the encoded %q = %q, %v", key, again, err)
		}
	})
}

// TestWithoutOverrides is what fabio answers for backends that keep none.
func TestWithoutOverrides(t *testing.T) {
	for name, d := range map[string]Deps{
		"backend without": {},
		"turned off":      {Overrides: &memory{err: registry.ErrNoOverrides}},
	} {
		h := newServer(t, testConfig(t), d).Handler()
		if w := ask(h, "GET", "/api/manual", ""); w.Code != 200 || w.Body.String() != `{"value":"","version":"0"}` {
			t.Errorf("%s: GET = %d %s", name, w.Code, w.Body)
		}
		if w := ask(h, "GET", "/api/paths", ""); w.Code != 200 || w.Body.String() != `null` {
			t.Errorf("%s: paths = %d %s", name, w.Code, w.Body)
		}
		wantStatus(t, ask(h, "PUT", "/api/manual", `{"value":""}`, jsonBody), 409)
		wantStatus(t, ask(h, "DELETE", "/api/manual?version=0", ""), 409)
	}
}

func TestRegistryErrors(t *testing.T) {
	for _, tt := range []struct {
		err  error
		want int
	}{
		{errors.New("consul: connection refused"), 500},
		{fmt.Errorf("%w: too deep", registry.ErrPath), 400},
		{registry.ErrTooLarge, 413},
	} {
		h := newServer(t, testConfig(t), Deps{Overrides: &memory{err: tt.err}}).Handler()
		for _, method := range []string{"GET", "PUT", "DELETE"} {
			w := ask(h, method, "/api/manual/x?version=0", `{"value":""}`, jsonBody)
			if w.Code != tt.want || !strings.Contains(w.Body.String(), tt.err.Error()) {
				t.Errorf("%v: %s = %d %q, want %d", tt.err, method, w.Code, w.Body, tt.want)
			}
		}
		if w := ask(h, "GET", "/api/paths", ""); w.Code != tt.want {
			t.Errorf("%v: paths = %d, want %d", tt.err, w.Code, tt.want)
		}
	}
}
