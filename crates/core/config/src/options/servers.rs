//! The options of servers that Throng asks or reads: the broker, with the history on disk in place
//! of one, backends that are asked on behalf of clients, sources of events, and webhooks.

use super::{HOUR, SECOND};
use crate::kind::{
    AskUrl, Bool, BrokerUrl, Choice, Count, Duration, FeedUrl, HttpUrl, List, Opt, ProxyStatus,
    SecretText, StatusText, Text, choice,
};
use crate::secret::Secret;
use crate::section::section;

choice! {
    /// Server or process that keeps the channels.
    BrokerKind {
        /// In this process: one node, nothing to install.
        #[default]
        Memory = "memory",
        /// In Redis: several nodes.
        Redis = "redis",
        /// In NATS JetStream: several nodes.
        Nats = "nats",
    }
}

section! {
    /// The broker keeps channels: their history, positions and members. With Redis or NATS several
    /// nodes serve the same channels; see docs/CLUSTER.md.
    "broker" Broker {
        /// `memory` for one node, `redis` or `nats` for several. All nodes of a cluster need the
        /// same channel options.
        kind: BrokerKind, Choice<BrokerKind>, restart;
        /// The Redis server, version 6.2 or later: `redis://user:password@host:port/db`, or
        /// `rediss://` for TLS. `redis+sentinel://user:password@sentinel:port,sentinel:port/master`
        /// is the server that the Sentinels name (`rediss+sentinel://` if all of them speak TLS).
        /// `redis+cluster://user:password@host:port,host:port` is a Redis Cluster, version 7 or
        /// later (`rediss+cluster://` for TLS). With several of these, each holds a part of the
        /// channels; list them in the same order on all nodes. Or the NATS servers, version 2.9 or
        /// later with JetStream: `nats://user:password@host:port` or `nats://token@host:port`,
        /// several separated by commas; `tls://` requires TLS.
        url: Option<Secret>, Opt<BrokerUrl>, restart, secret,
            example("\"redis://127.0.0.1:6379/0\""), unset("needed for `redis` and `nats`");
        /// The PEM file with the certificate authorities that Throng trusts when it speaks TLS to
        /// the broker. It is read for each connection.
        authorities: Option<String>, Opt<Text>, restart, example("\"/etc/throng/broker-ca.pem\""),
            unset("the certificate authorities of the system");
        /// The login to NATS: a credentials file as `nsc` writes it, or a file with the seed of a
        /// user. It is read for each connection.
        credentials: Option<String>, Opt<Text>, restart, example("\"/etc/throng/nats.creds\"");
        /// The number of servers of a NATS cluster that keep each message. With three, the loss of
        /// one server loses no message.
        replicas: u32, Count = 1, restart, range(1, 5);
        /// The first part of every name in Redis or NATS. Nodes with the same prefix form one
        /// cluster.
        prefix: String, Text = "throng".to_owned(), restart;
        /// Time limit for the broker's answer. After that Throng gives up the connection: it
        /// refuses publications and keeps subscribers. A client that subscribes meanwhile waits at
        /// most this long.
        timeout_ms as "timeout": u64, Duration = 5 * SECOND, restart, range(200, 60 * SECOND);
        /// Time that Redis or NATS remembers the position of a channel without subscribers, from
        /// its last publication on. A client that comes back later is told that it may have missed
        /// something. The broker in memory remembers it for an hour.
        position_ttl_ms as "position_ttl": u64, Duration = 24 * HOUR, restart,
            range(HOUR, 24 * 365 * HOUR);
    }
}

choice! {
    /// Rule for publications while they cannot be written.
    OnDiskFailure {
        /// Delivers them and keeps them in memory.
        #[default]
        Continue = "continue",
        /// Refuses them until they can be written.
        Refuse = "refuse",
    }
}

choice! {
    /// Storage that a publication must have reached before it is acknowledged.
    Acknowledge {
        /// Kept in memory only; a crash may lose it.
        #[default]
        Memory = "memory",
        /// Written: survives the process.
        Written = "written",
        /// Synced: survives a loss of power.
        Synced = "synced",
    }
}

