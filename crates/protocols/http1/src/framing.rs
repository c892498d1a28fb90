//! How a message's body is delimited (RFC 9112 section 6).
//!
//! The readings are stricter than the RFC's, because a request that two
//! implementations delimit differently smuggles a second one past the first:
//! - Content-Length is one field line with decimal digits and nothing else. Repeated
//!   lines and lists are refused even if all their values are equal, which the RFC
//!   would allow to be repaired.
//! - Transfer-Encoding is one field line with the one word `chunked`. Other codings, lists
//!   and parameters are refused, and so is the field in HTTP/1.0. Where it names a coding that is
//!   not known, the answer says so (RFC 9112 section 6.1).
//! - Both together are refused, which the RFC leaves to the server.

use crate::headers::{is_token, trim};
use crate::{BadRequest, BadResponse, Headers};

/// How a request's body is delimited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body {
    /// There is none: neither a length nor a coding was declared.
    None,
    /// This many bytes; may be zero.
    Length(u64),
    /// Chunks (RFC 9112 section 7.1).
    Chunked,
}

/// How a response's body is delimited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResponseBody {
    /// There is none, because of the status or because the request was HEAD.
    None,
    /// This many bytes; may be zero.
    Length(u64),
    /// Chunks (RFC 9112 section 7.1).
    Chunked,
    /// All bytes until the server closes the connection.
    UntilClose,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FramingFault {
    ContentLength,
    TransferEncoding,
    UnknownCoding,
    Conflict,
}

impl From<FramingFault> for BadRequest {
    fn from(fault: FramingFault) -> Self {
        match fault {
            FramingFault::ContentLength => Self::ContentLength,
            FramingFault::TransferEncoding => Self::TransferEncoding,
            FramingFault::UnknownCoding => Self::UnknownCoding,
            FramingFault::Conflict => Self::FramingConflict,
        }
    }
}

impl From<FramingFault> for BadResponse {
    fn from(fault: FramingFault) -> Self {
        match fault {
            FramingFault::ContentLength => Self::ContentLength,
            FramingFault::TransferEncoding | FramingFault::UnknownCoding => Self::TransferEncoding,
            FramingFault::Conflict => Self::FramingConflict,
        }
    }
}

/// What the fields declare.
pub(crate) fn declared(headers: Headers<'_>, minor_version: u8) -> Result<Body, FramingFault> {
    let mut length = None;
    let mut chunked = false;
    for line in headers.lines() {
        if let Some(value) = line.value_of("content-length") {
            if length.is_some() {
                return Err(FramingFault::ContentLength);
            }
            length = Some(decimal(value).ok_or(FramingFault::ContentLength)?);
        } else if let Some(value) = line.value_of("transfer-encoding") {
            if minor_version == 1 && names_unknown_coding(value) {
                return Err(FramingFault::UnknownCoding);
            }
            let plain = value.eq_ignore_ascii_case(b"chunked");
            if chunked || !plain || minor_version == 0 {
                return Err(FramingFault::TransferEncoding);
            }
            chunked = true;
        }
    }
    match (length, chunked) {
        (Some(_), true) => Err(FramingFault::Conflict),
        (Some(length), false) => Ok(Body::Length(length)),
        (None, true) => Ok(Body::Chunked),
        (None, false) => Ok(Body::None),
    }
}

/// Whether a list of codings has the name of one that is not `chunked`.
fn names_unknown_coding(list: &[u8]) -> bool {
    let names = list.split(|&byte| byte == b',').map(|coding| {
        let name = coding.split(|&byte| byte == b';').next();
        trim(name.unwrap_or_default())
    });
    let mut names = names.filter(|name| !name.is_empty());
    names.any(|name| {
        !name.eq_ignore_ascii_case(b"chunked") && name.iter().all(|&byte| is_token(byte))
    })
}

/// A number of decimal digits alone: `str::parse` would take a plus sign too.
pub(crate) fn decimal(value: &[u8]) -> Option<u64> {
    if value.is_empty() {
        return None;
    }
    value.iter().try_fold(0_u64, |number, byte| {
        let digit = byte.is_ascii_digit().then(|| u64::from(byte - b'0'))?;
        number.checked_mul(10)?.checked_add(digit)
    })
}
