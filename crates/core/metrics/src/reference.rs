//! The reference in Markdown, for `docs/metrics.md`.

use std::fmt::Write as _;

use crate::histogram::BOUNDS_US;
use crate::totals::Sample;
use crate::{Histogram, Label, Totals};

#[must_use]
pub fn reference_text() -> String {
    let mut out = String::from(
        "# Metrics\n\n\
         `GET /metrics` on the API listener answers in Prometheus's text format, `GET /stats` \
         with the same\n\
         numbers as JSON. Counters count since the start; gauges say how things are now. All are \
         sums over the\n\
         shards. Every series is there from the start, with the value 0.\n\n\
         This page is generated from the table of metrics.\n",
    );
    let totals = Totals::new();
    let of = |kind| totals.samples().filter(move |it| it.kind == kind);
    let series = |it: Sample| (it.name, it.help, it.label);
    table(&mut out, "Counters", of("counter").map(series));
    table(&mut out, "Gauges", of("gauge").map(series));
    out.push_str(
        "| `throng_build_info` | `version` | The version of the running program; always 1. |\n",
    );
    let histograms = Histogram::ALL.iter();
    let histograms = histograms.map(|it| (it.name(), it.help(), it.label()));
    table(&mut out, "Histograms", histograms);
    let bounds: Vec<String> = BOUNDS_US.iter().map(ToString::to_string).collect();
    let _ = writeln!(
        out,
        "\nThe bounds of their buckets, in microseconds: {}.",
        bounds.join(", ")
    );
    out.push_str(
        "\n## Under Pushpin's names\n\n\
         With `[grip]`, the same listener serves these metrics too. Their names begin with \
         `grip.prometheus_prefix`.\n\
         If `grip.prometheus` is set, that port serves them instead. Pushpin has the first \
         five; the others are Throng's.\n\n\
         | name | label | meaning |\n|---|---|---|\n",
    );
    for (name, label, help) in crate::pushpin::rows() {
        let label = if label.is_empty() {
            String::new()
        } else {
            format!("`{label}`")
        };
        let _ = writeln!(out, "| `{name}` | {label} | {help} |");
    }
    out
}

fn table(
    out: &mut String,
    title: &str,
    series: impl Iterator<Item = (&'static str, &'static str, Option<Label>)>,
) {
    let _ = writeln!(
        out,
        "\n## {title}\n\n| name | label | meaning |\n|---|---|---|"
    );
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
