//! The body of an event stream: chunks, lines, payloads.
//!
//! Owns: how lines become payloads. Stricter than an event stream has to be: whatever is longer
//! than what was published is a fault. Never: keeps more of a line than a payload is long.

use anyhow::{Result, ensure};
use throng_client::Lines;
use throng_http1::{BodyDecoder, HttpLimits, ResponseBody};

use super::payload::PAYLOAD_BYTES;

/// Field name in front of a payload.
const FIELD: &[u8] = b"data: ";
/// A keep-alive is shorter, and nothing longer is published.
const LINE_BYTES_MAX: usize = FIELD.len() + PAYLOAD_BYTES;

/// One stream, from the first byte behind its head.
#[derive(Debug)]
pub(super) struct Events {
    body: BodyDecoder,
    lines: Lines,
}

impl Events {
    pub(super) fn new(body: ResponseBody) -> Self {
        let endless = HttpLimits {
            body_bytes_max: u64::MAX,
            ..HttpLimits::default()
        };
        Self {
            body: BodyDecoder::for_response(body, &endless),
            lines: Lines::default(),
        }
    }

    /// Takes bytes as they came, and hands out whole payloads.
    ///
    /// # Errors
    /// If the stream ends, or has a line that was not published.
    pub(super) fn feed(&mut self, input: &[u8], mut take: impl FnMut(&[u8])) -> Result<()> {
        let mut at = 0;
        while at < input.len() {
            let step = self.body.feed(&input[at..])?;
            at += step.consumed;
            self.lines.feed(step.data, LINE_BYTES_MAX, |line| {
                if let Some(payload) = line.strip_prefix(FIELD) {
                    take(payload);
                }
            })?;
            ensure!(!self.body.is_done(), "the server ended the stream");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use throng_http1::encode_chunk;

    use super::*;

    #[test]
    fn payloads_come_out_wherever_the_bytes_are_cut() {
        let mut bytes = Vec::new();
        for piece in ["data: one\n\n", ":\n\ndata: t", "wo\n\n"] {
            encode_chunk(piece.as_bytes(), &mut bytes);
        }
        for cut in 0..=bytes.len() {
            let mut events = Events::new(ResponseBody::Chunked);
            let mut found = Vec::new();
            for part in [&bytes[..cut], &bytes[cut..]] {
                let taken = events.feed(part, |payload| found.push(payload.to_vec()));
                taken.unwrap();
            }
            assert_eq!(found, [&b"one"[..], b"two"], "{cut}");
        }
    }

    #[test]
    fn an_end_or_a_strange_line_fails() {
        let long = "x".repeat(LINE_BYTES_MAX + 1);
        let mut strange = Vec::new();
        encode_chunk(long.as_bytes(), &mut strange);
        for bytes in [&b"0\r\n\r\n"[..], b"no chunk", &strange] {
            let mut events = Events::new(ResponseBody::Chunked);
            assert!(events.feed(bytes, |_| {}).is_err());
        }
    }
}
