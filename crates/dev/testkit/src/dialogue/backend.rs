//! A backend of dialogues, which answers by rules: the first that fits what it is asked.

use std::io::{BufRead, Write as _};
use std::net::TcpStream;

use serde_json::{Value, json};
use throng_dialogue::{Variables, put_times};

use super::values;
use crate::{backend, unix_s};

/// `PATH {asked} => STATUS {answer}`; the status `held` is 200 once the backend is released.
struct Rule {
    path: String,
    asked: Value,
    /// None if the answer is held back.
    status: Option<u16>,
    answer: Value,
}

/// A backend with requests: the path, and the body with two fields of the head in it, `x-said` and
/// `traceparent`.
pub(super) type Backend = backend::Backend<(String, Value)>;

impl Backend {
    /// Starts one with a rule a line: `PATH {asked} => STATUS {answer}`. Texts of the answer with a
    /// dollar are fields of the request's body, in which these two are fields of its head.
    pub(super) fn by_rules(rules: &str) -> Self {
        let rules: Vec<Rule> = rules.lines().map(rule).collect();
        Self::start(move |reader, memory| {
            let Some((path, asked)) = request(reader) else {
                return false;
            };
            let fits = |rule: &&Rule| fits(&path, &asked, &rule.path, &rule.asked);
            let rule = rules.iter().find(fits);
            let mut answer =
                rule.map_or_else(|| json!({}), |rule| values::answer(&rule.answer, &asked));
            put_times(&mut answer, unix_s());
            memory.note((path, asked));
            let status = rule.map_or(500, |rule| rule.status.unwrap_or(200));
            if rule.is_some_and(|rule| rule.status.is_none()) {
                memory.hold();
            }
            let answer = answer.to_string();
            let length = answer.len();
            let head = format!("HTTP/1.1 {status} X\r\nContent-Length: {length}\r\n\r\n");
            let mut stream: &TcpStream = reader.get_ref();
            stream.write_all((head + &answer).as_bytes()).is_ok()
        })
    }

    /// Number of requests so far whose path and body fit.
    pub(super) fn count(&self, path: &str, pattern: &Value) -> usize {
        let fits = |(on, body): &&(String, Value)| fits(on, body, path, pattern);
        self.asked().iter().filter(fits).count()
    }
}

/// Whether a request has a path, of which `*` is any, and a body that fits a pattern.
fn fits(on: &str, body: &Value, path: &str, pattern: &Value) -> bool {
    (path == "*" || on == path) && Variables::default().fit(body, pattern).is_ok()
}

fn rule(line: &str) -> Rule {
    let (asked, answer) = line.split_once(" => ").expect("a rule has =>");
    let (path, asked) = asked.split_once(' ').unwrap_or((asked, "{}"));
    let (status, answer) = answer.split_once(' ').expect("a status and an answer");
    Rule {
        path: path.to_owned(),
        asked: values::parse(asked),
        status: (status != "held").then(|| status.parse().expect("a status")),
        answer: serde_json::from_str(answer).expect("JSON"),
    }
}

/// Reads a question; none at the end of the connection.
fn request(reader: &mut impl BufRead) -> Option<(String, Value)> {
    let (line, head) = backend::next_request(reader)?;
    let mut body: Value = match &*head.body {
        "" => json!({}),
        body => serde_json::from_str(body).expect("questions are JSON"),
    };
    for field in ["x-said", "traceparent"] {
        let said = head.header(field).unwrap_or_default();
        body[field] = said.to_ascii_lowercase().into();
    }
    Some((line.split(' ').nth(1)?.to_owned(), body))
}
