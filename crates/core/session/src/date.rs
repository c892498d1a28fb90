//! What answers of one second have in common: the value of the header `Date`, and the start
//! of the usual answer. Written anew once a second and never for each answer.

use std::cell::{Cell, RefCell};

use throng_types::{Now, date};

/// Bytes of a date (RFC 9110 section 5.6.7).
const BYTES: usize = 29;

/// The texts of the last second in which somebody asked.
#[derive(Debug)]
pub struct DateCell {
    date: Cell<(u64, [u8; BYTES])>,
    usual_start: RefCell<(u64, Vec<u8>)>,
}

/// A date, ready to be written.
pub struct DateText([u8; BYTES]);

impl Default for DateCell {
    fn default() -> Self {
        Self {
            date: Cell::new((u64::MAX, [b' '; BYTES])),
            usual_start: RefCell::new((u64::MAX, Vec::new())),
        }
    }
}

impl DateCell {
    /// The date of a moment.
    #[must_use]
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

    /// Appends what all answers of the usual kind begin with; `write` writes it, with the date that
    /// it is given.
    pub(crate) fn usual_start(
        &self,
        now: Now,
        out: &mut Vec<u8>,
        write: impl FnOnce(&str, &mut Vec<u8>),
    ) {
        let (known_s, start) = &mut *self.usual_start.borrow_mut();
        if *known_s != now.unix_s() {
            *known_s = now.unix_s();
            start.clear();
            write(self.at(now).as_str(), start);
        }
        out.extend_from_slice(start);
    }
}

impl DateText {
    /// As it stands in the header.
    #[must_use]
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
            let mut out = b"before ".to_vec();
            dates.usual_start(now, &mut out, |date, start| {
                written += 1;
                start.extend_from_slice(date.as_bytes());
            });
            assert_eq!(
                out,
                [b"before ", dates.at(now).as_str().as_bytes()].concat()
            );
            assert_eq!(written, count);
        }
    }
}
