//! The text as a scraper reads it, and the table behind it. Grafana's board and the alerts use only
//! metrics that exist, and the board shows all of them.

use std::collections::{BTreeSet, HashMap, HashSet};

use proptest::prelude::*;
use serde_json::Value;

use super::*;
use crate::{Counter, Counters, Gauge, NamespaceMetric};

fn text_of(totals: &Totals) -> String {
    let mut out = Exposition::default();
    write_text(totals, "1.2.3 (2d05fe1)", &mut out);
    out.finish().1
}

fn is_name(name: &str) -> bool {
    let rest_is_valid = name
        .bytes()
        .all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_'));
    rest_is_valid && name.starts_with("throng_") && !name.contains("__") && !name.ends_with('_')
}

#[test]
fn names_are_valid_and_used_once() {
    let mut metrics = HashSet::new();
    let mut all = HashSet::new();
    let mut last = "";
    let totals = Totals::new();
    let samples = totals.samples();
    let samples = samples.map(|it| (it.name, it.help, it.label, it.kind == "counter"));
    let histograms = Histogram::ALL.iter();
    let histograms = histograms.map(|h| (h.name(), h.help(), h.label(), false));
    let mut keys: HashMap<&str, Option<&str>> = HashMap::new();
    for (name, help, label, is_counter) in samples.chain(histograms) {
        assert!(is_name(name), "{name}");
        assert_eq!(name.ends_with("_total"), is_counter, "{name}");
        assert!(
            help.ends_with('.') && !help.contains('\n'),
            "{name}: {help}"
        );
        if name != last {
            assert!(metrics.insert(name), "{name} is declared in two places");
            last = name;
        }
        let label_text = label.map(|label| format!("{}={}", label.key, label.value));
        assert!(
            all.insert((name, label_text.clone())),
            "{name} {label_text:?} is there twice"
        );
        // One metric has one label on all of its series, or on none.
        let key = label.map(|label| label.key);
        assert_eq!(*keys.entry(name).or_insert(key), key, "{name}");
    }
    let mut histograms = Histogram::ALL.iter();
    assert!(histograms.all(|histogram| histogram.name().ends_with("_seconds")));
    for (index, counter) in Counter::ALL.iter().enumerate() {
        assert_eq!(counter.index(), index);
    }
}

/// Reads the text back line by line, as a scraper would.
#[test]
fn every_line_is_what_a_scraper_expects() {
    let counters = Counters::new();
    for (index, &counter) in Counter::ALL.iter().enumerate() {
        counters.add(counter, index as u64 + 1);
    }
    for (index, &gauge) in Gauge::ALL.iter().enumerate() {
        counters.set(gauge, index as u64 + 501);
    }
    let mut totals = Totals::sum([&counters]);
    totals.cpu_us = 1_500_000;
    let text = text_of(&totals);
    assert!(text.ends_with('\n') && !text.contains("\n\n"));

    let mut helps = HashSet::new();
    let mut current = ("", "");
    let mut values: HashMap<&str, &str> = HashMap::new();
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, help) = rest.split_once(' ').expect("a help text");
            assert!(helps.insert(name) && !help.is_empty(), "{line}");
            current = (name, "");
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').expect("a type");
            assert_eq!((name, ""), current, "a type follows its help: {line}");
            assert!(matches!(kind, "counter" | "gauge" | "histogram"), "{line}");
            current.1 = kind;
        } else {
            let (series, value) = line.rsplit_once(' ').expect("a value");
            assert!(value.parse::<f64>().is_ok(), "{line}");
            assert!(values.insert(series, value).is_none(), "twice: {line}");
            let name = series.split('{').next().expect("a name");
            let base = match current.1 {
                "histogram" => ["_bucket", "_sum", "_count"]
                    .iter()
                    .find_map(|suffix| name.strip_suffix(suffix))
                    .expect("a part of a histogram"),
                _ => name,
            };
            assert_eq!(base, current.0, "{line}");
        }
    }
    let build_info = "throng_build_info{version=\"1.2.3\",revision=\"2d05fe1\"}";
    assert_eq!(values[build_info], "1");
    assert_eq!(values[CPU_SECONDS], "1.5");
    for (index, &counter) in Counter::ALL.iter().enumerate() {
        let series = match counter.label() {
            Some(label) => format!("{}{{{}=\"{}\"}}", counter.name(), label.key, label.value),
            None => counter.name().to_owned(),
        };
        assert_eq!(values[series.as_str()], (index + 1).to_string(), "{series}");
    }
    assert_eq!(values["throng_connections{transport=\"websocket\"}"], "501");
    let parts = Histogram::COUNT * (BOUNDS_US.len() + 3);
    assert_eq!(values.len(), 2 + Counter::COUNT + Gauge::COUNT + parts);
}

