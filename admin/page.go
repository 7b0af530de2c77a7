package admin

import (
	"bytes"
	"embed"
	"fmt"
	"html/template"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"strconv"
)

// The page is plain HTML, CSS and JavaScript modules, served as they lie in page/. It loads nothing from elsewhere,
// has no inline script or style, and makes every element from text, so that the content security policy can forbid
// the rest.
//
//go:embed page
var pageFiles embed.FS

// page is the page in the form it is sent in.
type page struct {
	index  file
	assets map[string]file // by name, "style.css"
}

// file is a file in memory.
type file struct {
	body        []byte
	contentType string
	etag        string
}

func newFile(name string, body []byte) file {
	contentType := map[string]string{
		".css":  "text/css; charset=utf-8",
		".html": "text/html; charset=utf-8",
		".js":   "text/javascript; charset=utf-8",
		".svg":  "image/svg+xml",
	}[path.Ext(name)]
	if contentType == "" {
		contentType = mime.TypeByExtension(path.Ext(name))
	}
	return file{body, contentType, etag(body)}
}

func newPage(c Config, d Deps) (*page, error) {
	p := &page{assets: map[string]file{}}
	names, err := fs.Glob(pageFiles, "page/*")
	if err != nil {
		return nil, fmt.Errorf("page: %w", err)
	}
	for _, name := range names {
		body, err := pageFiles.ReadFile(name)
		if err != nil {
			return nil, fmt.Errorf("page: %w", err)
		}
		if base := path.Base(name); base != "index.html" {
			p.assets[base] = newFile(base, body)
			continue
		}
		t, err := template.New("index.html").Parse(string(body))
		if err != nil {
			return nil, fmt.Errorf("page: %w", err)
		}
		var b bytes.Buffer
		err = t.Execute(&b, map[string]any{
			"Base": c.Path, "Title": c.Title, "Color": c.Color, "Version": d.Version, "Writable": c.writable(),
		})
		if err != nil {
			return nil, fmt.Errorf("page: %w", err)
		}
		p.index = newFile("index.html", b.Bytes())
	}
	return p, nil
}

// html serves the one HTML file; its script shows the part that the path names.
func (p *page) html(w http.ResponseWriter, r *http.Request, _ string) { p.index.serve(w, r) }

// asset serves a file by its name.
func (p *page) asset(w http.ResponseWriter, r *http.Request, sub string) {
	f, ok := p.assets[path.Base(sub)]
	if !ok || sub != "/"+path.Base(sub) {
		http.Error(w, "not found", http.StatusNotFound)
		return
	}
	f.serve(w, r)
}

func (f file) serve(w http.ResponseWriter, r *http.Request) {
	// A browser asks every time, and gets 304 until the program is replaced.
	w.Header().Set("Cache-Control", "no-cache")
	w.Header().Set("ETag", f.etag)
	if r.Header.Get("If-None-Match") == f.etag {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	w.Header().Set("Content-Type", f.contentType)
	w.Header().Set("Content-Length", strconv.Itoa(len(f.body)))
	w.Write(f.body)
}
