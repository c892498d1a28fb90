//! Subjects of NATS: a stream of JetStream that a durable consumer reads.
//!
//! The stream is the user's own. Messages are pulled, published, and acknowledged one by one; who
//! acknowledges waits until the server has heard it. What was given and not acknowledged is given
//! again after the consumer's `ack_wait`, or at once if who has it gives it back (`-NAK`).
//!
//! # Why order holds
//!
//! JetStream gives the messages of a consumer to whoever asks, so two nodes that ask at the same
//! time would each have a part of a channel. Therefore a node publishes only while *everything that
//! was given and not acknowledged is in its own hands*. It then has the oldest that is not done,
//! and all behind that up to the newest which was given; it offers those of a channel in the order
//! of the stream.
//!
//! How a node knows (`turn.rs`): each delivery of a consumer has the number after the last one. A
//! node begins when nothing is unacknowledged, or when it has gathered all of it. From then on each
//! delivery that it gets must have the next number. A number that is missing went to another node:
//! this one gives back what it has, publishes nothing of it, and begins anew.
//!
//! A node that was put aside, with messages in its hands, may still publish that one batch, while
//! another has been given the same messages. Each of the two offers those of a channel in their
//! order and with the same idempotency keys, and gets further only behind what is published. So
//! each is published once, in order.
//!
//! # One node reads
//!
//! No lease is kept anywhere: what the consumer says of itself is one. Who reads has nearly always
//! a request waiting there, or messages that it has not acknowledged. Others look, and begin only
//! when nobody waits and nothing moves: a moment later if nothing is unacknowledged, else after
//! `ack_wait`, when all that a dead node had is given again. A lease in a bucket of its own would
//! not do instead of the numbers, because it is not looked at in the same step in which messages
//! are given; and with them it adds nothing but a stream and the permission for it. If two nodes
//! begin at the same moment, one sees a number missing, and both wait, not equally long.
//!
//! The place of a message is the stream's name, when the stream was made, and the message's number
//! in it: a stream that is deleted and made anew gives no place twice.
//!
//! # Bounds
//!
//! In hand are at most [`FeedOptions::batch_max`](crate::FeedOptions::batch_max) messages and
//! [`PULL_BYTES_MAX`] with one more, and what was taken over from other nodes, at most
//! [`HELD_MAX`] and [`HELD_BYTES_MAX`].

mod api;
mod link;
mod message;
mod options;
mod turn;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use aws_lc_rs::rand;
use serde_json::json;

use self::api::{Consumer, Stream};
use self::link::{Link, Word};
use self::message::{Held, Message};
use self::turn::{Gathered, Look, Stage, Turn};
use crate::event::Event;
use crate::source::{ANSWER, Fault, LOOK, Source};

pub use options::{NatsOptions, NatsStream};

/// Bytes that one request asks for; a message that is longer is asked for alone.
const PULL_BYTES_MAX: usize = 4 << 20;
/// How long a request waits in the server.
const PULL_WAIT: Duration = Duration::from_secs(5);
/// How long its end may be late.
const PULL_LATE: Duration = Duration::from_secs(3);
/// Messages that others had, and their bytes.
const HELD_MAX: usize = 4096;
const HELD_BYTES_MAX: usize = 64 << 20;

/// A request for messages that is in the server.
struct Pull {
    number: u64,
    /// How many messages may still come.
    left: usize,
    /// Some came.
    has_given: bool,
    until: Instant,
}

/// A connection, and what it has under way.
struct Subjects {
    link: Link,
    options: NatsOptions,
    batch_max: usize,
    /// When the stream was made.
    created: String,
    turn: Turn,
    pull: Option<Pull>,
    /// The next message is longer than what a request asks for.
    is_long: bool,
    /// By their numbers in the stream. Queue: `feed, in hand`.
    held: BTreeMap<u64, Held>,
    held_bytes: usize,
    /// Messages behind the newest that came, when it came.
    undelivered: u64,
    /// Where the messages of the batch are acknowledged.
    batch: Vec<String>,
    /// The highest number of the batch.
    batch_end: u64,
}

pub(crate) fn connect(options: &NatsOptions, batch_max: usize) -> Result<Box<dyn Source>, Fault> {
    let mut link = Link::connect(options)?;
    let stream = Stream::ask(&mut link, &options.stream)?;
    let consumer = Consumer::find(&mut link, options, &stream)?;
    options.remember(&stream.created, consumer.look.floor);
    Ok(Box::new(Subjects {
        link,
        options: options.clone(),
        batch_max: batch_max.min(consumer.batch_max),
        created: stream.created,
        turn: Turn::new(consumer.ack_wait, jitter()),
        pull: None,
        is_long: false,
        held: BTreeMap::new(),
        held_bytes: 0,
        undelivered: 0,
        batch: Vec::new(),
        batch_end: 0,
    }))
}

