//! Redis as a node asks it: what the connection is, which commands wait for answers, what answers
//! and messages mean.
//!
//! A question for all nodes goes to everybody by one message; Redis says how many hear it, so it is
//! known how many answers there will be. One for a single node goes where that node alone listens.
//! A name may be made up: Redis is asked first whether anybody listens there, and nothing is sent
//! otherwise. Each answer goes to the node that asked.
//!
//! Never: links, rules about channels.
//!
//! Invariant: flights are in the order of their commands, hence of Redis's answers.

use std::collections::{BTreeMap, VecDeque};

use redis::{ServerError, Value};
use throng_broker::{ChannelMember, HistoryPage, Outcome, Present, Refusal};
use throng_redis_link::{command, value};
use throng_remote::{
    BrokerFault, Core, Node as _, NodeChannels as _, NodeIo, PendingSubscribe, Purpose, RequestId,
};
use throng_types::{ChannelName, SpanContext};

use crate::answer;
use crate::command::{Script, call};
use crate::keys::Keys;
use crate::options::Target;

/// Time for which a stream without publications is remembered when nobody subscribes to it, in
/// milliseconds: enough to subscribe from the position that a question for history gave.
const EMPTY_MS: u64 = 10_000;
/// Names of other nodes that are remembered; the oldest is forgotten for one more, and looked for
/// again.
pub(crate) const KNOWN_MAX: usize = 256;

#[derive(Debug)]
pub struct RedisServer {
    /// The server process, by its own word: another one after each start.
    pub(crate) process: String,
    /// Line of replication: another one after each promotion.
    pub(crate) line: String,
    /// The digest of each script, in the order of [`Script::ALL`].
    pub(crate) digests: Vec<String>,
    /// Names this node for the length of this connection: 16 characters.
    pub(crate) incarnation: String,
}

/// Members that are listed, by channel and client.
pub(crate) type Rows = BTreeMap<(ChannelName, Box<str>), ChannelMember>;

pub struct Redis {
    pub(crate) core: Core,
    pub(crate) target: Target,
    pub(crate) keys: Keys,
    pub(crate) link: Option<RedisServer>,
    /// Queue: `to the broker`.
    pub(crate) flights: VecDeque<Pending>,
    pub(crate) flight_bytes: usize,
    pub(crate) rows: Rows,
    /// Rows to be written again. Bound: as `rows`.
    pub(crate) rows_again: VecDeque<(ChannelName, Box<str>)>,
    /// Redis refused to write or to remove a row on this connection.
    pub(crate) rows_missed: bool,
    /// When the lease of this connection was last renewed.
    pub(crate) leased_at_ms: Option<u64>,
    /// The name of the connection before, until all rows have the new one.
    pub(crate) incarnation_before: Option<String>,
    /// Other nodes that were there when one was last asked. Bound: [`KNOWN_MAX`].
    pub(crate) known: VecDeque<Box<str>>,
    /// Trace of the publication that comes next, and the name of its channel in Redis.
    pub(crate) trace: Option<Box<(Box<str>, SpanContext)>>,
    /// When the connection is made anew, since Redis refused something while its slot moved.
    pub(crate) anew_at_ms: Option<u64>,
}

impl Redis {
    pub(crate) fn new(io: NodeIo, target: Target) -> Self {
        Self {
            keys: Keys::new(&target.prefix(&io.options.prefix)),
            core: Core::new(io),
            target,
            link: None,
            flights: VecDeque::new(),
            flight_bytes: 0,
            rows: BTreeMap::new(),
            rows_again: VecDeque::new(),
            rows_missed: false,
            leased_at_ms: None,
            incarnation_before: None,
            known: VecDeque::new(),
            trace: None,
            anew_at_ms: None,
        }
    }

    pub(crate) fn incarnation(&self) -> &str {
        { self.link.as_ref() }.map_or("", |link| &link.incarnation)
    }

    /// Notes what the command that was appended last waits for.
    pub(crate) fn fly(&mut self, flight: Flight, bytes: usize) {
        self.flight_bytes += bytes;
        let since_ms = self.core.io.now_ms;
        self.flights.push_back(Pending {
            flight,
            bytes,
            since_ms,
        });
    }

    pub(crate) fn send(&mut self, flight: Flight, parts: &[&[u8]]) {
        command(&mut self.core.io.out, parts);
        self.fly(flight, 0);
    }

