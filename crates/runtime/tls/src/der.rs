//! The few fields of a certificate that rustls does not tell: when it holds, whose it is, and who
//! signed it (RFC 5280 section 4.1).
//!
//! Never: checks a signature; rustls does.

/// Fields of a certificate. Names are as they stand in it, to be compared byte by byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Outline<'a> {
    pub(crate) issuer: &'a [u8],
    pub(crate) subject: &'a [u8],
    /// First valid second, Unix time.
    pub(crate) not_before: i64,
    /// Last valid second, Unix time.
    pub(crate) not_after: i64,
}

const INTEGER: u8 = 0x02;
const SEQUENCE: u8 = 0x30;
const VERSION: u8 = 0xa0;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;

/// Reads the outline of a certificate; none if it is no certificate.
pub(crate) fn outline(certificate: &[u8]) -> Option<Outline<'_>> {
    let mut whole = Reader(certificate);
    let mut signed = Reader(whole.take(SEQUENCE)?);
    let mut fields = Reader(signed.take(SEQUENCE)?);
    if fields.0.first() == Some(&VERSION) {
        fields.take(VERSION)?;
    }
    fields.take(INTEGER)?;
    fields.take(SEQUENCE)?;
    let issuer = fields.take(SEQUENCE)?;
    let mut validity = Reader(fields.take(SEQUENCE)?);
    let not_before = validity.time()?;
    let not_after = validity.time()?;
    let subject = fields.take(SEQUENCE)?;
    Some(Outline {
        issuer,
        subject,
        not_before,
        not_after,
    })
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    /// The contents of the next value, which has this tag.
    fn take(&mut self, tag: u8) -> Option<&'a [u8]> {
        let (&found, rest) = self.0.split_first()?;
        let (&first, rest) = rest.split_first()?;
        let (length, rest) = match first {
            0..=0x7f => (usize::from(first), rest),
            0x81..=0x83 => {
                let (bytes, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
                let length = bytes
                    .iter()
                    .fold(0, |sum, &byte| sum << 8 | usize::from(byte));
                (length, rest)
            }
            _ => return None,
        };
        let (value, rest) = rest.split_at_checked(length)?;
        self.0 = rest;
        (found == tag).then_some(value)
    }

    /// The next value as a time: `YYMMDDHHMMSSZ` or `YYYYMMDDHHMMSSZ` (RFC 5280 section 4.1.2.5).
    fn time(&mut self) -> Option<i64> {
        let tag = *self.0.first()?;
        let text = self.take(tag)?;
        let (year, rest) = match tag {
            UTC_TIME => {
                let (year, rest) = text.split_at_checked(2)?;
                let year = number(year)?;
                (if year < 50 { 2000 + year } else { 1900 + year }, rest)
            }
            GENERALIZED_TIME => {
                let (year, rest) = text.split_at_checked(4)?;
                (number(year)?, rest)
            }
            _ => return None,
        };
        let rest = rest.strip_suffix(b"Z")?;
        let mut parts = rest.chunks(2).map(number);
        let mut next = || parts.next().flatten();
        let (month, day, hour) = (next()?, next()?, next()?);
        let (minute, second) = (next()?, next()?);
        let sane = (1..=12).contains(&month) && (1..=31).contains(&day) && hour < 24;
        if rest.len() != 10 || !sane || 59 < minute || 60 < second {
            return None;
        }
        Some(days(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second)
    }
}

fn number(digits: &[u8]) -> Option<i64> {
    let all = digits.iter().all(u8::is_ascii_digit);
    all.then(|| {
        digits
            .iter()
            .fold(0, |sum, &digit| sum * 10 + i64::from(digit - b'0'))
    })
}

/// Days from 1970-01-01 to a date of the Gregorian calendar. A year begins with March, so that the
/// day that may be missing is its last.
const fn days(year: i64, month: i64, day: i64) -> i64 {
    let (year, month) = if month < 3 {
        (year - 1, month + 9)
    } else {
        (year, month - 3)
    };
    let leap_days = year / 4 - year / 100 + year / 400;
    // 1970-01-01 is 719,468 days after 0000-03-01.
    year * 365 + leap_days + (month * 153 + 2) / 5 + day - 1 - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_unix_seconds() {
        for (tag, text, expect) in [
            (UTC_TIME, "700101000000Z", Some(0)),
            (UTC_TIME, "000301000000Z", Some(951_868_800)),
            (UTC_TIME, "491231235959Z", Some(2_524_607_999)),
            (UTC_TIME, "500101000000Z", Some(-631_152_000)),
            (GENERALIZED_TIME, "20240229120000Z", Some(1_709_208_000)),
            (GENERALIZED_TIME, "99991231235959Z", Some(253_402_300_799)),
            (UTC_TIME, "20240229120000Z", None),
            (GENERALIZED_TIME, "20241329120000Z", None),
            (GENERALIZED_TIME, "20240229120000", None),
            (GENERALIZED_TIME, "2024", None),
            (INTEGER, "700101000000Z", None),
        ] {
            let mut value = vec![tag, text.len() as u8];
            value.extend(text.as_bytes());
            assert_eq!(Reader(&value).time(), expect, "{tag:x} {text}");
        }
    }

    #[test]
    fn nothing_but_a_certificate_has_an_outline() {
        for wrong in [
            &[][..],
            &[SEQUENCE],
            &[SEQUENCE, 0x84, 1, 1, 1, 1],
            &[SEQUENCE, 5, 1],
        ] {
            assert_eq!(outline(wrong), None, "{wrong:?}");
        }
    }
}
