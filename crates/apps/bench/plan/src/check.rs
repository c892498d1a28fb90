//! `--check 'p99<50ms'`: conditions that a run must meet, and the exit codes that tell.
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
//! A check without data fails: a run that measured nothing meets no condition.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use throng_types::{coded_enum, nearest, units};

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

#[derive(Clone, Debug, PartialEq)]
pub struct Check {
    text: String,
    metric: Metric,
    comparator: Comparator,
    bound: f64,
}

impl FromStr for Check {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let at = text.find(['<', '>', '=', '!']).ok_or_else(|| {
            format!("`{text}` has no comparator; write it like `p99<50ms` or `lost==0`")
        })?;
        let (name, rest) = text.split_at(at);
        let Some((symbol, comparator)) = Comparator::ALL
            .into_iter()
            .find(|(symbol, _)| rest.starts_with(symbol))
        else {
            return Err(format!(
                "`{text}`: the comparators are <, <=, >, >=, == and !="
            ));
        };
        let metric = Metric::parse(name.trim())?;
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
        .map_err(|why| format!("`{text}`: {why}"))?;
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

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum CheckOutcome {
    Passed {
        actual: f64,
    },
    Failed {
        actual: f64,
    },
    /// Nothing was measured, a failure of its own kind.
    NoData,
}

impl CheckOutcome {
    pub const fn passed(&self) -> bool {
        matches!(self, Self::Passed { .. })
    }
}

impl Check {
    pub const fn metric(&self) -> Metric {
        self.metric
    }

    /// Judges the figure of a run in its unit (µs, counts, shares, bytes, per second); none when
    /// nothing was measured.
    pub fn judge(&self, figure: Option<f64>) -> CheckOutcome {
        match figure {
            Some(actual) if !actual.is_finite() => CheckOutcome::NoData,
            Some(actual) if self.comparator.holds(actual, self.bound) => {
                CheckOutcome::Passed { actual }
            }
            Some(actual) => CheckOutcome::Failed { actual },
            None => CheckOutcome::NoData,
        }
    }
}

/// Exit code of the process. The numbers are part of the interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum BenchExit {
    Ok = 0,
    Error = 1,
    CheckFailed = 10,
    CheckNoData = 11,
    /// The generator was the bottleneck: the figures are not the server's.
    GeneratorSaturated = 12,
    /// The machine cannot hold what was asked for.
    Preflight = 13,
    /// Ended by a signal; results up to then are written.
    Interrupted = 130,
}

impl BenchExit {
    /// Chooses the code for a run that came to its end. A failed check outranks one without data,
    /// and both outrank a saturated generator: a run that is repeated for its figures must not hide
    /// them.
    pub fn of_run(outcomes: &[CheckOutcome], generator_valid: bool) -> Self {
        let failed = |outcome: &CheckOutcome| matches!(outcome, CheckOutcome::Failed { .. });
        if outcomes.iter().any(failed) {
            Self::CheckFailed
        } else if outcomes.contains(&CheckOutcome::NoData) {
            Self::CheckNoData
        } else if !generator_valid {
            Self::GeneratorSaturated
        } else {
            Self::Ok
        }
    }

