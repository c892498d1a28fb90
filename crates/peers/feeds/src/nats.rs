//! Subjects of NATS: a stream of JetStream that a durable consumer reads.
//!
//! The stream is the user's own. Messages are pulled, published, and acknowledged one by one; who
//! acknowledges waits until the server has heard it. What was given and not acknowledged is given
//! again after the consumer's `ack_wait`, or at once if who has it gives it back (`-NAK`).
//!
//! # Why order holds
//!
//! JetStream gives the messages of a consumer to any node that asks, so two nodes that ask at the
//! same time would each have a part of a channel. Therefore a node publishes only while *everything
//! that was given and not acknowledged is in its own hands*. It then has the oldest that is not
//! done, and all behind that up to the newest which was given; it offers those of a channel in the
//! order of the stream.
//!
//! Turns of nodes (`turn.rs`): each delivery of a consumer has the number after the last one. A
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
//! The place of a message is the stream's name, when the stream was made, the message's number in
//! it, and when it was stored: a stream that is deleted and made anew gives no place twice, and
//! neither does a server that has lost its newest messages and gives their numbers to others.
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

use serde_json::json;
use throng_types::Millis;

use self::api::{Consumer, Stream};
use self::link::{Link, Word};
use self::message::{Held, Message};
use self::turn::{Gathered, Look, Stage, Turn};
use crate::event::Event;
use crate::source::{ANSWER_MS, Fault, LOOK_MS, Setup, Source};

pub use options::{NatsFeedOptions, NatsStream};

/// Bytes that one request asks for; a message that is longer is asked for alone.
const PULL_BYTES_MAX: usize = 4 << 20;
/// Time for which a request waits in the server, in milliseconds.
const PULL_WAIT_MS: u64 = 5_000;
/// Time by which the end of a request may be late, in milliseconds.
const PULL_LATE_MS: u64 = 3_000;
/// Bound of giving everything back, in milliseconds.
const LEAVE_MS: u64 = 1_000;
/// Messages that others had, and their bytes.
const HELD_MAX: usize = 4096;
const HELD_BYTES_MAX: usize = 64 << 20;

struct Pull {
    number: u64,
    /// Number of messages that may still come.
    left: usize,
    has_given: bool,
    until: Millis,
}

/// A connection, and what it has under way.
pub(crate) struct Subjects {
    setup: Setup,
    link: Link,
    reads: NatsStream,
    batch_max: usize,
    created: String,
    turn: Turn,
    pull: Option<Pull>,
    /// The next message is longer than what a request asks for.
    is_long: bool,
    /// Messages by their numbers in the stream. Queue: `feed, in hand`.
    held: BTreeMap<u64, Held>,
    held_bytes: usize,
    /// Messages behind the newest that came, when it came.
    undelivered: u64,
    /// Subjects on which the messages of the batch are acknowledged. Bound: `batch_max`.
    batch: Vec<String>,
    batch_end: u64,
}

pub(crate) async fn connect(
    options: &NatsFeedOptions,
    mut setup: Setup,
) -> Result<Subjects, Fault> {
    let mut link = Link::connect(options, &mut setup).await?;
    let stream = Stream::ask(&mut link, &options.reads.stream).await?;
    let known = setup.progress.borrow().of(&stream.created);
    let consumer = Consumer::find(&mut link, &options.reads, &stream, known).await?;
    let subjects = Subjects {
        link,
        reads: options.reads.clone(),
        batch_max: setup.batch_max.min(consumer.batch_max),
        created: stream.created,
        turn: Turn::new(consumer.ack_wait_ms, jitter_ms(&mut setup)),
        pull: None,
        is_long: false,
        held: BTreeMap::new(),
        held_bytes: 0,
        undelivered: 0,
        batch: Vec::new(),
        batch_end: 0,
        setup,
    };
    subjects.remember(consumer.look.floor);
    Ok(subjects)
}

/// Nodes that want the same thing at the same time try again after different times.
fn jitter_ms(setup: &mut Setup) -> u64 {
    2 * setup.rng.below(256)
}

