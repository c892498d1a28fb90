//! Any bytes to the event stream decoder: it never panics, what it reports does not depend
//! on how they were cut, and every event it reports comes out again when it is encoded.
//!
//! Input: one byte of limits, four chunk lengths (used over and over), then the wire.

use throng_sse::{SseDecoder, SseEvent, SseLimits, StreamError, encode_event};

pub(crate) const SEEDS: &[&[u8]] = &[
    b"\x00\x03\x01\x07\x02\xef\xbb\xbf: hi\nid: 7\nevent: add\ndata: one\ndata:two\nretry: \
      1500\n\ndata\r\n\r\n",
    b"\x9f\x01\x02\x03\x04id: 1\rdata: x\r\rid\ndata: {\"a\":1}\n\n",
];

#[derive(Debug, Default, PartialEq)]
struct Outcome {
    /// Id, name, data and retry.
    events: Vec<(String, String, Vec<u8>, Option<u64>)>,
    last_event_id: String,
    retry_ms: Option<u64>,
    fault: Option<StreamError>,
}

fn decode(limits: SseLimits, wire: &[u8], chunk_bytes: &[usize]) -> Outcome {
    let mut decoder = SseDecoder::new(limits);
    let mut outcome = Outcome::default();
    let mut rest = wire;
    for chunk in chunk_bytes.iter().cycle() {
        let (piece, others) = rest.split_at(rest.len().min(*chunk));
        rest = others;
        let result = decoder.feed(piece, |event| {
            let (id, name) = (event.id.to_owned(), event.event.to_owned());
            let data = event.data.to_vec();
            outcome.events.push((id, name, data, event.retry_ms));
        });
        outcome.fault = result.err();
        if rest.is_empty() {
            break;
        }
    }
    outcome.last_event_id = decoder.last_event_id().to_owned();
    outcome.retry_ms = decoder.retry_ms();
    outcome
}

/// Runs one input of this target; panics if the target finds a fault.
pub fn sse_decode(input: &[u8]) {
    let [limit, first, second, third, fourth, wire @ ..] = input else {
        return;
    };
    let limits = match limit {
        0..128 => SseLimits::default(),
        _ => SseLimits {
            line_bytes_max: usize::from(limit % 16) * 2,
            event_bytes_max: usize::from(limit / 16),
        },
    };
    let whole = decode(limits, wire, &[wire.len()]);
    let chunks = [first, second, third, fourth].map(|&bytes| usize::from(bytes) + 1);
    assert_eq!(decode(limits, wire, &chunks), whole);
    assert_eq!(decode(limits, wire, &[1]), whole);

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
    let events = decode(SseLimits::default(), &again, &chunks).events;
    assert_eq!(events, whole.events);
}
