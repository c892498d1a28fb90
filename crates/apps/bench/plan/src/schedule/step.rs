//! The search for the highest rate that still keeps a promise (`--until p99<50ms`).
//!
//! Grows the rate while the promise holds, then halves the gap between the best rate that held and
//! the lowest that did not, until the gap is small enough.

use serde::{Deserialize, Serialize};
use throng_types::units;

/// How the rate grows while the promise holds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Growth {
    /// By so many events per second with each step; the search stops at the first rate that fails.
    Add(f64),
    /// By this factor (above 1), then by bisection.
    Multiply(f64),
}

impl Growth {
    /// `x2` multiplies, `+500/s` adds.
    ///
    /// # Errors
    /// A sentence that says what to write instead.
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

/// Events per second.
///
/// # Errors
/// A sentence that says what to write instead; zero is no rate.
pub(crate) fn positive_rate(text: &str) -> Result<f64, String> {
    let per_s = units::parse_rate_per_s(text)?;
    if per_s <= 0.0 {
        return Err("a rate must be above zero".into());
    }
    Ok(per_s)
}

/// The state of a search. Ask for [`Stepper::rate`], run a step with it, report with
/// [`Stepper::on_result`].
#[derive(Clone, Debug)]
pub struct Stepper {
    growth: Growth,
    rate_max: f64,
    /// The search ends when the gap is at most this share of the best rate.
    precision: f64,
    rate: f64,
    held: Option<f64>,
    broke: Option<f64>,
    done: bool,
}

impl Stepper {
    /// Starts at `start` events per second and never goes above `rate_max`.
    #[must_use]
    pub const fn new(start: f64, rate_max: f64, growth: Growth) -> Self {
        Self {
            growth,
            rate_max,
            precision: 0.05,
            rate: if start < rate_max { start } else { rate_max },
            held: None,
            broke: None,
            done: false,
        }
    }

    /// The rate of the next step; `None` when the search has ended.
    #[must_use]
    pub fn rate(&self) -> Option<f64> {
        (!self.done).then_some(self.rate)
    }

    /// The highest rate that kept the promise, and whether the search has ended.
    #[must_use]
    pub const fn best(&self) -> Option<f64> {
        self.held
    }

    /// The lowest rate that broke the promise.
    #[must_use]
    pub const fn broke_at(&self) -> Option<f64> {
        self.broke
    }

    /// Takes the outcome of a step at [`Stepper::rate`].
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
                self.done = broke - held <= held * self.precision;
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
mod tests {
    use super::*;

    /// Runs a search against a server that holds up to `limit`.
    fn search(mut stepper: Stepper, limit: f64) -> (Vec<f64>, Option<f64>) {
        let mut rates = Vec::new();
        while let Some(rate) = stepper.rate() {
            rates.push(rate);
            assert!(rates.len() < 100, "the search does not end: {rates:?}");
            stepper.on_result(rate <= limit);
        }
        (rates, stepper.best())
    }

    #[test]
    fn steps_are_read() {
        assert_eq!(Growth::parse("x2"), Ok(Growth::Multiply(2.0)));
        assert_eq!(Growth::parse("+500/s"), Ok(Growth::Add(500.0)));
        for wrong in ["2", "x1", "x101", "x", "+", "+x", "+0/s", ""] {
            assert!(Growth::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn multiplying_finds_the_limit_within_five_percent() {
        for limit in [100.0, 999.0, 12_345.0, 640_000.0] {
            let (_, best) = search(Stepper::new(100.0, 1e9, Growth::Multiply(2.0)), limit);
            let best = best.unwrap();
            assert!(best <= limit && best >= limit * 0.94, "{limit}: {best}");
        }
    }

    #[test]
    fn adding_stops_at_the_first_failure() {
        let (rates, best) = search(Stepper::new(1000.0, 1e9, Growth::Add(500.0)), 2200.0);
        assert_eq!(rates, [1000.0, 1500.0, 2000.0, 2500.0]);
        assert_eq!(best, Some(2000.0));
    }

    #[test]
    fn the_ends_are_respected() {
        let (rates, best) = search(Stepper::new(100.0, 300.0, Growth::Multiply(2.0)), 1e9);
        assert_eq!(rates, [100.0, 200.0, 300.0]);
        assert_eq!(best, Some(300.0));
        let (rates, best) = search(Stepper::new(100.0, 300.0, Growth::Multiply(2.0)), 1.0);
        assert_eq!((rates.len(), best), (1, None));
        let (rates, _) = search(Stepper::new(100.0, 300.0, Growth::Multiply(1.0)), 1e9);
        assert_eq!(rates, [100.0]);
    }
}
