//! Parts common to the answers of one second: the header `Date`, and the start of the usual answer.
//! Written once a second, and not for each answer.

use std::cell::{Cell, RefCell};

use throng_http1::encode_response_end;
use throng_types::{Now, date};

/// Bytes of a date (RFC 9110 section 5.6.7).
const BYTES: usize = 29;

/// Texts of the last second in which an answer was written.
#[derive(Debug)]
pub struct DateCell {
    date: Cell<(u64, [u8; BYTES])>,
    usual: RefCell<Usual>,
}

/// The usual answer of a second: the common start, and the last answer with a short body.
#[derive(Debug)]
struct Usual {
    second: u64,
    start: Vec<u8>,
    /// Bound: a short body, and what stands around it.
    whole: Vec<u8>,
    /// Body that `whole` was written for. Bound: [`BODY_BYTES_MAX`].
    body: Vec<u8>,
}

/// The longest body of an answer that is kept for the next one.
const BODY_BYTES_MAX: usize = 16;

/// A date, ready to be written.
pub struct DateText([u8; BYTES]);

impl Default for DateCell {
    fn default() -> Self {
        Self {
            date: Cell::new((u64::MAX, [b' '; BYTES])),
            usual: RefCell::new(Usual {
                second: u64::MAX,
                start: Vec::new(),
                whole: Vec::new(),
                body: Vec::new(),
            }),
        }
    }
}

impl DateCell {
    pub fn at(&self, now: Now) -> DateText {
        let (known_s, mut text) = self.date.get();
        if known_s != now.unix_s() {
            let written = date::http(now.unix_ms);
            for (to, from) in text.iter_mut().zip(written.bytes()) {
                *to = from;
            }
            self.date.set((now.unix_s(), text));
        }
        DateText(text)
    }

    /// Appends an answer of the usual kind with this body. `write` writes the common start with the
    /// given date. Most answers have the body of the one before.
    pub(crate) fn usual(
        &self,
        now: Now,
        (body, out): (&[u8], &mut Vec<u8>),
        write: impl FnOnce(&str, &mut Vec<u8>),
    ) {
        let usual = &mut *self.usual.borrow_mut();
        if usual.second != now.unix_s() {
            usual.second = now.unix_s();
            usual.start.clear();
            usual.whole.clear();
            write(self.at(now).as_str(), &mut usual.start);
        }
        if usual.body == body && !usual.whole.is_empty() {
            return out.extend_from_slice(&usual.whole);
        }
        let start = out.len();
        out.extend_from_slice(&usual.start);
        encode_response_end(body, out);
        if body.len() <= BODY_BYTES_MAX {
            usual.body.clear();
            usual.body.extend_from_slice(body);
            usual.whole.clear();
            usual.whole.extend_from_slice(&out[start..]);
        }
    }
}

impl DateText {
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_date_follows_the_clock() {
        let dates = DateCell::default();
        for (unix_ms, expect) in [
            (0, "Thu, 01 Jan 1970 00:00:00 GMT"),
            (784_111_777_000, "Sun, 06 Nov 1994 08:49:37 GMT"),
            (784_111_777_999, "Sun, 06 Nov 1994 08:49:37 GMT"),
            (784_111_778_000, "Sun, 06 Nov 1994 08:49:38 GMT"),
            // The wall clock may be set back.
            (784_111_777_000, "Sun, 06 Nov 1994 08:49:37 GMT"),
        ] {
            let now = Now {
                unix_ms,
                ..Now::default()
            };
            assert_eq!(dates.at(now).as_str(), expect);
        }
    }

    #[test]
    fn what_is_usual_is_written_once_a_second() {
        let dates = DateCell::default();
        let mut written = 0;
        for (unix_ms, count) in [(5000, 1), (5999, 1), (6000, 2), (5000, 3)] {
            let now = Now {
                unix_ms,
                ..Now::default()
            };
            for body in [
                "{}",
                "{}",
                "{\"a\":1}",
                "a body that is longer than most",
                "{}",
            ] {
                let mut out = b"before ".to_vec();
                dates.usual(now, (body.as_bytes(), &mut out), |date, start| {
                    written += 1;
                    start.extend_from_slice(date.as_bytes());
                });
                let mut expected = b"before ".to_vec();
                expected.extend_from_slice(dates.at(now).as_str().as_bytes());
                encode_response_end(body.as_bytes(), &mut expected);
                assert_eq!(out, expected, "{body}");
            }
            assert_eq!(written, count);
        }
    }
}
