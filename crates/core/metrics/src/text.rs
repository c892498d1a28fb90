//! Prometheus's text format, version 0.0.4 ("Exposition formats" in its documentation).

use std::fmt::Write as _;

use crate::histogram::BOUNDS_US;
use crate::{Histogram, Label, Totals};

/// The media type of [`write_text`]'s output.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Name by which boards for any program ask; so it has no prefix.
pub(crate) const CPU_SECONDS: &str = "process_cpu_seconds_total";
pub(crate) const CPU_HELP: &str = "CPU time of the process, of user and system, in seconds.";

/// Appends every metric; `throng_build_info` with the version and the commit of a program whose
/// version is `VERSION (COMMIT)`, or `VERSION`.
pub fn write_text(totals: &Totals, version: &str, out: &mut String) {
    let help = "The version of the running program, and its commit; always 1.";
    head(out, "throng_build_info", help, "gauge");
    let commit = { version.strip_suffix(')') }.and_then(|version| version.split_once(" ("));
    let (version, commit) = commit.unwrap_or((version, "unknown"));
    out.push_str("throng_build_info");
    for (key, value) in [("{version", version), (",revision", commit)] {
        let _ = write!(out, "{key}=\"");
        escape(value, true, out);
        out.push('"');
    }
    out.push_str("} 1\n");
    head(out, CPU_SECONDS, CPU_HELP, "counter");
    let _ = writeln!(out, "{CPU_SECONDS} {}", seconds(totals.cpu_us));

    let mut last = "";
    for sample in totals.samples() {
        if sample.name != last {
            head(out, sample.name, sample.help, sample.kind);
            last = sample.name;
        }
        series(out, sample.name, sample.label, sample.value);
    }
    for &histogram in Histogram::ALL {
        if histogram.name() != last {
            last = histogram.name();
            head(out, last, histogram.help(), "histogram");
        }
        write_histogram(totals, histogram, out);
    }
}

fn write_histogram(totals: &Totals, histogram: Histogram, out: &mut String) {
    let name = histogram.name();
    let label = histogram.label();
    let label = label.map_or_else(String::new, |it| format!("{}=\"{}\"", it.key, it.value));
    let (own, comma) = match &*label {
        "" => (String::new(), ""),
        label => (format!("{{{label}}}"), ","),
    };
    let buckets = totals.histogram(histogram);
    let mut below = 0_u64;
    for (&bound_us, &count) in BOUNDS_US.iter().zip(&buckets.counts) {
        below = below.saturating_add(count);
        let bound = seconds(bound_us);
        let _ = writeln!(out, "{name}_bucket{{{label}{comma}le=\"{bound}\"}} {below}");
    }
    let count = buckets.count();
    let _ = writeln!(out, "{name}_bucket{{{label}{comma}le=\"+Inf\"}} {count}");
    let _ = writeln!(out, "{name}_sum{own} {}", seconds(buckets.sum_us));
    let _ = writeln!(out, "{name}_count{own} {count}");
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