#[test]
fn histograms_are_cumulative_and_in_seconds() {
    let counters = Counters::new();
    for us in [50, 51, 700, 60_000_000] {
        counters.record(Histogram::TurnDuration, us);
    }
    let text = text_of(&Totals::sum([&counters]));
    let lines: Vec<&str> = text
        .lines()
        .skip_while(|line| !line.starts_with("# TYPE throng_turn_duration_seconds"))
        .take_while(|line| !line.starts_with("# HELP"))
        .collect();
    assert_eq!(
        lines,
        [
            "# TYPE throng_turn_duration_seconds histogram",
            "throng_turn_duration_seconds_bucket{le=\"0.00005\"} 1",
            "throng_turn_duration_seconds_bucket{le=\"0.0001\"} 2",
            "throng_turn_duration_seconds_bucket{le=\"0.00025\"} 2",
            "throng_turn_duration_seconds_bucket{le=\"0.0005\"} 2",
            "throng_turn_duration_seconds_bucket{le=\"0.001\"} 3",
            "throng_turn_duration_seconds_bucket{le=\"0.0025\"} 3",
            "throng_turn_duration_seconds_bucket{le=\"0.005\"} 3",
            "throng_turn_duration_seconds_bucket{le=\"0.01\"} 3",
            "throng_turn_duration_seconds_bucket{le=\"0.025\"} 3",
            "throng_turn_duration_seconds_bucket{le=\"0.05\"} 3",
            "throng_turn_duration_seconds_bucket{le=\"0.1\"} 3",
            "throng_turn_duration_seconds_bucket{le=\"0.25\"} 3",
            "throng_turn_duration_seconds_bucket{le=\"0.5\"} 3",
            "throng_turn_duration_seconds_bucket{le=\"1\"} 3",
            "throng_turn_duration_seconds_bucket{le=\"2.5\"} 3",
            "throng_turn_duration_seconds_bucket{le=\"5\"} 3",
            "throng_turn_duration_seconds_bucket{le=\"10\"} 3",
            "throng_turn_duration_seconds_bucket{le=\"+Inf\"} 4",
            "throng_turn_duration_seconds_sum 60.000801",
            "throng_turn_duration_seconds_count 4",
        ]
    );
    let name = "throng_api_command_duration_seconds";
    let last = [
        "_bucket{method=\"rpc\",le=\"+Inf\"}",
        "_sum{method=\"rpc\"}",
    ];
    let last = last.map(|part| format!("{name}{part} 0\n"));
    let end = format!("{}{name}_count{{method=\"rpc\"}} 0\n", last.concat());
    assert!(text.ends_with(&end), "{text}");
    assert_eq!(text.matches(&format!("# TYPE {name} ")).count(), 1);
}

