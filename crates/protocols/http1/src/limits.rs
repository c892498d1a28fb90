//! How much a peer may send before it is refused.

/// The most field lines that any limit can allow: the parser keeps their places on the stack.
pub const HEADERS_CAP: usize = 128;

/// Bounds of one message. They are checked on what is declared, before it arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of a head: empty lines before it, its first line, its fields and the empty line
    /// after them. A longer one is refused with 431, or with 414 if its first line alone is longer.
    pub head_bytes_max: usize,
    /// Field lines in a head; values above [`HEADERS_CAP`] count as that. More are refused with
    /// 431.
    pub headers_max: usize,
    /// Bytes of a body's data, without the framing of chunks. A longer one is refused with 413.
    pub body_bytes_max: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            head_bytes_max: 16 * 1024,
            headers_max: 64,
            body_bytes_max: 1024 * 1024,
        }
    }
}
