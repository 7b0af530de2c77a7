package metrics

// service adds up the targets of one service: fabio's metrics requests and http_status. Its counts outlive a target
// that leaves as long as the service has another one.
type service struct {
	name    string
	born    uint64
	targets int // with this service, those that are leaving included; guarded by Metrics.mu

	// The rest is guarded by Metrics.folding, and so is every status.
	statuses []*status

	series rowState
	sums   []uint64 // of all statuses, valid during a scrape
}

// status is the answers of a service with one status.
type status struct {
	service *service
	code    int
	gone    []uint64 // of targets that are gone; nil is all zero
	sums    []uint64 // of all targets, valid during a scrape

	series rowState
}

// status finds or adds the status with code.
func (s *service) status(code, width int) *status {
	for _, st := range s.statuses {
		if st.code == code {
			return st
		}
	}
	st := &status{service: s, code: code, sums: make([]uint64, width)}
	s.statuses = append(s.statuses, st)
	return st
}

// absorb keeps the counts of a target that is gone.
func (s *service) absorb(t *traffic, width int) {
	for _, c := range t.statuses() {
		st := s.status(c.code, width)
		if st.gone == nil {
			st.gone = make([]uint64, width)
		}
		c.addTo(st.gone)
	}
}

// begin starts the sums of a scrape.
func (s *service) begin() {
	clear(s.sums)
	for _, st := range s.statuses {
		clear(st.sums)
		copy(st.sums, st.gone)
	}
}

// add adds the counts of one of the service's targets.
func (s *service) add(t *traffic, width int) {
	for _, c := range t.statuses() {
		c.addTo(s.status(c.code, width).sums)
	}
}

// finish ends the sums of a scrape.
func (s *service) finish() {
	for _, st := range s.statuses {
		addWords(s.sums, st.sums)
	}
}

func (s *service) state() *rowState               { return &s.series }
func (s *service) activity(words []uint64) uint64 { return countOf(words) }
func (s *service) key() int                       { return 0 }
func (s *service) order() uint64                  { return s.born }
func (s *service) homeless() bool                 { return s.name == other }

func (s *status) state() *rowState               { return &s.series }
func (s *status) activity(words []uint64) uint64 { return countOf(words) }
func (s *status) key() int                       { return s.code }
func (s *status) order() uint64                  { return s.service.born<<10 | uint64(s.code) }
func (s *status) homeless() bool                 { return s.service.homeless() }
