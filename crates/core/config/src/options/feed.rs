//! The options of feeds: publications from where events already are.

use super::SECOND;
use crate::kind::{Choice, Count, Duration, FeedUrl, List, Named, Opt, Rule, Text};
use crate::secret::Secret;
use crate::section::section;

/// What the events of a feed are in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum FeedKind {
    /// A table of PostgreSQL.
    #[default]
    Postgres,
    /// A stream of Redis.
    Redis,
    /// Topics of Kafka.
    Kafka,
}

impl FeedKind {
    /// What the URL begins with.
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
        }
    }
}

impl Named for FeedKind {
    const NAMES: &'static [(&'static str, Self)] = &[
        ("postgres", Self::Postgres),
        ("redis", Self::Redis),
        ("kafka", Self::Kafka),
    ];
}

/// Where a group of consumers that has read nothing begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum FeedBegin {
    /// With the oldest record that there is.
    #[default]
    Oldest,
    /// With what comes from now on.
    Newest,
}

impl Named for FeedBegin {
    const NAMES: &'static [(&'static str, Self)] =
        &[("oldest", Self::Oldest), ("newest", Self::Newest)];
}

section! {
    /// A source of events that become publications. Repeat the section for each source; see
    /// docs/guides/feeds.md.
    "feed" Feed {
        /// Tells feeds apart, in the log and in the idempotency keys of their publications: 1 to 64
        /// ASCII letters, digits, `-`, `_` and `.`. Nodes that read the same source give it the
        /// same name.
        "name" name: String, Text, String::new(), Rule::ANY.restart().example("\"orders\"");
        /// What the events are in: `postgres`, a table from which rows are taken; `redis`, a stream
        /// that a consumer group reads; `kafka`, topics that a consumer group reads.
        "kind" kind: FeedKind, Choice<FeedKind>, FeedKind::Postgres, Rule::ANY.restart();
        /// Where the source is: `postgres://user:password@host:port/database`, with
        /// `?sslmode=disable`, `prefer` (as without), `require` or `verify-full` behind it;
        /// `redis://user:password@host:port/db`, or with another of the beginnings that
        /// `broker.url` has; `kafka://user:password@host:port,host:port`, or `kafkas://` for TLS,
        /// with `?sasl=scram-sha-512` (as without), `scram-sha-256` or, with TLS, `plain` behind
        /// it for who has a password.
        "url" url: Option<Secret>, Opt<FeedUrl>, None,
            Rule::ANY.restart().secret().example("\"postgres://throng:password@127.0.0.1/shop\"")
                .unset("needed");
        /// The table of a PostgreSQL feed, with its schema before a dot if need be. It has the
        /// columns `id`, `channel` and `data`, and may have `tags`. Rows that are published are
        /// deleted.
        "table" table: String, Text, "outbox".to_owned(), Rule::ANY.restart();
        /// The channel on which PostgreSQL notifies of new rows, so that they are read at once.
        "notify" notify: Option<String>, Opt<Text>, None,
            Rule::ANY.restart().example("\"outbox\"").unset("rows are looked for every `poll`");
        /// The key of a Redis feed's stream. Its entries have the fields `data` and `channel`, and
        /// may have `key` and `tags`.
        "stream" stream: Option<String>, Opt<Text>, None,
            Rule::ANY.restart().example("\"events\"").unset("needed with `kind = \"redis\"`");
        /// The topics of a Kafka feed. A record names its channel in a header or by its key; its
        /// value is the data, and a header `tags` may have tags.
        "topics" topics: Vec<String>, List<Text>, Vec::new(),
            Rule::ANY.restart().example("[\"orders\"]").unset("needed with `kind = \"kafka\"`");
        /// The header of Kafka's records that names the channel. A record without it goes to the
        /// channel that its key names.
        "channel_header" channel_header: String, Text, "channel".to_owned(), Rule::ANY.restart();
        /// Where a Kafka feed begins in a partition that its group has never read: `oldest`, with
        /// all that there is; `newest`, with what comes from then on.
        "begin" begin: FeedBegin, Choice<FeedBegin>, FeedBegin::Oldest, Rule::ANY.restart();
        /// The consumer group that reads the stream or the topics. It is made if there is none; in
        /// a stream it begins with the oldest entry.
        "group" group: String, Text, "throng".to_owned(), Rule::ANY.restart();
        /// How often new rows are looked for.
        "poll" poll_ms: u64, Duration, SECOND, Rule::ANY.restart().range(50, 60 * SECOND);
        /// The channel of all events; `{key}` in it stands for an event's key.
        "channel" channel: Option<String>, Opt<Text>, None,
            Rule::ANY.restart().example("\"orders\"").unset("each event names its own");
        /// The most events that are taken at once, and the most that are published again after a
        /// failure.
        "batch" batch: u32, Count, 100, Rule::ANY.restart().range(1, 1000);
    }
}