    pub(crate) fn call(&mut self, flight: Flight, script: Script, keys: &[&str], args: &[&[u8]]) {
        let Some(link) = &self.link else { return };
        let digest = link
            .digests
            .get(script as usize)
            .map_or("", |digest| digest);
        let before = self.core.io.out.len();
        call(&mut self.core.io.out, digest, keys, args);
        let bytes = self.core.io.out.len() - before;
        self.fly(flight, bytes);
    }

    /// First arguments of each script that looks at a stream: the server, a fresh epoch, the time
    /// if it is not Redis's, and how long positions are kept.
    pub(crate) fn stream_args(&mut self) -> [String; 4] {
        let link = self.link.as_ref();
        let server = link.map(|link| format!("{}:{}", link.process, link.line));
        [
            server.unwrap_or_default(),
            format!("{:x}", self.core.io.fresh_epoch()),
            self.core.io.options.given_ms().to_string(),
            self.core.io.options.position_ttl_ms.to_string(),
        ]
    }

    /// Lifetime of a stream without publications that nobody subscribes to.
    pub(crate) fn empty_ms(&self) -> String {
        EMPTY_MS
            .min(self.core.io.options.position_ttl_ms)
            .to_string()
    }

    /// Takes a message; `trace` is what came right before it.
    pub(crate) fn delivery(&mut self, data: &[Value], trace: Option<Box<(Box<str>, SpanContext)>>) {
        let [name, body, ..] = data else { return };
        let (Some(there), Some(body)) = (value::text(name), value::bytes(body)) else {
            return;
        };
        let Some(name) = self.keys.channel_of(there) else {
            return self.node_message(there, body);
        };
        // A name of ours that is longer than clients' may be is a gateway's.
        let Ok(name) = ChannelName::with_bound(name, usize::MAX) else {
            return;
        };
        match answer::message(&name, body, self.core.io.unix_ms) {
            Some(mut publication) => {
                let trace = trace.filter(|trace| *trace.0 == *there);
                publication.trace = trace.map(|trace| Box::new(trace.1));
                self.delivered(publication.shared());
            }
            None => self.gap(&name),
        }
    }

    /// Takes a message that is for this node, or for every node.
    fn node_message(&mut self, there: &str, body: &[u8]) {
        let is_own = self.keys.probe(self.incarnation()) == there;
        let name = self.core.name.as_ref();
        if is_own && body.is_empty() {
            self.core.proved();
        } else if is_own {
            self.hear_answer(body);
        } else if self.keys.everybody() == there {
            if !self.core.io.hear_everybody(body) {
                self.hear_question(body);
            }
        } else if name.is_some_and(|it| self.keys.named(it) == there) {
            self.hear_question(body);
        } else if self.keys.traces() == there {
            self.trace = answer::trace(body).map(Box::new);
        }
    }

    /// Asks whether there is a node of this name.
    pub(crate) fn find(&mut self, (shard, ticket): (u8, u32), node: Box<str>, message: Vec<u8>) {
        let there = self.keys.named(&node);
        let numsub = self.target.verbs().numsub.as_bytes();
        let flight = Flight::Find(shard, ticket, node, message);
        self.send(flight, &[b"PUBSUB", numsub, there.as_bytes()]);
    }

    /// Redis has said how many listen by this name.
    pub(crate) fn found(
        &mut self,
        who: (u8, u32),
        node: Box<str>,
        message: &[u8],
        value: &Value,
    ) -> bool {
        let listeners = value::list(value).and_then(|it| value::number(it.get(1)?));
        match listeners {
            None => return false,
            Some(0) => self.asked_of(who, 0),
            Some(_) => {
                if !self.known.contains(&node) {
                    self.known.truncate(KNOWN_MAX - 1);
                    self.known.push_front(node.clone());
                }
                self.ask_known(who, node, message);
            }
        }
        true
    }

    pub(crate) fn ask_known(&mut self, (shard, ticket): (u8, u32), node: Box<str>, message: &[u8]) {
        let there = self.keys.named(&node);
        let publish = self.target.verbs().publish.as_bytes();
        let flight = Flight::AskedOne(shard, ticket, node);
        self.send(flight, &[publish, there.as_bytes(), message]);
    }

