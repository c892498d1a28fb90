//! The streams of a played JetStream, and the requests about them: those that the project's peer
//! makes (docs.nats.io, "JetStream API Reference"; ADR-2, ADR-8, ADR-28, ADR-31).

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::wire::{Message, error, matches};
use crate::net::Net;

const EXPECTED: &str = "Nats-Expected-Last-Subject-Sequence";

/// A message as it is stored.
#[derive(Clone)]
struct Stored {
    message: Message,
    time_ms: u64,
}

/// A stream: its configuration, and its messages by their sequences.
#[derive(Clone, Default)]
struct Stream {
    config: Value,
    last: u64,
    messages: BTreeMap<u64, Stored>,
}

/// All streams by their names; a copy is what a disk or a follower has.
#[derive(Clone, Default)]
pub(crate) struct Data {
    streams: BTreeMap<String, Stream>,
}

/// Outcome of a message for a stream: the answer, and what is sent on.
pub(crate) struct Outcome {
    pub(crate) answer: Value,
    pub(crate) sent_on: Option<Message>,
}

impl Stream {
    fn text(&self, name: &str) -> &str {
        self.config[name].as_str().unwrap_or_default()
    }

    fn stores(&self, subject: &str) -> bool {
        let subjects = self.config["subjects"].as_array();
        let mut subjects = subjects.into_iter().flatten().filter_map(Value::as_str);
        subjects.any(|filter| matches(filter, subject))
    }

    /// Forgets what is too old.
    fn age(&mut self, now_ms: u64) {
        let most_ms = self.config["max_age"].as_u64().unwrap_or_default() / 1_000_000;
        if most_ms > 0 {
            self.messages
                .retain(|_, stored| now_ms < stored.time_ms + most_ms);
        }
    }

