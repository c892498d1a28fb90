//! Results written, read, shown and compared.

use super::*;
use crate::{AgentSummary, Reading, ResultsError, RunTotals, StepResult, files, summary};
use throng_bench_measure::{Latency, LogWriter, PERCENTILES, RunVerdict, Sample, ServerSample};
use throng_bench_plan::check::CheckOutcome;
use throng_types::Rng;

/// A run of ten minutes, that of `fixtures/run.json` with times made up from a seed: a ramp, a hold
/// with publications, one bad moment.
fn sample_run(seed: u64) -> Results {
    let mut results = Results::read(include_str!("../../fixtures/run.json"), None).unwrap();
    let mut rng = Rng::new(seed);
    let mut whole = Latency::default();
    let mut connect = Latency::default();
    let mut series = Vec::new();
    for second in 1..=600_u64 {
        let (mut interval, mut usable, mut lag) =
            (Latency::default(), Latency::default(), Latency::default());
        let opened = (second * 500).min(100_000);
        let bad = (400..408).contains(&second);
        for _ in 0..200 {
            let tail = rng.exponential() * rng.exponential() * if bad { 30_000.0 } else { 1800.0 };
            lag.record_us(20 + rng.below(60));
            if second > 200 {
                interval.record_us(900 + seed * 150 + tail as u64);
            } else {
                usable.record_us(400 + (rng.exponential() * 700.0) as u64 + opened / 200);
            }
        }
        if second > 220 {
            whole.merge(&interval);
        }
        connect.merge(&usable);
        let publishes = second > 200;
        series.push(Sample {
            at_ms: second * 1000,
            length_ms: 1000,
            attempted: opened,
            tcp_connected: opened,
            upgraded: opened - opened / 5000,
            subscribed: opened - opened / 5000,
            alive: opened - opened / 5000 - if second > 401 { 37 } else { 0 },
            lost: if second > 401 { 37 } else { 0 },
            failed: opened / 5000,
            published: if publishes { 198 + rng.below(5) } else { 0 },
            received: if publishes {
                19_800 + rng.below(400)
            } else {
                0
            },
            sent_bytes: 40_000 + rng.below(9000),
            received_bytes: if publishes {
                10_400_000 + rng.below(400_000)
            } else {
                210_000
            },
            latency_us: Sample::figures(&interval),
            connect_us: Sample::figures(&usable),
            lag_us: Sample::figures(&lag),
            generator_busy: if publishes { 0.42 } else { 0.2 } + rng.unit() * 0.08,
            generator_memory_bytes: Some(opened * 380),
            server: Some(ServerSample {
                cpu: Some(if publishes { 0.55 } else { 0.25 } + rng.unit() * 0.1),
                memory_bytes: Some(6_000_000 + opened * 290),
                slab_bytes: Some(90_000_000 + opened * 3970),
                sockets: Some(opened),
                connections: Some(opened - opened / 5000),
            }),
        });
    }
    results.totals.delivery = whole.summary();
    results.totals.connect = connect.summary();
    results.totals.delivery_curve = whole.curve();
    results.series = series;
    results.judge();
    results
}

#[test]
fn the_page_is_whole_and_needs_nothing_else() {
    let results = sample_run(1);
    let page = report_page(&results);
    let rows = include_str!("../charts.txt").lines();
    let lines = rows.filter(|row| row.starts_with(['-', '*'])).count();
    let charts = charts::of_run(&results);
    let drawn: usize = charts.iter().map(|chart| chart.series.len()).sum();
    assert_eq!(drawn, lines + 1, "all lines, and the curve of percentiles");
    for part in ["src=", "href=", "url(", "@import"] {
        assert!(!page.contains(part), "{part}");
    }
    for part in [
        "99,943",
        "somaxconn: 10 connects failed",
        "p99&lt;50ms",
        "no data",
        "2026-11-20 16:00 UTC",
        "Delivery latency",
        "Latency by percentile",
    ] {
        assert!(page.contains(part), "{part}");
    }
    for percentile in PERCENTILES {
        assert!(page.contains(&format!("<td>p{percentile}</td>")));
    }
    assert!(page.len() < 600_000, "{} bytes", page.len());
}

#[test]
fn figures_have_the_names_of_checks() {
    let results = sample_run(1);
    assert_eq!(results.figures.get("missing"), Some(&12.0));
    assert!(!results.figures.contains_key("lag_p99"));
    assert_eq!(summary(&results), include_str!("../../fixtures/run.txt"));
    for name in [
        "attempted",
        "connected",
        "lost",
        "expected",
        "received",
        "missing",
        "out_of_order",
        "p99",
        "connect_p99",
        "server_memory_per_connection",
        "server_cpu",
    ] {
        assert!(results.figures.contains_key(name), "{name}");
    }
}

