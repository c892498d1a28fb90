//! Due times of events: open-loop schedules as pure functions.
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

use serde::{Deserialize, Serialize};

use throng_types::Rng;
use throng_types::units::{grouped, parse_count, parse_duration_us, parse_rate_per_s};

/// Stretch of time with a rate that is constant or changes linearly.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ArrivalPhase {
    pub duration_us: u64,
    pub start_per_s: f64,
    /// Events per second at its end; the same as at the start for a constant rate.
    pub end_per_s: f64,
    /// Most events in the phase (Tsung's `maxnumber`); the phase still takes its time.
    pub events_max: Option<u64>,
}

impl ArrivalPhase {
    pub const fn constant(per_s: f64, duration_us: u64) -> Self {
        Self {
            duration_us,
            start_per_s: per_s,
            end_per_s: per_s,
            events_max: None,
        }
    }

    /// Events that come due before `t_s` seconds into the phase, as a real number.
    fn count_at(&self, t_s: f64) -> f64 {
        t_s.mul_add(self.start_per_s, self.slope_per_s2() * t_s * t_s / 2.0)
    }

    /// Number of events in the phase, as a real number.
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

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Schedule {
    phases: Vec<ArrivalPhase>,
}

impl Schedule {
    pub const fn new(phases: Vec<ArrivalPhase>) -> Self {
        Self { phases }
    }

    /// Schedules `count` events at a constant rate; ends with the last of them.
    pub fn of_count(count: u64, per_s: f64) -> Self {
        let duration_us = (count as f64 / per_s * 1e6).ceil() as u64;
        Self::new(vec![ArrivalPhase {
            events_max: Some(count),
            ..ArrivalPhase::constant(per_s, duration_us)
        }])
    }

    pub fn duration_us(&self) -> u64 {
        self.phases.iter().map(|phase| phase.duration_us).sum()
    }

    pub fn count(&self) -> u64 {
        let all: f64 = self.phases.iter().map(ArrivalPhase::count).sum();
        // The first event is due at the start, so a phase of 9.5 has ten; a whole number is itself
        // in spite of rounding errors.
        (all - 1e-6).ceil().max(0.0) as u64
    }

    /// Due time of the k-th event (from 0), in µs from the start; `None` past the end.
    pub fn at(&self, k: u64) -> Option<u64> {
        if k >= self.count() {
            return None;
        }
        self.time_of_count(k as f64)
    }

    /// Time at which `count` events have come due, in µs from the start; `None` if never.
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

    /// Multiplies every rate and bound: a tenth of the users at a tenth of the rate.
    pub fn scaled(&self, factor: f64) -> Self {
        let phases = self.phases.iter().map(|phase| ArrivalPhase {
            duration_us: phase.duration_us,
            start_per_s: phase.start_per_s * factor,
            end_per_s: phase.end_per_s * factor,
            events_max: phase
                .events_max
                .map(|max| ((max as f64 * factor).round() as u64).max(1)),
        });
        Self::new(phases.collect())
    }

    /// Cuts off the time in which nothing more comes due.
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

    /// Cuts the schedule off after `duration_us`; a ramp keeps its slope.
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
            phases.push(ArrivalPhase {
                duration_us: taken_us,
                end_per_s,
                ..*phase
            });
            left_us -= taken_us;
        }
        Self::new(phases)
    }
}

/// Spread of events around their rate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Spread {
    #[default]
    Even,
    /// Poisson process: exponential gaps, as Tsung's arrivals.
    Poisson,
}

/// Iterator over the due times of a schedule, event by event.
#[derive(Clone, Debug)]
pub struct Pacer<'a> {
    schedule: &'a Schedule,
    spread: Spread,
    rng: Rng,
    k: u64,
    count: f64,
}

impl<'a> Pacer<'a> {
    /// Begins at the schedule's first event; the seed matters for [`Spread::Poisson`] alone.
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
    /// Due time in µs from the start.
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

/// Stage of a load: within its time the connections grow evenly to its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stage {
    pub clients: u64,
    pub duration_us: u64,
}

