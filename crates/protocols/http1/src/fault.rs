//! Faults of messages. Every one is the peer's: it broke a rule of HTTP or went past a limit of
//! ours.

use throng_types::{coded_enum, error_text};

coded_enum! {
    /// Reason for refusing a request. The connection cannot be used again after any of them,
    /// since nobody knows where the next request would begin.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum BadRequest {
        fn status -> u16;
        /// Sentence for the answer's body and the log.
        fn reason;
        /// The method is empty or not a token (RFC 9110 section 9.1).
        Method = 400, "The method is not a token.";
        /// A handshake of TLS in place of a request (RFC 8446 section 5.1).
        Tls = 400, "This is TLS, and the port speaks plain HTTP: use http:// or ws://.";
        MethodTooLong = 501, "The method is not known.";
        /// The target is neither a path, nor an http URI, nor `*` for OPTIONS, or has
        /// forbidden bytes.
        Target = 400, "The request target is not a path or an http URI.";
        /// The request line alone is longer than a head may be.
        TargetTooLong = 414, "The request target is too long.";
        /// The request line does not end in ` HTTP/x.y` and CRLF.
        RequestLine = 400, "The request line is malformed.";
        /// A version other than 1.0 and 1.1.
        Version = 505, "Only HTTP/1.0 and HTTP/1.1 are spoken here.";
        /// A CR without LF or an LF without CR in the head.
        LineEnd = 400, "A line of the head does not end in CRLF.";
        /// The head is longer than it may be.
        HeadTooLarge = 431, "The head of the request is too large.";
        /// There are more field lines than there may be.
        TooManyHeaders = 431, "The request has too many header fields.";
        /// A field line is malformed: its name is no token, white space stands before
        /// the colon, it continues the line before, or its value has control
        /// characters.
        Header = 400, "A header field is malformed.";
        /// HTTP/1.1 asks for a Host.
        HostMissing = 400, "The Host header is missing.";
        HostRepeated = 400, "There is more than one Host header.";
        HostInvalid = 400, "The Host header is not a host and a port.";
        /// Content-Length is not one number of decimal digits in one field line.
        ContentLength = 400, "Content-Length is not one decimal number.";
        /// Transfer-Encoding is not exactly one `chunked` in one field line, or the
        /// request is HTTP/1.0.
        TransferEncoding = 400, "Transfer-Encoding is not exactly one `chunked`.";
        /// Transfer-Encoding names another coding than `chunked` (RFC 9112 section
        /// 6.1).
        UnknownCoding = 501, "Of transfer codings only `chunked` is known.";
        FramingConflict = 400, "Content-Length and Transfer-Encoding exclude each other.";
        /// The body is declared longer than it may be.
        BodyTooLarge = 413, "The body of the request is too large.";
    }
}

coded_enum! {
    /// Reason for refusing a response, in the client's role. The connection cannot be used again.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum BadResponse {
        /// Sentence for the log or the terminal.
        fn reason;
        /// The first line is not `HTTP/1.x`, a code of three digits from 100 up, and a
        /// text.
        StatusLine = "The answer does not begin with an HTTP/1 status line.";
        /// A CR without LF or an LF without CR in the head.
        LineEnd = "A line of the answer's head does not end in CRLF.";
        /// The head is longer than it may be.
        HeadTooLarge = "The head of the answer is too large.";
        /// There are more field lines than there may be.
        TooManyHeaders = "The answer has too many header fields.";
        Header = "A header field of the answer is malformed.";
        /// Content-Length is not one number of decimal digits in one field line.
        ContentLength = "The answer's Content-Length is not one decimal number.";
        /// Transfer-Encoding is not exactly one `chunked` in one field line, or the
        /// response is HTTP/1.0.
        TransferEncoding = "The answer's Transfer-Encoding is not exactly one `chunked`.";
        FramingConflict = "The answer has both a Content-Length and a Transfer-Encoding.";
        /// The body is declared longer than it may be.
        BodyTooLarge = "The body of the answer is too large.";
    }
}

coded_enum! {
    /// Reason for refusing a body, in either role. The connection cannot be used again.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum BadBody {
        /// Status code of the answer, in the server's role.
        fn status -> u16;
        /// Sentence for the answer's body and the log.
        fn reason;
        /// A chunk's size is not 1 to 16 hexadecimal digits, or something else than an
        /// extension follows.
        ChunkSize = 400, "The size of a chunk is not a hexadecimal number.";
        ChunkEnd = 400, "The data of a chunk do not end in CRLF.";
        /// A line of the framing has control characters or does not end in CRLF.
        LineEnd = 400, "A line between chunks does not end in CRLF.";
        /// A trailer field has no name that is a token.
        Trailer = 400, "A trailer field is malformed.";
        /// Chunk extensions and trailers are longer than they may be.
        FramingTooLarge = 413, "Chunk extensions and trailers are too large.";
        /// The data are longer than a body may be.
        TooLarge = 413, "The body is too large.";
    }
}

error_text!(BadRequest.reason, BadResponse.reason, BadBody.reason);

/// Faults that heads of both kinds can have are told as those of requests first.
impl From<BadRequest> for BadResponse {
    fn from(fault: BadRequest) -> Self {
        match fault {
            BadRequest::LineEnd => Self::LineEnd,
            BadRequest::TooManyHeaders => Self::TooManyHeaders,
            BadRequest::Header => Self::Header,
            BadRequest::ContentLength => Self::ContentLength,
            BadRequest::TransferEncoding | BadRequest::UnknownCoding => Self::TransferEncoding,
            BadRequest::FramingConflict => Self::FramingConflict,
            _ => Self::StatusLine,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reason_phrase;

    #[test]
    fn faults_have_a_status_with_a_phrase_and_a_sentence() {
        for fault in BadRequest::ALL {
            let status = match fault {
                BadRequest::MethodTooLong | BadRequest::UnknownCoding => 501,
                BadRequest::TargetTooLong => 414,
                BadRequest::Version => 505,
                BadRequest::HeadTooLarge | BadRequest::TooManyHeaders => 431,
                BadRequest::BodyTooLarge => 413,
                _ => 400,
            };
            assert_eq!(fault.status(), status, "{fault}");
            assert_ne!(reason_phrase(status), "Unknown");
            assert!(fault.to_string().ends_with('.'));
        }
        for fault in BadBody::ALL {
            let is_size = matches!(fault, BadBody::FramingTooLarge | BadBody::TooLarge);
            assert_eq!(fault.status(), if is_size { 413 } else { 400 }, "{fault}");
        }
        assert_eq!(BadBody::TooLarge.to_string(), "The body is too large.");
        let head = BadResponse::HeadTooLarge.to_string();
        assert_eq!(head, "The head of the answer is too large.");
    }
}
