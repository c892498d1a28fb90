//! Prometheus's text format, version 0.0.4 ("Exposition formats" in its documentation).

use std::fmt::Write as _;

use crate::histogram::BOUNDS_US;
use crate::{Histogram, Label, Totals};

/// The media type of [`write_text`]'s output.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Appends every metric, and `throng_build_info` with the given version.
pub fn write_text(totals: &Totals, version: &str, out: &mut String) {
    head(
        out,
        "throng_build_info",
        "The version of the running program; always 1.",
        "gauge",
    );
    out.push_str("throng_build_info{version=\"");
    escape(version, true, out);
    out.push_str("\"} 1\n");

    let mut last = "";
    for sample in totals.samples() {
        if sample.name != last {
            head(out, sample.name, sample.help, sample.kind);
            last = sample.name;
        }
        series(out, sample.name, sample.label, sample.value);
    }
    for &histogram in Histogram::ALL {
        write_histogram(totals, histogram, out);
    }
}

fn write_histogram(totals: &Totals, histogram: Histogram, out: &mut String) {
    let name = histogram.name();
    head(out, name, histogram.help(), "histogram");
    let buckets = totals.histogram(histogram);
    let mut below = 0_u64;
    for (&bound_us, &count) in BOUNDS_US.iter().zip(&buckets.counts) {
        below = below.saturating_add(count);
        let _ = writeln!(out, "{name}_bucket{{le=\"{}\"}} {below}", seconds(bound_us));
    }
    let count = buckets.count();
    let _ = writeln!(out, "{name}_bucket{{le=\"+Inf\"}} {count}");
    let _ = writeln!(out, "{name}_sum {}", seconds(buckets.sum_us));
    let _ = writeln!(out, "{name}_count {count}");
}

pub(crate) fn head(out: &mut String, name: &str, help: &str, kind: &str) {
    let _ = write!(out, "# HELP {name} ");
    escape(help, false, out);
    let _ = writeln!(out, "\n# TYPE {name} {kind}");
}

pub(crate) fn series(out: &mut String, name: &str, label: Option<Label>, value: u64) {
    out.push_str(name);
    if let Some(label) = label {
        let _ = write!(out, "{{{}=\"", label.key);
        escape(label.value, true, out);
        out.push_str("\"}");
    }
    let _ = writeln!(out, " {value}");
}

/// Microseconds as decimal seconds, exactly and without trailing zeros.
fn seconds(us: u64) -> String {
    let (whole, rest) = (us / 1_000_000, us % 1_000_000);
    if rest == 0 {
        return whole.to_string();
    }
    let text = format!("{whole}.{rest:06}");
    text.trim_end_matches('0').to_owned()
}

/// Escapes help; a label's value has its quotes escaped too.
pub(crate) fn escape(text: &str, is_label: bool, out: &mut String) {
    for c in text.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            '"' if is_label => out.push_str("\\\""),
            '\n' => out.push_str("\\n"),
            c => out.push(c),
        }
    }
}

#[cfg(test)]
mod tests;
