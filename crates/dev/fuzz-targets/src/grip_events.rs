//! WebSocket-over-HTTP: events that are read are written as they were read, and control messages
//! hold what a client's connection bears.
//!
//! Input: a body of events; messages with the prefix `c:` are control messages.

use throng_grip::item::WsKind;
use throng_grip::ws_events::{
    ControlMessage, EventKind, GripFilter, GripMessage, WsHttpEvent, decode_events, encode_event,
    grip_prefix,
};

pub(crate) const SEEDS: &[&[u8]] = &[
    b"OPEN\r\nTEXT 5\r\nhello\r\nTEXT \
      3c\r\nc:{\"type\":\"subscribe\",\"channel\":\"a\",\"filters\":[\"skip-self\"]}\r\nTEXT \
      26\r\nc:{\"type\":\"unsubscribe\",\"channel\":\"a\"}\r\n",
    b"TEXT 2f\r\nc:{\"type\":\"set-meta\",\"name\":\"user\",\"value\":\"u\"}\r\nBINARY \
      3\r\nm:\xff\r\nPING\r\nPONG 0\r\n\r\n",
    b"TEXT 5a\r\nc:{\"type\":\"keep-alive\",\"content\":\"x\",\"timeout\":20,\
      \"mode\":\"interval\",\"message-type\":\"ping\"}\r\nCLOSE 5\r\n\x03\xe8bye\r\n",
    b"TEXT 52\r\nc:{\"type\":\"send-delayed\",\"message-type\":\"binary\",\
      \"content-bin\":\"AP8=\",\"timeout\":1}\r\nTEXT 1d\r\nc:{\"type\":\"session\",\
      \"id\":\"s\"}\r\nDISCONNECT\r\n",
    b"NEW 2\r\nab\r\nTEXT 13\r\nc:{\"type\":\"detach\"}\r\nTEXT \
      1a\r\nc:{\"type\":\"flush-delayed\"}\r\nTEXT B\r\nm: at last!",
];

/// Runs one input of this target; panics if the target finds a fault.
pub fn grip_events(input: &[u8]) {
    let _ = grip_prefix([input]);
    let Ok(events) = decode_events(input) else {
        return;
    };
    let mut wire = Vec::new();
    for event in &events {
        encode_event(*event, &mut wire);
        look_at(event);
    }
    assert_eq!(decode_events(&wire), Ok(events));
}

fn look_at(event: &WsHttpEvent<'_>) {
    if let Some((code, reason)) = event.close_code() {
        assert_eq!([&code.to_be_bytes()[..], reason].concat(), event.bytes());
    }
    if !matches!(event.kind, EventKind::Text | EventKind::Binary) {
        return;
    }
    let is_text = event.kind == EventKind::Text;
    match GripFilter::new("m:").sort(is_text, event.bytes()) {
        GripMessage::Client(content) => assert_eq!([b"m:", content].concat(), event.bytes()),
        GripMessage::Control(Ok(control)) => {
            assert!(is_text);
            bears(&control);
        }
        GripMessage::Control(Err(_)) | GripMessage::Nobody => {}
    }
}

fn bears(control: &ControlMessage) {
    let (kind, content, timeout_s) = match control {
        ControlMessage::Subscribe { channel, .. } | ControlMessage::Unsubscribe { channel } => {
            return assert!(!channel.is_empty());
        }
        ControlMessage::KeepAlive(Some(keep_alive)) => {
            (keep_alive.kind, &keep_alive.content, keep_alive.timeout_s)
        }
        ControlMessage::SendDelayed {
            kind,
            content,
            timeout_s,
        } => (*kind, content, *timeout_s),
        _ => return,
    };
    assert!(timeout_s > 0);
    match kind {
        WsKind::Text => assert!(std::str::from_utf8(content).is_ok()),
        WsKind::Ping | WsKind::Pong => assert!(content.len() <= 125),
        WsKind::Binary => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_are_what_they_seem() {
        for seed in SEEDS {
            let events = decode_events(seed).expect("events");
            for event in events {
                if let Some(control) = event.bytes().strip_prefix(b"c:") {
                    assert!(ControlMessage::parse(control).is_ok());
                }
            }
        }
    }
}
