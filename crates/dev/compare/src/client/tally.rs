//! What all subscribers received.

use hdrhistogram::Histogram;

use super::payload::Stamp;

/// Longest latency that is recorded exactly, in µs.
const LATENCY_US_MAX: u64 = 60_000_000;

/// Counts of one measurement.
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
