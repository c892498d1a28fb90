//! Offset of an agent's clock to the controller's, with its error.
//!
//! Each probe is four readings, as in NTP: sent and returned on the controller's clock, received
//! and replied on the agent's. The probe with the shortest way there and back is the best one,
//! since queues only ever add. Its offset is wrong by at most half of that way, however the two
//! directions share it.

/// Number of probes that an estimate takes.
pub const PROBES: usize = 16;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockEstimate {
    /// Agent's clock minus the controller's, µs.
    pub offset_us: i64,
    /// Largest error of the offset, µs.
    pub error_us: u64,
}

impl ClockEstimate {
    /// Converts a reading of the controller's clock to the agent's.
    pub const fn to_agent_us(&self, controller_us: u64) -> u64 {
        controller_us.saturating_add_signed(self.offset_us)
    }
}

#[derive(Clone, Debug, Default)]
pub struct ClockEstimator {
    best: Option<ClockEstimate>,
    probes: usize,
}

impl ClockEstimator {
    /// Takes a probe. Readings that run backwards are of a broken clock and count as a probe
    /// without a result.
    pub fn on_probe(&mut self, sent_us: u64, received_us: u64, replied_us: u64, returned_us: u64) {
        self.probes += 1;
        let whole = returned_us.checked_sub(sent_us);
        let there = replied_us.checked_sub(received_us);
        // An agent that claims to have held the probe longer than it was away is lying or broken.
        let Some(way_us) = whole
            .zip(there)
            .and_then(|(whole, there)| whole.checked_sub(there))
        else {
            return;
        };
        let out = i128::from(received_us) - i128::from(sent_us);
        let back = i128::from(replied_us) - i128::from(returned_us);
        let Ok(offset_us) = i64::try_from((out + back) / 2) else {
            return;
        };
        let error_us = way_us.div_ceil(2);
        if self.best.is_none_or(|best| error_us < best.error_us) {
            self.best = Some(ClockEstimate {
                offset_us,
                error_us,
            });
        }
    }

    pub const fn probes(&self) -> usize {
        self.probes
    }

    /// Best estimate so far; none without a usable probe.
    pub const fn estimate(&self) -> Option<ClockEstimate> {
        self.best
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{prop_assert, proptest};

    use super::*;

    #[test]
    fn the_shortest_way_wins() {
        let mut clock = ClockEstimator::default();
        clock.on_probe(1000, 6500, 6510, 2010);
        clock.on_probe(3000, 8050, 8060, 3110);
        assert_eq!(
            clock.estimate(),
            Some(ClockEstimate {
                offset_us: 5000,
                error_us: 50
            })
        );
        assert_eq!(clock.estimate().unwrap().to_agent_us(10), 5010);
    }

    #[test]
    fn impossible_probes_give_nothing() {
        let mut clock = ClockEstimator::default();
        clock.on_probe(10, 5, 4, 20);
        clock.on_probe(20, 5, 6, 10);
        clock.on_probe(10, 5, 500, 20);
        clock.on_probe(0, u64::MAX, u64::MAX, 1);
        assert_eq!((clock.probes(), clock.estimate()), (4, None));
    }

    proptest! {
        #[test]
        fn the_true_offset_is_within_the_stated_error(
            offset in -1_000_000_i64..1_000_000,
            ways in proptest::collection::vec((0_u64..50_000, 0_u64..50_000, 0_u64..1000), 1..20),
        ) {
            let mut clock = ClockEstimator::default();
            let mut now = 10_000_000_u64;
            for (out, back, held) in ways {
                let agent = |at: u64| at.checked_add_signed(offset).unwrap();
                let (received, replied) = (now + out, now + out + held);
                    clock.on_probe(now, agent(received), agent(replied), replied + back);
                now += 1_000_000;
            }
            let estimate = clock.estimate().unwrap();
            prop_assert!((estimate.offset_us - offset).unsigned_abs() <= estimate.error_us);
        }
    }
}
