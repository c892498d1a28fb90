//! A subscription to channels over one of Throng's own transports, across reconnects.
//!
//! Owns: the place in the stream, so that the next connection resumes there, and the part of a
//! message that has not ended. Never: decides when to come back.
//!
//! Over `/sse` a publication is an event, whose data are handed out as they are; over `/stream` it
//! is a line of JSON; over `/ws` a message, and there is no place to resume at.

mod notice;

use serde_json::Value;
use throng_sse::{SseDecoder, SseLimits};
use throng_ws::{WsEvent, WsLimits};

use crate::lines::Lines;
use crate::websocket::WebSocket;

pub use notice::Notice;

/// No server takes larger publications (`limits.publish_bytes_max` goes no higher).
const BYTES_MAX: usize = 1 << 30;

const SSE_LIMITS: SseLimits = SseLimits {
    line_bytes_max: BYTES_MAX,
    event_bytes_max: BYTES_MAX,
};

const WS_LIMITS: WsLimits = WsLimits::new(BYTES_MAX);

/// A server tells in a ping how many publications it dropped: data frames are for data alone.
const DROPPED: &[u8] = b"dropped=";

/// How a subscription is carried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// `/sse`, an event stream.
    Sse,
    /// `/stream`, lines of JSON.
    Stream,
    /// `/ws`, a WebSocket.
    WebSocket,
}

/// What a subscription brings.
#[derive(Debug)]
pub enum SubscriptionEvent<'a> {
    /// One publication, without a line end.
    Publication(&'a [u8]),
    /// Something about the subscription itself.
    Notice(Notice),
}

/// A subscription and its place in the stream.
pub struct Subscription(Reader);

enum Reader {
    Sse(SseDecoder),
    Stream {
        lines: Lines,
        last_id: String,
        retry_ms: Option<u64>,
    },
    WebSocket(WebSocket),
}

impl Subscription {
    /// A subscription that has no place yet.
    #[must_use]
    pub fn new(transport: Transport) -> Self {
        Self(match transport {
            Transport::Sse => Reader::Sse(SseDecoder::new(SSE_LIMITS)),
            Transport::Stream => Reader::Stream {
                lines: Lines::default(),
                last_id: String::new(),
                retry_ms: None,
            },
            Transport::WebSocket => Reader::WebSocket(WebSocket::opened(WS_LIMITS)),
        })
    }

    /// How it is carried.
    #[must_use]
    pub const fn transport(&self) -> Transport {
        match self.0 {
            Reader::Sse(_) => Transport::Sse,
            Reader::Stream { .. } => Transport::Stream,
            Reader::WebSocket(_) => Transport::WebSocket,
        }
    }

    /// Where the stream stands: what to send as `Last-Event-ID`. Empty if its channels keep no
    /// history.
    #[must_use]
    pub fn last_event_id(&self) -> &str {
        match &self.0 {
            Reader::Sse(decoder) => decoder.last_event_id(),
            Reader::Stream { last_id, .. } => last_id,
            Reader::WebSocket(_) => "",
        }
    }

    /// How long the server asks to wait before the next connection, in milliseconds.
    #[must_use]
    pub fn retry_ms(&self) -> Option<u64> {
        match &self.0 {
            Reader::Sse(decoder) => decoder.retry_ms(),
            Reader::Stream { retry_ms, .. } => *retry_ms,
            Reader::WebSocket(_) => None,
        }
    }

    /// A new connection begins; what was unfinished on the old one is gone.
    pub fn restart(&mut self) {
        match &mut self.0 {
            Reader::Sse(decoder) => {
                *decoder = SseDecoder::resumed(SSE_LIMITS, decoder.last_event_id());
            }
            Reader::Stream { lines, .. } => lines.clear(),
            Reader::WebSocket(socket) => *socket = WebSocket::opened(WS_LIMITS),
        }
    }

