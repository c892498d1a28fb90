//! Dialogues of several clients, publishers and readers on all shards, as text.
//!
//! A step is `NAME VERB ..`, or `NAME@SHARD VERB ..` for a new connection; its outcome has what
//! each connection got, and the requests to backends. `$` is a channel that is at home on one
//! shard after the other, `$2` one on shard 2, `@a` the id of connection `a`. For the rest see the
//! dialogues of one client.

use throng_grip::stats::StatsFormat;
use throng_grip::zmtp::encode_message;
use throng_grip::{Value, tnet};
use throng_metrics::Counter;
use throng_session::{Gateway, Page, Pages};
use throng_types::cases;

use super::words::*;
use super::world::{SHARDS, World, name_on};
use super::*;
use crate::{PortKind, StatsOptions, ZmqSocket};

#[test]
fn exchanges_with_backends() {
    play(include_str!("dialogues/exchanges.txt"));
}

#[test]
fn publishers_by_http() {
    play(include_str!("dialogues/publishers.txt"));
}

#[test]
fn publishers_by_zeromq() {
    play(include_str!("dialogues/zeromq.txt"));
}

#[test]
fn statistics() {
    play(include_str!("dialogues/statistics.txt"));
}

#[track_caller]
fn play(text: &str) {
    for home in 0..SHARDS {
        let mut stage = Stage::new(home, REPORT_MS);
        for (step, expected) in cases(text) {
            let found = stage.step(step);
            assert_eq!(found, expected, "{step} (home {home})");
        }
    }
}

/// Milliseconds between two reports.
const REPORT_MS: u64 = 10_000;

/// Kind of a connection's output.
#[derive(Clone, Copy, PartialEq)]
enum Output {
    Http,
    Topics,
    Replies,
    Packets,
}

/// All shards with their connections, at some point of a dialogue.
struct Stage {
    world: World,
    home: u8,
    conns: Vec<(String, ConnId, Output)>,
    /// Tokens of the exchanges that were begun last.
    tokens: BTreeMap<ConnId, u32>,
    /// Connections that have ended, and were told of.
    gone: BTreeSet<ConnId>,
}

/// Pages with nothing but Pushpin's metrics.
struct Metrics;

impl Pages for Metrics {
    fn page(&self, path: &str, _: Option<&str>) -> Option<Page> {
        let page = Page {
            content_type: "text/plain",
            policy: None,
            body: b"metrics".to_vec(),
        };
        (path == crate::PUSHPIN_METRICS).then_some(page)
    }
}

impl Stage {
    /// Shards with all that may be configured; reports are as often as this.
    fn new(home: u8, report_interval_ms: u64) -> Self {
        let sockets = [ZmqSocket::Pull, ZmqSocket::Sub, ZmqSocket::Rep].map(PortKind::Zmq);
        let mut ports = vec![PortKind::Http, PortKind::Metrics, PortKind::Stats];
        ports.extend(sockets);
        let mut world = World::with(options_with(|options| {
            options.ports = ports;
            options.tells_topics = true;
            options.uris.publish_pull = Some("tcp://here:1".to_owned());
            options.stats = Some(StatsOptions {
                format: StatsFormat::Json,
                report_interval_ms,
                sends_connections: true,
                connection_ttl_ms: 120_000,
                subscription_ttl_ms: 60_000,
                linger_ms: 60_000,
            });
            let routes = "*,id=own localhost:7999\n*,path_beg=/none localhost:7999\n\
*,id=over,path_beg=/over localhost:7999,over_http\n";
            options.book = book(routes);
        }));
        for (_, floor) in &mut world.shards {
            floor.shared = Rc::new(Shared {
                pages: Arc::new(Metrics),
                ..throng_solo::shared()
            });
        }
        Self {
            world,
            home,
            conns: Vec::new(),
            tokens: BTreeMap::new(),
            gone: BTreeSet::new(),
        }
    }

    /// Text of a dialogue with names of channels and ids put in.
    fn put_in(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for shard in 0..SHARDS {
            text = text.replace(&format!("${shard}"), &name_on(shard));
        }
        let mut conns = self.conns.clone();
        // Names that begin with another one come first.
        conns.sort_by_key(|(name, ..)| std::cmp::Reverse(name.len()));
        for (name, conn, _) in conns {
            text = text.replace(&format!("@{name}"), &self.world.id_of(conn));
        }
        text.replace('$', &name_on(self.home))
    }

    /// Text of an outcome with names of channels and ids taken out.
    fn take_out(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for (name, conn, _) in &self.conns {
            text = text.replace(&self.world.id_of(*conn), &format!("@{name}"));
        }
        text.replace(&name_on(self.home), "$")
    }

    fn name(&self, conn: ConnId) -> &str {
        let is_it = |(_, known, _): &&(String, ConnId, Output)| *known == conn;
        self.conns.iter().find(is_it).map_or("?", |(name, ..)| name)
    }

