package route

// segmentEnd is the length of a literal after which a segment has to end.
type segmentEnd int

func compileSegment(path string) (pattern, error) {
	p := pattern{literal: path, self: true}
	if path != "" && path[len(path)-1] != '/' { // else every path that starts so is below
		p.tail = segmentEnd(len(path))
	}
	return p, nil
}

func (n segmentEnd) match(path string) bool {
	return len(path) == int(n) || path[n] == '/'
}
