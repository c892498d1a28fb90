//! Prometheus text format, version 0.0.4, for the generator's own `/metrics`.

use std::fmt::{self, Write as _};

use throng_bench_measure::Latency;

use crate::Snapshot;
use crate::text::reasons;

/// Appends all metrics. Every name begins with `throng_bench_`.
pub(super) fn write_prometheus(snapshot: &Snapshot<'_>, out: &mut String) -> fmt::Result {
    let (counters, deliveries) = (&snapshot.tally.counters, &snapshot.tally.deliveries);
    let help = "Usable connections now.";
    single(out, "connections", "gauge", help, counters.alive())?;
    let help = "Connects by the stage that they reached.";
    head(out, "connects_total", "counter", help)?;
    for (stage, count) in [
        ("attempted", counters.attempted),
        ("tcp_connected", counters.tcp_connected),
        ("upgraded", counters.upgraded),
        ("subscribed", counters.subscribed),
    ] {
        let labels = format!("{{stage=\"{stage}\"}}");
        writeln!(out, "throng_bench_connects_total{labels} {count}")?;
    }
    let failed = "Connects that failed, by reason.";
    let lost = "Connections that were lost, by reason.";
    for (fate, name, help) in [
        ("failed", "connect_failures_total", failed),
        ("lost", "lost_total", lost),
    ] {
        head(out, name, "counter", help)?;
        for (_, reason, count) in reasons(counters).filter(|(of, ..)| *of == fate) {
            writeln!(out, "throng_bench_{name}{{reason=\"{reason}\"}} {count}")?;
        }
    }
    let mut count = |name: &str, help, count: u64| {
        single(out, &format!("{name}_total"), "counter", help, count)
    };
    count("published", "Publications begun.", counters.published)?;
    let help = "Publications that failed.";
    count("publish_failed", help, counters.publish_failed)?;
    let help = "Events that were due and never begun.";
    count("missed_events", help, counters.missed_events)?;
    count("sent_bytes", "Bytes sent.", counters.sent_bytes)?;
    count("received_bytes", "Bytes received.", counters.received_bytes)?;
    let help = "Measured messages received.";
    count("deliveries", help, deliveries.received)?;
    let help = "Deliveries known to be missing.";
    count("deliveries_missing", help, deliveries.missing)?;
    let help = "Deliveries received again.";
    count("deliveries_duplicate", help, deliveries.duplicates)?;
    let help = "Deliveries after a later one.";
    count("deliveries_out_of_order", help, deliveries.out_of_order)?;
    let help = "The generator's busiest thread, in CPUs.";
    let busiest = snapshot.sample.generator_busy;
    single(out, "busiest_thread_cpus", "gauge", help, busiest)?;
    let total = snapshot.total;
    let delivery = "From the intended publication to the delivery.";
    summary(out, "delivery_latency_seconds", delivery, &total.delivery)?;
    let connect = "From the intended connect to being usable.";
    summary(out, "connect_seconds", connect, &total.connect)?;
    let lag = "How late the generator began its events.";
    summary(out, "lag_seconds", lag, &snapshot.tally.interval.lag)
}

fn single(
    out: &mut String,
    name: &str,
    kind: &str,
    help: &str,
    value: impl fmt::Display,
) -> fmt::Result {
    head(out, name, kind, help)?;
    writeln!(out, "throng_bench_{name} {value}")
}

fn head(out: &mut String, name: &str, kind: &str, help: &str) -> fmt::Result {
    writeln!(
        out,
        "# HELP throng_bench_{name} {help}\n# TYPE throng_bench_{name} {kind}"
    )
}

fn summary(out: &mut String, name: &str, help: &str, latency: &Latency) -> fmt::Result {
    head(out, name, "summary", help)?;
    for percentile in [50.0, 90.0, 99.0, 99.9] {
        // A quantile of nothing is not a number, as the format has it.
        let seconds = latency
            .percentile_us(percentile)
            .map_or(f64::NAN, |us| us as f64 / 1e6);
        let quantile = percentile / 100.0;
        writeln!(
            out,
            "throng_bench_{name}{{quantile=\"{quantile}\"}} {seconds}"
        )?;
    }
    let sums = latency
        .summary()
        .map(|s| (s.count, s.mean_us * s.count as f64 / 1e6));
    let (count, sum_s) = sums.unwrap_or_default();
    writeln!(
        out,
        "throng_bench_{name}_sum {sum_s}\nthrong_bench_{name}_count {count}"
    )
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::live::testing::with_figures;
    use throng_bench_measure::{ConnectFailure, Histograms, LostReason, Sample, Tally};

    #[test]
    fn every_line_is_of_a_declared_metric_and_no_line_is_doubled() {
        let mut tally = Tally::default();
        let counters = &mut tally.counters;
        counters.attempted = 5;
        counters.upgraded = 4;
        counters.on_connect_failure(ConnectFailure::Refused);
        counters.on_lost(LostReason::Eof, 1);
        let mut total = Histograms::default();
        total.delivery.record_us(2_000_000);
        let mut out = String::new();
        with_figures(&Sample::default(), &tally, &total, |snapshot| {
            write_prometheus(snapshot, &mut out).unwrap();
        });
        for line in [
            "throng_bench_connections 3\n",
            "throng_bench_connect_failures_total{reason=\"refused\"} 1\n",
            "throng_bench_lost_total{reason=\"eof\"} 1\n",
            "throng_bench_delivery_latency_seconds{quantile=\"0.99\"} 2\n",
            "throng_bench_delivery_latency_seconds_count 1\n",
            "throng_bench_connect_seconds{quantile=\"0.5\"} NaN\n",
        ] {
            assert!(out.contains(line), "{line} is not in\n{out}");
        }
        let mut declared = BTreeSet::new();
        let mut seen = BTreeSet::new();
        for line in out.lines() {
            if let Some(rest) = line.strip_prefix("# TYPE ") {
                assert!(
                    declared.insert(rest.split(' ').next().unwrap().to_owned()),
                    "{line}"
                );
            } else if !line.starts_with('#') {
                let (name, _) = line.rsplit_once(' ').unwrap();
                assert!(seen.insert(name.to_owned()), "{line}");
                let bare = name.split('{').next().unwrap();
                let family = bare.trim_end_matches("_sum").trim_end_matches("_count");
                assert!(
                    declared.contains(bare) || declared.contains(family),
                    "{line}"
                );
            }
        }
    }
}