    pub const fn code(self) -> u8 {
        self as u8
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Microseconds; written with a unit of time.
    Time,
    Count,
    /// Share from 0 to 1; written `99.9%` or `0.999`.
    Share,
    Bytes,
    Rate,
}

coded_enum! {
    /// Figure of a run, latencies apart.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub enum Figure {
        fn unit -> Unit;
        fn as_str;
        Attempted = Unit::Count, "attempted";
        TcpConnected = Unit::Count, "connected";
        Upgraded = Unit::Count, "upgraded";
        Subscribed = Unit::Count, "subscribed";
        /// Usable connections at the end of the hold.
        Alive = Unit::Count, "alive";
        Failed = Unit::Count, "failed";
        Lost = Unit::Count, "lost";
        Published = Unit::Count, "published";
        PublishFailed = Unit::Count, "publish_failed";
        Expected = Unit::Count, "expected";
        Received = Unit::Count, "received";
        /// Deliveries that never came.
        Missing = Unit::Count, "missing";
        Duplicates = Unit::Count, "duplicates";
        OutOfOrder = Unit::Count, "out_of_order";
        /// Distinct deliveries over expected ones.
        Reach = Unit::Share, "reach";
        /// Deliveries a second over the measured time.
        DeliveryRate = Unit::Rate, "delivery_rate";
        /// Time until 99.9 % were back and caught up after a reconnect storm.
        BackTime = Unit::Time, "back_time";
        ServerMemory = Unit::Bytes, "server_memory_per_connection";
        /// Server CPU as a share of one CPU, mean over the measured time.
        ServerCpu = Unit::Count, "server_cpu";
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Metric {
    Percentile(LatencyKind, f64),
    Min(LatencyKind),
    Mean(LatencyKind),
    Max(LatencyKind),
    Figure(Figure),
}

coded_enum! {
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum LatencyKind {
        fn prefix;
        Delivery = "";
        Connect = "connect_";
        Lag = "lag_";
    }
}

impl Metric {
    pub const fn unit(self) -> Unit {
        match self {
            Self::Figure(figure) => figure.unit(),
            _ => Unit::Time,
        }
    }

    /// Lists every name, with some percentiles as examples of all.
    pub fn names() -> Vec<&'static str> {
        let latencies = "p50 p90 p95 p99 p99.9 p99.99 min mean max connect_p99 connect_max lag_p99 \
                         lag_max";
        let figures = Figure::ALL.iter().map(|figure| figure.as_str());
        latencies.split(' ').chain(figures).collect()
    }

    /// Lists the metrics with a name of their own in [`Metric::names`].
    pub fn all() -> impl Iterator<Item = Self> {
        // Each name is one that can be read, which a test checks.
        let names = Self::names().into_iter();
        names.filter_map(|name| Self::parse(name).ok())
    }

    pub fn parse(name: &str) -> Result<Self, String> {
        if let Some(figure) = Figure::ALL.iter().find(|figure| figure.as_str() == name) {
            return Ok(Self::Figure(*figure));
        }
        let (kind, rest) = [LatencyKind::Connect, LatencyKind::Lag]
            .into_iter()
            .find_map(|kind| Some((kind, name.strip_prefix(kind.prefix())?)))
            .unwrap_or((LatencyKind::Delivery, name));
        match rest {
            "min" => return Ok(Self::Min(kind)),
            "mean" => return Ok(Self::Mean(kind)),
            "max" => return Ok(Self::Max(kind)),
            _ => {}
        }
        if let Some(digits) = rest.strip_prefix('p')
            && digits.starts_with(|c: char| c.is_ascii_digit())
        {
            return match digits.parse::<f64>() {
                Ok(percentile) if percentile > 0.0 && percentile <= 100.0 => {
                    Ok(Self::Percentile(kind, percentile))
                }
                _ => Err(format!("`{name}` is not a percentile")),
            };
        }
        let help = nearest(name, Self::names()).map_or_else(
            || format!("known are {}", Self::names().join(", ")),
            |near| format!("did you mean `{near}`?"),
        );
        Err(format!("`{name}` is not a metric; {help}"))
    }
}

impl fmt::Display for Metric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Percentile(kind, percentile) => write!(f, "{}p{percentile}", kind.prefix()),
            Self::Min(kind) => write!(f, "{}min", kind.prefix()),
            Self::Mean(kind) => write!(f, "{}mean", kind.prefix()),
            Self::Max(kind) => write!(f, "{}max", kind.prefix()),
            Self::Figure(figure) => f.write_str(figure.as_str()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_can_be_asked_for() {
        for name in Metric::names() {
            let metric = Metric::parse(name).unwrap();
            assert_eq!(metric.to_string(), name);
        }
    }

    #[test]
    fn exit_codes_have_an_order_of_precedence() {
        let (passed, failed) = (
            CheckOutcome::Passed { actual: 1.0 },
            CheckOutcome::Failed { actual: 1.0 },
        );
        for (outcomes, valid, exit) in [
            (vec![], true, BenchExit::Ok),
            (vec![passed], true, BenchExit::Ok),
            (
                vec![passed, CheckOutcome::NoData],
                true,
                BenchExit::CheckNoData,
            ),
            (
                vec![CheckOutcome::NoData, failed],
                true,
                BenchExit::CheckFailed,
            ),
            (vec![failed], false, BenchExit::CheckFailed),
            (vec![CheckOutcome::NoData], false, BenchExit::CheckNoData),
            (vec![passed], false, BenchExit::GeneratorSaturated),
        ] {
            assert_eq!(BenchExit::of_run(&outcomes, valid), exit);
        }
        assert_eq!(BenchExit::Interrupted.code(), 130);
    }

    #[test]
    fn a_check_travels_as_its_text() {
        let check: Check = "p99<50ms".parse().unwrap();
        let json = serde_json::to_string(&check).unwrap();
        assert_eq!(json, "\"p99<50ms\"");
        assert_eq!(serde_json::from_str::<Check>(&json).unwrap(), check);
    }
}
