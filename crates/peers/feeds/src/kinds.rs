//! The kinds of sources that there are.

use throng_metrics::Gauge;

use crate::event::Event;
use crate::kafka::{self, KafkaOptions};
use crate::nats::{self, NatsOptions};
use crate::postgres::{self, PostgresOptions};
use crate::redis::{self, RedisOptions};
use crate::source::{Fault, Setup, Source};

/// Where a feed's events are.
#[derive(Clone, Debug)]
pub enum SourceOptions {
    /// A table of PostgreSQL.
    Postgres(PostgresOptions),
    /// A stream of Redis.
    Redis(RedisOptions),
    /// Topics of Kafka.
    Kafka(KafkaOptions),
    /// Subjects of NATS.
    Nats(NatsOptions),
    /// A source of this crate's tests.
    #[cfg(test)]
    Played(crate::tests::Script),
}

impl SourceOptions {
    /// Its name in the configuration, and in metrics.
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

    /// The gauge of the events that wait.
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

    /// Connects.
    pub(crate) async fn connect(&self, setup: Setup) -> Result<AnySource, Fault> {
        Ok(match self {
            Self::Postgres(options) => {
                AnySource::Postgres(postgres::connect(options, setup).await?)
            }
            Self::Redis(options) => AnySource::Redis(redis::connect(options, setup).await?),
            Self::Kafka(options) => AnySource::Kafka(kafka::connect(options, setup).await?),
            Self::Nats(options) => AnySource::Nats(nats::connect(options, setup).await?),
            #[cfg(test)]
            Self::Played(script) => AnySource::Played(script.connect(setup).await?),
        })
    }
}

/// A source of any kind.
pub(crate) enum AnySource {
    Postgres(postgres::Outbox),
    Redis(redis::Stream),
    Kafka(kafka::Topics),
    Nats(nats::Subjects),
    #[cfg(test)]
    Played(crate::tests::Played),
}

/// Does the same with a source, whatever its kind.
macro_rules! with {
    ($any:expr, $source:ident => $act:expr) => {
        match $any {
            AnySource::Postgres($source) => $act,
            AnySource::Redis($source) => $act,
            AnySource::Kafka($source) => $act,
            AnySource::Nats($source) => $act,
            #[cfg(test)]
            AnySource::Played($source) => $act,
        }
    };
}

impl Source for AnySource {
    async fn take(&mut self) -> Result<Vec<Event>, Fault> {
        with!(self, source => source.take().await)
    }

    async fn done(&mut self) -> Result<(), Fault> {
        with!(self, source => source.done().await)
    }

    async fn put_back(&mut self) -> Result<(), Fault> {
        with!(self, source => source.put_back().await)
    }

    fn reads(&self) -> bool {
        with!(self, source => source.reads())
    }

    async fn keep(&mut self) {
        with!(self, source => source.keep().await);
    }

    async fn lag(&mut self) -> Result<Option<u64>, Fault> {
        with!(self, source => source.lag().await)
    }

    async fn leave(self) {
        with!(self, source => source.leave().await);
    }
}
