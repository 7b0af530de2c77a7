package route

func compileGlobPath(path string) (pattern, error) {
	g, err := compileGlob(path)
	if err != nil {
		return pattern{}, err
	}
	if g.wild == 0 {
		return pattern{literal: g.literal, whole: true, self: true}, nil
	}
	return pattern{literal: g.literal, tail: g, wild: g.wild}, nil
}
