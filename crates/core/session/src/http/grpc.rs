//! gRPC by streams of HTTP/2: messages behind five bytes, deadlines, and a status in the fields
//! behind the body (gRPC over HTTP2; Status codes and their use in gRPC).
//!
//! Owns: what every service has in common. Never: a service's messages.

use throng_http1::{Request, encode_stream_head};
use throng_types::{Http2, Millis};

use super::{Incoming, Reject, respond};
use crate::Context;
use crate::encode::chunk;

/// Bytes before each message: a flag for compression, and the length.
const PREFIX_BYTES: usize = 5;

const CONTENT_TYPE: (&str, &str) = ("Content-Type", "application/grpc");

/// Status of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GrpcCode {
    Ok = 0,
    Unknown = 2,
    InvalidArgument = 3,
    DeadlineExceeded = 4,
    NotFound = 5,
    AlreadyExists = 6,
    PermissionDenied = 7,
    ResourceExhausted = 8,
    OutOfRange = 11,
    Unimplemented = 12,
    Internal = 13,
    Unavailable = 14,
    Unauthenticated = 16,
}

impl GrpcCode {
    /// The code for a status of HTTP that refuses a request.
    pub const fn of_http(status: u16) -> Self {
        match status {
            400 | 415 => Self::InvalidArgument,
            401 => Self::Unauthenticated,
            403 | 421 => Self::PermissionDenied,
            404 => Self::NotFound,
            405 | 426 | 501 | 505 => Self::Unimplemented,
            413 | 431 => Self::ResourceExhausted,
            416 => Self::OutOfRange,
            409 => Self::AlreadyExists,
            429 | 502 | 503 | 504 => Self::Unavailable,
            500 => Self::Internal,
            _ => Self::Unknown,
        }
    }
}

/// Whether a request is a call of gRPC that can be answered as one.
pub(crate) fn is_grpc<S, O>(request: &Request<'_>, cx: &Context<'_, S, O>) -> bool {
    cx.shared.http2.get() == Http2::Stream && has_grpc_type(request)
}

fn has_grpc_type(request: &Request<'_>) -> bool {
    let kind = request.header("content-type").unwrap_or_default();
    let rest = kind.strip_prefix("application/grpc");
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['+', ';']))
}

/// Reads the one message of a call, and the time that it has. Error: the status for what is no such
/// call; over HTTP/1.1 there is none.
pub fn read_grpc<'r, S, O>(
    incoming: &Incoming<'r, '_>,
    cx: &Context<'_, S, O>,
) -> Result<(&'r [u8], Option<Millis>), Reject> {
    if cx.shared.http2.get() != Http2::Stream {
        let sentence = "gRPC needs HTTP/2: connect by TLS with ALPN h2, or set listen.http2 = \
                        \"plain\" for plain ports";
        return Err(Reject::new(505, sentence));
    }
    if !has_grpc_type(incoming.request) {
        let sentence = "this path takes calls of gRPC: send application/grpc";
        return Err(Reject::new(415, sentence));
    }
    let timeout = incoming.request.header("grpc-timeout");
    let timeout = timeout.map(|text| {
        timeout_ms(text).ok_or_else(|| Reject::new(400, "grpc-timeout is no number with a unit"))
    });
    let until = timeout.transpose()?.map(|ms| cx.now.mono + ms);
    let whole = "a call has one message behind its length";
    let no_message = || Reject::new(400, whole);
    let (prefix, message) = { incoming.body }
        .split_first_chunk::<PREFIX_BYTES>()
        .ok_or_else(no_message)?;
    let [is_compressed, length @ ..] = *prefix;
    if is_compressed != 0 {
        return Err(Reject::new(501, "messages come uncompressed"));
    }
    match u32::from_be_bytes(length) as usize == message.len() {
        true => Ok((message, until)),
        false => Err(no_message()),
    }
}

/// Reads a number of at most eight digits with its unit, rounded up to milliseconds.
fn timeout_ms(text: &str) -> Option<u64> {
    let (digits, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    let is_number = (1..=8).contains(&digits.len()) && digits.bytes().all(|b| b.is_ascii_digit());
    let number: u64 = { is_number }.then(|| digits.parse().ok())??;
    Some(match unit {
        "H" => number * 3_600_000,
        "M" => number * 60_000,
        "S" => number * 1000,
        "m" => number,
        "u" => number.div_ceil(1000),
        "n" => number.div_ceil(1_000_000),
        _ => return None,
    })
}

/// Writes the head of an answer that has messages.
pub fn write_grpc_head<S, O>(cx: &mut Context<'_, S, O>) {
    let date = cx.shared.dates.at(cx.now);
    encode_stream_head(200, date.as_str(), &[CONTENT_TYPE], true, cx.out);
}

/// Appends a message behind its length; `write` appends what it says.
pub fn grpc_message(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    chunk(out, |out| {
        let start = out.len();
        out.extend_from_slice(&[0; PREFIX_BYTES]);
        write(out);
        let length = u32::try_from(out.len() - start - PREFIX_BYTES).unwrap_or(u32::MAX);
        out[start + 1..start + PREFIX_BYTES].copy_from_slice(&length.to_be_bytes());
    });
}

/// Appends the end of an answer that has messages.
pub fn grpc_end(code: GrpcCode, out: &mut Vec<u8>) {
    let end = format!("0\r\ngrpc-status: {}\r\n\r\n", code as u8);
    out.extend_from_slice(end.as_bytes());
}

/// Answers with a status and nothing else.
pub fn respond_grpc<S, O>(code: GrpcCode, sentence: &str, cx: &mut Context<'_, S, O>) {
    let status = (code as u8).to_string();
    let sentence = percent(sentence);
    let headers = [
        CONTENT_TYPE,
        ("grpc-status", &status),
        ("grpc-message", &sentence),
    ];
    respond(200, &headers, b"", true, cx);
}

/// Refuses a call that nobody offers.
pub(crate) fn no_call() -> Reject {
    Reject::new(501, "no such call is offered on this port")
}

/// Answers a call that is not carried out.
pub(crate) fn reject_grpc<S, O>(reject: &Reject, cx: &mut Context<'_, S, O>) {
    respond_grpc(GrpcCode::of_http(reject.status), &reject.sentence, cx);
}

/// A text in which all but printable ASCII is percent-encoded, and the sign itself.
fn percent(text: &str) -> String {
    let each = text.bytes().map(|byte| match byte {
        b' '..=b'~' if byte != b'%' => char::from(byte).to_string(),
        byte => format!("%{byte:02X}"),
    });
    each.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deadlines_have_a_number_and_a_unit() {
        for (text, ms) in [
            ("1S", Some(1000)),
            ("99999999H", Some(99_999_999 * 3_600_000)),
            ("2M", Some(120_000)),
            ("250m", Some(250)),
            ("1u", Some(1)),
            ("1500u", Some(2)),
            ("0n", Some(0)),
            ("1", None),
            ("S", None),
            ("", None),
            ("+1S", None),
            ("123456789S", None),
            ("1s", None),
            ("1é", None),
        ] {
            assert_eq!(timeout_ms(text), ms, "{text}");
        }
    }

    #[test]
    fn messages_of_statuses_are_ascii() {
        assert_eq!(percent("50% of ä\n"), "50%25 of %C3%A4%0A");
    }
}