    fn step(&mut self, step: &str) -> String {
        let (subject, rest) = step.split_once(' ').unwrap_or((step, ""));
        let (verb, what) = rest.split_once(' ').unwrap_or((rest, ""));
        let what = self.put_in(what);
        let mut told = Vec::new();
        match subject {
            "begin" if rest == "without-reports" => *self = Self::new(self.home, 0),
            "begin" => *self = Self::new(self.home, REPORT_MS),
            "pass" => {
                let ms: u64 = rest.parse().expect("milliseconds");
                (0..ms / 100).for_each(|_| self.world.pass(100));
            }
            "full" | "room" => {
                let shard: usize = rest.parse().expect("a shard");
                self.world.shards[shard].1.is_full = subject == "full";
            }
            "backends" => self.world.played.0.borrow_mut().is_full = rest == "full",
            "count" => {
                let is_it = |counter: &&Counter| format!("{counter:?}") == rest;
                let counter = Counter::ALL.iter().find(is_it).expect("a counter");
                let shards = self.world.shards.iter();
                let counts = shards.map(|(_, floor)| floor.shared.counters.counter(*counter));
                told.push(counts.sum::<u64>().to_string());
            }
            "wakes" => {
                let shards = self.world.shards.iter();
                let deadline = shards.filter_map(|(grip, _)| grip.deadline()).min();
                let now = self.world.shards[0].1.now.mono;
                let text = deadline.map(|at| format!("in {}", at.since(now)));
                told.push(text.unwrap_or_else(|| "never".to_owned()));
            }
            "exchanges" => told.extend(self.exchanges()),
            subject => match subject.split_once('@') {
                Some((name, shard)) => {
                    let shard = shard.parse().expect("a shard");
                    self.connect(name, shard, verb, &what);
                }
                None => {
                    let is_it = |(name, ..): &&(String, ConnId, Output)| *name == subject;
                    let conn = self.conns.iter().rev().find(is_it).expect("a connection").1;
                    self.act(conn, verb, &what);
                }
            },
        }
        self.tell(&mut told);
        summary(told)
    }

