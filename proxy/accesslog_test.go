package proxy

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"varco/metrics"
)

var logNowhere = slog.New(slog.DiscardHandler)

// someEntry is a request like those in fabio's own tests.
func someEntry() *logEntry {
	return &logEntry{
		Start: time.Date(2016, 1, 1, 0, 0, 0, 0, time.UTC), Took: 123456789,
		Method: "GET", URI: "/?q=x", Proto: "HTTP/1.1", Host: "foo.com", Scheme: "http", RemoteAddr: "2.2.2.2:666",
		Header: http.Header{"User-Agent": {"Mozilla Firefox", "second"}, "Referer": {"http://foo.com/"}, "X-Forwarded-For": {"3.3.3.3"}},
		Status: 200, Bytes: 1234,
		UpstreamAddr: "7.8.9.0:5678", UpstreamScheme: "http", UpstreamURI: "/foo?q=x", Service: "svc-a", Route: "foo.com/",
	}
}

// longEntry makes a line as long as they come.
func longEntry() *logEntry {
	e := someEntry()
	e.URI = "/" + strings.Repeat("x", maxLogValue)
	return e
}

// lineOf renders e, with its end in zone.
func lineOf(t testing.TB, format string, e *logEntry, zone *time.Location) string {
	t.Helper()
	f, err := compileLogFormat(format)
	if err != nil {
		t.Fatalf("compileLogFormat(%q): %v", format, err)
	}
	e.end = e.Start.Add(e.Took).In(zone)
	return string(f.append(nil, e))
}

func TestLogFields(t *testing.T) {
	tests := []struct{ format, want string }{
		{"$header.Referer", "http://foo.com/"},
		{"$header.X-Forwarded-For", "3.3.3.3"},
		{"$header.user-agent", "Mozilla Firefox"},
		{"$header.Nothing", ""},
		{"$remote_addr", "2.2.2.2:666"},
		{"$remote_host", "2.2.2.2"},
		{"$remote_port", "666"},
		{"$request", "GET /?q=x HTTP/1.1"},
		{"$request_args", "q=x"},
		{"$request_host", "foo.com"},
		{"$request_method", "GET"},
		{"$request_scheme", "http"},
		{"$request_uri", "/?q=x"},
		{"$request_url", "http://foo.com/?q=x"},
		{"$request_proto", "HTTP/1.1"},
		{"$response_body_size", "1234"},
		{"$response_status", "200"},
		{"$response_time_ms", "0.123"},
		{"$response_time_us", "0.123456"},
		{"$response_time_ns", "0.123456789"},
		{"$route", "foo.com/"},
		{"$time_common", "01/Jan/2016:00:00:00 +0000"},
		{"$time_rfc3339", "2016-01-01T00:00:00Z"},
		{"$time_rfc3339_ms", "2016-01-01T00:00:00.123Z"},
		{"$time_rfc3339_us", "2016-01-01T00:00:00.123456Z"},
		{"$time_rfc3339_ns", "2016-01-01T00:00:00.123456789Z"},
		{"$time_unix_ms", "1451606400123"},
		{"$time_unix_us", "1451606400123456"},
		{"$time_unix_ns", "1451606400123456789"},
		{"$upstream_addr", "7.8.9.0:5678"},
		{"$upstream_host", "7.8.9.0"},
		{"$upstream_port", "5678"},
		{"$upstream_request_scheme", "http"},
		{"$upstream_request_uri", "/foo?q=x"},
		{"$upstream_request_url", "http://7.8.9.0:5678/foo?q=x"},
		{"$upstream_service", "svc-a"},
		{"common", `2.2.2.2 - - [01/Jan/2016:00:00:00 +0000] "GET /?q=x HTTP/1.1" 200 1234`},
		{"combined", `2.2.2.2 - - [01/Jan/2016:00:00:00 +0000] "GET /?q=x HTTP/1.1" 200 1234 "http://foo.com/" "Mozilla Firefox"`},
	}
	tested := map[string]bool{}
	for _, tt := range tests {
		tested[strings.TrimPrefix(tt.format, "$")] = true
		if got := lineOf(t, tt.format, someEntry(), time.UTC); got != tt.want {
			t.Errorf("%s = %q, want %q", tt.format, got, tt.want)
		}
	}
	for _, f := range AccessLogFields()[1:] {
		if !tested[f.Name] {
			t.Errorf("field %s has no test", f.Syntax)
		}
		if f.Help == "" {
			t.Errorf("field %s has no help", f.Syntax)
		}
	}
}

