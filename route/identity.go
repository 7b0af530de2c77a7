package route

import "strconv"

// identities are those of the targets of one route.
type identities struct {
	list  []identity
	index map[string]int // by key; nil for few
}

type identity struct {
	target *Target
	kept   bool
}

// newIdentities returns those of r, which may be nil; none is kept yet.
func newIdentities(r *Route) *identities {
	ids := &identities{}
	if r != nil {
		for _, t := range r.Targets {
			if ids.find(t) == nil {
				ids.add(t, false)
			}
		}
	}
	return ids
}

func (ids *identities) add(t *Target, kept bool) {
	ids.list = append(ids.list, identity{t, kept})
	switch {
	case ids.index != nil:
		ids.index[identityKey(t)] = len(ids.list) - 1
	case len(ids.list) > fewRoutes:
		ids.index = make(map[string]int, 2*len(ids.list))
		for i, id := range ids.list {
			ids.index[identityKey(id.target)] = i
		}
	}
}

// find returns the identity of t, nil if it is new.
func (ids *identities) find(t *Target) *identity {
	if ids.index != nil {
		if i, ok := ids.index[identityKey(t)]; ok {
			return &ids.list[i]
		}
		return nil
	}
	for i := range ids.list {
		if ids.list[i].target.identical(t) {
			return &ids.list[i]
		}
	}
	return nil
}

// release appends what was bound to identities that were not kept.
func (ids *identities) release(list []any) []any {
	for _, id := range ids.list {
		if !id.kept && id.target.Bound != nil {
			list = append(list, id.target.Bound)
		}
	}
	return list
}

// identityKey is equal for targets of a route that are identical, and only for them.
func identityKey(t *Target) string {
	var b []byte
	part := func(s string) {
		b = strconv.AppendInt(b, int64(len(s)), 10)
		b = append(b, ':')
		b = append(b, s...)
	}
	part(t.Service)
	part(t.Dst)
	part(t.Opts.String())
	for _, tag := range t.Tags {
		part(tag)
	}
	return string(b)
}