/// Scrapers of Prometheus send such a field. What differs from its own format: names of counters,
/// bounds, the end, and exemplars.
#[test]
fn who_asks_for_openmetrics_gets_exemplars() {
    let counters = Counters::new();
    let mut exemplars = Exemplars::default();
    for us in [700, 60_000_000] {
        counters.record(Histogram::DeliveryLag, us);
        exemplars.put(Histogram::DeliveryLag, us, 0xa0, 1_700_000_000_250);
    }
    // Of a bucket without a duration, which the turn's clock put elsewhere.
    exemplars.put(Histogram::DeliveryLag, 10, 0xa0, 1_700_000_000_250);
    let totals = Totals::sum([&counters]);
    let text = |accept| {
        let mut out = Exposition::new(accept, &exemplars);
        write_text(&totals, "1", &mut out);
        crate::write_pushpin(&totals, "p_", &mut out);
        out.finish()
    };
    let plain = text(Some("text/plain;version=0.0.4, */*;q=0.1"));
    assert_eq!(plain, text(None));
    assert!(plain.0.starts_with("text/plain; version=0.0.4") && !plain.1.contains(" # {"));
    let accept = "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5";
    let (media_type, open) = text(Some(accept));
    assert_eq!(media_type, OPEN_TYPE);
    let trace = "# {trace_id=\"000000000000000000000000000000a0\"}";
    let end = "1700000000.25";
    for line in [
        "throng_delivery_lag_seconds_bucket{le=\"0.00005\"} 0".into(),
        format!("throng_delivery_lag_seconds_bucket{{le=\"0.001\"}} 1 {trace} 0.0007 {end}"),
        "throng_delivery_lag_seconds_bucket{le=\"1.0\"} 1".into(),
        format!("throng_delivery_lag_seconds_bucket{{le=\"+Inf\"}} 2 {trace} 60 {end}"),
        "# TYPE throng_connections_accepted counter".into(),
        "throng_connections_accepted_total 0".into(),
        "# TYPE process_cpu_seconds counter".into(),
        "process_cpu_seconds_total 0".into(),
        "# TYPE p_connection_minute unknown".into(),
    ] {
        assert!(
            open.lines().any(|found| found == line),
            "{line} is not in {open}"
        );
    }
    assert!(open.ends_with("\n# EOF\n"));
    // All else is the same.
    let same = |text: &str| {
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        let lines = lines.map(|line| {
            line.split(" # ")
                .next()
                .unwrap_or_default()
                .replace(".0\"", "\"")
        });
        lines.collect::<Vec<_>>()
    };
    assert_eq!(same(&open), same(&plain.1));
}

#[test]
fn labels_are_escaped() {
    let mut text = Exposition::default();
    write_text(&Totals::new(), "a\"b\\c\nd", &mut text);
    let mut out = text.finish().1;
    assert!(
        out.contains("throng_build_info{version=\"a\\\"b\\\\c\\nd\",revision=\"unknown\"} 1\n"),
        "{out}"
    );
    out.clear();
    escape("a\\b\n\"c\"", false, &mut out);
    assert_eq!(out, "a\\\\b\\n\"c\"");
}

proptest! {
    #[test]
    fn seconds_are_exact(us: u64) {
        let text = seconds(us);
        let (whole, rest) = text.split_once('.').unwrap_or((&text, ""));
        let back: u128 = format!("{whole}{rest:0<6}").parse().expect("digits");
        prop_assert_eq!(back, u128::from(us));
    }
}

// ---- the board of Grafana and the alerts ----

const BOARD: &str = include_str!("../../../../../deploy/grafana/dashboards/throng.json");
const RULES: &str = include_str!("../../../../../deploy/prometheus/rules.yml");
/// Name of the metric that is not in the table, since its label is the running program's version.
const BUILD_INFO: &str = "throng_build_info";

/// Every series: the metric's name and its label.
fn table() -> Vec<(String, Option<Label>)> {
    let totals = Totals::new();
    let samples = totals.samples().map(|it| (it.name.to_owned(), it.label));
    let parts = Histogram::ALL.iter().flat_map(|h| {
        let part = |suffix| (format!("{}{suffix}", h.name()), h.label());
        ["", "_bucket", "_sum", "_count"].map(part)
    });
    let build_info = std::iter::once((BUILD_INFO.into(), None));
    let namespaces = NamespaceMetric::ALL.iter();
    let namespaces = namespaces.map(|it| (it.name().to_owned(), it.label()));
    let all = samples.chain(parts).chain(build_info);
    all.chain(namespaces).collect()
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
    let totals = Totals::new();
    let names = totals.samples().map(|it| it.name);
    let names = names.chain(Histogram::ALL.iter().map(|h| h.name()));
    let names = names.chain(NamespaceMetric::ALL.iter().map(|it| it.name()));
    let missing: BTreeSet<&str> = names.filter(|name| !shown.contains(name)).collect();
    assert!(missing.is_empty(), "add a panel for {missing:?}");
}