    fn connect(&mut self, name: &str, shard: u8, verb: &str, what: &str) {
        let world = &mut self.world;
        let output = match verb {
            "subs" => Output::Topics,
            "reps" => Output::Replies,
            "reads" => Output::Packets,
            _ => Output::Http,
        };
        let conn = match verb {
            "stream" => world.stream(shard, what),
            "socket" => {
                let control = format!(r#"c:{{"type":"subscribe","channel":"{what}"}}"#);
                world.socket(shard, &format!("TEXT {:x}\r\n{control}\r\n", control.len()))
            }
            "asks" => world.connect(shard, Port::Client),
            "api" => world.connect(shard, Port::Api),
            "http" => world.connect_own(shard, 0),
            "metrics" => world.connect_own(shard, 1),
            "reads" => world.connect_own(shard, 2),
            "pushes" => world.connect_own(shard, 3),
            "subs" => world.connect_own(shard, 4),
            "reps" => world.connect_own(shard, 5),
            _ => panic!("there is no connection that {verb}"),
        };
        self.conns.push((name.to_owned(), conn, output));
        let kind = match verb {
            "reads" => "SUB",
            "pushes" => "PUSH",
            "subs" => "XPUB",
            "reps" => "REQ",
            "asks" => return self.world.say(conn, request_of(what)),
            _ => return,
        };
        self.world.say(conn, greeting(kind));
        let mut told = self.world.told_bytes(conn);
        let rest = told.split_off(66 + usize::from(told[65]));
        assert!(String::from_utf8_lossy(&told).contains("READY"));
        self.world.client(conn).solo.out = rest;
        self.act(conn, verb, what);
    }

    fn act(&mut self, conn: ConnId, verb: &str, what: &str) {
        let token = self.tokens.get(&conn).copied().unwrap_or(1);
        let world = &mut self.world;
        match verb {
            "sends" => {
                world.say(
                    conn,
                    frame(Masking::Client([0; 4]), Opcode::Text, what.as_bytes()),
                );
            }
            "says" => world.say(conn, bytes_of(what)),
            "gets" => world.say(conn, request_of(&format!("GET {what}"))),
            "posts" => world.say(conn, post_of(what, "text/plain")),
            "posts-json" => world.say(conn, post_of(what, "application/json")),
            "answered" => {
                let (head, body) = what.split_once(" || ").unwrap_or((what, ""));
                let (code, fields) = head.split_once(' ').unwrap_or((head, ""));
                let fields = { fields.split(" | ") }.filter_map(|field| field.split_once(": "));
                let fields: Vec<(&str, &str)> = fields.collect();
                let body = body.replace('|', "\r\n");
                world.answer(conn, token, code.parse().expect("a code"), &fields, &body);
            }
            "fails" => world.backend(conn, token, failure_named(what)),
            "closes" => world.close(conn),
            "reads" | "unreads" => {
                let (times, what) = what.split_once(" times ").unwrap_or(("1", what));
                let topics = what.split(' ').filter(|_| !what.is_empty());
                let mut bytes = Vec::new();
                for topic in topics {
                    let mark = char::from(u8::from(verb == "reads"));
                    let topic = if topic == "all" { "" } else { topic };
                    encode_message(&[format!("{mark}{topic}")], &mut bytes);
                }
                world.say(conn, bytes.repeat(times.parse().expect("a number")));
            }
            "pushes" | "subs" | "reps" if what.is_empty() => {}
            "pushes" | "subs" | "reps" => {
                let mut bytes = Vec::new();
                let parts: Vec<&str> = what.split('|').collect();
                encode_message(&parts, &mut bytes);
                world.say(conn, bytes);
            }
            "raw" => {
                let bytes = { what.split(' ') }.map(|byte| u8::from_str_radix(byte, 16));
                let bytes: Result<Vec<u8>, _> = bytes.collect();
                world.say(conn, bytes.expect("hexadecimal"));
            }
            "commands" => {
                let (method, args) = what.split_once(' ').unwrap_or((what, "{}"));
                let json = format!(r#"{{"id":"7","method":"{method}","args":{args}}}"#);
                let request = Value::from_json(json.as_bytes()).expect("JSON");
                let (mut body, mut bytes) = (Vec::new(), Vec::new());
                tnet::encode(&request, &mut body);
                encode_message(&[b"", &body[..]], &mut bytes);
                world.say(conn, bytes);
            }
            _ => panic!("there is no step {verb} {what}"),
        }
    }

    /// Returns the effects on exchanges since the last call.
    fn exchanges(&mut self) -> Vec<String> {
        let mut log = self.world.played.0.borrow_mut();
        let dropped = std::mem::take(&mut log.dropped);
        let sent = shown(&std::mem::take(&mut log.sent));
        let finished = std::mem::take(&mut log.finished);
        drop(log);
        let mut told = Vec::new();
        told.extend((!sent.is_empty()).then(|| format!("sent {sent}")));
        told.extend((finished > 0).then(|| "finished".to_owned()));
        told.extend(
            dropped
                .iter()
                .map(|(conn, _)| format!("{} ended", self.name(*conn))),
        );
        told
    }

    /// Notes what connections got, and what backends were asked.
    fn tell(&mut self, told: &mut Vec<String>) {
        for (name, conn, output) in self.conns.clone() {
            let bytes = self.world.told_bytes(conn);
            let topic = |topic: &String| topic.replace('\u{1}', "+").replace('\0', "-");
            let messages = match output {
                Output::Http => Vec::new(),
                _ => messages_in(&bytes),
            };
            let texts: Vec<String> = match output {
                Output::Http => self.world.client(conn).texts_of(&bytes),
                Output::Topics => messages.iter().map(topic).collect(),
                Output::Replies => messages
                    .into_iter()
                    .filter(|part| !part.is_empty())
                    .collect(),
                Output::Packets => messages.iter().map(|text| packet(text)).collect(),
            };
            told.extend(
                texts
                    .iter()
                    .map(|text| format!("{name}: {}", self.take_out(text))),
            );
            if self.world.left.contains_key(&conn) && self.gone.insert(conn) {
                told.push(format!("{name} has gone"));
            }
        }
        for (conn, token, request) in self.world.asked() {
            self.tokens.insert(conn, token);
            let text = format!("{} asks {}", self.name(conn), request_as_text(&request));
            told.push(self.take_out(&text));
        }
        let requests = std::mem::take(&mut self.world.played.0.borrow_mut().told);
        told.extend(
            requests
                .iter()
                .map(|request| format!("tell {}", request_as_text(request))),
        );
    }
}

/// The parts of messages by ZMTP, as text.
fn messages_in(bytes: &[u8]) -> Vec<String> {
    let (mut rest, mut parts) = (bytes, Vec::new());
    while let [flags, after @ ..] = rest {
        let (count, after) = match (flags & 2, after) {
            (0, [count, after @ ..]) => (usize::from(*count), after),
            (_, after) => {
                let (count, after) = after.split_first_chunk().expect("a long frame");
                (u64::from_be_bytes(*count) as usize, after)
            }
        };
        let (part, after) = after.split_at(count);
        parts.push(String::from_utf8_lossy(part).into_owned());
        rest = after;
    }
    parts
}

/// A packet of statistics, without the server's name.
fn packet(text: &str) -> String {
    let (kind, json) = text.split_once(" J").expect("a packet");
    let mut fields: serde_json::Value = serde_json::from_str(json).expect("JSON");
    let from = fields.as_object_mut().expect("an object").remove("from");
    assert!(from.is_some(), "{text}");
    format!("{kind} {fields}")
}

/// A publication of `CHANNEL=CONTENT` for streams, or of items in JSON without spaces.
fn post_of(text: &str, accept: &str) -> String {
    let (target, items) = text.split_once(' ').unwrap_or((text, ""));
    let items = items.split(' ').filter(|item| !item.is_empty());
    let items = items.map(|text| match text.split_once('=') {
        Some((channel, content)) if !text.starts_with('{') => item(channel, content),
        _ => text.to_owned(),
    });
    post(target, accept, &items.collect::<Vec<_>>())
}
