//! The reference in Markdown, for `docs/metrics.md`.

use std::fmt::Write as _;

use crate::histogram::BOUNDS_US;
use crate::{AppMetric, Histogram, Label, NamespaceMetric, Totals};

#[must_use]
pub fn reference_text() -> String {
    let totals = Totals::new();
    let of = |kind| {
        let own = totals.samples().filter(move |it| it.kind == kind);
        rows(own.map(|it| (it.name, it.help, it.label)))
    };
    let histograms = Histogram::ALL.iter();
    let histograms = rows(histograms.map(|it| (it.name(), it.help(), it.label())));
    let apps = AppMetric::ALL.iter();
    let apps = rows(apps.map(|it| (it.name(), it.help(), it.label())));
    let namespaces = NamespaceMetric::ALL.iter();
    let namespaces = rows(namespaces.map(|it| (it.name(), it.help(), it.label())));
    let pushpin = crate::pushpin::rows().map(|(name, label, help)| {
        let quote = if label.is_empty() { "" } else { "`" };
        format!("| `{name}` | {quote}{label}{quote} | {help} |\n")
    });
    let bounds = BOUNDS_US.map(|bound| bound.to_string()).join(", ");
    include_str!("reference.md")
        .replace("{counters}", &of("counter"))
        .replace("{gauges}", &of("gauge"))
        .replace("{histograms}", &histograms)
        .replace("{bounds}", &bounds)
        .replace("{apps}", &apps)
        .replace("{namespaces}", &namespaces)
        .replace("{pushpin}", &pushpin.collect::<String>())
}

/// Rows of a table; a metric with several series has one row.
fn rows(series: impl Iterator<Item = (&'static str, &'static str, Option<Label>)>) -> String {
    let mut out = String::new();
    let mut series = series.peekable();
    while let Some((name, help, label)) = series.next() {
        let mut values: Vec<&str> = label.iter().map(|label| label.value).collect();
        while let Some((_, _, next)) = series.next_if(|(next, _, _)| *next == name) {
            values.extend(next.map(|label| label.value));
        }
        let label = match label {
            Some(label) => format!("`{}`: {}", label.key, values.join(", ")),
            None => String::new(),
        };
        let _ = writeln!(out, "| `{name}` | {label} | {help} |");
    }
    out
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_metric_has_one_row() {
        let text = reference_text();
        let totals = Totals::new();
        let names: BTreeSet<&str> = totals.samples().map(|it| it.name).collect();
        for name in names
            .into_iter()
            .chain(Histogram::ALL.iter().map(|h| h.name()))
        {
            assert_eq!(text.matches(&format!("| `{name}` |")).count(), 1, "{name}");
        }
        let recovered = "| `throng_recovered_total` | `result`: complete, failed | Attempts to \
                         get missed publications, by result. |\n";
        assert!(text.contains(recovered), "{text}");
        for line in text.lines().filter(|line| line.starts_with('|')) {
            assert_eq!(line.matches('|').count(), 4, "{line}");
        }
    }
}
