//! Grafana's board and the alerts use only metrics that exist, and the board shows all of them.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::{Counter, Gauge, Histogram, Label};

const BOARD: &str = include_str!("../../../../deploy/grafana/dashboards/throng.json");
const RULES: &str = include_str!("../../../../deploy/prometheus/rules.yml");
/// Name of the metric that is not in the table, since its label is the running program's version.
const BUILD_INFO: &str = "throng_build_info";

/// Every series: the metric's name and its label.
fn table() -> Vec<(String, Option<Label>)> {
    let counters = Counter::ALL.iter().map(|c| (c.name().into(), c.label()));
    let gauges = Gauge::ALL.iter().map(|g| (g.name().into(), g.label()));
    let parts = Histogram::ALL.iter().flat_map(|h| {
        let part = |suffix| (format!("{}{suffix}", h.name()), h.label());
        ["", "_bucket", "_sum", "_count"].map(part)
    });
    let build_info = std::iter::once((BUILD_INFO.into(), None));
    counters
        .chain(gauges)
        .chain(parts)
        .chain(build_info)
        .collect()
}

/// Each of our metrics' names in a text, and the text behind it.
fn names(text: &str) -> impl Iterator<Item = (&str, &str)> {
    text.match_indices("throng_").map(|(at, _)| {
        let rest = &text[at..];
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        rest.split_at(end.unwrap_or(rest.len()))
    })
}

/// The queries of the panels, including those in folded rows.
fn questions(panels: &Value) -> Vec<String> {
    let mut found = Vec::new();
    for panel in panels.as_array().into_iter().flatten() {
        for target in panel["targets"].as_array().into_iter().flatten() {
            found.push(target["expr"].as_str().unwrap().to_owned());
        }
        found.extend(questions(&panel["panels"]));
    }
    found
}

#[track_caller]
fn check(text: &str) {
    let table = table();
    for (name, behind) in names(text) {
        let labels: Vec<Option<Label>> = table
            .iter()
            .filter(|(known, _)| known == name)
            .map(|&(_, label)| label)
            .collect();
        assert!(!labels.is_empty(), "{name}: no such metric, in {text}");
        let Some((selector, _)) = behind.strip_prefix('{').and_then(|b| b.split_once('}')) else {
            continue;
        };
        for label in labels.iter().flatten() {
            for matcher in selector.split(',') {
                let Some((key, value)) = matcher.split_once('=') else {
                    continue;
                };
                let value = value.trim_matches('"');
                let known = |l: &Option<Label>| l.is_some_and(|l| l.value == value);
                assert!(
                    key.trim_end_matches('!') != label.key || labels.iter().any(known),
                    "{name}: no {key} is {value}, in {text}"
                );
            }
        }
    }
}

#[test]
fn panels_and_alerts_ask_only_for_metrics_that_exist() {
    let board: Value = serde_json::from_str(BOARD).unwrap();
    let questions = questions(&board["panels"]);
    assert!(questions.len() > 50, "{}", questions.len());
    questions.iter().for_each(|question| check(question));
    RULES.lines().for_each(check);
}

#[test]
fn the_board_shows_every_metric() {
    let board: Value = serde_json::from_str(BOARD).unwrap();
    let questions = questions(&board["panels"]).join("\n");
    let shown: BTreeSet<&str> = names(&questions)
        .map(|(name, _)| {
            let base = |suffix| name.strip_suffix(suffix);
            let histogram = ["_bucket", "_sum", "_count"].into_iter().find_map(base);
            histogram.unwrap_or(name)
        })
        .collect();
    let counters = Counter::ALL.iter().map(|c| c.name());
    let gauges = Gauge::ALL.iter().map(|g| g.name());
    let histograms = Histogram::ALL.iter().map(|h| h.name());
    let missing: BTreeSet<&str> = counters
        .chain(gauges)
        .chain(histograms)
        .filter(|name| !shown.contains(name))
        .collect();
    assert!(missing.is_empty(), "add a panel for {missing:?}");
}
