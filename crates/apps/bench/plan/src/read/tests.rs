//! Data from a file, and the page about keys; other scenarios are in `fixtures/understood.txt`.

use super::*;
use crate::template::{HoleScope, Template, Values};

#[test]
fn data_from_a_file_fills_templates() {
    let text = "targets = 'ws://h:1/?token={data.token:url}'\ndata = 'users.csv'\nchannels = \
                '{data.room}'\n[connect]\nclients = 3\n";
    let files = |name: &str| match name {
        "users.csv" => Ok("room,token\na,1+1\nb,2\n".to_owned()),
        _ => Err("no such file".to_owned()),
    };
    let scenario = read_toml_with(text, &files).unwrap();
    let channels = crate::ChannelPlan::new(&scenario).unwrap();
    let subscribed = |n| channels.of_connection(n).collect::<Vec<_>>();
    assert_eq!((channels.len(), channels.subscribers(0)), (2, 2));
    assert_eq!(subscribed(0), subscribed(2));
    let path = Template::compile(
        &scenario.targets[0].path,
        HoleScope::Connection,
        scenario.data.as_ref(),
    );
    let values = Values {
        n: 2,
        ..Values::default()
    };
    let path = path
        .unwrap()
        .render_to_string(&values, &mut throng_types::Rng::new(1));
    assert_eq!(path, "/?token=1%2B1");

    // Its rows are for agents; results do not keep them.
    let json = serde_json::to_string(&scenario).unwrap();
    assert_eq!(serde_json::from_str::<Scenario>(&json).unwrap(), scenario);
    let redactor = crate::Redactor::new(&scenario, &[]);
    let kept = serde_json::to_string(&redactor.scenario(&scenario)).unwrap();
    assert!(
        kept.contains(r#""data":{"columns":["room","token"],"rows":[]}"#),
        "{kept}"
    );
}

/// Asks each table for its keys by one that it does not have.
#[test]
fn the_guide_has_every_key() {
    const WRONG: &str = "wwwwwwwwwwwwwwwwwwwwwwwwwwwwwwww = 1";
    let page = include_str!("../../../../../../docs/guides/load-testing.md");
    let first: Vec<String> = { page.lines() }
        .filter_map(|line| Some(line.strip_prefix("| ")?.split(" | ").next()?.to_owned()))
        .collect();
    let kinds = TRANSPORTS.map(|kind| format!("[transport]\nkind = '{kind}'"));
    let ways = ["plain", "centrifugo", "http", "websocket"];
    let ways = ways.map(|way| format!("[publish]\nas = '{way}'"));
    let own = ["chat", "reconnect-storm", "slow-readers", "resume"];
    let own = own.map(|kind| format!("scenario = '{kind}'\n[{}]", kind.replace('-', "_")));
    let others = ["", "[connect]", "[[connect.phase]]", "[say]", "[statsd]"];
    let tables = kinds.into_iter().chain(ways).chain(own);
    for table in tables.chain(others.map(str::to_owned)) {
        let problems = read_toml_with(&format!("{table}\n{WRONG}\n"), &|_| Err(String::new()));
        let problems = problems.expect_err(&table);
        let told = problems.iter().find_map(|problem| {
            let (_, rest) = problem.message.split_once("` in [").or_else(|| {
                problem
                    .message
                    .split_once("`; ")
                    .filter(|_| table.is_empty())
            })?;
            let (section, keys) = rest.split_once("known are ")?;
            Some((section.trim_end_matches("]; ").to_owned(), keys.to_owned()))
        });
        let (section, keys) = told.unwrap_or_else(|| panic!("{table}: {problems:?}"));
        for key in keys.split(", ") {
            let name = match section.as_str() {
                "" => format!("`{key}`"),
                section => format!("`{section}.{key}`"),
            };
            let is_section = page.contains(&format!("`{key}."));
            let is_told = first.iter().any(|cell| cell.contains(&name));
            assert!(
                is_told || section.is_empty() && is_section,
                "{table}: {name}"
            );
        }
    }
}
