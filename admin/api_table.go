package admin

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"math"
	"net/http"
	"time"

	"varco/route"
)

// tablePage is a part of the table, as the page polls it.
type tablePage struct {
	// Version counts the tables; Updated is when this one came into use, Started when varco did.
	Version uint64    `json:"version"`
	Updated time.Time `json:"updated"`
	Started time.Time `json:"started"`
	Routes  int       `json:"routes"`
	Targets int       `json:"targets"`
	// Rate and ErrorRate are per second over all targets, null when unknown.
	Rate      *float64 `json:"rate"`
	ErrorRate *float64 `json:"errorrate"`
	InFlight  int64    `json:"inflight"`
	Problems  int      `json:"problems"`
	// NotReady says why there is no table yet, Trouble what is wrong with the source of routes; "" when all is well.
	NotReady string `json:"notready"`
	Trouble  string `json:"trouble"`
	// Matched is how many rows the query leaves, Rows those from Offset on.
	Matched int        `json:"matched"`
	Offset  int        `json:"offset"`
	Rows    []tableRow `json:"rows"`
}

// tableRow is one target, or a route without any: then Service and Dst are "".
type tableRow struct {
	// N is the row's place in the table, from 1.
	N       int         `json:"n"`
	Service string      `json:"service"`
	Host    string      `json:"host"`
	Path    string      `json:"path"`
	Match   string      `json:"match"`
	Dst     string      `json:"dst"`
	State   string      `json:"state"` // up, idle, down
	Weight  float64     `json:"weight"`
	Fixed   float64     `json:"fixed"`
	Tags    []string    `json:"tags"`
	Opts    [][2]string `json:"opts"`

	Requests  uint64   `json:"requests"`
	Errors    uint64   `json:"errors"`
	InFlight  int64    `json:"inflight"`
	Rate      *float64 `json:"rate"`      // null when unknown
	ErrorRate *float64 `json:"errorrate"` // null when unknown
	P99       float64  `json:"p99_ms"`

	Origin route.Origin `json:"origin"`
}

const (
	defaultRows = 100
	maxRows     = 500
)

// apiTable answers a part of the table: offset and limit choose the rows of those that q leaves, in the order sort.
// With If-None-Match it answers 304 when nothing has changed.
func (s *Server) apiTable(w http.ResponseWriter, r *http.Request, _ string) {
	q := r.URL.Query()
	offset, err := queryInt(q, "offset", 0, 0, math.MaxInt32)
	if err != nil {
		writeJSON(w, r, http.StatusBadRequest, apiError{err.Error()})
		return
	}
	limit, err := queryInt(q, "limit", defaultRows, 0, maxRows)
	if err != nil {
		writeJSON(w, r, http.StatusBadRequest, apiError{err.Error()})
		return
	}
	fr := s.frames.latest()
	rows, err := fr.sort(q.Get("q"), q.Get("sort"))
	if err != nil {
		writeJSON(w, r, http.StatusBadRequest, apiError{err.Error()})
		return
	}
	p := s.tablePage(fr)
	p.Matched, p.Offset = len(rows), offset
	for _, i := range rows[min(offset, len(rows)):min(offset+limit, len(rows))] {
		p.Rows = append(p.Rows, fr.tableRow(i))
	}
	body, err := json.Marshal(p)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	tag := etag(body)
	w.Header().Set("ETag", tag)
	if r.Header.Get("If-None-Match") == tag {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.Write(body)
}

func (s *Server) tablePage(fr *frame) tablePage {
	p := tablePage{
		Version:   fr.version,
		Updated:   fr.seen,
		Started:   s.started,
		Routes:    fr.routes,
		Targets:   fr.targets,
		Rate:      known(fr.total.rate),
		ErrorRate: known(fr.total.errorRate),
		InFlight:  fr.total.InFlight,
		Problems:  len(s.problems()),
		Rows:      []tableRow{},
	}
	if s.deps.Updated != nil {
		p.Updated = s.deps.Updated()
	}
	if s.deps.Ready != nil {
		p.NotReady = errorText(s.deps.Ready())
	}
	if s.deps.Trouble != nil {
		p.Trouble = errorText(s.deps.Trouble())
	}
	return p
}

func (fr *frame) tableRow(i int32) tableRow {
	r, n := fr.rows[i], fr.numbers[i]
	out := tableRow{
		N:         int(i) + 1,
		Host:      clip(r.route.Host),
		Path:      clip(r.route.Path),
		Match:     r.route.Match.String(),
		State:     r.state(),
		Weight:    round(r.weight()),
		Tags:      []string{},
		Opts:      [][2]string{},
		Requests:  n.Requests,
		Errors:    n.Errors,
		InFlight:  n.InFlight,
		Rate:      known(n.rate),
		ErrorRate: known(n.errorRate),
		P99:       round(float64(n.P99) / float64(time.Millisecond)),
	}
	t := r.target
	if t == nil {
		return out
	}
	out.Service, out.Dst, out.Fixed = clip(t.Service), clip(t.Dst), t.FixedWeight
	out.Origin = clipOrigin(t.Origin)
	for _, tag := range t.Tags {
		out.Tags = append(out.Tags, clip(tag))
	}
	for _, o := range t.Opts {
		out.Opts = append(out.Opts, [2]string{clip(o.Key), clip(o.Value)})
	}
	return out
}

// known is n, or nil when it stands for an unknown number.
func known(n float64) *float64 {
	if n < 0 {
		return nil
	}
	n = round(n)
	return &n
}

// round leaves four decimals: more would change all the time and say nothing.
func round(n float64) float64 { return math.Round(n*1e4) / 1e4 }

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return clip(err.Error())
}

func etag(body []byte) string {
	h := fnv.New64a()
	h.Write(body)
	return fmt.Sprintf(`"%x"`, h.Sum64())
}
