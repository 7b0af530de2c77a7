package proxy

import (
	"reflect"
	"strings"
	"testing"
	"time"
)

func TestParseListen(t *testing.T) {
	http := func(addr string) ListenConfig { return ListenConfig{Addr: addr, Proto: "http"} }
	tcp := func(addr string) ListenConfig { return ListenConfig{Addr: addr, Proto: "tcp"} }
	full := ListenConfig{Addr: ":1", Proto: "tcp", ReadTimeout: time.Second, WriteTimeout: 2 * time.Minute, IdleTimeout: 3 * time.Hour}
	tests := []struct {
		s    string
		want []ListenConfig
	}{
		{":9999", []ListenConfig{http(":9999")}},
		{"1.2.3.4:80", []ListenConfig{http("1.2.3.4:80")}},
		{"[::1]:80", []ListenConfig{http("[::1]:80")}},
		{"[fe80::1%eth0]:80", []ListenConfig{http("[fe80::1%eth0]:80")}},
		{"localhost:80", []ListenConfig{http("localhost:80")}},
		{":http", []ListenConfig{http(":80")}},
		{"addr=:80", []ListenConfig{http(":80")}},
		{"proto=tcp;addr=:80", []ListenConfig{tcp(":80")}},
		{":80;proto=http", []ListenConfig{http(":80")}},
		{":80;proto=", []ListenConfig{http(":80")}},
		{":1;proto=tcp;rt=1s;wt=2m;it=3h", []ListenConfig{full}},
		{` addr = ":1" ; proto='tcp'; rt ="1s";wt= 2m ;it=3h`, []ListenConfig{full}},
		{":80,:81;proto=tcp", []ListenConfig{http(":80"), tcp(":81")}},
		{" :80 , :81 ", []ListenConfig{http(":80"), http(":81")}},
		{",;:80;;rt=0s,,", []ListenConfig{http(":80")}},
		{":80;pxyproto=false;strictmatch=false;cs=", []ListenConfig{http(":80")}},
		{"127.0.0.1:0,127.0.0.1:0", []ListenConfig{http("127.0.0.1:0"), http("127.0.0.1:0")}},
	}
	for _, tt := range tests {
		got, err := ParseListen(tt.s)
		if err != nil || !reflect.DeepEqual(got, tt.want) {
			t.Errorf("ParseListen(%q) = %v, %v, want %v", tt.s, got, err, tt.want)
		}
	}
}

func TestParseListenTemplate(t *testing.T) {
	got, err := ParseListen(`{{ "127.0.0.1" }}:9999;proto=tcp`)
	if err != nil || len(got) != 1 || got[0].Addr != "127.0.0.1:9999" || got[0].Proto != "tcp" {
		t.Errorf("ParseListen = %v, %v", got, err)
	}
	for _, s := range []string{"{{ GetNothing }}:9999", `{{ GetInterfaceIP "nosuch" }}`, `{{ GetInterfaceIP "nosuch" }}:9999`, "{{"} {
		if got, err := ParseListen(s); err == nil {
			t.Errorf("ParseListen(%q) = %v, want an error", s, got)
		}
	}
}

