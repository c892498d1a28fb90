//! The two streams that a subscription can be read from: events, whose data are printed as they are,
//! and JSON lines.
//!
//! Pure: bytes in, publications out. Invariant: what is found does not depend on how the bytes were cut.

use serde_json::Value;
use throng_sse::{Decoder, DecoderLimits};

/// No server takes larger publications (`limits.publish_bytes_max` goes no higher).
const LINE_BYTES_MAX: usize = 1 << 30;

const LIMITS: DecoderLimits = DecoderLimits {
    line_bytes_max: LINE_BYTES_MAX,
    event_bytes_max: LINE_BYTES_MAX,
};

/// What the stream brought.
pub(super) enum Found<'a> {
    /// One publication, without a line end.
    Publication(&'a [u8]),
    /// A word about the stream itself.
    News(Value),
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
    },
}

impl Wire {
    pub(super) fn new(json: bool) -> Self {
        if json {
            Self::Lines {
                line: Vec::new(),
                last_id: String::new(),
            }
        } else {
            Self::Events(Decoder::new(LIMITS))
        }
    }

    pub(super) const fn path(&self) -> &'static str {
        match self {
            Self::Events(_) => "/sse",
            Self::Lines { .. } => "/stream",
        }
    }

    pub(super) const fn media_type(&self) -> &'static str {
        match self {
            Self::Events(_) => "text/event-stream",
            Self::Lines { .. } => "application/x-ndjson",
        }
    }

    /// Where the stream stands; empty if its channels keep no history.
    pub(super) fn last_event_id(&self) -> &str {
        match self {
            Self::Events(decoder) => decoder.last_event_id(),
            Self::Lines { last_id, .. } => last_id,
        }
    }

    /// The wait that the server has asked for.
    pub(super) fn retry_ms(&self) -> Option<u64> {
        match self {
            Self::Events(decoder) => decoder.retry_ms(),
            Self::Lines { .. } => None,
        }
    }

    /// A new connection begins; what was unfinished on the old one is gone.
    pub(super) fn restart(&mut self) {
        match self {
            Self::Events(decoder) => *decoder = Decoder::resumed(LIMITS, decoder.last_event_id()),
            Self::Lines { line, .. } => line.clear(),
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
                    } else if let Ok(news) = serde_json::from_slice(event.data) {
                        on_found(Found::News(news));
                    }
                })
                .map_err(|fault| fault.to_string()),
            Self::Lines { line, last_id } => feed_lines(line, last_id, data, &mut on_found),
        }
    }
}

fn feed_lines(
    line: &mut Vec<u8>,
    last_id: &mut String,
    mut data: &[u8],
    on_found: &mut impl FnMut(Found<'_>),
) -> Result<(), String> {
    while let Some(end) = data.iter().position(|&byte| byte == b'\n') {
        let (head, rest) = data.split_at(end);
        data = rest.get(1..).unwrap_or_default();
        line.extend_from_slice(head);
        let whole = std::mem::take(line);
        let text = whole.trim_ascii();
        if !text.is_empty() {
            one_line(text, last_id, on_found)?;
        }
    }
    if LINE_BYTES_MAX - line.len() < data.len() {
        return Err("a line of the stream is too long".to_owned());
    }
    line.extend_from_slice(data);
    Ok(())
}

fn one_line(
    text: &[u8],
    last_id: &mut String,
    on_found: &mut impl FnMut(Found<'_>),
) -> Result<(), String> {
    let Ok(value) = serde_json::from_slice::<Value>(text) else {
        return Err("a line of the stream is not JSON".to_owned());
    };
    if let Some(id) = value.get("id").and_then(Value::as_str) {
        id.clone_into(last_id);
    }
    if value.get("data").is_some() {
        on_found(Found::Publication(text));
    } else {
        on_found(Found::News(value));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(wire: &mut Wire, parts: &[&[u8]]) -> Vec<String> {
        let mut all = Vec::new();
        for part in parts {
            wire.feed(part, |found| {
                all.push(match found {
                    Found::Publication(data) => format!("P {}", String::from_utf8_lossy(data)),
                    Found::News(news) => format!("N {news}"),
                });
            })
            .unwrap();
        }
        all
    }

    #[track_caller]
    fn check(json: bool, bytes: &str, expect: &[&str], id: &str) {
        for cut in 0..=bytes.len() {
            let mut wire = Wire::new(json);
            let (head, tail) = bytes.as_bytes().split_at(cut);
            assert_eq!(found(&mut wire, &[head, tail]), expect, "cut at {cut}");
            assert_eq!(wire.last_event_id(), id, "cut at {cut}");
        }
    }

    #[test]
    fn events_are_publications_and_news() {
        check(
            false,
            "event: open\ndata: {\"recovered\":true}\n\n: alive\n\nid: 1.2.3\ndata: hello\n\ndata: a\ndata: b\n\n",
            &["N {\"recovered\":true}", "P hello", "P a\nb"],
            "1.2.3",
        );
    }

    #[test]
    fn lines_are_publications_and_news() {
        check(
            true,
            "{\"recovered\":false}\r\n\n{\"channel\":\"a\",\"data\":{\"x\": 1},\"id\":\"1.2.3\"}\n{\"channel\":\"a\",\"data\":null}\n{\"chan",
            &[
                "N {\"recovered\":false}",
                "P {\"channel\":\"a\",\"data\":{\"x\": 1},\"id\":\"1.2.3\"}",
                "P {\"channel\":\"a\",\"data\":null}",
            ],
            "1.2.3",
        );
        let mut wire = Wire::new(true);
        assert!(wire.feed(b"<html>\n", |_| ()).is_err());
    }

    #[test]
    fn a_new_connection_keeps_the_place_and_drops_the_rest() {
        for (json, bytes) in [
            (false, "id: 7\ndata: a\n\ndata: ha"),
            (true, "{\"data\":1,\"id\":\"7\"}\n{\"da"),
        ] {
            let mut wire = Wire::new(json);
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
