//! Events, decoded as the stream comes, in the client's role.
//!
//! Owns: the stream's line, the event being built, the last event id. Never: hands out an
//! event before the empty line that dispatches it; an unfinished event at the end of
//! a stream is lost, as the standard wants.
//!
//! Invariants
//! - The unfinished line and the unfinished event stay within their limits.
//! - Events and faults do not depend on how the stream was cut.

use std::borrow::Cow;

use memchr::{memchr, memchr2};
use throng_types::{coded_enum, error_text};

const BOM: &[u8] = b"\xef\xbb\xbf";

/// Buffers that grew past this many bytes are given back after the event that needed them,
/// so that many idle decoders stay small.
const KEEP_BYTES_MAX: usize = 4 * 1024;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SseLimits {
    /// Bytes of one line without its end.
    pub line_bytes_max: usize,
    /// Bytes of one event's data, each line counted with its end.
    pub event_bytes_max: usize,
}

impl Default for SseLimits {
    fn default() -> Self {
        Self {
            line_bytes_max: 1024 * 1024,
            event_bytes_max: 4 * 1024 * 1024,
        }
    }
}

coded_enum! {
    /// Reason for giving a stream up. The server is at fault.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum StreamError {
        fn reason;
        LineTooLong = "a line of the event stream is too long";
        EventTooLarge = "the data of an event are too large";
    }
}

error_text!(StreamError.reason);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DecodedEvent<'a> {
    /// The last event id of the stream when this event came; it may be from an earlier event.
    pub id: &'a str,
    /// The event's name; `message` if it had none.
    pub event: &'a str,
    /// The data as they came, their lines joined with LF.
    pub data: &'a [u8],
    /// The wait before reconnecting that the stream has asked for last, in milliseconds.
    pub retry_ms: Option<u64>,
}

impl DecodedEvent<'_> {
    /// The data as text; what is not UTF-8 becomes U+FFFD, as in browsers.
    #[must_use]
    pub fn text(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(self.data)
    }
}

#[derive(Clone, Debug, Default)]
pub struct SseDecoder {
    limits: SseLimits,
    /// The line that has not ended yet; empty while lines come whole.
    line: Vec<u8>,
    /// The data so far, each line with an LF.
    data: Vec<u8>,
    event: String,
    /// The id that the next dispatch makes the last one.
    next_id: String,
    last_id: String,
    retry_ms: Option<u64>,
    after_cr: bool,
    past_first_line: bool,
    fault: Option<StreamError>,
}

impl SseDecoder {
    #[must_use]
    pub fn new(limits: SseLimits) -> Self {
        Self {
            limits,
            ..Self::default()
        }
    }

    /// A decoder for the stream that follows a reconnect, which goes on with the id of the one
    /// before (see [`SseDecoder::last_event_id`]).
    #[must_use]
    pub fn resumed(limits: SseLimits, last_event_id: &str) -> Self {
        Self {
            next_id: last_event_id.to_owned(),
            last_id: last_event_id.to_owned(),
            ..Self::new(limits)
        }
    }

    /// Value for `Last-Event-ID` after a reconnect; empty if there is none.
    #[must_use]
    pub fn last_event_id(&self) -> &str {
        &self.last_id
    }

    /// Pause that the stream has asked for before a reconnect, in milliseconds.
    #[must_use]
    pub fn retry_ms(&self) -> Option<u64> {
        self.retry_ms
    }

