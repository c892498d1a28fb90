//! The task that listens to Appwrite's Redis.
//!
//! Redis keeps nothing for subscribers, so a lost connection loses events: that is logged, counted,
//! and told to the shards as a new beginning. It is made again with pauses that grow up to ten
//! seconds. The first connection is a new beginning, too: clients may have come before it. It
//! counts as up once Redis has said that we are subscribed: one that wants a password, or lets this
//! user not read the channel, answers everything else.
//!
//! While another process takes over, a lost connection is not made again: it would bring events
//! that are newer than those that only the other process has heard.

use std::cell::Cell;
use std::convert::Infallible;
use std::rc::Rc;
use std::sync::Arc;

use redis::{ErrorKind, RedisError, Value};
use throng_appwrite::{FeedError, FeedMessage, MessageSource, REDIS_CHANNEL, glimpse};
use throng_metrics::{Counter, Counters, Gauge};
use throng_peer::task::{Either, Net, QueueReceiver, QueueSender, first};
use throng_redis_link::value::{bytes, list, text};
use throng_redis_link::{ANSWER_BYTES_MAX, RedisLink, RedisSource};

use crate::sampled::Sampled;

/// Bound of connecting, and of any answer of Redis, in milliseconds.
const ANSWER_MS: u64 = 5_000;
/// After so long without anything, Redis is asked whether it is still there.
const QUIET_MS: u64 = 10_000;
/// The first pause before connecting again, and the longest.
const PAUSES_MS: (u64, u64) = (250, 10_000);

pub(crate) enum Heard {
    /// The connection stands. Events may have been lost before.
    Up,
    /// The connection is lost, or was not made.
    Down,
    Event(FeedMessage),
    /// Everything is told that was published before [`Standstill`] had this number.
    Stands(u32),
}

/// Wishes of a hand-over for the subscriber.
#[derive(Clone, Default)]
pub(crate) struct Standstill {
    /// Number of changes between reading and standing still; odd while the subscriber is to stand.
    number: Rc<Cell<u32>>,
    /// Whether another process may hear what this one misses.
    is_shared: Rc<Cell<bool>>,
}

impl Standstill {
    pub(crate) fn number(&self) -> u32 {
        self.number.get()
    }

    pub(crate) fn is_asked(&self) -> bool {
        self.number() % 2 == 1
    }

    pub(crate) fn set(&self, stands: bool) {
        let number = self.number() + 1;
        { &self.number }.set(number + u32::from((number % 2 == 1) != stands));
    }

    pub(crate) fn share(&self, is_shared: bool) {
        self.is_shared.set(is_shared);
    }

    /// Whether a connection that is lost stays so.
    fn keeps_away(&self) -> bool {
        self.is_shared.get() || self.is_asked()
    }
}

/// The connection to Redis that brings Appwrite's events.
pub(crate) struct Subscriber {
    pub(crate) net: Net,
    pub(crate) source: RedisSource,
    /// Bytes of one message; longer ones could not be delivered anyway.
    pub(crate) message_bytes_max: usize,
    pub(crate) counters: Arc<Counters>,
    pub(crate) heard: QueueSender<Heard>,
    pub(crate) standstill: Standstill,
    /// An item follows each change of `standstill`.
    pub(crate) changes: QueueReceiver<()>,
    pub(crate) undelivered: Sampled,
}

impl Subscriber {
    /// Listens until its task is dropped.
    pub(crate) async fn run(mut self) {
        let mut pause_ms = PAUSES_MS.0;
        let mut down_since = self.net.now().mono;
        let mut down_counted_s = 0;
        let mut missed = false;
        loop {
            let mut was_up = false;
            let lost = match self.connect().await {
                Ok(link) => {
                    was_up = true;
                    let down_ms = self.net.now().mono.since(down_since);
                    self.up(missed, down_ms).await;
                    self.listen(link).await
                }
                Err(error) => Err(error),
            };
            self.counters.set(Gauge::AppwriteFeedUp, 0);
            self.tell(Heard::Down).await;
            let Err(error) = lost;
            missed = true;
            if was_up {
                pause_ms = PAUSES_MS.0;
                down_since = self.net.now().mono;
                down_counted_s = 0;
                tracing::warn!(%error, "the connection to Appwrite's Redis is lost: events are \
                                        missed until it is back");
            } else if is_refusal(&error) {
                self.counters.count(Counter::AppwriteFeedRefused);
                tracing::error!(%error, "Appwrite's Redis does not let Throng listen: check the \
                                        user and password in appwrite.redis, and that the user \
                                        may read the channel \"realtime\" (ACL: &realtime \
                                        +subscribe)");
            } else {
                tracing::warn!(%error, retry_ms = pause_ms, "no connection to Appwrite's Redis");
            }
            self.net.sleep(pause_ms).await;
            pause_ms = (pause_ms * 2).min(PAUSES_MS.1);
            let down_s = self.net.now().mono.since(down_since) / 1000;
            let more_s = down_s - down_counted_s;
            self.counters.add(Counter::AppwriteFeedDownSeconds, more_s);
            down_counted_s = down_s;
        }
    }

    /// Says it; waits while the shards have no room.
    async fn tell(&self, heard: Heard) {
        // Without the peer this task ends too.
        let _ = self.heard.put(heard).await;
    }

