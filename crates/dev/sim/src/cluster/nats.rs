//! A played NATS with JetStream: connections, subscriptions, streams, and its faults.
//!
//! What a client publishes reaches subscribers at once, in order with pongs. What goes to
//! JetStream waits: messages of one stream for each other, requests for nothing. Answers and
//! deliveries then travel on two roads, so that each may come before the other. All of it may
//! happen after the connection that asked has gone.
//!
//! A cluster of servers keeps what it has acknowledged. There, followers are behind, subscriptions
//! take effect late elsewhere, leaders are missed, and answers and deliveries may be lost.

mod streams;
pub(crate) mod wire;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use serde_json::{Value, json};

use self::streams::Data;
use self::wire::{Command, Message, error, matches, take_command};
use super::broker::{Broker, Copies, Kept};
use crate::net::Net;

/// A subscription of a connection.
struct Subscription {
    filter: String,
    /// The other servers of the cluster know of it.
    is_known: bool,
}

/// A connection of a node.
struct Client {
    conn: usize,
    input: Vec<u8>,
    /// Subscriptions by their numbers.
    subscriptions: BTreeMap<u64, Subscription>,
    out: Vec<u8>,
}

/// Work that waits for JetStream.
enum Job {
    /// Stores a message in this stream.
    Store(String, Message),
    /// A request, by its verb, its stream and what else its subject says.
    Api(&'static str, String, Option<String>, Message),
}

/// Faults of JetStream that last for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ails {
    Nothing,
    /// Nobody hears requests: it starts, or chooses a leader.
    Absent,
    /// Refuses whatever is new.
    Full,
}

/// The server, or all servers of a cluster.
pub(super) struct Nats {
    net: Net,
    is_clustered: bool,
    version: &'static str,
    /// Name of this process.
    id: u64,
    data: Data,
    copies: Copies<Data>,
    /// Data as the followers have it.
    follower: Data,
    clients: Vec<Client>,
    /// Work that waits. Bound: what nodes ask.
    jobs: Vec<Job>,
    /// Answers on their way. Bound: what nodes ask.
    answers: Vec<Message>,
    /// Messages of streams on their way to subscribers. Bound: what nodes publish.
    deliveries: VecDeque<Message>,
    ails: Ails,
    /// JetStream starts until then.
    starts_until_ms: u64,
    /// Part of the waiting work that is done at a time, in percent.
    haste: usize,
    /// Answers and deliveries in a thousand that are lost in a cluster.
    losses: usize,
    /// Messages of streams in a hundred that are sent on once more.
    repeats: usize,
    /// Times that it still says much that nobody asked for.
    babbles: usize,
    is_calm: bool,
}

/// Words at once that nobody asked for.
const BABBLE_MAX: usize = 700;
/// Requests about streams whose subjects end with the stream.
const VERBS: [&str; 5] = [
    "STREAM.INFO",
    "STREAM.CREATE",
    "STREAM.UPDATE",
    "STREAM.PURGE",
    "STREAM.MSG.GET",
];
const DIRECT: &str = "DIRECT.GET";

impl Nats {
    pub(super) fn new(is_troubled: bool, net: &Net) -> Self {
        let is_clustered = net.percent(40);
        Self {
            net: net.clone(),
            is_clustered,
            version: match is_clustered {
                true => net.pick(&["2.9.25", "2.10.29", "2.12.1"]),
                false => net.pick(&["2.9.10", "2.10.29", "2.12.1"]),
            },
            id: net.next(),
            data: Data::default(),
            copies: Copies::default(),
            follower: Data::default(),
            clients: Vec::new(),
            jobs: Vec::new(),
            answers: Vec::new(),
            deliveries: VecDeque::new(),
            ails: Ails::Nothing,
            starts_until_ms: 0,
            haste: net.pick(&[100, 70, 20]),
            losses: match is_troubled && is_clustered {
                true => net.pick(&[0, 3]),
                false => 0,
            },
            repeats: net.pick(&[0, 5]),
            babbles: net.pick(&[0, 0, 10]),
            is_calm: false,
        }
    }

    fn now_ms(&self) -> u64 {
        self.net.now().unix_ms
    }

    fn hello(&self) -> String {
        let mut info = json!({
            "server_id": format!("N{:016X}", self.id),
            "version": self.version,
            "headers": true,
            "max_payload": 1 << 20,
            "jetstream": true,
        });
        if self.is_clustered {
            info["cluster"] = json!("c");
        }
        format!("INFO {info}\r\n")
    }

    fn hear(&mut self, conn: usize, command: Command) {
        let at = { self.clients.iter() }.position(|client| client.conn == conn);
        let client = &mut self.clients[at.expect("a connection")];
        match command {
            Command::Connect | Command::Pong => {}
            Command::Ping => client.out.extend(b"PONG\r\n"),
            Command::Subscribe(filter, sid) => {
                // Whoever is asked hears of the inbox before the question.
                let is_known = !self.is_clustered || filter.starts_with("_INBOX.");
                let subscription = Subscription { filter, is_known };
                client.subscriptions.insert(sid, subscription);
            }
            Command::Unsubscribe(sid) => drop(client.subscriptions.remove(&sid)),
            Command::Publish(message) => self.published(conn, message),
        }
    }

