//! Payload of a publication: which measurement it belongs to, when it was due, and filler; and the
//! count of those that arrived. Plain ASCII, so that every server may send it as text.

use hdrhistogram::Histogram;

pub(crate) const PAYLOAD_BYTES: usize = 128;

const DIGITS: usize = 16;

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

/// Longest latency that is recorded exactly, in µs.
const LATENCY_US_MAX: u64 = 60_000_000;

#[derive(Debug)]
pub(super) struct Tally {
    run: u64,
    pub(super) deliveries: u64,
    /// Anything else: leftovers of an earlier measurement, or not what was published.
    pub(super) strays: u64,
    /// From the moment a publication was due to its delivery's read, in µs.
    pub(super) latency_us: Histogram<u64>,
}

impl Tally {
    pub(super) fn new() -> Self {
        // Two digits are 1 %, and the bounds are constants that fit each other.
        let latency_us = Histogram::new_with_max(LATENCY_US_MAX, 2).expect("bounds fit");
        Self {
            run: 0,
            deliveries: 0,
            strays: 0,
            latency_us,
        }
    }

    /// Forgets everything; what was published before is not counted from now on.
    pub(super) fn begin(&mut self) -> u64 {
        self.run += 1;
        self.deliveries = 0;
        self.strays = 0;
        self.latency_us.reset();
        self.run
    }

    pub(super) fn on_message(&mut self, data: &[u8], now_ns: u64) {
        match Stamp::decode(data) {
            Some(stamp) if stamp.run == self.run => {
                self.deliveries += 1;
                self.latency_us
                    .saturating_record(now_ns.saturating_sub(stamp.due_ns) / 1000);
            }
            _ => self.strays += 1,
        }
    }
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

    #[test]
    fn only_this_measurement_counts() {
        let mut tally = Tally::new();
        let old = tally.begin();
        let run = tally.begin();
        tally.on_message(
            &Stamp {
                run: old,
                due_ns: 0,
            }
            .encode(),
            5_000,
        );
        tally.on_message(b"[connected]", 5_000);
        assert_eq!((tally.deliveries, tally.strays), (0, 2));
        tally.on_message(&Stamp { run, due_ns: 2_000 }.encode(), 5_000);
        assert_eq!(tally.deliveries, 1);
        assert_eq!(tally.latency_us.max(), 3);
        tally.begin();
        assert_eq!((tally.deliveries, tally.latency_us.len()), (0, 0));
    }
}
