//! A backend of dialogues, which answers by rules: the first that fits what it is asked.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use serde_json::{Value, json};
use throng_dialogue::{Variables, put_times};

use super::values;
use crate::unix_s;

/// `PATH {asked} => STATUS {answer}`; the status `held` is 200 once the backend is released.
struct Rule {
    path: String,
    asked: Value,
    /// None if the answer is held back.
    status: Option<u16>,
    answer: Value,
}

/// Requests that a backend has received: the path, and the body with the field `x-said` of the
/// request in it.
type Asked = Arc<Mutex<Vec<(String, Value)>>>;

/// A backend that listens until the test program ends.
pub(super) struct Backend {
    address: SocketAddr,
    asked: Asked,
    gate: Gate,
}

/// Whether answers are held back, and what tells of a change.
type Gate = Arc<(Mutex<bool>, Condvar)>;

impl Backend {
    /// Starts one with a rule a line: `PATH {asked} => STATUS {answer}`. Texts of the answer with a
    /// dollar are fields of the request's body, in which `x-said` is a field of its head.
    pub(super) fn start(rules: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let asked = Asked::default();
        let rules: Arc<Vec<Rule>> = Arc::new(rules.lines().map(rule).collect());
        let gate = Gate::new((Mutex::new(true), Condvar::new()));
        let (heard, held) = (Arc::clone(&asked), Arc::clone(&gate));
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (rules, heard, gate) = (rules.clone(), heard.clone(), held.clone());
                thread::spawn(move || serve(stream, &rules, &heard, &gate));
            }
        });
        Self {
            address,
            asked,
            gate,
        }
    }

    /// Address of the listener.
    pub(super) const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Lets go of the answers that are held back.
    pub(super) fn release(&self) {
        *lock(&self.gate.0) = false;
        self.gate.1.notify_all();
    }

    /// Number of requests so far whose path and body fit.
    pub(super) fn count(&self, path: &str, pattern: &Value) -> usize {
        let asked = lock(&self.asked);
        let fits = |(on, body): &&(String, Value)| fits(on, body, path, pattern);
        asked.iter().filter(fits).count()
    }
}

fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
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

/// Answers the requests of one connection until it ends.
fn serve(stream: TcpStream, rules: &[Rule], heard: &Asked, gate: &Gate) {
    let Ok(mut writer) = stream.try_clone() else {
        return;
    };
    let mut reader = BufReader::new(stream);
    while let Some((path, asked)) = request(&mut reader) {
        let fits = |rule: &&Rule| fits(&path, &asked, &rule.path, &rule.asked);
        let rule = rules.iter().find(fits);
        let mut answer =
            rule.map_or_else(|| json!({}), |rule| values::answer(&rule.answer, &asked));
        put_times(&mut answer, unix_s());
        lock(heard).push((path, asked));
        let status = rule.map_or(500, |rule| rule.status.unwrap_or(200));
        if rule.is_some_and(|rule| rule.status.is_none()) {
            let is_open = gate.1.wait_while(lock(&gate.0), |held| *held);
            drop(is_open);
        }
        let answer = answer.to_string();
        let length = answer.len();
        let head = format!("HTTP/1.1 {status} X\r\nContent-Length: {length}\r\n\r\n");
        if writer.write_all((head + &answer).as_bytes()).is_err() {
            return;
        }
    }
}

/// Reads a request; none at the end of the connection.
fn request(reader: &mut BufReader<TcpStream>) -> Option<(String, Value)> {
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        match line.trim_end() {
            "" => break,
            line => lines.push(line.to_owned()),
        }
    }
    let field = |name: &str| {
        let fields = lines[1..].iter().filter_map(|line| line.split_once(':'));
        let mut found = fields.filter(|(known, _)| known.eq_ignore_ascii_case(name));
        found.next().map_or("", |(_, value)| value.trim())
    };
    let path = lines[0].split(' ').nth(1)?.to_owned();
    let mut body = vec![0; field("content-length").parse().unwrap_or(0)];
    reader.read_exact(&mut body).ok()?;
    let mut body: Value = match body.is_empty() {
        true => json!({}),
        false => serde_json::from_slice(&body).expect("questions are JSON"),
    };
    body["x-said"] = field("x-said").to_ascii_lowercase().into();
    Some((path, body))
}