    fn published(&mut self, conn: usize, message: Message) {
        let is_heard = self.deliver(Some(conn), &message);
        let job = self.job(&message);
        if let Some(reply) = message.reply.filter(|_| !is_heard && job.is_none()) {
            self.deliver(Some(conn), &Message::status(reply, "503"));
        }
        self.jobs.extend(job);
    }

    /// Whether nobody hears requests.
    fn is_away(&self) -> bool {
        self.ails == Ails::Absent || self.now_ms() < self.starts_until_ms
    }

    /// Makes a message to work for JetStream, if that hears it.
    fn job(&self, message: &Message) -> Option<Job> {
        if self.is_away() {
            return None;
        }
        let Some(api) = message.subject.strip_prefix("$JS.API.") else {
            let stream = self.data.stream_of(&message.subject)?;
            return Some(Job::Store(stream.to_owned(), message.clone()));
        };
        let of = |verb: &str| api.strip_prefix(verb)?.strip_prefix('.');
        if let Some(rest) = of(DIRECT) {
            let (stream, subject) = match rest.split_once('.') {
                Some((stream, subject)) => (stream, Some(subject.to_owned())),
                None => (rest, None),
            };
            let job = Job::Api(DIRECT, stream.to_owned(), subject, message.clone());
            return self.data.has(stream).then_some(job);
        }
        let mut named = VERBS.iter().filter_map(|verb| Some((*verb, of(verb)?)));
        let (verb, stream) = named.next().expect("a request that is known");
        Some(Job::Api(verb, stream.to_owned(), None, message.clone()))
    }

    /// Sends a message to those who hear its subject, from a client or from JetStream; whether
    /// anybody does.
    fn deliver(&mut self, from: Option<usize>, message: &Message) -> bool {
        let mut is_heard = false;
        for client in &mut self.clients {
            for (sid, subscription) in &client.subscriptions {
                let reaches = subscription.is_known || from == Some(client.conn);
                if reaches && matches(&subscription.filter, &message.subject) {
                    message.write(*sid, &mut client.out);
                    is_heard = true;
                }
            }
        }
        is_heard
    }

    fn answer(&mut self, to: Option<String>, payload: &Value) {
        if let Some(subject) = to {
            let payload = payload.to_string().into_bytes();
            self.answers.push(Message::new(subject, payload));
        }
    }

    fn happens(&self) -> bool {
        self.is_calm || self.net.percent(self.haste)
    }

    fn is_lost(&self, what: &str) -> bool {
        let is_lost = !self.is_calm && self.net.below(1000) < self.losses;
        if is_lost {
            note!(self.net, "NATS loses {what}");
            self.net.fault();
        }
        is_lost
    }

    /// Does some of what waits; whether there was anything.
    fn work(&mut self) -> bool {
        let is_idle = self.jobs.is_empty() && self.answers.is_empty() && self.deliveries.is_empty();
        let mut waits = BTreeSet::new();
        for job in std::mem::take(&mut self.jobs) {
            let is_blocked = matches!(&job, Job::Store(stream, _) if waits.contains(stream));
            if !is_blocked && self.happens() {
                if !self.is_lost("a request") {
                    self.carry_out(job);
                }
                continue;
            }
            if let Job::Store(stream, _) = &job {
                waits.insert(stream.clone());
            }
            self.jobs.push(job);
        }
        if self.is_clustered && self.happens() {
            self.follower = self.data.clone();
        }
        while !self.deliveries.is_empty() && self.happens() {
            let message = self.deliveries.pop_front().expect("one of them");
            if !self.is_lost("a delivery") {
                self.deliver(None, &message);
            }
            let has_position = !message.subject.contains(".once.");
            if has_position && self.net.percent(self.repeats) {
                self.deliver(None, &message);
            }
        }
        for message in std::mem::take(&mut self.answers) {
            match self.happens() {
                true if self.is_lost("an answer") => {}
                true => drop(self.deliver(None, &message)),
                false => self.answers.push(message),
            }
        }
        !is_idle
    }

    fn carry_out(&mut self, job: Job) {
        let now_ms = self.now_ms();
        match job {
            Job::Store(stream, message) => {
                if self.ails == Ails::Full {
                    let why = error(503, 10_023, "insufficient resources");
                    return self.answer(message.reply, &why);
                }
                let outcome = self.data.store(&stream, &message, now_ms);
                let (subject, answer) = (&message.subject, &outcome.answer);
                note!(self.net, "NATS gets {subject}: {answer}");
                self.deliveries.extend(outcome.sent_on);
                self.answer(message.reply, &outcome.answer);
            }
            Job::Api(DIRECT, stream, subject, message) => {
                let is_behind = self.is_clustered && self.net.percent(50);
                let data = if is_behind {
                    &self.follower
                } else {
                    &self.data
                };
                let mut found = data.direct(&stream, subject.as_deref(), &message.payload);
                found.subject = message.reply.expect("a request");
                self.answers.push(found);
            }
            Job::Api(verb, stream, _, message) => {
                let answer = self.data.api(verb, &stream, &message.payload);
                self.answer(message.reply, &answer);
            }
        }
    }

