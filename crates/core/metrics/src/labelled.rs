//! Numbers of apps and of namespaces, with a bounded number of labels.

use std::fmt::Write as _;

use crate::names::LABELS_MAX;
use crate::{AppMetric, Exposition, Label};

/// Label of all others; no id and no namespace has brackets.
pub(crate) const OTHERS: &str = "(other)";

/// One series of each app or namespace: its metric's name, help and kind, and its second label.
pub(crate) type Row = (&'static str, &'static str, &'static str, Option<Label>);

/// Values of one app, by [`AppMetric::index`].
pub type AppValues = [u64; AppMetric::COUNT];

/// Appends the metrics of apps; nothing without apps.
pub fn write_apps<'a>(apps: impl Iterator<Item = (&'a str, AppValues)>, out: &mut Exposition<'_>) {
    let mut rows: Vec<(&str, AppValues)> = Vec::new();
    for (id, values) in apps {
        match rows.len() {
            0..LABELS_MAX => rows.push((id, values)),
            LABELS_MAX => rows.push((OTHERS, values)),
            _ => {
                for (sum, value) in rows[LABELS_MAX].1.iter_mut().zip(values) {
                    *sum += value;
                }
            }
        }
    }
    let metrics = AppMetric::ALL.iter();
    let metrics = metrics.map(|it| (it.name(), it.help(), it.kind(), it.label()));
    write_rows("app", metrics, &rows, out);
}

/// Appends metrics of rows with a label each, whose values stand in the metrics' order.
pub(crate) fn write_rows<const N: usize>(
    own_key: &str,
    metrics: impl Iterator<Item = Row>,
    rows: &[(&str, [u64; N])],
    out: &mut Exposition<'_>,
) {
    let mut last = "";
    let metrics = metrics.filter(|_| !rows.is_empty());
    for (index, (name, help, kind, label)) in metrics.enumerate() {
        if name != last {
            out.head(name, help, kind);
            last = name;
        }
        for (own, values) in rows {
            let _ = write!(out, "{name}{{{own_key}=\"");
            out.label(own);
            let _ = out.write_char('"');
            if let Some(Label { key, value }) = label {
                let _ = write!(out, ",{key}=\"{value}\"");
            }
            let _ = writeln!(out, "}} {}", values[index]);
        }
    }
}

impl AppMetric {
    pub(crate) fn kind(self) -> &'static str {
        match self {
            Self::Connections => "gauge",
            _ => "counter",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_hundred_have_labels_and_the_others_are_added_up() {
        let ids: Vec<String> = (0..103).map(|id| id.to_string()).collect();
        let apps = ids.iter().map(|id| (&**id, [2; AppMetric::COUNT]));
        let mut out = Exposition::default();
        write_apps(apps, &mut out);
        let text = out.finish().1;
        let has = |line: &str| assert_eq!(text.matches(&format!("{line}\n")).count(), 1, "{line}");
        has("# TYPE throng_app_connections gauge");
        has("# TYPE throng_app_refused_total counter");
        has("throng_app_connections{app=\"0\"} 2");
        has("throng_app_publications_total{app=\"99\"} 2");
        has("throng_app_publications_total{app=\"(other)\"} 6");
        has("throng_app_refused_total{app=\"(other)\",limit=\"reads\"} 6");
        assert!(!text.contains("app=\"100\""));
        assert_eq!(text.lines().count(), 101 * AppMetric::COUNT + 2 * 4);
        let mut out = Exposition::default();
        write_apps(std::iter::empty(), &mut out);
        assert_eq!(out.finish().1, "");
    }
}
