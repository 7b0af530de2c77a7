package proxy

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"
)

func TestAccessRule(t *testing.T) {
	for _, c := range []struct {
		allow      bool
		rule, addr string
		want       bool
	}{
		{true, "ip:10.0.0.0/8", "10.1.2.3", true},
		{true, "ip:10.0.0.0/8", "11.0.0.0", false},
		{true, "ip:10.0.0.0/8", "::ffff:10.1.2.3", true},
		{true, "ip:10.1.2.3/8", "10.9.9.9", true},
		{true, "ip:10.0.0.1,10.0.0.3", "10.0.0.2", false},
		{true, "ip:10.0.0.0/8,10.1.0.0/16", "10.200.0.0", true},
		{true, "ip:fe80::1", "fe80::1%eth0", true},
		{true, "ip:0.0.0.0/0", "::1", false},
		{true, "ip:::/0", "1.2.3.4", false},
		{true, "ip:::/0", "2001:db8::1", true},
		{false, "ip:10.0.0.0/8", "10.255.255.255", false},
		{false, "ip:10.0.0.0/8", "9.255.255.255", true},
		{false, "ip:2001:db8::/32", "2001:db8:ffff::1", false},
	} {
		rule, err := parseAccess(c.allow, c.rule)
		if err != nil {
			t.Errorf("parseAccess(%q): %v", c.rule, err)
			continue
		}
		if got := rule.permits(netip.MustParseAddr(c.addr)); got != c.want {
			t.Errorf("%q (allow %v) permits %s = %v, want %v", c.rule, c.allow, c.addr, got, c.want)
		}
	}
	var none *accessRule
	if !none.permits(netip.Addr{}) {
		t.Error("the nil rule does not permit")
	}
}

func TestUnknownPeer(t *testing.T) {
	for _, allow := range []bool{true, false} {
		rule, _ := parseAccess(allow, "ip:10.0.0.0/8")
		if got := rule.permitsRequest(netip.Addr{}, nil); got != !allow {
			t.Errorf("allow %v: an unknown peer is permitted: %v", allow, got)
		}
	}
}

// TestAccessRuleAgainstPrefixes compares with asking each prefix.
func TestAccessRuleAgainstPrefixes(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	addr := func() netip.Addr {
		var b [4]byte
		binary.BigEndian.PutUint32(b[:], r.Uint32()&0x0f0f0303)
		return netip.AddrFrom4(b)
	}
	for range 200 {
		var prefixes []netip.Prefix
		var words []string
		for range 1 + r.IntN(12) {
			p := netip.PrefixFrom(addr(), r.IntN(33)).Masked()
			prefixes = append(prefixes, p)
			words = append(words, "ip:"+p.String())
		}
		rule, err := parseAccess(true, strings.Join(words, ","))
		if err != nil {
			t.Fatal(err)
		}
		for range 100 {
			a := addr()
			want := false
			for _, p := range prefixes {
				want = want || p.Contains(a)
			}
			if got := rule.permits(a); got != want {
				t.Fatalf("%v permits %s = %v, want %v", words, a, got, want)
			}
		}
	}
}

func TestAccessRuleAllocatesNothing(t *testing.T) {
	rule, _ := parseAccess(true, "ip:10.0.0.0/8,192.168.0.0/16,::1")
	peer, forwarded := netip.MustParseAddr("10.1.1.1"), []string{"10.2.2.2, 192.168.1.1", "::1"}
	if n := testing.AllocsPerRun(100, func() { rule.permitsRequest(peer, forwarded) }); n != 0 {
		t.Errorf("permitsRequest allocates %v times", n)
	}
}

func FuzzAccess(f *testing.F) {
	f.Add("ip:10.0.0.0/8,::1", "10.0.0.1")
	f.Add("ip:::ffff:1.2.3.0/120", "1.2.3.4")
	f.Add("ip:1.2.3.4/33", "")
	f.Fuzz(func(t *testing.T, text, addr string) {
		allow, err := parseAccess(true, text)
		if err != nil {
			return
		}
		deny, err := parseAccess(false, text)
		if err != nil {
			t.Fatal(err)
		}
		for i, r := range allow.ranges {
			if r.last.Less(r.first) || i > 0 && !allow.ranges[i-1].last.Less(r.first) {
				t.Fatalf("parseAccess(%q) = %v", text, allow.ranges)
			}
			if !allow.permits(r.first) || !allow.permits(r.last) {
				t.Fatalf("%q does not contain its own ends %v", text, r)
			}
		}
		if a, err := netip.ParseAddr(addr); err == nil && allow.permits(a) == deny.permits(a) {
			t.Fatalf("%q: allow and deny agree on %s", text, a)
		}
	})
}

func ExampleOptions() {
	for _, o := range Options() {
		if o.Name == "strip" {
			fmt.Println(o.Syntax)
		}
	}
	// Output: strip=/PREFIX
}
