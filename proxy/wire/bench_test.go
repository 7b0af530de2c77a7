package wire

import (
	"io"
	"testing"
)

// BenchmarkRelay asks what a relayed byte costs: spliced between TCP connections, and copied by the plain path.
func BenchmarkRelay(b *testing.B) {
	const chunk = 1 << 20
	for _, k := range kinds {
		b.Run(k.name, func(b *testing.B) {
			client, x := tcpPair(b)
			server, y := tcpPair(b)
			ended := make(chan error, 1)
			go func() { ended <- Relay{}.Run(k.wrap(x), k.wrap(y)) }()
			go io.Copy(io.Discard, client)
			data := make([]byte, chunk)
			b.SetBytes(chunk)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := server.Write(data); err != nil {
					b.Fatal(err)
				}
			}
			server.Close()
			client.Close()
			<-ended
		})
	}
}
