package route

// Verb is what a Command does.
type Verb uint8

// The verbs of the route language.
const (
	Add Verb = iota + 1
	Del
	Weight
)

// Command is one statement of the route language as a typed value. Commands from a catalog are made directly, never
// by parsing text, so nothing in a service's name, tag or address can add a statement.
type Command struct {
	Verb Verb
	// Service is required by Add; "" means any service in the forms of Del and Weight that allow it.
	Service string
	// Src is host/path or :port; its host is lower-case. "" means any route (Del only).
	Src string
	// Dst is the destination URL. "" means any (Del only), or none when Down is set.
	Dst string
	// Weight is the fixed weight, 0 for none; finite, never negative.
	Weight float64
	// Tags are the tags of the target (Add), or those that a target must all have (Del and Weight).
	Tags []string
	// Opts are the options of the target (Add).
	Opts Options
	// Down marks a route that is known but has no passing instance (Add): its route stays in the table without a
	// target of this command, so that its traffic gets 503 and does not slide to a broader route.
	Down bool
	// Origin says where the command came from.
	Origin Origin
}

// Option is one key=value pair of a target. Value is "" when no "=" was written.
type Option struct{ Key, Value string }

// Options are sorted by key, each key once. They are read-only once made.
type Options []Option
