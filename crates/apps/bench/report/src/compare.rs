//! Comparison of two runs: changes, and which way is better.

use std::fmt::Write as _;

use serde::Serialize;

use throng_bench_plan::check::Metric;
use throng_bench_plan::{Publish, Scenario};
use throng_types::coded_enum;
use throng_types::units::grouped;

use crate::text::{show, written};
use crate::{MachineInfo, Results};

/// Share below which a difference is the noise of a run, not a change.
const NOISE: f64 = 0.05;

coded_enum! {
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
    #[serde(rename_all = "snake_case")]
    pub enum Reading {
        fn as_str;
        Better = "better";
        Worse = "worse";
        Same = "same";
        /// Different, and neither way is better by itself.
        Different = "different";
        NoData = "no data";
    }
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    pub name: &'static str,
    pub a: String,
    pub b: String,
    /// Change (B − A) / A; none without data, or where A is zero and B is not.
    pub change: Option<f64>,
    pub reading: Reading,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    pub rows: Vec<Row>,
    /// Differences of the scenarios and machines, which make figures hard to compare.
    pub warnings: Vec<String>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Best {
    Low,
    High,
    Neither,
}

/// Figures of a comparison: name, metric as in a check, and which of two is the better one.
const FIGURES: &str = include_str!("comparison.txt");

/// Compares two runs. Figures that neither has are left out.
pub fn compare(a: &Results, b: &Results) -> Comparison {
    let figures = FIGURES.lines().filter(|row| !row.starts_with('#'));
    let rows = figures
        .filter_map(|figure| {
            let mut cells = figure.split(" | ");
            let (name, metric) = (cells.next()?, Metric::parse(cells.next()?).ok()?);
            let best = match cells.next()? {
                "low" => Best::Low,
                "high" => Best::High,
                _ => Best::Neither,
            };
            let (left, right) = (a.get(metric), b.get(metric));
            if left.is_none() && right.is_none() {
                return None;
            }
            let shown =
                |value: Option<f64>| value.map_or_else(|| "–".into(), |value| show(metric, value));
            Some(Row {
                name,
                a: shown(left),
                b: shown(right),
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
    let transport = |scenario: &Scenario| scenario.transport.as_str().to_owned();
    differ("transport", transport(left), transport(right));
    differ("clients", grouped(left.clients), grouped(right.clients));
    let rate = |results: &Results| {
        let shown = |p: &Publish| format!("{}/s of {} B", p.per_s, p.size_bytes);
        results
            .scenario
            .publish
            .as_ref()
            .map_or_else(|| "none".into(), shown)
    };
    differ("publishing", rate(a), rate(b));
    let kernel = |results: &Results| {
        let shown = |m: &MachineInfo| format!("{} on {} × {}", m.kernel, m.cpus, m.cpu_model);
        results
            .manifest
            .machines
            .first()
            .map_or_else(String::new, shown)
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
    /// Writes the comparison as a table for a terminal.
    pub fn to_text(&self) -> String {
        written(|out| self.write_text(out))
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
        let mut line = |cells: [&str; 5]| {
            let [figure, left, right, change, reading] = cells;
            writeln!(
                out,
                "{figure:name$}  {left:>a$}  {right:>b$}  {change:>8}  {reading}"
            )
        };
        line(["figure", "A", "B", "change", "reading"])?;
        for row in &self.rows {
            let change = percent(row.change);
            line([row.name, &row.a, &row.b, &change, row.reading.as_str()])?;
        }
        Ok(())
    }
}

pub(super) fn percent(change: Option<f64>) -> String {
    change.map_or_else(String::new, |change| format!("{:+.1} %", change * 100.0))
}
