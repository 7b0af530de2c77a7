package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/magiconair/properties"
)

// Limits of a configuration that is fetched over HTTP.
const (
	fetchTimeout = 10 * time.Second
	fetchLimit   = 4 << 20
)

// place is where a key and its value stand in a properties file; lines and columns count from 1.
type place struct {
	line, key, value int
}

// propertiesFile is a file of settings: the values, and where each key stands (the last place of a repeated key, as its value counts).
type propertiesFile struct {
	name   string // as shown to people: no password in it
	values map[string]string
	places map[string]place
	keys   []string // in the order of the file
	twice  []string // keys that appear more than once
}

// readProperties reads the configuration at path, a file or an http(s) URL.
func readProperties(ctx context.Context, path string) (*propertiesFile, error) {
	name, text := path, []byte(nil)
	var err error
	if strings.HasPrefix(path, "http://") || strings.HasPrefix(path, "https://") {
		name, text, err = fetch(ctx, path)
	} else {
		text, err = os.ReadFile(path)
	}
	if err != nil {
		return nil, err
	}
	l := properties.Loader{Encoding: properties.UTF8}
	p, err := l.LoadBytes(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	f := &propertiesFile{name: name, values: map[string]string{}, keys: p.Keys()}
	for _, key := range f.keys {
		f.values[key], _ = p.Get(key) // with ${} expanded; LoadBytes has checked that it can be
	}
	f.places, f.twice = keyPlaces(string(text))
	return f, nil
}

// fetch gets a configuration over HTTP and answers the URL without its password, for messages.
func fetch(ctx context.Context, rawURL string) (name string, body []byte, err error) {
	u, err := url.Parse(rawURL)
	if err != nil {
		return "", nil, errors.New("cfg: the URL does not parse")
	}
	name = u.Redacted()
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, rawURL, nil)
	if err != nil {
		return name, nil, fmt.Errorf("cfg: %s: not a usable URL", name)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		// The url.Error repeats the URL; its cause is enough.
		if e, ok := errors.AsType[*url.Error](err); ok {
			err = e.Err
		}
		return name, nil, fmt.Errorf("cfg: %s: %w", name, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return name, nil, fmt.Errorf("cfg: %s: the server answered %s", name, resp.Status)
	}
	body, err = io.ReadAll(io.LimitReader(resp.Body, fetchLimit+1))
	if err != nil {
		return name, nil, fmt.Errorf("cfg: %s: %w", name, err)
	}
	if len(body) > fetchLimit {
		return name, nil, fmt.Errorf("cfg: %s: longer than %d bytes", name, fetchLimit)
	}
	return name, body, nil
}

// at is the place of key's value in the form file:line:column.
func (f *propertiesFile) at(key string) string {
	p, ok := f.places[key]
	if !ok {
		return f.name
	}
	return fmt.Sprintf("%s:%d:%d", f.name, p.line, p.value)
}

// atKey is the place of the key itself.
func (f *propertiesFile) atKey(key string) string {
	p, ok := f.places[key]
	if !ok {
		return f.name
	}
	return fmt.Sprintf("%s:%d:%d", f.name, p.line, p.key)
}

// keyPlaces finds the keys of a properties text. The parser does not tell where a key stands, so this walks the
// natural lines: a comment starts with # or !, a line that ends in an odd number of backslashes goes on in the next.
func keyPlaces(text string) (places map[string]place, twice []string) {
	places = map[string]place{}
	continued := false
	for i, line := range strings.Split(text, "\n") {
		line = strings.TrimSuffix(line, "\r")
		wasContinued := continued
		body := strings.TrimLeft(strings.TrimPrefix(line, "\ufeff"), " \t\f")
		comment := !wasContinued && (body == "" || body[0] == '#' || body[0] == '!')
		continued = !comment && (len(line)-len(strings.TrimRight(line, `\`)))%2 == 1
		if comment || wasContinued {
			continue
		}
		key, rest := cutKey(body)
		if _, again := places[key]; again {
			twice = append(twice, key)
		}
		places[key] = place{line: i + 1, key: len(line) - len(body) + 1, value: len(line) - len(rest) + 1}
	}
	return places, twice
}

// cutKey splits a line at the first "=", ":" or blank that no backslash protects.
func cutKey(line string) (key, value string) {
	var b strings.Builder
	i := 0
	for ; i < len(line) && !strings.ContainsRune("=: \t\f", rune(line[i])); i++ {
		if line[i] == '\\' && i+1 < len(line) {
			i++
		}
		b.WriteByte(line[i])
	}
	value = strings.TrimLeft(line[i:], " \t\f")
	if value != "" && (value[0] == '=' || value[0] == ':') {
		value = strings.TrimLeft(value[1:], " \t\f")
	}
	return b.String(), value
}
