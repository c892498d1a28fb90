//! The thread that listens to Appwrite's Redis.
//!
//! Redis keeps nothing for subscribers, so a lost connection loses events: that is logged, counted,
//! and told to the shards as a new beginning. It is made again with pauses that grow up to ten
//! seconds. The connection counts as up once Redis has said that we are subscribed: one that wants
//! a password, or lets this user not read the channel, answers everything else.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use std::{io, thread};

use redis::{RedisError, Value};
use throng_appwrite::{FeedError, FeedMessage, MessageSource, REDIS_CHANNEL, glimpse};
use throng_metrics::{Counter, Gauge};
use throng_redis_link::{ANSWER_BYTES_MAX, Link, RedisUrlError, Source};
use throng_types::Millis;

use crate::feed::lock;
use crate::sampled::Sampled;
use crate::{Feed, Meter};

/// How long connecting may take, and any answer of Redis.
const ANSWER: Duration = Duration::from_secs(5);
/// How often the thread looks whether it is to end, while nothing comes.
const LOOK: Duration = Duration::from_millis(200);
/// After so many looks without anything, Redis is asked whether it is still there.
const QUIET_LOOKS: u32 = 50;
/// After so many more without an answer, it is not.
const ANSWER_LOOKS: u32 = 25;
/// Who hears nothing for so long has taken what was published before, unless the network is slower.
const IDLE: Duration = Duration::from_millis(20);
/// Events that are taken between two looks at what came after.
const BETWEEN_LOOKS: usize = 64;
/// A first connection that takes longer may have missed what clients should know.
const SOON: Duration = Duration::from_secs(2);
/// The first pause before connecting again, and the longest.
const PAUSES: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(10));

/// The connection to Redis that hears Appwrite's events.
pub struct Subscriber {
    source: Source,
    feed: Arc<Feed>,
    meter: Meter,
    /// Bytes of one message; longer ones could not be delivered anyway.
    message_bytes_max: usize,
    started: Instant,
    undelivered: Mutex<Sampled>,
}

/// Why a connection to Redis is over.
enum Lost {
    /// The server ends.
    Over,
    Error(RedisError),
}

impl From<RedisError> for Lost {
    fn from(error: RedisError) -> Self {
        Self::Error(error)
    }
}

impl Subscriber {
    /// Listens there, and publishes what comes to the feed.
    ///
    /// # Errors
    /// [`RedisUrlError`].
    pub fn new(
        url: &str,
        message_bytes_max: usize,
        feed: Arc<Feed>,
        meter: Meter,
    ) -> Result<Self, RedisUrlError> {
        Ok(Self {
            source: Source::new(url)?,
            feed,
            meter,
            message_bytes_max,
            started: Instant::now(),
            undelivered: Mutex::default(),
        })
    }

    /// Starts the thread.
    ///
    /// # Errors
    /// If the kernel gives none.
    pub fn start(self) -> io::Result<()> {
        let builder = thread::Builder::new().name("appwrite-redis".to_owned());
        builder.spawn(move || self.run()).map(drop)
    }

    fn run(&self) {
        let mut pause = PAUSES.0;
        let mut down_since = Instant::now();
        let mut down_counted_s = 0;
        let mut missed = false;
        while !self.feed.is_over() {
            let mut was_up = false;
            let lost = self.listen(|| {
                was_up = true;
                let down = down_since.elapsed();
                self.up(missed || down > SOON, down);
            });
            self.meter.set(Gauge::AppwriteFeedUp, 0);
            self.feed.standstill().hears(false);
            let Lost::Error(error) = lost else { return };
            missed = true;
            if was_up {
                pause = PAUSES.0;
                down_since = Instant::now();
                down_counted_s = 0;
                tracing::warn!(%error, "the connection to Appwrite's Redis is lost: events are \
                                        missed until it is back");
            } else if is_refusal(&error) {
                self.meter.count(Counter::AppwriteFeedRefused);
                tracing::error!(%error, "Appwrite's Redis does not let Throng listen: check the \
                                        user and password in appwrite.redis, and that the user \
                                        may read the channel \"realtime\" (ACL: &realtime \
                                        +subscribe)");
            } else {
                tracing::warn!(%error, retry_ms = pause.as_millis() as u64, "no connection to \
                                        Appwrite's Redis");
            }
            self.wait(pause);
            pause = (pause * 2).min(PAUSES.1);
            let down_s = down_since.elapsed().as_secs();
            self.meter
                .add(Counter::AppwriteFeedDownSeconds, down_s - down_counted_s);
            down_counted_s = down_s;
        }
    }

    /// The connection stands: what was published meanwhile is lost, and everybody must know.
    fn up(&self, missed: bool, down: Duration) {
        self.meter.set(Gauge::AppwriteFeedUp, 1);
        self.feed.standstill().hears(true);
        if missed {
            self.meter.count(Counter::AppwriteFeedReconnects);
            self.feed.begin_anew();
            tracing::warn!(
                down_ms = down.as_millis() as u64,
                "the connection to Appwrite's Redis is back; events of the time between are lost"
            );
        } else {
            tracing::info!("listening to Appwrite's Redis");
        }
    }

