//! The Prometheus text format, version 0.0.4, for the generator's own `/metrics`.

use std::fmt::{self, Write as _};

use throng_bench_measure::{Counters, DeliveryCounts, Latency};

/// What is known of a run that goes on.
#[derive(Clone, Copy, Debug)]
pub struct Live<'a> {
    /// Connections and publications.
    pub counters: &'a Counters,
    /// What came, and what did not, so far.
    pub deliveries: &'a DeliveryCounts,
    /// Latencies of deliveries so far.
    pub delivery: &'a Latency,
    /// Times to be usable so far.
    pub connect: &'a Latency,
    /// The generator's lag so far.
    pub lag: &'a Latency,
    /// The generator's busiest thread in the last interval, as a share of one CPU.
    pub busiest: f64,
}

/// Appends all metrics. Every name begins with `throng_bench_`.
pub fn write_prometheus(live: &Live<'_>, out: &mut String) {
    // Writing to a String does not fail.
    let _ = try_write(live, out);
}

fn try_write(live: &Live<'_>, out: &mut String) -> fmt::Result {
    let counters = live.counters;
    let deliveries = live.deliveries;
    head(out, "connections", "gauge", "Usable connections now.")?;
    writeln!(out, "throng_bench_connections {}", counters.alive())?;
    head(
        out,
        "connects_total",
        "counter",
        "Connects by the stage that they reached.",
    )?;
    for (stage, count) in [
        ("attempted", counters.attempted),
        ("tcp_connected", counters.tcp_connected),
        ("upgraded", counters.upgraded),
        ("subscribed", counters.subscribed),
    ] {
        writeln!(
            out,
            "throng_bench_connects_total{{stage=\"{stage}\"}} {count}"
        )?;
    }
    head(
        out,
        "connect_failures_total",
        "counter",
        "Connects that failed, by reason.",
    )?;
    for (reason, count) in counters.connect_failures() {
        let reason = reason.as_str();
        writeln!(
            out,
            "throng_bench_connect_failures_total{{reason=\"{reason}\"}} {count}"
        )?;
    }
    head(
        out,
        "lost_total",
        "counter",
        "Connections that were lost, by reason.",
    )?;
    for (reason, count) in counters.lost_reasons() {
        let reason = reason.as_str();
        writeln!(
            out,
            "throng_bench_lost_total{{reason=\"{reason}\"}} {count}"
        )?;
    }
    for (name, help, count) in [
        ("published_total", "Publications begun.", counters.published),
        (
            "publish_failed_total",
            "Publications that failed.",
            counters.publish_failed,
        ),
        (
            "missed_events_total",
            "Events that were due and never begun.",
            counters.missed_events,
        ),
        ("sent_bytes_total", "Bytes sent.", counters.sent_bytes),
        (
            "received_bytes_total",
            "Bytes received.",
            counters.received_bytes,
        ),
        (
            "deliveries_total",
            "Measured messages received.",
            deliveries.received,
        ),
        (
            "deliveries_missing_total",
            "Deliveries known to be missing.",
            deliveries.missing,
        ),
        (
            "deliveries_duplicate_total",
            "Deliveries received again.",
            deliveries.duplicates,
        ),
        (
            "deliveries_out_of_order_total",
            "Deliveries after a later one.",
            deliveries.out_of_order,
        ),
    ] {
        head(out, name, "counter", help)?;
        writeln!(out, "throng_bench_{name} {count}")?;
    }
    head(
        out,
        "busiest_thread_cpus",
        "gauge",
        "The generator's busiest thread, in CPUs.",
    )?;
    writeln!(out, "throng_bench_busiest_thread_cpus {}", live.busiest)?;
    summary(
        out,
        "delivery_latency_seconds",
        "From the intended publication to the delivery.",
        live.delivery,
    )?;
    summary(
        out,
        "connect_seconds",
        "From the intended connect to being usable.",
        live.connect,
    )?;
    summary(
        out,
        "lag_seconds",
        "How late the generator began its events.",
        live.lag,
    )
}

fn head(out: &mut String, name: &str, kind: &str, help: &str) -> fmt::Result {
    writeln!(
        out,
        "# HELP throng_bench_{name} {help}\n# TYPE throng_bench_{name} {kind}"
    )
}

fn summary(out: &mut String, name: &str, help: &str, latency: &Latency) -> fmt::Result {
    head(out, name, "summary", help)?;
    let summary = latency.summary();
    for percentile in [50.0, 90.0, 99.0, 99.9] {
        // A quantile of nothing is not a number, as the format has it.
        let seconds = latency
            .percentile_us(percentile)
            .map_or_else(|| "NaN".into(), |us| (us as f64 / 1e6).to_string());
        let quantile = percentile / 100.0;
        writeln!(
            out,
            "throng_bench_{name}{{quantile=\"{quantile}\"}} {seconds}"
        )?;
    }
    let (count, sum_s) = summary.map_or((0, 0.0), |s| (s.count, s.mean_us * s.count as f64 / 1e6));
    writeln!(
        out,
        "throng_bench_{name}_sum {sum_s}\nthrong_bench_{name}_count {count}"
    )
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use throng_bench_measure::{ConnectFailure, LostReason};

    #[test]
    fn every_line_is_of_a_declared_metric_and_no_line_is_doubled() {
        let mut counters = Counters::default();
        counters.attempted = 5;
        counters.upgraded = 4;
        counters.on_connect_failure(ConnectFailure::Refused);
        counters.on_lost(LostReason::Eof, 1);
        let mut delivery = Latency::new();
        delivery.record_us(2_000_000);
        let live = Live {
            counters: &counters,
            deliveries: &DeliveryCounts::default(),
            delivery: &delivery,
            connect: &Latency::new(),
            lag: &Latency::new(),
            busiest: 0.25,
        };
        let mut out = String::new();
        write_prometheus(&live, &mut out);
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
