package wire

import (
	"encoding/binary"
	"net/netip"
	"strconv"
)

// The constants of version 2 (section 2.2 of proxy-protocol.txt).
const (
	v2Signature = "\r\n\r\n\x00\r\nQUIT\n"
	v2Local     = 0x20 // version 2, command LOCAL: the receiver uses the connection's own addresses
	v2Proxy     = 0x21 // version 2, command PROXY
	v2TCP4      = 0x11
	v2TCP6      = 0x21
)

// AppendProxyHeader appends the PROXY protocol header that tells a server that a connection came from src and was
// accepted at dst. Version is 1 (text) or 2 (binary); every other value means 2. When one address is IPv4 and the
// other IPv6, both are written as IPv6. An invalid address makes the header that says the addresses are not known.
//
// The header must be the first bytes on the connection and should go out in one write.
func AppendProxyHeader(b []byte, version uint8, src, dst netip.AddrPort) []byte {
	src, dst = sameFamily(src, dst)
	if version == 1 {
		return appendV1(b, src, dst)
	}
	return appendV2(b, src, dst)
}

func appendV1(b []byte, src, dst netip.AddrPort) []byte {
	if !src.IsValid() {
		return append(b, "PROXY UNKNOWN\r\n"...)
	}
	if src.Addr().Is4() {
		b = append(b, "PROXY TCP4 "...)
	} else {
		b = append(b, "PROXY TCP6 "...)
	}
	b = src.Addr().AppendTo(b)
	b = append(b, ' ')
	b = dst.Addr().AppendTo(b)
	b = append(b, ' ')
	b = strconv.AppendUint(b, uint64(src.Port()), 10)
	b = append(b, ' ')
	b = strconv.AppendUint(b, uint64(dst.Port()), 10)
	return append(b, '\r', '\n')
}

func appendV2(b []byte, src, dst netip.AddrPort) []byte {
	b = append(b, v2Signature...)
	switch {
	case !src.IsValid():
		return append(b, v2Local, 0, 0, 0)
	case src.Addr().Is4():
		s, d := src.Addr().As4(), dst.Addr().As4()
		b = append(b, v2Proxy, v2TCP4, 0, 2*4+2*2)
		b = append(b, s[:]...)
		b = append(b, d[:]...)
	default:
		s, d := src.Addr().As16(), dst.Addr().As16()
		b = append(b, v2Proxy, v2TCP6, 0, 2*16+2*2)
		b = append(b, s[:]...)
		b = append(b, d[:]...)
	}
	b = binary.BigEndian.AppendUint16(b, src.Port())
	return binary.BigEndian.AppendUint16(b, dst.Port())
}

// sameFamily gives both addresses as IPv4, or both as IPv6 without a zone, or two zero values when one is invalid.
func sameFamily(src, dst netip.AddrPort) (_, _ netip.AddrPort) {
	if !src.IsValid() || !dst.IsValid() {
		return netip.AddrPort{}, netip.AddrPort{}
	}
	s, d := src.Addr().Unmap().WithZone(""), dst.Addr().Unmap().WithZone("")
	if s.Is4() != d.Is4() {
		s, d = netip.AddrFrom16(s.As16()), netip.AddrFrom16(d.As16())
	}
	return netip.AddrPortFrom(s, src.Port()), netip.AddrPortFrom(d, dst.Port())
}
