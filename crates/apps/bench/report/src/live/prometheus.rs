//! Prometheus text format, version 0.0.4, for the generator's own `/metrics`: `metrics.txt`,
//! filled.

use serde_json::{Value, json};

use throng_bench_measure::Latency;

use crate::Snapshot;
use crate::text::reasons;
use throng_types::fill::fill;

/// Writes all metrics. Every name begins with `throng_bench_`.
pub(super) fn metrics(snapshot: &Snapshot<'_>) -> String {
    let (counters, total) = (&snapshot.tally.counters, snapshot.total);
    let reasons = |fate| -> Value {
        { reasons(counters).filter(|(of, ..)| *of == fate) }
            .map(|(_, reason, count)| json!({"reason": reason, "count": count}))
            .collect()
    };
    let view = json!({
        "alive": counters.alive(),
        "counters": counters,
        "deliveries": snapshot.tally.deliveries,
        "failures": reasons("failed"),
        "losses": reasons("lost"),
        "busiest": snapshot.sample.generator_busy,
        "delivery": summary(&total.delivery),
        "connect": summary(&total.connect),
        "lag": summary(&snapshot.tally.interval.lag),
    });
    fill(include_str!("metrics.txt"), &view)
}

fn summary(latency: &Latency) -> Value {
    let quantiles = [50.0, 90.0, 99.0, 99.9].map(|percentile| {
        // A quantile of nothing is not a number, as the format has it.
        let seconds = latency.percentile_us(percentile).map(|us| us as f64 / 1e6);
        let seconds = seconds.map_or_else(|| json!("NaN"), Value::from);
        json!({"quantile": percentile / 100.0, "seconds": seconds})
    });
    let summary = latency.summary();
    let (count, sum_s) = summary.map_or((0, 0.0), |s| (s.count, s.mean_us * s.count as f64 / 1e6));
    json!({"quantiles": quantiles, "count": count, "sum_s": sum_s})
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
            out = metrics(snapshot);
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