func TestLogFieldsOfUnusualRequests(t *testing.T) {
	tests := []struct {
		format string
		change func(*logEntry)
		want   string
	}{
		{"$remote_host|$remote_port", func(e *logEntry) { e.RemoteAddr = "[::1]:80" }, "::1|80"},
		{"$remote_host|$remote_port", func(e *logEntry) { e.RemoteAddr = "pipe" }, "pipe|"},
		{"$upstream_host|$upstream_port", func(e *logEntry) { e.UpstreamAddr = "7.8.9.0" }, "7.8.9.0|"},
		{"$upstream_host|$upstream_request_url|$upstream_service", func(e *logEntry) {
			e.UpstreamAddr, e.UpstreamScheme, e.UpstreamURI, e.Service = "", "", "", ""
		}, "||"},
		{"$request_url|$request_args", func(e *logEntry) { e.URI = "http://bar.com/a?b?c" }, "http://bar.com/a?b?c|b?c"},
		{"$request_url", func(e *logEntry) { e.URI = "*" }, "http://foo.com*"},
		{"$response_time_ms $response_time_ns", func(e *logEntry) { e.Took = 61*time.Second + 7 }, "61.000 61.000000007"},
		{"$response_time_ms", func(e *logEntry) { e.Took = -time.Second }, "0.000"},
		{"$header.User-Agent", func(e *logEntry) { e.Header = nil }, ""},
		{`"$request" $response_status $request_url`, func(e *logEntry) { // refused by the server
			*e = logEntry{Start: e.Start, RemoteAddr: e.RemoteAddr, Status: 400, Scheme: "http"}
		}, `"" 400 `},
	}
	for _, tt := range tests {
		e := someEntry()
		tt.change(e)
		if got := lineOf(t, tt.format, e, time.UTC); got != tt.want {
			t.Errorf("%s = %q, want %q", tt.format, got, tt.want)
		}
	}
}

func TestLogTimeHasItsZone(t *testing.T) {
	zone := time.FixedZone("", -(3*3600 + 30*60))
	got := lineOf(t, "$time_common $time_rfc3339_ms $time_unix_ms", someEntry(), zone)
	want := "31/Dec/2015:20:30:00 -0330 2015-12-31T20:30:00.123-03:30 1451606400123"
	if got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestLogTemplate(t *testing.T) {
	tests := []struct{ format, want string }{
		{"text only", "text only"},
		{"$request_method $request_host", "GET foo.com"},
		{"$request_method.$request_host.x", "GET.foo.com.x"},
		{"<$request_method>", "<GET>"},
		{"$", "$"},
		{"a$", "a$"},
		{"$ $request_method", "$ GET"},
		{"$$request_method", "$$request_method"},
		{"$$$request_method", "$$GET"},
		{"é$request_method", "éGET"},
		{"$header.X-Forwarded-For.x", "3.3.3.3.x"},
		{"\t$request_method", "\tGET"},
	}
	for _, tt := range tests {
		if got := lineOf(t, tt.format, someEntry(), time.UTC); got != tt.want {
			t.Errorf("%q = %q, want %q", tt.format, got, tt.want)
		}
	}
}

func TestLogFormatRefusesUnknownField(t *testing.T) {
	tests := []struct{ format, want string }{
		{"$foo", `unknown field "$foo": want $header.NAME, $remote_addr, `},
		{"a $request_hos b", `unknown field "$request_hos"`},
		{"$header", `unknown field "$header"`},
		{"$header.", `unknown field "$header."`},
		{"$Remote_addr", `unknown field "$Remote_addr"`},
		{"", "empty: want common, combined, json or a template"},
		{"$request\nx", "one line"},
	}
	for _, tt := range tests {
		c := Config{AccessLog: AccessLogConfig{Format: tt.format}}
		err := c.validateAccessLog()
		if err == nil || !strings.HasPrefix(err.Error(), "log.access.format: ") || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%q: error %v, want %q", tt.format, err, tt.want)
		}
	}
}

