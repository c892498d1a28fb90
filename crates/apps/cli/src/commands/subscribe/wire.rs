//! The streams that a subscription can be read from: events, whose data are printed as they are,
//! JSON lines, and frames.
//!
//! Pure: bytes in, publications out. Invariant: what is found does not depend on how the bytes were
//! cut.

use serde_json::Value;
use throng_sse::{Decoder, DecoderLimits};

use super::frames::Frames;

/// No server takes larger publications (`limits.publish_bytes_max` goes no higher).
pub(super) const LINE_BYTES_MAX: usize = 1 << 30;

const LIMITS: DecoderLimits = DecoderLimits {
    line_bytes_max: LINE_BYTES_MAX,
    event_bytes_max: LINE_BYTES_MAX,
};

/// What the stream brought.
pub(super) enum Found<'a> {
    /// One publication, without a line end.
    Publication(&'a [u8]),
    /// A word about the stream itself.
    News(News),
}

/// What a server says about the stream itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum News {
    /// The subscriptions stand. Whether everything was brought that was missed, if the client was
    /// here before.
    Subscribed { recovered: Option<bool> },
    /// So many publications were not delivered, because this end was too slow.
    Dropped(u64),
    /// The server ended the subscription to this channel.
    Unsubscribed(String),
    /// The server is about to end the connection.
    Disconnect { code: u64, reason: String },
}

impl News {
    /// Nothing for a sign of life, or for words of a later version.
    fn of(value: &Value) -> Option<Self> {
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
        let reason = value
            .get("reason")
            .and_then(Value::as_str)
            .unwrap_or_default();
        Some(Self::Disconnect {
            code: value.get("code")?.as_u64()?,
            reason: reason.to_owned(),
        })
    }

    /// Whether there is no sense in coming back (Centrifugo, page "Client protocol codes": 3500 to
    /// 3999 and 4500 to 4999).
    pub(super) const fn is_final(&self) -> bool {
        matches!(self, Self::Disconnect { code: 3500..=3999 | 4500..=4999, .. })
    }
}

/// A stream and the place in it, over reconnects.
pub(super) enum Wire {
    /// `/sse`.
    Events(Decoder),
    /// `/stream`.
    Lines {
        /// The line that has not ended yet.
        line: Vec<u8>,
        last_id: String,
        retry_ms: Option<u64>,
    },
    /// `/ws`, which has no place to come back to.
    Frames(Frames),
}

/// Which stream to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Events,
    Lines,
    Frames,
}

impl Wire {
    pub(super) fn new(kind: Kind) -> Self {
        if kind == Kind::Frames {
            Self::Frames(Frames::new())
        } else if kind == Kind::Lines {
            Self::Lines {
                line: Vec::new(),
                last_id: String::new(),
                retry_ms: None,
            }
        } else {
            Self::Events(Decoder::new(LIMITS))
        }
    }

    pub(super) const fn path(&self) -> &'static str {
        match self {
            Self::Events(_) => "/sse",
            Self::Lines { .. } => "/stream",
            // The address has it: WebSockets are addressed by whole URLs.
            Self::Frames(_) => "",
        }
    }

    /// What the header Accept says.
    pub(super) const fn accept(&self) -> &'static str {
        match self {
            Self::Events(_) => "text/event-stream",
            Self::Lines { .. } => "application/x-ndjson, application/json",
            Self::Frames(_) => "*/*",
        }
    }

    /// The status of an answer that is the stream.
    pub(super) const fn status(&self) -> u16 {
        match self {
            Self::Events(_) | Self::Lines { .. } => 200,
            Self::Frames(_) => 101,
        }
    }

    /// Whether an answer of this type is the stream.
    pub(super) fn is_spoken(&self, media_type: &str) -> bool {
        match self {
            Self::Events(_) => media_type == "text/event-stream",
            Self::Lines { .. } => {
                media_type.starts_with("application/") && media_type.ends_with("json")
            }
            Self::Frames(_) => true,
        }
    }

    /// Where the stream stands; empty if its channels keep no history.
    pub(super) fn last_event_id(&self) -> &str {
        match self {
            Self::Events(decoder) => decoder.last_event_id(),
            Self::Lines { last_id, .. } => last_id,
            Self::Frames(_) => "",
        }
    }

    /// The wait that the server has asked for.
    pub(super) fn retry_ms(&self) -> Option<u64> {
        match self {
            Self::Events(decoder) => decoder.retry_ms(),
            Self::Lines { retry_ms, .. } => *retry_ms,
            Self::Frames(_) => None,
        }
    }

    /// A new connection begins; what was unfinished on the old one is gone.
    pub(super) fn restart(&mut self) {
        match self {
            Self::Events(decoder) => *decoder = Decoder::resumed(LIMITS, decoder.last_event_id()),
            Self::Lines { line, .. } => line.clear(),
            Self::Frames(frames) => *frames = Frames::new(),
        }
    }

    /// What is to be sent now. `key` draws a mask key for each frame.
    pub(super) fn answers(&mut self, key: impl FnMut() -> [u8; 4]) -> Vec<u8> {
        match self {
            Self::Frames(frames) => frames.answers(key),
            Self::Events(_) | Self::Lines { .. } => Vec::new(),
        }
    }

    /// Takes the next bytes.
    ///
    /// # Errors
    /// A sentence, if the stream cannot be understood.
    pub(super) fn feed(
        &mut self,
        data: &[u8],
        mut on_found: impl FnMut(Found<'_>),
    ) -> Result<(), String> {
        match self {
            Self::Events(decoder) => decoder
                .feed(data, |event| {
                    if event.event == "message" {
                        on_found(Found::Publication(event.data));
                    } else if let Ok(value) = serde_json::from_slice(event.data)
                        && let Some(news) = News::of(&value)
                    {
                        on_found(Found::News(news));
                    }
                })
                .map_err(|fault| fault.to_string()),
            Self::Frames(frames) => frames.feed(data, &mut on_found),
            Self::Lines {
                line,
                last_id,
                retry_ms,
            } => feed_lines(line, data, |value, text| {
                one_line(value, text, last_id, retry_ms, &mut on_found);
            }),
        }
    }
}

