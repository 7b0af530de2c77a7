package route

import (
	"errors"
	"math"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// The grammar, one command a line; words are separated by white space, empty lines and those that start with # or //
// are skipped:
//
//	route add <service> <source> <destination> [weight <w>] [tags "<t>,<t>"] [opts "<k>=<v> <k>=<v>"]
//	route del <service> [<source> [<destination>]]
//	route del [<service>] tags "<t>,<t>"
//	route weight <service> <source> weight <w> [tags "<t>,<t>"]
//	route weight <source> weight <w> tags "<t>,<t>"
//
// A line is read once from left to right by a cursor that always knows the column of the word it speaks of. What is
// not understood costs only its own line.

// Parse reads a text of commands, one a line. Lines that are not understood become problems and cost only themselves.
// source is the name of the text in the Origin of both.
func Parse(text, source string) ([]Command, []Problem) {
	var commands []Command
	var problems []Problem
	text = strings.TrimPrefix(text, "\ufeff") // editors on Windows put a byte order mark there
	n := 0
	for line := range strings.SplitSeq(text, "\n") {
		n++
		trimmed := strings.TrimSpace(line)
		if trimmed == "" || strings.HasPrefix(trimmed, "#") || strings.HasPrefix(trimmed, "//") {
			continue
		}
		c, err := ParseLine(line)
		if err == nil {
			c.Origin = Origin{Source: source, Line: n, Column: 1 + strings.Index(line, trimmed)}
			commands = append(commands, c)
			continue
		}
		var e *SyntaxError
		errors.As(err, &e) // ParseLine promises it
		problems = append(problems, Problem{
			Origin: Origin{Source: source, Line: n, Column: e.Column},
			Text:   strings.TrimSuffix(line, "\r"),
			Reason: e.Reason,
			Hint:   e.Hint,
		})
	}
	return commands, problems
}

// SyntaxError says where and why a line was not understood.
type SyntaxError struct {
	// Column is that of the offending word, in bytes, from 1.
	Column int
	// Reason says what is wrong, Hint how to put it right ("" when there is nothing to say).
	Reason, Hint string
}

// Error returns "syntax error: column N: reason (hint)".
func (e *SyntaxError) Error() string {
	s := "syntax error: column " + strconv.Itoa(e.Column) + ": " + e.Reason
	if e.Hint != "" {
		s += " (" + e.Hint + ")"
	}
	return s
}

// ParseLine reads one command. The error is a *SyntaxError. The Origin of the command is empty.
func ParseLine(line string) (Command, error) {
	p := &lineParser{line: line}
	c := p.command()
	if p.err == nil {
		if err := c.check(); err != nil {
			var e *fieldError
			errors.As(err, &e) // check makes no other
			p.fail(max(*p.column(e.field), 1), e.field+" "+e.reason, e.hint)
		}
	}
	if p.err != nil {
		return Command{}, p.err
	}
	return c, nil
}

// lineParser is a cursor over one line. After the first error all methods return zero values.
type lineParser struct {
	line string
	pos  int // of the next byte to read
	at   int // of the word read last
	err  error
	// Where each field started, from 1; 0 if it was not read.
	service, source, destination, other int
}

// column returns the place to note where a field started.
func (p *lineParser) column(field string) *int {
	switch field {
	case "service":
		return &p.service
	case "source":
		return &p.source
	case "destination":
		return &p.destination
	}
	return &p.other
}

func (p *lineParser) command() (c Command) {
	p.keyword("route")
	switch p.keyword("add", "del", "weight") {
	case "add":
		c.Verb = Add
		c.Service = p.field("service")
		c.Src = lowerSrc(p.field("source"))
		c.Dst = p.field("destination")
		if p.optional("weight") {
			c.Weight = p.weight()
		}
		c.Tags = p.tags()
		if p.optional("opts") {
			c.Opts = ParseOptions(p.quoted("opts", `opts "key=value"`))
		}
		p.end("weight", "tags", "opts")
	case "del":
		c.Verb = Del
		if first := p.peek(); first == "tags" && strings.HasPrefix(p.peekSecond(), `"`) {
			c.Tags = p.tags()
			p.end()
			break
		}
		c.Service = p.field("service")
		if p.peek() == "tags" && strings.HasPrefix(p.peekSecond(), `"`) {
			c.Tags = p.tags()
			p.end()
			break
		}
		if p.peek() != "" {
			c.Src = lowerSrc(p.field("source"))
		}
		if w := p.peek(); w != "" {
			if c.Src == "tags" && !strings.Contains(w, "://") {
				p.quoted("tags", `tags "a,b"`) // fails: w is not quoted
			}
			c.Dst = p.field("destination")
		}
		p.end("tags")
	case "weight":
		c.Verb = Weight
		first := p.field("service")
		// The second word tells the forms apart, unless a source is called "weight": then the third does.
		if p.peek() == "weight" && p.peekSecond() != "weight" {
			c.Src = lowerSrc(first)
			p.source = p.service
			p.keyword("weight")
			c.Weight = p.weight()
			if p.err == nil && p.peek() != "tags" {
				p.skip()
				p.fail(p.at+1, "expected tags", `without a service, tags are needed: tags "…"`)
			}
		} else {
			c.Service = first
			c.Src = lowerSrc(p.field("source"))
			p.keyword("weight")
			c.Weight = p.weight()
		}
		c.Tags = p.tags()
		p.end("tags")
	}
	return c
}

// fail keeps the first error.
func (p *lineParser) fail(column int, reason, hint string) {
	if p.err == nil {
		p.err = &SyntaxError{Column: column, Reason: reason, Hint: hint}
	}
}

// skip moves over white space and marks the place as that of the next word.
func (p *lineParser) skip() {
	for p.pos < len(p.line) {
		r, n := utf8.DecodeRuneInString(p.line[p.pos:])
		if !unicode.IsSpace(r) {
			break
		}
		p.pos += n
	}
	p.at = p.pos
}

// word reads up to the next white space; "" at the end of the line.
func (p *lineParser) word() string {
	if p.err != nil {
		return ""
	}
	p.skip()
	if i := strings.IndexFunc(p.line[p.pos:], unicode.IsSpace); i >= 0 {
		p.pos += i
	} else {
		p.pos = len(p.line)
	}
	return p.line[p.at:p.pos]
}

// peek returns the next word without moving.
func (p *lineParser) peek() string {
	q := *p
	return q.word()
}

// peekSecond returns the word after the next one without moving.
func (p *lineParser) peekSecond() string {
	q := *p
	q.word()
	return q.word()
}

// keyword reads one of words and returns it.
func (p *lineParser) keyword(words ...string) string {
	w := p.word()
	for _, k := range words {
		if w == k {
			return w
		}
	}
	want := words[0]
	if len(words) > 1 {
		want = "one of " + strings.Join(words, ", ")
	}
	p.fail(p.at+1, "expected "+want+found(w), p.hint(w, words))
	return ""
}

// found ends a message with the word that stands in the way.
func found(w string) string {
	const long = 40
	switch {
	case w == "":
		return " but the line ends here"
	case len(w) > long:
		return ", found " + strconv.Quote(w[:long]) + "…"
	}
	return ", found " + strconv.Quote(w)
}

// field reads a required word and remembers where it stands.
func (p *lineParser) field(name string) string {
	w := p.word()
	if w == "" {
		p.fail(p.at+1, "expected a "+name+" but the line ends here", "")
	}
	*p.column(name) = p.at + 1
	return w
}

// optional reads the word if it is next.
func (p *lineParser) optional(word string) bool {
	if p.peek() != word {
		return false
	}
	p.word()
	return true
}

// weight reads the number after the word weight.
func (p *lineParser) weight() float64 {
	s := p.word()
	if p.err != nil {
		return 0
	}
	w, err := strconv.ParseFloat(s, 64)
	switch {
	case s == "":
		p.fail(p.at+1, "expected a number but the line ends here", "weight 0.25")
	case math.IsNaN(w) || math.IsInf(w, 0):
		p.fail(p.at+1, "weight value invalid: "+strconv.Quote(s)+" is not finite", "want a share like 0.25")
	case err != nil:
		hint := "want a share like 0.25"
		if pct, perr := strconv.ParseFloat(strings.TrimSuffix(s, "%"), 64); perr == nil {
			hint = "write " + strconv.FormatFloat(pct/100, 'g', -1, 64)
		} else if dot := strings.Replace(s, ",", ".", 1); dot != s {
			if _, perr := strconv.ParseFloat(dot, 64); perr == nil {
				hint = "write " + dot
			}
		}
		p.fail(p.at+1, "weight value invalid: "+strconv.Quote(s)+" is not a number", hint)
	case w <= 0: // as ever: negative means none
		return 0
	}
	return w
}

func (p *lineParser) tags() []string {
	if !p.optional("tags") {
		return nil
	}
	return parseTags(p.quoted("tags", `tags "a,b"`))
}

// quoted reads a text between quotes, which are required, and returns it with its escapes.
func (p *lineParser) quoted(name, example string) string {
	if p.err != nil {
		return ""
	}
	p.skip()
	rest := p.line[p.pos:]
	if !strings.HasPrefix(rest, `"`) {
		p.fail(p.at+1, "expected a quoted text after "+name+found(p.peek()), "quote the "+name+": "+example)
		return ""
	}
	end := indexPlain(rest[1:], '"')
	if end < 0 {
		hint := `end the text with "`
		if strings.HasSuffix(strings.TrimSpace(rest), `\"`) {
			hint = `\" does not end the text: write \\ for a backslash`
		}
		p.fail(p.at+1, "the quote is never closed", hint)
		return ""
	}
	p.pos += end + 2
	if p.pos < len(p.line) {
		if r, _ := utf8.DecodeRuneInString(p.line[p.pos:]); !unicode.IsSpace(r) {
			p.at = p.pos
			p.fail(p.at+1, "expected a blank after the closing quote"+found(p.peek()), `a quote inside the text is written \"`)
		}
	}
	return rest[1 : end+1]
}

// end wants the end of the line; words are those that could have stood here or before.
func (p *lineParser) end(words ...string) {
	if w := p.word(); w != "" {
		p.fail(p.at+1, "unexpected "+strings.TrimPrefix(found(w), ", found "), p.hint(w, words))
	}
}

// hint guesses what was meant by w where one of words was expected.
func (p *lineParser) hint(w string, words []string) string {
	for _, k := range words {
		if w == k { // end only: known, but too late or twice
			return "the order is " + strings.Join(words, ", ") + ", each at most once"
		}
		if rest, ok := strings.CutPrefix(w, k); ok && rest != "" {
			switch rest[0] {
			case '=':
				return "write " + k + " " + rest[1:]
			case '"':
				return "put a blank between " + k + " and the quote"
			}
		}
	}
	if _, err := strconv.ParseFloat(w, 64); err == nil && len(words) == 1 && words[0] == "weight" {
		return "write weight " + w
	}
	if k := Nearest(w, words); k != "" {
		return "did you mean " + k + "?"
	}
	switch first, _, _ := strings.Cut(strings.TrimSpace(p.line), " "); {
	case len(words) == 1 && words[0] == "route" && Nearest(w, []string{"add", "del", "weight"}) != "":
		return "start the line with route"
	case strings.Contains(p.line[:p.at], ` "`) && first == "route" && len(words) > 0:
		return "only tags and opts are quoted; other words cannot hold blanks"
	case strings.Contains(w, "=") && len(words) == 3:
		return `options go into opts "…"`
	}
	return ""
}
