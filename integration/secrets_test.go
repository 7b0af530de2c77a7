package integration

import (
	"os"
	"strings"
	"testing"
	"time"
)

// canary is a token that nothing may ever show.
const canary = "canary-0a7be1d3-do-not-print"

// TestTokenIsNeverShown gives Consul's token in each way there is, and looks for it in everything that varco puts out.
func TestTokenIsNeverShown(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		env  []string
		args func(t *testing.T) []string
	}{
		{"flag", nil, func(*testing.T) []string { return []string{"--registry.consul.token=" + canary} }},
		{"environment", []string{"VARCO_REGISTRY_CONSUL_TOKEN=" + canary}, nil},
		{"fabio's environment", []string{"FABIO_REGISTRY_CONSUL_TOKEN=" + canary}, nil},
		{"Consul's environment", []string{"CONSUL_HTTP_TOKEN=" + canary}, nil},
		{"file", nil, func(t *testing.T) []string {
			return []string{"-cfg", write(t, "varco.properties", "registry.consul.token = "+canary+"\n")}
		}},
		{"token file", nil, func(t *testing.T) []string {
			return []string{"--registry.consul.tokenfile=" + write(t, "token", canary+"\n")}
		}},
		{"URL", nil, func(t *testing.T) []string { return []string{"--registry.custom.queryparams=token=" + canary} }},
		{"ui token", nil, func(t *testing.T) []string { return []string{"--ui.token=" + canary} }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			f := settings(t).with(flags{"log.level": "TRACE", "log.access.target": "stdout", "log.access.format": "json"})
			faulty := newFaulty(t, shared.need(t).consul)
			f["registry.consul.addr"] = faulty.addr
			var args []string
			if tt.args != nil {
				args = tt.args(t)
			}
			v := launchBinary(t, shared.binary, tt.env, f, args...)
			v.serving()
			shared.consul.register(t, v.name+"-web", newOrigin(t, "a"), v.prefix+"/web")
			v.reaches(5*time.Second, "/web", "a")
			for _, uri := range []string{"/api/config", "/api/config?pretty", "/api/routes", "/api/table", "/api/problems", "/api/version", "/metrics",
				"/", "/routes", "/problems", "/config", "/manual", "/api/paths", "/api/manual", "/health", "/debug/pprof/cmdline"} {
				r, err := v.ask("GET", uri)
				if err != nil {
					t.Fatal(err)
				}
				if strings.Contains(r.body, canary) {
					t.Errorf("GET %s shows it", uri)
				}
			}
			// Trouble is when secrets slip into messages.
			faulty.set(fail(403, anyRequest))
			shared.consul.register(t, v.name+"-web", newOrigin(t, "b"), v.prefix+"/web")
			eventually(t, 10*time.Second, "varco has said something about its trouble", func() error {
				if !strings.Contains(v.err.String(), "403") {
					return os.ErrNotExist
				}
				return nil
			})
			faulty.set()
			v.finish()
			if out := v.out.String() + v.err.String(); strings.Contains(out, canary) {
				at := strings.Index(out, canary)
				t.Errorf("the output shows it: …%s…", out[max(0, at-200):at])
			}
			for _, command := range []string{"help", "validate"} {
				_, stdout, stderr := run(t, tt.env, append(append([]string{command}, args...), f.args()...)...)
				if strings.Contains(stdout+stderr, canary) {
					t.Errorf("varco %s shows it", command)
				}
			}
			// A setting beside it that is wrong must not bring it out either.
			_, stdout, stderr := run(t, tt.env, append(args, "--proxy.strategy=best")...)
			if strings.Contains(stdout+stderr, canary) {
				t.Error("an error message shows it")
			}
		})
	}
}

// TestTokenReachesConsul is the other half: hidden does not mean lost.
func TestTokenReachesConsul(t *testing.T) {
	t.Parallel()
	f := settings(t)
	faulty := newFaulty(t, shared.consul)
	f["registry.consul.addr"] = faulty.addr
	file := write(t, "token", canary+"\n")
	v := launchVarco(t, f, "--registry.consul.tokenfile="+file)
	v.serving()
	if got := faulty.lastToken(); got != canary {
		t.Errorf("Consul got token %q", got)
	}
}
