//! Reads the scenarios of `fixtures/understood.txt` and `fixtures/refused.txt`, by each reader.

use std::collections::HashMap;

use serde_json::{Value, json};
use throng_types::Rng;

use crate::import::{Imported, TsungOptions, read_tcpkali, read_tsung};
use crate::template::{HoleScope, Template, Values};
use crate::{Problem, Scenario, Target, read_toml_with};

fn csv(name: &str) -> Result<String, String> {
    match name {
        "good.csv" => Ok("a\n1\n".into()),
        "short.csv" => Ok("a,b\n1\n".into()),
        "backslash.csv" => Ok("a\n\\\n".into()),
        _ => Err("files cannot be read here".into()),
    }
}

/// Makes a file of Tsung with this part in place of an ordinary one; a session begins on line 5.
fn tsung(part: &str, text: &str) -> String {
    let text = text.replace(
        "CONNECT",
        "<request><websocket type='connect' path='/a'/></request>",
    );
    let part = |name: &str, ordinary: &str| {
        let given = part == name;
        if given {
            text.clone()
        } else {
            ordinary.to_owned()
        }
    };
    let (users, options, session) = (
        part("users", "<users arrivalrate='5' unit='second'/>"),
        part("options", ""),
        part(
            "session",
            "<request><websocket type='connect' path='/a'/></request>",
        ),
    );
    format!(
        "<tsung>\n<servers><server host='h' port='80' type='tcp'/></servers>\n<load><arrivalphase \
         phase='1' duration='10' unit='second'>{users}</arrivalphase></load>\n\
         <options>{options}</options>\n<sessions><session name='s' probability='100' \
         type='ts_websocket'>{session}</session></sessions>\n</tsung>"
    )
}

/// Reads a scenario as the head of a case says: a reader, for Tsung a part, and adaptations.
fn read(head: &str, text: &str) -> Result<Imported, Vec<Problem>> {
    let (words, adapted): (Vec<&str>, Vec<&str>) =
        head.split(' ').partition(|word| !word.contains('='));
    let adapted: HashMap<&str, &str> = { adapted.iter() }
        .filter_map(|word| word.split_once('='))
        .collect();
    let scale = adapted
        .get("scale")
        .map_or(1.0, |scale| scale.parse().unwrap());
    let duration_us = adapted.get("duration").map(|us| us.parse().unwrap());
    match words[..] {
        ["toml"] => {
            let mut scenario = read_toml_with(text, &csv)?;
            scenario.scale(scale);
            scenario.bound_duration(duration_us.unwrap_or(u64::MAX));
            Ok(Imported {
                scenario,
                notes: Vec::new(),
            })
        }
        ["tsung", part] => {
            let text = match part {
                "file" => text.to_owned(),
                "bench" => include_str!("../fixtures/tsung-bench.xml").to_owned(),
                part => tsung(part, text),
            };
            let options = TsungOptions {
                target: adapted.get("target").map(|url| Target::parse(url).unwrap()),
                scale,
                duration_us,
            };
            read_tsung(&text, &options).map_err(|problem| vec![problem])
        }
        ["tcpkali"] => {
            let arguments: Vec<String> = text.split(" | ").map(str::to_owned).collect();
            read_tcpkali(&arguments).map_err(|message| {
                vec![Problem {
                    line: None,
                    message,
                }]
            })
        }
        _ => panic!("no reader is called {head}"),
    }
}

/// Splits a file into its cases: head, text, and the lines behind `=>`.
fn cases(file: &str) -> impl Iterator<Item = (&str, String, Vec<&str>)> {
    file.split("\n== ").skip(1).map(|case| {
        let (head, rest) = case.split_once('\n').expect("a reader");
        let is_text = |line: &&str| !line.starts_with("=> ");
        let text: Vec<&str> = rest.lines().take_while(is_text).collect();
        let expected = rest.lines().filter_map(|line| line.strip_prefix("=> "));
        (head, text.join("\n"), expected.collect())
    })
}

/// Finds what a path names in a scenario.
fn fact(scenario: &Scenario, path: &str) -> Value {
    let whole = serde_json::to_value(scenario).unwrap();
    if let Some(n) = path.strip_prefix("first@") {
        let (_, first, _) = scenario.transport.opening();
        let template = Template::compile(&first[0], HoleScope::Connection, None).unwrap();
        let values = Values {
            n: n.parse().unwrap(),
            ..Values::default()
        };
        return template.render_to_string(&values, &mut Rng::new(0)).into();
    }
    match (path, path.strip_suffix(".#")) {
        ("arrivals_us", _) => scenario.arrivals.duration_us().into(),
        ("duration_us", _) => scenario.duration_us().into(),
        (_, Some(list)) => json!(whole[list].as_array().map(Vec::len)),
        (path, None) => {
            let path = format!("/{}", path.replace('.', "/"));
            whole.pointer(&path).cloned().unwrap_or_default()
        }
    }
}

#[test]
fn scenarios_are_understood() {
    for (head, text, expected) in cases(include_str!("../fixtures/understood.txt")) {
        println!("== {head}\n{text}");
        let Imported { scenario, notes } = read(head, &text).expect("it is understood");
        let json = serde_json::to_value(&scenario).unwrap();
        assert_eq!(serde_json::from_value::<Scenario>(json).unwrap(), scenario);
        for line in expected {
            let (path, value) = line.split_once(' ').expect("a value");
            if path == "note" {
                assert!(notes.iter().any(|note| note.contains(value)), "{notes:?}");
                continue;
            }
            let value: Value = serde_json::from_str(value).expect("JSON");
            assert_eq!(fact(&scenario, path), value, "{path}");
        }
    }
}

#[test]
fn what_is_refused_is_named_with_its_line() {
    for (head, text, expected) in cases(include_str!("../fixtures/refused.txt")) {
        println!("== {head}\n{text}");
        let problems = read(head, &text).expect_err("nothing is refused");
        let mut exact = true;
        for line in &expected {
            let (line, part) = line.split_once(' ').expect("a part");
            exact &= line != "*";
            let found = problems.iter().any(|problem| {
                let at = problem.line.unwrap_or(0).to_string();
                (line == "*" || line == at) && problem.message.contains(part)
            });
            assert!(found, "line {line}, {part:?} not in {problems:#?}");
        }
        assert!(!exact || problems.len() == expected.len(), "{problems:#?}");
    }
}
