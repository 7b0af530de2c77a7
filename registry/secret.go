package registry

import (
	"fmt"
	"io"
	"log/slog"
)

// Secret is a word that must not be seen: every printed form of it is "***" ("" when there is nothing to hide). The
// word hangs behind a pointer, so that even code which prints a struct field by field, without asking the field how
// it wants to be printed, shows an address and not the word. The zero Secret is empty. It is a pflag.Value, and safe
// for concurrent use once set.
type Secret struct{ word *string }

// NewSecret returns a Secret that hides word.
func NewSecret(word string) Secret { return Secret{&word} }

// Reveal returns the hidden word.
func (s Secret) Reveal() string {
	if s.word == nil {
		return ""
	}
	return *s.word
}

// IsZero says that there is no word.
func (s Secret) IsZero() bool { return s.Reveal() == "" }

// String returns "***", or "" when the secret is empty.
func (s Secret) String() string {
	if s.IsZero() {
		return ""
	}
	return "***"
}

// GoString is String; it serves %#v.
func (s Secret) GoString() string { return s.String() }

// Format prints String for every verb.
func (s Secret) Format(f fmt.State, _ rune) { io.WriteString(f, s.String()) }

// MarshalText returns String; it serves XML, YAML and everything else that asks for text.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// MarshalJSON returns String as a JSON string.
func (s Secret) MarshalJSON() ([]byte, error) { return []byte(`"` + s.String() + `"`), nil }

// MarshalYAML returns String.
func (s Secret) MarshalYAML() (any, error) { return s.String(), nil }

// LogValue returns String.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// Set hides word. It serves pflag.
func (s *Secret) Set(word string) error {
	s.word = &word
	return nil
}

// Type returns "secret", the type shown in --help and the sign for main to mask the flag.
func (Secret) Type() string { return "secret" }
