//! One feed's thread: takes, has published, says that it is done.

use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use throng_broker::Refusal;
use throng_metrics::{Counter, Counters, Gauge};

use crate::event::{Event, Mapping};
use crate::inlet::Inlet;
use crate::kinds::SourceOptions;
use crate::publisher::{NotTaken, Publisher};
use crate::source::{Fault, LOOK, Source};
use crate::status::{State, Status};

/// The first pause after a failure, and the longest.
const PAUSES: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(10));
/// How long the end of the server waits for sources that are given back.
const GIVING_BACK: Duration = Duration::from_secs(1);
/// Between two questions how many events wait.
const LAG_EVERY: Duration = Duration::from_secs(5);

/// What a feed is made of.
#[derive(Clone, Debug)]
pub struct FeedOptions {
    /// Its name, which no other feed of the cluster's broker has; part of idempotency keys.
    pub name: String,
    /// Where its events are.
    pub source: SourceOptions,
    /// How they become publications.
    pub channel: Option<String>,
    /// The longest data, in bytes.
    pub data_bytes_max: usize,
    /// The most events that are under way at once. Queue: `feed batch`.
    pub batch_max: usize,
    /// Publications are kept on disk: a source is told that they are done when the disk has them.
    pub is_on_disk: bool,
}

/// One feed, before it starts.
#[derive(Clone)]
pub struct Feed {
    /// What it is made of.
    pub options: FeedOptions,
    /// Its own counters: a set has one writer.
    pub counters: Arc<Counters>,
    /// Its state, for others.
    pub status: Arc<Status>,
}

impl Feed {
    /// A feed that does nothing yet.
    #[must_use]
    pub fn new(options: FeedOptions) -> Self {
        Self {
            status: Arc::new(Status::new(&options.name, options.source.kind())),
            counters: Arc::new(Counters::new()),
            options,
        }
    }
}

/// All feeds of a server. Dropping it leaves them running.
#[derive(Default)]
pub struct Feeds {
    status: Vec<Arc<Status>>,
    threads: Vec<JoinHandle<()>>,
}

impl Feeds {
    /// Starts a thread for each feed; they wait until [`Feeds::go_on`].
    ///
    /// # Errors
    /// If the kernel gives no thread.
    pub fn start(feeds: Vec<Feed>, inlet: &Arc<dyn Inlet>) -> std::io::Result<Self> {
        let mut all = Self::default();
        for feed in feeds {
            feed.status.pause(true);
            all.status.push(feed.status.clone());
            let inlet = inlet.clone();
            let builder = thread::Builder::new().name(format!("feed-{}", feed.options.name));
            all.threads
                .push(builder.spawn(move || Runner::new(feed, inlet).run())?);
        }
        Ok(all)
    }

    /// Lets them read.
    pub fn go_on(&self) {
        for status in &self.status {
            status.pause(false);
        }
    }

    /// Has them give their sources back, and waits until they have, at most about ten seconds.
    pub fn pause(&self) {
        for status in &self.status {
            status.pause(true);
        }
        self.wait_until_idle(crate::source::ANSWER);
    }

    /// The server ends: so do they, within about a second.
    pub fn end(&self) {
        for status in &self.status {
            status.end();
        }
    }

    /// Waits for the end, at most about a second: who goes on elsewhere would wait longer for what
    /// is not given back.
    pub fn wait(&self) {
        self.wait_until_idle(GIVING_BACK);
    }

    fn wait_until_idle(&self, most: Duration) {
        let until = Instant::now() + most;
        while self.status.iter().any(|it| !it.is_idle()) && Instant::now() < until {
            thread::sleep(Duration::from_millis(5));
        }
    }
}

/// What runs on the thread.
struct Runner {
    options: FeedOptions,
    mapping: Mapping,
    counters: Arc<Counters>,
    publisher: Publisher,
    status: Arc<Status>,
    lag_at: Instant,
    pause: Duration,
}

/// Why a connection to the source is left.
enum Left {
    /// The server ends, or hands over.
    Over,
    /// The source does not work.
    Fault(Fault),
}

impl From<Fault> for Left {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

impl Runner {
    fn new(feed: Feed, inlet: Arc<dyn Inlet>) -> Self {
        let Feed {
            options,
            counters,
            status,
        } = feed;
        Self {
            mapping: Mapping {
                channel: options.channel.clone(),
                has_subjects: options.source.has_subjects(),
                data_bytes_max: options.data_bytes_max,
            },
            publisher: Publisher {
                inlet,
                status: status.clone(),
                is_on_disk: options.is_on_disk,
            },
            options,
            counters,
            status,
            lag_at: Instant::now(),
            pause: PAUSES.0,
        }
    }

