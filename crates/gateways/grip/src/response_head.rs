//! Heads of answers to clients: a backend's own reason and field names are kept.

use throng_grip::proxy::is_response_hop;
use throng_http1::field::{Header, write_field};
use throng_http1::reason_phrase;
use throng_session::DateText;

use crate::Cx;
use crate::forms::stream_bytes;

/// End of the body behind a head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Framing {
    /// No body; a length from the backend is passed on.
    None(Option<u64>),
    /// Body of this many bytes.
    Length(u64),
    /// With an empty chunk.
    Chunked,
    /// Until the connection closes.
    Close,
}

impl Framing {
    /// Returns the framing for a body of unknown length.
    pub(crate) const fn open(minor_version: u8) -> Self {
        if minor_version == 0 {
            Self::Close
        } else {
            Self::Chunked
        }
    }
}

/// State of the connection after an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum After {
    /// The connection is closed.
    Ends,
    /// The connection stays open without a header about it.
    Stays,
    /// The connection stays open, and a client of HTTP/1.0 is told so by a header.
    StaysSaid,
}

impl After {
    pub(crate) const fn of(keep_alive: bool, minor_version: u8) -> Self {
        match (keep_alive, minor_version) {
            (false, _) => Self::Ends,
            (true, 0) => Self::StaysSaid,
            (true, _) => Self::Stays,
        }
    }
}

/// Whether a status never has a body (RFC 9110 section 6.4.1).
pub(crate) const fn is_bodiless(code: u16) -> bool {
    matches!(code, 100..=199 | 204 | 304)
}

/// Appends a head. Fields that belong to one hop are left out; a date is put in if there is none
/// (RFC 9110 section 6.6.1) and one is given.
pub(crate) fn encode_head(
    code: u16,
    reason: Option<&str>,
    headers: &[Header],
    (framing, after): (Framing, After),
    date: Option<&DateText>,
    out: &mut Vec<u8>,
) {
    out.extend_from_slice(format!("HTTP/1.1 {code:03} ").as_bytes());
    let reason = reason.unwrap_or_else(|| reason_phrase(code));
    out.extend(reason.bytes().filter(|byte| *byte >= b' ' && *byte != 127));
    out.extend_from_slice(b"\r\n");
    for header in headers {
        if !is_response_hop(&header.name, true) {
            write_field(&header.name, &header.value, out);
        }
    }
    if let Some(date) = date
        && !headers.iter().any(|header| header.is("Date"))
    {
        write_field("Date", date.as_str().as_bytes(), out);
    }
    match framing {
        Framing::None(Some(bytes)) | Framing::Length(bytes) => {
            write_field("Content-Length", bytes.to_string().as_bytes(), out);
        }
        Framing::Chunked => write_field("Transfer-Encoding", b"chunked", out),
        Framing::None(None) | Framing::Close => {}
    }
    match after {
        _ if framing == Framing::Close => write_field("Connection", b"close", out),
        After::Ends => write_field("Connection", b"close", out),
        After::StaysSaid => write_field("Connection", b"keep-alive", out),
        After::Stays => {}
    }
    out.extend_from_slice(b"\r\n");
}

/// Appends a head with the date of now to what the client gets.
pub(crate) fn send_head(
    code: u16,
    reason: Option<&str>,
    headers: &[Header],
    ends: (Framing, After),
    cx: &mut Cx<'_>,
) {
    let date = cx.shared.dates.at(cx.now);
    encode_head(code, reason, headers, ends, Some(&date), cx.out);
}

/// Appends the answer that makes a connection a WebSocket: its own accept, and the backend's
/// other fields.
pub(crate) fn switch_protocols(accept: Header, theirs: &[Header], out: &mut Vec<u8>) {
    const OWN: [&str; 3] = ["Upgrade", "Sec-WebSocket-Accept", "Sec-WebSocket-Version"];
    let theirs = theirs.iter();
    let theirs = theirs.filter(|header| !OWN.iter().any(|name| header.is(name)));
    let mut all = vec![accept];
    all.extend(theirs.cloned());
    // `Upgrade` and `Connection` belong to the hop, which the encoder keeps to itself.
    let mut head = Vec::new();
    let ends = (Framing::None(None), After::Stays);
    encode_head(101, None, &all, ends, None, &mut head);
    head.truncate(head.len() - 2);
    out.extend_from_slice(&head);
    out.extend_from_slice(b"Upgrade: websocket\r\nConnection: Upgrade\r\n\r\n");
}

/// Appends bytes of a body.
pub(crate) fn pass_on(framing: Framing, bytes: &[u8], out: &mut Vec<u8>) {
    match framing {
        Framing::None(_) => {}
        Framing::Length(_) | Framing::Close => stream_bytes(false, bytes, out),
        Framing::Chunked => stream_bytes(true, bytes, out),
    }
}
