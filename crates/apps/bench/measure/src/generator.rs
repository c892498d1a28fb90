//! Verdict on the generator itself: a run in which it did not keep up says nothing about the
//! server.
//!
//! Owns: the generator's lag behind its own schedule, its threads' load, and the verdict.

use serde::{Deserialize, Serialize};

use crate::Latency;

/// Largest 99th percentile of its own lag, as a share of the measured 99th percentile, unless a run
/// asks for another.
pub const LAG_SHARE_MAX: f64 = 0.1;
/// Lag in µs that is always allowed.
const LAG_FLOOR_US: f64 = 1000.0;
/// Share of one CPU above which a thread has no reserve.
const BUSY_MAX: f64 = 0.9;
/// Largest share of a thread's seconds above [`BUSY_MAX`].
const BUSY_SECONDS_SHARE_MAX: f64 = 0.1;
/// Largest share of due events that were never begun.
const MISSED_SHARE_MAX: f64 = 0.001;

/// Observations of the generator about itself, over all its threads and machines.
#[derive(Clone, Debug, Default)]
pub struct GeneratorHealth {
    /// Time from when each event was due until it was begun.
    pub lag: Latency,
    pub thread_seconds: u64,
    /// Seconds of threads that were busier than the limit.
    pub busy_seconds: u64,
    /// Busiest second of any thread, as a share of one CPU.
    pub busiest: f64,
    pub due_events: u64,
    pub missed_events: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "verdict", rename_all = "snake_case")]
pub enum RunVerdict {
    Valid,
    /// Some of the figures, or all, are not the server's.
    Invalid {
        reasons: Vec<String>,
        /// True if latencies alone are meant, so that counts, memory and CPU still stand.
        #[serde(default)]
        latency_alone: bool,
    },
}

impl RunVerdict {
    pub const fn is_valid(&self) -> bool {
        matches!(self, Self::Valid)
    }

    /// Says what to make of the figures, in one sentence; nothing if all of them count.
    pub const fn warning(&self) -> Option<&'static str> {
        match self {
            Self::Valid => None,
            Self::Invalid {
                latency_alone: true,
                ..
            } => Some(
                "latencies include delays of the generator; counts, and the server's memory and \
                 CPU, are right",
            ),
            Self::Invalid { .. } => {
                Some("the generator was the bottleneck; the figures are not the server's")
            }
        }
    }
}

impl GeneratorHealth {
    /// Counts one second of one thread, which used `busy` of one CPU.
    pub fn on_thread_second(&mut self, busy: f64) {
        self.thread_seconds += 1;
        self.busy_seconds += u64::from(busy > BUSY_MAX);
        self.busiest = self.busiest.max(busy);
    }

    /// Judges the run. `measured_p99_us` is what the run found for the server, where it measured
    /// latency: what begins late is measured late, so lag counts by its share of that. Where no
    /// latency was measured, lag changes no figure.
    pub fn verdict(&self, measured_p99_us: Option<u64>, lag_share_max: f64) -> RunVerdict {
        let mut reasons = Vec::new();
        if let Some((lag_us, p99_us)) = self.lag.percentile_us(99.0).zip(measured_p99_us) {
            let bound_us = (p99_us as f64 * lag_share_max).max(LAG_FLOOR_US);
            if lag_us as f64 > bound_us {
                reasons.push(self.late(lag_us, p99_us, bound_us));
            }
        }
        let late = reasons.len();
        let busy_share = share(self.busy_seconds, self.thread_seconds);
        if busy_share > BUSY_SECONDS_SHARE_MAX {
            reasons.push(format!(
                "the generator's threads had no reserve: above {:.0} % of a CPU in {:.0} % of \
                 their seconds",
                BUSY_MAX * 100.0,
                busy_share * 100.0
            ));
        }
        let missed_share = share(self.missed_events, self.due_events);
        if missed_share > MISSED_SHARE_MAX {
            reasons.push(format!(
                "{} of {} events that were due were never begun",
                self.missed_events, self.due_events
            ));
        }
        if reasons.is_empty() {
            RunVerdict::Valid
        } else {
            RunVerdict::Invalid {
                latency_alone: reasons.len() == late,
                reasons,
            }
        }
    }

    /// Blames a generator without reserves, or a machine that gave it no processor in time.
    fn late(&self, lag_us: u64, p99_us: u64, bound_us: f64) -> String {
        let who = if self.busiest > BUSY_MAX {
            "the generator was busy".to_owned()
        } else {
            format!(
                "the machine was busy with other things (the generator's threads used {:.0} % of \
                 a CPU at most)",
                self.busiest * 100.0
            )
        };
        format!(
            "{who}: events began up to {:.1} ms late (99th percentile), which is part of the \
             measured 99th percentile of {:.1} ms; {:.1} ms is the bound (--lag-tolerance)",
            lag_us as f64 / 1000.0,
            p99_us as f64 / 1000.0,
            bound_us / 1000.0
        )
    }
}

fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 {
        0.0
    } else {
        part as f64 / whole as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reasons(health: &GeneratorHealth, p99: Option<u64>) -> usize {
        match health.verdict(p99, LAG_SHARE_MAX) {
            RunVerdict::Valid => 0,
            RunVerdict::Invalid { reasons, .. } => reasons.len(),
        }
    }

    #[test]
    fn an_idle_generator_is_valid() {
        assert_eq!(reasons(&GeneratorHealth::default(), None), 0);
        let mut health = GeneratorHealth::default();
        (0..100).for_each(|k| health.on_thread_second(if k < 10 { 0.99 } else { 0.3 }));
        assert_eq!(reasons(&health, Some(5000)), 0);
    }

    #[test]
    fn lag_counts_against_what_was_measured() {
        let mut health = GeneratorHealth::default();
        (0..100).for_each(|_| health.lag.record_us(4000));
        assert_eq!(reasons(&health, None), 0, "no latency is reported");
        assert_eq!(reasons(&health, Some(10_000)), 1);
        assert_eq!(reasons(&health, Some(50_000)), 0);
        assert!(health.verdict(Some(10_000), 0.5).is_valid());
    }

    #[test]
    fn a_busy_machine_and_a_busy_generator_are_told_apart() {
        let mut health = GeneratorHealth::default();
        health.lag.record_us(4000);
        health.on_thread_second(0.01);
        let said = |health: &GeneratorHealth| match health.verdict(Some(5000), LAG_SHARE_MAX) {
            RunVerdict::Valid => panic!("4 ms of 5 ms are not the server's"),
            RunVerdict::Invalid {
                reasons,
                latency_alone,
            } => (reasons.join(" "), latency_alone),
        };
        let (why, latency_alone) = said(&health);
        assert!(why.contains("the machine was busy") && why.contains("1 % of a CPU"));
        assert!(latency_alone, "counts stand");
        (0..9).for_each(|_| health.on_thread_second(0.99));
        let (why, latency_alone) = said(&health);
        assert!(why.contains("the generator was busy"), "{why}");
        assert!(!latency_alone, "it had no reserve");
    }

    #[test]
    fn every_reason_is_named() {
        let mut health = GeneratorHealth {
            due_events: 1000,
            missed_events: 2,
            ..GeneratorHealth::default()
        };
        (0..10).for_each(|_| health.on_thread_second(0.95));
        health.lag.record_us(1_000_000);
        assert_eq!(reasons(&health, Some(1000)), 3);
    }
}
