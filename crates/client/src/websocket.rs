//! Client's side of a WebSocket: the handshake, then frames; pings and the close are answered.
//!
//! Owns: the state of the connection. Never: draws a key; both kinds are arguments.

use std::ops::ControlFlow;

use throng_http1::{BadResponse, HttpLimits};
use throng_ws::handshake::{self, UpgradeError};
use throng_ws::{Masking, WsDecoder, WsError, WsEvent, WsLimits, WsRole};

use crate::response::HeadReader;

/// WsLimits of the answer to a handshake, which is a head alone.
const HEAD_LIMITS: HttpLimits = HttpLimits {
    head_bytes_max: 32 * 1024,
    headers_max: 100,
    body_bytes_max: 0,
};

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WebSocketError {
    /// Answer to the handshake that is not HTTP.
    #[error("the answer is not HTTP as expected: {0}")]
    Head(BadResponse),
    /// Answer that does not open a WebSocket.
    #[error("{0}")]
    Refused(UpgradeError),
    /// Frame of the server that breaks a rule.
    #[error("{0}")]
    Frames(WsError),
}

#[derive(Debug)]
pub struct WebSocketClient {
    limits: WsLimits,
    state: State,
}

#[derive(Debug)]
enum State {
    // The request is sent.
    Opening { head: HeadReader, key: [u8; 16] },
    Open(WsDecoder),
    // The server has closed; nothing that follows counts.
    Closed,
}

impl WebSocketClient {
    /// Appends the request to `out`. `key` is 16 random bytes; `headers` are further fields.
    /// Messages longer than `limits` allow are refused.
    pub fn open(
        host: &str,
        target: &str,
        key: [u8; 16],
        headers: &[(&str, &str)],
        limits: WsLimits,
        out: &mut Vec<u8>,
    ) -> Self {
        handshake::encode_request(host, target, key, headers, out);
        let head = HeadReader::default();
        Self {
            limits,
            state: State::Opening { head, key },
        }
    }

    /// Makes a WebSocket whose handshake the caller has read.
    pub const fn opened(limits: WsLimits) -> Self {
        Self {
            limits,
            state: State::Open(WsDecoder::new(WsRole::Client)),
        }
    }

    pub const fn is_open(&self) -> bool {
        matches!(self.state, State::Open(_))
    }