    /// Redis has said how many got the question for a node. One answer is enough: while a node is
    /// upgraded, two processes have its name.
    pub(crate) fn asked_one(&mut self, who: (u8, u32), node: &str, value: &Value) -> bool {
        let Some(receivers) = value::number(value) else {
            return false;
        };
        if receivers == 0 {
            self.known.retain(|known| **known != *node);
        }
        self.asked_of(who, receivers.min(1) as usize);
        true
    }

    /// Redis has said how many nodes got a question, this one among them.
    pub(crate) fn asked(&mut self, who: (u8, u32), value: &Value) -> bool {
        let Some(receivers) = value::number(value) else {
            return false;
        };
        self.asked_of(who, (receivers as usize).saturating_sub(1));
        true
    }

    pub(crate) fn landed(&mut self, flight: Flight, value: Value) -> Result<(), BrokerFault> {
        if let Value::ServerError(error) = &value {
            let code = code_of(error);
            if is_refused_write(code) {
                let detail = error.details().unwrap_or("");
                self.writes_refused(&flight, code, detail);
                self.failed(flight, Refusal::Unavailable);
                return Ok(());
            }
            if matches!(
                code,
                "NOSCRIPT" | "READONLY" | "LOADING" | "NOAUTH" | "NOPERM" | "MASTERDOWN"
            ) {
                let fault = format!("Redis refuses: {code} {}", error.details().unwrap_or(""));
                self.failed(flight, Refusal::Unavailable);
                return Err(BrokerFault(fault));
            }
            if matches!(code, "MOVED" | "CLUSTERDOWN") {
                // It may be said of a subscription, which has no flight of its own; so nobody knows
                // the outcome of this one.
                let fault = format!("Redis refuses: {code} {}", error.details().unwrap_or(""));
                self.lost(flight);
                return Err(BrokerFault(fault));
            }
            if matches!(code, "ASK" | "TRYAGAIN") {
                self.slot_moves();
                self.failed(flight, Refusal::Unavailable);
                return Ok(());
            }
            let detail = error.details().unwrap_or("");
            tracing::warn!(code, detail, "Redis refuses a command");
            match flight {
                // It may have been refused in the midst of its script.
                Flight::Publish { .. } if !is_refused_at_once(code) => self.lost(flight),
                flight => self.failed(flight, Refusal::Unavailable),
            }
            return Ok(());
        }
        let fits = match flight {
            Flight::Publish(id) => {
                let position = answer::published(&value);
                if let Some(position) = position {
                    self.core.published(id, Ok(position));
                }
                position.is_some()
            }
            Flight::Look(purpose, channel) => {
                let looked = answer::looked(&value, &channel);
                let fits = looked.is_some();
                if let Some(looked) = looked {
                    self.tell_looked(&channel, purpose, looked);
                }
                fits
            }
            Flight::Settle(subscribe) => {
                self.settled(subscribe);
                true
            }
            Flight::Forget(id) => {
                let outcome = Outcome::History(Ok(HistoryPage::default()));
                self.core.io.reply(id, outcome);
                true
            }
            Flight::Present(id, with_members) => {
                let result = present(&value, with_members);
                let fits = result.is_some();
                if let Some(result) = result {
                    let outcome = Outcome::Present(result);
                    self.core.io.reply(id, outcome);
                }
                fits
            }
            Flight::Asked(shard, ticket) => self.asked((shard, ticket), &value),
            Flight::Find(shard, ticket, node, message) => {
                self.found((shard, ticket), node, &message, &value)
            }
            Flight::AskedOne(shard, ticket, node) => self.asked_one((shard, ticket), &node, &value),
            Flight::Leased => return self.leased(),
            Flight::Nodes => self.nodes(&value),
            Flight::Lives(incarnation) => self.lives(incarnation, &value),
            Flight::MaySweep(incarnation) => self.may_sweep(incarnation, &value),
            Flight::Places(incarnation) => self.sweep(&incarnation, &value),
            Flight::Swept(incarnation) => {
                self.next_places(incarnation);
                true
            }
            Flight::Line => return self.line(&value),
            Flight::Row | Flight::Nothing => true,
        };
        if fits {
            Ok(())
        } else {
            Err(BrokerFault(format!(
                "an answer that cannot be read: {value:?}"
            )))
        }
    }

    /// Redis answers and takes no writes: that is logged once.
    fn writes_refused(&mut self, flight: &Flight, code: &str, detail: &str) {
        self.rows_missed |= matches!(flight, Flight::Row);
        if !self.core.io.is_refusing() {
            tracing::warn!(
                code,
                detail,
                "Redis refuses writes: publications with a history or a key are refused until it \
                 takes them again"
            );
            self.core.io.set_refusing(true);
        }
    }