func TestParseListenRefuses(t *testing.T) {
	tests := []struct{ s, want string }{
		{"", "want host:port"},
		{" ;,", "want host:port"},
		{"proto=tcp", "need listening host:port"},
		{"9999", `such as ":9999"`},
		{"localhost", "need listening host:port"},
		{"localhost:", `port "": want 0 to 65535`},
		{":70000", `port "70000": want 0 to 65535`},
		{":-1", "want 0 to 65535"},
		{"a b:80", `"a b" is not a host`},
		{":80;rt=5", `rt: "5": want a duration, such as 5s`},
		{":80;it=-5s", `it: "-5s": want a duration`},
		{":80;foo=1", `unknown key "foo": want addr, proto, rt, wt, it`},
		{":80;rt", `"rt" has no value`},
		{":80;=5", `"=" has no key`},
		{":80;rt=1s;rt=2s", "rt is given twice"},
		{":80;addr=:81", "addr is given twice"},
		{":80,:80", "address :80 is given twice"},
		{":80;rt=\"1s", "unbalanced quotes"},
		{":80;rt=\"1s\\", "unbalanced quotes"},
		{`:80;rt="\z"`, "invalid escape sequence"},
		{":80;proto=foo", `unknown protocol "foo": want http or tcp`},
		{":80;proto=https", "protocol https is not part of this version: want http or tcp"},
		{":80;proto=tcp+sni", "protocol tcp+sni is not part of this version"},
		{":80;cs=mine", "cs: TLS listeners are not part of this version, which has addr, proto, rt, wt, it"},
		{":80;proto=tcp;cs=mine", "cs: TLS listeners are not part of this version"},
		{":80;tlsmin=tls12", "tlsmin: TLS listeners are not part"},
		{":80;pxyproto=true", "pxyproto: PROXY protocol from clients is not part of this version"},
		{":80;pxytimeout=1s", "pxytimeout: PROXY protocol from clients is not part"},
		{":80;refresh=5s", "refresh: protocol tcp-dynamic is not part"},
	}
	for _, tt := range tests {
		got, err := ParseListen(tt.s)
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("ParseListen(%q) = %v, %v, want %q", tt.s, got, err, tt.want)
		}
	}
	for _, name := range laterProtocols {
		if _, err := ParseListen(":80;proto=" + name); err == nil || !strings.Contains(err.Error(), "not part of this version") {
			t.Errorf("proto=%s: %v", name, err)
		}
	}
}

