//! Plays runs from text files; `deliveries.txt` says their form.

use std::net::TcpListener;

use serde_json::Value;
use throng_bench_fleet::{Finished, run_observed, run_on_agents};
use throng_bench_plan::{Scenario, read_toml_with};
use throng_bench_report::{RunPhase, Snapshot};

use crate::agents::agents;
use crate::options;
use crate::server::Server;

#[test]
fn deliveries() {
    play(include_str!("deliveries.txt"));
}

#[test]
fn storms_and_slow_readers() {
    play(include_str!("storms.txt"));
}

#[test]
fn stages_and_reasons() {
    play(include_str!("stages.txt"));
}

#[test]
fn several_agents() {
    play(include_str!("agents.txt"));
}

fn play(text: &str) {
    for run in text.split("\n== ").skip(1) {
        let (head, body) = run.split_once('\n').expect("a scenario");
        println!("== {head}");
        let (_, how) = head.split_once(" | ").unwrap_or((head, ""));
        let (expected, scenario): (Vec<&str>, Vec<&str>) =
            body.lines().partition(|line| line.starts_with("=> "));
        let server = Server::start();
        let scenario = read(&scenario.join("\n"), &server);
        let finished = run_as(how, &scenario, &server);
        let figures = Figures::new(&finished, &server);
        for line in expected {
            let line = &line["=> ".len()..];
            assert!(
                figures.agree(line),
                "{head}: {line}: {:#}",
                figures.totals()
            );
        }
    }
}

fn read(text: &str, server: &Server) -> Scenario {
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap();
    let text = text
        .replace("WS/", &server.ws("/"))
        .replace("HTTP/", &server.http("/"))
        .replace("NOBODY", &nobody.local_addr().unwrap().to_string());
    let mut scenario = read_toml_with(&text, &|_| unreachable!("no run has data")).unwrap();
    scenario.set_clients(20, 1000.0);
    scenario.hold_us = 500_000;
    if let Some(publish) = &mut scenario.publish {
        (publish.publishers, publish.size_bytes) = (2, 100);
    }
    scenario
}

fn run_as(how: &str, scenario: &Scenario, server: &Server) -> Finished {
    // Until the second row of the drain nothing has come for longer than it usually takes until
    // nothing more comes.
    let mut rows = 0;
    let mut observer = |snapshot: &Snapshot<'_>| {
        rows += u32::from(snapshot.phase == RunPhase::Drain);
        if rows == 2 && how == "held until the drain" {
            server.hold(false);
        }
    };
    server.hold(how.starts_with("held"));
    let count = how
        .strip_prefix("on ")
        .and_then(|how| how.strip_suffix(" agents"));
    match count {
        None => run_observed(scenario, &options(), &mut observer).unwrap(),
        Some(count) => {
            let (_agents, names) = agents(count.parse().unwrap());
            run_on_agents(scenario, &names, "secret", &options(), &mut observer).unwrap()
        }
    }
}

/// Figures of a run, for comparisons.
struct Figures<'a> {
    results: Value,
    exit: u8,
    server: &'a Server,
}

impl<'a> Figures<'a> {
    fn new(finished: &Finished, server: &'a Server) -> Self {
        Self {
            results: serde_json::to_value(&finished.results).unwrap(),
            exit: finished.exit().code(),
            server,
        }
    }

    fn totals(&self) -> &Value {
        &self.results["totals"]
    }

    fn agree(&self, line: &str) -> bool {
        let words: Vec<&str> = line.split(' ').collect();
        let is_comparator = |word: &&str| ["=", "<", "<=", ">", ">="].contains(word);
        let place = words.iter().position(is_comparator).expect("a comparison");
        let (left, right) = (self.sum(&words[..place]), self.sum(&words[place + 1..]));
        match words[place] {
            "=" => left == right || left.is_nan() && right.is_nan(),
            "<" => left < right,
            "<=" => left <= right,
            ">" => left > right,
            _ => left >= right,
        }
    }

    /// Works out a side of a comparison; what is not there is not a number.
    fn sum(&self, words: &[&str]) -> f64 {
        if words[0].starts_with('"') {
            let part = words.join(" ");
            let notes = self.results["notes"].as_array().unwrap().iter();
            let notes =
                notes.filter(|note| note.as_str().unwrap().contains(part.trim_matches('"')));
            return notes.count() as f64;
        }
        words[1..]
            .chunks(2)
            .fold(self.figure(words[0]), |sum, step| {
                let by = self.figure(step[1]);
                match step[0] {
                    "+" => sum + by,
                    "-" => sum - by,
                    "*" => sum * by,
                    "/" => sum / by,
                    "%" => sum % by,
                    other => panic!("no operator {other}"),
                }
            })
    }

    fn figure(&self, name: &str) -> f64 {
        if let Ok(number) = name.parse() {
            return number;
        }
        if let Some(address) = name.strip_prefix("from:") {
            let peers = self.server.peers().into_iter();
            return peers
                .filter(|peer| peer.ip().to_string() == address)
                .count() as f64;
        }
        if name == "exit" {
            return f64::from(self.exit);
        }
        let path = format!("/{}", name.replace('.', "/"));
        let places = [
            "/totals/counters",
            "/totals/deliveries",
            "/totals",
            "/figures",
            "",
        ];
        let found = places
            .iter()
            .find_map(|place| self.results.pointer(&format!("{place}{path}")));
        match found {
            Some(Value::Array(items)) => items.len() as f64,
            Some(Value::Object(counts)) => counts.values().filter_map(Value::as_f64).sum(),
            Some(Value::Bool(is)) => f64::from(u8::from(*is)),
            other => other.and_then(Value::as_f64).unwrap_or(f64::NAN),
        }
    }
}