    /// Nothing happened, or the outcome is unknown.
    pub(crate) fn failed(&mut self, flight: Flight, refusal: Refusal) {
        match flight {
            Flight::Publish(id) => {
                self.core.count_refusal(refusal);
                self.core.published(id, Err(refusal));
            }
            Flight::Look(purpose, channel) => self.refuse_look(&channel, purpose, refusal),
            Flight::Settle(subscribe) => self.not_subscribed(&subscribe, refusal),
            Flight::Forget(id) => {
                let outcome = Outcome::History(Err(refusal));
                self.core.io.reply(id, outcome);
            }
            Flight::Present(id, _) => {
                let outcome = Outcome::Present(Err(refusal));
                self.core.io.reply(id, outcome);
            }
            _ => {}
        }
    }
}

#[derive(Debug)]
pub(crate) enum Flight {
    Publish(RequestId),
    Look(Purpose, ChannelName),
    /// Proof that the subscription of a channel without history was taken.
    Settle(PendingSubscribe),
    Forget(RequestId),
    /// Whether the reply lists all members, besides their number.
    Present(RequestId, bool),
    /// Number of nodes that got a question.
    Asked(u8, u32),
    /// Whether there is a node of this name, and the question for it.
    Find(u8, u32, Box<str>, Vec<u8>),
    /// Whether the node of this name got a question.
    AskedOne(u8, u32, Box<str>),
    Leased,
    Row,
    Nodes,
    Lives(String),
    /// Whether this node sweeps after an incarnation.
    MaySweep(String),
    /// Channels to sweep after an incarnation.
    Places(String),
    /// Some channels are swept after an incarnation.
    Swept(String),
    /// The server's line of replication.
    Line,
    Nothing,
}

pub(crate) struct Pending {
    pub(crate) flight: Flight,
    pub(crate) bytes: usize,
    pub(crate) since_ms: u64,
}

/// The code of an error. Redis before version 7 has that of a script's command within the text:
/// `ERR Error running script …: -OOM command not allowed …`.
fn code_of(error: &ServerError) -> &str {
    let code = error.code();
    if code != "ERR" {
        return code;
    }
    let detail = error.details().unwrap_or_default();
    let words = detail.split(' ').filter_map(|word| word.strip_prefix('-'));
    { words }
        .find(|word| is_refused_write(word))
        .unwrap_or(code)
}

/// Whether Redis refuses all that writes: it is full, it lacks replicas, or its disk fails. Of a
/// script it refuses the first write in that way, never a later one.
fn is_refused_write(code: &str) -> bool {
    matches!(code, "OOM" | "NOREPLICAS" | "MISCONF")
}

/// Whether a command that was refused with this code had not begun.
fn is_refused_at_once(code: &str) -> bool {
    matches!(code, "BUSY" | "CROSSSLOT" | "NOPERM")
}

/// The answer to the question for present members.
fn present(value: &Value, with_members: bool) -> Option<Result<Present, Refusal>> {
    let [clients, users, members @ ..] = value::list(value)? else {
        return None;
    };
    let Some(clients) = value::number(clients) else {
        return Some(Err(Refusal::TooLong));
    };
    let members = match members {
        [members, ..] if with_members => Some(answer::members(members)?),
        _ => None,
    };
    Some(Ok(Present {
        clients: u32::try_from(clients).ok()?,
        users: u32::try_from(value::number(users)?).ok()?,
        members,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_code_of_a_refused_write_is_found_in_the_error_of_a_script() {
        let old = "Error running script (call to f_6b1b): @user_script:1: @user_script: 1: -OOM \
                   command not allowed when used memory > 'maxmemory'.";
        for (line, expected) in [
            ("OOM command not allowed", "OOM"),
            (
                "NOREPLICAS Not enough good replicas to write.",
                "NOREPLICAS",
            ),
            (&*format!("ERR {old}"), "OOM"),
            ("ERR ACL failure in script: no -permission", "ERR"),
            ("ERR", "ERR"),
        ] {
            let value = redis::parse_redis_value(format!("-{line}\r\n").as_bytes());
            let Ok(Value::ServerError(error)) = value else {
                panic!("{line}: {value:?}");
            };
            assert_eq!(code_of(&error), expected, "{line}");
        }
    }
}
