package main

import (
	"errors"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"varco/registry"
)

// fabioNames are the settings of fabio 1.7.3, each of which varco knows. They alone are also read from the environment
// without a prefix (PROXY_ADDR), as fabio does.
var fabioNames = strings.Fields(`
	insecure
	proxy.addr proxy.cs proxy.auth proxy.strategy proxy.matcher proxy.noroutestatus proxy.shutdownwait
	proxy.deregistergraceperiod proxy.dialtimeout proxy.responseheadertimeout proxy.keepalivetimeout
	proxy.idleconntimeout proxy.maxconn proxy.localip proxy.flushinterval proxy.globalflushinterval
	proxy.gzip.contenttype proxy.header.clientip proxy.header.tls proxy.header.tls.value proxy.header.requestid
	proxy.header.sts.maxage proxy.header.sts.subdomains proxy.header.sts.preload proxy.grpcmaxrxmsgsize
	proxy.grpcmaxtxmsgsize proxy.grpcshutdowntimeout proxy.readtimeout proxy.writetimeout proxy.log.routes
	aws.apigw.cert.cn
	log.access.format log.access.target log.routes.format log.level
	metrics.target metrics.prefix metrics.names metrics.interval metrics.timeout metrics.retry
	metrics.graphite.addr metrics.statsd.addr metrics.dogstatsd.addr metrics.prometheus.subsystem
	metrics.prometheus.path metrics.prometheus.buckets metrics.circonus.apikey metrics.circonus.apiapp
	metrics.circonus.apiurl metrics.circonus.brokerid metrics.circonus.checkid metrics.circonus.submissionurl
	registry.backend registry.timeout registry.retry registry.static.routes registry.static.noroutehtmlpath
	registry.file.path registry.file.noroutehtmlpath
	registry.consul.addr registry.consul.token registry.consul.namespace registry.consul.kvpath
	registry.consul.noroutehtmlpath registry.consul.tagprefix registry.consul.tls.keyfile
	registry.consul.tls.certfile registry.consul.tls.cafile registry.consul.tls.capath
	registry.consul.tls.insecureskipverify registry.consul.register.enabled registry.consul.register.addr
	registry.consul.register.name registry.consul.register.tags registry.consul.register.checkInterval
	registry.consul.register.checkTimeout registry.consul.register.checkTLSSkipVerify
	registry.consul.register.checkDeregisterCriticalServiceAfter registry.consul.service.status
	registry.consul.checksRequired registry.consul.serviceMonitors registry.consul.pollinterval
	registry.consul.requireConsistent registry.consul.allowStale
	registry.custom.host registry.custom.scheme registry.custom.path registry.custom.queryparams
	registry.custom.timeout registry.custom.pollinterval registry.custom.checkTLSSkipVerify
	registry.custom.noroutehtml
	runtime.gogc runtime.gomaxprocs
	ui.addr ui.access ui.path ui.color ui.title ui.routingtable.source.linkenabled ui.routingtable.source.newtab
	ui.routingtable.source.scheme ui.routingtable.source.host ui.routingtable.source.port
	profile.mode profile.path
	glob.matching.disabled glob.cache.size
	bgp.enabled bgp.asn bgp.routerid bgp.nexthop bgp.anycastaddresses bgp.listenport bgp.listenaddresses bgp.peers
	bgp.enablegrpc bgp.grpclistenaddress bgp.gobgpdcfgfile
	tracing.TracingEnabled tracing.CollectorType tracing.ConnectString tracing.ServiceName tracing.Topic
	tracing.SamplerRate tracing.SpanHost tracing.SpanName
`)

func isFabioFlag(name string) bool { return slices.Contains(fabioNames, name) }

// fabioConfig holds the settings of fabio that belong to the whole process and that this version does not have. They
// are known, so that a fabio configuration starts as it is; switched on, they are an error and never a silent nothing.
type fabioConfig struct {
	bgpEnabled     bool
	tracingEnabled bool
}

// fabioFlags registers fabio's settings without a home in any package.
func (p *processConfig) fabioFlags(fs *pflag.FlagSet) {
	const bgp = "only with bgp.enabled, which this version does not have"
	fs.BoolVar(&p.fabio.bgpEnabled, "bgp.enabled", false, "announce addresses over BGP: true is an error, this version does not have it")
	fs.Int("bgp.asn", 65000, bgp)
	fs.String("bgp.routerid", "", bgp)
	fs.String("bgp.nexthop", "", bgp)
	fs.String("bgp.anycastaddresses", "", bgp)
	fs.Int("bgp.listenport", 179, bgp)
	fs.String("bgp.listenaddresses", "0.0.0.0", bgp)
	fs.Var(new(registry.Secret), "bgp.peers", bgp)
	fs.Bool("bgp.enablegrpc", false, bgp)
	fs.String("bgp.grpclistenaddress", "127.0.0.1:50051", bgp)
	fs.String("bgp.gobgpdcfgfile", "", bgp)

	const tracing = "only with tracing.TracingEnabled, which this version does not have"
	fs.BoolVar(&p.fabio.tracingEnabled, "tracing.TracingEnabled", false, "tracing of fabio before 1.7: true is an error, this version does not have it")
	fs.String("tracing.CollectorType", "http", tracing)
	fs.String("tracing.ConnectString", "http://localhost:9411/api/v1/spans", tracing)
	fs.String("tracing.ServiceName", "Fabiolb", tracing)
	fs.String("tracing.Topic", "Fabiolb-Kafka-Topic", tracing)
	fs.Float64("tracing.SamplerRate", -1, tracing)
	fs.String("tracing.SpanHost", "localhost:9998", tracing)
	fs.String("tracing.SpanName", "", tracing)

	fs.String("aws.apigw.cert.cn", "", "no effect in fabio and none here")
	fs.Lookup("aws.apigw.cert.cn").Deprecated = "has no effect, nor in fabio: use caupgcn in proxy.cs"
}

func (f *fabioConfig) validate() error {
	var errs []error
	if f.bgpEnabled {
		errs = append(errs, errors.New("bgp.enabled: BGP is not part of this version"))
	}
	if f.tracingEnabled {
		errs = append(errs, errors.New("tracing.TracingEnabled: tracing is not part of this version"))
	}
	return errors.Join(errs...)
}

// secretType is the pflag type of a value that must not be shown.
const secretType = "secret"