// TestParsePairs has fabio's own cases.
func TestParsePairs(t *testing.T) {
	tests := []struct {
		s    string
		want []pairs
	}{
		{"", nil},
		{"a=b", []pairs{{{"a", "b"}}}},
		{" a =b", []pairs{{{"a", "b"}}}},
		{`a="b"`, []pairs{{{"a", "b"}}}},
		{"a='b'", []pairs{{{"a", "b"}}}},
		{`a="b\\\""`, []pairs{{{"a", `b\"`}}}},
		{",a=b", []pairs{{{"a", "b"}}}},
		{"a=b,", []pairs{{{"a", "b"}}}},
		{";a=b", []pairs{{{"a", "b"}}}},
		{"a=b;", []pairs{{{"a", "b"}}}},
		{"a=b;c=d", []pairs{{{"a", "b"}, {"c", "d"}}}},
		{"a=b,c=d", []pairs{{{"a", "b"}}, {{"c", "d"}}}},
		{"a=b;c=d,e=f;g=h", []pairs{{{"a", "b"}, {"c", "d"}}, {{"e", "f"}, {"g", "h"}}}},
		{"b", []pairs{{{"", "b"}}}},
		{"b;c=d", []pairs{{{"", "b"}, {"c", "d"}}}},
		{"b,c", []pairs{{{"", "b"}}, {{"", "c"}}}},
		{"b;c=d,e;f=g", []pairs{{{"", "b"}, {"c", "d"}}, {{"", "e"}, {"f", "g"}}}},
		{"a=b=c,d=e=f", []pairs{{{"a", "b=c"}}, {{"d", "e=f"}}}},
		{"a=b=c;d=e=f", []pairs{{{"a", "b=c"}, {"d", "e=f"}}}},
		// Beyond fabio: whole words between single quotes, and text behind a quote.
		{`a='b;"c",\'d\\'`, []pairs{{{"a", `b;"c",'d\`}}}},
		{`a="b;"c`, []pairs{{{"a", "b;c"}}}},
		{`"b,c";d=e`, []pairs{{{"", "b,c"}, {"d", "e"}}}},
		{"a=", []pairs{{{"a", ""}}}},
	}
	for _, tt := range tests {
		got, err := parsePairs(tt.s)
		if err != nil || !reflect.DeepEqual(got, tt.want) {
			t.Errorf("parsePairs(%q) = %q, %v, want %q", tt.s, got, err, tt.want)
		}
	}
}

// FuzzParseListen checks that what is accepted can be written and read back.
func FuzzParseListen(f *testing.F) {
	for _, s := range []string{
		":9999", "a.b:80;rt=1s;wt=1m;it=1h,:81;proto=tcp", `addr=":80";rt='1s'`, "[::1]:0;pxyproto=false", `:1;a="\x00`, ",;,",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if strings.Contains(s, "{{") {
			return // what templates do is go-sockaddr's business
		}
		configs, err := ParseListen(s)
		if err != nil {
			return
		}
		var texts []string
		for _, l := range configs {
			texts = append(texts, l.String())
		}
		again, err := ParseListen(strings.Join(texts, ","))
		if err != nil || !reflect.DeepEqual(again, configs) {
			t.Fatalf("ParseListen(%q) = %v, read back as %v, %v", s, configs, again, err)
		}
	})
}

func TestListenFlags(t *testing.T) {
	c := testConfig(t)
	if err := c.Validate(); err != nil {
		t.Fatalf("defaults: %v", err)
	}
	configs, err := c.Listen.listenConfigs()
	want := []ListenConfig{{Addr: ":9999", Proto: "http", IdleTimeout: 75 * time.Second}}
	if err != nil || !reflect.DeepEqual(configs, want) {
		t.Errorf("defaults listen on %v, %v, want %v", configs, err, want)
	}
	c = testConfig(t, "--proxy.readtimeout=1s", "--proxy.writetimeout=2s", "--proxy.addr=:1,:2;proto=tcp,:3;rt=5s;wt=6s;it=7s")
	configs, _ = c.Listen.listenConfigs()
	want = []ListenConfig{
		{":1", "http", time.Second, 2 * time.Second, 75 * time.Second},
		{":2", "tcp", time.Second, 2 * time.Second, time.Hour},
		{":3", "http", 5 * time.Second, 6 * time.Second, 7 * time.Second},
	}
	if !reflect.DeepEqual(configs, want) {
		t.Errorf("listen on %v, want %v", configs, want)
	}
}

func TestListenFlagsRefused(t *testing.T) {
	tests := []struct{ flag, want string }{
		{"--proxy.cs=cs=x;type=file;cert=y", "proxy.cs: TLS listeners are not part of this version"},
		{"--proxy.addr=:80;proto=https", `proxy.addr: ":80;proto=https": proto: protocol https is not part of this version: want http or tcp`},
		{"--proxy.addr=", `proxy.addr: "": want host:port`},
		{"--proxy.readtimeout=-1s", "proxy.readtimeout: -1s: must be at least 0s"},
		{"--proxy.headertimeout=0", "proxy.headertimeout: 0s: must be at least 1ms"},
		{"--proxy.idletimeout=0", "proxy.idletimeout: 0s: must be at least 1ms"},
		{"--proxy.limit.connections=-1", "proxy.limit.connections: -1: must not be negative"},
		{"--proxy.limit.header=10", "proxy.limit.header: 10: must be at least 1024"},
	}
	for _, tt := range tests {
		c := testConfig(t, tt.flag)
		if err := c.Validate(); err == nil || err.Error() != tt.want {
			t.Errorf("%s: error %v, want %q", tt.flag, err, tt.want)
		}
	}
}

func TestConnectionLimit(t *testing.T) {
	for _, tt := range []struct{ open, want int }{{64, 32}, {512, 256}, {1024, 512}, {4096, 1024}, {20000, 2000}, {1 << 20, 104857}} {
		if got := fileReserve(tt.open); got != tt.want {
			t.Errorf("fileReserve(%d) = %d, want %d", tt.open, got, tt.want)
		}
	}
	conns, files := (&ListenDefaults{Connections: 7}).connections()
	if conns != 7 || files < 7 && files != 0 {
		t.Errorf("connections() = %d, %d", conns, files)
	}
}

func TestListHelp(t *testing.T) {
	for _, h := range append(Protocols(), ListenKeys()...) {
		if h.Name == "" || h.Help == "" {
			t.Errorf("%+v lacks a name or help", h)
		}
	}
}
