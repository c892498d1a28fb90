//! What was wrong with a message. Every fault here is the peer's: it broke a rule
//! of HTTP or went past a limit of ours.

use std::fmt;

/// Why a request was refused. The connection cannot be used again after any of them,
/// since nobody knows where the next request would begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadRequest {
    /// The method is empty or not a token (RFC 9110 section 9.1).
    Method,
    /// A handshake of TLS in place of a request (RFC 8446 section 5.1).
    Tls,
    /// The method is longer than any that exists.
    MethodTooLong,
    /// The target is neither a path, nor an http URI, nor `*` for OPTIONS, or has forbidden bytes.
    Target,
    /// The request line alone is longer than a head may be.
    TargetTooLong,
    /// The request line does not end in ` HTTP/x.y` and CRLF.
    RequestLine,
    /// A version other than 1.0 and 1.1.
    Version,
    /// A CR without LF or an LF without CR in the head.
    LineEnd,
    /// The head is longer than it may be.
    HeadTooLarge,
    /// There are more field lines than there may be.
    TooManyHeaders,
    /// A field line is malformed: its name is no token, white space stands before the colon,
    /// it continues the line before, or its value has control characters.
    Header,
    /// HTTP/1.1 without Host.
    HostMissing,
    /// More than one Host.
    HostRepeated,
    /// Host is not a host and an optional port.
    HostInvalid,
    /// Content-Length is not one number of decimal digits in one field line.
    ContentLength,
    /// Transfer-Encoding is not exactly one `chunked` in one field line, or the request is
    /// HTTP/1.0.
    TransferEncoding,
    /// Transfer-Encoding names another coding than `chunked` (RFC 9112 section 6.1).
    UnknownCoding,
    /// Both Content-Length and Transfer-Encoding.
    FramingConflict,
    /// The body is declared longer than it may be.
    BodyTooLarge,
}

impl BadRequest {
    /// The status code of the answer.
    #[must_use]
    pub fn status(self) -> u16 {
        self.describe().0
    }

    /// One sentence for the answer's body and the log.
    #[must_use]
    pub fn reason(self) -> &'static str {
        self.describe().1
    }

    fn describe(self) -> (u16, &'static str) {
        match self {
            Self::Method => (400, "The method is not a token."),
            Self::Tls => (
                400,
                "This is TLS, and the port speaks plain HTTP: use http:// or ws://.",
            ),
            Self::MethodTooLong => (501, "The method is not known."),
            Self::Target => (400, "The request target is not a path or an http URI."),
            Self::TargetTooLong => (414, "The request target is too long."),
            Self::RequestLine => (400, "The request line is malformed."),
            Self::Version => (505, "Only HTTP/1.0 and HTTP/1.1 are spoken here."),
            Self::LineEnd => (400, "A line of the head does not end in CRLF."),
            Self::HeadTooLarge => (431, "The head of the request is too large."),
            Self::TooManyHeaders => (431, "The request has too many header fields."),
            Self::Header => (400, "A header field is malformed."),
            Self::HostMissing => (400, "The Host header is missing."),
            Self::HostRepeated => (400, "There is more than one Host header."),
            Self::HostInvalid => (400, "The Host header is not a host and a port."),
            Self::ContentLength => (400, "Content-Length is not one decimal number."),
            Self::TransferEncoding => (400, "Transfer-Encoding is not exactly one `chunked`."),
            Self::UnknownCoding => (501, "Of transfer codings only `chunked` is known."),
            Self::FramingConflict => (
                400,
                "Content-Length and Transfer-Encoding exclude each other.",
            ),
            Self::BodyTooLarge => (413, "The body of the request is too large."),
        }
    }
}

impl fmt::Display for BadRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.reason())
    }
}

impl std::error::Error for BadRequest {}