func TestLogJSON(t *testing.T) {
	e := someEntry()
	e.URI = "/\"\\\n\x1b\x80é\u202e\U0001f600"
	line := lineOf(t, "json", e, time.UTC)
	var got map[string]any
	if err := json.Unmarshal([]byte(line), &got); err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	want := map[string]any{
		"time_rfc3339_ms": "2016-01-01T00:00:00.123Z", "remote_addr": "2.2.2.2:666",
		"request_method": "GET", "request_scheme": "http", "request_host": "foo.com", "request_proto": "HTTP/1.1",
		"request_uri":     "/\"\\\n\x1b\ufffdé\u202e\U0001f600",
		"response_status": 200., "response_body_size": 1234., "response_time_us": 0.123456,
		"upstream_addr": "7.8.9.0:5678", "upstream_service": "svc-a", "upstream_request_uri": "/foo?q=x", "route": "foo.com/",
		"header.Referer": "http://foo.com/", "header.User-Agent": "Mozilla Firefox",
	}
	for k, v := range want {
		if got[k] != v {
			t.Errorf("%s = %v, want %v", k, got[k], v)
		}
		delete(got, k)
	}
	if len(got) > 0 {
		t.Errorf("more keys than wanted: %v", got)
	}
	if strings.ContainsFunc(line, func(r rune) bool { return r < 0x20 || r >= 0x7f }) {
		t.Errorf("not printable ASCII: %q", line)
	}
}

func TestLogEscapesValues(t *testing.T) {
	tests := []struct{ value, text string }{
		{"plain /~ value", "plain /~ value"},
		{"a\r\n127.0.0.1 - - forged", `a\r\n127.0.0.1 - - forged`},
		{"\x1b[31m", `\x1b[31m`},
		{`" 200 "`, `\" 200 \"`},
		{`back\slash`, `back\\slash`},
		{"tab\tnul\x00del\x7f", `tab\tnul\x00del\x7f`},
		{"é\xff", `\xc3\xa9\xff`},
	}
	for _, tt := range tests {
		e := someEntry()
		e.Header.Set("X", tt.value)
		if got := lineOf(t, "$header.X", e, time.UTC); got != tt.text {
			t.Errorf("%q = %s, want %s", tt.value, got, tt.text)
		}
	}
}

func TestLogCutsLongValues(t *testing.T) {
	for _, format := range []string{"$request_uri", "$request", "$request_url", "$upstream_request_url", "$header.X", "$request_host", "$route"} {
		for _, unit := range []string{"a", "\n", "\"", "é"} {
			e := someEntry()
			long := "/" + strings.Repeat(unit, 64<<10)
			e.URI, e.UpstreamURI, e.Method, e.Proto, e.Host, e.Route = long, long, long, long, long, long
			e.Header = http.Header{"X": {long}}
			got := lineOf(t, format, e, time.UTC)
			if len(got) > maxLogValue || !strings.HasSuffix(got, cutMark) || strings.Contains(got, "\n") {
				t.Errorf("%s of %q: %d bytes, ends in %q", format, unit, len(got), got[max(0, len(got)-10):])
			}
		}
	}
	e := someEntry()
	e.URI = "/" + strings.Repeat("a", 64<<10)
	if got := lineOf(t, "$request", e, time.UTC); strings.Count(got, " ") != 2 || !strings.HasSuffix(got, " HTTP/1.1") {
		t.Errorf("a long target took the words around it: %q", got[len(got)-20:])
	}
}

func TestLogLineAllocatesNothing(t *testing.T) {
	var all []string
	for _, f := range logFields {
		all = append(all, "$"+f.name)
	}
	all = append(all, "$header.User-Agent")
	for _, format := range []string{"common", "combined", "json", strings.Join(all, " ")} {
		f, err := compileLogFormat(format)
		if err != nil {
			t.Fatal(err)
		}
		l := newAccessLogOn(discardFile{}, f, new(metrics.Counter), logNowhere)
		l.zone = time.FixedZone("CEST", 7200)
		e := someEntry()
		if n := testing.AllocsPerRun(500, func() { l.write(e) }); n != 0 {
			t.Errorf("%.20s: %v allocations per line", format, n)
		}
		l.Close()
	}
}

type discardFile struct{}

func (discardFile) Write(p []byte) (int, error) { return len(p), nil }
func (discardFile) Close() error                { return nil }

