package registry

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/fsnotify/fsnotify"
	"github.com/spf13/pflag"

	"varco/route"
)

// The file backend reads a text of routes again whenever it may have changed. The folder is watched, not the file: an
// editor or a deployment replaces the file by renaming another over it. Since watching does not work everywhere (network
// file systems; a link whose target changes in another folder), the file's time and size are looked at every second too.
//
// A new text takes the place of the old one once the file has been quiet for a moment, unless it cannot be meant:
//   - it cannot be read, is over 64 MiB, or has NUL bytes or bytes that are no UTF-8;
//   - it is empty or all blank, while the old text had commands: somebody is writing it at this moment. (No routes at
//     all is said with a comment.)
//   - it has a line that is not understood, while the old text had commands: half of a change is not what was meant.
//
// Then the old routes stay, and a Problem says why, and one for each bad line. Only in the first text, for which there
// is no old one, does a bad line cost just itself.

const (
	// quiet is how long a file must rest before it is read.
	quiet = 100 * time.Millisecond
	// look is the pause between two looks at a file's time and size.
	look = time.Second
)

// FileConfig says where the routes are.
type FileConfig struct {
	Path string
	// NoRoutePath is the file with the no-route page; "" means none.
	NoRoutePath string
}

func (c *FileConfig) flags(fs *pflag.FlagSet) {
	fs.StringVar(&c.Path, "registry.file.path", "", "file with the routes, one command a line")
	fs.StringVar(&c.NoRoutePath, "registry.file.noroutehtmlpath", "", "file with the page for requests without a route")
}

func checkFile(c *Config) error {
	if c.File.Path == "" {
		return errors.New("registry.file.path: empty: want the path of a file with routes")
	}
	return nil
}

// file is a backend that reads routes from a file.
type file struct {
	config FileConfig
	env    Env

	mu    sync.Mutex // guards wrong
	wrong error      // why the file on disk is not the one in use

	// Only Watch uses the fields below.
	text     string
	snapshot route.Snapshot // without the problems of the files as a whole
}

func openFile(c Config, e Env) (Backend, error) {
	f := &file{config: c.File, env: e}
	text, err := readText(f.config.Path, maxBody)
	if err != nil {
		return nil, fmt.Errorf("registry.file.path: %s: %w", f.config.Path, err)
	}
	f.use(text)
	if f.config.NoRoutePath != "" {
		if f.snapshot.NoRoute, err = readText(f.config.NoRoutePath, maxNoRoute); err != nil {
			return nil, fmt.Errorf("registry.file.noroutehtmlpath: %s: %w", f.config.NoRoutePath, err)
		}
	}
	return f, nil
}

// Trouble says why the file is not in use as it is now.
func (f *file) Trouble() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.wrong
}

// Watch hands on what Open has read and then every change.
func (f *file) Watch(ctx context.Context, update func(route.Snapshot)) error {
	changes := make(chan fsnotify.Event)
	if w, err := fsnotify.NewWatcher(); err != nil {
		f.env.Log.Warn("cannot watch the routes file, looking at it every second instead", "err", err)
	} else {
		defer w.Close()
		for _, p := range f.paths() {
			if err := w.Add(filepath.Dir(p)); err != nil {
				f.env.Log.Warn("cannot watch the folder, looking at the file every second instead", "path", p, "err", err)
			}
		}
		changes = w.Events
		go func() { // ends when w is closed
			for range w.Errors {
			}
		}()
	}
	stamps := f.stamps()
	last := f.current(nil)
	update(last)

	poll := time.NewTicker(look)
	defer poll.Stop()
	// The files may have changed between Open and here.
	rest := time.NewTimer(quiet)
	defer rest.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case _, ok := <-changes:
			if !ok {
				changes = nil
				continue
			}
			rest.Reset(quiet)
		case <-poll.C:
			if now := f.stamps(); !slices.Equal(now, stamps) {
				stamps = now
				rest.Reset(quiet)
			}
		case <-rest.C:
			before := f.stamps()
			var problems []route.Problem
			f.env.query("file", func() error { problems = f.reload(); return f.Trouble() })
			if stamps = f.stamps(); !slices.Equal(before, stamps) {
				rest.Reset(quiet) // it changed while it was read: what was read may be a part
				continue
			}
			if s := f.current(problems); !sameSnapshot(&s, &last) {
				last = s
				update(s)
			}
		}
	}
}