    fn of<'a>(&'a self, filter: &'a str) -> impl DoubleEndedIterator<Item = (u64, &'a Stored)> {
        let messages = self.messages.iter().map(|(seq, stored)| (*seq, stored));
        messages.filter(move |(_, stored)| matches(filter, &stored.message.subject))
    }

    fn last_of(&self, subject: &str) -> u64 {
        self.of(subject).next_back().map_or(0, |(seq, _)| seq)
    }

    /// The message that a request names.
    fn named<'a>(&'a self, request: &'a Value) -> Option<(u64, &'a Stored)> {
        let seq = request["seq"].as_u64();
        if let Some(subject) = request["last_by_subj"].as_str() {
            return self.of(subject).next_back();
        }
        if let Some(subject) = request["next_by_subj"].as_str() {
            return self.of(subject).find(|(at, _)| Some(*at) >= seq);
        }
        let seq = seq.expect("a request names a message");
        self.messages.get(&seq).map(|stored| (seq, stored))
    }

    fn info(&self, request: &Value) -> Value {
        let mut state = json!({"messages": self.messages.len(), "last_seq": self.last});
        let mut info = json!({
            "type": "io.nats.jetstream.api.v1.stream_info_response",
            "config": self.config,
            "created": "2026-11-23T11:55:40.1Z",
        });
        if let Some(filter) = request["subjects_filter"].as_str() {
            let mut subjects: BTreeMap<&str, u64> = BTreeMap::new();
            for (_, stored) in self.of(filter) {
                *subjects.entry(&stored.message.subject).or_default() += 1;
            }
            info["total"] = json!(subjects.len());
            info["offset"] = json!(request["offset"].as_u64().unwrap_or_default());
            let offset = request["offset"].as_u64().unwrap_or_default() as usize;
            let page: BTreeMap<_, _> = subjects.into_iter().skip(offset).take(PAGE).collect();
            info["limit"] = json!(PAGE);
            state["subjects"] = json!(page);
        }
        info["state"] = state;
        info
    }

    fn purge(&mut self, request: &Value) -> Value {
        let filter = request["filter"].as_str().unwrap_or(">");
        let below = request["seq"].as_u64().unwrap_or(u64::MAX);
        let keep = request["keep"].as_u64().unwrap_or_default() as usize;
        let all: Vec<u64> = self.of(filter).map(|(seq, _)| seq).collect();
        let kept = all.len().saturating_sub(keep);
        let gone = all[..kept].iter().filter(|seq| **seq < below);
        let gone: Vec<u64> = gone.copied().collect();
        gone.iter().for_each(|seq| drop(self.messages.remove(seq)));
        json!({"success": true, "purged": gone.len()})
    }

    fn store(&mut self, message: &Message, now_ms: u64) -> Outcome {
        let name = self.text("name").to_owned();
        let subject = &message.subject;
        let last = self.last_of(subject);
        let expected = message.header(EXPECTED).map(|it| it.parse::<u64>());
        if let Some(expected) = expected
            && expected != Ok(last)
        {
            let why = format!("wrong last sequence: {last}");
            let mut answer = error(400, 10_071, &why);
            answer["stream"] = json!(name);
            answer["seq"] = json!(0);
            return Outcome {
                answer,
                sent_on: None,
            };
        }
        self.last += 1;
        let mut message = message.clone();
        message.reply = None;
        let most = self.config["max_msgs_per_subject"].as_i64();
        let stored = Stored {
            message: message.clone(),
            time_ms: now_ms,
        };
        self.messages.insert(self.last, stored);
        if let Some(most) = most.filter(|most| *most > 0) {
            let all: Vec<u64> = self.of(subject).map(|(seq, _)| seq).collect();
            let over = all.len().saturating_sub(most as usize);
            all[..over]
                .iter()
                .for_each(|seq| drop(self.messages.remove(seq)));
        }
        let sent_on = self.sent_on(&message, last);
        Outcome {
            answer: json!({"stream": name, "seq": self.last}),
            sent_on,
        }
    }

    /// The message that follows a stored one, by `republish`.
    fn sent_on(&self, message: &Message, before: u64) -> Option<Message> {
        let republish = self.config["republish"].as_object()?;
        let to = |name: &str| republish[name].as_str().expect("a subject");
        let src = to("src").strip_suffix('>').expect("a whole tree");
        let dest = to("dest").strip_suffix('>').expect("a whole tree");
        let rest = message.subject.strip_prefix(src)?;
        let mut sent_on = message.clone();
        sent_on.subject = format!("{dest}{rest}");
        sent_on.headers.extend([
            ("Nats-Stream".to_owned(), self.text("name").to_owned()),
            ("Nats-Subject".to_owned(), message.subject.clone()),
            ("Nats-Sequence".to_owned(), self.last.to_string()),
            ("Nats-Last-Sequence".to_owned(), before.to_string()),
        ]);
        Some(sent_on)
    }
}

/// Subjects that one answer lists: fewer than NATS, so that there are pages.
const PAGE: usize = 100_000;

impl Data {
    /// The stream that stores a subject.
    pub(crate) fn stream_of(&self, subject: &str) -> Option<&str> {
        let mut streams = self.streams.iter();
        streams.find_map(|(name, stream)| stream.stores(subject).then_some(&**name))
    }

    pub(crate) fn has(&self, stream: &str) -> bool {
        self.streams.contains_key(stream)
    }

    /// Another program removes a message that is not the newest of its subject; whether there is
    /// one.
    pub(crate) fn meddle(&mut self, net: &Net) -> bool {
        let of_channels = self.streams.values_mut();
        let of_channels = of_channels.filter(|stream| stream.config["republish"].is_object());
        let mut older = Vec::new();
        for stream in of_channels {
            let last = |stored: &Stored| stream.last_of(&stored.message.subject);
            let all = stream.messages.iter();
            let seqs = all.filter(|(seq, stored)| **seq < last(stored));
            let seqs: Vec<u64> = seqs.map(|(seq, _)| *seq).collect();
            if !seqs.is_empty() {
                older.push((stream, seqs));
            }
        }
        if older.is_empty() {
            return false;
        }
        let at = net.below(older.len());
        let (stream, seqs) = &mut older[at];
        stream.messages.remove(&net.pick(seqs));
        true
    }

