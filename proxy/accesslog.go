package proxy

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/spf13/pflag"

	"varco/metrics"
)

// The access log. A format is compiled once, at start, into a list of parts; a line is made by appending the parts to
// a pooled buffer, and costs no allocation. The line is then copied behind others that wait for one goroutine to write
// them (accesslog_writer.go), so a request never waits for a disk or a pipe: when too much waits, the line is dropped
// and counted.
//
// There is one line for each HTTP request, however it was answered. TCP connections have none, as in fabio: most
// fields would be empty, and the counters of the target tell what they did.

// AccessLogConfig is what can be set about the access log.
type AccessLogConfig struct {
	Format string // log.access.format: common, combined, json or a template
	Target string // log.access.target: "" is off, stdout, or a file
}

func (c *Config) accessLogFlags(fs *pflag.FlagSet) {
	l := &c.AccessLog
	fs.StringVar(&l.Format, "log.access.format", "common", "format of the access log: common, combined, json, or a template of text and $fields")
	fs.StringVar(&l.Target, "log.access.target", "", "where the access log goes: stdout, or the path of a file, opened anew on SIGHUP; empty is off")
}

func (c *Config) validateAccessLog() error {
	if _, err := compileLogFormat(c.AccessLog.Format); err != nil {
		return fmt.Errorf("log.access.format: %w", err)
	}
	if err := c.AccessLog.checkTarget(); err != nil {
		return fmt.Errorf("log.access.target: %w", err)
	}
	return nil
}

// checkTarget tells a file from a misspelt word.
func (c AccessLogConfig) checkTarget() error {
	if c.Target == "" || c.Target == logStdout || strings.ContainsAny(c.Target, `/\`) {
		return nil
	}
	return fmt.Errorf("%q: want stdout or the path of a file (./%[1]s for one in the working directory)", c.Target)
}

const logStdout = "stdout"

// logEntry is what is known about a request that has been answered. Strings are as they came: the log escapes them.
type logEntry struct {
	Start time.Time     // when the request came
	Took  time.Duration // until the end of the answer

	Method, URI, Proto string // the request line; URI is the target as the client wrote it
	Host, Scheme       string // what the client asked for
	RemoteAddr         string // host:port of the peer
	Header             http.Header

	Status int
	Bytes  int64 // of the answer's body

	// The rest is empty when no upstream was asked.
	UpstreamAddr, UpstreamScheme, UpstreamURI string // host:port, http or https, path?query
	Service, Route                            string // of the target, host/path of the route

	end time.Time // in the zone of the log
}

// accessLog writes a line for each request. Nil logs nothing. Safe for concurrent use.
type accessLog struct {
	format *logFormat
	zone   *time.Location
	out    *logWriter
	lines  sync.Pool // of *[]byte
}

// newAccessLog opens the log; nil when it is off.
func newAccessLog(c AccessLogConfig, m *metrics.Metrics, log *slog.Logger) (*accessLog, error) {
	format, err := compileLogFormat(c.Format)
	if err != nil {
		return nil, fmt.Errorf("log.access.format: %w", err)
	}
	if err := c.checkTarget(); err != nil {
		return nil, fmt.Errorf("log.access.target: %w", err)
	}
	if c.Target == "" {
		return nil, nil
	}
	file, err := openLogTarget(c.Target)
	if err != nil {
		return nil, fmt.Errorf("log.access.target: %w", err)
	}
	l := newAccessLogOn(file, format, &m.LogDropped, log)
	if c.Target != logStdout {
		l.out.reopen = func() (logFile, error) { return openLogTarget(c.Target) }
	}
	return l, nil
}

func newAccessLogOn(file logFile, format *logFormat, dropped *metrics.Counter, log *slog.Logger) *accessLog {
	return &accessLog{
		format: format,
		zone:   time.Local,
		out:    startLogWriter(file, dropped, log),
		lines:  sync.Pool{New: func() any { b := make([]byte, 0, 1024); return &b }},
	}
}

// openLogTarget opens stdout or a file. Without O_NONBLOCK, opening a named pipe would wait for its reader, and a
// write to a full one could never be given up.
func openLogTarget(target string) (logFile, error) {
	if target == logStdout {
		return keptOpen{os.Stdout}, nil
	}
	f, err := os.OpenFile(target, os.O_WRONLY|os.O_APPEND|os.O_CREATE|openNonblock, 0o640)
	if err != nil {
		return nil, err
	}
	return f, nil
}

// keptOpen is a file that is not ours to close.
type keptOpen struct{ *os.File }

func (keptOpen) Close() error { return nil }

// write logs e. It never waits; e is not used after it returns, and its unexported fields are overwritten.
func (l *accessLog) write(e *logEntry) {
	if l == nil {
		return
	}
	e.end = e.Start.Add(e.Took).In(l.zone)
	line := l.lines.Get().(*[]byte)
	*line = l.format.append((*line)[:0], e)
	if len(*line) > 0 {
		*line = append(*line, '\n')
		l.out.add(*line)
	}
	l.lines.Put(line)
}

// Reopen opens the file anew, after a log rotation. When that fails, the log goes on in the old file.
func (l *accessLog) Reopen() error {
	if l == nil {
		return nil
	}
	if err := l.out.reopenFile(); err != nil {
		return fmt.Errorf("log.access.target: %w", err)
	}
	return nil
}

// Close writes what waits, for a second at most, and ends the log.
func (l *accessLog) Close() error {
	if l == nil {
		return nil
	}
	return l.out.close()
}

var errLogLost = errors.New("log.access.target: the end of the access log could not be written")
