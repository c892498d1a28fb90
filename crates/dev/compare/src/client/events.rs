//! The body of an event stream: chunks, lines, payloads.
//!
//! Owns: the line that has not ended. Never: keeps more of it than a payload is long.

use anyhow::{Result, ensure};
use throng_http1::{BodyDecoder, Limits, ResponseBody};

use super::payload::PAYLOAD_BYTES;

/// What stands in front of a payload.
const FIELD: &[u8] = b"data: ";
/// A keep-alive is shorter, and nothing longer is published.
const LINE_BYTES_MAX: usize = FIELD.len() + PAYLOAD_BYTES;

/// One stream, from the first byte behind its head.
#[derive(Debug)]
pub(super) struct Events {
    body: BodyDecoder,
    line: Vec<u8>,
}

impl Events {
    pub(super) fn new(body: ResponseBody) -> Self {
        let endless = Limits {
            body_bytes_max: u64::MAX,
            ..Limits::default()
        };
        Self {
            body: BodyDecoder::for_response(body, &endless),
            line: Vec::new(),
        }
    }

    /// Takes bytes as they came, and hands out whole payloads.
    ///
    /// # Errors
    /// If the stream ends, or has a line that nobody published.
    pub(super) fn feed(&mut self, input: &[u8], mut take: impl FnMut(&[u8])) -> Result<()> {
        let mut at = 0;
        while at < input.len() {
            let step = self.body.feed(&input[at..])?;
            at += step.consumed;
            for piece in step.data.split_inclusive(|&byte| byte == b'\n') {
                self.line.extend_from_slice(piece);
                if let Some(line) = self.line.strip_suffix(b"\n") {
                    if let Some(payload) = line.strip_prefix(FIELD) {
                        take(payload);
                    }
                    self.line.clear();
                }
                ensure!(
                    self.line.len() <= LINE_BYTES_MAX,
                    "the server sent a line that nobody published"
                );
            }
            ensure!(!self.body.is_done(), "the server ended the stream");
        }
        // Thousands of streams keep a buffer only while a line is on its way.
        if self.line.is_empty() {
            self.line = Vec::new();
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
