package main

import (
	"cmp"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/pflag"
)

// envValue is one environment variable that sets a flag.
type envValue struct {
	name, value, variable string
	rank                  int // position in envPrefixes: the lower wins
}

// envPrefixes are tried in this order. The bare form exists for fabio's own names only: it is how fabio is often set
// up, but a new name like ROUTE_UNKNOWN_OPTIONS should not start to mean something in an old environment.
var envPrefixes = []string{"VARCO_", "FABIO_", ""}

// kubernetesLink matches the variables that Kubernetes sets for every Service: for one called "varco" they would
// otherwise look like settings of ours.
var kubernetesLink = regexp.MustCompile(`^(SERVICE_HOST|SERVICE_PORT(_.*)?|PORT|PORT_[0-9]+_(TCP|UDP)(_(ADDR|PORT|PROTO))?)$`)

// readEnv picks the settings out of the environment, the best source of each first. Names are compared without
// regard to case, "." and "-" are written "_", and an empty value counts. A variable with one of our prefixes that
// names no flag is an error.
func (c *config) readEnv(env []string) (found []envValue, errs []error) {
	names := map[string]string{}
	c.flags.VisitAll(func(f *pflag.Flag) { names[envName(f.Name)] = f.Name })
	for _, entry := range slices.Sorted(slices.Values(env)) { // sorted: of PROXY_ADDR and proxy_addr the first counts, always
		variable, value, _ := strings.Cut(entry, "=")
		upper := strings.ToUpper(variable)
		rank := slices.IndexFunc(envPrefixes, func(p string) bool { return strings.HasPrefix(upper, p) })
		word := strings.TrimPrefix(upper, envPrefixes[rank])
		name, known := names[word]
		switch {
		case known && isCommandFlag(name) && name != "cfg":
			// VARCO_VERSION and the like are common in container images and no request.
		case envPrefixes[rank] == "" && !(known && isFabioFlag(name)):
		case known:
			found = append(found, envValue{name, value, variable, rank})
		case kubernetesLink.MatchString(word):
		default:
			hint := c.nearest(strings.ToLower(strings.ReplaceAll(word, "_", ".")))
			errs = append(errs, &settingError{"environment " + variable, "", "no such setting" + hint})
		}
	}
	slices.SortStableFunc(found, func(a, b envValue) int { return cmp.Compare(a.rank, b.rank) })
	return found, errs
}

// envName is the environment's spelling of a flag, without prefix.
func envName(flag string) string {
	return strings.ToUpper(strings.NewReplacer(".", "_", "-", "_").Replace(flag))
}