    /// Waits in short pieces, so that the end of the server is noticed.
    fn wait(&self, pause: Duration) {
        let until = Instant::now() + pause;
        while !self.feed.is_over() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            thread::sleep(left.min(LOOK));
        }
    }

    /// Connects, subscribes and reads until the connection is lost.
    fn listen(&self, up: impl FnOnce()) -> Lost {
        match self.try_listen(up) {
            Ok(never) => match never {},
            Err(lost) => lost,
        }
    }

    fn try_listen(&self, up: impl FnOnce()) -> Result<std::convert::Infallible, Lost> {
        let mut link = self.connect()?;
        up();
        let mut quiet = 0;
        loop {
            if self.feed.is_over() {
                return Err(Lost::Over);
            }
            if self.feed.standstill().is_asked() {
                self.catch_up(&mut link)?;
                self.feed.standstill().stand();
            }
            match link.next_within(LOOK)? {
                Some(value) => {
                    quiet = 0;
                    if let Some(message) = message(&value) {
                        self.take(message);
                    }
                }
                None => {
                    quiet += 1;
                    // A peer that vanished without a word is only found by asking.
                    if quiet == QUIET_LOOKS {
                        link.send(&[b"PING"])?;
                    } else if quiet >= QUIET_LOOKS + ANSWER_LOOKS {
                        return Err(
                            RedisError::from(io::Error::from(io::ErrorKind::TimedOut)).into()
                        );
                    }
                }
            }
        }
    }

    /// A connection that is subscribed.
    fn connect(&self) -> Result<Link, RedisError> {
        let client = self.source.find(ANSWER, None)?;
        // Longer ones than can be delivered are still told by name, if they are not far longer.
        let bytes_max = ANSWER_BYTES_MAX.max(2 * self.message_bytes_max);
        let mut link = Link::connect(&client, ANSWER, None, bytes_max)?;
        subscribe(&mut link)?;
        Ok(link)
    }

    /// Takes everything that was published before now. Redis tells all connections the same in the
    /// same order: what another connection hears first is behind all of that.
    fn catch_up(&self, link: &mut Link) -> Result<(), RedisError> {
        let mut other = self.connect()?;
        let (mut first, mut taken) = (None, HashSet::new());
        loop {
            if first.is_none() {
                let heard = other.next_within(IDLE)?;
                first = { heard.as_ref().and_then(message) }.map(<[u8]>::to_vec);
            }
            for _ in 0..BETWEEN_LOOKS {
                if first.as_ref().is_some_and(|first| taken.contains(first)) {
                    return Ok(());
                }
                let Some(heard) = link.next_within(IDLE)? else {
                    return Ok(());
                };
                if let Some(message) = message(&heard) {
                    self.take(message);
                    if first.is_none() || first.as_deref() == Some(message) {
                        taken.insert(message.to_vec());
                    }
                }
            }
        }
    }

    fn take(&self, message: &[u8]) {
        match FeedMessage::parse(message, self.message_bytes_max) {
            Ok(event) => {
                self.meter.count(Counter::AppwriteEventsRedis);
                self.feed.publish(event);
            }
            Err(error) => {
                self.meter.count(match error {
                    FeedError::Malformed => Counter::AppwriteEventsMalformed,
                    FeedError::Empty => Counter::AppwriteEventsEmpty,
                    FeedError::TooLong => Counter::AppwriteEventsTooLong,
                });
                let now = Millis(self.started.elapsed().as_millis() as u64);
                if let Some(unsaid) = lock(&self.undelivered).next(now) {
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
fn subscribe(link: &mut Link) -> Result<(), RedisError> {
    match link.ask(&[b"SUBSCRIBE", REDIS_CHANNEL.as_bytes()])? {
        Value::Array(parts) if parts.first().is_some_and(is_subscribe) => Ok(()),
        _ => Err((
            redis::ErrorKind::UnexpectedReturnType,
            "SUBSCRIBE was not confirmed",
        )
            .into()),
    }
}

/// The bytes of a message that was published.
fn message(value: &Value) -> Option<&[u8]> {
    match value {
        Value::Array(parts) => match &parts[..] {
            [Value::BulkString(kind), _, Value::BulkString(message)] if kind == b"message" => {
                Some(message)
            }
            _ => None,
        },
        _ => None,
    }
}

fn is_subscribe(part: &Value) -> bool {
    matches!(part, Value::BulkString(text) if text == b"subscribe")
}

/// Whether it is no fault of the network: somebody must change a configuration.
fn is_refusal(error: &RedisError) -> bool {
    error.kind() == redis::ErrorKind::AuthenticationFailed
        || matches!(error.code(), Some("NOAUTH" | "NOPERM" | "WRONGPASS"))
}

#[cfg(test)]
mod tests {
    use throng_testkit::Flood;

    use super::*;

    #[test]
    fn a_server_that_says_too_much_is_left() {
        let subscribed = "*3\r\n$9\r\nsubscribe\r\n$8\r\nrealtime\r\n:1\r\n";
        for (first, again) in [
            ("$2147483648\r\n", "\0"),
            ("*99999999999\r\n", ":1\r\n"),
            ("+", "+"),
        ] {
            let flood = Flood::start(&format!("{subscribed}{first}"), again);
            let url = format!("redis://{}/0", flood.address());
            let feed = Feed::new(Vec::new(), 1, Meter::default());
            let subscriber = Subscriber::new(&url, 1024, feed, Meter::default());
            let mut was_up = false;
            let lost = subscriber.expect("an address").listen(|| was_up = true);
            assert!(was_up && matches!(lost, Lost::Error(_)), "{first:?}");
            assert!(flood.was_cut_short(), "{first:?}");
        }
    }
}