/// Nodes that want the same thing at the same time try again after different times.
fn jitter() -> Duration {
    let mut byte = [0];
    // Without a random byte they are equally long.
    let _ = rand::fill(&mut byte);
    Duration::from_millis(2 * u64::from(byte[0]))
}

impl Source for Subjects {
    fn take(&mut self) -> Result<Vec<Event>, Fault> {
        match self.turn.stage() {
            Stage::Watches => self.watch()?,
            Stage::Gathers => self.gather()?,
            Stage::Reads => self.receive(LOOK, self.batch_max)?,
        }
        match self.turn.stage() {
            Stage::Reads => self.next_batch(),
            _ => Ok(Vec::new()),
        }
    }

    /// Acknowledges the batch, and waits until the server has heard it.
    fn done(&mut self) -> Result<(), Fault> {
        let batch = std::mem::take(&mut self.batch).into_iter();
        let mut open: BTreeMap<u64, String> = batch
            .map(|reply| (self.link.next_number(), reply))
            .collect();
        for _ in 0..link::ASKED_MAX {
            self.link.acknowledge(&open)?;
            let until = Instant::now() + ANSWER / link::ASKED_MAX;
            while !open.is_empty() {
                let wait = until.saturating_duration_since(Instant::now());
                match self.link.next(wait)? {
                    Some(Word::Answer(answer)) if open.contains_key(&answer.number) => {
                        // With a status nobody has heard it.
                        if answer.status.is_none() {
                            open.remove(&answer.number);
                        }
                    }
                    Some(word) => self.heard(word)?,
                    None => break,
                }
            }
            if open.is_empty() {
                self.options.remember(&self.created, self.batch_end);
                return Ok(());
            }
        }
        Err(Fault::new("it does not hear what is acknowledged"))
    }

    fn put_back(&mut self) -> Result<(), Fault> {
        self.leave()
    }

    /// What the consumer has not given to anybody, and what is not acknowledged.
    fn lag(&mut self) -> Result<Option<u64>, Fault> {
        let look = self.look()?;
        Ok(Some(look.undelivered + look.unacknowledged))
    }
}

impl Subjects {
    fn look(&mut self) -> Result<Look, Fault> {
        let look = Consumer::look(&mut self.link, &self.options)?;
        self.options.remember(&self.created, look.floor);
        Ok(look)
    }

    /// Looks whether another node reads.
    fn watch(&mut self) -> Result<(), Fault> {
        let look = self.look()?;
        self.turn.watched(&look, Instant::now());
        if self.turn.stage() == Stage::Watches {
            self.listen(LOOK)?;
        }
        Ok(())
    }

    /// Takes what others had and have not acknowledged.
    fn gather(&mut self) -> Result<(), Fault> {
        let missing = self.turn.unacknowledged().saturating_sub(self.held.len());
        self.receive(LOOK, self.held.len() + missing.max(1))?;
        if self.turn.stage() != Stage::Gathers {
            return Ok(());
        }
        let look = self.look()?;
        match self.turn.gathered(&look, self.held.len()) {
            Gathered::All | Gathered::Some => Ok(()),
            Gathered::Nothing => self.leave(),
        }
    }

    /// Reads until there are so many messages in hand, no more for now, or it has waited.
    fn receive(&mut self, wait: Duration, wanted: usize) -> Result<(), Fault> {
        let until = Instant::now() + wait;
        while self.turn.stage() != Stage::Watches && !self.has_enough(wanted) {
            let now = Instant::now();
            match &self.pull {
                None => self.pull(wanted.saturating_sub(self.held.len()))?,
                // Servers do not say that there is no consumer; whoever looks is told.
                Some(pull) if now > pull.until => return self.leave(),
                Some(_) => {}
            }
            let left = until.saturating_duration_since(now);
            if left.is_zero() {
                break;
            }
            if let Some(word) = self.link.next(left)? {
                self.heard(word)?;
            }
        }
        Ok(())
    }

    fn has_enough(&self, wanted: usize) -> bool {
        let is_reading = self.turn.stage() == Stage::Reads;
        let is_over = self.pull.is_none() || self.undelivered == 0;
        let has_some = !self.held.is_empty() && (is_over || self.held_bytes >= PULL_BYTES_MAX);
        self.held.len() >= wanted || (is_reading && has_some)
    }

