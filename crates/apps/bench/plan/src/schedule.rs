//! When each event is due: open-loop schedules as pure functions.
//!
//! Owns: the arithmetic from an event's number to its time, for rates, ramps and phases one after
//! another, and the search for the highest rate that holds. Never: waits, reads a clock.
//!
//! An open loop fixes beforehand when each event is due, and measures from there. A generator that
//! waits for the server before it sends again measures only the moments at which the server was
//! well (coordinated omission).
//!
//! Invariants
//! - Due times never decrease with the event's number.
//! - The schedule ends with its last phase.

mod stage;
mod step;

use serde::{Deserialize, Serialize};

use throng_types::Rng;

pub use stage::Stage;
pub(crate) use step::positive_rate;
pub use step::{Growth, Stepper};

/// A stretch of time with a rate that is constant or changes linearly.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Phase {
    /// How long it lasts, in µs.
    pub duration_us: u64,
    /// Events per second at its start.
    pub start_per_s: f64,
    /// Events per second at its end; the same as at the start for a constant rate.
    pub end_per_s: f64,
    /// No more events than this in the phase (Tsung's `maxnumber`); the phase still takes its time.
    pub events_max: Option<u64>,
}

impl Phase {
    /// A constant rate.
    #[must_use]
    pub const fn constant(per_s: f64, duration_us: u64) -> Self {
        Self {
            duration_us,
            start_per_s: per_s,
            end_per_s: per_s,
            events_max: None,
        }
    }

    /// A rate that changes linearly.
    #[must_use]
    pub const fn ramp(start_per_s: f64, end_per_s: f64, duration_us: u64) -> Self {
        Self {
            duration_us,
            start_per_s,
            end_per_s,
            events_max: None,
        }
    }

    /// Events that come due before `t_s` seconds into the phase, as a real number.
    fn count_at(&self, t_s: f64) -> f64 {
        t_s.mul_add(self.start_per_s, self.slope_per_s2() * t_s * t_s / 2.0)
    }

    /// How many events the phase holds, as a real number.
    fn count(&self) -> f64 {
        let all = self.count_at(self.duration_us as f64 / 1e6);
        self.events_max.map_or(all, |max| all.min(max as f64))
    }

    fn slope_per_s2(&self) -> f64 {
        if self.duration_us == 0 {
            return 0.0;
        }
        (self.end_per_s - self.start_per_s) / (self.duration_us as f64 / 1e6)
    }

    /// Seconds into the phase at which `count` events have come due.
    fn time_of(&self, count: f64) -> f64 {
        if count <= 0.0 {
            return 0.0;
        }
        // The positive root of slope/2 t² + start t = count, in the form that stays exact when
        // the slope is zero or small.
        let discriminant = 2.0_f64
            .mul_add(
                self.slope_per_s2() * count,
                self.start_per_s * self.start_per_s,
            )
            .max(0.0);
        let divisor = self.start_per_s + discriminant.sqrt();
        if divisor <= 0.0 {
            return self.duration_us as f64 / 1e6;
        }
        2.0 * count / divisor
    }
}

/// Phases one after another.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Schedule {
    phases: Vec<Phase>,
}

impl Schedule {
    /// Phases in the order in which they run.
    #[must_use]
    pub const fn new(phases: Vec<Phase>) -> Self {
        Self { phases }
    }

    /// `count` events at a constant rate; the schedule ends with the last of them.
    #[must_use]
    pub fn of_count(count: u64, per_s: f64) -> Self {
        let duration_us = (count as f64 / per_s * 1e6).ceil() as u64;
        Self::new(vec![Phase {
            events_max: Some(count),
            ..Phase::constant(per_s, duration_us)
        }])
    }

    /// The phases.
    #[must_use]
    pub fn phases(&self) -> &[Phase] {
        &self.phases
    }

    /// How long all phases last, in µs.
    #[must_use]
    pub fn duration_us(&self) -> u64 {
        self.phases.iter().map(|phase| phase.duration_us).sum()
    }