func TestAccessLogOff(t *testing.T) {
	l, err := newAccessLog(AccessLogConfig{Format: "common"}, nil, logNowhere)
	if l != nil || err != nil {
		t.Fatalf("newAccessLog = %v, %v", l, err)
	}
	l.write(someEntry())
	if err := errors.Join(l.Reopen(), l.Close()); err != nil {
		t.Error(err)
	}
}

func TestAccessLogTarget(t *testing.T) {
	tests := []struct{ target, want string }{
		{"", ""},
		{"stdout", ""},
		{"/var/log/x.log", ""},
		{"./x.log", ""},
		{"stdot", `log.access.target: "stdot": want stdout or the path of a file (./stdot`},
	}
	for _, tt := range tests {
		c := Config{AccessLog: AccessLogConfig{Format: "common", Target: tt.target}}
		err := c.validateAccessLog()
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.HasPrefix(err.Error(), tt.want)) {
			t.Errorf("%q: error %v, want %q", tt.target, err, tt.want)
		}
	}
	missing := filepath.Join(t.TempDir(), "no", "such", "dir")
	if _, err := newAccessLog(AccessLogConfig{Format: "common", Target: missing}, new(metrics.Metrics), logNowhere); err == nil ||
		!strings.HasPrefix(err.Error(), "log.access.target: ") {
		t.Errorf("error %v", err)
	}
}

func TestAccessLogToStdout(t *testing.T) {
	l, err := newAccessLog(AccessLogConfig{Format: "$header.Nothing", Target: "stdout"}, new(metrics.Metrics), logNowhere)
	if err != nil {
		t.Fatal(err)
	}
	l.write(someEntry()) // an empty line is none
	if err := errors.Join(l.Reopen(), l.Close()); err != nil {
		t.Error(err)
	}
	if _, err := os.Stdout.Stat(); err != nil {
		t.Errorf("stdout was closed: %v", err)
	}
}

func TestAccessLogReopens(t *testing.T) {
	path := filepath.Join(t.TempDir(), "access.log")
	l, err := newAccessLog(AccessLogConfig{Format: "$request_uri", Target: path}, new(metrics.Metrics), logNowhere)
	if err != nil {
		t.Fatal(err)
	}
	entry := func(uri string) *logEntry {
		e := someEntry()
		e.URI = uri
		return e
	}
	l.write(entry("/first"))
	waitFor(t, "the first line", func() bool { return readFile(path) == "/first\n" })
	if err := os.Rename(path, path+".1"); err != nil {
		t.Fatal(err)
	}
	if err := l.Reopen(); err != nil {
		t.Fatal(err)
	}
	l.write(entry("/second"))
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if got := readFile(path + ".1"); got != "/first\n" {
		t.Errorf("old file = %q", got)
	}
	if got := readFile(path); got != "/second\n" {
		t.Errorf("new file = %q", got)
	}
}

func TestAccessLogKeepsOldFileWhenReopenFails(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "dir")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "access.log")
	l, err := newAccessLog(AccessLogConfig{Format: "$request_uri", Target: path}, new(metrics.Metrics), logNowhere)
	if err != nil {
		t.Fatal(err)
	}
	moved := dir + ".moved"
	if err := os.Rename(dir, moved); err != nil {
		t.Fatal(err)
	}
	if err := l.Reopen(); err == nil || !strings.HasPrefix(err.Error(), "log.access.target: ") {
		t.Errorf("Reopen = %v, want an error", err)
	}
	l.write(someEntry())
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if got := readFile(filepath.Join(moved, "access.log")); got != "/?q=x\n" {
		t.Errorf("old file = %q", got)
	}
}

func readFile(path string) string {
	b, _ := os.ReadFile(path)
	return string(b)
}

// waitFor polls until what happens in other goroutines or in the kernel has happened.
func waitFor(t testing.TB, what string, happened func() bool) {
	t.Helper()
	deadline := time.NewTimer(10 * time.Second)
	defer deadline.Stop()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !happened() {
		select {
		case <-tick.C:
		case <-deadline.C:
			t.Fatalf("waited too long for %s", what)
		}
	}
}

// badDisk is a file that can be made to fail, in the middle of a write too.
type badDisk struct {
	mu      sync.Mutex
	err     error
	partial int // bytes that the next failing write still takes
	data    bytes.Buffer
	closed  bool
	writes  int
}