#[test]
fn a_run_without_deliveries_has_a_page_too() {
    let mut results = sample_run(1);
    results.totals = RunTotals::default();
    results.server = None;
    results.series.clear();
    results.judge();
    let page = report_page(&results);
    assert!(!page.contains("Delivery latency"));
    assert!(!page.contains("deliveries that arrived"));
    assert!(!summary(&results).contains("latency"));
}

#[test]
fn no_text_of_a_run_becomes_markup() {
    let mut results = sample_run(1);
    let evil = "</script><script>alert(1)</script>\"'&";
    results.manifest.title = evil.into();
    results.manifest.command = vec![evil.into()];
    results.notes = vec![evil.into()];
    results.scenario.name = evil.into();
    results.agents = vec![AgentSummary {
        name: evil.into(),
        alive: 1,
        offset_us: -5,
        offset_error_us: 3,
        lost: true,
    }];
    results.verdict = RunVerdict::Invalid {
        latency_alone: false,
        reasons: vec![evil.into()],
    };
    assert!(!report_page(&results).contains("<script>alert"));
    let comparison = comparison_page(&results, &results, (evil, evil));
    assert!(!comparison.contains("<script>alert"));
}

#[test]
fn results_come_back_from_their_files() {
    let mut results = sample_run(1);
    results.steps = vec![StepResult {
        per_s: 1000.0,
        held: true,
        delivery: None,
    }];
    let files = files(&results, &LogWriter::new(0)).unwrap();
    let text = |name: &str| {
        let file = files.iter().find(|file| file.name == name).unwrap();
        String::from_utf8(file.bytes.clone()).unwrap()
    };
    let read = Results::read(&text("results.json"), Some(&text("series.json"))).unwrap();
    // Fractions may lose their last bit in a JSON file; everything else comes back as it was.
    assert!(read.scenario == results.scenario && read.manifest == results.manifest);
    assert_eq!(read.totals.counters, results.totals.counters);
    assert_eq!(read.totals.deliveries, results.totals.deliveries);
    assert_eq!(read.checks, results.checks);
    assert_eq!(read.steps, results.steps);
    assert_eq!(read.series.len(), 600);
    assert_eq!(read.series[599].latency_us, results.series[599].latency_us);
    assert_eq!(text("series.csv").lines().count(), 601);
    assert!(Results::read("{}", None).is_err());
    assert_eq!(
        Results::read("{\"schema\": 99, \"more\": 1}", None),
        Err(ResultsError::TooNew(99))
    );
}

#[test]
fn checks_are_judged_by_what_was_found() {
    let results = sample_run(1);
    let passed: Vec<bool> = results
        .checks
        .iter()
        .map(|result| result.outcome.passed())
        .collect();
    assert_eq!(passed, [true, false, false, false]);
    assert_eq!(results.checks[2].outcome, CheckOutcome::NoData);
}

#[test]
fn two_runs_are_compared() {
    let (a, mut b) = (sample_run(1), sample_run(9));
    b.scenario.clients = 5;
    b.totals.deliveries.missing = 13;
    b.totals.connect = None;
    let comparison = compare(&a, &b);
    let reading = |name| {
        comparison
            .rows
            .iter()
            .find(|row| row.name == name)
            .map(|row| row.reading)
    };
    assert_eq!(reading("delivery latency, p50"), Some(Reading::Worse));
    assert_eq!(reading("deliveries missing"), Some(Reading::Worse));
    assert_eq!(reading("connections alive"), Some(Reading::Same));
    assert_eq!(reading("time to be usable, p99"), Some(Reading::NoData));
    assert_eq!(reading("generator lag, p99"), None);
    assert!(
        comparison
            .warnings
            .iter()
            .any(|warning| warning.starts_with("clients: 100,000 in A, 5 in B"))
    );
    assert!(comparison.to_text().contains("deliveries missing"));
    assert!(comparison_page(&a, &b, ("a", "b")).contains("worse"));
    assert!(
        compare(&a, &a)
            .rows
            .iter()
            .all(|row| row.reading == Reading::Same)
    );
}

#[test]
fn dates_are_right() {
    for (unix_ms, text) in [
        (0, "1970-01-01 00:00 UTC"),
        (951_782_400_000, "2000-02-29 00:00 UTC"),
        (1_709_251_199_000, "2024-02-29 23:59 UTC"),
        (4_107_542_400_000, "2100-03-01 00:00 UTC"),
    ] {
        assert_eq!(date::minute(unix_ms), text);
    }
}
