//! Status codes and their names.

/// The name of a status code in the registry of RFC 9110 section 16.2.1; `Unknown` for others.
/// Nobody may rely on it: it is for people who read the wire.
#[must_use]
pub fn reason_phrase(status: u16) -> &'static str {
    match status {
        100 => "Continue",
        101 => "Switching Protocols",
        103 => "Early Hints",
        200 => "OK",
        201 => "Created",
        202 => "Accepted",
        204 => "No Content",
        206 => "Partial Content",
        301 => "Moved Permanently",
        302 => "Found",
        303 => "See Other",
        304 => "Not Modified",
        307 => "Temporary Redirect",
        308 => "Permanent Redirect",
        400 => "Bad Request",
        401 => "Unauthorized",
        402 => "Payment Required",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        406 => "Not Acceptable",
        408 => "Request Timeout",
        409 => "Conflict",
        410 => "Gone",
        411 => "Length Required",
        412 => "Precondition Failed",
        413 => "Content Too Large",
        414 => "URI Too Long",
        415 => "Unsupported Media Type",
        416 => "Range Not Satisfiable",
        417 => "Expectation Failed",
        421 => "Misdirected Request",
        422 => "Unprocessable Content",
        426 => "Upgrade Required",
        428 => "Precondition Required",
        429 => "Too Many Requests",
        431 => "Request Header Fields Too Large",
        451 => "Unavailable For Legal Reasons",
        500 => "Internal Server Error",
        501 => "Not Implemented",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        504 => "Gateway Timeout",
        505 => "HTTP Version Not Supported",
        507 => "Insufficient Storage",
        _ => "Unknown",
    }
}

#[cfg(test)]
mod tests {
    use super::reason_phrase;

    /// Names as the registry has them today. The `http` crate, which others keep, knows two by
    /// what RFC 7231 called them.
    #[test]
    fn names_are_those_of_the_registry() {
        let mut known = 0;
        for code in 100..600 {
            let name = reason_phrase(code);
            if name == "Unknown" {
                continue;
            }
            known += 1;
            let status = http::StatusCode::from_u16(code).expect("a status code");
            let expected = match status.canonical_reason() {
                Some("Payload Too Large") => "Content Too Large",
                Some("Unprocessable Entity") => "Unprocessable Content",
                other => other.expect("in the registry"),
            };
            assert_eq!(name, expected, "{code}");
        }
        assert_eq!(known, 45);
    }
}
