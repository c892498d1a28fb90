//! WebSocket: the handshake, and frames.

use std::ops::ControlFlow;

use throng_ws::handshake::{accept, check_response, encode_response};
use throng_ws::{Opcode, WsDecoder, WsError, WsEvent, WsLimits, WsRole};

use crate::pieces::chopped;

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

/// Feeds the pieces of a wire; with `breaking`, stops at each event and feeds the rest again.
fn decode(
    role: WsRole,
    limits: &WsLimits,
    pieces: &[&[u8]],
    breaking: bool,
) -> (Vec<Seen>, Option<WsError>) {
    let mut decoder = WsDecoder::new(role);
    let mut events = Vec::new();
    let mut arrived_bytes = 0;
    for piece in pieces {
        let mut piece = piece.to_vec();
        let mut taken = 0;
        while taken < piece.len() {
            let fed = decoder.feed(&mut piece[taken..], limits, |event| {
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
            assert!(breaking || taken == piece.len(), "all is taken");
        }
        arrived_bytes += piece.len();
        assert!(
            decoder.held_bytes() <= 256 + 2 * arrived_bytes,
            "memory follows what arrived"
        );
    }
    (events, None)
}

/// Any bytes to a WebSocket decoder: it never panics, what it reports does not depend on
/// how they were cut, memory stays bounded by what arrived, and text is UTF-8.
///
/// Input: one byte of options, four lengths of pieces (used over and over), then the wire.
pub(crate) fn ws_decode(input: &[u8]) {
    let Some(([options], wire)) = chopped(input) else {
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
    let whole = wire.read(|pieces| decode(role, &limits, pieces, false));
    assert_eq!(
        wire.read(|pieces| decode(role, &limits, pieces, true)),
        whole
    );
}

const NAMES: [&str; 7] = [
    "upgrade",
    "connection",
    "sec-websocket-version",
    "sec-websocket-key",
    "sec-websocket-protocol",
    "sec-websocket-extensions",
    "sec-websocket-accept",
];

/// Any field values to the handshake: it never panics, and what it accepts it answers
/// with a head that its own client side accepts.
///
/// Input: lines, each the value of one field, in the order of `NAMES`; a missing line is
/// a missing field, and lines beyond are further values of the same fields.
pub(crate) fn ws_handshake(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else {
        return;
    };
    let values: Vec<&str> = text.lines().collect();
    let header = |name: &str| {
        let place = NAMES.iter().position(|known| *known == name)?;
        values.get(place).copied()
    };
    let _ = check_response(101, header, [0; 16]);
    let fields = NAMES.iter().cycle().zip(&values);
    let fields = fields.map(|(name, value)| (*name, value.as_bytes()));
    let host = ("host", &b"localhost"[..]);
    let Ok(accepted) = accept("GET", fields.chain([host])) else {
        return;
    };
    let mut head = Vec::new();
    encode_response(&accepted, accepted.protocols.iter().next(), None, &mut head);
    let head = String::from_utf8(head).expect("a head is ASCII");
    assert!(head.is_ascii() && head.ends_with("\r\n\r\n"));
    let lines = head.trim_end().split("\r\n").count();
    let expected = 4 + usize::from(accepted.protocols.iter().next().is_some());
    assert_eq!(lines, expected, "no field value adds a line");
}
