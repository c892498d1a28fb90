//! Any bytes to the event stream decoder: it never panics, what it reports does not depend
//! on how they were cut, and every event it reports comes out again when it is encoded.
//!
//! Input: one byte of limits, four lengths of pieces (used over and over), then the wire.

use throng_sse::{SseDecoder, SseEvent, SseLimits, StreamError, encode_event};

use crate::pieces::chopped;

#[derive(Debug, Default, PartialEq)]
struct Outcome {
    /// Id, name, data and retry.
    events: Vec<(String, String, Vec<u8>, Option<u64>)>,
    last_event_id: String,
    retry_ms: Option<u64>,
    fault: Option<StreamError>,
}

fn decode(limits: SseLimits, pieces: &[&[u8]]) -> Outcome {
    let mut decoder = SseDecoder::new(limits);
    let mut outcome = Outcome::default();
    for piece in pieces {
        let result = decoder.feed(piece, |event| {
            let (id, name) = (event.id.to_owned(), event.event.to_owned());
            let data = event.data.to_vec();
            outcome.events.push((id, name, data, event.retry_ms));
        });
        outcome.fault = result.err();
    }
    outcome.last_event_id = decoder.last_event_id().to_owned();
    outcome.retry_ms = decoder.retry_ms();
    outcome
}

pub(crate) fn sse_decode(input: &[u8]) {
    let Some(([limit], wire)) = chopped(input) else {
        return;
    };
    let limits = match limit {
        0..128 => SseLimits::default(),
        _ => SseLimits {
            line_bytes_max: usize::from(limit % 16) * 2,
            event_bytes_max: usize::from(limit / 16),
        },
    };
    let whole = wire.read(|pieces| decode(limits, pieces));
    let mut again = Vec::new();
    for (id, name, data, retry_ms) in &whole.events {
        assert!(data.len() < limits.event_bytes_max);
        let event = SseEvent {
            id: Some(id),
            event: Some(name),
            data,
            retry_ms: *retry_ms,
        };
        encode_event(&event, &mut again).expect("what was decoded can be encoded");
    }
    let events = decode(SseLimits::default(), &[&again]).events;
    assert_eq!(events, whole.events);
}
