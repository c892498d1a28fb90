//! Prometheus's text format, version 0.0.4 ("Exposition formats" in its documentation), and for
//! scrapers that ask for it that of OpenMetrics 1.0 ("OpenMetrics Specification" there).

use std::fmt::{self, Write as _};

use crate::exemplars::Exemplar;
use crate::histogram::BOUNDS_US;
use crate::{Exemplars, Histogram, Label, Totals};

/// Media type of Prometheus's format.
const PLAIN_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";
/// Media type of OpenMetrics, with which scrapers ask for it, and what stands behind it.
const OPEN_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Metrics for one scraper, in the form that it asks for.
#[derive(Debug, Default)]
pub struct Exposition<'a> {
    text: String,
    /// In the form of OpenMetrics, which has exemplars.
    exemplars: Option<&'a Exemplars>,
}

impl<'a> Exposition<'a> {
    /// Begins the text for a scraper that sends this field `Accept`.
    #[must_use]
    pub fn new(accept: Option<&str>, exemplars: &'a Exemplars) -> Self {
        let name = OPEN_TYPE.split(';').next().unwrap_or_default();
        let asks = |accept: &str| accept.to_ascii_lowercase().contains(name);
        Self {
            text: String::new(),
            exemplars: accept.is_some_and(asks).then_some(exemplars),
        }
    }

    /// Ends the text; gives its media type too.
    #[must_use]
    pub fn finish(mut self) -> (&'static str, String) {
        if self.exemplars.is_none() {
            return (PLAIN_TYPE, self.text);
        }
        self.text.push_str("# EOF\n");
        (OPEN_TYPE, self.text)
    }

    pub(crate) fn head(&mut self, name: &str, help: &str, kind: &str) {
        // A counter of OpenMetrics has the ending in its series alone, and none without it.
        let family = name.strip_suffix("_total");
        let (name, kind) = match (self.exemplars, kind, family) {
            (Some(_), "counter", Some(family)) => (family, kind),
            (Some(_), "counter", None) => (name, "unknown"),
            _ => (name, kind),
        };
        let _ = write!(self.text, "# HELP {name} ");
        escape(help, self.exemplars.is_some(), &mut self.text);
        let _ = writeln!(self.text, "\n# TYPE {name} {kind}");
    }

    pub(crate) fn series(&mut self, name: &str, label: Option<Label>, value: u64) {
        self.text.push_str(name);
        if let Some(label) = label {
            let _ = write!(self.text, "{{{}=\"", label.key);
            escape(label.value, true, &mut self.text);
            self.text.push_str("\"}");
        }
        let _ = writeln!(self.text, " {value}");
    }

    pub(crate) fn label(&mut self, value: &str) {
        escape(value, true, &mut self.text);
    }

    /// The bound of a bucket as a label; OpenMetrics has a point in each number.
    fn bound(&self, us: u64) -> String {
        let text = seconds(us);
        match self.exemplars {
            Some(_) if !text.contains('.') => text + ".0",
            _ => text,
        }
    }

    /// Ends the line of a bucket with so many durations of its own, with its exemplar. One that
    /// other clocks put into an empty bucket is left out.
    fn end_bucket(&mut self, histogram: Histogram, bucket: usize, count: u64) {
        let exemplars = self.exemplars.filter(|_| count > 0);
        let exemplar = exemplars.and_then(|all| all.get(histogram, bucket));
        if let Some(&Exemplar {
            trace_id,
            us,
            unix_ms,
        }) = exemplar
        {
            let (us, at) = (seconds(us), seconds(unix_ms.saturating_mul(1000)));
            let _ = write!(self.text, " # {{trace_id=\"{trace_id:032x}\"}} {us} {at}");
        }
        self.text.push('\n');
    }
}

impl fmt::Write for Exposition<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.text.write_str(text)
    }
}

/// Name by which boards for any program ask; so it has no prefix.
pub(crate) const CPU_SECONDS: &str = "process_cpu_seconds_total";
pub(crate) const CPU_HELP: &str = "CPU time of the process, of user and system, in seconds.";

/// Appends every metric; `throng_build_info` with the version and the commit of a program whose
/// version is `VERSION (COMMIT)`, or `VERSION`.
pub fn write_text(totals: &Totals, version: &str, out: &mut Exposition<'_>) {
    let help = "The version of the running program, and its commit; always 1.";
    out.head("throng_build_info", help, "gauge");
    let commit = { version.strip_suffix(')') }.and_then(|version| version.split_once(" ("));
    let (version, commit) = commit.unwrap_or((version, "unknown"));
    let _ = out.write_str("throng_build_info");
    for (key, value) in [("{version", version), (",revision", commit)] {
        let _ = write!(out, "{key}=\"");
        out.label(value);
        let _ = out.write_char('"');
    }
    let _ = out.write_str("} 1\n");
    out.head(CPU_SECONDS, CPU_HELP, "counter");
    let _ = writeln!(out, "{CPU_SECONDS} {}", seconds(totals.cpu_us));

    let mut last = "";
    for sample in totals.samples() {
        if sample.name != last {
            out.head(sample.name, sample.help, sample.kind);
            last = sample.name;
        }
        out.series(sample.name, sample.label, sample.value);
    }
    for &histogram in Histogram::ALL {
        if histogram.name() != last {
            last = histogram.name();
            out.head(last, histogram.help(), "histogram");
        }
        write_histogram(totals, histogram, out);
    }
}

fn write_histogram(totals: &Totals, histogram: Histogram, out: &mut Exposition<'_>) {
    let name = histogram.name();
    let label = histogram.label();
    let label = label.map_or_else(String::new, |it| format!("{}=\"{}\"", it.key, it.value));
    let (own, comma) = match &*label {
        "" => (String::new(), ""),
        label => (format!("{{{label}}}"), ","),
    };
    let buckets = totals.histogram(histogram);
    let mut below = 0_u64;
    for (bucket, (&bound_us, &count)) in BOUNDS_US.iter().zip(&buckets.counts).enumerate() {
        below = below.saturating_add(count);
        let bound = out.bound(bound_us);
        let _ = write!(out, "{name}_bucket{{{label}{comma}le=\"{bound}\"}} {below}");
        out.end_bucket(histogram, bucket, count);
    }
    let (count, last) = (buckets.count(), BOUNDS_US.len());
    let _ = write!(out, "{name}_bucket{{{label}{comma}le=\"+Inf\"}} {count}");
    out.end_bucket(histogram, last, buckets.counts[last]);
    let _ = writeln!(out, "{name}_sum{own} {}", seconds(buckets.sum_us));
    let _ = writeln!(out, "{name}_count{own} {count}");
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

/// Escapes help; a label's value has its quotes escaped too, and all does in OpenMetrics.
fn escape(text: &str, has_quotes: bool, out: &mut String) {
    for c in text.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            '"' if has_quotes => out.push_str("\\\""),
            '\n' => out.push_str("\\n"),
            c => out.push(c),
        }
    }
}

#[cfg(test)]
mod tests;
