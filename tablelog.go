package main

import (
	"log/slog"
	"strings"

	"varco/proxy"
	"varco/route"
)

// mostLines bounds what one change of the table may write to the log in the format delta: a first table or a mass
// change would otherwise be as long as the table. The formats all and detail are not bounded: who asks for all gets it.
const mostLines = 100

// mostText bounds each line and each refused text in the log: an override is as long as its author likes, up to the
// 512 KiB of a key in Consul.
const mostText = 2048

// tableLog writes changes of the table to the log. Not safe for concurrent use.
type tableLog struct {
	log    *slog.Logger
	format string // a value of log.routes.format
	known  map[route.Problem]bool
}

// changed logs one update.
func (l *tableLog) changed(r proxy.UpdateResult) {
	routes, targets := r.Table.Len()
	l.log.Info("table updated", "routes", routes, "targets", targets, "added", len(r.Added), "removed", len(r.Removed),
		"problems", len(r.Problems), "took", r.Took)
	switch l.format {
	case "delta":
		left := mostLines
		left = l.lines("route removed", r.Removed, left)
		l.lines("route added", r.Added, left)
	case "all":
		l.lines("route", splitLines(r.Table.String()), -1)
	case "detail":
		l.lines("table", splitLines(r.Table.Dump()), -1)
	}
	l.problems(r.Problems)
}

// lines logs each line, at most left of them (-1: all), and answers how many are left.
func (l *tableLog) lines(msg string, lines []string, left int) int {
	for i, line := range lines {
		if left == 0 {
			l.log.Info(msg+", more not shown", "count", len(lines)-i)
			return 0
		}
		if left > 0 {
			line = shortenTo(line, mostText)
		}
		l.log.Info(msg, "line", line)
		left--
	}
	return left
}

// problems logs those that were not there before, and that they are gone again.
func (l *tableLog) problems(now []route.Problem) {
	known := make(map[route.Problem]bool, len(now))
	left := mostLines
	for _, p := range now {
		known[p] = true
		if l.known[p] || left == 0 {
			continue
		}
		left--
		attrs := []any{"where", p.Origin.String(), "text", shortenTo(p.Text, mostText), "reason", shortenTo(p.Reason, mostText)}
		if p.Hint != "" {
			attrs = append(attrs, "hint", p.Hint)
		}
		l.log.Warn("refused", attrs...)
	}
	if len(l.known) > 0 && len(known) == 0 {
		l.log.Info("nothing is refused any more")
	}
	l.known = known
}

func splitLines(text string) []string {
	text = strings.TrimRight(text, "\n")
	if text == "" {
		return nil
	}
	return strings.Split(text, "\n")
}
