package wire

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"net/netip"
	"testing"

	proxyproto "github.com/pires/go-proxyproto"
)

func TestAppendProxyHeaderText(t *testing.T) {
	tests := []struct{ src, dst, want string }{
		{"1.2.3.4:5", "6.7.8.9:65535", "PROXY TCP4 1.2.3.4 6.7.8.9 5 65535\r\n"},
		{"[::ffff:1.2.3.4]:5", "6.7.8.9:80", "PROXY TCP4 1.2.3.4 6.7.8.9 5 80\r\n"},
		{"[2001:db8::1]:5", "[2001:db8::2]:80", "PROXY TCP6 2001:db8::1 2001:db8::2 5 80\r\n"},
		{"[fe80::1%eth0]:5", "[fe80::2%eth0]:80", "PROXY TCP6 fe80::1 fe80::2 5 80\r\n"},
		{"1.2.3.4:5", "[2001:db8::2]:80", "PROXY TCP6 ::ffff:1.2.3.4 2001:db8::2 5 80\r\n"},
		{"", "6.7.8.9:80", "PROXY UNKNOWN\r\n"},
		{"1.2.3.4:5", "", "PROXY UNKNOWN\r\n"},
	}
	for _, tt := range tests {
		src, _ := netip.ParseAddrPort(tt.src)
		dst, _ := netip.ParseAddrPort(tt.dst)
		if got := string(AppendProxyHeader(nil, 1, src, dst)); got != tt.want {
			t.Errorf("AppendProxyHeader(1, %s, %s) = %q, want %q", tt.src, tt.dst, got, tt.want)
		}
		if len(tt.want) > 107 {
			t.Errorf("%q is longer than version 1 allows", tt.want)
		}
	}
}

func TestAppendProxyHeaderAllocatesNothing(t *testing.T) {
	src, dst := netip.MustParseAddrPort("1.2.3.4:5"), netip.MustParseAddrPort("[2001:db8::2]:80")
	b := make([]byte, 0, 128)
	for version := uint8(1); version <= 2; version++ {
		if n := testing.AllocsPerRun(100, func() { AppendProxyHeader(b, version, src, dst) }); n != 0 {
			t.Errorf("version %d: %v allocations", version, n)
		}
	}
}

// FuzzAppendProxyHeader reads back with go-proxyproto what was written, for every pair of addresses.
func FuzzAppendProxyHeader(f *testing.F) {
	for _, version := range []uint8{1, 2} {
		f.Add(version, []byte{1, 2, 3, 4}, []byte{5, 6, 7, 8}, uint16(1), uint16(65535))
		f.Add(version, make([]byte, 16), append(make([]byte, 15), 1), uint16(0), uint16(0))
		f.Add(version, []byte{1, 2, 3, 4}, make([]byte, 16), uint16(1), uint16(2))
		f.Add(version, []byte{}, make([]byte, 16), uint16(1), uint16(2))
	}
	f.Fuzz(func(t *testing.T, version uint8, src, dst []byte, sport, dport uint16) {
		s, sok := netip.AddrFromSlice(src)
		d, dok := netip.AddrFromSlice(dst)
		header := AppendProxyHeader(nil, version, netip.AddrPortFrom(s, sport), netip.AddrPortFrom(d, dport))
		r := bufio.NewReader(io.MultiReader(bytes.NewReader(header), bytes.NewReader([]byte("payload"))))
		got, err := proxyproto.Read(r)
		if err != nil {
			t.Fatalf("Read(%q): %v", header, err)
		}
		if rest, _ := io.ReadAll(r); string(rest) != "payload" {
			t.Fatalf("after %q: %q", header, rest)
		}
		if !sok || !dok {
			if version != 1 && got.Command != proxyproto.LOCAL {
				t.Fatalf("%q: command %v, want LOCAL", header, got.Command)
			}
			return
		}
		ss, dd, ok := got.TCPAddrs()
		if !ok {
			t.Fatalf("%q: no TCP addresses", header)
		}
		if !ss.IP.Equal(net.IP(src)) || !dd.IP.Equal(net.IP(dst)) || ss.Port != int(sport) || dd.Port != int(dport) {
			t.Fatalf("%q: read %v and %v, want %v:%d and %v:%d", header, ss, dd, s, sport, d, dport)
		}
	})
}
