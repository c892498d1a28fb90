//! One feed: takes, has published, says that it is done.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering::SeqCst};

use throng_broker::Refusal;
use throng_metrics::{Counter, Counters, Gauge};
use throng_peer::task::{Either, first};
use throng_types::{Millis, Rng};

use crate::event::{Event, Mapping};
use crate::inlet::{Inlet, Over};
use crate::kafka::{self, KafkaFeedOptions};
use crate::nats::{self, NatsFeedOptions};
use crate::postgres::{self, PostgresFeedOptions};
use crate::publisher::{NotTaken, Publisher};
use crate::redis::{self, RedisFeedOptions};
use crate::source::{Fault, Setup, Source};

/// The first pause after a failure, and the longest, in milliseconds.
const PAUSES_MS: (u64, u64) = (250, 10_000);
/// Between two questions how many events wait, in milliseconds.
const LAG_EVERY_MS: u64 = 5_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum State {
    Starting = 0,
    Up,
    NoSource,
    /// The broker does not take what it read.
    NoBroker,
}

#[derive(Debug, Default)]
pub struct FeedStatus {
    state: AtomicU8,
}

impl FeedStatus {
    /// Line for `/healthz` that says what keeps it from going on, if anything does.
    #[must_use]
    pub fn lacks(&self) -> Option<&'static str> {
        let state = self.state.load(SeqCst);
        if state == State::NoSource as u8 {
            Some("degraded: a feed cannot read its source")
        } else if state == State::NoBroker as u8 {
            Some("degraded: the broker takes nothing from a feed")
        } else {
            None
        }
    }

    /// Takes another state; gives whether it is another one.
    pub(crate) fn set(&self, state: State) -> bool {
        self.state.swap(state as u8, SeqCst) != state as u8
    }

    pub(crate) fn is(&self, state: State) -> bool {
        self.state.load(SeqCst) == state as u8
    }
}

#[derive(Clone)]
pub struct FeedOptions {
    /// Name, which no other feed of the cluster's broker has; part of idempotency keys.
    pub name: String,
    pub source: SourceOptions,
    /// Channel of its publications; see the configuration's `channel`.
    pub channel: Option<String>,
    pub data_bytes_max: usize,
    /// The most events that are under way at once. Queue: `feed batch`.
    pub batch_max: usize,
    /// Publications are kept on disk: they are acknowledged to the source once the disk has them.
    pub is_on_disk: bool,
    /// Publications are part of the traces of their events: there is a collector.
    pub is_traced: bool,
}

/// Source of a feed's events. Nothing of it is shown: it may hold a password.
#[derive(Clone)]
pub enum SourceOptions {
    Postgres(PostgresFeedOptions),
    Redis(RedisFeedOptions),
    Kafka(KafkaFeedOptions),
    Nats(NatsFeedOptions),
    #[cfg(test)]
    Played(crate::tests::Script),
}

impl SourceOptions {
    /// Returns the source's name in the configuration, and in metrics.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Postgres(_) => "postgres",
            Self::Redis(_) => "redis",
            Self::Kafka(_) => "kafka",
            Self::Nats(_) => "nats",
            #[cfg(test)]
            Self::Played(_) => "played",
        }
    }

    pub(crate) const fn lag(&self) -> Gauge {
        match self {
            Self::Postgres(_) => Gauge::FeedLagPostgres,
            Self::Redis(_) => Gauge::FeedLagRedis,
            Self::Kafka(_) => Gauge::FeedLagKafka,
            Self::Nats(_) => Gauge::FeedLagNats,
            #[cfg(test)]
            Self::Played(_) => Gauge::FeedLagPostgres,
        }
    }

    /// Whether its keys are subjects: words between dots, which `{1}`, `{2}` and so on stand for.
    pub(crate) const fn has_subjects(&self) -> bool {
        matches!(self, Self::Nats(_))
    }
}

#[derive(Clone)]
pub struct Feed {
    pub options: FeedOptions,
    /// Counters of this feed alone: a set has one writer.
    pub counters: Arc<Counters>,
    /// State that other threads read.
    pub status: Arc<FeedStatus>,
}

impl Feed {
    /// A feed that does nothing yet.
    #[must_use]
    pub fn new(options: FeedOptions) -> Self {
        Self {
            status: Arc::default(),
            counters: Arc::new(Counters::new()),
            options,
        }
    }
}

pub(crate) struct Runner {
    options: FeedOptions,
    mapping: Mapping,
    counters: Arc<Counters>,
    publisher: Publisher,
    status: Arc<FeedStatus>,
    setup: Setup,
    lag_at: Millis,
    pause_ms: u64,
}

enum Left {
    /// The server ends, or hands over.
    Over,
    Fault(Fault),
}

