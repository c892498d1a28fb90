//! Output of the gateway as a client reads it: one message after the other.

use std::collections::VecDeque;

/// Form of a connection's output.
#[derive(Clone, Copy, Default)]
pub(crate) enum Wire {
    #[default]
    Answers,
    Frames,
    Events,
    Chunks,
}

/// One connection, as its client sees it.
#[derive(Default)]
pub(crate) struct Client {
    pub(crate) at: usize,
    pub(crate) wire: Wire,
    /// Head of the last answer.
    pub(crate) head: String,
    /// Messages that no step has told yet.
    pub(crate) told: VecDeque<String>,
}

/// A text as it is, other bytes with escapes.
fn words(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) if text.starts_with(['{', '[']) => text.trim_end().to_owned(),
        _ => format!("binary {}", bytes.escape_ascii()),
    }
}

impl Client {
    /// Reads one message off the output, if there is one.
    pub(crate) fn read(&mut self, heard: &mut Vec<u8>) -> Option<String> {
        let find = |end: &[u8]| {
            let found = heard.windows(end.len()).position(|it| it == end);
            found.map(|at| at + end.len())
        };
        let (message, bytes) = match self.wire {
            Wire::Answers => {
                let start = find(b"\r\n\r\n")?;
                self.head = String::from_utf8(heard[..start].to_vec()).expect("a head");
                let status = &self.head[9..12];
                let length = self.head.split_once("Content-Length: ");
                let length = length.and_then(|(_, rest)| rest.split_once("\r\n"));
                let length: usize = length.map_or(0, |(length, _)| length.parse().expect("bytes"));
                if status == "101" {
                    self.wire = Wire::Frames;
                } else if self.head.contains("Transfer-Encoding: chunked") {
                    self.wire = Wire::Chunks;
                } else if self.head.contains("text/event-stream") {
                    self.wire = Wire::Events;
                }
                let end = start + length;
                let body = String::from_utf8_lossy(&heard[start..end]);
                (format!("{status} {body}").trim_end().to_owned(), end)
            }
            Wire::Frames => {
                let [first, short, ..] = **heard else {
                    return None;
                };
                let (head, length) = match short {
                    126 => (4, usize::from(u16::from_be_bytes([heard[2], heard[3]]))),
                    127 => {
                        let bytes = heard[2..10].iter();
                        (10, bytes.fold(0, |sum, &byte| sum << 8 | usize::from(byte)))
                    }
                    short => (2, usize::from(short)),
                };
                let payload = &heard[head..head + length];
                let message = match first & 15 {
                    1 => String::from_utf8(payload.to_vec()).expect("text"),
                    8 => format!("close {}", u16::from_be_bytes([payload[0], payload[1]])),
                    _ => format!("binary {}", payload.escape_ascii()),
                };
                (message, head + length)
            }
            Wire::Events => {
                let end = find(b"\n\n")?;
                let data = heard[..end].strip_prefix(b"data: ").expect("an event");
                (words(data), end)
            }
            Wire::Chunks => {
                let start = find(b"\r\n")?;
                let size = std::str::from_utf8(&heard[..start - 2]).expect("a size");
                let size = usize::from_str_radix(size, 16).expect("a size");
                if size == 0 {
                    let end = find(b"\r\n\r\n")?;
                    let fields = String::from_utf8_lossy(&heard[start..end]);
                    let message = match fields.trim_end() {
                        "" => "last chunk".to_owned(),
                        fields => fields.to_owned(),
                    };
                    heard.drain(..end);
                    return Some(message);
                }
                (words(&heard[start..start + size]), start + size + 2)
            }
        };
        heard.drain(..bytes);
        Some(message)
    }
}
