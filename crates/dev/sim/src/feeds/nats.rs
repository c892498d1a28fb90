//! A played NATS with one stream of JetStream and its consumers, which are pulled from
//! (docs.nats.io, "JetStream wire API Reference"; `consumer.go` of nats-server 2.10).
//!
//! What a consumer delivers, and what is acknowledged and answered, may be lost on its way, as
//! between servers of a cluster.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use serde_json::{Value, json};
use throng_feeds::{NatsFeedOptions, NatsStream, SourceOptions};

use super::server::{Around, Source};
use super::witness::DATA_BYTES_MAX;
use crate::cluster::broker::{Copies, Kept};
use crate::cluster::nats::wire::{Command, Message, error, matches, take_command};
use crate::net::Net;

const STREAM: &str = "S";
const CONSUMER: &str = "c";

/// A message that was delivered and is not acknowledged.
#[derive(Clone)]
struct Pending {
    /// Number of its first delivery.
    delivery: u64,
    since_ms: u64,
    times: u64,
}

#[derive(Clone, Default)]
struct Consumer {
    config: Value,
    /// Numbers of the last delivery, and of the last message that was delivered.
    delivered: u64,
    last: u64,
    /// All up to this delivery and this message are acknowledged.
    floor: (u64, u64),
    pending: BTreeMap<u64, Pending>,
    /// Messages that are to be delivered again.
    again: VecDeque<u64>,
}

/// The stream: its messages, with the times at which they were stored, and its consumer. Before a
/// first copy there is none.
#[derive(Clone, Default)]
struct Data {
    created: u64,
    last: u64,
    messages: BTreeMap<u64, (usize, u64)>,
    consumer: Option<Consumer>,
}

/// A request for messages that waits.
struct Pull {
    reply: String,
    left: u64,
    until_ms: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Ails {
    #[default]
    Nothing,
    /// Requests are heard by nobody.
    Absent,
    /// Refuses requests about streams and consumers.
    Refusing,
}

#[derive(Default)]
pub(crate) struct Nats {
    data: Data,
    copies: Copies<Data>,
    /// Subscriptions of connections, by their numbers.
    clients: BTreeMap<usize, BTreeMap<u64, String>>,
    /// Requests for messages. Bound: what nodes ask.
    pulls: VecDeque<Pull>,
    /// Messages that wait in JetStream. Bound: what nodes say.
    jobs: VecDeque<Message>,
    /// Messages in a thousand that are lost.
    losses: usize,
    ails: Ails,
}

impl Consumer {
    fn info(&self, data: &Data, waiting: usize) -> Value {
        json!({
            "type": "io.nats.jetstream.api.v1.consumer_info_response",
            "config": self.config,
            "delivered": {"consumer_seq": self.delivered, "stream_seq": self.last},
            "ack_floor": {"consumer_seq": self.floor.0, "stream_seq": self.floor.1},
            "num_ack_pending": self.pending.len(),
            "num_waiting": waiting,
            "num_pending": data.messages.range(self.last + 1..).count(),
        })
    }

    fn acknowledge(&mut self, message: u64) -> bool {
        let Some(pending) = self.pending.remove(&message) else {
            return false;
        };
        self.again.retain(|it| *it != message);
        if self.pending.is_empty() {
            self.floor = (self.delivered, self.last);
        } else if pending.delivery == self.floor.0 + 1 {
            let oldest = self.pending.iter().min_by_key(|(_, it)| it.delivery);
            let (message, oldest) = oldest.expect("one of them");
            self.floor = (oldest.delivery - 1, *message - 1);
        }
        true
    }

    /// The message that is delivered next.
    fn next(&mut self, messages: &BTreeMap<u64, (usize, u64)>) -> Option<u64> {
        while let Some(again) = self.again.pop_front() {
            if self.pending.contains_key(&again) && messages.contains_key(&again) {
                return Some(again);
            }
        }
        let most = self.config["max_ack_pending"].as_u64().unwrap_or(1000);
        let has_room = (self.pending.len() as u64) < most;
        let next = messages.range(self.last + 1..).next().filter(|_| has_room);
        next.map(|(message, _)| *message)
    }
}

impl Nats {
    pub(crate) fn new(net: &Net) -> Self {
        Self {
            data: Data {
                created: 1,
                ..Data::default()
            },
            losses: net.pick(&[0, 0, 10, 50]),
            ..Self::default()
        }
    }