func (d *badDisk) Write(p []byte) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.writes++
	if d.err != nil {
		n := min(d.partial, len(p))
		d.partial = 0
		d.data.Write(p[:n])
		return n, d.err
	}
	return d.data.Write(p)
}

func (d *badDisk) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed = true
	return nil
}

func (d *badDisk) fail(err error, partial int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.err, d.partial = err, partial
}

func (d *badDisk) String() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.data.String()
}

func TestLogWriterFlushesWithinASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d badDisk
		w := startLogWriter(&d, new(metrics.Counter), logNowhere)
		w.add([]byte("one\n"))
		w.add([]byte("two\n"))
		time.Sleep(time.Second)
		synctest.Wait()
		if got := d.String(); got != "one\ntwo\n" || d.writes != 1 {
			t.Errorf("after a second: %q in %d writes", got, d.writes)
		}
		big := bytes.Repeat([]byte("x"), logBatch)
		w.add(append(big, '\n'))
		synctest.Wait()
		if got := d.String(); !strings.HasSuffix(got, "x\n") {
			t.Errorf("a full batch waits")
		}
		w.add([]byte("last\n"))
		if err := w.close(); err != nil || !strings.HasSuffix(d.String(), "last\n") || !d.closed {
			t.Errorf("close = %v, closed %v", err, d.closed)
		}
		if err := w.close(); err != nil {
			t.Errorf("second close = %v", err)
		}
	})
}

func TestLogWriterSurvivesFullDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d badDisk
		var dropped metrics.Counter
		var logged bytes.Buffer
		w := startLogWriter(&d, &dropped, slog.New(slog.NewTextHandler(&logged, nil)))
		d.fail(syscall.ENOSPC, 7)
		var want strings.Builder
		line := func(i int) string { return fmt.Sprintf("line %06d%0*d\n", i, 100, 0) }
		start, total := time.Now(), 2*logRoom/len(line(0))
		for i := range total {
			w.add([]byte(line(i)))
		}
		if time.Since(start) != 0 {
			t.Error("a request waited for the disk")
		}
		kept := logRoom / len(line(0))
		if got := int(dropped.Value()); got != total-kept {
			t.Errorf("dropped %d lines, want %d", got, total-kept)
		}
		for i := range kept {
			want.WriteString(line(i))
		}
		time.Sleep(time.Minute)
		d.fail(nil, 0)
		time.Sleep(time.Second)
		synctest.Wait()
		if d.String() != want.String() {
			t.Error("not all that waited was written, or a line was torn")
		}
		w.add([]byte("again\n"))
		if err := w.close(); err != nil || !strings.HasSuffix(d.String(), line(kept-1)+"again\n") {
			t.Errorf("close = %v", err)
		}
		for _, want := range []string{"cannot be written", "too slow", "written again"} {
			if n := strings.Count(logged.String(), want); n != 1 {
				t.Errorf("logged %q %d times, want once:\n%s", want, n, logged.String())
			}
		}
	})
}

func TestLogWriterTearsNoLineOverReopen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var old, fresh badDisk
		var dropped metrics.Counter
		w := startLogWriter(&old, &dropped, logNowhere)
		w.reopen = func() (logFile, error) { return &fresh, nil }
		old.fail(syscall.ENOSPC, 6)
		w.add([]byte("one\ntwo\n"))
		w.add([]byte("three\n"))
		time.Sleep(time.Second)
		if err := w.reopenFile(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		if err := w.close(); err != nil {
			t.Fatal(err)
		}
		if old.String() != "one\ntw" || fresh.String() != "three\n" || dropped.Value() != 1 || !old.closed || !fresh.closed {
			t.Errorf("old %q, fresh %q, dropped %d", old.String(), fresh.String(), dropped.Value())
		}
	})
}

func TestLogWriterGivesUpAtClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d badDisk
		var dropped metrics.Counter
		w := startLogWriter(&d, &dropped, logNowhere)
		d.fail(syscall.EPIPE, 0)
		w.add([]byte("one\n"))
		w.add([]byte("two\n"))
		start := time.Now()
		if err := w.close(); err != errLogLost || time.Since(start) > logGrace {
			t.Errorf("close = %v after %v", err, time.Since(start))
		}
		w.add([]byte("late\n"))
		if dropped.Value() != 3 {
			t.Errorf("dropped %d lines, want 3", dropped.Value())
		}
	})
}

