package main

import (
	"io"
	"log/slog"
	"slices"
	"strings"
)

// logLevels are fabio's names of the levels, lowest first, and what they are to slog.
var logLevels = []struct {
	name  string
	level slog.Level
}{
	{"TRACE", slog.LevelDebug - 4},
	{"DEBUG", slog.LevelDebug},
	{"INFO", slog.LevelInfo},
	{"WARN", slog.LevelWarn},
	{"ERROR", slog.LevelError},
	{"FATAL", levelFatal},
}

// levelFatal is the level of the last line before the process ends.
const levelFatal = slog.LevelError + 4

func levelOf(name string) (slog.Level, bool) {
	for _, l := range logLevels {
		if strings.EqualFold(l.name, name) {
			return l.level, true
		}
	}
	return 0, false
}

// newLogger makes the log: lines of key=value on w, with fabio's names of the levels.
func newLogger(w io.Writer, level slog.Level) *slog.Logger {
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{
		Level: level,
		ReplaceAttr: func(groups []string, a slog.Attr) slog.Attr {
			if len(groups) == 0 && a.Key == slog.LevelKey {
				if l, ok := a.Value.Any().(slog.Level); ok {
					a.Value = slog.StringValue(levelName(l))
				}
			}
			return a
		},
	}))
}

func levelName(level slog.Level) string {
	for _, l := range slices.Backward(logLevels) {
		if level >= l.level {
			return l.name
		}
	}
	return logLevels[0].name
}
