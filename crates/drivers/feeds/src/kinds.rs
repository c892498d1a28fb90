//! The kinds of sources that there are.

use throng_metrics::Gauge;

use crate::kafka::{self, KafkaOptions};
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
}

impl SourceOptions {
    /// Its name in the configuration, and in metrics.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Postgres(_) => "postgres",
            Self::Redis(_) => "redis",
            Self::Kafka(_) => "kafka",
        }
    }

    /// The gauge of the events that wait.
    pub(crate) const fn lag(&self) -> Gauge {
        match self {
            Self::Postgres(_) => Gauge::FeedLagPostgres,
            Self::Redis(_) => Gauge::FeedLagRedis,
            Self::Kafka(_) => Gauge::FeedLagKafka,
        }
    }

    /// Connects, for batches of so many events at most.
    pub(crate) fn connect(&self, batch_max: usize) -> Result<Box<dyn Source>, Fault> {
        match self {
            Self::Postgres(options) => postgres::connect(options, batch_max),
            Self::Redis(options) => redis::connect(options, batch_max),
            Self::Kafka(options) => kafka::connect(options, batch_max),
        }
    }
}