func TestAccessLogToFullDevice(t *testing.T) {
	if _, err := os.Stat("/dev/full"); err != nil {
		t.Skip(err)
	}
	var m metrics.Metrics
	l, err := newAccessLog(AccessLogConfig{Format: "common", Target: "/dev/full"}, &m, logNowhere)
	if err != nil {
		t.Fatal(err)
	}
	for range 3 * logRoom / maxLogValue {
		l.write(longEntry())
	}
	if m.LogDropped.Value() == 0 {
		t.Error("nothing was dropped")
	}
	if err := l.Close(); err != errLogLost {
		t.Errorf("Close = %v", err)
	}
}

func TestAccessLogToStuckPipe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe")
	if err := mkfifo(path); err != nil {
		t.Skip(err)
	}
	config := AccessLogConfig{Format: "common", Target: path}
	var m metrics.Metrics
	if _, err := newAccessLog(config, &m, logNowhere); err == nil {
		t.Error("a pipe without a reader was opened")
	}
	reader, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	l, err := newAccessLog(config, &m, logNowhere)
	if err != nil {
		t.Fatal(err)
	}
	for range 3 * logRoom / maxLogValue {
		l.write(longEntry())
	}
	if m.LogDropped.Value() == 0 {
		t.Error("nothing was dropped")
	}
	// It recovers as soon as somebody reads.
	go io.Copy(io.Discard, reader)
	waitFor(t, "room in the log", func() bool {
		l.out.mu.Lock()
		defer l.out.mu.Unlock()
		return l.out.held == 0
	})
	before := m.LogDropped.Value()
	l.write(someEntry())
	if err := l.Close(); err != nil || m.LogDropped.Value() != before {
		t.Errorf("Close = %v, dropped %d more", err, m.LogDropped.Value()-before)
	}
}

func FuzzCompileLogFormat(f *testing.F) {
	for _, s := range []string{"common", "combined", "json", "$", "$$request", "$header.X $header.", "a$request_uri\xff", "$time_common]"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		format, err := compileLogFormat(s)
		if err != nil {
			return
		}
		e := someEntry()
		e.end = e.Start
		line := string(format.append(nil, e))
		if strings.ContainsAny(line, "\r\n") {
			t.Fatalf("%q makes more than one line: %q", s, line)
		}
		// Text that is not a field stays.
		if !strings.Contains(s, "$") && s != "common" && s != "combined" && s != "json" && line != s {
			t.Fatalf("%q became %q", s, line)
		}
	})
}

func FuzzLogEscape(f *testing.F) {
	for _, s := range []string{"plain", "\r\n", "\x1b[0m\"\\", "é\xff\U0001f600", strings.Repeat("\x80", 3000)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		for _, esc := range []escape{appendText, appendJSON} {
			got := esc(nil, s, maxLogValue)
			if len(got) > maxLogValue {
				t.Fatalf("%d bytes", len(got))
			}
			for i, c := range got {
				if c < 0x20 || c >= 0x7f || c == '"' && (i == 0 || got[i-1] != '\\') {
					t.Fatalf("%q became %q", s, got)
				}
			}
		}
		quoted := append(appendJSON([]byte{'"'}, s, maxLogValue), '"')
		var back string
		if err := json.Unmarshal(quoted, &back); err != nil {
			t.Fatalf("%q became %s: %v", s, quoted, err)
		}
		if len(quoted) < maxLogValue-16 && back != strings.ToValidUTF8(s, "\ufffd") && !strings.Contains(back, "\ufffd") {
			t.Fatalf("%q came back as %q", s, back)
		}
	})
}

func BenchmarkAccessLog(b *testing.B) {
	for _, format := range []string{"common", "combined", "json"} {
		b.Run(format, func(b *testing.B) {
			f, _ := compileLogFormat(format)
			l := newAccessLogOn(discardFile{}, f, new(metrics.Counter), logNowhere)
			defer l.Close()
			e := someEntry()
			b.ReportAllocs()
			for b.Loop() {
				l.write(e)
			}
		})
	}
}

// syncBuffer is a buffer for a log that several goroutines write.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}
