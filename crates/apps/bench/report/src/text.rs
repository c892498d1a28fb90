//! Forms in which people read figures.

use throng_bench_measure::RunCounters;
use throng_bench_plan::check::{CheckOutcome, Metric, Unit};
use throng_types::units::{format_bytes, format_us, grouped};

use crate::CheckResult;

/// Makes a text by writing it, which does not fail into a String.
pub(crate) fn written(write: impl FnOnce(&mut String) -> std::fmt::Result) -> String {
    let mut out = String::new();
    let _ = write(&mut out);
    out
}

pub(crate) fn show(metric: Metric, value: f64) -> String {
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

/// Lists "failed" and "lost" with each reason and its count, most frequent first.
pub(crate) fn reasons(
    counters: &RunCounters,
) -> impl Iterator<Item = (&'static str, &'static str, u64)> {
    let failed = counters.connect_failures().into_iter();
    let lost = counters.lost_reasons().into_iter();
    { failed.map(|(reason, count)| ("failed", reason.as_str(), count)) }
        .chain(lost.map(|(reason, count)| ("lost", reason.as_str(), count)))
}

/// Writes the figure that a check measured, as people read it.
pub(crate) fn measured(result: &CheckResult) -> String {
    match result.outcome {
        CheckOutcome::Passed { actual } | CheckOutcome::Failed { actual } => {
            show(result.check.metric(), actual)
        }
        CheckOutcome::NoData => "no data".into(),
    }
}

/// Writes a time in µs; a dash if there is none.
pub(crate) fn time(us: Option<u64>) -> String {
    us.map_or_else(|| "–".into(), |us| format_us(us as f64))
}
