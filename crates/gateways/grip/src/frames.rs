//! Frames of a WebSocket as whole messages, from either side.

use std::ops::ControlFlow;

use throng_grip::item::WsKind;
use throng_ws::{
    CloseFrame, Masking, Opcode, WsDecoder, WsError, WsEvent, WsLimits, close_code_valid,
    encode_close, encode_header, encode_message, encode_ping, encode_pong,
};

/// Message or close that one side sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Told {
    Message(WsKind, Vec<u8>),
    Close(Option<u16>, Vec<u8>),
}

/// Decodes bytes; messages before a fault are returned too.
pub(crate) fn read(
    decoder: &mut WsDecoder,
    input: &mut [u8],
    message_bytes_max: usize,
) -> (Vec<Told>, Result<(), WsError>) {
    let mut told = Vec::new();
    let fed = decoder.feed(input, &WsLimits::new(message_bytes_max), |event| {
        told.push(match event {
            WsEvent::Message { opcode, data } => {
                let kind = if opcode == Opcode::Text {
                    WsKind::Text
                } else {
                    WsKind::Binary
                };
                Told::Message(kind, data.to_vec())
            }
            WsEvent::Ping(data) => Told::Message(WsKind::Ping, data.to_vec()),
            WsEvent::Pong(data) => Told::Message(WsKind::Pong, data.to_vec()),
            WsEvent::Close(frame) => {
                let frame = frame.as_ref();
                let reason = frame.map_or("", |frame| frame.reason).as_bytes().to_vec();
                Told::Close(frame.map(|frame| frame.code), reason)
            }
        });
        ControlFlow::Continue(())
    });
    (told, fed.map(drop))
}

impl Told {
    /// Appends the message as a client's masked frame.
    pub(crate) fn encode_masked(&self, key: [u8; 4], out: &mut Vec<u8>) {
        let masking = Masking::Client(key);
        match self {
            Self::Message(WsKind::Text, data) => encode_message(masking, Opcode::Text, data, out),
            Self::Message(WsKind::Binary, data) => {
                encode_message(masking, Opcode::Binary, data, out);
            }
            Self::Message(WsKind::Ping, data) => encode_ping(masking, data, out),
            Self::Message(WsKind::Pong, data) => encode_pong(masking, data, out),
            Self::Close(code, reason) => {
                let reason = String::from_utf8_lossy(reason);
                let frame = CloseFrame {
                    code: close_code(*code),
                    reason: &reason,
                };
                encode_close(masking, Some(frame), out);
            }
        }
    }
}

/// Returns the code of a close frame. Without a code, or with one that no frame may have, 1000, as
/// in Pushpin.
pub(crate) fn close_code(code: Option<u16>) -> u16 {
    code.filter(|&code| close_code_valid(code)).unwrap_or(1000)
}

/// Appends a message as one frame.
pub(crate) fn frame(kind: WsKind, content: &[u8], out: &mut Vec<u8>) {
    // Control frames hold no more (RFC 6455 section 5.5).
    let control = &content[..content.len().min(125)];
    let opcode = match kind {
        WsKind::Text => Opcode::Text,
        WsKind::Binary => Opcode::Binary,
        WsKind::Ping => return encode_ping(Masking::Server, control, out),
        WsKind::Pong => return encode_pong(Masking::Server, control, out),
    };
    encode_header(Masking::Server, opcode, content.len(), out);
    out.extend_from_slice(content);
}
