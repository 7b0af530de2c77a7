package registry

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strconv"
	"strings"
)

// Which instances pass is decided in one pass over the checks as they come off the wire. A check without a tag of
// ours that says nothing about a node or a maintenance is dropped before anything is made of it. The others leave a
// few bits with their node or their instance:
//
//	serfHealth of node n is critical              n is gone
//	_node_maintenance on node n, any status       n is gone
//	_service_maintenance:i on node n, critical    instance n/i is gone
//	a check of instance n/i                       one more in all, one more good if service.status names its status
//
// At the end an instance is up if its node and itself are not gone and one of its checks (checksRequired=one) or all
// of them (all) are good. Nothing depends on the order of the checks. An instance is a node and a service ID: the same
// ID on another node is another instance. A node of which nothing is known is alive. Other checks of a node, and
// services without any check, do not count: fabio's users rely on both.

// instance is one instance of a service that has a tag of ours, as its checks see it.
type instance struct {
	service, node, id string
	// tags are those of the instance's checks, trimmed. The catalog may know newer ones.
	tags []string
	// created tells an instance from one of the same name that was there before.
	created uint64
	up      bool
}

// key names an instance: a service ID is unique on its node only.
type key struct{ node, id string }

func (i *instance) key() key { return key{i.node, i.id} }

// compare is the order of instances in health.
func (i *instance) compare(o *instance) int {
	return cmp.Or(strings.Compare(i.service, o.service), strings.Compare(i.node, o.node), strings.Compare(i.id, o.id))
}

// same says that two answers see an instance alike.
func (i *instance) same(o *instance) bool {
	return i.service == o.service && i.node == o.node && i.id == o.id && i.up == o.up && i.created == o.created &&
		slices.Equal(i.tags, o.tags)
}

// health is what one answer says about all instances.
type health struct {
	// instances are sorted by service, node and ID.
	instances []instance
	// total is the number of checks in the answer, kept how many of them mattered.
	total, kept int
	// filtered says that Consul held some back from our token.
	filtered bool
}

// errFiltered is the fate of an answer from which a change of the ACLs took most instances away.
var errFiltered = errors.New("consul began to hold results back from our token (X-Consul-Results-Filtered-By-ACLs)")

// credible says whether an answer can be believed after the one before. An instance that is critical is: a check says
// so. But if half of all instances are not there any more, and with them everything or at least two whole services, the
// answer may be that of a server without data, or of a token that lost its rights. The first is asked again. The second
// is no answer at all; a token that never saw everything is not suspect for that.
func (h *health) credible(before *health) error {
	gone, services := before.without(h)
	switch all := len(before.instances); {
	case gone == 0 || 2*gone < all || gone < all && services < 2:
		return nil
	case h.filtered && !before.filtered:
		return errFiltered
	}
	return errDoubt
}

// without returns how many instances of h are not in other, and how many services have none left there.
func (h *health) without(other *health) (gone, services int) {
	rest := other.instances
	left := 0 // instances of the service at hand that other has
	for i := range h.instances {
		in := &h.instances[i]
		for len(rest) > 0 && rest[0].compare(in) < 0 {
			if rest[0].service == in.service {
				left++ // a new one
			}
			rest = rest[1:]
		}
		if len(rest) > 0 && rest[0].compare(in) == 0 {
			left++
		} else {
			gone++
		}
		if i+1 == len(h.instances) || h.instances[i+1].service != in.service {
			for len(rest) > 0 && rest[0].service == in.service {
				left++
				rest = rest[1:]
			}
			if left == 0 {
				services++
			}
			left = 0
		}
	}
	return gone, services
}

// tally collects what the checks of one instance say.
type tally struct {
	instance
	checks, good int
	modified     uint64
	maintenance  bool
}

// healthReader turns answers of /v1/health/state/any into health. It keeps its buffers and the strings of the last
// answer for the next one, which is nearly the same. Not safe for concurrent use.
type healthReader struct {
	prefixes []string
	status   []string // the states that are good
	all      bool     // all checks of an instance must be good

	json    jsonReader
	gone    map[string]bool // by node
	index   map[key]int     // place in tallies
	tallies []tally

	words, oldWords map[string]string
	tags, oldTags   map[string]tagList // by their JSON
}

type tagList struct {
	raw  string
	tags []string
	ours bool
}

func newHealthReader(prefixes, status []string, all bool) *healthReader {
	return &healthReader{
		prefixes: prefixes, status: status, all: all,
		gone: map[string]bool{}, index: map[key]int{},
		words: map[string]string{}, oldWords: map[string]string{},
		tags: map[string]tagList{}, oldTags: map[string]tagList{},
	}
}

// Consul's names for the checks that are not a service's own.
const (
	serfHealth         = "serfHealth"
	nodeMaintenance    = "_node_maintenance"
	serviceMaintenance = "_service_maintenance"
)

// read reads one answer to its end.
func (r *healthReader) read(body io.Reader) (health, error) {
	clear(r.gone)
	clear(r.index)
	r.tallies = r.tallies[:0]
	r.words, r.oldWords = r.oldWords, r.words
	r.tags, r.oldTags = r.oldTags, r.tags
	clear(r.words)
	clear(r.tags)

	var h health
	r.json.reset(body)
	err := r.json.list(func() error {
		h.total++
		kept, err := r.check()
		if kept {
			h.kept++
		}
		return err
	})
	if err == nil {
		err = r.json.end()
	}
	if err != nil {
		return health{}, err
	}
	h.instances = make([]instance, 0, len(r.tallies))
	for i := range r.tallies {
		t := &r.tallies[i]
		if t.checks == 0 {
			continue // only a maintenance is known
		}
		t.up = t.good > 0 && (!r.all || t.good == t.checks) && !t.maintenance && !r.gone[t.node]
		h.instances = append(h.instances, t.instance)
	}
	slices.SortFunc(h.instances, func(a, b instance) int { return a.compare(&b) })
	return h, nil
}

