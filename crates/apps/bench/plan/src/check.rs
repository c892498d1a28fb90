//! `--check 'p99<50ms'`: promises that a run must keep, and the exit codes that tell.
//!
//! Owns: the grammar `metric comparator value`, the judgement, the exit codes. Never: computes a
//! figure.
//!
//! ```text
//! check      = metric comparator value
//! metric     = delivery percentile (p50 … p99.99), min, mean, max, connect_pNN, lag_pNN,
//!              or a count or share by name (see `Metric::names`)
//! comparator = < | <= | > | >= | == | !=
//! value      = a number with a unit: us ms s for times, % for shares, k M for counts, KiB for
//!              sizes
//! ```
//!
//! A check without data fails: a run that measured nothing has promised nothing.

mod metric;

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use throng_types::units;

pub use metric::{Figure, Kind, Metric, Unit};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Comparator {
    LessOrEqual,
    GreaterOrEqual,
    Equal,
    NotEqual,
    Less,
    Greater,
}

impl Comparator {
    /// Two characters before one, so that `<=` is not read as `<`.
    const ALL: [(&'static str, Self); 6] = [
        ("<=", Self::LessOrEqual),
        (">=", Self::GreaterOrEqual),
        ("==", Self::Equal),
        ("!=", Self::NotEqual),
        ("<", Self::Less),
        (">", Self::Greater),
    ];

    fn holds(self, actual: f64, bound: f64) -> bool {
        let equal = (actual - bound).abs() <= f64::EPSILON * actual.abs().max(bound.abs());
        match self {
            Self::LessOrEqual => actual < bound || equal,
            Self::GreaterOrEqual => actual > bound || equal,
            Self::Equal => equal,
            Self::NotEqual => !equal,
            Self::Less => actual < bound && !equal,
            Self::Greater => actual > bound && !equal,
        }
    }
}

/// Why a text is not a check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckError(String);

impl fmt::Display for CheckError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for CheckError {}

/// One promise.
#[derive(Clone, Debug, PartialEq)]
pub struct Check {
    text: String,
    metric: Metric,
    comparator: Comparator,
    bound: f64,
}

impl FromStr for Check {
    type Err = CheckError;

    fn from_str(text: &str) -> Result<Self, CheckError> {
        let at = text.find(['<', '>', '=', '!']).ok_or_else(|| {
            CheckError(format!(
                "`{text}` has no comparator; write it like `p99<50ms` or `lost==0`"
            ))
        })?;
        let (name, rest) = text.split_at(at);
        let Some((symbol, comparator)) = Comparator::ALL
            .into_iter()
            .find(|(symbol, _)| rest.starts_with(symbol))
        else {
            return Err(CheckError(format!(
                "`{text}`: the comparators are <, <=, >, >=, == and !="
            )));
        };
        let metric = Metric::parse(name.trim()).map_err(CheckError)?;
        let value = rest[symbol.len()..].trim();
        let bound = match metric.unit() {
            Unit::Time => units::parse_duration_us(value).map(|us| us as f64),
            Unit::Count => value
                .parse::<f64>()
                .ok()
                .filter(|number| number.is_finite() && *number >= 0.0)
                .map_or_else(|| units::parse_count(value).map(|count| count as f64), Ok),
            Unit::Share => units::parse_share(value),
            Unit::Bytes => units::parse_size_bytes(value).map(|bytes| bytes as f64),
            Unit::Rate => units::parse_rate_per_s(value),
        }
        .map_err(|why| CheckError(format!("`{text}`: {why}")))?;
        Ok(Self {
            text: text.trim().to_owned(),
            metric,
            comparator,
            bound,
        })
    }
}

impl fmt::Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Serialize for Check {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text)
    }
}

impl<'de> Deserialize<'de> for Check {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?
            .parse()
            .map_err(serde::de::Error::custom)
    }
}

/// Where the figures come from.
pub trait Facts {
    /// A figure of the run in its unit (µs, counts, shares, bytes, per second); `None` when nothing
    /// was measured.
    fn get(&self, metric: Metric) -> Option<f64>;
}

/// How a check ended.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum Outcome {
    /// The promise was kept.
    Passed {
        /// The figure.
        actual: f64,
    },
    /// The promise was broken.
    Failed {
        /// The figure.
        actual: f64,
    },
    /// Nothing was measured, which is a failure of its own kind.
    NoData,
}

impl Outcome {
    /// Whether the promise was kept.
    #[must_use]
    pub const fn passed(&self) -> bool {
        matches!(self, Self::Passed { .. })
    }
}

impl Check {
    /// What it looks at.
    #[must_use]
    pub const fn metric(&self) -> Metric {
        self.metric
    }

    /// Judges a run.
    #[must_use]
    pub fn judge(&self, facts: &impl Facts) -> Outcome {
        match facts.get(self.metric) {
            Some(actual) if actual.is_finite() => {
                if self.comparator.holds(actual, self.bound) {
                    Outcome::Passed { actual }
                } else {
                    Outcome::Failed { actual }
                }
            }
            _ => Outcome::NoData,
        }
    }
}

/// How the process ends. The numbers are part of the interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Exit {
    /// Everything that was asked for happened.
    Ok = 0,
    /// The run could not be carried out.
    Error = 1,
    /// The command line or the scenario cannot be read.
    Usage = 2,
    /// A check failed.
    CheckFailed = 10,
    /// A check had no data.
    CheckNoData = 11,
    /// The generator was the bottleneck: the figures are not the server's.
    GeneratorSaturated = 12,
    /// The machine cannot hold what was asked for.
    Preflight = 13,
    /// Ended by a signal; results up to then are written.
    Interrupted = 130,
}

impl Exit {
    /// The code for a run that came to its end. A saturated generator outranks the checks, since
    /// its figures mean nothing; a failed check outranks one without data.
    #[must_use]
    pub fn of_run(outcomes: &[Outcome], generator_valid: bool) -> Self {
        if !generator_valid {
            return Self::GeneratorSaturated;
        }
        if outcomes
            .iter()
            .any(|outcome| matches!(outcome, Outcome::Failed { .. }))
        {
            return Self::CheckFailed;
        }
        if outcomes.contains(&Outcome::NoData) {
            return Self::CheckNoData;
        }
        Self::Ok
    }

    /// The number that the process returns.
    #[must_use]
    pub const fn code(self) -> u8 {
        self as u8
    }
}

#[cfg(test)]
mod tests;
