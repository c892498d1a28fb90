//! Any field values to the handshake: it never panics, and what it accepts it answers
//! with a head that its own client side accepts.
//!
//! Input: lines, each the value of one field, in the order of `NAMES`; a missing line is
//! a missing field, and lines beyond are further values of the same fields.

use throng_ws::handshake::{accept, check_response, encode_response};

pub(crate) const SEEDS: &[&[u8]] = &[
    b"websocket\nUpgrade\n13\ndGhlIHNhbXBsZSBub25jZQ==\nchat, superchat\npermessage-deflate; \
      client_max_window_bits\ns3pPLMBiTxaQ9kYGzzhZRbK+xOo=",
    b"WebSocket\nkeep-alive, Upgrade\n13\nAAAAAAAAAAAAAAAAAAAAAA==",
];

const NAMES: [&str; 7] = [
    "upgrade",
    "connection",
    "sec-websocket-version",
    "sec-websocket-key",
    "sec-websocket-protocol",
    "sec-websocket-extensions",
    "sec-websocket-accept",
];

/// Runs one input of this target; panics if the target finds a fault.
pub fn ws_handshake(input: &[u8]) {
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
