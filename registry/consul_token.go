package registry

import (
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/consul/api"
)

// token is the ACL token of the moment. One that comes from a file is read again when the file changes or when Consul
// did not accept it; while the file cannot be read, the last one stays. Safe for concurrent use.
type token struct {
	file string
	log  *slog.Logger

	mu sync.Mutex // guards the fields below
	// word is a Secret, so that no dump of the client shows it.
	word    Secret
	seen    fileStamp
	failing bool
}

// fileStamp tells one state of a file from another.
type fileStamp struct {
	mod  time.Time
	size int64
}

// newToken takes the first of: token file, token, and the same two from the environment, as Consul's own tools do.
func newToken(c ConsulConfig, env *api.Config, log *slog.Logger) (*token, error) {
	t := &token{log: log}
	switch {
	case c.TokenFile != "":
		t.file = c.TokenFile
	case !c.Token.IsZero():
		t.word = c.Token
	case env.TokenFile != "":
		t.file = env.TokenFile
	default:
		t.word = NewSecret(env.Token)
	}
	if t.file == "" {
		return t, nil
	}
	if err := t.read(); err != nil {
		return nil, fmt.Errorf("registry.consul.tokenfile: %w", err)
	}
	return t, nil
}

// current returns the token to send, "" for none.
func (t *token) current() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.file == "" {
		return t.word.Reveal()
	}
	if s, err := stamp(t.file); err != nil || s != t.seen {
		switch err := t.read(); {
		case err == nil:
			t.failing = false
		case !t.failing:
			t.failing = true
			t.log.Warn("consul token file cannot be read; the last token stays", "err", err)
		}
	}
	return t.word.Reveal()
}

// doubt makes the next call read the file again, whatever its time stamp says.
func (t *token) doubt() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.seen = fileStamp{}
}

func (t *token) read() error {
	s, err := stamp(t.file)
	if err != nil {
		return err
	}
	text, err := os.ReadFile(t.file)
	if err != nil {
		return err
	}
	word := strings.TrimSpace(string(text))
	if word == "" || strings.ContainsFunc(word, func(r rune) bool { return r <= ' ' || r == 0x7f }) {
		return fmt.Errorf("%s: want one word, the token", t.file)
	}
	t.word, t.seen = NewSecret(word), s
	return nil
}

func stamp(file string) (fileStamp, error) {
	i, err := os.Stat(file)
	if err != nil {
		return fileStamp{}, err
	}
	return fileStamp{i.ModTime(), i.Size()}, nil
}