section! {
    /// History on disk: channels keep their publications, positions and epochs over a crash and a
    /// restart. The channels' options limit it by number and time, as they do in memory. Only for
    /// `broker.kind = "memory"`; with another one, only the journal of webhooks is on disk. See
    /// docs/guides/history.md.
    "history" History {
        /// The folder for this server's history. No other server may use it. Throng creates it if
        /// it is missing.
        path: Option<String>, Opt<Text>, file, restart, example("\"/var/lib/throng/history\""),
            unset("history ends with the process");
        /// Maximum time until a publication is safe on the disk, in case the machine loses power.
        /// If only the process dies, at most some milliseconds are lost, with any value. "0s" syncs
        /// after each write.
        sync_ms as "sync": u64, Duration = 1000, restart, range(1, HOUR), zero("each write");
        /// The stage at which a publication in a channel that keeps history is acknowledged:
        /// `memory` at once, `written` when it survives the death of the process, `synced` when it
        /// survives that of the machine. Subscribers get it at once in any case. A channel may set
        /// another stage.
        acknowledge: Acknowledge, Choice<Acknowledge>;
        /// Rule while the disk is full or fails: `continue` delivers publications, keeps them in
        /// memory, and acknowledges them at every stage of `acknowledge`; `refuse` refuses
        /// publications to channels that keep history.
        on_failure: OnDiskFailure, Choice<OnDiskFailure>, restart;
    }
}

section! {
    /// Backends that Throng asks on behalf of clients, with a `POST` of JSON, or by GRPC at
    /// `grpc://HOST:PORT` (`grpcs://` with TLS). Each address is for one kind of question. Without
    /// an address, questions of that kind are not asked. `[[proxy.backend]]` names more backends.
    "proxy" Proxy {
        /// Asked who a client without a token is, when it connects.
        connect: Option<String>, Opt<AskUrl>, example("\"http://127.0.0.1:3000/connect\"");
        /// Asked whether a connection that `connect` let in may go on when it expires; only for
        /// Centrifugo's transports.
        refresh: Option<String>, Opt<AskUrl>, example("\"http://127.0.0.1:3000/refresh\"");
        /// Asked whether a client may subscribe, in channels with `subscribe_proxy_enabled`.
        subscribe: Option<String>, Opt<AskUrl>, example("\"http://127.0.0.1:3000/subscribe\"");
        /// Asked whether a client may publish and what, in channels with `publish_proxy_enabled`.
        publish: Option<String>, Opt<AskUrl>, example("\"http://127.0.0.1:3000/publish\"");
        /// Asked whether an SDK's subscription that `subscribe` allowed may go on when it expires,
        /// in channels with `sub_refresh_proxy_enabled`.
        sub_refresh: Option<String>, Opt<AskUrl>, example("\"http://127.0.0.1:3000/sub_refresh\"");
        /// Carries out what clients call with `rpc`.
        rpc: Option<String>, Opt<AskUrl>, example("\"http://127.0.0.1:3000/rpc\"");
        /// Told when a client subscribes to a channel with `cache_empty_proxy_enabled` and would
        /// get its newest publication, but there is none. The backend may then publish one.
        cache_empty: Option<String>, Opt<AskUrl>, example("\"http://127.0.0.1:3000/cache_empty\"");
        /// The namespaces of methods that `rpc` carries out, if several backends carry out methods:
        /// `chat` stands for methods such as `chat:send`. Methods without a colon go to `rpc` too.
        /// As soon as any backend lists a namespace, methods of namespaces that no backend lists
        /// are unknown (error 104).
        rpc_namespaces: Vec<String>, List<Text>;
        /// Time limit for a backend's answer.
        timeout_ms as "timeout": u64, Duration = SECOND, range(10, 60 * SECOND);
        /// Header fields of the client's own request that are sent with each question, such as
        /// "Cookie" (over GRPC as metadata). Fields that each question has anyway are refused:
        /// Host, Content-Type, and Authorization if `authorization` is set.
        http_headers: Vec<String>, List<Text>;
        /// Header fields that are sent with each question too, taken from `headers` in the client's
        /// `connect`. They are for browsers, which cannot set header fields on a WebSocket. Only
        /// the client says what they hold, so they prove nothing. If the request itself has a field
        /// that `http_headers` names, that field is used instead.
        emulated_headers: Vec<String>, List<Text>;
        /// The field `Authorization` of each question.
        authorization: Option<Secret>, Opt<SecretText>, secret, example("\"Bearer a-long-text\""),
            unset("none is sent");
        /// Whether data is sent in base64, as `b64data`, rather than as JSON.
        binary_encoding: bool, Bool = false;
        /// Whether questions include the `meta` from the answer to `connect`.
        include_connection_meta: bool, Bool = false;
        /// Meanings of statuses other than 200: "404 error 1404 not found", "503 temporary 1503 try
        /// again", "403 disconnect 4403 forbidden". A status without a meaning is a failure, and so
        /// is every status of GRPC but 0.
        status_codes: Vec<ProxyStatus>, List<StatusText>;
        /// The most questions under way at once, of all clients together. Further ones fail.
        requests_max: u32, Count = 1000, restart, range(1, 100_000);
    }
    lists {
        /// Backends with names, each a `[[proxy.backend]]` section.
        "backend" backends: ProxyBackend;
    }
}