    /// Sends a message to those who hear `to`; whether anybody does.
    fn deliver(&self, to: &str, message: &Message, around: &mut Around<'_>) -> bool {
        let mut is_heard = false;
        for (conn, subscriptions) in &self.clients {
            for (sid, filter) in subscriptions {
                if matches(filter, to) {
                    let mut out = Vec::new();
                    message.write(*sid, &mut out);
                    around.owe(*conn, &out);
                    is_heard = true;
                }
            }
        }
        is_heard
    }

    /// Sends a message to those who hear its own subject.
    fn send(&self, message: &Message, around: &mut Around<'_>) {
        self.deliver(&message.subject, message, around);
    }

    fn is_lost(&self, what: &str, around: &Around<'_>) -> bool {
        let is_lost = !around.is_calm && around.net.below(1000) < self.losses;
        if is_lost {
            note!(around.net, "NATS loses {what}");
        }
        is_lost
    }

    fn answer(&self, to: Option<String>, payload: &[u8], around: &mut Around<'_>) {
        let Some(to) = to.filter(|_| !self.is_lost("an answer", around)) else {
            return;
        };
        self.send(&Message::new(to, payload.to_vec()), around);
    }

    fn carry_out(&mut self, message: Message, around: &mut Around<'_>) {
        let subject = &*message.subject;
        if let Some(place) = subject.strip_prefix("$JS.ACK.S.c.") {
            let numbers: Vec<u64> = { place.split('.') }
                .map(|number| number.parse().expect("a number"))
                .collect();
            return self.acknowledged(numbers[1], message, around);
        }
        let api = subject.strip_prefix("$JS.API.").expect("a request");
        let data = &mut self.data;
        let is_refusing = self.ails == Ails::Refusing;
        let answer = match api {
            "CONSUMER.MSG.NEXT.S.c" => return self.pull(message, around),
            _ if is_refusing => error(503, 10_023, "insufficient resources"),
            "STREAM.INFO.S" if data.created == 0 => error(404, 10_059, "stream not found"),
            "STREAM.INFO.S" => json!({
                "config": {"name": STREAM, "retention": "limits"},
                "created": format!("2026-11-23T11:55:{:02}Z", data.created),
                "state": {"last_seq": data.last, "messages": data.messages.len()},
            }),
            "CONSUMER.INFO.S.c" | "CONSUMER.DURABLE.CREATE.S.c" if data.created == 0 => {
                error(404, 10_059, "stream not found")
            }
            "CONSUMER.INFO.S.c" => self.info(),
            "CONSUMER.DURABLE.CREATE.S.c" => {
                let request: Value = serde_json::from_slice(&message.payload).expect("JSON");
                let config = request["config"].clone();
                let last = match config["deliver_policy"].as_str() {
                    Some("by_start_sequence") => config["opt_start_seq"].as_u64().unwrap_or(1) - 1,
                    Some("all") => 0,
                    policy => panic!("another policy: {policy:?}"),
                };
                note!(around.net, "a consumer begins behind {last}");
                data.consumer.get_or_insert_with(|| Consumer {
                    config,
                    last,
                    floor: (0, last),
                    ..Consumer::default()
                });
                self.info()
            }
            _ => panic!("the played NATS has no {api}"),
        };
        let answer = answer.to_string();
        self.answer(message.reply, answer.as_bytes(), around);
    }

    fn info(&self) -> Value {
        match &self.data.consumer {
            Some(consumer) => consumer.info(&self.data, self.pulls.len()),
            None => error(404, 10_014, "consumer not found"),
        }
    }

    fn acknowledged(&mut self, number: u64, message: Message, around: &mut Around<'_>) {
        let Some(consumer) = &mut self.data.consumer else {
            return;
        };
        match &*message.payload {
            b"+ACK" => {
                if consumer.acknowledge(number)
                    && let Some((event, _)) = self.data.messages.get(&number)
                {
                    around.witness.acknowledged(*event);
                }
                self.answer(message.reply, b"", around);
            }
            b"-NAK"
                if consumer.pending.contains_key(&number) && !consumer.again.contains(&number) =>
            {
                consumer.again.push_back(number);
            }
            _ => {}
        }
    }

