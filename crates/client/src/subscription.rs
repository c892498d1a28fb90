//! Subscription to channels over one of Throng's own transports, across reconnects.
//!
//! Owns: the position in the stream, so that the next connection resumes there, and the part of a
//! message that has not ended. Never: decides when to come back.
//!
//! Over `/sse` a publication is an event, whose data are handed out as they are; over `/stream` it
//! is a line of JSON; over `/ws` a message, and there is no position to resume at.

use serde_json::Value;
use throng_sse::{SseDecoder, SseLimits};
use throng_ws::{WsEvent, WsLimits};

use crate::lines::Lines;
use crate::websocket::WebSocketClient;

/// Bytes of the largest publication that a server takes (`limits.publish_bytes_max` goes no
/// higher).
const BYTES_MAX: usize = 1 << 30;

const SSE_LIMITS: SseLimits = SseLimits {
    line_bytes_max: BYTES_MAX,
    event_bytes_max: BYTES_MAX,
};

const WS_LIMITS: WsLimits = WsLimits::new(BYTES_MAX);

/// Prefix of a ping that reports the number of dropped publications: data frames are for data
/// alone.
const DROPPED: &[u8] = b"dropped=";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SubscriptionTransport {
    /// Event stream of `/sse`.
    Sse,
    /// Lines of JSON of `/stream`.
    Stream,
    /// WebSocket of `/ws`, without resume.
    WebSocket,
}

#[derive(Debug)]
pub enum SubscriptionEvent<'a> {
    /// Publication, without a line end.
    Publication(&'a [u8]),
    Notice(SubscriptionNotice),
}

/// Notice of a server about the subscription itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SubscriptionNotice {
    /// Subscribed to all channels.
    Subscribed {
        /// True if everything missed was recovered; none on the first connection.
        recovered: Option<bool>,
    },
    /// Number of publications dropped because this end was too slow.
    Dropped(u64),
    /// Channel whose subscription the server ended.
    Unsubscribed(String),
    /// Announcement that the server ends the connection.
    Disconnect {
        code: u64,
        /// Reason, as a sentence.
        reason: String,
    },
}

impl SubscriptionNotice {
    /// Reads a notice; none for a sign of life, or for one of a later version.
    fn read(value: &Value) -> Option<Self> {
        if let Some(recovered) = value.get("recovered").and_then(Value::as_bool) {
            let resuming = value.get("resuming").and_then(Value::as_bool) == Some(true);
            return Some(Self::Subscribed {
                recovered: resuming.then_some(recovered),
            });
        }
        if let Some(count) = value.get("dropped").and_then(Value::as_u64) {
            return Some(Self::Dropped(count));
        }
        if let Some(channel) = value.get("unsubscribed").and_then(Value::as_str) {
            return Some(Self::Unsubscribed(channel.to_owned()));
        }
        // Lines have the object in a member of its own, events are named.
        let value = value.get("disconnect").unwrap_or(value);
        let reason = value.get("reason").and_then(Value::as_str);
        Some(Self::Disconnect {
            code: value.get("code")?.as_u64()?,
            reason: reason.unwrap_or_default().to_owned(),
        })
    }

    /// Returns true if a reconnect makes no sense (Centrifugo, page "Client protocol codes": 3500
    /// to 3999 and 4500 to 4999).
    pub const fn is_final(&self) -> bool {
        matches!(self, Self::Disconnect { code: 3500..=3999 | 4500..=4999, .. })
    }
}

/// Subscription and its position in the stream.
pub struct Subscription(Reader);

enum Reader {
    Sse(SseDecoder),
    Stream {
        lines: Lines,
        last_id: String,
        retry_ms: Option<u64>,
    },
    WebSocket(WebSocketClient),
}

