package registry

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

const canary = "c4n4ry-w0rd"

func TestSecretNeverPrints(t *testing.T) {
	type deep struct {
		Name  string
		Open  Secret
		inner Secret // unexported: fmt cannot call its methods
		List  []Secret
		Map   map[string]Secret
		Ptr   *Secret
	}
	s := NewSecret(canary)
	d := deep{"n", s, s, []Secret{s}, map[string]Secret{"k": s}, &s}
	var c Config
	fs := pflag.NewFlagSet("t", pflag.ContinueOnError)
	c.Flags(fs)
	if err := fs.Set("registry.consul.token", canary); err != nil {
		t.Fatal(err)
	}
	if got := c.Consul.Token.Reveal(); got != canary {
		t.Fatalf("Reveal() = %q, want the word", got)
	}
	var all bytes.Buffer
	for _, v := range []any{s, &s, d, &d, []any{s}, c, &c, c.Consul} {
		for _, verb := range "vsqxXdbcoOtTeEfFgGpUw" {
			for _, flag := range []string{"", "+", "#", "-10", "010", ".3"} {
				fmt.Fprintf(&all, "%"+flag+string(verb)+"\n", v)
			}
		}
		fmt.Fprintln(&all, v)
		js, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(js)
		for _, h := range []slog.Handler{slog.NewTextHandler(&all, nil), slog.NewJSONHandler(&all, nil)} {
			slog.New(h).Info("m", "v", v)
		}
	}
	type element struct{ S Secret }
	if err := xml.NewEncoder(&all).Encode(element{s}); err != nil {
		t.Fatal(err)
	}
	y, _ := s.MarshalYAML()
	fmt.Fprint(&all, y, fs.FlagUsages(), fs.Lookup("registry.consul.token").Value, fmt.Errorf("x: %v %w", s, fmt.Errorf("%v", s)))
	// The bytes in any base, so that %x and %d are caught too.
	for _, form := range []string{canary, fmt.Sprintf("%x", canary), fmt.Sprintf("%X", canary), fmt.Sprint([]byte(canary))} {
		if i := strings.Index(all.String(), form); i >= 0 {
			t.Errorf("the word got out: …%s", all.String()[max(0, i-60):i+len(form)])
		}
	}
}

func TestSecretForms(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{NewSecret("w").String(), "***"},
		{fmt.Sprintf("%s|%v|%+v|%#v|%q|%x|%d", NewSecret("w"), NewSecret("w"), NewSecret("w"), NewSecret("w"), NewSecret("w"), NewSecret("w"), NewSecret("w")), "***|***|***|***|***|***|***"},
		{Secret{}.String(), ""},
		{NewSecret("").String(), ""},
		{fmt.Sprintf("%v", Secret{}), ""},
		{Secret{}.Reveal(), ""},
		{Secret{}.Type(), "secret"},
	} {
		if c.got != c.want {
			t.Errorf("got %q, want %q", c.got, c.want)
		}
	}
	js, err := json.Marshal(struct{ A, B Secret }{NewSecret(`"q`), Secret{}})
	if want := `{"A":"***","B":""}`; err != nil || string(js) != want {
		t.Errorf("Marshal = %s, %v, want %s", js, err, want)
	}
}
