//! Reads `fixtures/words.txt`: templates, sources, checks and secrets, a word each.

use throng_types::Rng;

use crate::Redactor;
use crate::check::{Check, CheckOutcome, Figure, LatencyKind, Metric};
use crate::ports::parse_sources;
use crate::template::{HoleScope, Template, Values};

fn render(text: &str, n: u64) -> String {
    let values = Values {
        n,
        worker: 2,
        channel: "a b:ü",
        payload: b"TB1",
    };
    let template = Template::compile(text, HoleScope::Publish, None).unwrap();
    template.render_to_string(&values, &mut Rng::new(1))
}

fn scope(name: &str) -> HoleScope {
    match name {
        "channel" => HoleScope::Channel,
        "connection" => HoleScope::Connection,
        _ => HoleScope::Publish,
    }
}

fn figure(metric: Metric) -> Option<f64> {
    match metric {
        Metric::Percentile(LatencyKind::Delivery, p) => Some(p * 1000.0),
        Metric::Percentile(LatencyKind::Connect, _) => Some(5000.0),
        Metric::Max(_) => Some(2e6),
        Metric::Figure(Figure::Lost) => Some(0.0),
        Metric::Figure(Figure::Reach) => Some(0.9995),
        Metric::Figure(Figure::Alive) => Some(1_000_000.0),
        _ => None,
    }
}

/// Reads a word; an error is a refusal.
fn outcome(how: &str, word: &str) -> Result<String, String> {
    let (kind, of) = how.split_once(' ').unwrap_or((how, ""));
    match kind {
        "template" => Ok(render(word, of.parse().unwrap())),
        "hole" => match Template::compile(word, scope(of), None) {
            Ok(template) => Ok(format!("{template:?}")),
            Err(error) => Err(format!("{} {}", error.at, error.message)),
        },
        "sources" => {
            let sources = parse_sources(word)?;
            let (first, last) = (sources[0], sources[sources.len() - 1]);
            Ok(format!("{} {first} {last}", sources.len()))
        }
        "check" => {
            let check: Check = word.parse()?;
            Ok(match check.judge(figure(check.metric())) {
                CheckOutcome::Passed { .. } => "true".into(),
                CheckOutcome::Failed { .. } => "false".into(),
                CheckOutcome::NoData => "none".into(),
            })
        }
        "mask" => Ok(Redactor::default().text(word)),
        other => panic!("no word is read as {other}"),
    }
}

#[test]
fn words_are_read_as_the_table_says() {
    let rows = include_str!("../fixtures/words.txt").lines();
    for row in rows.filter(|row| !row.is_empty() && !row.starts_with('#')) {
        let text = row.replace("\\r\\n", "\r\n");
        let cells: Vec<&str> = text.splitn(3, " | ").collect();
        let [how, word, expected] = cells[..] else {
            panic!("{row}");
        };
        let agrees = match outcome(how, word) {
            Ok(found) => found == expected,
            Err(why) if how.starts_with("hole") => {
                let (at, part) = expected.split_once(' ').unwrap();
                why.starts_with(&format!("{at} ")) && why.contains(part)
            }
            Err(why) => expected.strip_prefix("! ").is_some_and(|part| match how {
                "sources" => why.starts_with(part),
                _ => why.contains(part),
            }),
        };
        assert!(agrees, "{row}: {:?}", outcome(how, word));
    }
}
