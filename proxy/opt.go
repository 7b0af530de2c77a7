package proxy

import (
	"fmt"
	"slices"
	"strings"

	"varco/route"
)

// An option is a key=value pair of a target. Its value is read once, when the target is bound, into a typed field of
// the upstream; a value that cannot be read refuses the target. What must happen while a request is served is a
// handler, and only the targets that use the option have it in their chain.
//
// To add one: a file opt_NAME.go, a line in the list below, cases in testdata/opt/NAME.txt, a section in
// docs/options.md.
type option struct {
	name, syntax, help string
	// bind reads value into u. Nil for the options that package route reads.
	bind func(u *upstream, value string) error
	// wrap puts the option's handler in front of next. Nil when there is nothing to do while serving.
	wrap func(next handler) handler
}

// options are all there are. Their order is that in which they are bound and in which their handlers run.
var options = []option{
	optAllow,
	optDeny,
	optAuth,
	optProto,
	optTLSSkipVerify,
	optHost,
	optGRPCServerName,
	optPxyProto,
	optPath,
	optStrip,
	optPrepend,
	optRedirect,
	optRegister,
	{name: "weight", syntax: "weight=0.2", help: "share of the route's traffic, 0 to 1; without it the target shares what is left"},
	{name: "match", syntax: "match=prefix|exact|segment|iprefix|glob", help: "how the path of this route is compared, instead of proxy.matcher"},
	{name: "strategy", syntax: "strategy=rnd|rr", help: "how this route picks a target, instead of proxy.strategy"},
}

// OptionHelp describes an option for --help, the documentation and the page.
type OptionHelp struct{ Name, Syntax, Help string }

// Options lists the options that a target may have, by name.
func Options() []OptionHelp {
	var list []OptionHelp
	for _, o := range options {
		list = append(list, OptionHelp{Name: o.name, Syntax: o.syntax, Help: o.help})
	}
	slices.SortFunc(list, func(a, b OptionHelp) int { return strings.Compare(a.Name, b.Name) })
	return list
}

func findOption(name string) (option, bool) {
	i := slices.IndexFunc(options, func(o option) bool { return o.name == name })
	if i < 0 {
		return option{}, false
	}
	return options[i], true
}

// unknownOption says which options there are, the likely one first.
func unknownOption(name string) error {
	var names []string
	for _, o := range Options() {
		names = append(names, o.Name)
	}
	known := strings.Join(names, ", ")
	if near := route.Nearest(name, names); near != "" {
		return fmt.Errorf("unknown option %q: did you mean %q? known: %s", name, near, known)
	}
	return fmt.Errorf("unknown option %q: known: %s", name, known)
}
