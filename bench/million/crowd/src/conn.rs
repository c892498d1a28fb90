//! One connection's protocol: the request, the answer, frames or events.
//!
//! Written from RFC 6455 and the event stream format without the project's own parsers, which are
//! what is being checked.

use crate::plan::{Layout, Transport};

/// Any 16 bytes do for a client; RFC 6455, section 1.3 has these with their answer.
const KEY: &str = "dGhlIHNhbXBsZSBub25jZQ==";
const ACCEPT: &str = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=";

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Begun; the request is not sent.
    #[default]
    Connecting,
    /// TLS shakes hands; the request is not sent.
    Shaking,
    /// The answer is awaited.
    Asked,
    /// The answer was the right one.
    Open,
    Ended,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Item<'a> {
    /// Accepts the request: the right status and header.
    Opened,
    Message(&'a [u8]),
    /// A WebSocket ping; its payload goes back in a pong.
    Ping(&'a [u8]),
    /// A comment that keeps a stream alive, or an event that carries no message.
    Alive,
    /// The peer closes the connection, with this reason.
    Closed(String),
    /// Bytes that fit no rule of the protocol.
    Garbled,
}

pub(crate) fn request(transport: Transport, layout: Layout, n: u32) -> String {
    let query = layout.query(n);
    match transport {
        Transport::Ws => format!(
            "GET /ws?{query} HTTP/1.1\r\nHost: 127.0.0.1\r\n\
             Connection: Upgrade\r\nUpgrade: websocket\r\n\
             Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {KEY}\r\n\r\n"
        ),
        Transport::Sse => format!(
            "GET /sse?{query} HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: text/event-stream\r\n\r\n"
        ),
    }
}

/// The first item of `bytes` and how long it is, or nothing while it is not all there.
pub(crate) fn next(transport: Transport, stage: Stage, bytes: &[u8]) -> Option<(Item<'_>, usize)> {
    match (stage, transport) {
        (Stage::Connecting | Stage::Shaking | Stage::Asked, _) => answer(transport, bytes),
        (Stage::Open, Transport::Ws) => frame(bytes),
        (Stage::Open, Transport::Sse) => event(bytes),
        (Stage::Ended, _) => None,
    }
}

fn find(bytes: &[u8], what: &[u8]) -> Option<usize> {
    bytes.windows(what.len()).position(|window| window == what)
}

fn answer(transport: Transport, bytes: &[u8]) -> Option<(Item<'_>, usize)> {
    let end = find(bytes, b"\r\n\r\n")? + 4;
    let head = String::from_utf8_lossy(&bytes[..end]);
    let (status, wants) = match transport {
        Transport::Ws => ("HTTP/1.1 101 ", format!("sec-websocket-accept: {ACCEPT}")),
        Transport::Sse => (
            "HTTP/1.1 200 ",
            "content-type: text/event-stream".to_owned(),
        ),
    };
    let has = head.lines().any(|line| line.eq_ignore_ascii_case(&wants));
    let item = if head.starts_with(status) && has {
        Item::Opened
    } else {
        let line = head.lines().next().unwrap_or_default();
        Item::Closed(format!("answered {line}"))
    };
    Some((item, end))
}

fn frame(bytes: &[u8]) -> Option<(Item<'_>, usize)> {
    let (&first, &second) = (bytes.first()?, bytes.get(1)?);
    let (length, start) = match second {
        0..=125 => (u64::from(second), 2),
        126 => (
            u64::from(u16::from_be_bytes(bytes.get(2..4)?.try_into().ok()?)),
            4,
        ),
        127 => (u64::from_be_bytes(bytes.get(2..10)?.try_into().ok()?), 10),
        // A server never masks (RFC 6455, section 5.1).
        _ => return Some((Item::Garbled, bytes.len())),
    };
    let Some(end) = usize::try_from(length)
        .ok()
        .filter(|&length| length < 1 << 20)
        .map(|length| start + length)
    else {
        return Some((Item::Garbled, bytes.len()));
    };
    let payload = bytes.get(start..end)?;
    let item = match first {
        0x81 | 0x82 => Item::Message(payload),
        0x89 => Item::Ping(payload),
        0x8a => Item::Alive,
        0x88 => {
            let code = payload.first_chunk::<2>().copied().map(u16::from_be_bytes);
            Item::Closed(format!("close frame {}", code.unwrap_or(1005)))
        }
        _ => Item::Garbled,
    };
    Some((item, end))
}

fn event(bytes: &[u8]) -> Option<(Item<'_>, usize)> {
    // A comment may stand without an empty line after it, so it counts line by line.
    if matches!(bytes.first()?, b':' | b'\n') {
        return Some((Item::Alive, find(bytes, b"\n")? + 1));
    }
    let end = find(bytes, b"\n\n")? + 2;
    let mut data = None;
    for line in bytes[..end].split(|&b| b == b'\n') {
        if line.starts_with(b"event:") {
            return Some((Item::Alive, end));
        }
        if let Some(rest) = line.strip_prefix(b"data: ") {
            if data.is_some() {
                return Some((Item::Garbled, end));
            }
            data = Some(rest);
        }
    }
    Some((data.map_or(Item::Garbled, Item::Message), end))
}

/// The answer to a ping; the mask is zero, which every server has to take.
pub(crate) fn pong(payload: &[u8]) -> Vec<u8> {
    let length = u8::try_from(payload.len().min(125)).unwrap_or(125);
    let mut frame = vec![0x8a, 0x80 | length, 0, 0, 0, 0];
    frame.extend_from_slice(&payload[..usize::from(length)]);
    frame
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whatever the cut, the same items come out.
    fn items(transport: Transport, bytes: &[u8], cut: usize) -> Vec<String> {
        let mut found = Vec::new();
        let mut have = Vec::new();
        let mut stage = Stage::Asked;
        for part in [&bytes[..cut], &bytes[cut..]] {
            have.extend_from_slice(part);
            while let Some((item, length)) = next(transport, stage, &have) {
                if item == Item::Opened {
                    stage = Stage::Open;
                }
                found.push(format!("{item:?}"));
                have.drain(..length);
            }
        }
        assert!(have.is_empty(), "{have:?}");
        found
    }

    #[test]
    fn items_do_not_depend_on_where_reads_end() {
        let ws = format!(
            "HTTP/1.1 101 Switching Protocols\r\nSec-WebSocket-Accept: {ACCEPT}\r\n\r\n\u{1}",
        );
        let mut ws = ws.into_bytes();
        ws.pop();
        ws.extend_from_slice(b"\x81\x03abc\x89\x00\x82\x7e\x00\x02hi\x88\x02\x03\xe9");
        let ws_items = [
            "Opened",
            "Message([97, 98, 99])",
            "Ping([])",
            "Message([104, 105])",
            "Closed(\"close frame 1001\")",
        ];
        let sse = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n\
            event: subscribed\nretry: 2000\ndata: {}\n\n:\n\nid: 1\ndata: hello\n\n";
        let sse_items = [
            "Opened",
            "Alive",
            "Alive",
            "Alive",
            "Message([104, 101, 108, 108, 111])",
        ];
        for (transport, bytes, expect) in [
            (Transport::Ws, &ws[..], &ws_items),
            (Transport::Sse, &sse[..], &sse_items),
        ] {
            for cut in 0..=bytes.len() {
                assert_eq!(items(transport, bytes, cut), expect, "cut at {cut}");
            }
        }
    }

    #[test]
    fn wrong_answers_do_not_open() {
        for (transport, head) in [
            (
                Transport::Ws,
                "HTTP/1.1 101 X\r\nSec-WebSocket-Accept: no\r\n\r\n",
            ),
            (Transport::Ws, "HTTP/1.1 503 Busy\r\n\r\n"),
            (
                Transport::Sse,
                "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n",
            ),
        ] {
            let (item, _) = next(transport, Stage::Asked, head.as_bytes()).unwrap();
            assert!(matches!(item, Item::Closed(_)), "{item:?}");
        }
    }
}