impl Stage {
    /// Reads `10k:2m`: ten thousand connections after two minutes.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (clients, duration) = text.split_once(':').ok_or_else(|| {
            format!("`{text}` is not a stage; write `10k:2m` for 10,000 connections within 2 min")
        })?;
        let stage = Self {
            clients: parse_count(clients)?,
            duration_us: parse_duration_us(duration)?,
        };
        match stage.duration_us {
            0 => Err(format!("`{text}`: a stage takes some time, such as 10s")),
            _ => Ok(stage),
        }
    }

    /// Makes the arrivals of stages one after another. A stage with the number of the one before it
    /// waits.
    pub fn schedule(stages: &[Self]) -> Result<Schedule, String> {
        let mut before = 0;
        let phases = stages.iter().map(|stage| {
            let more = stage.clients.checked_sub(before).ok_or_else(|| {
                format!(
                    "a stage with {} connections cannot follow one with {}: connections that have \
                     come stay (--lifetime ends them)",
                    grouped(stage.clients),
                    grouped(before)
                )
            })?;
            before = stage.clients;
            let per_s = more as f64 * 1e6 / stage.duration_us as f64;
            Ok(ArrivalPhase {
                events_max: (more > 0).then_some(more),
                ..ArrivalPhase::constant(per_s, stage.duration_us)
            })
        });
        phases.collect::<Result<_, String>>().map(Schedule::new)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Growth {
    /// Adds so many events per second with each step; the search stops at the first failure.
    Add(f64),
    /// Multiplies by this factor (above 1), then bisects.
    Multiply(f64),
}

impl Growth {
    /// Reads `x2`, which multiplies, or `+500/s`, which adds.
    pub fn parse(text: &str) -> Result<Self, String> {
        if let Some(factor) = text.strip_prefix('x') {
            return match factor.parse::<f64>() {
                Ok(factor) if factor > 1.0 && factor <= 100.0 => Ok(Self::Multiply(factor)),
                _ => Err(format!(
                    "`{text}`: the factor must be above 1 and at most 100"
                )),
            };
        }
        let rate = text.strip_prefix('+');
        let rate = rate.ok_or_else(|| format!("`{text}` is not a step; write `x2` or `+500/s`"))?;
        positive_rate(rate).map(Self::Add)
    }
}

pub(crate) fn positive_rate(text: &str) -> Result<f64, String> {
    let per_s = parse_rate_per_s(text)?;
    if per_s <= 0.0 {
        return Err("a rate must be above zero".into());
    }
    Ok(per_s)
}

/// Share of the best rate at which the gap above it ends a search.
const PRECISION: f64 = 0.05;

/// Search for the highest rate that passes a check. Grows the rate while the check passes, then
/// halves the gap between the best rate that passed and the lowest that failed. Ask for
/// [`Stepper::rate`], run a step with it, report with [`Stepper::on_result`].
#[derive(Clone, Debug)]
pub struct Stepper {
    growth: Growth,
    rate_max: f64,
    rate: f64,
    held: Option<f64>,
    broke: Option<f64>,
    done: bool,
}

impl Stepper {
    /// Starts at `start` events per second and never goes above `rate_max`.
    pub const fn new(start: f64, rate_max: f64, growth: Growth) -> Self {
        Self {
            growth,
            rate_max,
            rate: if start < rate_max { start } else { rate_max },
            held: None,
            broke: None,
            done: false,
        }
    }

    /// Rate of the next step; `None` when the search has ended.
    pub fn rate(&self) -> Option<f64> {
        (!self.done).then_some(self.rate)
    }

    pub const fn best(&self) -> Option<f64> {
        self.held
    }

    pub const fn broke_at(&self) -> Option<f64> {
        self.broke
    }

    pub fn on_result(&mut self, held: bool) {
        if self.done {
            return;
        }
        if held {
            self.held = Some(self.rate);
        } else {
            self.broke = Some(self.rate);
        }
        match (self.held, self.broke, self.growth) {
            (_, Some(_), Growth::Add(_)) | (None, Some(_), Growth::Multiply(_)) => self.done = true,
            (Some(held), Some(broke), Growth::Multiply(_)) => {
                self.done = broke - held <= held * PRECISION;
                self.rate = f64::midpoint(held, broke);
            }
            (_, None, growth) => {
                self.done = self.rate >= self.rate_max;
                let next = match growth {
                    Growth::Add(by) => self.rate + by,
                    Growth::Multiply(by) => self.rate * by,
                };
                // A growth that does not grow would search forever.
                self.done |= next <= self.rate;
                self.rate = next.min(self.rate_max);
            }
        }
    }
}

#[cfg(test)]
mod tests;