// paths returns the files that count.
func (f *file) paths() []string {
	if f.config.NoRoutePath == "" {
		return []string{f.config.Path}
	}
	return []string{f.config.Path, f.config.NoRoutePath}
}

func (f *file) stamps() []fileStamp {
	var s []fileStamp
	for _, p := range f.paths() {
		one, _ := stamp(p) // what cannot be read has the zero stamp
		s = append(s, one)
	}
	return s
}

// reload reads the files and returns what is wrong with them as a whole.
func (f *file) reload() []route.Problem {
	var problems []route.Problem
	var errs []error
	refuse := func(path string, err error, stay string) {
		errs = append(errs, fmt.Errorf("%s: %w", path, err))
		problems = append(problems, route.Problem{Origin: route.Origin{Source: path}, Reason: err.Error(), Hint: stay})
	}
	text, err := readText(f.config.Path, maxBody)
	if err == nil && text != f.text {
		problems, err = f.use(text)
	}
	if err != nil {
		refuse(f.config.Path, err, "the last good routes stay")
	}
	if p := f.config.NoRoutePath; p != "" {
		if page, err := readText(p, maxNoRoute); err != nil {
			refuse(p, err, "the last good page stays")
		} else {
			f.snapshot.NoRoute = page
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	was := f.wrong
	f.wrong = errors.Join(errs...)
	switch {
	case f.wrong != nil && (was == nil || was.Error() != f.wrong.Error()):
		f.env.Log.Warn("a new file is not used, the old one stays", "err", f.wrong)
	case f.wrong == nil && was != nil:
		f.env.Log.Info("the file is in use again", "path", f.config.Path)
	}
	return problems
}

// use takes over a new text, unless it cannot be meant; then it returns why, and the bad lines.
func (f *file) use(text string) ([]route.Problem, error) {
	commands, problems := route.Parse(text, f.config.Path)
	if len(f.snapshot.Overrides) > 0 {
		switch {
		case strings.TrimSpace(text) == "":
			return nil, errors.New("the file is empty; to have no routes write a comment into it")
		case len(commands) == 0 && len(problems) > 0: // another kind of file: its lines say nothing
			return nil, fmt.Errorf("not one line of the file is a command; line %d: %s", problems[0].Origin.Line, problems[0].Reason)
		case len(problems) == 1:
			return problems, fmt.Errorf("line %d: %s", problems[0].Origin.Line, problems[0].Reason)
		case len(problems) > 1:
			return problems, fmt.Errorf("%d bad lines, the first is line %d: %s", len(problems), problems[0].Origin.Line, problems[0].Reason)
		}
	}
	f.text, f.snapshot.Overrides, f.snapshot.Problems = text, commands, problems
	return nil, nil
}

// current returns the Snapshot of the moment.
func (f *file) current(problems []route.Problem) route.Snapshot {
	s := f.snapshot
	s.Problems = slices.Concat(s.Problems, problems)
	return s
}

// readText reads a file that should be text of at most limit bytes. The error does not name the file.
func readText(path string, limit int64) (string, error) {
	b, err := readAll(path, limit+1)
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		err = p.Err
	}
	switch {
	case err != nil:
		return "", err
	case int64(len(b)) > limit:
		return "", fmt.Errorf("longer than %d KiB", limit>>10)
	case !utf8.Valid(b) || slices.Contains(b, 0):
		return "", errors.New("not a text")
	}
	return string(b), nil
}

func readAll(path string, limit int64) ([]byte, error) {
	in, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	return io.ReadAll(io.LimitReader(in, limit))
}