    fn run(&mut self) {
        while !self.status.is_over() {
            self.status.set_idle(false);
            if self.status.is_paused() {
                self.status.set_idle(true);
                thread::sleep(LOOK);
                continue;
            }
            let connected = self.options.source.connect(self.options.batch_max);
            let left = match connected {
                Ok(mut source) => self.read(&mut *source),
                Err(fault) => Left::Fault(fault),
            };
            self.status.set_idle(true);
            if let Left::Fault(fault) = left {
                self.lost(&fault);
                self.wait(&mut || {});
            }
        }
    }

    fn read(&mut self, source: &mut dyn Source) -> Left {
        match self.try_read(source) {
            Ok(never) => match never {},
            Err(left) => left,
        }
    }

    fn try_read(&mut self, source: &mut dyn Source) -> Result<std::convert::Infallible, Left> {
        loop {
            if self.status.is_over() || self.status.is_paused() {
                return Err(Left::Over);
            }
            let events = source.take()?;
            if source.reads() {
                self.found();
            }
            if !events.is_empty() {
                self.publish(events, source)?;
            }
            if self.lag_at <= Instant::now() {
                self.lag_at = Instant::now() + LAG_EVERY;
                if let Some(lag) = source.lag()? {
                    self.counters.set(self.options.source.lag(), lag);
                }
            }
        }
    }

    /// Has a batch published, and tells the source.
    fn publish(&mut self, events: Vec<Event>, source: &mut dyn Source) -> Result<(), Left> {
        let mut drafts = Vec::with_capacity(events.len());
        for event in events {
            let place = event.place.clone();
            match self.mapping.draft(event) {
                Ok(draft) => drafts.push(draft),
                Err(why) => self.refused(&place, &why.to_string()),
            }
        }
        match self.publisher.publish(&drafts, &mut || source.keep()) {
            Ok(results) => {
                for (draft, result) in drafts.iter().zip(results) {
                    let place = draft.idempotency_key.as_deref().unwrap_or_default();
                    match result {
                        Ok(()) => self.counters.count(Counter::PublicationsFeed),
                        Err(Refusal::UnknownChannel) => {
                            self.refused(place, "its channel's namespace is not configured");
                        }
                        Err(why) => self.refused(place, &format!("the broker refuses it: {why:?}")),
                    }
                }
                if self.status.is(State::NoBroker) {
                    let feed = self.options.name.as_str();
                    tracing::info!(feed, "the broker takes what the feed reads again");
                }
                self.status.set(State::Up);
                self.counters.set(Gauge::FeedsWaiting, 0);
                self.pause = PAUSES.0;
                Ok(source.done()?)
            }
            Err(NotTaken::Over) => {
                source.put_back()?;
                Err(Left::Over)
            }
            Err(NotTaken::Refused(why)) => {
                source.put_back()?;
                if self.status.set(State::NoBroker) {
                    let feed = self.options.name.as_str();
                    self.counters.set(Gauge::FeedsWaiting, 1);
                    self.counters.count(Counter::FeedWaitsBroker);
                    tracing::warn!(
                        feed,
                        ?why,
                        "the broker takes nothing from the feed: its events wait in their source"
                    );
                }
                self.wait(&mut || source.keep());
                Ok(())
            }
        }
    }

    /// An event that can never be published.
    fn refused(&self, place: &str, why: &str) {
        self.counters.count(Counter::FeedRefused);
        let feed = self.options.name.as_str();
        tracing::warn!(feed, place, why, "an event of the feed is left out");
    }

    /// The source works.
    fn found(&mut self) {
        let was_lost = self.status.is(State::NoSource);
        if !was_lost && !self.status.is(State::Starting) {
            return;
        }
        self.status.set(State::Up);
        self.counters.set(Gauge::FeedsWaiting, 0);
        self.pause = PAUSES.0;
        let feed = self.options.name.as_str();
        let kind = self.options.source.kind();
        if was_lost {
            tracing::info!(feed, kind, "the feed reads its source again");
        } else {
            tracing::info!(feed, kind, "the feed reads its source");
        }
    }

    fn lost(&self, fault: &Fault) {
        if !self.status.set(State::NoSource) {
            return;
        }
        self.counters.set(Gauge::FeedsWaiting, 1);
        self.counters.count(Counter::FeedWaitsSource);
        let feed = self.options.name.as_str();
        let kind = self.options.source.kind();
        tracing::warn!(feed, kind, %fault, "the feed cannot read its source, and tries again");
    }

    /// Waits, longer each time, in short pieces so that the end of the server is noticed.
    fn wait(&mut self, keep: &mut dyn FnMut()) {
        let until = Instant::now() + self.pause;
        self.pause = (self.pause * 2).min(PAUSES.1);
        while !self.status.is_over() && !self.status.is_paused() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            thread::sleep(left.min(LOOK));
            keep();
        }
    }
}
