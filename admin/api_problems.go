package admin

import (
	"net/http"
	"strconv"
	"strings"
	"unicode/utf8"

	"varco/route"
)

// maxShown bounds a text from the registry in an answer.
const maxShown = 2 << 10

// apiProblems lists the tags, lines and targets that were refused: offset, limit and q choose a part, and the header
// X-Total-Count tells how many q leaves.
func (s *Server) apiProblems(w http.ResponseWriter, r *http.Request, _ string) {
	q := r.URL.Query()
	offset, err := queryInt(q, "offset", 0, 0, 1<<31-1)
	if err != nil {
		writeJSON(w, r, http.StatusBadRequest, apiError{err.Error()})
		return
	}
	limit, err := queryInt(q, "limit", 1000, 0, 1000)
	if err != nil {
		writeJSON(w, r, http.StatusBadRequest, apiError{err.Error()})
		return
	}
	words := strings.Fields(strings.ToLower(q.Get("q")))
	shown, total := []route.Problem{}, 0
	for _, p := range s.problems() {
		if !problemHas(p, words) {
			continue
		}
		if total >= offset && len(shown) < limit {
			shown = append(shown, clipProblem(p))
		}
		total++
	}
	w.Header().Set("X-Total-Count", strconv.Itoa(total))
	writeJSON(w, r, http.StatusOK, shown)
}

func (s *Server) problems() []route.Problem {
	if s.deps.Problems == nil {
		return nil
	}
	return s.deps.Problems()
}

func problemHas(p route.Problem, words []string) bool {
	if len(words) == 0 {
		return true
	}
	o := p.Origin
	text := strings.ToLower(strings.Join([]string{o.Service, o.Node, o.Instance, o.Source, o.Tag, p.Text, p.Reason, p.Hint}, "\n"))
	for _, w := range words {
		if !strings.Contains(text, w) {
			return false
		}
	}
	return true
}

func clipProblem(p route.Problem) route.Problem {
	p.Text, p.Reason, p.Hint, p.Origin = clip(p.Text), clip(p.Reason), clip(p.Hint), clipOrigin(p.Origin)
	return p
}

func clipOrigin(o route.Origin) route.Origin {
	o.Service, o.Node, o.Instance = clip(o.Service), clip(o.Node), clip(o.Instance)
	o.Tag, o.Source = clip(o.Tag), clip(o.Source)
	return o
}

// clip shortens a text that is too long to be shown.
func clip(s string) string {
	if len(s) <= maxShown {
		return s
	}
	end := maxShown
	for end > 0 && !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end] + "…"
}
