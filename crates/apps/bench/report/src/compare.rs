//! Two runs side by side: what changed, and which way is better.

use std::fmt::Write as _;

use serde::Serialize;

use super::Results;
use throng_bench_plan::check::{Facts, Figure, Kind, Metric, Unit};
use throng_types::units::grouped;
use throng_types::units::{format_bytes, format_us};

/// Differences below this share are the noise of a run, not a change.
const NOISE: f64 = 0.05;

/// What a difference means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Reading {
    /// B is better.
    Better,
    /// B is worse.
    Worse,
    /// No more than noise.
    Same,
    /// Different, and neither way is better by itself.
    Different,
    /// One of them has no data.
    NoData,
}

impl Reading {
    /// For people.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Better => "better",
            Self::Worse => "worse",
            Self::Same => "same",
            Self::Different => "different",
            Self::NoData => "no data",
        }
    }
}

/// One figure of both runs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// What it is.
    pub name: &'static str,
    /// In A, as people read it.
    pub a: String,
    /// In B, as people read it.
    pub b: String,
    /// (B − A) / A; none without data, or where A is zero and B is not.
    pub change: Option<f64>,
    /// What it means.
    pub reading: Reading,
}

/// Two runs side by side.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// The figures.
    pub rows: Vec<Row>,
    /// Differences of what was asked for, which make figures hard to compare.
    pub warnings: Vec<String>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Best {
    Low,
    High,
    Neither,
}

const FIGURES: &[(&str, Metric, Best)] = &[
    (
        "connections alive",
        Metric::Figure(Figure::Alive),
        Best::High,
    ),
    ("connects failed", Metric::Figure(Figure::Failed), Best::Low),
    ("connections lost", Metric::Figure(Figure::Lost), Best::Low),
    (
        "time to be usable, p50",
        Metric::Percentile(Kind::Connect, 50.0),
        Best::Low,
    ),
    (
        "time to be usable, p99",
        Metric::Percentile(Kind::Connect, 99.0),
        Best::Low,
    ),
    (
        "published",
        Metric::Figure(Figure::Published),
        Best::Neither,
    ),
    (
        "deliveries received",
        Metric::Figure(Figure::Received),
        Best::Neither,
    ),
    (
        "deliveries a second",
        Metric::Figure(Figure::DeliveryRate),
        Best::High,
    ),
    (
        "deliveries missing",
        Metric::Figure(Figure::Missing),
        Best::Low,
    ),
    ("duplicates", Metric::Figure(Figure::Duplicates), Best::Low),
    (
        "out of order",
        Metric::Figure(Figure::OutOfOrder),
        Best::Low,
    ),
    ("reach", Metric::Figure(Figure::Reach), Best::High),
    (
        "delivery latency, p50",
        Metric::Percentile(Kind::Delivery, 50.0),
        Best::Low,
    ),
    (
        "delivery latency, p90",
        Metric::Percentile(Kind::Delivery, 90.0),
        Best::Low,
    ),
    (
        "delivery latency, p99",
        Metric::Percentile(Kind::Delivery, 99.0),
        Best::Low,
    ),
    (
        "delivery latency, p99.9",
        Metric::Percentile(Kind::Delivery, 99.9),
        Best::Low,
    ),
    (
        "delivery latency, max",
        Metric::Max(Kind::Delivery),
        Best::Low,
    ),
    (
        "back after the storm",
        Metric::Figure(Figure::BackTime),
        Best::Low,
    ),
    (
        "server memory per connection",
        Metric::Figure(Figure::ServerMemory),
        Best::Low,
    ),
    ("server CPU", Metric::Figure(Figure::ServerCpu), Best::Low),
    (
        "generator lag, p99",
        Metric::Percentile(Kind::Lag, 99.0),
        Best::Neither,
    ),
];

/// Compares two runs. Figures that neither has are left out.
#[must_use]
pub fn compare(a: &Results, b: &Results) -> Comparison {
    let rows = FIGURES
        .iter()
        .filter_map(|&(name, metric, best)| {
            let (left, right) = (a.get(metric), b.get(metric));
            if left.is_none() && right.is_none() {
                return None;
            }
            Some(Row {
                name,
                a: left.map_or_else(|| "–".into(), |value| show(metric, value)),
                b: right.map_or_else(|| "–".into(), |value| show(metric, value)),
                change: change(left, right),
                reading: reading(left, right, best),
            })
        })
        .collect();
    Comparison {
        rows,
        warnings: warnings(a, b),
    }
}

