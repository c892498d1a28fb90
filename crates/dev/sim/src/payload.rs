//! Publications that can be identified: each carries a number, in each of the three kinds of data.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use crate::net::Net;

/// Data as a client got it.
#[derive(Debug)]
pub(crate) enum Got<'a> {
    /// Raw bytes of the payload.
    Raw(&'a [u8]),
    /// The data of an event: text, or base64 of what is not text.
    Event(&'a [u8]),
    /// Within a JSON document.
    Json(&'a Value),
}

/// Data of about a random size that carry a number. `json` for publishers that can send nothing
/// else.
pub(crate) fn make(n: u64, json: bool, net: &Net) -> Vec<u8> {
    let pad = "x".repeat(net.pick(&[0, 5, 30, 130, 300]));
    match net.below(if json { 1 } else { 4 }) {
        2 => format!("n={n};\n{pad}\n").into_bytes(),
        3 => {
            let mut bytes = format!("\0n={n};{pad}").into_bytes();
            bytes[0] = 0xff;
            bytes
        }
        _ => format!("{{\"n\":{n},\"pad\":\"{pad}\"}}").into_bytes(),
    }
}

/// The number that data carry.
pub(crate) fn number(bytes: &[u8]) -> Option<u64> {
    let digits = bytes
        .strip_prefix(b"{\"n\":")
        .or_else(|| bytes.strip_prefix(b"n="))
        .or_else(|| bytes.strip_prefix(b"\xffn="))?;
    let end = digits.iter().position(|byte| !byte.is_ascii_digit())?;
    std::str::from_utf8(&digits[..end]).ok()?.parse().ok()
}

/// The number that a client found.
pub(crate) fn number_of(got: &Got<'_>) -> Option<u64> {
    let in_text = |text: &[u8]| {
        number(text).or_else(|| STANDARD.decode(text).ok().and_then(|bytes| number(&bytes)))
    };
    match got {
        Got::Raw(bytes) => number(bytes),
        Got::Event(bytes) => in_text(bytes),
        Got::Json(Value::String(text)) => in_text(text.as_bytes()),
        Got::Json(value) => value["n"].as_u64(),
    }
}

/// Whether a client got what was published.
pub(crate) fn is_same(published: &[u8], got: &Got<'_>) -> bool {
    let encoded;
    let text = match std::str::from_utf8(published) {
        Ok(text) => text,
        Err(_) => {
            encoded = STANDARD.encode(published);
            &encoded
        }
    };
    match got {
        Got::Raw(bytes) => *bytes == published,
        Got::Event(bytes) => *bytes == text.as_bytes(),
        Got::Json(Value::String(got)) => got == text,
        Got::Json(got) => {
            let n = number(published);
            published.starts_with(b"{")
                && got["n"].as_u64() == n
                && got["pad"]
                    .as_str()
                    .map(str::len)
                    .map(|pad| format!("{{\"n\":{},\"pad\":\"\"}}", n.unwrap_or(0)).len() + pad)
                    == Some(published.len())
        }
    }
}
