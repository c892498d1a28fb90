//! What is published: which measurement it belongs to, when it was due, and filler.
//!
//! Plain ASCII, so that every server may send it as text.

/// The length of every publication.
pub(crate) const PAYLOAD_BYTES: usize = 128;

const DIGITS: usize = 16;

/// Measurement and due time that a payload carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stamp {
    pub(super) run: u64,
    /// When it was due, in ns of the client's clock.
    pub(super) due_ns: u64,
}

impl Stamp {
    pub(super) fn encode(self) -> [u8; PAYLOAD_BYTES] {
        let mut payload = [b'.'; PAYLOAD_BYTES];
        write_hex(self.run, &mut payload[..DIGITS]);
        write_hex(self.due_ns, &mut payload[DIGITS..2 * DIGITS]);
        payload
    }

    /// None if these bytes were not published by us, or not delivered whole.
    pub(super) fn decode(payload: &[u8]) -> Option<Self> {
        let payload: &[u8; PAYLOAD_BYTES] = payload.try_into().ok()?;
        Some(Self {
            run: read_hex(&payload[..DIGITS])?,
            due_ns: read_hex(&payload[DIGITS..2 * DIGITS])?,
        })
    }
}

fn write_hex(value: u64, out: &mut [u8]) {
    for (n, byte) in out.iter_mut().rev().enumerate() {
        *byte = b"0123456789abcdef"[(value >> (4 * n)) as usize & 15];
    }
}

fn read_hex(digits: &[u8]) -> Option<u64> {
    digits.iter().try_fold(0, |value, &digit| {
        let digit = match digit {
            b'0'..=b'9' => digit - b'0',
            b'a'..=b'f' => digit - b'a' + 10,
            _ => return None,
        };
        Some(value << 4 | u64::from(digit))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stamp_comes_back() {
        for (run, due_ns) in [(0, 0), (1, u64::MAX), (0x0123_4567_89ab_cdef, 42)] {
            let stamp = Stamp { run, due_ns };
            let payload = stamp.encode();
            assert!(payload.is_ascii());
            assert_eq!(Stamp::decode(&payload), Some(stamp));
        }
    }

    #[test]
    fn what_was_changed_on_the_way_is_noticed() {
        let payload = Stamp { run: 7, due_ns: 9 }.encode();
        assert_eq!(Stamp::decode(&payload[1..]), None);
        assert_eq!(Stamp::decode(&[&payload[..], b"."].concat()), None);
        let mut other = payload;
        other[3] = b'"';
        assert_eq!(Stamp::decode(&other), None);
    }
}
