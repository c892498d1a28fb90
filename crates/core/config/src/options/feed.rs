//! The options of feeds: publications from existing sources of events.

use super::SECOND;
use crate::kind::{Choice, Count, Duration, FeedUrl, List, Opt, Text, choice};
use crate::secret::Secret;
use crate::section::section;

choice! {
    /// Kind of a feed's source.
    FeedKind {
        /// A table of PostgreSQL.
        #[default]
        Postgres = "postgres",
        /// A stream of Redis.
        Redis = "redis",
        /// Topics of a Kafka cluster.
        Kafka = "kafka",
        /// Subjects of NATS JetStream.
        Nats = "nats",
    }
}

impl FeedKind {
    /// Schemes that the URL may have.
    #[must_use]
    pub const fn schemes(self) -> &'static [&'static str] {
        match self {
            Self::Postgres => &["postgres://", "postgresql://"],
            Self::Redis => &[
                "redis://",
                "rediss://",
                "unix://",
                "redis+sentinel://",
                "rediss+sentinel://",
            ],
            Self::Kafka => &["kafka://", "kafkas://"],
            Self::Nats => &["nats://", "tls://"],
        }
    }
}

choice! {
    /// Start of a consumer group that has read nothing.
    FeedBegin {
        /// Starts with the oldest record there is.
        #[default]
        Oldest = "oldest",
        /// Starts with records from now on.
        Newest = "newest",
    }
}

section! {
    /// A source of events that become publications. Repeat the section for each source; see
    /// docs/guides/feeds.md.
    "feed" Feed {
        /// The feed's name in the log and in the idempotency keys of its publications: 1 to 64
        /// ASCII letters, digits, `-`, `_` and `.`. Nodes that read the same source need the same
        /// name.
        name: String, Text, restart, example("\"orders\"");
        /// The kind of source: `postgres` takes rows from a table, `redis` reads a stream with a
        /// consumer group, `kafka` reads topics with a consumer group, `nats` reads subjects of a
        /// JetStream stream with a durable consumer.
        kind: FeedKind, Choice<FeedKind>, restart;
        /// The URL of the source. PostgreSQL: `postgres://user:password@host:port/database`, and
        /// `?sslmode=` with `disable`, `prefer` (the default), `require` or `verify-full`. Redis:
        /// `redis://user:password@host:port/db`, or `rediss://`, `redis+sentinel://` or
        /// `rediss+sentinel://` as in `broker.url`. Kafka:
        /// `kafka://user:password@host:port,host:port`, or `kafkas://` for TLS; for a password,
        /// `?sasl=` with `scram-sha-512` (the default), `scram-sha-256` or, with TLS, `plain`.
        /// NATS: `nats://user:password@host:port` or `nats://token@host:port`, several separated by
        /// commas, or `tls://` to insist on TLS.
        url: Option<Secret>, Opt<FeedUrl>, restart, secret,
            example("\"postgres://throng:password@127.0.0.1/shop\""), unset("needed");
        /// The table of a PostgreSQL feed, as `table` or `schema.table`. It has the columns `id`,
        /// `channel` and `data`, and may have `tags`. Throng deletes the rows that it has
        /// published.
        table: String, Text = "outbox".to_owned(), restart;
        /// The channel on which PostgreSQL notifies of new rows (`NOTIFY`), so that Throng reads
        /// them at once.
        notify: Option<String>, Opt<Text>, restart, example("\"outbox\""),
            unset("Throng looks for rows every `poll`");
        /// The key of a Redis feed's stream. Its entries have the fields `data` and `channel`, and
        /// may have `key` and `tags`. Or the name of a NATS feed's stream, which must exist.
        stream: Option<String>, Opt<Text>, restart, example("\"events\""),
            unset("needed with `kind = \"redis\"` and `\"nats\"`");
        /// The subjects that a NATS feed reads of its stream, with the wildcards `*` and `>`.
        subject: Option<String>, Opt<Text>, restart, example("\"orders.>\""),
            unset("all subjects of the stream");
        /// The identity of a NATS feed: a credentials file as `nsc` writes it, or a file with the
        /// seed of a user. Throng reads it for each connection.
        credentials: Option<String>, Opt<Text>, restart, example("\"/etc/throng/feed.creds\""),
            unset("the login in `url`");
        /// The topics of a Kafka feed. A record names its channel in a header or by its key. Its
        /// value is the data, and a header `tags` may hold tags.
        topics: Vec<String>, List<Text>, restart, example("[\"orders\"]"),
            unset("needed with `kind = \"kafka\"`");
        /// The header of Kafka's records and of NATS's messages that names the channel. Without it,
        /// the key of the record or the subject of the message names the channel.
        channel_header: String, Text = "channel".to_owned(), restart;
        /// The start of a Kafka feed in a partition that its group has never read, and of a NATS
        /// feed when its consumer is created: `oldest` takes everything that is there, `newest`
        /// only what comes from then on.
        begin: FeedBegin, Choice<FeedBegin>, restart;
        /// The consumer group that reads the stream of Redis or the topics of Kafka, or the durable
        /// consumer of a NATS feed. Throng creates it if there is none; in a stream of Redis it
        /// begins with the oldest entry.
        group: String, Text = "throng".to_owned(), restart;
        /// Interval at which Throng looks for new rows.
        poll_ms as "poll": u64, Duration = SECOND, restart, range(50, 60 * SECOND);
        /// The channel of all events; `{key}` in it stands for an event's key. The key of a NATS
        /// feed's event is its subject, and `{1}`, `{2}` and so on stand for the words between its
        /// dots.
        channel: Option<String>, Opt<Text>, restart, example("\"orders\""),
            unset("each event names its own");
        /// The most events that are taken at once. After a failure at most this many are published
        /// again.
        batch: u32, Count = 100, restart, range(1, 1000);
    }
}