/// Reports each line that ends in `data`, with its JSON.
fn feed_lines(
    line: &mut Vec<u8>,
    mut data: &[u8],
    mut on_line: impl FnMut(&Value, &[u8]),
) -> Result<(), String> {
    while let Some(end) = data.iter().position(|&byte| byte == b'\n') {
        let (head, rest) = data.split_at(end);
        data = rest.get(1..).unwrap_or_default();
        line.extend_from_slice(head);
        let whole = std::mem::take(line);
        let text = whole.trim_ascii();
        if text.is_empty() {
            continue;
        }
        match serde_json::from_slice(text) {
            Ok(value) => on_line(&value, text),
            Err(_) => return Err("a line of the stream is not JSON".to_owned()),
        }
    }
    if LINE_BYTES_MAX - line.len() < data.len() {
        return Err("a line of the stream is too long".to_owned());
    }
    line.extend_from_slice(data);
    Ok(())
}

fn one_line(
    value: &Value,
    text: &[u8],
    last_id: &mut String,
    retry_ms: &mut Option<u64>,
    on_found: &mut impl FnMut(Found<'_>),
) {
    if let Some(id) = value.get("id").and_then(Value::as_str) {
        id.clone_into(last_id);
    }
    let asked = value
        .pointer("/disconnect/reconnect_ms")
        .and_then(Value::as_u64);
    *retry_ms = asked.or(*retry_ms);
    if value.get("data").is_some() {
        on_found(Found::Publication(text));
    } else if let Some(news) = News::of(value) {
        on_found(Found::News(news));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(json: bool) -> Kind {
        if json { Kind::Lines } else { Kind::Events }
    }

    fn found(wire: &mut Wire, parts: &[&[u8]]) -> Vec<String> {
        let mut all = Vec::new();
        for part in parts {
            wire.feed(part, |found| {
                all.push(match found {
                    Found::Publication(data) => format!("P {}", String::from_utf8_lossy(data)),
                    Found::News(news) => format!("N {news:?}"),
                });
            })
            .unwrap();
        }
        all
    }

    #[track_caller]
    fn check(json: bool, bytes: &str, expect: &[&str], id: &str) {
        for cut in 0..=bytes.len() {
            let mut wire = Wire::new(kind(json));
            let (head, tail) = bytes.as_bytes().split_at(cut);
            assert_eq!(found(&mut wire, &[head, tail]), expect, "cut at {cut}");
            assert_eq!(wire.last_event_id(), id, "cut at {cut}");
        }
    }

    #[test]
    fn events_are_publications_and_news() {
        check(
            false,
            "event: subscribed\ndata: {\"recovered\":true,\"resuming\":true}\n\n: alive\n\nid: 1.2.3\ndata: hello\n\n\
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
    fn lines_are_publications_and_news() {
        check(
            true,
            "{\"recovered\":false,\"resuming\":false}\r\n\n{}\n{\"channel\":\"a\",\"data\":{\"x\": 1},\"id\":\"1.2.3\"}\n{\"channel\":\"a\",\"data\":null}\n\
             {\"disconnect\":{\"code\":3500,\"reason\":\"gone\",\"reconnect_ms\":7}}\n{\"chan",
            &[
                "N Subscribed { recovered: None }",
                "P {\"channel\":\"a\",\"data\":{\"x\": 1},\"id\":\"1.2.3\"}",
                "P {\"channel\":\"a\",\"data\":null}",
                "N Disconnect { code: 3500, reason: \"gone\" }",
            ],
            "1.2.3",
        );
        let mut wire = Wire::new(Kind::Lines);
        assert!(wire.feed(b"<html>\n", |_| ()).is_err());
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
            let news = News::Disconnect {
                code,
                reason: String::new(),
            };
            assert_eq!(news.is_final(), is_final, "{code}");
        }
        let mut wire = Wire::new(Kind::Lines);
        found(
            &mut wire,
            &[b"{\"disconnect\":{\"code\":3001,\"reconnect_ms\":7}}\n"],
        );
        assert_eq!(wire.retry_ms(), Some(7));
    }

    #[test]
    fn a_new_connection_keeps_the_place_and_drops_the_rest() {
        for (json, bytes) in [
            (false, "id: 7\ndata: a\n\ndata: ha"),
            (true, "{\"data\":1,\"id\":\"7\"}\n{\"da"),
        ] {
            let mut wire = Wire::new(kind(json));
            assert_eq!(found(&mut wire, &[bytes.as_bytes()]).len(), 1);
            wire.restart();
            assert_eq!(wire.last_event_id(), "7");
            let next: &[u8] = if json {
                b"{\"data\":2}\n"
            } else {
                b"data: b\n\n"
            };
            assert_eq!(found(&mut wire, &[next]).len(), 1);
            assert_eq!(wire.last_event_id(), "7");
        }
    }
}
