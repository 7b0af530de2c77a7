package http1

import (
	"errors"
	"io"
	"net/http"
	"os"
)

// A messageError is a fault in a message that was received. For a request, status is what the client gets.
type messageError struct {
	status int
	reason string
}

func (e *messageError) Error() string { return "http1: " + e.reason }

// Timeout reports whether the fault is that something did not come in time.
func (e *messageError) Timeout() bool { return e.status == http.StatusRequestTimeout }

// Is makes the faults what net/http's would be: a body that stalls is os.ErrDeadlineExceeded, one that is cut
// io.ErrUnexpectedEOF.
func (e *messageError) Is(target error) bool {
	switch target {
	case os.ErrDeadlineExceeded:
		return e == errBodyTimeout
	case io.ErrUnexpectedEOF:
		return e == errBodyCut
	}
	return false
}

// StatusOf answers the status that a client gets for err when err is (or wraps) a fault in its request, such as what
// reading a malformed request body returns: 400, 408, 413, 414, 431, 501 or 505. For any other error it answers 0.
func StatusOf(err error) int {
	var m *messageError
	if errors.As(err, &m) {
		return m.status
	}
	return 0
}

func malformed(reason string) *messageError { return &messageError{http.StatusBadRequest, reason} }

// What a head can be refused for. The values are shared: their text holds no byte of the message.
var (
	errBareLF        = malformed("line ends without CR")
	errFirstByte     = malformed("first byte is not a token character")
	errEmptyLine     = malformed("empty line before the start line")
	errStartLine     = malformed("malformed start line")
	errMethod        = malformed("malformed method")
	errTarget        = malformed("malformed request target")
	errFragment      = malformed("fragment or control character in request target")
	errAuthority     = malformed("request target and Host differ")
	errHost          = malformed("Host is not host[:port]")
	errHostCount     = malformed("Host must stand exactly once")
	errFieldName     = malformed("malformed field name")
	errFieldValue    = malformed("control character in field value")
	errNoColon       = malformed("field line without colon")
	errFold          = malformed("folded field line")
	errLength        = malformed("malformed Content-Length")
	errLengthTwice   = malformed("Content-Length stands more than once")
	errLengthCoding  = malformed("Content-Length beside Transfer-Encoding")
	errCodingTwice   = malformed("Transfer-Encoding stands more than once")
	errCodingOld     = malformed("Transfer-Encoding in HTTP/1.0")
	errCodingEmpty   = malformed("malformed Transfer-Encoding")
	errTrailerName   = malformed("forbidden field named in Trailer")
	errChunkSize     = malformed("malformed chunk size")
	errChunkExt      = malformed("chunk extension too long or malformed")
	errChunkEnd      = malformed("chunk does not end with CRLF")
	errTrailer       = malformed("malformed trailer")
	errStatusLine    = malformed("malformed status line")
	errBodyCut       = malformed("body ended early")
	errCoding        = &messageError{http.StatusNotImplemented, "unknown transfer coding"}
	errVersion       = &messageError{http.StatusHTTPVersionNotSupported, "version is neither HTTP/1.0 nor HTTP/1.1"}
	errLineTooLong   = &messageError{http.StatusRequestURITooLong, "start line too long"}
	errHeadTooLarge  = &messageError{http.StatusRequestHeaderFieldsTooLarge, "head too large"}
	errTooManyFields = &messageError{http.StatusRequestHeaderFieldsTooLarge, "too many fields"}
	errHeadTimeout   = &messageError{http.StatusRequestTimeout, "head not complete in time"}
	errBodyTimeout   = &messageError{http.StatusRequestTimeout, "body makes no progress"}
)