// The members of a check that are read.
const (
	fNode = iota
	fCheckID
	fStatus
	fServiceID
	fServiceName
	fServiceTags
	fCreateIndex
	fModifyIndex
	fieldCount
)

var fields = [fieldCount]string{"Node", "CheckID", "Status", "ServiceID", "ServiceName", "ServiceTags", "CreateIndex", "ModifyIndex"}

// check reads one check and counts it; kept says whether it mattered.
func (r *healthReader) check() (kept bool, err error) {
	j := &r.json
	if _, err := j.next(); err != nil {
		return false, err
	}
	j.setMark()
	var at [fieldCount]span
	err = j.object(func(k span) error {
		f := field(unquote(j.bytes(k)))
		v, err := j.value()
		if f >= 0 {
			at[f] = v
		}
		return err
	})
	if err != nil {
		return false, err
	}
	text := func(f int) []byte {
		if at[f].to == 0 {
			return nil
		}
		raw := j.bytes(at[f])
		if raw[0] != '"' {
			if raw[0] != 'n' { // null
				err = errJSON
			}
			return nil
		}
		return unquote(raw)
	}
	// The order of the questions is that of their cost: most checks end at their tags.
	id := text(fCheckID)
	switch {
	case string(id) == serfHealth:
		if string(text(fStatus)) == "critical" {
			r.gone[r.word(text(fNode))] = true
		}
		return true, err
	case string(id) == nodeMaintenance:
		r.gone[r.word(text(fNode))] = true
		return true, err
	case bytes.HasPrefix(id, []byte(serviceMaintenance)):
		of, ok := bytes.CutPrefix(id[len(serviceMaintenance):], []byte(":"))
		if ok && len(of) > 0 && string(text(fStatus)) == "critical" {
			r.tally(text(fNode), of).maintenance = true
		}
		return true, err
	}
	service, name := text(fServiceID), text(fServiceName)
	if len(service) == 0 || len(name) == 0 || err != nil {
		return false, err
	}
	tags, err := r.tagList(j.bytes(at[fServiceTags]))
	if err != nil || !tags.ours {
		return false, err
	}
	t := r.tally(text(fNode), service)
	t.checks++
	if status := text(fStatus); slices.ContainsFunc(r.status, func(s string) bool { return s == string(status) }) {
		t.good++
	}
	// Checks of one instance differ in name or tags only while Consul is behind: the newest one is right.
	modified := number(j.bytes(at[fModifyIndex]))
	if t.checks == 1 || modified > t.modified || modified == t.modified && older(&t.instance, name, tags.tags) {
		t.service, t.tags, t.modified = r.word(name), tags.tags, modified
	}
	t.created = max(t.created, number(j.bytes(at[fCreateIndex])))
	return true, err
}

// older breaks a tie between two checks that were changed at the same moment, so that their order does not count.
func older(i *instance, name []byte, tags []string) bool {
	return cmp.Or(strings.Compare(i.service, string(name)), slices.Compare(i.tags, tags)) < 0
}

// tally returns the tally of an instance, a new one if need be. It is valid until the next call.
func (r *healthReader) tally(node, id []byte) *tally {
	k := key{r.word(node), r.word(id)}
	i, ok := r.index[k]
	if !ok {
		i = len(r.tallies)
		r.index[k] = i
		r.tallies = append(r.tallies, tally{instance: instance{node: k.node, id: k.id}})
	}
	return &r.tallies[i]
}

// tagList returns the tags of a check. Tags that name no prefix of ours are not even made.
func (r *healthReader) tagList(raw []byte) (tagList, error) {
	if len(raw) == 0 || raw[0] == 'n' {
		return tagList{}, nil
	}
	if !r.mayBeOurs(raw) {
		if raw[0] != '[' {
			return tagList{}, errJSON
		}
		return tagList{}, nil
	}
	if l, ok := r.tags[string(raw)]; ok {
		return l, nil
	}
	l, ok := r.oldTags[string(raw)]
	if !ok {
		var err error
		if l, err = r.newTagList(raw); err != nil {
			return l, err
		}
	}
	r.tags[l.raw] = l
	return l, nil
}

func (r *healthReader) newTagList(raw []byte) (tagList, error) {
	l := tagList{raw: string(raw)}
	if err := json.Unmarshal(raw, &l.tags); err != nil {
		return tagList{}, errJSON
	}
	for i, t := range l.tags {
		l.tags[i] = strings.TrimSpace(t)
		l.ours = l.ours || hasPrefix(l.tags[i], r.prefixes)
	}
	return l, nil
}

// mayBeOurs looks for a prefix in the JSON of a tag list. An escape may hide anything.
func (r *healthReader) mayBeOurs(raw []byte) bool {
	for _, p := range r.prefixes {
		if bytes.Contains(raw, []byte(p)) {
			return true
		}
	}
	return !plain(raw)
}

func hasPrefix(tag string, prefixes []string) bool {
	return slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(tag, p) })
}

// word returns s as a string, without an allocation if this or the last answer had it.
func (r *healthReader) word(s []byte) string {
	if w, ok := r.words[string(s)]; ok {
		return w
	}
	w, ok := r.oldWords[string(s)]
	if !ok {
		w = string(s)
	}
	r.words[w] = w
	return w
}

// field returns the number of a member, -1 if it is not needed.
func field(name []byte) int {
	for i, f := range fields {
		if f == string(name) {
			return i
		}
	}
	return -1
}

// number reads an index, 0 if there is none.
func number(raw []byte) uint64 {
	n, _ := strconv.ParseUint(string(raw), 10, 64)
	return n
}
