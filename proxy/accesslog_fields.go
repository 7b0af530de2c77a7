package proxy

import (
	"net"
	"strconv"
	"strings"
	"time"
)

// logField is a $field of the access log.
type logField struct {
	name, help string
	// number says that the value is a number in JSON as well.
	number bool
	append func(b []byte, e *logEntry, esc escape) []byte
}

// logFields are all there are beside $header.NAME.
var logFields = []logField{
	{name: "remote_addr", help: "address and port of the client", append: func(b []byte, e *logEntry, esc escape) []byte {
		return esc(b, e.RemoteAddr, maxLogValue)
	}},
	{name: "remote_host", help: "address of the client", append: func(b []byte, e *logEntry, esc escape) []byte {
		host, _ := hostAndPort(e.RemoteAddr)
		return esc(b, host, maxLogValue)
	}},
	{name: "remote_port", help: "port of the client", append: func(b []byte, e *logEntry, esc escape) []byte {
		_, port := hostAndPort(e.RemoteAddr)
		return esc(b, port, maxLogValue)
	}},
	{name: "request", help: "method, target and protocol, as the client sent them", append: appendRequest},
	{name: "request_args", help: "query of the target", append: func(b []byte, e *logEntry, esc escape) []byte {
		_, query, _ := strings.Cut(e.URI, "?")
		return esc(b, query, maxLogValue)
	}},
	{name: "request_host", help: "host that the client asked for", append: func(b []byte, e *logEntry, esc escape) []byte {
		return esc(b, e.Host, maxLogValue)
	}},
	{name: "request_method", help: "method", append: func(b []byte, e *logEntry, esc escape) []byte {
		return esc(b, e.Method, maxLogValue)
	}},
	{name: "request_scheme", help: "http or https", append: func(b []byte, e *logEntry, esc escape) []byte {
		return esc(b, e.Scheme, maxLogValue)
	}},
	{name: "request_uri", help: "target, as the client sent it", append: func(b []byte, e *logEntry, esc escape) []byte {
		return esc(b, e.URI, maxLogValue)
	}},
	{name: "request_url", help: "scheme, host and target", append: appendRequestURL},
	{name: "request_proto", help: "protocol, such as HTTP/1.1", append: func(b []byte, e *logEntry, esc escape) []byte {
		return esc(b, e.Proto, maxLogValue)
	}},
	{name: "response_body_size", number: true, help: "bytes of the answer's body", append: func(b []byte, e *logEntry, _ escape) []byte {
		return strconv.AppendInt(b, e.Bytes, 10)
	}},
	{name: "response_status", number: true, help: "status of the answer; 499 when the client left first", append: func(b []byte, e *logEntry, _ escape) []byte {
		return strconv.AppendInt(b, int64(e.Status), 10)
	}},
	{name: "response_time_ms", number: true, help: "seconds from the request to the end of the answer, S.mmm", append: func(b []byte, e *logEntry, _ escape) []byte {
		return appendSeconds(b, e.Took, 3)
	}},
	{name: "response_time_us", number: true, help: "the same, S.uuuuuu", append: func(b []byte, e *logEntry, _ escape) []byte {
		return appendSeconds(b, e.Took, 6)
	}},
	{name: "response_time_ns", number: true, help: "the same, S.nnnnnnnnn", append: func(b []byte, e *logEntry, _ escape) []byte {
		return appendSeconds(b, e.Took, 9)
	}},
	{name: "route", help: "host and path of the route", append: func(b []byte, e *logEntry, esc escape) []byte {
		return esc(b, e.Route, maxLogValue)
	}},
	{name: "time_common", help: "end of the answer, DD/Mon/YYYY:HH:MM:SS and zone", append: appendTime("02/Jan/2006:15:04:05 -0700")},
	{name: "time_rfc3339", help: "end of the answer, YYYY-MM-DDTHH:MM:SS and zone", append: appendTime("2006-01-02T15:04:05Z07:00")},
	{name: "time_rfc3339_ms", help: "the same with milliseconds", append: appendTime("2006-01-02T15:04:05.000Z07:00")},
	{name: "time_rfc3339_us", help: "the same with microseconds", append: appendTime("2006-01-02T15:04:05.000000Z07:00")},
	{name: "time_rfc3339_ns", help: "the same with nanoseconds", append: appendTime("2006-01-02T15:04:05.000000000Z07:00")},
	{name: "time_unix_ms", number: true, help: "end of the answer, milliseconds since 1970", append: func(b []byte, e *logEntry, _ escape) []byte {
		return strconv.AppendInt(b, e.end.UnixMilli(), 10)
	}},
	{name: "time_unix_us", number: true, help: "the same in microseconds", append: func(b []byte, e *logEntry, _ escape) []byte {
		return strconv.AppendInt(b, e.end.UnixMicro(), 10)
	}},
	{name: "time_unix_ns", number: true, help: "the same in nanoseconds", append: func(b []byte, e *logEntry, _ escape) []byte {
		return strconv.AppendInt(b, e.end.UnixNano(), 10)
	}},
	{name: "upstream_addr", help: "address and port of the upstream", append: func(b []byte, e *logEntry, esc escape) []byte {
		return esc(b, e.UpstreamAddr, maxLogValue)
	}},
	{name: "upstream_host", help: "host of the upstream", append: func(b []byte, e *logEntry, esc escape) []byte {
		host, _ := hostAndPort(e.UpstreamAddr)
		return esc(b, host, maxLogValue)
	}},
	{name: "upstream_port", help: "port of the upstream", append: func(b []byte, e *logEntry, esc escape) []byte {
		_, port := hostAndPort(e.UpstreamAddr)
		return esc(b, port, maxLogValue)
	}},
	{name: "upstream_request_scheme", help: "http or https, to the upstream", append: func(b []byte, e *logEntry, esc escape) []byte {
		return esc(b, e.UpstreamScheme, maxLogValue)
	}},
	{name: "upstream_request_uri", help: "target, as the upstream got it", append: func(b []byte, e *logEntry, esc escape) []byte {
		return esc(b, e.UpstreamURI, maxLogValue)
	}},
	{name: "upstream_request_url", help: "scheme, address and target of the request to the upstream", append: appendUpstreamURL},
	{name: "upstream_service", help: "name of the service", append: func(b []byte, e *logEntry, esc escape) []byte {
		return esc(b, e.Service, maxLogValue)
	}},
}

