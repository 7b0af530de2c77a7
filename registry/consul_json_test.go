package registry

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

// readJSON walks one value in s and returns its bytes.
func readJSON(r io.Reader) (string, error) {
	var j jsonReader
	j.reset(r)
	if _, err := j.next(); err != nil {
		return "", err
	}
	j.setMark()
	s, err := j.value()
	if err != nil {
		return "", err
	}
	text := string(j.bytes(s))
	return text, j.end()
}

var jsonTexts = []string{
	`{}`, `[]`, `[1]`, `[1,2]`, `{"a":1}`, `{"a":1,"b":[true,false,null]}`, `"x"`, `""`, `"\u00e9\n\"\\\/"`, `"\ud83d\ude00"`,
	`[0,-0,1.5,-1.25e10,1E+2,1e-2]`, ` { "a" : { "b" : [ { } ] } } `, "[\n\t1 ,\r\n2]", `"é"`, "\"\xff\"", `{"a":1,"a":2}`,
	// bad ones
	``, ` `, `{`, `[`, `]`, `}`, `[1,]`, `[,1]`, `{"a"}`, `{"a":}`, `{"a":1,}`, `{,}`, `{a:1}`, `[01]`, `[1.]`, `[.5]`, `[1e]`, `[1e+]`,
	`[-]`, `[+1]`, `tru`, `nul`, `[truee]`, `"\x"`, `"\u12g4"`, `"a`, "\"\n\"", `[1 2]`, `{"a":1 "b":2}`, `[1]]`, `{}{}`, `[1]x`, `[NaN]`, "\x00",
	`{"a":"b`, `[[[[[[[]]]]]]`,
}

func TestJSONReaderAcceptsWhatEncodingJSONAccepts(t *testing.T) {
	for _, s := range jsonTexts {
		checkJSON(t, s)
	}
}

// checkJSON compares jsonReader with encoding/json, reading in one piece and byte by byte.
func checkJSON(t *testing.T, s string) {
	t.Helper()
	if want := strings.Trim(s, " \t\r\n"); want == "" || strings.IndexByte(`[{"`, want[0]) >= 0 {
		for name, r := range map[string]io.Reader{"whole": strings.NewReader(s), "bytewise": iotest.OneByteReader(strings.NewReader(s)), "with error": iotest.DataErrReader(strings.NewReader(s))} {
			got, err := readJSON(r)
			if valid := json.Valid([]byte(s)); valid != (err == nil) && depth(s) < maxDepth {
				t.Errorf("%s: reading %q: %v, but encoding/json says %v", name, s, err, valid)
			}
			if err == nil && got != want {
				t.Errorf("%s: value of %q = %q, want %q", name, s, got, want)
			}
		}
	}
}

// depth is more than how deep s is nested.
func depth(s string) int { return strings.Count(s, "[") + strings.Count(s, "{") + 1 }

func TestJSONReaderBoundsDepth(t *testing.T) {
	deep := strings.Repeat("[", maxDepth+1) + strings.Repeat("]", maxDepth+1)
	if _, err := readJSON(strings.NewReader(deep)); err == nil {
		t.Error("deeper than maxDepth, but accepted")
	}
	if _, err := readJSON(strings.NewReader(deep[1 : len(deep)-1])); err != nil {
		t.Errorf("maxDepth: %v", err)
	}
	if _, err := readJSON(strings.NewReader(strings.Repeat(`[`, 1<<20))); err == nil {
		t.Error("a million brackets accepted")
	}
}

func TestJSONReaderKeepsMarkedBytes(t *testing.T) {
	// Objects of very different sizes, so that the buffer moves and grows in the middle of them.
	var in bytes.Buffer
	var want []string
	in.WriteByte('[')
	for i := range 30 {
		if i > 0 {
			in.WriteByte(',')
		}
		o, _ := json.Marshal(map[string]string{"a": strings.Repeat("x", i*9973%200_000), "b": strings.Repeat("y", i)})
		in.Write(o)
		want = append(want, string(o))
	}
	in.WriteByte(']')
	var j jsonReader
	j.reset(iotest.HalfReader(&in))
	i := 0
	err := j.list(func() error {
		if _, err := j.next(); err != nil {
			return err
		}
		j.setMark()
		var a span
		err := j.object(func(k span) error {
			key := string(unquote(j.bytes(k)))
			v, err := j.value()
			if key == "a" {
				a = v
			}
			return err
		})
		if err != nil {
			return err
		}
		var o map[string]string
		if err := json.Unmarshal([]byte(want[i]), &o); err != nil {
			return err
		}
		if got := string(unquote(j.bytes(a))); got != o["a"] {
			t.Fatalf("object %d: a has %d bytes, want %d", i, len(got), len(o["a"]))
		}
		i++
		return nil
	})
	if err != nil || i != len(want) {
		t.Fatalf("list: %v after %d objects, want %d", err, i, len(want))
	}
	if cap(j.buf) > 2<<20 {
		t.Errorf("the buffer has grown to %d bytes for objects of 200,000", cap(j.buf))
	}
}

func FuzzJSONReader(f *testing.F) {
	for _, s := range jsonTexts {
		f.Add(s)
	}
	f.Fuzz(checkJSON)
}

func TestUnquote(t *testing.T) {
	for _, s := range []string{`""`, `"abc"`, `"é"`, `"\u00e9"`, `"a\nb"`, `"\ud83d\ude00"`, `"\ud83d"`, "\"\xff\"", `"\\\""`} {
		var want string
		if err := json.Unmarshal([]byte(s), &want); err != nil {
			t.Fatal(err)
		}
		if got := string(unquote([]byte(s))); got != want {
			t.Errorf("unquote(%s) = %q, want %q", s, got, want)
		}
	}
}
