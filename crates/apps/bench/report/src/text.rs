//! Summary that ends a run on a terminal. Figures have the names by which checks know them.

use std::fmt::Write as _;

use throng_bench_measure::{LatencySummary, RunCounters, RunVerdict};
use throng_bench_plan::check::{CheckOutcome, Figure, LatencyKind, Metric, Unit};
use throng_types::units::{format_bytes, format_us, grouped};

use crate::{CheckResult, Results, ServerTotals};

/// Writes the summary of a run: enough to decide from in ten seconds.
pub fn summary(results: &Results) -> String {
    written(|out| write_summary(results, out))
}

/// Makes a text by writing it, which does not fail into a String.
pub(crate) fn written(write: impl FnOnce(&mut String) -> std::fmt::Result) -> String {
    let mut out = String::new();
    let _ = write(&mut out);
    out
}

/// Most notes that are printed; the report has them all.
const NOTES_MAX: usize = 6;

fn write_summary(results: &Results, out: &mut String) -> std::fmt::Result {
    let counters = &results.totals.counters;
    let deliveries = &results.totals.deliveries;
    writeln!(out, "{}", results.manifest.title)?;
    use Figure::{Alive, Attempted, Failed, Lost, Subscribed, TcpConnected, Upgraded};
    let connections = [
        Attempted,
        TcpConnected,
        Upgraded,
        Subscribed,
        Alive,
        Lost,
        Failed,
    ];
    writeln!(out, "connections  {}", counts(results, &connections))?;
    for (fate, reason, count) in reasons(counters) {
        writeln!(out, "  {fate:<10} {:>10}  {reason}", grouped(count))?;
    }
    for line in counters.limits_hit() {
        writeln!(out, "  limit      {line}")?;
    }
    if counters.published > 0 {
        writeln!(
            out,
            "published    {}, {} acknowledged, {} publish_failed",
            grouped(counters.published),
            grouped(counters.publish_acknowledged),
            grouped(counters.publish_failed),
        )?;
    }
    for note in results.notes.iter().take(NOTES_MAX) {
        writeln!(out, "  note       {note}")?;
    }
    if deliveries.expected() + deliveries.received > 0 {
        use Figure::{Duplicates, Expected, Missing, OutOfOrder, Received};
        let deliveries = [Expected, Received, Missing, Duplicates, OutOfOrder];
        writeln!(out, "deliveries   {}", counts(results, &deliveries))?;
    }
    if let Some(reconnected_us) = results.totals.reconnected_us {
        let back = match results.totals.back_us {
            Some(us) => format!(
                "back_time {} with all that was missed",
                format_us(us as f64)
            ),
            None => "not all got what they had missed".into(),
        };
        let usable = format_us(reconnected_us as f64);
        writeln!(out, "after storm  {usable} until usable again, {back}")?;
    }
    for (name, kind) in [
        ("latency", LatencyKind::Delivery),
        ("usable after", LatencyKind::Connect),
        ("lag", LatencyKind::Lag),
    ] {
        if let Some(latency) = results.latency(kind) {
            writeln!(out, "{name:<12} {}", percentiles(kind, latency))?;
        }
    }
    if let Some(server) = &results.server {
        write_server(server, out)?;
    }
    for step in &results.steps {
        let held = if step.held { "held" } else { "broke" };
        let latency = step.delivery.as_ref();
        let latency = latency.map_or_else(String::new, |it| percentiles(LatencyKind::Delivery, it));
        writeln!(
            out,
            "step         {:>10}/s  {held}  {latency}",
            grouped(step.per_s as u64)
        )?;
    }
    for agent in &results.agents {
        writeln!(
            out,
            "agent        {}: {} alive, clock {:+.3} ms ± {:.3} ms{}",
            agent.name,
            grouped(agent.alive),
            agent.offset_us as f64 / 1000.0,
            agent.offset_error_us as f64 / 1000.0,
            if agent.lost {
                ", LOST during the run"
            } else {
                ""
            },
        )?;
    }
    for result in &results.checks {
        let word = if result.outcome.passed() {
            "pass"
        } else {
            "FAIL"
        };
        writeln!(
            out,
            "check        {word}  {}  ({})",
            result.check,
            measured(result)
        )?;
    }
    if let RunVerdict::Invalid { reasons, .. } = &results.verdict {
        let warning = results.verdict.warning().unwrap_or_default();
        writeln!(out, "INVALID      {warning}")?;
        for reason in reasons {
            writeln!(out, "  because    {reason}")?;
        }
    }
    Ok(())
}

/// Lists counts with their names; 0 where nothing is known.
fn counts(results: &Results, figures: &[Figure]) -> String {
    let count = |&figure: &Figure| {
        let count = results.get(Metric::Figure(figure)).unwrap_or(0.0) as u64;
        format!("{} {}", grouped(count), figure.as_str())
    };
    figures.iter().map(count).collect::<Vec<_>>().join(", ")
}

fn write_server(server: &ServerTotals, out: &mut String) -> std::fmt::Result {
    let mut parts = Vec::new();
    if let Some(bytes) = server.process_bytes_per_connection {
        let name = Figure::ServerMemory.as_str();
        parts.push(format!("{name} {}", measured_bytes(bytes)));
    }
    if let Some(bytes) = server.kernel_bytes_per_connection {
        parts.push(format!(
            "{} per connection in the kernel",
            measured_bytes(bytes)
        ));
    }
    if let Some(cpu) = server.cpu_mean {
        let name = Figure::ServerCpu.as_str();
        parts.push(format!("{name} {cpu:.2}"));
    }
    if let Some(bytes) = server.memory_bytes_max {
        parts.push(format!("{} at most", format_bytes(bytes as f64)));
    }
    if parts.is_empty() {
        return Ok(());
    }
    writeln!(out, "server       {}", parts.join(", "))
}

fn percentiles(kind: LatencyKind, latency: &LatencySummary) -> String {
    let named = |metric: Metric, us: f64| format!("{metric} {}", format_us(us));
    let shown = latency
        .percentiles_us
        .iter()
        .filter(|(p, _)| [50.0, 90.0, 99.0, 99.9].contains(p));
    let mut parts: Vec<String> = shown
        .map(|(p, us)| named(Metric::Percentile(kind, *p), *us as f64))
        .collect();
    parts.push(named(Metric::Max(kind), latency.max_us as f64));
    parts.join("  ")
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

/// Writes a measured size; a difference below zero is noise around something small.
pub(crate) fn measured_bytes(bytes: f64) -> String {
    if bytes < 0.0 {
        "not measurable".to_owned()
    } else {
        format_bytes(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_below_zero_is_not_told_as_a_figure() {
        assert_eq!(measured_bytes(-246.0), "not measurable");
        assert_eq!(measured_bytes(140.0), "140 B");
    }
}
