package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/pflag"

	"varco/proxy"
	"varco/route"
)

const usage = `varco routes HTTP and TCP to the services that Consul knows.

  varco [flags]                                    serve
  varco --dev                                      a demo that needs nothing else
  varco validate [--cfg FILE] [--routes FILE] ...  check settings and routes; exit 1 when something is wrong
  varco help [WORD ...]                            this text, or only what contains a word
  varco version                                    print the version

A flag is written --name=value, --name value or, like fabio's, -name value; a switch takes a value only after "=".
Every setting can also stand in the environment (VARCO_PROXY_ADDR, FABIO_PROXY_ADDR, PROXY_ADDR) or in a properties
file (--cfg). The command line wins over the environment, and that over the file.
`

// printHelp writes the help text, or the entries of it that contain all words.
func (c *config) printHelp(w io.Writer, words []string) error {
	b := &strings.Builder{}
	if len(words) == 0 {
		b.WriteString(usage)
	}
	for _, a := range c.areas {
		var entries []string
		a.flags.VisitAll(func(f *pflag.Flag) { entries = append(entries, flagHelp(f)) })
		section(b, a.title, entries, words)
	}
	section(b, `Options of a route: urlprefix-HOST/PATH KEY=VALUE ..., or opts "KEY=VALUE ..."`, optionEntries(), words)
	section(b, "Matchers: proxy.matcher, option match=", namedEntries(route.Matchers()), words)
	section(b, "Strategies: proxy.strategy, option strategy=", namedEntries(route.Strategies()), words)
	section(b, "Fields of the access log: log.access.format", fieldEntries(), words)
	if b.Len() == 0 {
		fmt.Fprintf(b, "nothing in the help contains %q\n", strings.Join(words, " "))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// section writes the entries that contain all words under a title, or nothing if there are none.
func section(b *strings.Builder, title string, entries, words []string) {
	first := true
	for _, e := range entries {
		if !containsAll(e, words) {
			continue
		}
		if first {
			b.WriteString("\n" + title + "\n\n")
			first = false
		}
		b.WriteString(e)
	}
}

func containsAll(text string, words []string) bool {
	for _, w := range words {
		if !strings.Contains(strings.ToLower(text), strings.ToLower(strings.TrimLeft(w, "-"))) {
			return false
		}
	}
	return true
}

func flagHelp(f *pflag.Flag) string {
	help := f.Usage
	if f.Deprecated != "" {
		help += " (deprecated: " + f.Deprecated + ")"
	}
	return entry(flagSyntax(f), help)
}

// flagSyntax shows a flag with its default, or with what kind of value it takes when it has none.
func flagSyntax(f *pflag.Flag) string {
	switch {
	case f.DefValue == "" || f.DefValue == "[]":
		return "--" + f.Name + "=" + wantShort(f)
	case f.Value.Type() == "bool" && f.DefValue == "false":
		return "--" + f.Name
	}
	return "--" + f.Name + "=" + defaultText(f)
}

// defaultText is a default as people write it: 1m, not 1m0s, and a list without brackets.
func defaultText(f *pflag.Flag) string {
	text := f.DefValue
	switch f.Value.Type() {
	case "duration":
		if strings.HasSuffix(text, "m0s") {
			text = strings.TrimSuffix(text, "0s")
		}
		if strings.HasSuffix(text, "h0m") {
			text = strings.TrimSuffix(text, "0m")
		}
	case "stringSlice":
		text = strings.Trim(text, "[]")
	}
	return text
}

func optionEntries() []string {
	var entries []string
	for _, o := range proxy.Options() {
		entries = append(entries, entry(o.Syntax, o.Help))
	}
	return entries
}

func fieldEntries() []string {
	var entries []string
	for _, f := range proxy.AccessLogFields() {
		entries = append(entries, entry(f.Syntax, f.Help))
	}
	return entries
}

func namedEntries(all []route.Named) []string {
	var entries []string
	for _, n := range all {
		entries = append(entries, entry(n.Name, n.Help))
	}
	return entries
}

// entry is a name and, below it, its help, wrapped.
func entry(name, help string) string {
	const indent, width = "        ", 100
	b := &strings.Builder{}
	b.WriteString("  " + name + "\n")
	line := indent
	for _, word := range strings.Fields(help) {
		if len(line)+1+len(word) > width && line != indent {
			b.WriteString(line + "\n")
			line = indent
		}
		if line != indent {
			line += " "
		}
		line += word
	}
	if line != indent {
		b.WriteString(line + "\n")
	}
	return b.String()
}