    /// Takes bytes, which are unmasked in place, and reports their events. Answers to pings and to
    /// the close are appended to `out`, each with a mask that `mask` draws. Errors:
    /// [`WebSocketError`]; the connection is of no more use.
    pub fn feed(
        &mut self,
        input: &mut [u8],
        mask: impl FnMut() -> [u8; 4],
        out: &mut Vec<u8>,
        on_event: impl FnMut(WsEvent<'_>),
    ) -> Result<(), WebSocketError> {
        let State::Opening { head, key } = &mut self.state else {
            return self.frames(input, mask, out, on_event);
        };
        let key = *key;
        let found = head.feed(input, &HEAD_LIMITS, |response| {
            handshake::check_response(response.status, |name| response.header(name), key)
        });
        let Some((checked, mut rest)) = found.map_err(WebSocketError::Head)? else {
            return Ok(());
        };
        checked.map_err(WebSocketError::Refused)?;
        self.state = State::Open(WsDecoder::new(WsRole::Client));
        self.frames(rest.bytes(), mask, out, on_event)
    }

    fn frames(
        &mut self,
        input: &mut [u8],
        mut mask: impl FnMut() -> [u8; 4],
        out: &mut Vec<u8>,
        mut on_event: impl FnMut(WsEvent<'_>),
    ) -> Result<(), WebSocketError> {
        let State::Open(decoder) = &mut self.state else {
            return Ok(());
        };
        let mut closed = false;
        let fed = decoder.feed(input, &self.limits, |event| {
            match &event {
                WsEvent::Ping(payload) => {
                    throng_ws::encode_pong(Masking::Client(mask()), payload, out);
                }
                WsEvent::Close(frame) => {
                    closed = true;
                    throng_ws::encode_close_answer(Masking::Client(mask()), frame.as_ref(), out);
                }
                WsEvent::Message { .. } | WsEvent::Pong(_) => {}
            }
            on_event(event);
            ControlFlow::Continue(())
        });
        if closed {
            self.state = State::Closed;
        }
        fed.map(|_| ()).map_err(WebSocketError::Frames)
    }
}

#[cfg(test)]
mod tests {
    use throng_ws::{CloseFrame, Opcode, encode_close, encode_message, encode_ping};

    use super::*;

    const LIMITS: WsLimits = WsLimits::new(1000);

    /// Answer of a server to the request of `key`, with its first frames.
    fn server(request: &[u8]) -> Vec<u8> {
        let limits = HttpLimits::default();
        let (request, _) = throng_http1::parse_request(request, &limits)
            .unwrap()
            .unwrap();
        let accept = handshake::accept(request.method, request.headers());
        let mut wire = Vec::new();
        handshake::encode_response(&accept.unwrap(), None, None, &mut wire);
        encode_message(Masking::Server, Opcode::Text, b"one", &mut wire);
        encode_ping(Masking::Server, b"p", &mut wire);
        let bye = CloseFrame {
            code: 3001,
            reason: "shutdown",
        };
        encode_close(Masking::Server, Some(bye), &mut wire);
        encode_message(Masking::Server, Opcode::Text, b"late", &mut wire);
        wire
    }

    fn events(bytes: &mut [u8], role: WsRole) -> Vec<String> {
        let mut all = Vec::new();
        let fed = WsDecoder::new(role).feed(bytes, &LIMITS, |event| {
            all.push(format!("{event:?}"));
            ControlFlow::Continue(())
        });
        assert!(fed.is_ok());
        all
    }

    #[test]
    fn a_connection_opens_speaks_and_closes_wherever_it_is_cut() {
        let mut request = Vec::new();
        let open = |out: &mut Vec<u8>| WebSocketClient::open("a", "/ws", [7; 16], &[], LIMITS, out);
        drop(open(&mut request));
        let wire = server(&request);
        for cut in 0..=wire.len() {
            let mut socket = open(&mut Vec::new());
            let (mut out, mut found) = (Vec::new(), Vec::new());
            let mut bytes = wire.clone();
            let (head, tail) = bytes.split_at_mut(cut);
            for part in [head, tail] {
                socket
                    .feed(
                        part,
                        || [1, 2, 3, 4],
                        &mut out,
                        |event| {
                            found.push(format!("{event:?}"));
                        },
                    )
                    .unwrap();
            }
            assert_eq!(found.len(), 3, "cut at {cut}: {found:?}");
            assert!(!socket.is_open());
            let answers = events(&mut out, WsRole::Server);
            assert!(
                answers[0].contains("Pong") && answers[1].contains("3001"),
                "{answers:?}"
            );
        }
    }

    #[test]
    fn who_is_no_websocket_is_refused() {
        let refused = |wire: &[u8]| {
            let mut socket = WebSocketClient::open("a", "/", [7; 16], &[], LIMITS, &mut Vec::new());
            let mut wire = wire.to_vec();
            let fed = socket.feed(&mut wire, || [0; 4], &mut Vec::new(), |_| ());
            fed.unwrap_err()
        };
        assert!(matches!(
            refused(b"HTTP/1.1 404 Not Found\r\n\r\n"),
            WebSocketError::Refused(UpgradeError::Status(404))
        ));
        assert!(matches!(refused(b"SMTP\r\n\r\n"), WebSocketError::Head(_)));
        // A masked frame, which only clients send.
        let fed = WebSocketClient::opened(LIMITS).feed(
            &mut b"\x81\x80\0\0\0\0".to_vec(),
            || [0; 4],
            &mut Vec::new(),
            |_| (),
        );
        assert!(matches!(fed, Err(WebSocketError::Frames(_))));
    }
}