impl From<Fault> for Left {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

impl From<Over> for Left {
    fn from(_: Over) -> Self {
        Self::Over
    }
}

impl Runner {
    pub(crate) fn new(feed: Feed, inlet: Inlet, setup: Setup) -> Self {
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
                is_traced: options.is_traced,
            },
            lag_at: inlet.now(),
            publisher: Publisher::new(inlet, options.is_on_disk),
            options,
            counters,
            status,
            setup,
            pause_ms: PAUSES_MS.0,
        }
    }

    pub(crate) async fn run(mut self) {
        while self.publisher.inlet.may_begin().await {
            if let Left::Fault(fault) = self.read().await {
                self.lost(&fault);
                let until = self.next_try();
                // Pausing is handled above.
                let _ = self.publisher.inlet.rest(until).await;
            }
        }
    }

    async fn read(&mut self) -> Left {
        let mut setup = self.setup.clone();
        setup.rng = Rng::new(self.setup.rng.next_u64());
        match &self.options.source.clone() {
            SourceOptions::Postgres(it) => self.read_from(postgres::connect(it, setup)).await,
            SourceOptions::Redis(it) => self.read_from(redis::connect(it, setup)).await,
            SourceOptions::Kafka(it) => self.read_from(kafka::connect(it, setup)).await,
            SourceOptions::Nats(it) => self.read_from(nats::connect(it, setup)).await,
            #[cfg(test)]
            SourceOptions::Played(it) => self.read_from(it.connect(setup)).await,
        }
    }

    /// Connects, and reads until that ends.
    async fn read_from<S: Source>(
        &mut self,
        connecting: impl Future<Output = Result<S, Fault>>,
    ) -> Left {
        let mut source = match first(connecting, self.publisher.inlet.over()).await {
            Either::Left(Ok(source)) => source,
            Either::Left(Err(fault)) => return fault.into(),
            Either::Right(()) => return Left::Over,
        };
        let Err(left) = self.try_read(&mut source).await;
        source.leave().await;
        left
    }

    async fn try_read(&mut self, source: &mut impl Source) -> Result<Infallible, Left> {
        loop {
            self.publisher.inlet.go_on()?;
            let events = source.take().await?;
            if source.reads() {
                self.found();
            }
            if !events.is_empty() {
                self.publish(events, source).await?;
            }
            let now = self.publisher.inlet.now();
            if self.lag_at <= now {
                self.lag_at = now + LAG_EVERY_MS;
                if let Some(lag) = source.lag().await? {
                    self.counters.set(self.options.source.lag(), lag);
                }
            }
        }
    }

    /// Has a batch published, and acknowledges it to the source.
    async fn publish(&mut self, events: Vec<Event>, source: &mut impl Source) -> Result<(), Left> {
        let mut drafts = Vec::with_capacity(events.len());
        for event in events {
            let place = event.place.clone();
            match self.mapping.draft(event) {
                Ok(draft) => drafts.push(draft),
                Err(why) => self.refused(&place, &why.to_string()),
            }
        }
        let feed = self.options.name.as_str();
        match self.publisher.publish(&drafts, source).await {
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
                    tracing::info!(feed, "the broker takes what the feed reads again");
                }
                self.works();
                Ok(source.done().await?)
            }
            Err(NotTaken::Over) => {
                source.put_back().await?;
                Err(Left::Over)
            }
            Err(NotTaken::Refused(why)) => {
                source.put_back().await?;
                if self.status.set(State::NoBroker) {
                    self.counters.set(Gauge::FeedsWaiting, 1);
                    self.counters.count(Counter::FeedWaitsBroker);
                    tracing::warn!(
                        feed,
                        ?why,
                        "the broker takes nothing from the feed: its events wait in their source"
                    );
                }
                let until = self.next_try();
                Ok(self.publisher.pause(until, source).await?)
            }
        }
    }

    /// Counts an event that can never be published.
    fn refused(&self, place: &str, why: &str) {
        self.counters.count(Counter::FeedRefused);
        let feed = self.options.name.as_str();
        tracing::warn!(feed, place, why, "an event of the feed is left out");
    }

    fn works(&mut self) {
        self.status.set(State::Up);
        self.counters.set(Gauge::FeedsWaiting, 0);
        self.pause_ms = PAUSES_MS.0;
    }

    fn found(&mut self) {
        let was_lost = self.status.is(State::NoSource);
        if !was_lost && !self.status.is(State::Starting) {
            return;
        }
        self.works();
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

    /// The time of the next try: later each time.
    fn next_try(&mut self) -> Millis {
        let until = self.publisher.inlet.now() + self.pause_ms;
        self.pause_ms = (self.pause_ms * 2).min(PAUSES_MS.1);
        until
    }
}