    fn pull(&mut self, message: Message, around: &mut Around<'_>) {
        if self.data.consumer.is_none() {
            return;
        }
        let ask: Value = serde_json::from_slice(&message.payload).expect("JSON");
        let expires_ms = ask["expires"].as_u64().expect("an end") / 1_000_000;
        self.pulls.push_back(Pull {
            reply: message.reply.expect("a subject for messages"),
            left: ask["batch"].as_u64().expect("a count"),
            until_ms: around.now_ms() + expires_ms,
        });
    }

    /// Whether somebody still waits where a request is answered.
    fn waits(&self, reply: &str) -> bool {
        let all = self.clients.values().flat_map(BTreeMap::values);
        { all }.any(|filter| matches(filter, reply))
    }

    /// Ends requests that are over; whether there was one.
    fn expire(&mut self, around: &mut Around<'_>) -> bool {
        let now_ms = around.now_ms();
        let before = self.pulls.len();
        for pull in std::mem::take(&mut self.pulls) {
            if !self.waits(&pull.reply) || self.data.consumer.is_none() {
                continue;
            }
            if pull.until_ms > now_ms && pull.left > 0 {
                self.pulls.push_back(pull);
            } else if pull.left > 0 {
                let over = Message::status(pull.reply, "408 Request Timeout");
                self.send(&over, around);
            }
        }
        self.pulls.len() < before
    }

    /// Delivers what requests ask for; whether there was anything.
    fn give(&mut self, around: &mut Around<'_>) -> bool {
        let now_ms = around.now_ms();
        let mut busy = false;
        while let Some(pull) = self.pulls.front_mut()
            && let Some(consumer) = &mut self.data.consumer
            && let Some(number) = consumer.next(&self.data.messages)
        {
            busy = true;
            consumer.delivered += 1;
            consumer.last = consumer.last.max(number);
            let delivery = consumer.delivered;
            let pending = consumer.pending.entry(number).or_insert(Pending {
                delivery,
                since_ms: now_ms,
                times: 0,
            });
            pending.times += 1;
            pending.since_ms = now_ms;
            let times = pending.times;
            let (event, time_ms) = self.data.messages[&number];
            let behind = self.data.messages.range(consumer.last + 1..).count();
            pull.left -= 1;
            let to = pull.reply.clone();
            if pull.left == 0 {
                self.pulls.pop_front();
            } else if around.net.percent(50) {
                self.pulls.rotate_left(1);
            }
            let mut message = Message {
                subject: format!("ev.{}", around.witness.order(event)),
                reply: Some(format!(
                    "$JS.ACK.S.c.{times}.{number}.{delivery}.{time_ms}000000.{behind}"
                )),
                status: None,
                headers: vec![("channel".to_owned(), around.witness.channel(event))],
                payload: Vec::new(),
            };
            match around.witness.data(event) {
                Some(data) => message.payload = data,
                None => message
                    .headers
                    .push(("KV-Operation".to_owned(), "DEL".to_owned())),
            }
            if !self.is_lost("a delivery", around) {
                self.deliver(&to, &message, around);
            }
        }
        busy
    }
}

impl Source for Nats {
    fn options(&self) -> SourceOptions {
        let reads = NatsStream {
            feed: "feed".to_owned(),
            stream: STREAM.to_owned(),
            subject: None,
            consumer: CONSUMER.to_owned(),
            credentials: None,
            channel_header: "channel".to_owned(),
            begins_with_newest: false,
            data_bytes_max: DATA_BYTES_MAX,
        };
        SourceOptions::Nats(NatsFeedOptions::new("nats://10.0.0.1", reads).expect("a good URL"))
    }

    fn came(&mut self, conn: usize, _: usize, around: &mut Around<'_>) {
        self.clients.insert(conn, BTreeMap::new());
        let info = json!({
            "server_id": "N", "version": "2.10.29", "headers": true, "max_payload": 1 << 20,
            "jetstream": true,
        });
        around.owe(conn, format!("INFO {info}\r\n").as_bytes());
    }

