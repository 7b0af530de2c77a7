package route

import (
	"fmt"

	"github.com/spf13/pflag"
)

// Config is what a Builder has to know. Flags gives it its defaults; the zero Config has them too.
type Config struct {
	// Matcher is the name of the matcher for routes without option match; "" means prefix.
	Matcher string
	// Strategy is the name of the strategy for routes without option strategy; "" means rnd.
	Strategy string
	// ExactHosts makes every host a plain name: there are no patterns.
	ExactHosts bool
	// Bind is called once for each new target identity and answers what to keep with it, see Target.Bound. An error
	// refuses the target; its Route stays. The target's Weight is not known yet, and it may be replaced by another
	// with the same identity: Bind must not keep it to learn its weight. Nil binds nothing.
	Bind func(*Target) (any, error)
}

// Flags registers the flags of the package with their defaults.
func (c *Config) Flags(fs *pflag.FlagSet) {
	fs.StringVar(&c.Matcher, "proxy.matcher", "prefix",
		"how paths of requests and routes are compared: "+names(Matchers())+"; option match= sets it for one route")
	fs.StringVar(&c.Strategy, "proxy.strategy", "rnd",
		"how targets are picked: "+names(Strategies())+"; option strategy= sets it for one route")
	fs.BoolVar(&c.ExactHosts, "glob.matching.disabled", false,
		"hosts of routes are plain names, *.foo.com is no pattern")
	fs.Int("glob.cache.size", 1000,
		"no effect: patterns are compiled once, when a table is built")
	fs.Lookup("glob.cache.size").Deprecated = "it has no effect: patterns are compiled once, when a table is built"
}

func names(list []Named) string {
	words := make([]string, len(list))
	for i, n := range list {
		words[i] = n.Name
	}
	return oneOf(words)
}

// Validate reports the first wrong value with its key and what is allowed.
func (c *Config) Validate() error {
	_, _, err := c.resolve()
	return err
}

// resolve looks up the names of the matcher and the strategy.
func (c *Config) resolve() (Match, *strategy, error) {
	matcher, picks := c.Matcher, c.Strategy
	if matcher == "" {
		matcher = "prefix"
	}
	if picks == "" {
		picks = "rnd"
	}
	m, err := parseMatch(matcher)
	if err != nil {
		return 0, nil, fmt.Errorf("proxy.matcher: %w", err)
	}
	s, err := findStrategy(picks)
	if err != nil {
		return 0, nil, fmt.Errorf("proxy.strategy: %w", err)
	}
	return m, s, nil
}