    /// The connection stands: what was published meanwhile is lost, and every shard must know.
    async fn up(&self, missed: bool, down_ms: u64) {
        self.counters.set(Gauge::AppwriteFeedUp, 1);
        self.tell(Heard::Up).await;
        if missed {
            self.counters.count(Counter::AppwriteFeedReconnects);
            tracing::warn!(
                down_ms,
                "the connection to Appwrite's Redis is back; events of the time between are lost"
            );
        } else {
            tracing::info!("listening to Appwrite's Redis");
        }
    }

    /// Connects once nobody else hears what was missed.
    async fn connect(&mut self) -> Result<RedisLink, RedisError> {
        loop {
            while self.standstill.keeps_away() {
                self.changes.next().await;
            }
            let link = self.try_connect().await?;
            if !self.standstill.keeps_away() {
                return Ok(link);
            }
        }
    }

    async fn try_connect(&self) -> Result<RedisLink, RedisError> {
        let place = self.source.find(&self.net, ANSWER_MS, None).await?;
        // Longer ones than can be delivered are still told by name, if they are not far longer.
        let bytes_max = ANSWER_BYTES_MAX.max(2 * self.message_bytes_max);
        let mut link = RedisLink::connect(&self.net, &place, ANSWER_MS, None, bytes_max).await?;
        subscribe(&mut link).await?;
        Ok(link)
    }

    /// Reads until the connection is lost.
    async fn listen(&mut self, mut link: RedisLink) -> Result<Infallible, RedisError> {
        let mut has_asked = false;
        loop {
            if self.standstill.is_asked() {
                let number = self.standstill.number();
                self.catch_up(&mut link, number.to_string().as_bytes())
                    .await?;
                self.tell(Heard::Stands(number)).await;
                while self.standstill.number() == number {
                    self.changes.next().await;
                }
            }
            let wait_ms = if has_asked { ANSWER_MS } else { QUIET_MS };
            match first(self.changes.next(), link.next_within(wait_ms)).await {
                Either::Left(_) => {}
                Either::Right(Ok(Some(value))) => {
                    has_asked = false;
                    if let Some(message) = message(&value) {
                        self.take(message).await;
                    }
                }
                // A server that vanished without a word is only found by asking.
                Either::Right(Ok(None)) if !has_asked => {
                    has_asked = true;
                    link.send(&[b"PING"]);
                }
                Either::Right(Ok(None)) => {
                    return Err(silence());
                }
                Either::Right(Err(error)) => return Err(error),
            }
        }
    }

    /// Takes everything that was published before now: Redis answers a question behind that.
    async fn catch_up(&mut self, link: &mut RedisLink, question: &[u8]) -> Result<(), RedisError> {
        link.send(&[b"PING", question]);
        while let Some(heard) = link.next_within(ANSWER_MS).await? {
            match message(&heard) {
                Some(message) => self.take(message).await,
                None if is_answer(&heard, question) => return Ok(()),
                None => {}
            }
        }
        Err(silence())
    }

    async fn take(&mut self, message: &[u8]) {
        match FeedMessage::parse(message, self.message_bytes_max) {
            Ok(event) => {
                self.counters.count(Counter::AppwriteEventsRedis);
                self.tell(Heard::Event(event)).await;
            }
            Err(error) => {
                self.counters.count(match error {
                    FeedError::Malformed | FeedError::Missing(_) => {
                        Counter::AppwriteEventsMalformed
                    }
                    FeedError::Empty => Counter::AppwriteEventsEmpty,
                    FeedError::TooLong => Counter::AppwriteEventsTooLong,
                });
                if let Some(unsaid) = self.undelivered.next(self.net.now().mono) {
                    let bytes = message.len();
                    let MessageSource { project, channel } = glimpse(message);
                    tracing::warn!(%error, bytes, project, channel, unsaid, "an event from \
                                        Appwrite is not delivered");
                }
            }
        }
    }
}

/// Asks for the channel, and reads the answer.
async fn subscribe(link: &mut RedisLink) -> Result<(), RedisError> {
    let answer = link.ask(&[b"SUBSCRIBE", REDIS_CHANNEL.as_bytes()]).await?;
    match list(&answer) {
        Some([kind, ..]) if text(kind) == Some("subscribe") => Ok(()),
        _ => Err((
            ErrorKind::UnexpectedReturnType,
            "SUBSCRIBE was not confirmed",
        )
            .into()),
    }
}

/// The bytes of a message that was published.
fn message(value: &Value) -> Option<&[u8]> {
    let [kind, _, message] = list(value)? else {
        return None;
    };
    bytes(message).filter(|_| text(kind) == Some("message"))
}

/// Whether it is the answer to a PING with this text.
fn is_answer(value: &Value, own: &[u8]) -> bool {
    match list(value) {
        Some([word, said]) => text(word) == Some("pong") && bytes(said) == Some(own),
        _ => false,
    }
}

fn silence() -> RedisError {
    (ErrorKind::Io, "Redis does not answer").into()
}

/// Whether the fault is one of configuration and not of the network.
fn is_refusal(error: &RedisError) -> bool {
    error.kind() == ErrorKind::AuthenticationFailed
        || matches!(error.code(), Some("NOAUTH" | "NOPERM" | "WRONGPASS"))
}
