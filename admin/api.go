package admin

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// maxBody bounds a request's body. Consul keeps 512 KiB per key; the same text is longer as a JSON string.
const maxBody = 1 << 20

// writeJSON answers with v, indented when the query has "pretty", as fabio does.
func writeJSON(w http.ResponseWriter, r *http.Request, status int, v any) {
	body, err := marshal(r, v)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(status)
	w.Write(body)
}

func marshal(r *http.Request, v any) ([]byte, error) {
	if r.URL.Query().Has("pretty") {
		return json.MarshalIndent(v, "", "    ")
	}
	return json.Marshal(v)
}

// apiError is the body of a refusal that a program may want to read.
type apiError struct {
	Error string `json:"error"`
}

// queryInt reads a whole number of the query, from low to high; otherwise when it is not there.
func queryInt(q url.Values, key string, otherwise, low, high int) (int, error) {
	text := q.Get(key)
	if text == "" {
		return otherwise, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < low {
		return 0, fmt.Errorf("%s: %q: want a whole number from %d to %d", key, text, low, high)
	}
	return min(n, high), nil
}

// stream writes an answer of any length: each piece has the whole write timeout, so that a slow reader gets its
// answer and one that stopped reading is let go.
func stream(w http.ResponseWriter) *bufio.Writer {
	return bufio.NewWriterSize(&deadlineWriter{w, http.NewResponseController(w)}, 64<<10)
}

type deadlineWriter struct {
	io.Writer
	control *http.ResponseController
}

func (w *deadlineWriter) Write(p []byte) (int, error) {
	// An error says that there is no connection to set a deadline on, as in a test.
	_ = w.control.SetWriteDeadline(time.Now().Add(writeTimeout))
	return w.Writer.Write(p)
}
