//! The form of `/stats`: one JSON object (RFC 8259), small enough to ask for every second.

use std::fmt::Write as _;

use throng_types::json::append_str;

use crate::totals::Sample;
use crate::{Histogram, Totals};

/// Appends `{"version":…,"counters":{…},"gauges":{…},"histograms":{…}}`.
///
/// Names go without their prefix; like labels they need no escapes. A metric with a label is an
/// object of its series; a histogram has `count`, `sum_us`, `mean_us`, `p50_us`, `p90_us` and
/// `p99_us`, which are null when they are unknown.
pub fn write_json(totals: &Totals, version: &str, out: &mut String) {
    let mut quoted = Vec::new();
    append_str(version, &mut quoted);
    let _ = write!(out, "{{\"version\":{}", String::from_utf8_lossy(&quoted));
    for kind in ["counter", "gauge"] {
        let _ = write!(out, ",\"{kind}s\":{{");
        metrics(totals.samples().filter(|it| it.kind == kind), out);
        out.push('}');
    }
    out.push_str(",\"histograms\":{");
    for (index, &histogram) in Histogram::ALL.iter().enumerate() {
        if index > 0 {
            out.push(',');
        }
        write_histogram(totals, histogram, out);
    }
    out.push_str("}}");
}

/// Series of one metric stand next to each other in the table, so one pass can nest them.
fn metrics(series: impl Iterator<Item = Sample>, out: &mut String) {
    let mut open = "";
    for (index, sample) in series.enumerate() {
        let name = sample.name;
        if name == open {
            out.push(',');
        } else {
            if !open.is_empty() {
                out.push('}');
            }
            if index > 0 {
                out.push(',');
            }
            let _ = write!(out, "\"{}\":", short(name));
            open = "";
        }
        if let Some(label) = sample.label {
            if open.is_empty() {
                out.push('{');
                open = name;
            }
            let _ = write!(out, "\"{}\":", label.value);
        }
        let _ = write!(out, "{}", sample.value);
    }
    if !open.is_empty() {
        out.push('}');
    }
}

fn write_histogram(totals: &Totals, histogram: Histogram, out: &mut String) {
    let buckets = totals.histogram(histogram);
    let name = short(histogram.name()).trim_end_matches("_seconds");
    let (count, sum_us) = (buckets.count(), buckets.sum_us);
    let _ = write!(out, "\"{name}\":{{\"count\":{count},\"sum_us\":{sum_us}");
    for (key, value) in [
        ("mean_us", buckets.mean_us()),
        ("p50_us", buckets.quantile_us(500)),
        ("p90_us", buckets.quantile_us(900)),
        ("p99_us", buckets.quantile_us(990)),
    ] {
        let value = value.map_or_else(|| "null".to_owned(), |value| value.to_string());
        let _ = write!(out, ",\"{key}\":{value}");
    }
    out.push('}');
}

fn short(name: &'static str) -> &'static str {
    name.strip_prefix("throng_").unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::{Counter, Counters, Gauge};

    #[test]
    fn the_object_has_every_series() {
        let counters = Counters::new();
        let mut value = 0;
        for &counter in Counter::ALL {
            value += 1;
            counters.add(counter, value);
        }
        for &gauge in Gauge::ALL {
            value += 1;
            counters.set(gauge, value);
        }
        counters.record(Histogram::TurnDuration, 60);
        let totals = Totals::sum([&counters]);
        let mut out = String::new();
        write_json(&totals, "1 \"x\\\u{1}", &mut out);
        let object: Value = serde_json::from_str(&out).expect("valid JSON");
        assert_eq!(object["version"], "1 \"x\\\u{1}");
        for sample in totals.samples() {
            let metric = &object[format!("{}s", sample.kind)][short(sample.name)];
            let found = sample.label.map_or(metric, |label| &metric[label.value]);
            assert_eq!(*found, sample.value, "{sample:?}");
        }
        let turns = &object["histograms"]["turn_duration"];
        let found = ["count", "p99_us", "mean_us"].map(|key| turns[key].as_u64());
        assert_eq!(found, [Some(1), Some(100), Some(60)]);
        out.clear();
        write_json(&Totals::new(), "", &mut out);
        assert!(out.contains("\"p50_us\":null"), "{out}");
    }
}