impl Source for Subjects {
    async fn take(&mut self) -> Result<Vec<Event>, Fault> {
        match self.turn.stage {
            Stage::Watches => self.watch().await?,
            Stage::Gathers => self.gather().await?,
            Stage::Reads => self.receive(LOOK_MS, self.batch_max).await?,
        }
        match self.turn.stage {
            Stage::Reads => self.next_batch().await,
            _ => Ok(Vec::new()),
        }
    }

    async fn done(&mut self) -> Result<(), Fault> {
        self.acknowledge().await
    }

    async fn put_back(&mut self) -> Result<(), Fault> {
        self.begin_anew().await
    }

    /// Messages that the consumer has not delivered, and those that are not acknowledged.
    async fn lag(&mut self) -> Result<Option<u64>, Fault> {
        let look = self.look().await?;
        Ok(Some(look.undelivered + look.unacknowledged))
    }

    /// Without it the next reader waits until messages are given again.
    async fn leave(mut self) {
        let net = self.setup.net.clone();
        let _ = net.timeout(LEAVE_MS, self.give_all_back()).await;
    }
}

impl Subjects {
    fn now(&self) -> Millis {
        self.setup.net.now().mono
    }

    fn remember(&self, seq: u64) {
        { self.setup.progress.borrow_mut() }.remember(&self.created, seq);
    }

    /// Acknowledges the batch, and waits until the server has heard it.
    async fn acknowledge(&mut self) -> Result<(), Fault> {
        let batch = std::mem::take(&mut self.batch).into_iter();
        let mut open: BTreeMap<u64, String> = batch
            .map(|reply| (self.link.next_number(), reply))
            .collect();
        for _ in 0..link::ASKED_MAX {
            self.link.acknowledge(&open).await?;
            let until = self.now() + ANSWER_MS / u64::from(link::ASKED_MAX);
            while !open.is_empty() {
                match self.link.next(until).await? {
                    Some(Word::Answer(answer)) if open.contains_key(&answer.number) => {
                        // With a status nobody has heard it.
                        if answer.status.is_none() {
                            open.remove(&answer.number);
                        }
                    }
                    Some(word) => self.heard(word).await?,
                    None => break,
                }
            }
            if open.is_empty() {
                self.remember(self.batch_end);
                return Ok(());
            }
        }
        Err(Fault::new("it does not hear what is acknowledged"))
    }

    async fn look(&mut self) -> Result<Look, Fault> {
        let look = Consumer::look(&mut self.link, &self.reads).await?;
        self.remember(look.floor);
        Ok(look)
    }

    /// Looks whether another node reads.
    async fn watch(&mut self) -> Result<(), Fault> {
        let look = self.look().await?;
        self.turn.watched(&look, self.now());
        if self.turn.stage == Stage::Watches {
            self.listen(LOOK_MS).await?;
        }
        Ok(())
    }

    /// Takes what others had and have not acknowledged.
    async fn gather(&mut self) -> Result<(), Fault> {
        let missing = self.turn.unacknowledged().saturating_sub(self.held.len());
        self.receive(LOOK_MS, self.held.len() + missing.max(1))
            .await?;
        if self.turn.stage != Stage::Gathers {
            return Ok(());
        }
        let look = self.look().await?;
        match self.turn.gathered(&look, self.held.len()) {
            Gathered::All | Gathered::Some => Ok(()),
            Gathered::Nothing => self.begin_anew().await,
        }
    }

    /// Reads until there are so many messages in hand, no more for now, or it has waited.
    async fn receive(&mut self, wait_ms: u64, wanted: usize) -> Result<(), Fault> {
        let until = self.now() + wait_ms;
        while self.turn.stage != Stage::Watches && !self.has_enough(wanted) {
            let now = self.now();
            match &self.pull {
                None => self.pull(wanted.saturating_sub(self.held.len())).await?,
                // Servers do not say that there is no consumer; a look at it says so.
                Some(pull) if now > pull.until => return self.begin_anew().await,
                Some(_) => {}
            }
            if now >= until {
                break;
            }
            if let Some(word) = self.link.next(until).await? {
                self.heard(word).await?;
            }
        }
        Ok(())
    }