    /// Takes bytes of the response's body, or of what follows the WebSocket's handshake, and
    /// reports what they bring. What must be sent is appended to `out`; `mask` draws the keys that
    /// this takes.
    ///
    /// # Errors
    /// A sentence, if the stream cannot be understood.
    pub fn feed(
        &mut self,
        data: &[u8],
        mask: impl FnMut() -> [u8; 4],
        out: &mut Vec<u8>,
        mut on_event: impl FnMut(SubscriptionEvent<'_>),
    ) -> Result<(), String> {
        match &mut self.0 {
            Reader::Sse(decoder) => decoder
                .feed(data, |event| {
                    if event.event == "message" {
                        on_event(SubscriptionEvent::Publication(event.data));
                    } else if let Ok(value) = serde_json::from_slice(event.data)
                        && let Some(notice) = Notice::read(&value)
                    {
                        on_event(SubscriptionEvent::Notice(notice));
                    }
                })
                .map_err(|fault| fault.to_string()),
            Reader::Stream {
                lines,
                last_id,
                retry_ms,
            } => {
                let mut damage = None;
                let fed = lines.feed(data, BYTES_MAX, |line| {
                    let text = line.trim_ascii();
                    if text.is_empty() || damage.is_some() {
                        return;
                    }
                    match serde_json::from_slice(text) {
                        Ok(value) => one_line(&value, text, last_id, retry_ms, &mut on_event),
                        Err(_) => damage = Some("a line of the stream is not JSON".to_owned()),
                    }
                });
                match (damage, fed) {
                    (Some(damage), _) => Err(damage),
                    (None, fed) => fed.map_err(|fault| fault.to_string()),
                }
            }
            Reader::WebSocket(socket) => socket
                .feed(&mut data.to_vec(), mask, out, |event| {
                    one_frame(&event, &mut on_event)
                })
                .map_err(|fault| fault.to_string()),
        }
    }
}

fn one_line(
    value: &Value,
    text: &[u8],
    last_id: &mut String,
    retry_ms: &mut Option<u64>,
    on_event: &mut impl FnMut(SubscriptionEvent<'_>),
) {
    if let Some(id) = value.get("id").and_then(Value::as_str) {
        id.clone_into(last_id);
    }
    let asked = value.pointer("/disconnect/reconnect_ms");
    *retry_ms = asked.and_then(Value::as_u64).or(*retry_ms);
    if value.get("data").is_some() {
        on_event(SubscriptionEvent::Publication(text));
    } else if let Some(notice) = Notice::read(value) {
        on_event(SubscriptionEvent::Notice(notice));
    }
}

fn one_frame(event: &WsEvent<'_>, on_event: &mut impl FnMut(SubscriptionEvent<'_>)) {
    let notice = match event {
        WsEvent::Message { data, .. } => return on_event(SubscriptionEvent::Publication(data)),
        WsEvent::Pong(_) => return,
        WsEvent::Ping(payload) => match dropped(payload) {
            Some(count) => Notice::Dropped(count),
            None => return,
        },
        WsEvent::Close(frame) => Notice::Disconnect {
            // RFC 6455 section 7.1.5: no code means 1005.
            code: frame.as_ref().map_or(1005, |frame| frame.code.into()),
            reason: frame.as_ref().map_or("", |frame| frame.reason).to_owned(),
        },
    };
    on_event(SubscriptionEvent::Notice(notice));
}

fn dropped(payload: &[u8]) -> Option<u64> {
    let digits = payload.strip_prefix(DROPPED)?;
    std::str::from_utf8(digits).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn transport(json: bool) -> Transport {
        if json {
            Transport::Stream
        } else {
            Transport::Sse
        }
    }

    fn found(subscription: &mut Subscription, parts: &[&[u8]]) -> Vec<String> {
        let mut all = Vec::new();
        for part in parts {
            let fed = subscription.feed(
                part,
                || [0; 4],
                &mut Vec::new(),
                |event| {
                    all.push(match event {
                        SubscriptionEvent::Publication(data) => {
                            format!("P {}", String::from_utf8_lossy(data))
                        }
                        SubscriptionEvent::Notice(notice) => format!("N {notice:?}"),
                    });
                },
            );
            fed.unwrap();
        }
        all
    }

    #[track_caller]
    fn check(json: bool, bytes: &str, expect: &[&str], id: &str) {
        for cut in 0..=bytes.len() {
            let mut subscription = Subscription::new(transport(json));
            let (head, tail) = bytes.as_bytes().split_at(cut);
            assert_eq!(
                found(&mut subscription, &[head, tail]),
                expect,
                "cut at {cut}"
            );
            assert_eq!(subscription.last_event_id(), id, "cut at {cut}");
        }
    }

    #[test]
    fn events_are_publications_and_notices() {
        check(
            false,
            "event: subscribed\ndata: {\"recovered\":true,\"resuming\":true}\n\n: alive\n\nid: \
             1.2.3\ndata: hello\n\n\
             data: a\ndata: b\n\nevent: dropped\ndata: {\"dropped\":3}\n\n\
             event: unsubscribed\ndata: {\"unsubscribed\":\"a\"}\n\nevent: later\ndata: {}\n\n\
             event: disconnect\nretry: 700\ndata: {\"code\":3001,\"reason\":\"shutdown\"}\n\n",
            &[
                "N Subscribed { recovered: Some(true) }",
                "P hello",
                "P a\nb",
                "N Dropped(3)",
                "N Unsubscribed(\"a\")",
                "N Disconnect { code: 3001, reason: \"shutdown\" }",
            ],
            "1.2.3",
        );
    }

    #[test]
    fn lines_are_publications_and_notices() {
        check(
            true,
            "{\"recovered\":false,\"resuming\":false}\r\n\n{}\n\
             {\"channel\":\"a\",\"data\":{\"x\": 1},\"id\":\"1.2.3\"}\n\
             {\"channel\":\"a\",\"data\":null}\n\
             {\"disconnect\":{\"code\":3500,\"reason\":\"gone\",\"reconnect_ms\":7}}\n{\"chan",
            &[
                "N Subscribed { recovered: None }",
                "P {\"channel\":\"a\",\"data\":{\"x\": 1},\"id\":\"1.2.3\"}",
                "P {\"channel\":\"a\",\"data\":null}",
                "N Disconnect { code: 3500, reason: \"gone\" }",
            ],
            "1.2.3",
        );
        let mut subscription = Subscription::new(Transport::Stream);
        let fed = subscription.feed(b"<html>\n", || [0; 4], &mut Vec::new(), |_| ());
        assert!(fed.is_err());
    }

    #[test]
    fn some_ends_are_final() {
        for (code, is_final) in [
            (3000, false),
            (3499, false),
            (3500, true),
            (3999, true),
            (4000, false),
            (4500, true),
            (5000, false),
        ] {
            let notice = Notice::Disconnect {
                code,
                reason: String::new(),
            };
            assert_eq!(notice.is_final(), is_final, "{code}");
        }
        let mut subscription = Subscription::new(Transport::Stream);
        found(
            &mut subscription,
            &[b"{\"disconnect\":{\"code\":3001,\"reconnect_ms\":7}}\n"],
        );
        assert_eq!(subscription.retry_ms(), Some(7));
    }

    #[test]
    fn a_new_connection_keeps_the_place_and_drops_the_rest() {
        for (json, bytes) in [
            (false, "id: 7\ndata: a\n\ndata: ha"),
            (true, "{\"data\":1,\"id\":\"7\"}\n{\"da"),
        ] {
            let mut subscription = Subscription::new(transport(json));
            assert_eq!(found(&mut subscription, &[bytes.as_bytes()]).len(), 1);
            subscription.restart();
            assert_eq!(subscription.last_event_id(), "7");
            let next: &[u8] = if json {
                b"{\"data\":2}\n"
            } else {
                b"data: b\n\n"
            };
            assert_eq!(found(&mut subscription, &[next]).len(), 1);
            assert_eq!(subscription.last_event_id(), "7");
        }
    }

    #[test]
    fn frames_are_publications_and_notices() {
        use throng_ws::{CloseFrame, Masking, Opcode, encode_close, encode_message, encode_ping};

        let mut bytes = Vec::new();
        encode_message(Masking::Server, Opcode::Text, b"one", &mut bytes);
        encode_ping(Masking::Server, b"dropped=7", &mut bytes);
        encode_ping(Masking::Server, b"", &mut bytes);
        encode_message(Masking::Server, Opcode::Text, b"two", &mut bytes);
        let frame = CloseFrame {
            code: 3001,
            reason: "shutdown",
        };
        encode_close(Masking::Server, Some(frame), &mut bytes);
        for cut in 0..=bytes.len() {
            let mut subscription = Subscription::new(Transport::WebSocket);
            let (head, tail) = bytes.split_at(cut);
            assert_eq!(
                found(&mut subscription, &[head, tail]),
                [
                    "P one",
                    "N Dropped(7)",
                    "P two",
                    "N Disconnect { code: 3001, reason: \"shutdown\" }",
                ],
                "cut at {cut}"
            );
        }
    }
}