// AccessLogFields lists the fields of the access log for the documentation; $header.NAME comes first.
func AccessLogFields() []OptionHelp {
	list := []OptionHelp{{Name: "header.NAME", Syntax: "$header.NAME", Help: "first value of a request header"}}
	for _, f := range logFields {
		list = append(list, OptionHelp{Name: f.name, Syntax: "$" + f.name, Help: f.help})
	}
	return list
}

// appendRequest leaves room for the words around a long target, so that there are always three; or none, for what was
// refused before it became a request.
func appendRequest(b []byte, e *logEntry, esc escape) []byte {
	if e.Method == "" {
		return b
	}
	b = esc(b, e.Method, maxLogToken)
	b = append(b, ' ')
	b = esc(b, e.URI, maxLogValue-2*maxLogToken-2)
	b = append(b, ' ')
	return esc(b, e.Proto, maxLogToken)
}

func appendRequestURL(b []byte, e *logEntry, esc escape) []byte {
	if !strings.HasPrefix(e.URI, "/") && e.URI != "*" {
		return esc(b, e.URI, maxLogValue)
	}
	return appendURL(b, e.Scheme, e.Host, e.URI, esc)
}

func appendUpstreamURL(b []byte, e *logEntry, esc escape) []byte {
	if e.UpstreamAddr == "" {
		return b
	}
	return appendURL(b, e.UpstreamScheme, e.UpstreamAddr, e.UpstreamURI, esc)
}

func appendURL(b []byte, scheme, host, uri string, esc escape) []byte {
	start := len(b)
	b = esc(b, scheme, maxLogToken)
	b = append(b, "://"...)
	b = esc(b, host, maxLogValue/4)
	return esc(b, uri, maxLogValue-(len(b)-start))
}

// hostAndPort splits host:port, without brackets. A port that is missing is "".
func hostAndPort(addr string) (host, port string) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return addr, ""
	}
	return host, port
}

// appendSeconds appends d in seconds with so many decimals, cut, not rounded.
func appendSeconds(b []byte, d time.Duration, decimals int) []byte {
	d = max(d, 0)
	b = strconv.AppendInt(b, int64(d/time.Second), 10)
	b = append(b, '.')
	rest := int64(d % time.Second)
	unit := int64(time.Second / 10)
	for range decimals {
		b = append(b, '0'+byte(rest/unit))
		rest %= unit
		unit /= 10
	}
	return b
}

func appendTime(layout string) func([]byte, *logEntry, escape) []byte {
	return func(b []byte, e *logEntry, _ escape) []byte { return e.end.AppendFormat(b, layout) }
}