    fn has_enough(&self, wanted: usize) -> bool {
        let is_reading = self.turn.stage == Stage::Reads;
        let is_over = self.pull.is_none() || self.undelivered == 0;
        let has_some = !self.held.is_empty() && (is_over || self.held_bytes >= PULL_BYTES_MAX);
        self.held.len() >= wanted || (is_reading && has_some)
    }

    async fn pull(&mut self, count: usize) -> Result<(), Fault> {
        let is_long = std::mem::take(&mut self.is_long);
        let count = if is_long { 1 } else { count.max(1) };
        let mut ask = json!({ "batch": count, "expires": PULL_WAIT_MS * 1_000_000 });
        if !is_long {
            ask["max_bytes"] = json!(PULL_BYTES_MAX);
        }
        let (stream, consumer) = (&self.reads.stream, &self.reads.consumer);
        let subject = format!("$JS.API.CONSUMER.MSG.NEXT.{stream}.{consumer}");
        self.pull = Some(Pull {
            number: self.link.pull(&subject, &ask.to_string()).await?,
            left: count,
            has_given: false,
            until: self.now() + PULL_WAIT_MS + PULL_LATE_MS,
        });
        Ok(())
    }

    /// Takes what comes for so long, though it waits for nothing.
    async fn listen(&mut self, wait_ms: u64) -> Result<(), Fault> {
        let until = self.now() + wait_ms;
        while let Some(word) = self.link.next(until).await? {
            self.heard(word).await?;
        }
        Ok(())
    }

    async fn heard(&mut self, word: Word) -> Result<(), Fault> {
        match word {
            Word::Message(message) => self.message(message).await,
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
                    // Nobody takes requests, or another server does: a look at it says so.
                    Some(503) => self.begin_anew().await,
                    Some(409) if answer.text.contains("Leadership Change") => {
                        self.begin_anew().await
                    }
                    _ => Err(Fault(format!("the server reports: {}", answer.text))),
                }
            }
        }
    }

    async fn message(&mut self, message: Message) -> Result<(), Fault> {
        if let Some(pull) = &mut self.pull {
            pull.has_given = true;
            pull.left = pull.left.saturating_sub(1);
            if pull.left == 0 {
                self.pull = None;
            }
        }
        let delivery = message.delivery;
        if !self.turn.came(&delivery) {
            self.link.give_back(&message.reply).await?;
            return self.begin_anew().await;
        }
        self.undelivered = delivery.undelivered;
        let held = message.held(&self.reads, &self.created);
        self.held_bytes += held.bytes;
        if let Some(before) = self.held.insert(delivery.stream_seq, held) {
            self.held_bytes -= before.bytes;
        }
        if self.held.len() > HELD_MAX || self.held_bytes > HELD_BYTES_MAX {
            return Err(Fault(format!(
                "others have not acknowledged more than {HELD_MAX} messages or {HELD_BYTES_MAX} \
                 bytes of its consumer {:?}",
                self.reads.consumer
            )));
        }
        Ok(())
    }

    async fn next_batch(&mut self) -> Result<Vec<Event>, Fault> {
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
            self.acknowledge().await?;
        }
        Ok(events)
    }

    /// Gives everything back, and waits again for the turn to read.
    async fn begin_anew(&mut self) -> Result<(), Fault> {
        self.give_back().await?;
        if self.pull.take().is_some() {
            self.link.forget_pulls().await?;
        }
        self.turn.leave(jitter_ms(&mut self.setup));
        Ok(())
    }

    async fn give_back(&mut self) -> Result<(), Fault> {
        let batch = std::mem::take(&mut self.batch).into_iter();
        let held = std::mem::take(&mut self.held).into_values();
        self.held_bytes = 0;
        for reply in batch.chain(held.map(|held| held.reply)) {
            self.link.give_back(&reply).await?;
        }
        self.link.flush().await
    }

    async fn give_all_back(&mut self) -> Result<(), Fault> {
        self.begin_anew().await?;
        for message in self.link.last_messages().await {
            self.link.give_back(&message.reply).await?;
        }
        self.link.flush().await
    }
}
