//! Any bytes to a body decoder: it never panics and never stalls, what it hands out does
//! not depend on how they were cut, and it never hands out more than the limit.
//!
//! Input: one byte that selects the framing, one of limit, four chunk lengths (used over and
//! over), then the wire.

use throng_http1::{BadBody, BodyDecoder, HttpLimits, LAST_CHUNK, ResponseBody, encode_chunk};

pub(crate) const SEEDS: &[&[u8]] = &[
    b"\x02\xff\x03\x01\x07\x02\x35\r\nhello\r\n6;x=\"y\"\r\n world\r\n0\r\nT: v\r\n\r\nGET",
    b"\x15\x40\x02\x02\x02\x02hello, world",
    b"\x00\x09\x01\x02\x03\x04until the end",
];

#[derive(Debug, PartialEq)]
struct Outcome {
    data: Vec<u8>,
    /// Bytes of the wire up to the end of the body, if it ended.
    end: Option<usize>,
    fault: Option<BadBody>,
}

fn decode(mut decoder: BodyDecoder, wire: &[u8], chunk_bytes: &[usize]) -> Outcome {
    let mut outcome = Outcome {
        data: Vec::new(),
        end: decoder.is_done().then_some(0),
        fault: None,
    };
    let (mut taken, mut came) = (0, 0);
    for chunk in chunk_bytes.iter().cycle() {
        came = wire.len().min(came + chunk);
        while taken < came && outcome.end.is_none() {
            match decoder.feed(&wire[taken..came]) {
                Ok(step) => {
                    assert!(step.consumed != 0, "the decoder stalls");
                    outcome.data.extend_from_slice(step.data);
                    taken += step.consumed;
                    outcome.end = step.done.then_some(taken);
                }
                Err(fault) => {
                    outcome.fault = Some(fault);
                    return outcome;
                }
            }
        }
        if came == wire.len() || outcome.end.is_some() {
            break;
        }
    }
    outcome
}

/// Runs one input of this target; panics if the target finds a fault.
pub fn http1_body(input: &[u8]) {
    let [framing, limit, first, second, third, fourth, wire @ ..] = input else {
        return;
    };
    let limits = HttpLimits {
        body_bytes_max: if *limit == 255 {
            u64::MAX
        } else {
            u64::from(*limit)
        },
        ..HttpLimits::default()
    };
    let body = match framing % 4 {
        0 => ResponseBody::UntilClose,
        1 => ResponseBody::Length(u64::from(framing / 4)),
        _ => ResponseBody::Chunked,
    };
    let decoder = BodyDecoder::for_response(body, &limits);
    let whole = decode(decoder.clone(), wire, &[wire.len()]);
    let chunks = [first, second, third, fourth].map(|&bytes| usize::from(bytes) + 1);
    assert_eq!(decode(decoder.clone(), wire, &chunks), whole);
    assert_eq!(decode(decoder.clone(), wire, &[1]), whole);
    assert!(whole.data.len() as u64 <= limits.body_bytes_max);

    if body == ResponseBody::Chunked && whole.end.is_some() {
        let mut again = Vec::new();
        encode_chunk(&whole.data, &mut again);
        again.extend_from_slice(LAST_CHUNK);
        assert_eq!(decode(decoder, &again, &chunks).data, whole.data);
    }
}