/// Why a response was refused, in the client's role. The connection cannot be used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadResponse {
    /// The first line is not `HTTP/1.x`, a code of three digits from 100 up, and a text.
    StatusLine,
    /// A CR without LF or an LF without CR in the head.
    LineEnd,
    /// The head is longer than it may be.
    HeadTooLarge,
    /// There are more field lines than there may be.
    TooManyHeaders,
    /// A field line is malformed.
    Header,
    /// Content-Length is not one number of decimal digits in one field line.
    ContentLength,
    /// Transfer-Encoding is not exactly one `chunked` in one field line, or the response is
    /// HTTP/1.0.
    TransferEncoding,
    /// Both Content-Length and Transfer-Encoding.
    FramingConflict,
    /// The body is declared longer than it may be.
    BodyTooLarge,
}

impl BadResponse {
    /// One sentence for the log or the terminal.
    #[must_use]
    pub fn reason(self) -> &'static str {
        match self {
            Self::StatusLine => "The answer does not begin with an HTTP/1 status line.",
            Self::LineEnd => "A line of the answer's head does not end in CRLF.",
            Self::HeadTooLarge => "The head of the answer is too large.",
            Self::TooManyHeaders => "The answer has too many header fields.",
            Self::Header => "A header field of the answer is malformed.",
            Self::ContentLength => "The answer's Content-Length is not one decimal number.",
            Self::TransferEncoding => {
                "The answer's Transfer-Encoding is not exactly one `chunked`."
            }
            Self::FramingConflict => {
                "The answer has both a Content-Length and a Transfer-Encoding."
            }
            Self::BodyTooLarge => "The body of the answer is too large.",
        }
    }
}

impl fmt::Display for BadResponse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.reason())
    }
}

impl std::error::Error for BadResponse {}

/// Why a body was refused, in either role. The connection cannot be used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadBody {
    /// A chunk's size is not 1 to 16 hexadecimal digits, or something else than an extension
    /// follows.
    ChunkSize,
    /// A chunk's data do not end in CRLF.
    ChunkEnd,
    /// A line of the framing has control characters or does not end in CRLF.
    LineEnd,
    /// A trailer field has no name that is a token.
    Trailer,
    /// Chunk extensions and trailers are longer than they may be.
    FramingTooLarge,
    /// The data are longer than a body may be.
    TooLarge,
}

impl BadBody {
    /// The status code of the answer, in the server's role.
    #[must_use]
    pub fn status(self) -> u16 {
        self.describe().0
    }

    /// One sentence for the answer's body and the log.
    #[must_use]
    pub fn reason(self) -> &'static str {
        self.describe().1
    }

    fn describe(self) -> (u16, &'static str) {
        match self {
            Self::ChunkSize => (400, "The size of a chunk is not a hexadecimal number."),
            Self::ChunkEnd => (400, "The data of a chunk do not end in CRLF."),
            Self::LineEnd => (400, "A line between chunks does not end in CRLF."),
            Self::Trailer => (400, "A trailer field is malformed."),
            Self::FramingTooLarge => (413, "Chunk extensions and trailers are too large."),
            Self::TooLarge => (413, "The body is too large."),
        }
    }
}

impl fmt::Display for BadBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.reason())
    }
}

impl std::error::Error for BadBody {}

#[cfg(test)]
mod tests {
    use super::{BadBody, BadResponse};

    #[test]
    fn a_bad_body_has_its_status() {
        let bad = [
            BadBody::ChunkSize,
            BadBody::ChunkEnd,
            BadBody::LineEnd,
            BadBody::Trailer,
        ];
        for fault in bad {
            assert_eq!(fault.status(), 400, "{fault}");
        }
        for fault in [BadBody::FramingTooLarge, BadBody::TooLarge] {
            assert_eq!(fault.status(), 413, "{fault}");
        }
    }

    #[test]
    fn faults_are_told_in_a_sentence() {
        assert_eq!(BadBody::TooLarge.to_string(), "The body is too large.");
        let head = BadResponse::HeadTooLarge.to_string();
        assert_eq!(head, "The head of the answer is too large.");
    }
}
