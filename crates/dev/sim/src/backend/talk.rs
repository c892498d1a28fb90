//! WebSockets that the backend speaks itself: it answers `say N` with `heard N`, and puts the
//! client into a channel.

use std::ops::ControlFlow;

use throng_ws::{CloseFrame, Masking, Opcode, WsDecoder, WsEvent, WsLimits, WsRole};

use crate::setup::{CHANNELS, GRIP};

/// The message by which a client is put into a channel.
pub(super) fn subscribe() -> String {
    let channel = CHANNELS[GRIP].name;
    format!("c:{{\"type\":\"subscribe\",\"channel\":\"{channel}\"}}")
}

/// The backend's end of a WebSocket that it speaks itself.
pub(crate) struct Talk {
    decoder: WsDecoder,
    next: u64,
}

impl Default for Talk {
    fn default() -> Self {
        Self {
            decoder: WsDecoder::new(WsRole::Server),
            next: 0,
        }
    }
}

impl Talk {
    /// Frames that the backend sends right behind the handshake.
    pub(super) fn first_words() -> Vec<u8> {
        let mut out = Vec::new();
        say(&subscribe(), &mut out);
        out
    }

    pub(super) fn hear(&mut self, mut bytes: Vec<u8>) -> Vec<u8> {
        const LIMITS: WsLimits = WsLimits::new(1 << 20);
        let Self { decoder, next } = self;
        let mut out = Vec::new();
        let fed = decoder.feed(&mut bytes, &LIMITS, |event| {
            match event {
                WsEvent::Message { data, .. } => {
                    let said = format!("say {next}");
                    assert_eq!(data, said.as_bytes(), "in order and once");
                    say(&format!("m:heard {next}"), &mut out);
                    *next += 1;
                }
                WsEvent::Close(_) => {
                    let frame = CloseFrame {
                        code: 1000,
                        reason: "",
                    };
                    throng_ws::encode_close(Masking::Server, Some(frame), &mut out);
                    return ControlFlow::Break(());
                }
                WsEvent::Ping(_) | WsEvent::Pong(_) => {}
            }
            ControlFlow::Continue(())
        });
        fed.expect("good frames");
        out
    }
}

fn say(text: &str, out: &mut Vec<u8>) {
    throng_ws::encode_message(Masking::Server, Opcode::Text, text.as_bytes(), out);
}
