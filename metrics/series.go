package metrics

import (
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// family is a metric as the Prometheus client knows it.
type family struct {
	kind   string
	desc   *prometheus.Desc
	labels []string
	order  []int // indices of labels, by name: the order in which the client wants them
}

// families makes all families by their name in the list of descriptions.
func families(namespace, subsystem string) map[string]*family {
	all := make(map[string]*family, len(described))
	for _, d := range described {
		f := &family{kind: d.Kind, labels: d.Labels, order: make([]int, len(d.Labels))}
		f.desc = prometheus.NewDesc(prometheus.BuildFQName(namespace, subsystem, d.Name), d.Help, d.Labels, nil)
		for i := range f.order {
			f.order[i] = i
		}
		slices.SortFunc(f.order, func(i, j int) int { return strings.Compare(f.labels[i], f.labels[j]) })
		all[d.Name] = f
	}
	return all
}

// pairs joins the family's label names with values.
func (f *family) pairs(values ...string) []*dto.LabelPair {
	if len(values) != len(f.labels) {
		panic("metrics: " + f.desc.String() + ": wrong number of labels")
	}
	pairs := make([]dto.LabelPair, len(values))
	pointers := make([]*dto.LabelPair, len(values))
	for i, l := range f.order {
		pairs[i].Name, pairs[i].Value = &f.labels[l], &values[l]
		pointers[i] = &pairs[i]
	}
	return pointers
}

// series is one series at one scrape: a value, or the words of a histogram. It does the work of the client's constant
// metrics with a tenth of their allocations.
type series struct {
	family *family
	labels []*dto.LabelPair
	value  float64
	bounds []float64
	words  []uint64
}

// Desc implements prometheus.Metric.
func (s *series) Desc() *prometheus.Desc { return s.family.desc }

// Write implements prometheus.Metric.
func (s *series) Write(out *dto.Metric) error {
	out.Label = s.labels
	switch s.family.kind {
	case counter:
		out.Counter = &dto.Counter{Value: &s.value}
	case gauge:
		out.Gauge = &dto.Gauge{Value: &s.value}
	case histogram:
		out.Histogram = s.histogram()
	}
	return nil
}

func (s *series) histogram() *dto.Histogram {
	n := len(s.bounds)
	buckets := make([]dto.Bucket, n)
	pointers := make([]*dto.Bucket, n)
	counts := make([]uint64, n+1)
	var count uint64
	for i := range counts {
		count += s.words[i]
		counts[i] = count
		if i < n {
			buckets[i].CumulativeCount, buckets[i].UpperBound = &counts[i], &s.bounds[i]
			pointers[i] = &buckets[i]
		}
	}
	sum := secondsOf(s.words[n+1])
	return &dto.Histogram{SampleCount: &counts[n], SampleSum: &sum, Bucket: pointers}
}

// secondsOf makes seconds of the microseconds that sums are kept in.
func secondsOf(micro uint64) float64 { return float64(micro) / 1e6 }