fn change(a: Option<f64>, b: Option<f64>) -> Option<f64> {
    let (a, b) = (a?, b?);
    if a == 0.0 {
        return (b == 0.0).then_some(0.0);
    }
    Some((b - a) / a)
}

fn reading(a: Option<f64>, b: Option<f64>, best: Best) -> Reading {
    let (Some(a), Some(b)) = (a, b) else {
        return Reading::NoData;
    };
    // From zero any difference is one: one lost message is not noise.
    let noise = if a == 0.0 || b == 0.0 {
        0.0
    } else {
        NOISE * a.abs()
    };
    if (b - a).abs() <= noise {
        return Reading::Same;
    }
    match (best, b < a) {
        (Best::Neither, _) => Reading::Different,
        (Best::Low, true) | (Best::High, false) => Reading::Better,
        (Best::Low, false) | (Best::High, true) => Reading::Worse,
    }
}

/// A figure as people read it.
pub(super) fn show(metric: Metric, value: f64) -> String {
    match metric.unit() {
        Unit::Time => format_us(value),
        Unit::Bytes => format_bytes(value),
        // Rounded down, so that 99.99996 % never reads 100 %.
        Unit::Share => format!("{:.4} %", (value * 1e6).floor() / 1e4),
        Unit::Rate => format!("{}/s", grouped(value.round() as u64)),
        Unit::Count if value.fract() == 0.0 => grouped(value as u64),
        Unit::Count => format!("{value:.2}"),
    }
}

fn warnings(a: &Results, b: &Results) -> Vec<String> {
    let mut warnings = Vec::new();
    let mut differ = |what: &str, left: String, right: String| {
        if left != right {
            warnings.push(format!("{what}: {left} in A, {right} in B"));
        }
    };
    let (left, right) = (&a.scenario, &b.scenario);
    differ(
        "scenario",
        left.kind.as_str().into(),
        right.kind.as_str().into(),
    );
    differ(
        "transport",
        left.transport.as_str().into(),
        right.transport.as_str().into(),
    );
    differ("clients", grouped(left.clients), grouped(right.clients));
    let rate = |results: &Results| {
        let publish = results.scenario.publish.as_ref();
        publish.map_or_else(
            || "none".into(),
            |p| format!("{}/s of {} B", p.per_s, p.size_bytes),
        )
    };
    differ("publishing", rate(a), rate(b));
    let kernel = |results: &Results| {
        let machine = results.manifest.machines.first();
        machine.map_or_else(String::new, |m| {
            format!("{} on {} × {}", m.kernel, m.cpus, m.cpu_model)
        })
    };
    differ("machine", kernel(a), kernel(b));
    for (name, results) in [("A", a), ("B", b)] {
        if let Some(warning) = results.verdict.warning() {
            warnings.push(format!("{name} is invalid: {warning}"));
        }
    }
    warnings
}

impl Comparison {
    /// The comparison as a table for a terminal.
    #[must_use]
    pub fn to_text(&self) -> String {
        let mut out = String::new();
        // Writing to a String does not fail.
        let _ = self.write_text(&mut out);
        out
    }

    fn write_text(&self, out: &mut String) -> std::fmt::Result {
        for warning in &self.warnings {
            writeln!(out, "note: {warning}")?;
        }
        let width = |of: fn(&Row) -> &str, least: usize| {
            let widths = self.rows.iter().map(|row| of(row).chars().count());
            widths.max().unwrap_or(0).max(least)
        };
        let name = width(|row| row.name, 6);
        let (a, b) = (width(|row| &row.a, 1), width(|row| &row.b, 1));
        writeln!(
            out,
            "{:name$}  {:>a$}  {:>b$}  {:>8}  reading",
            "figure", "A", "B", "change"
        )?;
        for row in &self.rows {
            writeln!(
                out,
                "{:name$}  {:>a$}  {:>b$}  {:>8}  {}",
                row.name,
                row.a,
                row.b,
                percent(row.change),
                row.reading.as_str()
            )?;
        }
        Ok(())
    }
}

/// A change with its sign.
pub(super) fn percent(change: Option<f64>) -> String {
    change.map_or_else(String::new, |change| format!("{:+.1} %", change * 100.0))
}
