//! Any bytes to a WebSocket decoder: it never panics, what it reports does not depend on
//! how they were cut, memory stays bounded by what arrived, and text is UTF-8.
//!
//! Input: one byte of options, four chunk lengths (used over and over), then the wire.

use std::ops::ControlFlow;

use throng_ws::{Opcode, WsDecoder, WsError, WsEvent, WsLimits, WsRole};

pub(crate) const SEEDS: &[&[u8]] = &[
    b"\x00\x03\x01\x05\x02\x81\x85\x01\x02\x03\x04ignnn\x89\x80\x00\x00\x00\x00\x88\x82\x00\
      \x00\x00\x00\x03\xe8",
    b"\x01\x03\x01\x05\x02\x01\x03Hel\x80\x02lo\x8a\x01x\x82\x7e\x00\x04abcd\x88\x00",
    b"\x03\x01\x01\x01\x01\x81\x04\xf0\x9f\xa6\x80\x82\x7f\x00\x00\x00\x00\x00\x00\x00\x02hi",
];

/// Kind and bytes of an event; a close frame's code goes before its reason.
type Seen = (u8, Vec<u8>);

fn seen(event: WsEvent<'_>) -> Seen {
    match event {
        WsEvent::Message { opcode, data } => {
            if opcode == Opcode::Text {
                assert!(std::str::from_utf8(data).is_ok(), "text is UTF-8");
            }
            (opcode as u8, data.to_vec())
        }
        WsEvent::Ping(data) => (2, data.to_vec()),
        WsEvent::Pong(data) => (3, data.to_vec()),
        WsEvent::Close(None) => (4, Vec::new()),
        WsEvent::Close(Some(frame)) => {
            let code = frame.code.to_be_bytes();
            (5, [&code, frame.reason.as_bytes()].concat())
        }
    }
}

/// Feeds `wire` in chunks; with `breaking`, stops at each event and feeds the rest again.
fn decode(
    role: WsRole,
    limits: &WsLimits,
    wire: &[u8],
    chunk_bytes: &[usize],
    breaking: bool,
) -> (Vec<Seen>, Option<WsError>) {
    let mut decoder = WsDecoder::new(role);
    let mut events = Vec::new();
    let mut rest = wire;
    for &bytes in chunk_bytes.iter().cycle() {
        let (chunk, further) = rest.split_at(bytes.min(rest.len()));
        let mut chunk = chunk.to_vec();
        let mut taken = 0;
        while taken < chunk.len() {
            let fed = decoder.feed(&mut chunk[taken..], limits, |event| {
                events.push(seen(event));
                if breaking {
                    ControlFlow::Break(())
                } else {
                    ControlFlow::Continue(())
                }
            });
            match fed {
                Ok(bytes) => taken += bytes,
                Err(fault) => {
                    assert_eq!(decoder.held_bytes(), 0, "a failed decoder holds nothing");
                    return (events, Some(fault));
                }
            }
            assert!(breaking || taken == chunk.len(), "all is taken");
        }
        rest = further;
        let arrived_bytes = wire.len() - rest.len();
        assert!(
            decoder.held_bytes() <= 256 + 2 * arrived_bytes,
            "memory follows what arrived"
        );
        if rest.is_empty() {
            break;
        }
    }
    (events, None)
}

/// Runs one input of this target; panics if the target finds a fault.
pub fn ws_decode(input: &[u8]) {
    let Some((&[options, chunks @ ..], wire)) = input.split_first_chunk::<5>() else {
        return;
    };
    let role = if options & 1 == 0 {
        WsRole::Server
    } else {
        WsRole::Client
    };
    let limits = WsLimits {
        message_bytes_max: [100, 1 << 16, 1 << 20, usize::MAX][usize::from(options >> 1 & 3)],
        deflates: options & 8 != 0,
    };
    let chunk_bytes = chunks.map(|bytes| usize::from(bytes).max(1));
    let whole = decode(role, &limits, wire, &[wire.len()], false);
    assert_eq!(whole, decode(role, &limits, wire, &chunk_bytes, false));
    assert_eq!(whole, decode(role, &limits, wire, &chunk_bytes, true));
    assert_eq!(whole, decode(role, &limits, wire, &[1], false));
}
