//! The value of the header `Date`, written anew once a second and never for each answer.

use std::cell::Cell;

use throng_types::{Now, date};

/// Bytes of a date (RFC 9110 section 5.6.7).
const BYTES: usize = 29;

/// The date of the last second in which somebody asked.
#[derive(Debug)]
pub struct DateCell(Cell<(u64, [u8; BYTES])>);

/// A date, ready to be written.
pub struct DateText([u8; BYTES]);

impl Default for DateCell {
    fn default() -> Self {
        Self(Cell::new((u64::MAX, [b' '; BYTES])))
    }
}

impl DateCell {
    /// The date of a moment.
    #[must_use]
    pub fn at(&self, now: Now) -> DateText {
        let (known_s, mut text) = self.0.get();
        if known_s != now.unix_s() {
            let written = date::http(now.unix_ms);
            for (to, from) in text.iter_mut().zip(written.bytes()) {
                *to = from;
            }
            self.0.set((now.unix_s(), text));
        }
        DateText(text)
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
}