    fn heard(&mut self, conn: usize, input: &mut Vec<u8>, around: &mut Around<'_>) {
        while let Some(command) = take_command(input) {
            let subscriptions = self.clients.get_mut(&conn).expect("a connection");
            match command {
                Command::Connect | Command::Pong => {}
                Command::Ping => around.owe(conn, b"PONG\r\n"),
                Command::Subscribe(filter, sid) => {
                    subscriptions.insert(sid, filter);
                }
                Command::Unsubscribe(sid) => {
                    subscriptions.remove(&sid);
                }
                Command::Publish(message) => {
                    let is_acknowledgement = message.subject.starts_with("$JS.ACK.");
                    let is_heard = self.ails != Ails::Absent
                        && (self.data.consumer.is_some()
                            || !message.subject.contains(".MSG.NEXT.") && !is_acknowledgement);
                    match message.reply.clone() {
                        Some(reply) if !is_heard => {
                            self.send(&Message::status(reply, "503"), around);
                        }
                        _ if is_heard => self.jobs.push_back(message),
                        _ => {}
                    }
                }
            }
        }
    }

    fn left(&mut self, conn: usize, _: &mut Around<'_>) {
        self.clients.remove(&conn);
    }

    fn works(&mut self, around: &mut Around<'_>) -> bool {
        let now_ms = around.now_ms();
        let mut busy = false;
        while !self.jobs.is_empty() && !around.befalls(50) {
            busy = true;
            let job = self.jobs.pop_front().expect("one of them");
            if !self.is_lost("what was said to it", around) {
                self.carry_out(job, around);
            }
        }
        if let Some(consumer) = &mut self.data.consumer {
            let wait_ms = consumer.config["ack_wait"].as_u64().unwrap_or_default() / 1_000_000;
            for (number, pending) in &consumer.pending {
                let is_late = pending.since_ms + wait_ms <= now_ms;
                if is_late && !consumer.again.contains(number) {
                    consumer.again.push_back(*number);
                }
            }
            // What is not there any more is nobody's.
            let gone = { consumer.pending.keys() }
                .filter(|number| !self.data.messages.contains_key(number));
            let gone: Vec<u64> = gone.copied().collect();
            gone.into_iter().for_each(|number| {
                consumer.acknowledge(number);
            });
        }
        busy |= self.expire(around);
        busy | self.give(around)
    }

    fn add(&mut self, event: usize, around: &mut Around<'_>) {
        if self.data.created == 0 {
            // Its owner makes it again.
            self.data.created = 2 + around.net.below(50) as u64;
        }
        self.data.last += 1;
        let message = (event, around.now_ms());
        self.data.messages.insert(self.data.last, message);
    }

    fn copy(&mut self) {
        self.copies.add(&self.data);
    }

    fn stopped(&mut self, _: usize, _: &mut Around<'_>) {
        self.pulls.clear();
        self.jobs.clear();
    }

    fn started(&mut self, _: usize, kept: Kept, around: &mut Around<'_>) {
        let events = |data: &Data| data.messages.values().map(|(event, _)| *event).collect();
        let before: BTreeSet<usize> = events(&self.data);
        if self.copies.restore(kept, &mut self.data, around.net)
            && kept == Kept::Older
            && around.net.percent(30)
            && self.data.created != 0
        {
            note!(around.net, "the consumer is gone");
            self.data.consumer = None;
        }
        around.witness.restored(before, &events(&self.data));
    }

    fn trouble(&mut self, around: &mut Around<'_>) {
        match around.net.below(5) {
            0 | 4 => {
                note!(around.net, "the consumer is deleted");
                self.data.consumer = None;
            }
            1 => {
                let most = around.net.below(30);
                note!(around.net, "the stream keeps {most}");
                while self.data.messages.len() > most {
                    let oldest = self.data.messages.pop_first().expect("one of them");
                    around.witness.lost(oldest.1.0);
                }
            }
            _ => {
                let ails = [Ails::Nothing, Ails::Absent, Ails::Refusing];
                self.ails = around.net.pick(&ails);
                let ails = self.ails;
                note!(around.net, "JetStream ails: {ails:?}");
            }
        }
    }

    fn calm(&mut self) {
        self.ails = Ails::Nothing;
        if self.data.created == 0 {
            self.data.created = 60;
        }
    }

    fn owes(&self) -> Option<String> {
        let Some(consumer) = &self.data.consumer else {
            return (self.data.last > 0).then(|| "there is no consumer".to_owned());
        };
        let unread = self.data.messages.range(consumer.last + 1..).count();
        let pending = consumer.pending.len();
        (unread + pending > 0).then(|| format!("{unread} are undelivered, {pending} pending"))
    }
}