    /// How many events there are: those due before the end.
    #[must_use]
    pub fn count(&self) -> u64 {
        let all: f64 = self.phases.iter().map(Phase::count).sum();
        // The first event is due at the start, so a phase of 9.5 has ten; a whole number is itself
        // in spite of rounding errors.
        (all - 1e-6).ceil().max(0.0) as u64
    }

    /// When the k-th event (from 0) is due, in µs from the start; `None` past the end.
    #[must_use]
    pub fn at(&self, k: u64) -> Option<u64> {
        if k >= self.count() {
            return None;
        }
        self.time_of_count(k as f64)
    }

    /// When `count` events have come due, in µs from the start; `None` when that never happens.
    fn time_of_count(&self, mut count: f64) -> Option<u64> {
        let mut start_us = 0;
        for phase in &self.phases {
            let held = phase.count();
            // Exactly at the border, the event is the next phase's first one.
            if count < held {
                let into_us = (phase.time_of(count) * 1e6).round() as u64;
                return Some(start_us + into_us.min(phase.duration_us));
            }
            count -= held;
            start_us += phase.duration_us;
        }
        None
    }

    /// The same shape with every rate and bound multiplied: a tenth of the users at a tenth of the
    /// rate.
    #[must_use]
    pub fn scaled(&self, factor: f64) -> Self {
        let phases = self.phases.iter().map(|phase| Phase {
            duration_us: phase.duration_us,
            start_per_s: phase.start_per_s * factor,
            end_per_s: phase.end_per_s * factor,
            events_max: phase
                .events_max
                .map(|max| ((max as f64 * factor).round() as u64).max(1)),
        });
        Self::new(phases.collect())
    }

    /// The schedule without the time in which nothing more comes due.
    #[must_use]
    pub fn trimmed(&self) -> Self {
        let mut phases = self.phases.clone();
        while let Some(last) = phases.last_mut() {
            let count = last.count();
            if count > 0.0 {
                let end_us = (last.time_of(count) * 1e6).ceil() as u64;
                if end_us < last.duration_us {
                    last.end_per_s = last
                        .slope_per_s2()
                        .mul_add(end_us as f64 / 1e6, last.start_per_s);
                    last.duration_us = end_us;
                }
                break;
            }
            phases.pop();
        }
        Self::new(phases)
    }

    /// The schedule cut off after `duration_us`; a ramp keeps its slope.
    #[must_use]
    pub fn truncated(&self, duration_us: u64) -> Self {
        let mut left_us = duration_us;
        let mut phases = Vec::new();
        for phase in &self.phases {
            if left_us == 0 {
                break;
            }
            let taken_us = phase.duration_us.min(left_us);
            let end_per_s = phase
                .slope_per_s2()
                .mul_add(taken_us as f64 / 1e6, phase.start_per_s);
            phases.push(Phase {
                duration_us: taken_us,
                end_per_s,
                ..*phase
            });
            left_us -= taken_us;
        }
        Self::new(phases)
    }
}

/// How events spread around their rate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Spread {
    /// At equal distances.
    #[default]
    Even,
    /// As a Poisson process: exponential gaps, as Tsung's arrivals.
    Poisson,
}

/// Walks through a schedule, event by event.
#[derive(Clone, Debug)]
pub struct Pacer<'a> {
    schedule: &'a Schedule,
    spread: Spread,
    rng: Rng,
    k: u64,
    count: f64,
}

impl<'a> Pacer<'a> {
    /// From the schedule's first event; the seed matters for [`Spread::Poisson`] alone.
    #[must_use]
    pub const fn new(schedule: &'a Schedule, spread: Spread, seed: u64) -> Self {
        Self {
            schedule,
            spread,
            rng: Rng::new(seed),
            k: 0,
            count: 0.0,
        }
    }
}

impl Iterator for Pacer<'_> {
    /// µs from the start.
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        let k = self.k;
        self.k += 1;
        match self.spread {
            Spread::Even => self.schedule.at(k),
            Spread::Poisson => {
                // A process of unit rate, stretched by the schedule's own count, has the
                // schedule's rate at every moment, in ramps too.
                self.count += self.rng.exponential();
                self.schedule.time_of_count(self.count)
            }
        }
    }
}

#[cfg(test)]
mod tests;
