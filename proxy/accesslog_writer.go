package proxy

import (
	"bytes"
	"io"
	"log/slog"
	"sync"
	"time"

	"varco/metrics"
)

// The writing end of the access log. Requests append whole lines to a buffer and go on. One goroutine takes the buffer
// away when its first line is a tenth of a second old, or it is large, writes it, and takes the next. When the file
// fails (disk full, reader gone) it keeps what it has and tries again until it succeeds, so nothing is lost and no line
// is torn while the buffer has room. What has no room is dropped, line by line, and counted.

const (
	logRoom   = 1 << 20                // bytes that may wait, those being written included
	logBatch  = 32 << 10               // bytes that are worth a write at once
	logLinger = 100 * time.Millisecond // how long a smaller batch waits for more lines
	logRetry  = 250 * time.Millisecond // pause after a failed write
	logGrace  = time.Second            // how long close waits
)

// logFile is where lines go.
type logFile interface{ io.WriteCloser }

// logWriter is safe for concurrent use.
type logWriter struct {
	// reopen opens the file anew; nil for one that stays. Set before use.
	reopen  func() (logFile, error)
	dropped *metrics.Counter
	log     *slog.Logger

	wake, full    chan struct{} // a line waits; a batch waits. Both have room for one signal.
	quit, stopped chan struct{}

	mu      sync.Mutex // guards the fields below
	waiting []byte     // whole lines
	held    int        // bytes waiting and bytes being written
	file    logFile    // what is being written to
	next    logFile    // takes its place before the next write; nil for none
	closed  bool
	warned  time.Time // when the last warning about dropped lines was logged

	spare []byte // the flushing goroutine's own: the other buffer
}

func startLogWriter(file logFile, dropped *metrics.Counter, log *slog.Logger) *logWriter {
	w := &logWriter{
		dropped: dropped,
		log:     log,
		wake:    make(chan struct{}, 1),
		full:    make(chan struct{}, 1),
		quit:    make(chan struct{}),
		stopped: make(chan struct{}),
		waiting: make([]byte, 0, 2*logBatch),
		file:    file,
		spare:   make([]byte, 0, 2*logBatch),
	}
	go w.run()
	return w
}

// add takes one line, or drops it.
func (w *logWriter) add(line []byte) {
	w.mu.Lock()
	if w.closed || w.held+len(line) > logRoom {
		warn := !w.closed && time.Since(w.warned) > time.Minute
		if warn {
			w.warned = time.Now()
		}
		w.mu.Unlock()
		w.dropped.Inc()
		if warn {
			w.log.Warn("access log is too slow, lines are dropped")
		}
		return
	}
	before := len(w.waiting)
	w.waiting = append(w.waiting, line...)
	after := len(w.waiting)
	w.held += len(line)
	w.mu.Unlock()
	if before == 0 {
		signal(w.wake)
	}
	if before < logBatch && after >= logBatch {
		signal(w.full)
	}
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// reopenFile has the next batch go to a newly opened file.
func (w *logWriter) reopenFile() error {
	if w.reopen == nil {
		return nil
	}
	file, err := w.reopen()
	if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return file.Close()
	}
	if w.next != nil {
		w.next.Close()
	}
	w.next = file
	giveUp(w.file)
	signal(w.wake)
	return nil
}

// giveUp ends a write that may be stuck in a pipe nobody reads.
func giveUp(f logFile) {
	if d, ok := f.(interface{ SetWriteDeadline(time.Time) error }); ok {
		d.SetWriteDeadline(time.Now())
	}
}

// close writes what waits and closes the file.
func (w *logWriter) close() error {
	w.mu.Lock()
	first := !w.closed
	w.closed = true
	w.mu.Unlock()
	if first {
		close(w.quit)
	}
	grace := time.NewTimer(logGrace)
	defer grace.Stop()
	select {
	case <-w.stopped:
	case <-grace.C:
		w.mu.Lock()
		giveUp(w.file)
		w.mu.Unlock()
		return errLogLost
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.held > 0 {
		return errLogLost
	}
	return nil
}

// run is the flushing goroutine.
func (w *logWriter) run() {
	defer close(w.stopped)
	linger := time.NewTimer(logLinger)
	defer linger.Stop()
	for {
		select {
		case <-w.wake:
		case <-w.quit:
			w.flush()
			file, _ := w.swap()
			file.Close()
			return
		}
		linger.Reset(logLinger)
		select {
		case <-linger.C:
		case <-w.full:
		case <-w.quit:
		}
		w.flush()
	}
}

// flush writes all that waits now. It does not return before all is written, but when the log is closed.
func (w *logWriter) flush() {
	w.mu.Lock()
	batch := w.waiting
	w.waiting = w.spare[:0]
	w.mu.Unlock()
	w.spare = batch
	rest, failing, torn := batch, false, false
	for {
		file, swapped := w.swap()
		if torn && swapped { // the rest of a line whose beginning is in the other file
			rest = rest[bytes.IndexByte(rest, '\n')+1:]
			w.dropped.Inc()
			torn = false
		}
		n, err := 0, error(nil)
		if len(rest) > 0 {
			n, err = file.Write(rest)
		}
		if n > 0 {
			torn = rest[n-1] != '\n'
			rest = rest[n:]
		}
		if err == nil {
			break
		}
		if !failing {
			failing = true
			w.log.Warn("access log cannot be written", "err", err)
		}
		if !w.pause() {
			break
		}
	}
	if failing && len(rest) == 0 {
		w.log.Info("access log is written again")
	}
	w.dropped.Add(int64(bytes.Count(rest, newline)))
	w.mu.Lock()
	w.held -= len(batch) - len(rest)
	w.mu.Unlock()
}

var newline = []byte{'\n'}

// swap puts a newly opened file, if there is one, in the place of the old one, and answers the file to write to.
func (w *logWriter) swap() (file logFile, swapped bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if swapped = w.next != nil; swapped {
		w.file.Close()
		w.file, w.next = w.next, nil
	}
	return w.file, swapped
}

// pause waits before another try; false when the log is being closed.
func (w *logWriter) pause() bool {
	t := time.NewTimer(logRetry)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-w.quit:
		return false
	}
}
