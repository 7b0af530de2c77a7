package registry

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/hashicorp/consul/api"

	"varco/route"
)

// Overrides live in Consul's key/value store: the text under kvpath and the texts under kvpath/…, one after the other
// in the order of their keys. kvpath-old is none of them, though Consul's prefix query returns it too.

// maxValue is what Consul accepts under one key.
const maxValue = 512 << 10

// pair is one key and its text.
type pair struct{ key, text string }

// texts are all keys of one subject. filtered says that Consul held some back from our token.
type texts struct {
	pairs    []pair
	filtered bool
}

// credible says whether an answer can be believed after the one before: if every text is gone, not at once.
func (t texts) credible(before *texts) error {
	switch {
	case len(t.pairs) > 0 || len(before.pairs) == 0:
		return nil
	case t.filtered && !before.filtered:
		return errFiltered
	}
	return errDoubt
}

// pairs queries everything under key and keeps key itself and what is below it, in order.
func (b *consul) pairs(ctx context.Context, key string, q ask) (a answer[texts], err error) {
	ctx, cancel := context.WithTimeout(ctx, b.limit(q.index))
	defer cancel()
	kvs, m, err := b.client.api.KV().List(key, b.client.query(ctx, q, b.config.Consul.Wait))
	if err != nil {
		return a, err
	}
	a.at = time.Now()
	for _, kv := range kvs {
		if isUnder(kv.Key, key) {
			a.value.pairs = append(a.value.pairs, pair{kv.Key, strings.TrimSpace(string(kv.Value))})
		}
	}
	a.value.filtered = m.ResultsFilteredByACLs
	slices.SortFunc(a.value.pairs, func(p, q pair) int { return strings.Compare(p.key, q.key) })
	a.index, err = metaIndex(m)
	return a, err
}

func isUnder(key, dir string) bool {
	rest, ok := strings.CutPrefix(key, dir)
	return ok && (rest == "" || rest[0] == '/')
}

// watchOverrides follows the overrides.
func (b *consul) watchOverrides(ctx context.Context, to *collector) {
	var last texts
	first := true
	query := func(ctx context.Context, q ask) (answer[texts], error) { return b.pairs(ctx, b.kvPath, q) }
	judge := func(t texts) error { return t.credible(&last) }
	follow(ctx, b, "overrides", query, judge, func(now texts) {
		same := !first && slices.Equal(now.pairs, last.pairs)
		if first, last = false, now; same {
			return
		}
		var commands []route.Command
		var problems []route.Problem
		for _, p := range now.pairs {
			// Problems point into the text that the editor shows, so it is parsed by itself.
			c, ps := route.Parse(p.text, p.key)
			commands, problems = append(commands, c...), append(problems, ps...)
		}
		to.setOverrides(commands, problems)
	})
}

// watchNoRoute follows the no-route page.
func (b *consul) watchNoRoute(ctx context.Context, to *collector) {
	var page string
	var last texts
	query := func(ctx context.Context, q ask) (answer[texts], error) { return b.pairs(ctx, b.page, q) }
	judge := func(t texts) error { return t.credible(&last) }
	follow(ctx, b, "noroute", query, judge, func(now texts) {
		last = now
		var problems []route.Problem
		switch pairs := now.pairs; {
		case len(pairs) == 0 || pairs[0].key != b.page: // keys below it are nobody's page
			page = ""
		case len(pairs[0].text) > maxNoRoute:
			problems = []route.Problem{pageTooLong(b.page)}
		default:
			page = pairs[0].text
		}
		to.setNoRoute(page, problems)
	})
}

// pageTooLong is the problem of a no-route page over the limit.
func pageTooLong(source string) route.Problem {
	return route.Problem{
		Origin: route.Origin{Source: source},
		Reason: fmt.Sprintf("no-route page longer than %d KiB; the last good one stays", maxNoRoute>>10),
	}
}

// keyOf returns the key of a path, "" or /a/b.
func (b *consul) keyOf(path string) (string, error) {
	bad := func(reason string) (string, error) {
		return "", fmt.Errorf("%w %q: %s", ErrPath, shorten(path), reason)
	}
	switch {
	case b.kvPath == "":
		return "", ErrNoOverrides
	case path == "":
		return b.kvPath, nil
	case path[0] != '/':
		return bad("want / at its start")
	case len(path) > 400:
		return bad("want at most 400 bytes")
	case !utf8.ValidString(path), strings.ContainsFunc(path, unicode.IsControl):
		return bad("want printable characters only")
	}
	for part := range strings.SplitSeq(path[1:], "/") {
		if part == "" || part == "." || part == ".." {
			return bad("want no empty part, no . and no ..")
		}
	}
	return b.kvPath + path, nil
}

// Paths returns the paths of all overrides.
func (b *consul) Paths(ctx context.Context) ([]string, error) {
	if b.kvPath == "" {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, slack)
	defer cancel()
	keys, _, err := b.client.api.KV().Keys(b.kvPath, "", b.client.query(ctx, ask{}, 0))
	if err != nil {
		return nil, fmt.Errorf("consul: list overrides: %w", err)
	}
	var paths []string
	for _, k := range keys {
		if isUnder(k, b.kvPath) {
			paths = append(paths, k[len(b.kvPath):])
		}
	}
	slices.Sort(paths)
	return paths, nil
}

// Get returns the overrides at path.
func (b *consul) Get(ctx context.Context, path string) (Manual, error) {
	key, err := b.keyOf(path)
	if err != nil {
		return Manual{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, slack)
	defer cancel()
	kv, m, err := b.client.api.KV().Get(key, b.client.query(ctx, ask{}, 0))
	switch {
	case err != nil:
		return Manual{}, fmt.Errorf("consul: read overrides: %w", err)
	case kv == nil:
		return Manual{Version: m.LastIndex}, nil
	}
	return Manual{string(kv.Value), kv.ModifyIndex}, nil
}

// Put writes the overrides at path: over the version it was read at, or where there is nothing yet.
func (b *consul) Put(ctx context.Context, path string, m Manual) error {
	key, err := b.keyOf(path)
	if err != nil {
		return err
	}
	if len(m.Value) > maxValue {
		return ErrTooLarge
	}
	ctx, cancel := context.WithTimeout(ctx, slack)
	defer cancel()
	// Index 0 means: only if there is no such key.
	for _, version := range slices.Compact([]uint64{m.Version, 0}) {
		kv := &api.KVPair{Key: key, Value: []byte(m.Value), ModifyIndex: version}
		done, _, err := b.client.api.KV().CAS(kv, new(api.WriteOptions).WithContext(ctx))
		if err != nil {
			return fmt.Errorf("consul: write overrides: %w", err)
		}
		if done {
			return nil
		}
	}
	return ErrConflict
}

// Delete removes the overrides at path.
func (b *consul) Delete(ctx context.Context, path string, version uint64) error {
	key, err := b.keyOf(path)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, slack)
	defer cancel()
	kv := &api.KVPair{Key: key, ModifyIndex: version}
	done, _, err := b.client.api.KV().DeleteCAS(kv, new(api.WriteOptions).WithContext(ctx))
	switch {
	case err != nil:
		return fmt.Errorf("consul: delete overrides: %w", err)
	case done:
		return nil
	}
	return ErrConflict
}
