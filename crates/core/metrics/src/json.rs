//! The form of `/stats`: one JSON object (RFC 8259), small enough to ask for every second.

use std::fmt::Write as _;

use throng_types::json::append_str;

use crate::{Buckets, Histogram, Label, Totals};

/// Appends `{"version":…,"cpu_us":…,"counters":{…},"gauges":{…},"histograms":{…}}`.
///
/// Names go without their prefix; like labels they need no escapes. A metric with a label is an
/// object of its series; a histogram has `count`, `sum_us`, `mean_us`, `p50_us`, `p90_us` and
/// `p99_us`, which are null when they are unknown.
pub fn write_json(totals: &Totals, version: &str, out: &mut String) {
    let mut quoted = Vec::new();
    append_str(version, &mut quoted);
    let version = String::from_utf8_lossy(&quoted);
    let _ = write!(out, "{{\"version\":{version},\"cpu_us\":{}", totals.cpu_us);
    for kind in ["counter", "gauge"] {
        let _ = write!(out, ",\"{kind}s\":{{");
        let series = totals.samples().filter(|it| it.kind == kind);
        metrics(
            series.map(|it| (short(it.name), it.label, it.value.to_string())),
            out,
        );
        out.push('}');
    }
    out.push_str(",\"histograms\":{");
    let histograms = Histogram::ALL.iter().map(|&it| {
        let name = short(it.name()).trim_end_matches("_seconds");
        (name, it.label(), distribution(totals.histogram(it)))
    });
    metrics(histograms, out);
    out.push_str("}}");
}

/// Series of one metric stand next to each other in the table, so one pass can nest them.
fn metrics(series: impl Iterator<Item = (&'static str, Option<Label>, String)>, out: &mut String) {
    let mut open = "";
    for (index, (name, label, value)) in series.enumerate() {
        if name == open {
            out.push(',');
        } else {
            if !open.is_empty() {
                out.push('}');
            }
            if index > 0 {
                out.push(',');
            }
            let _ = write!(out, "\"{name}\":");
            open = "";
        }
        if let Some(label) = label {
            if open.is_empty() {
                out.push('{');
                open = name;
            }
            let _ = write!(out, "\"{}\":", label.value);
        }
        out.push_str(&value);
    }
    if !open.is_empty() {
        out.push('}');
    }
}

fn distribution(buckets: &Buckets) -> String {
    let (count, sum_us) = (buckets.count(), buckets.sum_us);
    let mut out = format!("{{\"count\":{count},\"sum_us\":{sum_us}");
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
    out
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
        counters.record_many(Histogram::ApiRpc, 60, 2);
        let mut totals = Totals::sum([&counters]);
        totals.cpu_us = 7;
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
        let calls = &object["histograms"]["api_command_duration"];
        assert_eq!(calls["rpc"]["count"], 2);
        assert_eq!(object["cpu_us"], 7);
        out.clear();
        write_json(&Totals::new(), "", &mut out);
        assert!(out.contains("\"p50_us\":null"), "{out}");
    }
}
