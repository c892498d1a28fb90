//! The played receiver, and what it has accepted.
//!
//! A request that it has not accepted must come again before any other, with the same events in
//! front; one that it has accepted may, if its answer was lost.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use throng_http1::{BodyDecoder, HttpLimits, parse_request};
use throng_pusher::AppKeys;

use crate::net::Net;

/// Batch that has come: the number of its first event, and all of them.
#[derive(Clone)]
struct Batch {
    first: u64,
    events: Vec<Value>,
}

struct Site {
    conn: usize,
    input: Vec<u8>,
    /// The request that is being answered, the status, and when.
    answers: Option<(Batch, u16, u64)>,
}

pub(super) struct Receiver {
    sites: Vec<Site>,
    last: Option<Batch>,
    /// Number of events of `last` that it has accepted, from the front.
    taken: usize,
    /// Events that it has accepted, each once.
    pub(super) accepted: Vec<Value>,
    /// Chance in percent that a request does not go well.
    faults: usize,
    /// Time until which nobody can reach it.
    down_until_us: u64,
    /// Several nodes send to it: nothing is known of the order of their batches.
    has_several: bool,
}

impl Receiver {
    pub(super) fn new(has_several: bool, net: &Net) -> Self {
        Self {
            sites: Vec::new(),
            last: None,
            taken: 0,
            accepted: Vec::new(),
            faults: net.pick(&[0, 20, 50]),
            down_until_us: 0,
            has_several,
        }
    }

    /// Kills it; it comes back after a while.
    pub(super) fn trouble(&mut self, net: &Net) {
        net.count("a receiver is killed");
        note!(net, "the receiver is killed");
        self.down_until_us = net.now_us() + net.pick(&[10_000, 500_000, 20_000_000]);
        for site in self.sites.drain(..) {
            net.client_leaves(site.conn, net.percent(50));
        }
    }

    pub(super) const fn calm_down(&mut self) {
        (self.faults, self.down_until_us) = (0, 0);
    }

    /// Takes a connection that a node has dialled.
    pub(super) fn dialled(&mut self, conn: usize, net: &Net) {
        let is_refused = net.now_us() < self.down_until_us;
        net.answer_dial(conn, is_refused);
        if !is_refused {
            self.sites.push(Site {
                conn,
                input: Vec::new(),
                answers: None,
            });
        }
    }

    /// Does whatever there is to do; whether there was anything.
    pub(super) fn act(&mut self, net: &Net) -> bool {
        let mut busy = false;
        for mut site in std::mem::take(&mut self.sites) {
            let Some(bytes) = net.client_recv(site.conn, 1 << 20) else {
                busy = true;
                continue;
            };
            busy |= !bytes.is_empty();
            site.input.extend(bytes);
            if site.answers.is_none()
                && let Some(batch) = take_batch(&mut site.input)
            {
                busy = true;
                note!(
                    net,
                    "the receiver has {} of {:?}",
                    batch.first,
                    batch.events
                );
                if !self.has_several {
                    self.hear(&batch, net);
                }
                let is_well = !net.percent(self.faults);
                let late_us = net.pick(&[100_000, 4_000_000, 7_000_000]);
                let (status, late_us) = match (is_well, net.below(4)) {
                    (true, _) => (200, 0),
                    (_, 0) => (200, late_us),
                    (_, 1) => (503, 0),
                    (_, 2) => (503, late_us),
                    // It ends without a word.
                    _ => (0, 0),
                };
                net.count(if is_well {
                    "a batch is accepted"
                } else {
                    "a batch meets a failure"
                });
                if self.has_several && status == 200 {
                    self.accepted.extend_from_slice(&batch.events);
                }
                site.answers = Some((batch, status, net.now_us() + late_us));
            }
            let now_us = net.now_us();
            if let Some((batch, status, _)) = site.answers.take_if(|it| it.2 <= now_us) {
                busy = true;
                if status == 200 && !self.has_several {
                    self.accept(batch);
                }
                if status == 0 {
                    net.client_leaves(site.conn, net.percent(50));
                    continue;
                }
                let answer = format!("HTTP/1.1 {status} X\r\nContent-Length: 0\r\n\r\n");
                net.client_send(site.conn, answer.as_bytes());
            }
            self.sites.push(site);
        }
        busy
    }

    fn hear(&mut self, batch: &Batch, net: &Net) {
        if let Some(last) = &self.last {
            let is_again = batch.first == last.first;
            assert!(batch.first >= last.first, "{} comes too late", batch.first);
            if is_again {
                net.count("a batch comes again");
                assert!(batch.events.starts_with(&last.events), "another batch");
            } else {
                let missing = &last.events[self.taken..];
                assert!(missing.is_empty(), "these do not come again: {missing:?}");
                self.taken = 0;
            }
        }
        self.last = Some(batch.clone());
    }