section! {
    /// A backend with a name, for the channels and methods that name it. Repeat the section for
    /// each. It takes only `requests_max` from `[proxy]`.
    "proxy.backend" ProxyBackend {
        /// Its name, for channel options such as `subscribe_proxy_name`. The backend of `[proxy]`
        /// is called `default`.
        name: String, Text, example("\"chat\"");
        /// Its address, for every kind of question.
        endpoint: Option<String>, Opt<AskUrl>, example("\"http://127.0.0.1:3001/ask\""),
            unset("needed");
        /// The methods of `rpc` that it carries out: those whose names begin with one of these and
        /// a colon.
        rpc_namespaces: Vec<String>, List<Text>;
        /// Time limit for an answer, as in `[proxy]`.
        timeout_ms as "timeout": u64, Duration = SECOND, range(10, 60 * SECOND);
        /// Header fields of the client's request, as in `[proxy]`.
        http_headers: Vec<String>, List<Text>;
        /// Header fields from the client's `connect`, as in `[proxy]`.
        emulated_headers: Vec<String>, List<Text>;
        /// The field `Authorization`, as in `[proxy]`.
        authorization: Option<Secret>, Opt<SecretText>, secret, example("\"Bearer a-long-text\""),
            unset("none is sent");
        /// Whether data is sent in base64, as in `[proxy]`.
        binary_encoding: bool, Bool = false;
        /// Whether requests include the connection's `meta`, as in `[proxy]`.
        include_connection_meta: bool, Bool = false;
        /// Meanings of statuses other than 200, as in `[proxy]`.
        status_codes: Vec<ProxyStatus>, List<StatusText>;
    }
}

/// Name of the backend of `[proxy]` in the options of channels.
pub const DEFAULT_BACKEND: &str = "default";

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

choice! {
    /// Event that webhooks tell. In the order of the server's own list.
    WebhookEvent {
        /// A channel has its first subscriber.
        #[default]
        Occupied = "channel_occupied",
        /// A channel has no subscribers any more.
        Vacated = "channel_vacated",
        /// The first connection of a user is in a channel's list of members.
        MemberAdded = "member_added",
        /// The last connection of a user has left a channel's list of members.
        MemberRemoved = "member_removed",
        /// A client of Pusher's has sent an event to the others.
        Client = "client_event",
        /// A subscriber of a Pusher cache channel found no event there.
        CacheMiss = "cache_miss",
        /// The number of a Pusher channel's subscribers has changed, in an app that counts them.
        SubscriptionCount = "subscription_count",
        /// A client has connected.
        Connected = "connected",
        /// A connection has ended.
        Disconnected = "disconnected",
        /// A node has begun, or is reached again.
        NodeUp = "node_up",
        /// A node has ended, and all its connections with it.
        NodeDown = "node_down",
    }
}

section! {
    /// A webhook: Throng tells an HTTP server what happens in channels. Repeat the section for
    /// each; see docs/WEBHOOKS.md.
    "webhook" WebhookOptions {
        /// The address that gets the events as `POST` requests. Answers with a status from 200 to
        /// 299 are success; everything else is tried again.
        url: Option<String>, Opt<HttpUrl>, example("\"https://example.com/hooks\""),
            unset("needed");
        /// The id of the `[[app]]` whose channels it reports. Its requests have Pusher's signature,
        /// by the app's key and secret.
        app: Option<String>, Opt<Text>, example("\"1\""),
            unset("all channels but those of apps");
        /// The secret that signs the requests as Standard Webhooks: `whsec_` and at least 24 bytes
        /// in Base64. With an app they have both signatures.
        secret: Option<Secret>, Opt<SecretText>, secret,
            example("\"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\""), unset("needed without `app`");
        /// The namespaces whose channels it reports, if it has no app. An empty list is no limit.
        namespaces: Vec<String>, List<Text>, example("[\"chat\"]"),
            unset("all, and channels without a namespace");
        /// Beginnings of the names of channels that it reports. An empty list is no limit.
        channel_prefixes: Vec<String>, List<Text>, example("[\"presence-\"]"),
            unset("all channels");
        /// The events that it gets. An empty list means all events of channels. Events of
        /// connections and nodes do not depend on `namespaces` and `channel_prefixes`, only on
        /// `app`.
        events: Vec<WebhookEvent>, List<Choice<WebhookEvent>>,
            example("[\"channel_occupied\", \"channel_vacated\"]"), unset("all of channels");
        /// Time for which a channel must be empty, or a user away, before that is reported, so that
        /// a page that is loaded again causes no events.
        settle_ms as "settle": u64, Duration = 3 * SECOND, range(0, HOUR);
        /// Time limit for an answer.
        timeout_ms as "timeout": u64, Duration = 10 * SECOND, range(100, 60 * SECOND);
    }
}
