package route

import (
	"slices"
	"testing"
)

func TestDump(t *testing.T) {
	t.Parallel()
	table := mustTable(t, Config{}, `
route add svc / http://foo.com:800
route add svc /foo http://foo.com:900
route add svc abc.com/ http://foo.com:1000
route add svc abc.com/x http://foo.com:1000 weight .25
route add svc abc.com/x http://foo.com:2000
route add svc abc.com/x http://foo.com:3000 weight .00001`)
	want := `+-- host=
|   |-- path=/foo
|   |    +-- addr=foo.com:900 weight 1.00 slots 1/1
|   +-- path=/
|       +-- addr=foo.com:800 weight 1.00 slots 1/1
+-- host=abc.com
    |-- path=/x
    |    |-- addr=foo.com:1000 weight 0.25 slots 2500/10000
    |    |-- addr=foo.com:2000 weight 0.75 slots 7499/10000
    |    +-- addr=foo.com:3000 weight 0.00 slots 1/10000
    +-- path=/
        +-- addr=foo.com:1000 weight 1.00 slots 1/1
`
	if got := table.Dump(); got != want {
		t.Errorf("Dump() =\n%s\nwant\n%s", got, want)
	}
}

func TestTableString(t *testing.T) {
	t.Parallel()
	table := mustTable(t, Config{}, `
route add d / http://d/ opts "strip=/x proto=https"
route add a a.com/b http://a/ weight 0.33333 tags "y,x" opts "z a=\x20"
route add a a.com/c HTTP://a
route add s a.com/e http://standby/
route add s a.com/e http://all/ weight 1
route add r r.com:80/ https://$host:8443$path
route add r r.com/ https://a.com$path?x=$path
route add a :3306 tcp://a:1
route add b b.com http://b/`)
	want := `route add r r.com:80/ https://$host:8443$path
route add r r.com/ https://a.com$path?x=$path
route add b b.com/ http://b/
route add s a.com/e http://all/ weight 1.0000
route add a a.com/c http://a
route add a a.com/b http://a/ weight 0.3333 tags "y,x" opts "a=\x20 z"
route add a :3306 tcp://a:1
route add d / http://d/ opts "proto=https strip=/x"`
	if got := table.String(); got != want {
		t.Errorf("String() =\n%s\nwant\n%s", got, want)
	}
	if again := mustTable(t, Config{}, want).String(); again != want {
		t.Errorf("String() of String() =\n%s\nwant\n%s", again, want)
	}
}

func TestDiff(t *testing.T) {
	t.Parallel()
	old := mustTable(t, Config{}, `
route add a a.com/ http://a/
route add b b.com/ http://b/
route add c c.com/ http://c/ weight .25
route add c c.com/ http://c/ weight .25000001
route add d / http://d/`)
	new := mustTable(t, Config{}, `
route add b b.com/ http://b/
route add c c.com/ http://c/ weight .25
route add c c.com/x http://c/
route add e e.com/ http://e/
route add d / http://dd/`)
	added, removed := Diff(old, new)
	if want := []string{"route add e e.com/ http://e/", "route add c c.com/x http://c/", "route add d / http://dd/"}; !slices.Equal(added, want) {
		t.Errorf("added %q, want %q", added, want)
	}
	if want := []string{"route add c c.com/ http://c/ weight 0.2500", "route add a a.com/ http://a/", "route add d / http://d/"}; !slices.Equal(removed, want) {
		t.Errorf("removed %q, want %q", removed, want)
	}
	b := mustBuilder(t, Config{})
	first := b.Build(snapshotOf(t, "route add a a.com/ http://a/\nroute add b b.com/ http://b/")).Table
	second := b.Build(snapshotOf(t, "route add a a.com/ http://a/\nroute add b b.com/ http://c/")).Table
	if added, removed := Diff(first, second); len(added) != 1 || len(removed) != 1 {
		t.Errorf("Diff with a shared host: %q added, %q removed, want one each", added, removed)
	}
	if added, removed := Diff(&Table{}, new); len(added) != 5 || len(removed) != 0 {
		t.Errorf("Diff from nothing: %d added, %d removed, want 5, 0", len(added), len(removed))
	}
	if added, removed := Diff(new, &Table{}); len(added) != 0 || len(removed) != 5 {
		t.Errorf("Diff to nothing: %d added, %d removed, want 0, 5", len(added), len(removed))
	}
}
