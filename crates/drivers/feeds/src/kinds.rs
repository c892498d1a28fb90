//! The kinds of sources that there are.

use throng_metrics::Gauge;

use crate::kafka::{self, KafkaOptions};
use crate::nats::{self, NatsOptions};
use crate::postgres::{self, PostgresOptions};
use crate::redis::{self, RedisOptions};
use crate::source::{Fault, Source};

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
        }
    }

    /// The gauge of the events that wait.
    pub(crate) const fn lag(&self) -> Gauge {
        match self {
            Self::Postgres(_) => Gauge::FeedLagPostgres,
            Self::Redis(_) => Gauge::FeedLagRedis,
            Self::Kafka(_) => Gauge::FeedLagKafka,
            Self::Nats(_) => Gauge::FeedLagNats,
        }
    }

    /// Whether its keys are subjects: words between dots, which `{1}`, `{2}` and so on stand for.
    pub(crate) const fn has_subjects(&self) -> bool {
        matches!(self, Self::Nats(_))
    }

    /// Connects, for batches of so many events at most.
    pub(crate) fn connect(&self, batch_max: usize) -> Result<Box<dyn Source>, Fault> {
        match self {
            Self::Postgres(options) => postgres::connect(options, batch_max),
            Self::Redis(options) => redis::connect(options, batch_max),
            Self::Kafka(options) => kafka::connect(options, batch_max),
            Self::Nats(options) => nats::connect(options, batch_max),
        }
    }
}