impl Subscription {
    pub fn new(transport: SubscriptionTransport) -> Self {
        Self(match transport {
            SubscriptionTransport::Sse => Reader::Sse(SseDecoder::new(SSE_LIMITS)),
            SubscriptionTransport::Stream => Reader::Stream {
                lines: Lines::default(),
                last_id: String::new(),
                retry_ms: None,
            },
            SubscriptionTransport::WebSocket => {
                Reader::WebSocket(WebSocketClient::opened(WS_LIMITS))
            }
        })
    }

    pub const fn transport(&self) -> SubscriptionTransport {
        match self.0 {
            Reader::Sse(_) => SubscriptionTransport::Sse,
            Reader::Stream { .. } => SubscriptionTransport::Stream,
            Reader::WebSocket(_) => SubscriptionTransport::WebSocket,
        }
    }

    /// Position to send as `Last-Event-ID`. Empty if the channels keep no history.
    pub fn last_event_id(&self) -> &str {
        match &self.0 {
            Reader::Sse(decoder) => decoder.last_event_id(),
            Reader::Stream { last_id, .. } => last_id,
            Reader::WebSocket(_) => "",
        }
    }

    /// Milliseconds that the server asks to wait before the next connection.
    pub fn retry_ms(&self) -> Option<u64> {
        match &self.0 {
            Reader::Sse(decoder) => decoder.retry_ms(),
            Reader::Stream { retry_ms, .. } => *retry_ms,
            Reader::WebSocket(_) => None,
        }
    }

    /// Begins a new connection, without the unfinished bytes of the old one.
    pub fn restart(&mut self) {
        match &mut self.0 {
            Reader::Sse(decoder) => {
                *decoder = SseDecoder::resumed(SSE_LIMITS, decoder.last_event_id());
            }
            Reader::Stream { lines, .. } => lines.clear(),
            Reader::WebSocket(socket) => *socket = WebSocketClient::opened(WS_LIMITS),
        }
    }

    /// Takes bytes of the response's body, or behind the WebSocket's handshake, and reports their
    /// events. Appends answers to `out`, with masking keys that `mask` draws. Errors: a sentence,
    /// if the stream is malformed.
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
                        && let Some(notice) = SubscriptionNotice::read(&value)
                    {
                        on_event(SubscriptionEvent::Notice(notice));
                    }
                })
                .map_err(|error| error.to_string()),
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
                        Ok(value) => read_line(&value, text, last_id, retry_ms, &mut on_event),
                        Err(_) => damage = Some("a line of the stream is not JSON".to_owned()),
                    }
                });
                match (damage, fed) {
                    (Some(damage), _) => Err(damage),
                    (None, fed) => fed.map_err(|error| error.to_string()),
                }
            }
            Reader::WebSocket(socket) => socket
                .feed(&mut data.to_vec(), mask, out, |event| {
                    read_frame(&event, &mut on_event)
                })
                .map_err(|error| error.to_string()),
        }
    }
}

fn read_line(
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
    } else if let Some(notice) = SubscriptionNotice::read(value) {
        on_event(SubscriptionEvent::Notice(notice));
    }
}

fn read_frame(event: &WsEvent<'_>, on_event: &mut impl FnMut(SubscriptionEvent<'_>)) {
    let notice = match event {
        WsEvent::Message { data, .. } => return on_event(SubscriptionEvent::Publication(data)),
        WsEvent::Pong(_) => return,
        WsEvent::Ping(payload) => match dropped(payload) {
            Some(count) => SubscriptionNotice::Dropped(count),
            None => return,
        },
        WsEvent::Close(frame) => SubscriptionNotice::Disconnect {
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

    fn transport(json: bool) -> SubscriptionTransport {
        if json {
            SubscriptionTransport::Stream
        } else {
            SubscriptionTransport::Sse
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
        let mut subscription = Subscription::new(SubscriptionTransport::Stream);
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
            let notice = SubscriptionNotice::Disconnect {
                code,
                reason: String::new(),
            };
            assert_eq!(notice.is_final(), is_final, "{code}");
        }
        let mut subscription = Subscription::new(SubscriptionTransport::Stream);
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
            let mut subscription = Subscription::new(SubscriptionTransport::WebSocket);
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
