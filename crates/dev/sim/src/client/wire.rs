//! From a connection's bytes to messages, by the client roles of our protocols.

use std::ops::ControlFlow;

use throng_http1::{BodyDecoder, HttpLimits, parse_response};
use throng_sse::SseLimits;
use throng_ws::{Opcode, WsDecoder, WsEvent, WsRole, handshake};

const WS_LIMITS: throng_ws::WsLimits = throng_ws::WsLimits::new(1 << 20);

/// Encoding of what follows the head of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// Messages of a WebSocket.
    Messages,
    /// An event stream of SSE.
    Events,
    /// A body of lines.
    Lines,
    /// Bytes of a connection that was upgraded.
    Bytes,
}

/// Message that one read completed.
#[derive(Debug)]
pub(crate) enum Message {
    /// A WebSocket message, text or not; or bytes as they come.
    Data {
        text: bool,
        data: Vec<u8>,
    },
    Ping(Vec<u8>),
    Close(Option<u16>),
    /// A line of a stream.
    Line(Vec<u8>),
    /// An event, and the id that is the last one with it.
    Event {
        event: String,
        data: Vec<u8>,
        id: String,
    },
    /// The body of a chunked answer has ended.
    LastChunk,
    /// The head of a good answer.
    Begun,
    /// The server refused the request.
    Refused(u16),
}

impl Message {
    pub(crate) fn shown(&self) -> String {
        match self {
            Self::Data { data, .. } | Self::Line(data) => {
                String::from_utf8_lossy(data).into_owned()
            }
            Self::Event { event, data, id } => {
                format!("{event} {id} {}", String::from_utf8_lossy(data))
            }
            _ => format!("{self:?}"),
        }
    }
}

/// Decoder of the connection's bytes, by stage.
#[derive(Default)]
pub(crate) enum Wire {
    Head {
        bytes: Vec<u8>,
        key: [u8; 16],
    },
    Ws(WsDecoder),
    Sse(Box<throng_sse::SseDecoder>),
    Lines {
        body: BodyDecoder,
        line: Vec<u8>,
    },
    Bytes,
    #[default]
    Over,
}

/// Decoder for the bytes behind a head and those bytes, or the status of a refusal.
type AfterHead = (Result<Wire, u16>, Vec<u8>);

impl Wire {
    /// A connection on which a request was sent, with the key of its handshake if it has one.
    pub(crate) const fn new(key: [u8; 16]) -> Self {
        Self::Head {
            bytes: Vec::new(),
            key,
        }
    }

    /// Takes bytes, and gives the messages that they complete.
    pub(crate) fn take(
        &mut self,
        input: &mut [u8],
        shape: Shape,
        last_event_id: &str,
    ) -> Vec<Message> {
        let mut messages = Vec::new();
        self.feed(input, &mut messages);
        match self.after_head(shape, last_event_id) {
            Some((Ok(wire), mut rest)) => {
                *self = wire;
                messages.push(Message::Begun);
                self.feed(&mut rest, &mut messages);
            }
            Some((Err(status), _)) => {
                *self = Self::Over;
                messages.push(Message::Refused(status));
            }
            None => {}
        }
        messages
    }

    fn after_head(&self, shape: Shape, last_event_id: &str) -> Option<AfterHead> {
        let Self::Head { bytes, key } = self else {
            return None;
        };
        let limits = HttpLimits {
            body_bytes_max: u64::MAX,
            ..HttpLimits::default()
        };
        let parsed = parse_response(bytes, &limits, false).expect("a good response");
        let (response, head_bytes) = parsed?;
        let ws = matches!(shape, Shape::Messages | Shape::Bytes);
        let good = if ws { 101 } else { 200 };
        let next = if response.status != good {
            Err(response.status)
        } else if ws {
            handshake::check_response(101, |name| response.header(name), *key)
                .expect("a good handshake");
            Ok(match shape {
                Shape::Bytes => Self::Bytes,
                _ => Self::Ws(WsDecoder::new(WsRole::Client)),
            })
        } else if shape == Shape::Events {
            let decoder = throng_sse::SseDecoder::resumed(SseLimits::default(), last_event_id);
            Ok(Self::Sse(Box::new(decoder)))
        } else {
            Ok(Self::Lines {
                body: BodyDecoder::for_response(response.body, &limits),
                line: Vec::new(),
            })
        };
        Some((next, bytes[head_bytes..].to_vec()))
    }

    /// Takes bytes; appends the messages that they complete.
    fn feed(&mut self, input: &mut [u8], messages: &mut Vec<Message>) {
        match self {
            Self::Head { bytes, .. } => bytes.extend_from_slice(input),
            Self::Ws(decoder) => feed_ws(decoder, input, messages),
            Self::Sse(decoder) => {
                let fed = decoder.feed(input, |event| {
                    messages.push(Message::Event {
                        event: event.event.to_owned(),
                        data: event.data.to_vec(),
                        id: event.id.to_owned(),
                    });
                });
                fed.expect("a good event stream");
            }
            Self::Lines { body, line } => feed_lines(body, line, input, messages),
            Self::Bytes => messages.push(Message::Data {
                text: false,
                data: input.to_vec(),
            }),
            Self::Over => {}
        }
    }
}

fn feed_ws(decoder: &mut WsDecoder, input: &mut [u8], messages: &mut Vec<Message>) {
    let total = input.len();
    let taken = decoder.feed(input, &WS_LIMITS, |event| {
        let (message, flow) = match event {
            WsEvent::Message { opcode, data } => {
                let text = opcode == Opcode::Text;
                let data = data.to_vec();
                (Message::Data { text, data }, ControlFlow::Continue(()))
            }
            WsEvent::Ping(payload) => (Message::Ping(payload.to_vec()), ControlFlow::Continue(())),
            WsEvent::Pong(_) => return ControlFlow::Continue(()),
            WsEvent::Close(frame) => {
                let code = frame.map(|frame| frame.code);
                (Message::Close(code), ControlFlow::Break(()))
            }
        };
        messages.push(message);
        flow
    });
    let taken = taken.expect("good frames");
    assert_eq!(taken, total, "nothing follows a close frame");
}

fn feed_lines(
    body: &mut BodyDecoder,
    line: &mut Vec<u8>,
    input: &[u8],
    messages: &mut Vec<Message>,
) {
    let mut at = 0;
    while at < input.len() {
        assert!(
            !body.is_done(),
            "nothing follows the last chunk: {:?}",
            String::from_utf8_lossy(&input[at..])
        );
        let step = body.feed(&input[at..]).expect("good chunks");
        at += step.consumed;
        for &byte in step.data {
            if byte == b'\n' {
                messages.push(Message::Line(std::mem::take(line)));
            } else {
                line.push(byte);
            }
        }
        if step.done {
            assert!(line.is_empty(), "the last line is whole");
            messages.push(Message::LastChunk);
        }
    }
}
