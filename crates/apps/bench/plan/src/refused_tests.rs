//! Plays `fixtures/refused.txt`: what no reader of scenarios takes, and what each says of it.

use crate::import::{TsungOptions, read_tcpkali, read_tsung};
use crate::{Problem, read_toml_with};

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

fn problems(reader: &str, text: &str) -> Vec<Problem> {
    let none = "nothing is refused";
    match reader.split_once(' ').unwrap_or((reader, "")) {
        ("toml", _) => read_toml_with(text, &csv).expect_err(none),
        ("tsung", part) => {
            let text = match part {
                "file" => text.to_owned(),
                part => tsung(part, text),
            };
            vec![read_tsung(&text, &TsungOptions::default()).expect_err(none)]
        }
        ("tcpkali", _) => {
            let arguments: Vec<String> = text.split(" | ").map(str::to_owned).collect();
            let message = read_tcpkali(&arguments).expect_err(none);
            vec![Problem {
                line: None,
                message,
            }]
        }
        _ => panic!("no reader is called {reader}"),
    }
}

#[test]
fn what_is_refused_is_named_with_its_line() {
    let cases = include_str!("../fixtures/refused.txt")
        .split("\n== ")
        .skip(1);
    for case in cases {
        let (reader, rest) = case.split_once('\n').expect("a reader");
        let lines: Vec<&str> = rest.lines().collect();
        let end = lines.iter().position(|line| line.starts_with("=> "));
        let (text, expected) = lines.split_at(end.expect("a problem"));
        println!("{case}");
        let problems = problems(reader, &text.join("\n"));
        let mut exact = true;
        for line in expected {
            let (line, part) = line["=> ".len()..].split_once(' ').expect("a part");
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