    fn forget(&mut self, conn: usize) {
        self.clients.retain(|client| client.conn != conn);
    }

    /// Writes what connections are owed.
    fn write(&mut self) -> bool {
        let mut busy = false;
        for client in &mut self.clients {
            busy |= !client.out.is_empty();
            self.net.client_send(client.conn, &client.out);
            client.out.clear();
        }
        busy
    }
}

impl Broker for Nats {
    fn config(&self) -> String {
        let (url, replicas) = match self.is_clustered {
            true => ("nats://10.0.0.1:4222,nats://10.0.0.2:4222", 3),
            false => ("nats://10.0.0.1:4222", 1),
        };
        format!("kind = \"nats\"\nurl = {url:?}\nreplicas = {replicas}\n")
    }

    /// The claim of a key names the message before the publication.
    fn keeps_beside(&self, keeps: bool) -> Option<usize> {
        Some(if keeps { 1 } else { 16 })
    }

    fn is_prompt(&self, keeps: bool) -> bool {
        keeps && !self.is_clustered
    }

    fn accept(&mut self, conn: usize) {
        let out = self.hello().into_bytes();
        self.clients.push(Client {
            conn,
            input: Vec::new(),
            subscriptions: BTreeMap::new(),
            out,
        });
    }

    fn clients(&self) -> Vec<usize> {
        self.clients.iter().map(|client| client.conn).collect()
    }

    fn act(&mut self, bytes_max: usize, left: &mut Vec<usize>) -> bool {
        let mut busy = false;
        self.data.age(self.now_ms());
        if self.is_away() {
            self.net.fault();
        }
        for (at, conn) in self.clients().into_iter().enumerate().rev() {
            let Some(bytes) = self.net.client_recv(conn, bytes_max) else {
                self.forget(conn);
                left.push(conn);
                continue;
            };
            busy |= !bytes.is_empty();
            self.clients[at].input.extend(bytes);
            while let Some(command) = take_command(&mut self.clients[at].input) {
                self.hear(conn, command);
            }
        }
        busy |= self.work();
        let is_calm = self.is_calm;
        for client in &mut self.clients {
            for subscription in client.subscriptions.values_mut() {
                if !subscription.is_known {
                    busy = true;
                    subscription.is_known = is_calm || self.net.percent(self.haste);
                }
            }
            if !is_calm && self.net.below(1000) == 0 {
                // Each takes its time in a handshake, which subscribes to three.
                let is_up = client.subscriptions.len() > 3;
                let most = if is_up && self.babbles > 0 {
                    BABBLE_MAX
                } else {
                    1
                };
                self.babbles = self.babbles.saturating_sub(usize::from(most > 1));
                let pings = b"PING\r\n".repeat(self.net.between(1, most));
                client.out.extend(pings);
            }
        }
        busy | self.write()
    }

    fn copy(&mut self) {
        self.copies.add(&self.data);
    }

    fn cut(&mut self, conn: usize, bytes: usize) {
        let client = { self.clients.iter() }.find(|client| client.conn == conn);
        let out = &client.expect("a connection").out;
        self.net.client_send(conn, &out[..bytes.min(out.len())]);
        self.net.client_leaves(conn, self.net.percent(50));
        self.forget(conn);
    }

    fn start(&mut self, kept: Kept) -> bool {
        self.id = self.net.next();
        // A cluster goes on with its other servers.
        if self.is_clustered {
            return false;
        }
        self.jobs.clear();
        self.answers.clear();
        self.deliveries.clear();
        let is_less = self.copies.restore(kept, &mut self.data, &self.net);
        self.data.lose_memory();
        self.starts_until_ms = self.now_ms() + self.net.pick(&[0, 0, 300, 2000]);
        is_less
    }

    fn trouble(&mut self) -> Option<bool> {
        if self.net.percent(20) {
            note!(self.net, "another program removes a message");
            return self.data.meddle(&self.net).then_some(true);
        }
        let ails = [Ails::Nothing, Ails::Absent, Ails::Full];
        self.ails = self.net.pick(&ails);
        note!(self.net, "JetStream ails: {:?}", self.ails);
        None
    }

    fn is_ill(&self) -> bool {
        self.ails != Ails::Nothing
    }

    fn heal(&mut self) {
        self.ails = Ails::Nothing;
    }

    fn calm(&mut self) {
        self.is_calm = true;
    }
}
