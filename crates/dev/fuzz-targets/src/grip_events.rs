//! WebSocket-over-HTTP: events that are read are written as they were read, and control messages
//! hold what a client's connection bears.
//!
//! Input: a body of events; messages with the prefix `c:` are control messages.

use throng_grip::item::WsKind;
use throng_grip::ws_events::{
    ControlMessage, EventKind, GripFilter, GripMessage, WsHttpEvent, decode_events, encode_event,
    grip_prefix,
};

pub(crate) fn grip_events(input: &[u8]) {
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
    use crate::Target;

    #[test]
    fn seeds_are_what_they_seem() {
        for seed in Target::named("grip_events").seeds() {
            let events = decode_events(&seed).expect("events");
            for event in events {
                if let Some(control) = event.bytes().strip_prefix(b"c:") {
                    assert!(ControlMessage::parse(control).is_ok());
                }
            }
        }
    }
}
