package metrics

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// maxScrapes is how many scrapes are answered at once; more get 503.
const maxScrapes = 8

// Handler serves the metrics to Prometheus, compressed if it likes. Scrapes that come at the same time share one
// reading. What cannot be read is left out and counted in promhttp_metric_handler_errors_total. It speaks no
// OpenMetrics: that would add _total to fabio's names.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{
		ErrorHandling:       promhttp.ContinueOnError,
		Registry:            m.registry,
		MaxRequestsInFlight: maxScrapes,
		CoalesceGather:      true,
	})
}
