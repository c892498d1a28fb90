//! The form of `/stats`: one JSON object (RFC 8259), small enough to ask for every second.

use std::fmt::Write as _;

use crate::{Counter, Gauge, Histogram, Label, Totals};

/// Appends `{"version":…,"counters":{…},"gauges":{…},"histograms":{…}}`.
///
/// Names go without their prefix. A metric with a label is an object of its series; a histogram has
/// `count`, `sum_us`, `mean_us`, `p50_us`, `p90_us` and `p99_us`, which are null when they are
/// unknown.
pub fn write_json(totals: &Totals, version: &str, out: &mut String) {
    out.push_str("{\"version\":");
    string(version, out);
    out.push_str(",\"counters\":{");
    let counters = Counter::ALL.iter();
    metrics(
        counters.map(|&c| (c.name(), c.label(), totals.counter(c))),
        out,
    );
    out.push_str("},\"gauges\":{");
    let gauges = Gauge::ALL.iter();
    metrics(gauges.map(|&g| (g.name(), g.label(), totals.gauge(g))), out);
    out.push_str("},\"histograms\":{");
    for (index, &histogram) in Histogram::ALL.iter().enumerate() {
        if index > 0 {
            out.push(',');
        }
        write_histogram(totals, histogram, out);
    }
    out.push_str("}}");
}

/// Series of one metric stand next to each other in the table, so one pass can nest them.
fn metrics(series: impl Iterator<Item = (&'static str, Option<Label>, u64)>, out: &mut String) {
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
            string(short(name), out);
            out.push(':');
            open = "";
        }
        if let Some(label) = label {
            if open.is_empty() {
                out.push('{');
                open = name;
            }
            string(label.value, out);
            out.push(':');
        }
        let _ = write!(out, "{value}");
    }
    if !open.is_empty() {
        out.push('}');
    }
}

fn write_histogram(totals: &Totals, histogram: Histogram, out: &mut String) {
    let buckets = totals.histogram(histogram);
    let name = short(histogram.name());
    string(name.strip_suffix("_seconds").unwrap_or(name), out);
    let _ = write!(
        out,
        ":{{\"count\":{},\"sum_us\":{}",
        buckets.count(),
        buckets.sum_us
    );
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

fn string(text: &str, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            c if u32::from(c) < 0x20 => {
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::Counters;

    #[test]
    fn the_object_has_every_series() {
        let counters = Counters::new();
        for (index, &counter) in Counter::ALL.iter().enumerate() {
            counters.add(counter, index as u64 + 1);
        }
        for (index, &gauge) in Gauge::ALL.iter().enumerate() {
            counters.set(gauge, index as u64 + 501);
        }
        counters.record(Histogram::TurnDuration, 60);
        let mut out = String::new();
        write_json(&Totals::sum([&counters]), "1 \"x\\\u{1}", &mut out);
        let object: Value = serde_json::from_str(&out).expect("valid JSON");

        assert_eq!(object["version"], "1 \"x\\\u{1}");
        let find = |group: &str, name: &'static str, label: Option<Label>| {
            let metric = &object[group][short(name)];
            label.map_or(metric, |label| &metric[label.value]).clone()
        };
        for (index, counter) in Counter::ALL.iter().enumerate() {
            let value = find("counters", counter.name(), counter.label());
            assert_eq!(value, index as u64 + 1, "{counter:?}");
        }
        for (index, gauge) in Gauge::ALL.iter().enumerate() {
            let value = find("gauges", gauge.name(), gauge.label());
            assert_eq!(value, index as u64 + 501, "{gauge:?}");
        }
        let turns = &object["histograms"]["turn_duration"];
        assert_eq!(
            (&turns["count"], &turns["p99_us"], &turns["mean_us"]),
            (&1.into(), &100.into(), &60.into())
        );
        assert_eq!(
            object["histograms"]["delivery_latency"]["p50_us"],
            Value::Null
        );
    }
}
