use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};

use super::*;

fn of(values: impl IntoIterator<Item = u64>) -> Latency {
    let mut latency = Latency::default();
    for us in values {
        latency.record_us(us);
    }
    latency
}

#[test]
fn percentiles_are_within_a_thousandth_and_the_maximum_is_true() {
    let summary = of(1..=100_000).summary().unwrap();
    assert_eq!((summary.min_us, summary.max_us), (1, 100_000));
    for (p, us) in &summary.percentiles_us {
        let exact = p * 1000.0;
        assert!(
            (*us as f64 - exact).abs() <= exact / 1000.0 + 1.0,
            "{p}: {us}"
        );
    }
    assert!((summary.mean_us - 50_000.5).abs() < 50.0);
    assert_eq!(
        summary.percentile_us(99.9),
        summary
            .percentiles_us
            .iter()
            .find(|(p, _)| *p == 99.9)
            .map(|(_, us)| *us)
    );
}

#[test]
fn merging_equals_recording_everything_in_one() {
    let mut merged = of([5, 900, 70_000]);
    merged.merge(&of([1, 3_000_000]));
    let whole = of([5, 900, 70_000, 1, 3_000_000]);
    assert_eq!(merged.summary(), whole.summary());
    assert_eq!(merged.percentile_us(50.0), Some(900));
}

#[test]
fn no_data_is_not_zero() {
    let empty = Latency::default();
    assert_eq!(empty.summary(), None);
    assert_eq!(empty.percentile_us(99.0), None);
    assert_eq!(empty.max_us(), None);
    assert!(empty.curve().is_empty());
}

#[test]
fn clocks_that_disagree_and_absurd_values_are_counted() {
    let mut latency = Latency::default();
    latency.record_between(100, 90);
    latency.record_between(100, 350);
    latency.record_us(u64::MAX);
    let summary = latency.summary().unwrap();
    assert_eq!(
        (summary.negative, summary.clamped, summary.count),
        (1, 1, 3)
    );
    assert_eq!((summary.min_us, summary.max_us), (0, u64::MAX));
}

#[test]
fn the_wire_form_comes_back_and_garbage_is_refused() {
    let latency = of([0, 17, 4000, 12_000_000]);
    let mut wire = Vec::new();
    latency.encode(&mut wire);
    assert_eq!(Latency::decode(&wire).unwrap().summary(), latency.summary());
    for cut in 0..wire.len() {
        assert!(Latency::decode(&wire[..cut]).is_err(), "cut at {cut}");
    }
    let foreign: Histogram<u64> = Histogram::new(2).unwrap();
    let mut wire = vec![0; 32];
    V2Serializer::new().serialize(&foreign, &mut wire).unwrap();
    assert!(Latency::decode(&wire).is_err());
}

#[test]
fn the_log_is_read_by_the_format_s_own_reader() {
    let mut log = LogWriter::new(1_600_000_000_123);
    log.push(0, 1000, "delivery", &of([5, 10_000]));
    log.push(1000, 1000, "delivery", &of([7]));
    let entries: Vec<_> = IntervalLogIterator::new(log.as_bytes())
        .map(Result::unwrap)
        .collect();
    let intervals: Vec<_> = entries
        .iter()
        .filter_map(|entry| match entry {
            LogEntry::Interval(interval) => Some(interval),
            _ => None,
        })
        .collect();
    assert_eq!(intervals.len(), 2);
    assert_eq!(intervals[1].start_timestamp(), Duration::from_secs(1));
    assert_eq!(intervals[0].tag().unwrap().as_str(), "delivery");
    let started = Duration::from_millis(1_600_000_000_123);
    let is_start =
        |entry: &LogEntry<'_>| matches!(entry, LogEntry::StartTime(at) if *at == started);
    assert!(entries.iter().any(is_start));
}

#[test]
fn the_curve_rises_to_the_maximum() {
    let curve = of((0..5000).map(|k| k * k)).curve();
    assert!(curve.is_sorted_by(|a, b| a.0 <= b.0 && a.1 <= b.1));
    assert_eq!(curve.last().unwrap(), &(100.0, 4999 * 4999));
}
