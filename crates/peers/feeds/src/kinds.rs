//! The kinds of sources that there are.

use throng_metrics::Gauge;

use crate::kafka::KafkaOptions;
use crate::nats::NatsOptions;
use crate::postgres::PostgresOptions;
use crate::redis::RedisOptions;

/// Source of a feed's events.
#[derive(Clone, Debug)]
pub enum SourceOptions {
    /// A table of PostgreSQL.
    Postgres(PostgresOptions),
    /// A stream of Redis.
    Redis(RedisOptions),
    /// Topics of a Kafka.
    Kafka(KafkaOptions),
    /// Subjects of a NATS.
    Nats(NatsOptions),
    /// A source of this crate's tests.
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
}