    /// Forgets what only memory had.
    pub(crate) fn lose_memory(&mut self) {
        self.streams
            .retain(|_, stream| stream.text("storage") != "memory");
    }

    pub(crate) fn age(&mut self, now_ms: u64) {
        self.streams.values_mut().for_each(|it| it.age(now_ms));
    }

    /// Stores a message of a stream, if it is the one that is expected.
    pub(crate) fn store(&mut self, stream: &str, message: &Message, now_ms: u64) -> Outcome {
        let stream = self.streams.get_mut(stream).expect("a stream that is here");
        stream.store(message, now_ms)
    }

    /// Answers a request for a message as the message itself; `request` may have its subject.
    pub(crate) fn direct(&self, stream: &str, subject: Option<&str>, body: &[u8]) -> Message {
        let request = match subject {
            Some(subject) => json!({"last_by_subj": subject}),
            None => serde_json::from_slice(body).expect("a request in JSON"),
        };
        let found = { self.streams.get(stream) }.and_then(|stream| stream.named(&request));
        let Some((seq, stored)) = found else {
            return Message::status(String::new(), "404 Message Not Found");
        };
        let mut message = stored.message.clone();
        message.headers.extend([
            ("Nats-Stream".to_owned(), stream.to_owned()),
            ("Nats-Subject".to_owned(), message.subject.clone()),
            ("Nats-Sequence".to_owned(), seq.to_string()),
        ]);
        message
    }

    /// Carries out a request about a stream.
    pub(crate) fn api(&mut self, verb: &str, name: &str, body: &[u8]) -> Value {
        let request = match body {
            [] => Value::Null,
            body => serde_json::from_slice(body).expect("a request in JSON"),
        };
        if verb == "STREAM.CREATE" || verb == "STREAM.UPDATE" {
            return self.make(verb == "STREAM.CREATE", name, request);
        }
        let Some(stream) = self.streams.get_mut(name) else {
            return error(404, 10_059, "stream not found");
        };
        match verb {
            "STREAM.INFO" => stream.info(&request),
            "STREAM.PURGE" => stream.purge(&request),
            "STREAM.MSG.GET" => match stream.named(&request) {
                None => error(404, 10_037, "no message found"),
                Some((seq, stored)) => {
                    let message = &stored.message;
                    let mut told = json!({
                        "subject": message.subject,
                        "seq": seq,
                        "data": STANDARD.encode(&message.payload),
                    });
                    if !message.headers.is_empty() {
                        let lines = { message.headers.iter() }
                            .map(|(name, value)| format!("{name}: {value}\r\n"));
                        let head = format!("NATS/1.0\r\n{}\r\n", lines.collect::<String>());
                        told["hdrs"] = json!(STANDARD.encode(head));
                    }
                    json!({"message": told})
                }
            },
            _ => panic!("the played NATS has no {verb}"),
        }
    }

    fn make(&mut self, is_new: bool, name: &str, mut config: Value) -> Value {
        if config["max_msgs_per_subject"] == 0 {
            config["max_msgs_per_subject"] = json!(-1);
        }
        match self.streams.get_mut(name) {
            Some(stream) if is_new && stream.config != config => error(
                400,
                10_058,
                "stream name already in use with a different configuration",
            ),
            Some(stream) => {
                stream.config = config;
                stream.info(&Value::Null)
            }
            None if is_new => {
                let stream = Stream {
                    config,
                    ..Stream::default()
                };
                let info = stream.info(&Value::Null);
                self.streams.insert(name.to_owned(), stream);
                info
            }
            None => error(404, 10_059, "stream not found"),
        }
    }
}