    fn pull(&mut self, count: usize) -> Result<(), Fault> {
        let is_long = std::mem::take(&mut self.is_long);
        let count = if is_long { 1 } else { count.max(1) };
        let mut ask = json!({ "batch": count, "expires": PULL_WAIT.as_nanos() as u64 });
        if !is_long {
            ask["max_bytes"] = json!(PULL_BYTES_MAX);
        }
        let (stream, consumer) = (&self.options.stream, &self.options.consumer);
        let subject = format!("$JS.API.CONSUMER.MSG.NEXT.{stream}.{consumer}");
        self.pull = Some(Pull {
            number: self.link.pull(&subject, &ask.to_string())?,
            left: count,
            has_given: false,
            until: Instant::now() + PULL_WAIT + PULL_LATE,
        });
        Ok(())
    }

    /// Takes what comes for so long, though it waits for nothing.
    fn listen(&mut self, wait: Duration) -> Result<(), Fault> {
        let until = Instant::now() + wait;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            match self.link.next(left)? {
                Some(word) => self.heard(word)?,
                None => return Ok(()),
            }
        }
    }

    fn heard(&mut self, word: Word) -> Result<(), Fault> {
        match word {
            Word::Message(message) => self.message(message),
            Word::Answer(answer) => {
                let is_ours = { &self.pull }
                    .as_ref()
                    .is_some_and(|pull| pull.number == answer.number);
                if !is_ours {
                    return Ok(());
                }
                let pull = self.pull.take();
                match answer.status {
                    Some(404 | 408) => Ok(()),
                    Some(409) if answer.text.contains("Batch Completed") => Ok(()),
                    Some(409) if answer.text.contains("MaxBytes") => {
                        self.is_long = pull.is_some_and(|pull| !pull.has_given);
                        Ok(())
                    }
                    // Nobody takes requests, or another server does: whoever looks is told.
                    Some(503) => self.leave(),
                    Some(409) if answer.text.contains("Leadership Change") => self.leave(),
                    _ => Err(Fault(format!("it says: {}", answer.text))),
                }
            }
        }
    }

    fn message(&mut self, message: Message) -> Result<(), Fault> {
        if let Some(pull) = &mut self.pull {
            pull.has_given = true;
            pull.left = pull.left.saturating_sub(1);
            if pull.left == 0 {
                self.pull = None;
            }
        }
        let delivery = message.delivery;
        if !self.turn.came(&delivery) {
            self.link.give_back(&message.reply)?;
            return self.leave();
        }
        self.undelivered = delivery.undelivered;
        let held = message.held(&self.options, &self.created);
        self.held_bytes += held.bytes;
        if let Some(before) = self.held.insert(delivery.stream_seq, held) {
            self.held_bytes -= before.bytes;
        }
        if self.held.len() > HELD_MAX || self.held_bytes > HELD_BYTES_MAX {
            return Err(Fault(format!(
                "others have not acknowledged more than {HELD_MAX} messages or {HELD_BYTES_MAX} \
                 bytes of its consumer {:?}",
                self.options.consumer
            )));
        }
        Ok(())
    }

    /// The oldest messages in hand.
    fn next_batch(&mut self) -> Result<Vec<Event>, Fault> {
        let mut events = Vec::new();
        while self.batch.len() < self.batch_max
            && let Some((number, held)) = self.held.pop_first()
        {
            self.held_bytes -= held.bytes;
            self.batch.push(held.reply);
            self.batch_end = number;
            events.extend(held.event);
        }
        if events.is_empty() && !self.batch.is_empty() {
            // Marks alone.
            self.done()?;
        }
        Ok(events)
    }

    /// Gives everything back, and looks who reads.
    fn leave(&mut self) -> Result<(), Fault> {
        self.give_back()?;
        if self.pull.take().is_some() {
            self.link.forget_pulls()?;
        }
        self.turn.leave(jitter());
        Ok(())
    }

    fn give_back(&mut self) -> Result<(), Fault> {
        let batch = std::mem::take(&mut self.batch).into_iter();
        let held = std::mem::take(&mut self.held).into_values();
        self.held_bytes = 0;
        for reply in batch.chain(held.map(|held| held.reply)) {
            self.link.give_back(&reply)?;
        }
        self.link.flush()
    }
}

impl Drop for Subjects {
    fn drop(&mut self) {
        // Without it the next reader waits until they are given again.
        let _ = self.leave();
        for message in self.link.last_messages() {
            let _ = self.link.give_back(&message.reply);
        }
        let _ = self.link.flush();
    }
}
