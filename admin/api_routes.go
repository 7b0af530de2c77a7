package admin

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
)

// apiRoute is one target in /api/routes, with fabio's keys in fabio's order.
type apiRoute struct {
	Service string   `json:"service"`
	Host    string   `json:"host"`
	Path    string   `json:"path"`
	Src     string   `json:"src"`
	Dst     string   `json:"dst"`
	Opts    string   `json:"opts"`
	Cmd     string   `json:"cmd"`
	Tags    []string `json:"tags,omitempty"`
	Weight  float64  `json:"weight"`
	// Rate1 is requests per second, Pct99 nanoseconds, as fabio had them while it had them. Rate1 is taken between two
	// looks at the table and 0 when the last look is more than two minutes ago.
	Rate1 float64 `json:"rate1"`
	Pct99 float64 `json:"pct99"`
}

// apiRoutes lists every target of the table, hosts ascending; the query may have raw, for the text of the table, or
// pretty. A route without a target is not listed: its form has no place for it. The answer is streamed.
func (s *Server) apiRoutes(w http.ResponseWriter, r *http.Request, _ string) {
	out := stream(w)
	defer out.Flush()
	if r.URL.Query().Has("raw") {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		text := ""
		if table := s.frames.currentTable(); table != nil {
			text = table.String()
		}
		fmt.Fprintln(out, text)
		return
	}
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	if err := writeRoutes(out, s.frames.current(), r.URL.Query().Has("pretty")); err != nil {
		s.log.Debug("routes not sent", "err", err)
	}
}

// writeRoutes writes what json.Marshal would answer for the whole list, one element at a time.
func writeRoutes(out *bufio.Writer, fr *frame, pretty bool) error {
	open, comma, end := "[", ",", "]"
	encode := json.Marshal
	if pretty {
		open, comma, end = "[\n    ", ",\n    ", "\n]"
		encode = func(v any) ([]byte, error) { return json.MarshalIndent(v, "    ", "    ") }
	}
	sep := open
	for i, row := range fr.rows {
		t := row.target
		if t == nil {
			continue
		}
		n := fr.numbers[i]
		b, err := encode(apiRoute{
			Service: t.Service,
			Host:    t.Host,
			Path:    t.Path,
			Src:     t.Host + t.Path,
			Dst:     t.URL.String(),
			Opts:    t.Opts.String(),
			Cmd:     "route add",
			Tags:    t.Tags,
			Weight:  t.Weight,
			Rate1:   max(0, round(n.rate)),
			Pct99:   float64(n.P99),
		})
		if err != nil {
			return err
		}
		out.WriteString(sep)
		if _, err := out.Write(b); err != nil {
			return err
		}
		sep = comma
	}
	if sep == open {
		end = "null" // fabio's answer for an empty table
	}
	_, err := out.WriteString(end)
	return err
}
