package metrics

import "slices"

// Description says what a metric is. Docs are checked against the list, and a scrape is made of it.
type Description struct {
	// Name is the name without what metrics.prefix and metrics.prometheus.subsystem put in front.
	Name string
	// Kind is "counter", "gauge" or "histogram".
	Kind string
	// Labels are the label names in the order in which values are given.
	Labels []string
	// Help is one sentence.
	Help string
}

const (
	counter   = "counter"
	gauge     = "gauge"
	histogram = "histogram"
)

// targetLabels are the labels of the metrics that belong to a target.
var targetLabels = []string{"service", "host", "path", "target"}

// described lists the metrics: fabio's own first, with fabio's names, then varco's.
var described = []Description{
	{"route", histogram, targetLabels, "Time to answer HTTP requests, in seconds, by target."},
	{"route_rx", counter, targetLabels, "Bytes from the target to clients: bodies, and streams of TCP and WebSocket."},
	{"route_tx", counter, targetLabels, "Bytes from clients to the target: bodies, and streams of TCP and WebSocket."},
	{"requests", histogram, []string{"service"}, "Time to answer HTTP requests, in seconds, by service."},
	{"http_status", histogram, []string{"code", "service"},
		"Time to answer HTTP requests, in seconds, by status and service; code 0 is what has no valid status."},
	{"http_redirect_count", counter, []string{"code"}, "Redirects answered by varco."},
	{"notfound", counter, nil, "Requests and connections that no route matched."},
	{"ws_conn", gauge, nil, "Open WebSocket tunnels."},
	{"tcp_conn", counter, nil, "TCP connections accepted."},
	{"tcp_connfail", counter, nil, "TCP connections whose upstream could not be reached."},
	{"tcp_noroute", counter, nil, "TCP connections that no route matched, counted in notfound too."},

	{"route_errors_total", counter, append(slices.Clip(targetLabels), "kind"), "Failed tries at the target, by kind."},
	{"route_retries_total", counter, targetLabels, "Requests tried again after they failed at the target."},
	{"route_in_flight", gauge, targetLabels, "Requests being served by the target now."},
	{"route_conns_total", counter, targetLabels, "TCP and WebSocket tunnels opened to the target."},
	{"route_conn_seconds_total", counter, targetLabels, "How long the closed tunnels to the target were open, together."},
	{"route_open_conns", gauge, targetLabels, "TCP and WebSocket tunnels to the target that are open now."},
	{"route_folded", gauge, nil, "Targets with traffic that are summed in the series _other now."},
	{"route_ended_total", counter, nil,
		"Requests whose series ended with their target or gave up its place; with all series of route: every request."},
	{"upstream_errors_total", counter, []string{"kind"}, "Failed tries at all upstreams, by kind."},
	{"upstream_retries_total", counter, nil, "Requests tried again after they failed at an upstream."},
	{"http_answers_total", counter, []string{"code"}, "Answers that varco gave itself, without an upstream."},
	{"route_down_total", counter, nil, "Requests and connections whose route had no target to give them to."},
	{"denied_total", counter, []string{"proto"}, "Requests and connections refused by an allow or deny option."},

	{"open_connections", gauge, nil, "Open client connections of all listeners."},
	{"tcp_open_conns", gauge, nil, "Open TCP tunnels."},
	{"accept_errors_total", counter, nil, "Connections that could not be accepted."},
	{"limit_hits_total", counter, []string{"limit"}, "Times a limit was hit."},
	{"panics_total", counter, nil, "Faults of varco that cost one request or connection."},
	{"log_dropped_total", counter, nil, "Lines of the access log that were dropped, its file or pipe being too slow."},

	{"table_routes", gauge, nil, "Routes in the table."},
	{"table_targets", gauge, nil, "Targets in the table."},
	{"table_hosts", gauge, nil, "Host names and patterns in the table."},
	{"table_age_seconds", gauge, nil, "Time since the table last changed; absent before the first table."},
	{"table_updates_total", counter, nil, "Times the table changed."},
	{"table_update_seconds", histogram, nil, "Time to put a changed table into use, in seconds."},
	{"rejected_tags", gauge, nil, "Tags and lines of routes that are refused now."},
	{"registry_queries_total", counter, []string{"kind", "result"}, "Queries to the registry: ok, error, timeout or canceled."},
	{"registry_query_seconds", histogram, []string{"kind"},
		"Time of the queries to the registry, in seconds; one that waits for a change takes minutes."},
	{"registry_age_seconds", gauge, []string{"kind"}, "Time since the registry last answered, by kind of query."},

	{"build_info", gauge, []string{"version", "revision", "goversion"}, "Always 1; the labels say what runs."},
}

// Described lists every metric of varco. The metrics of the Go runtime (go_…), the process (process_…) and the handler
// (promhttp_…) come on top, without prefix.
func Described() []Description { return slices.Clone(described) }