    /// Takes the next bytes of the stream and reports each event that they complete.
    ///
    /// # Errors
    /// A [`StreamError`]; every later call answers the same. Events before the fault
    /// have been reported.
    pub fn feed(
        &mut self,
        input: &[u8],
        mut on_event: impl FnMut(DecodedEvent<'_>),
    ) -> Result<(), StreamError> {
        if let Some(fault) = self.fault {
            return Err(fault);
        }
        let result = self.take(input, &mut on_event);
        self.fault = result.err();
        result
    }

    fn take(
        &mut self,
        mut input: &[u8],
        on_event: &mut impl FnMut(DecodedEvent<'_>),
    ) -> Result<(), StreamError> {
        loop {
            if self.after_cr && !input.is_empty() {
                self.after_cr = false;
                input = input.strip_prefix(b"\n").unwrap_or(input);
            }
            let end = memchr2(b'\r', b'\n', input);
            let part = &input[..end.unwrap_or(input.len())];
            if self.limits.line_bytes_max - self.line.len() < part.len() {
                return Err(StreamError::LineTooLong);
            }
            let Some(end) = end else {
                self.line.extend_from_slice(part);
                return Ok(());
            };
            self.after_cr = input[end] == b'\r';
            input = &input[end + 1..];
            if self.line.is_empty() {
                self.line(part, on_event)?;
            } else {
                let mut line = std::mem::take(&mut self.line);
                line.extend_from_slice(part);
                self.line(&line, on_event)?;
                line.clear();
                line.shrink_to(KEEP_BYTES_MAX);
                self.line = line;
            }
        }
    }

    /// One line without its end.
    fn line(
        &mut self,
        mut line: &[u8],
        on_event: &mut impl FnMut(DecodedEvent<'_>),
    ) -> Result<(), StreamError> {
        if !self.past_first_line {
            self.past_first_line = true;
            line = line.strip_prefix(BOM).unwrap_or(line);
        }
        if line.is_empty() {
            self.dispatch(on_event);
            return Ok(());
        }
        let (name, value) = line.split_at(memchr(b':', line).unwrap_or(line.len()));
        let value = value.strip_prefix(b":").unwrap_or(value);
        self.field(name, value.strip_prefix(b" ").unwrap_or(value))
    }

    /// A comment has an empty name, and is ignored like every other unknown field.
    fn field(&mut self, name: &[u8], value: &[u8]) -> Result<(), StreamError> {
        match name {
            b"data" => {
                if self.limits.event_bytes_max - self.data.len() <= value.len() {
                    return Err(StreamError::EventTooLarge);
                }
                self.data.extend_from_slice(value);
                self.data.push(b'\n');
            }
            b"event" => replace(&mut self.event, value),
            b"id" if !value.contains(&0) => replace(&mut self.next_id, value),
            b"retry" => self.retry_ms = milliseconds(value).or(self.retry_ms),
            _ => {}
        }
        Ok(())
    }

    fn dispatch(&mut self, on_event: &mut impl FnMut(DecodedEvent<'_>)) {
        // The id counts even if no event comes of it.
        if self.last_id != self.next_id {
            self.last_id.clone_from(&self.next_id);
        }
        if let Some((_, data)) = self.data.split_last() {
            on_event(DecodedEvent {
                id: &self.last_id,
                event: match self.event.as_str() {
                    "" => "message",
                    name => name,
                },
                data,
                retry_ms: self.retry_ms,
            });
        }
        self.data.clear();
        self.data.shrink_to(KEEP_BYTES_MAX);
        self.event.clear();
        self.event.shrink_to(KEEP_BYTES_MAX);
    }
}

fn replace(text: &mut String, value: &[u8]) {
    text.clear();
    text.push_str(&String::from_utf8_lossy(value));
}

/// Decimal digits alone, at least one; a number too large for any clock is ignored like other
/// nonsense.
fn milliseconds(value: &[u8]) -> Option<u64> {
    if !value.iter().all(u8::is_ascii_digit) {
        return None;
    }
    std::str::from_utf8(value).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{EVENT_END, SseEvent, encode_comment, encode_data, encode_event, encode_id};

    /// Result of a stream: its events as (id, name, data), then what the decoder knows.
    #[derive(Clone, Debug, PartialEq, Eq)]
    struct Outcome {
        events: Vec<(String, String, String)>,
        last_event_id: String,
        retry_ms: Option<u64>,
        fault: Option<StreamError>,
    }

    fn decode<'w>(mut decoder: SseDecoder, pieces: impl IntoIterator<Item = &'w [u8]>) -> Outcome {
        let mut events = Vec::new();
        let mut fault = None;
        for piece in pieces {
            let result = decoder.feed(piece, |event| {
                events.push((
                    event.id.to_owned(),
                    event.event.to_owned(),
                    event.text().into_owned(),
                ));
            });
            assert!(fault.is_none() || result.err() == fault, "faults last");
            fault = result.err();
            assert!(decoder.line.len() <= decoder.limits.line_bytes_max);
            assert!(decoder.data.len() <= decoder.limits.event_bytes_max);
        }
        Outcome {
            events,
            last_event_id: decoder.last_event_id().to_owned(),
            retry_ms: decoder.retry_ms(),
            fault,
        }
    }

    /// Decodes `wire` whole, cut in two at every place and byte by byte, and answers what
    /// all of them agree on.
    #[track_caller]
    fn decode_all_ways(decoder: &SseDecoder, wire: &[u8]) -> Outcome {
        let whole = decode(decoder.clone(), [wire]);
        for cut in 0..=wire.len() {
            let (first, second) = wire.split_at(cut);
            let parts = decode(decoder.clone(), [first, second]);
            assert_eq!(parts, whole, "cut at {cut}");
        }
        let bytes = decode(decoder.clone(), wire.chunks(1));
        assert_eq!(bytes, whole, "byte by byte");
        whole
    }

    #[test]
    fn streams_have_the_events_of_the_table_with_each_line_end() {
        let lines = include_str!("events.txt").lines();
        let lines: Vec<&str> = lines.filter(|line| !line.starts_with('#')).collect();
        for line in &lines {
            let (stream, expected) = line.split_once(" =>").expect("STREAM => EVENTS");
            let stream = stream.replace("\\0", "\0").replace("\\u{feff}", "\u{feff}");
            let expected = expected.trim_start().replace("\\s", " ");
            for end in ["\n", "\r\n", "\r"] {
                let wire = stream.replace("\\n", end);
                let outcome = decode_all_ways(&SseDecoder::default(), wire.as_bytes());
                let events = outcome.events.iter();
                let events = events.map(|(id, event, data)| format!("{id}|{event}|{data}"));
                let events = events.collect::<Vec<_>>().join("; ");
                let found = events.replace('\n', "\\n").replace('\u{feff}', "\\u{feff}");
                assert_eq!(found, expected, "{wire:?}");
                assert_eq!(outcome.fault, None);
            }
        }
        assert_eq!(lines.len(), 27);
    }

    #[test]
    fn an_id_counts_once_its_event_is_dispatched() {
        let last_id =
            |wire: &str| decode_all_ways(&SseDecoder::default(), wire.as_bytes()).last_event_id;
        assert_eq!(last_id("id: 1\ndata: a\n"), "");
        assert_eq!(last_id("id: 1\n\n"), "1");
        assert_eq!(last_id("id: 1\ndata: a\n\nid: 2\ndata: b\n"), "1");
        let resumed = SseDecoder::resumed(SseLimits::default(), "7");
        let outcome = decode_all_ways(&resumed, b"data: a\n\n");
        assert_eq!(outcome.events[0].0, "7");
        assert_eq!(outcome.last_event_id, "7");
    }

    #[test]
    fn retry_is_digits_alone() {
        for (value, expect) in [
            ("retry: 1500", Some(1500)),
            ("retry:0", Some(0)),
            ("retry: 10\nretry: x", Some(10)),
            ("retry: 10\nretry: 20", Some(20)),
            ("retry", None),
            ("retry:", None),
            ("retry:  1", None),
            ("retry: +1", None),
            ("retry: -1", None),
            ("retry: 1.5", None),
            ("retry: 99999999999999999999", None),
        ] {
            let wire = format!("{value}\n");
            let outcome = decode_all_ways(&SseDecoder::default(), wire.as_bytes());
            assert_eq!(outcome.retry_ms, expect, "{value}");
        }
    }

    #[test]
    fn what_is_not_utf8_is_replaced() {
        let outcome = decode_all_ways(
            &SseDecoder::default(),
            b"id: \xff\nevent: \xc3\ndata: \xe4\xbd\ndata: \xa0\n\n",
        );
        let expect = (
            "\u{fffd}".into(),
            "\u{fffd}".into(),
            "\u{fffd}\n\u{fffd}".into(),
        );
        assert_eq!(outcome.events, [expect]);
    }

    #[test]
    fn line_ends_may_be_mixed() {
        let outcome = decode_all_ways(&SseDecoder::default(), b"data: a\r\ndata: b\rdata: c\n\r");
        assert_eq!(outcome.events[0].2, "a\nb\nc");
        let outcome = decode_all_ways(&SseDecoder::default(), b"data: a\r\r\ndata: b\n\n");
        assert_eq!(outcome.events.len(), 2);
    }

    #[test]
    fn limits_hold_to_the_byte() {
        let check = |line_bytes_max, event_bytes_max, wire: &str, expect: Option<StreamError>| {
            let decoder = SseDecoder::new(SseLimits {
                line_bytes_max,
                event_bytes_max,
            });
            let outcome = decode_all_ways(&decoder, wire.as_bytes());
            assert_eq!(outcome.fault, expect, "{wire:?}");
            outcome.events.len()
        };
        use StreamError as Bad;
        assert_eq!(check(8, 99, "data: ab\n\n", None), 1);
        check(7, 99, "data: ab\n\n", Some(Bad::LineTooLong));
        check(7, 99, "data: ab", Some(Bad::LineTooLong));
        check(7, 99, ": comment", Some(Bad::LineTooLong));
        assert_eq!(check(99, 5, "data: ab\ndata: c\n\n", None), 1);
        check(99, 4, "data: ab\ndata: c\n\n", Some(Bad::EventTooLarge));
        check(99, 0, "data\n", Some(Bad::EventTooLarge));
        assert_eq!(check(8, 3, "data: ab\n\ndata: cd\n\n", None), 2);
        // What came before the fault was reported.
        assert_eq!(
            check(8, 3, "data: ab\n\ndata: cde\n", Some(Bad::LineTooLong)),
            1
        );
    }

    #[test]
    fn large_buffers_are_given_back() {
        let mut decoder = SseDecoder::default();
        let big = "x".repeat(10 * KEEP_BYTES_MAX);
        let wire = format!("event: {big}\ndata: {big}\n\n");
        for piece in wire.as_bytes().chunks(1000) {
            decoder.feed(piece, |_| {}).unwrap();
        }
        let kept = decoder.data.capacity() + decoder.line.capacity() + decoder.event.capacity();
        assert!(kept <= 3 * KEEP_BYTES_MAX, "{kept}");
    }

    /// Line ends of data as the standard makes them.
    fn normalised(data: &str) -> String {
        data.replace("\r\n", "\n").replace('\r', "\n")
    }

    proptest! {
        #[test]
        fn what_is_encoded_is_decoded(
            events in prop::collection::vec((
                prop::option::of("[^\\r\\n\\x00]{0,8}"),
                prop::option::of("[^\\r\\n]{0,8}"),
                "([a: ]|\\r|\\n|\\PC){0,12}",
                prop::option::of(any::<u64>()),
            ), 0..5),
            comment in "([a: ]|\\r|\\n|\\PC){0,8}",
        ) {
            let mut wire = Vec::new();
            let mut expect = Vec::new();
            let mut last_id = String::new();
            let mut last_retry = None;
            for (id, name, data, retry_ms) in &events {
                encode_comment(&comment, &mut wire);
                let event = SseEvent {
                    id: id.as_deref(),
                    event: name.as_deref(),
                    data: data.as_bytes(),
                    retry_ms: *retry_ms,
                };
                encode_event(&event, &mut wire).unwrap();
                last_id = id.clone().unwrap_or(last_id);
                last_retry = retry_ms.or(last_retry);
                let name = name.clone().filter(|name| !name.is_empty());
                let name = name.unwrap_or_else(|| "message".into());
                expect.push((last_id.clone(), name, normalised(data)));
            }
            let outcome = decode_all_ways(&SseDecoder::default(), &wire);
            let expect = Outcome {
                events: expect,
                last_event_id: last_id,
                retry_ms: last_retry,
                fault: None,
            };
            prop_assert_eq!(outcome, expect);
        }

        #[test]
        fn a_shared_half_fits_behind_any_id(
            data in "([a: ]|\\r|\\n|\\PC){0,12}",
            id in "[ -~]{0,8}",
        ) {
            let mut shared = Vec::new();
            encode_data(data.as_bytes(), &mut shared);
            shared.extend_from_slice(EVENT_END);
            let mut spliced = Vec::new();
            encode_id(&id, &mut spliced).unwrap();
            spliced.extend_from_slice(&shared);
            let event = SseEvent { id: Some(&id), data: data.as_bytes(), ..SseEvent::default() };
            let mut whole = Vec::new();
            encode_event(&event, &mut whole).unwrap();
            prop_assert_eq!(spliced, whole);
        }

        #[test]
        fn cuts_change_nothing(
            parts in prop::collection::vec(prop::sample::select(vec![
                "data", "id", "event", "retry", ":", " ", "1", "a", "\n", "\r", "\r\n", "\0",
                "\u{feff}", "\u{e9}",
            ]), 0..24),
            line_bytes_max in 0_usize..20,
            event_bytes_max in 0_usize..10,
        ) {
            let wire = parts.concat();
            decode_all_ways(&SseDecoder::default(), wire.as_bytes());
            let decoder = SseDecoder::new(SseLimits { line_bytes_max, event_bytes_max });
            decode_all_ways(&decoder, wire.as_bytes());
        }
    }
}
