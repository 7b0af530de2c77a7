package wire

import "sync"

// Limit caps what several listeners hold together: connections, and the file descriptors these need. Descriptors are
// counted apart because a tunnel needs two for one connection. A Limit is safe for concurrent use.
type Limit struct {
	mu           sync.Mutex // guards the fields below
	conns, files int
	maxConns     int
	maxFiles     int
	waiting      int
	freed        chan struct{} // closed, and made anew, by a release while somebody waits
}

// NewLimit makes a limit of conns connections and files descriptors; zero or less means no limit.
func NewLimit(conns, files int) *Limit {
	return &Limit{maxConns: conns, maxFiles: files, freed: make(chan struct{})}
}

// TryAcquire takes one connection and its files, and reports whether they were free. A limit that nobody uses has
// always room for one connection, however many files it needs.
func (l *Limit) TryAcquire(files int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.take(files)
}

// Acquire waits until TryAcquire succeeds or done is closed, and reports which.
func (l *Limit) Acquire(done <-chan struct{}, files int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for !l.take(files) {
		if !l.wait(done) {
			return false
		}
	}
	return true
}

// Release gives one connection and its files back.
func (l *Limit) Release(files int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.conns--
	l.files -= files
	if l.waiting > 0 {
		close(l.freed)
		l.freed = make(chan struct{})
	}
}

// Conns is the number of connections held now.
func (l *Limit) Conns() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.conns
}

func (l *Limit) take(files int) bool {
	full := l.maxConns > 0 && l.conns+1 > l.maxConns || l.maxFiles > 0 && l.files+files > l.maxFiles
	if full && l.conns > 0 {
		return false
	}
	l.conns++
	l.files += files
	return true
}

// wait gives mu away until something was released or done is closed; it reports false in the second case.
func (l *Limit) wait(done <-chan struct{}) bool {
	freed := l.freed
	l.waiting++
	l.mu.Unlock()
	defer func() {
		l.mu.Lock()
		l.waiting--
	}()
	select {
	case <-freed:
		return true
	case <-done:
		return false
	}
}
