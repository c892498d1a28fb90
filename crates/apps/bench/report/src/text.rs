//! The summary that ends a run on a terminal. Figures have the names by which checks know them.

use std::fmt::Write as _;

use super::Results;
use super::compare::show;
use throng_bench_measure::{LatencySummary, Verdict};
use throng_bench_plan::check::{Figure, Kind, Metric, Outcome};
use throng_types::units::grouped;
use throng_types::units::{format_bytes, format_us};

/// The summary of a run: what a person can decide from in ten seconds.
#[must_use]
pub fn summary(results: &Results) -> String {
    let mut out = String::new();
    // Writing to a String does not fail.
    let _ = write_summary(results, &mut out);
    out
}

/// So many notes are printed; the report has them all.
const NOTES_MAX: usize = 6;

fn write_summary(results: &Results, out: &mut String) -> std::fmt::Result {
    let counters = &results.totals.counters;
    let deliveries = &results.totals.deliveries;
    writeln!(out, "{}", results.manifest.title)?;
    writeln!(
        out,
        "connections  {} attempted, {} connected, {} upgraded, {} subscribed, {} alive, {} lost, \
         {} failed",
        grouped(counters.attempted),
        grouped(counters.tcp_connected),
        grouped(counters.upgraded),
        grouped(counters.subscribed),
        grouped(counters.alive()),
        grouped(counters.lost()),
        grouped(counters.failed()),
    )?;
    for (reason, count) in counters.connect_failures() {
        writeln!(
            out,
            "  failed     {:>10}  {}",
            grouped(count),
            reason.as_str()
        )?;
    }
    for (reason, count) in counters.lost_reasons() {
        writeln!(
            out,
            "  lost       {:>10}  {}",
            grouped(count),
            reason.as_str()
        )?;
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
        writeln!(
            out,
            "deliveries   {} expected, {} received, {} missing, {} duplicates, {} out_of_order",
            grouped(deliveries.expected()),
            grouped(deliveries.received),
            grouped(deliveries.missing),
            grouped(deliveries.duplicates),
            grouped(deliveries.out_of_order),
        )?;
    }
    if let Some(reconnected_us) = results.totals.reconnected_us {
        let back = results.totals.back_us.map_or_else(
            || "not all got what they had missed".into(),
            |us| {
                format!(
                    "back_time {} with all that was missed",
                    format_us(us as f64)
                )
            },
        );
        writeln!(
            out,
            "after storm  {} until usable again, {back}",
            format_us(reconnected_us as f64)
        )?;
    }
    for (name, kind, latency) in [
        ("latency     ", Kind::Delivery, &results.totals.delivery),
        ("usable after", Kind::Connect, &results.totals.connect),
        ("lag         ", Kind::Lag, &results.totals.lag),
    ] {
        if let Some(latency) = latency {
            writeln!(out, "{name} {}", percentiles(kind, latency))?;
        }
    }
    if let Some(server) = &results.server {
        write_server(server, out)?;
    }
    for step in &results.steps {
        let held = if step.held { "held" } else { "broke" };
        let latency = step.delivery.as_ref();
        let latency = latency.map_or_else(String::new, |it| percentiles(Kind::Delivery, it));
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
        let (word, actual) = match result.outcome {
            Outcome::Passed { actual } => ("pass", Some(actual)),
            Outcome::Failed { actual } => ("FAIL", Some(actual)),
            Outcome::NoData => ("FAIL", None),
        };
        let actual = actual.map_or_else(
            || "no data".into(),
            |actual| show(result.check.metric(), actual),
        );
        writeln!(out, "check        {word}  {}  ({actual})", result.check)?;
    }
    if let Verdict::Invalid { reasons, .. } = &results.verdict {
        let warning = results.verdict.warning().unwrap_or_default();
        writeln!(out, "INVALID      {warning}")?;
        for reason in reasons {
            writeln!(out, "  because    {reason}")?;
        }
    }
    Ok(())
}

fn write_server(server: &super::ServerTotals, out: &mut String) -> std::fmt::Result {
    let mut parts = Vec::new();
    if let Some(bytes) = server.process_bytes_per_connection {
        parts.push(format!(
            "{} {}",
            Figure::ServerMemory.as_str(),
            measured_bytes(bytes)
        ));
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

fn percentiles(kind: Kind, latency: &LatencySummary) -> String {
    let named = |metric: Metric, us: f64| format!("{metric} {}", format_us(us));
    let mut parts: Vec<String> = latency
        .percentiles_us
        .iter()
        .filter(|(p, _)| [50.0, 90.0, 99.0, 99.9].contains(p))
        .map(|(p, us)| named(Metric::Percentile(kind, *p), *us as f64))
        .collect();
    parts.push(named(Metric::Max(kind), latency.max_us as f64));
    parts.join("  ")
}

/// Bytes as they were measured; a difference below zero is noise around something small.
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
