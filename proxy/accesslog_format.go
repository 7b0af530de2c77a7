package proxy

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// The named formats. A template is text with $fields in it; what is not a field stays as it is.
const (
	commonLogFormat   = `$remote_host - - [$time_common] "$request" $response_status $response_body_size`
	combinedLogFormat = commonLogFormat + ` "$header.Referer" "$header.User-Agent"`
)

// jsonLogFields are the fields of the format json, in order; each one's key is its name.
var jsonLogFields = []string{
	"time_rfc3339_ms", "remote_addr", "request_method", "request_scheme", "request_host", "request_uri", "request_proto",
	"response_status", "response_body_size", "response_time_us",
	"upstream_addr", "upstream_service", "upstream_request_uri", "route",
	"header.Referer", "header.User-Agent",
}

// logFormat is a compiled format. Frozen.
type logFormat struct {
	parts  []logPart
	escape escape
}

// logPart is some text, then the value of a field.
type logPart struct {
	text   string
	field  func(b []byte, e *logEntry, esc escape) []byte // nil for none
	header string                                         // canonical name of a request header, "" for none
}

// append appends the line of e, without its end.
func (f *logFormat) append(b []byte, e *logEntry) []byte {
	for i := range f.parts {
		p := &f.parts[i]
		b = append(b, p.text...)
		switch {
		case p.field != nil:
			b = p.field(b, e, f.escape)
		case p.header != "":
			if v := e.Header[p.header]; len(v) > 0 {
				b = f.escape(b, v[0], maxLogValue)
			}
		}
	}
	return b
}

// compileLogFormat reads a format: a name, or a template.
func compileLogFormat(format string) (*logFormat, error) {
	switch format {
	case "":
		return nil, errors.New("empty: want common, combined, json or a template of text and $fields")
	case "common":
		format = commonLogFormat
	case "combined":
		format = combinedLogFormat
	case "json":
		return compileJSONFormat(jsonLogFields)
	}
	return compileTemplate(format)
}

// compileTemplate reads a template by fabio's rules: a field is "$" and then letters, digits, "_" and "-"; a "$" with
// anything else behind it, another "$" included, is text up to the next field.
func compileTemplate(format string) (*logFormat, error) {
	f := &logFormat{escape: appendText}
	if strings.ContainsAny(format, "\r\n") {
		return nil, errors.New("a template must be one line")
	}
	text := ""
	for rest := format; rest != ""; {
		n := fieldLength(rest)
		if n == 0 {
			n = textLength(rest)
			text += rest[:n]
			rest = rest[n:]
			continue
		}
		p, err := compileField(rest[1:n])
		if err != nil {
			return nil, err
		}
		p.text = text
		f.parts = append(f.parts, p)
		text, rest = "", rest[n:]
	}
	if text != "" {
		f.parts = append(f.parts, logPart{text: text})
	}
	return f, nil
}

// fieldLength is the length of the field that s begins with, 0 for none.
func fieldLength(s string) int {
	if s[0] != '$' || len(s) == 1 || !isFieldByte(s[1]) {
		return 0
	}
	n := 1 + wordLength(s[1:])
	if s[:n] == "$header" && n < len(s) && s[n] == '.' {
		n += 1 + wordLength(s[n+1:])
	}
	return n
}

// textLength is the length of the text that s begins with: up to the next "$".
func textLength(s string) int {
	skip := 1
	if s[0] == '$' && len(s) > 1 {
		skip = 2 // what follows a "$" that begins no field does not begin one either
	}
	if i := strings.IndexByte(s[skip:], '$'); i >= 0 {
		return skip + i
	}
	return len(s)
}

func wordLength(s string) int {
	n := 0
	for n < len(s) && isFieldByte(s[n]) {
		n++
	}
	return n
}

func isFieldByte(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '_' || c == '-'
}

// compileJSONFormat makes an object of the fields.
func compileJSONFormat(fields []string) (*logFormat, error) {
	f := &logFormat{escape: appendJSON}
	text := "{"
	for _, name := range fields {
		p, err := compileField(name)
		if err != nil {
			return nil, err
		}
		quote := `"`
		if i := findLogField(name); i >= 0 && logFields[i].number {
			quote = ""
		}
		p.text = text + `"` + name + `":` + quote
		text = quote + ","
		f.parts = append(f.parts, p)
	}
	f.parts = append(f.parts, logPart{text: strings.TrimSuffix(text, ",") + "}"})
	return f, nil
}

// compileField finds a field by its name, without the "$".
func compileField(name string) (logPart, error) {
	if header, ok := strings.CutPrefix(name, "header."); ok && header != "" {
		return logPart{header: http.CanonicalHeaderKey(header)}, nil
	}
	i := findLogField(name)
	if i < 0 {
		return logPart{}, unknownLogField(name)
	}
	return logPart{field: logFields[i].append}, nil
}

func findLogField(name string) int {
	return slices.IndexFunc(logFields, func(f logField) bool { return f.name == name })
}

func unknownLogField(name string) error {
	known := []string{"$header.NAME"}
	for _, f := range logFields {
		known = append(known, "$"+f.name)
	}
	return fmt.Errorf("unknown field %q: want %s", "$"+name, strings.Join(known, ", "))
}