    /// A connection that still waits has the last batch.
    fn accept(&mut self, batch: Batch) {
        self.accepted.extend_from_slice(&batch.events[self.taken..]);
        self.taken = batch.events.len();
    }

    /// Nothing may be under way.
    pub(super) fn is_at_rest(&self) {
        let is_open = |site: &Site| site.answers.is_some() || !site.input.is_empty();
        assert!(!self.sites.iter().any(is_open), "a request is under way");
        let events = self.last.as_ref().map_or(0, |last| last.events.len());
        assert_eq!(self.taken, events, "the last batch is accepted");
    }
}

/// Takes a whole request off the input, and checks its signature.
fn take_batch(input: &mut Vec<u8>) -> Option<Batch> {
    let limits = HttpLimits::default();
    let (request, head_bytes) = parse_request(input, &limits).expect("a good request")?;
    let (mut decoder, mut at, mut body) = (
        BodyDecoder::new(request.body, &limits),
        head_bytes,
        Vec::new(),
    );
    while !decoder.is_done() && at < input.len() {
        let step = decoder.feed(&input[at..]).expect("a good body");
        body.extend(step.data);
        at += step.consumed;
    }
    if !decoder.is_done() {
        return None;
    }
    let sign = AppKeys::new("key", ["secret"]).sign(&body);
    assert_eq!(request.header("X-Pusher-Signature"), Some(&*sign));
    let id = request.header("webhook-id").expect("an id");
    let first = id.split('_').nth(1).expect("the number of an event");
    let first = u64::from_str_radix(first, 16).expect("a number");
    let body: Value = serde_json::from_slice(&body).expect("JSON");
    let events = body["events"].as_array().expect("events").clone();
    input.drain(..at);
    Some(Batch { first, events })
}

/// Sum of what the accepted events tell.
#[derive(Default)]
pub(super) struct Told {
    pub(super) states: BTreeMap<String, bool>,
    /// Connections whose ends were not told, with their nodes.
    connections: BTreeMap<String, String>,
    /// Data of clients' events.
    pub(super) data: BTreeSet<String>,
    /// Number of the last event of a connection.
    numbers: BTreeMap<String, u64>,
    /// Whether anything may come twice.
    pub(super) may_repeat: bool,
}

impl Told {
    /// Connections of nodes that live, as told.
    pub(super) fn connected(&self) -> BTreeSet<&str> {
        let is_up = |node: &String| self.states.get(node) == Some(&true);
        let connections = self.connections.iter();
        let those = connections.filter(|(_, node)| is_up(node));
        those.map(|(id, _)| id.as_str()).collect()
    }

    fn take_connection(&mut self, event: &Value, net: &Net) {
        let text = |key: &str| event[key].as_str().expect("text").to_owned();
        let (id, node) = (text("connection_id"), text("node"));
        if event["name"] == "connected" {
            let before = self.connections.insert(id, node);
            assert!(self.may_repeat || before.is_none(), "told twice: {event}");
            return net.count("a connection is told");
        }
        let before = self.connections.remove(&id);
        assert!(
            self.may_repeat || before.is_some(),
            "it was not told of: {event}"
        );
        net.count("the end of a connection is told");
    }

    pub(super) fn take(&mut self, event: &Value, net: &Net) {
        let text = |key: &str| event[key].as_str().unwrap_or_default();
        let (name, channel) = (text("name"), text("channel"));
        let (subject, is_on) = match name {
            "channel_occupied" | "channel_vacated" => {
                (channel.to_owned(), name == "channel_occupied")
            }
            "member_added" | "member_removed" => (
                format!("{channel} {}", text("user_id")),
                name == "member_added",
            ),
            "node_up" | "node_down" => (text("node").to_owned(), name == "node_up"),
            "connected" | "disconnected" => return self.take_connection(event, net),
            _ => {
                let data = text("data");
                let (conn, number) = data.trim_matches('|').rsplit_once('.').expect("numbers");
                let number = number.parse().expect("a number");
                let before = self.numbers.insert(conn.to_owned(), number);
                let is_next = self.may_repeat || before < Some(number);
                assert!(is_next, "{data} comes behind {before:?}");
                self.data.insert(data.to_owned());
                return net.count("an event of a client is told");
            }
        };
        net.count(if is_on {
            "a state is told"
        } else {
            "the end of a state is told"
        });
        let before = self.states.insert(subject, is_on).unwrap_or_default();
        assert!(self.may_repeat || before != is_on, "told twice: {event}");
    }
}
