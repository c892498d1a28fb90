//! The options of channels.

use super::{Acknowledge, DEFAULT_BACKEND, HOUR, OPEN, SECOND};
use crate::kind::{Bool, Choice, Count, Duration, List, Named, Opt, Permission, Rule, Text};
use crate::section::section;

/// Rule for a subscriber that does not keep up, when its queue is full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum SlowConsumer {
    /// The connection is closed and may come back and recover.
    #[default]
    Close,
    /// Its oldest waiting deliveries are dropped and counted.
    DropOldest,
    /// Only the newest delivery of each channel waits.
    LatestOnly,
}

impl Named for SlowConsumer {
    const NAMES: &'static [(&'static str, Self)] = &[
        ("close", Self::Close),
        ("drop-oldest", Self::DropOldest),
        ("latest-only", Self::LatestOnly),
    ];
}

/// Publications that a client gets when it comes back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum RecoveryMode {
    /// All that it missed.
    #[default]
    Stream,
    /// Only the newest publication.
    Cache,
}

impl Named for RecoveryMode {
    const NAMES: &'static [(&'static str, Self)] =
        &[("stream", Self::Stream), ("cache", Self::Cache)];
}

/// Format of publications that are sent as differences.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DeltaType {
    /// As the difference from the one before, in Fossil's format.
    Fossil,
}

impl Named for DeltaType {
    const NAMES: &'static [(&'static str, Self)] = &[("fossil", Self::Fossil)];
}

section! {
    /// The options of channels without a namespace. A namespace has options with the same names and
    /// the same defaults. It inherits nothing from here.
    "channel" ChannelOptions {
        /// Number of publications that the channel keeps. 0 keeps no history.
        "history_size" history_size: u32, Count, 0, Rule::ANY.range(0, 1_000_000);
        /// Time that publications are kept. "0s" keeps no history.
        "history_ttl" history_ttl_ms: u64, Duration, 0, Rule::ANY.range(0, 366 * 24 * HOUR);
        /// The stage at which a publication is acknowledged, if not that of `history.acknowledge`.
        "history_acknowledge" history_acknowledge: Option<Acknowledge>, Opt<Choice<Acknowledge>>,
            None, Rule::ANY.example("\"written\"").unset("`history.acknowledge`");
        /// Whether clients that come back get what they missed. It needs `history_size` and
        /// `history_ttl`.
        "recovery" recovery: bool, Bool, false, Rule::ANY;
        /// Publications that clients get when they come back: with `stream` everything that they
        /// missed, or a note that something is missing; with `cache` the newest publication, also
        /// when they subscribe for the first time and ask for recovery.
        "force_recovery_mode" force_recovery_mode: RecoveryMode, Choice<RecoveryMode>,
            RecoveryMode::Stream, Rule::ANY;
        /// Rule for a subscriber whose queue is full: `close` ends the connection, `drop-oldest`
        /// drops its oldest deliveries, `latest-only` keeps only the newest delivery of the
        /// channel. With `max_delay`, `latest-only` conflates: each subscriber gets only the newest
        /// publication of each window of `max_delay`.
        "slow_consumer" slow_consumer: SlowConsumer, Choice<SlowConsumer>, SlowConsumer::Close,
            Rule::ANY;
        /// Maximum time that a publication waits for others, so that one system call for each
        /// subscriber sends all of them, or, with `slow_consumer = "latest-only"`, only the newest.
        /// "0s" sends each at once; under load they are sent together anyway.
        "max_delay" max_delay_ms: u64, Duration, 0, Rule::ANY.range(0, SECOND);
        /// Whether deliveries are compressed: to WebSockets (`/ws` and Centrifugo's SDKs) of
        /// clients that offer permessage-deflate, and to `/sse` and `/stream` with one channel for
        /// clients that accept gzip (browsers do both). A publication is compressed once for all of
        /// them. Publications of less than 96 bytes, and those that would not become smaller, are
        /// sent as they are.
        "compression" compression: bool, Bool, false, Rule::ANY;
        /// Formats in which publications may be shortened for Centrifugo's clients that ask for it.
        /// `fossil` sends the difference from the publication before. It needs `slow_consumer =
        /// "close"`.
        "allowed_delta_types" allowed_delta_types: Vec<DeltaType>, List<Choice<DeltaType>>,
            Vec::new(), Rule::ANY;
        /// Whether Centrifugo's clients may subscribe with a filter on tags. Such a subscriber
        /// costs more, because Throng checks each publication for it alone. It gets no join and
        /// leave messages. Not with `max_delay` and `slow_consumer = "latest-only"` together.
        "allow_tags_filter" allow_tags_filter: bool, Bool, false, Rule::ANY;
        /// Whether clients with a token may subscribe. If neither this nor another option opens the
        /// channel, only a token does: a connection token that names it, or a subscription token. A
        /// channel whose name begins with `$` always needs a subscription token.
        "subscribe" subscribe: bool, Permission, false, Rule::ANY.example("false").unset(OPEN);
        /// Whether clients without a token may subscribe. Clients with a token then may too.
        "anonymous_subscribe" anonymous_subscribe: bool, Permission, false,
            Rule::ANY.example("false").unset(OPEN);
        /// Whether clients without a token may publish.
        "anonymous_publish" anonymous_publish: bool, Permission, false,
            Rule::ANY.example("false").unset(OPEN);
        /// Whether a channel with `#` in its name is only for the users named after the last `#`,
        /// separated by commas (`chat#ann,bob`). Otherwise `#` means nothing.
        "user_channels" user_channels: bool, Bool, false, Rule::ANY;
        /// Whether clients with a token may publish.
        "publish" publish: bool, Permission, false, Rule::ANY.example("false").unset(OPEN);
        /// Whether `proxy.subscribe` decides who may subscribe, unless the channel's name or a
        /// token decides it.
        "subscribe_proxy_enabled" subscribe_proxy_enabled: bool, Bool, false, Rule::ANY;
        /// Whether `proxy.publish` decides who may publish, and what.
        "publish_proxy_enabled" publish_proxy_enabled: bool, Bool, false, Rule::ANY;
        /// Whether `proxy.sub_refresh` is asked when a subscription that `proxy.subscribe` allowed
        /// expires.
        "sub_refresh_proxy_enabled" sub_refresh_proxy_enabled: bool, Bool, false, Rule::ANY;
        /// Whether `proxy.cache_empty` is told when a client asks for the newest publication and
        /// there is none. It needs `force_recovery_mode = "cache"`.
        "cache_empty_proxy_enabled" cache_empty_proxy_enabled: bool, Bool, false, Rule::ANY;
        /// Name of the `[[proxy.backend]]` to ask in place of `proxy.subscribe`.
        "subscribe_proxy_name" subscribe_proxy_name: String, Text, DEFAULT_BACKEND.to_owned(),
            Rule::ANY;
        /// Name of the backend to ask in place of `proxy.publish`.
        "publish_proxy_name" publish_proxy_name: String, Text, DEFAULT_BACKEND.to_owned(),
            Rule::ANY;
        /// Name of the backend to ask in place of `proxy.sub_refresh`.
        "sub_refresh_proxy_name" sub_refresh_proxy_name: String, Text, DEFAULT_BACKEND.to_owned(),
            Rule::ANY;
        /// Name of the backend to notify in place of `proxy.cache_empty`.
        "cache_empty_proxy_name" cache_empty_proxy_name: String, Text, DEFAULT_BACKEND.to_owned(),
            Rule::ANY;
        /// Whether clients may read the history of channels that they are not subscribed to. It
        /// applies to clients with a token, and to those without one if `anonymous_subscribe` is
        /// true. Subscribers always may.
        "history" history: bool, Permission, false, Rule::ANY.example("false").unset(OPEN);
        /// Whether Throng keeps a list of the channel's subscribers, for the commands and calls
        /// `presence` and `presence_stats`. A member costs some 300 bytes plus the length of its
        /// `info`.
        "presence" presence: bool, Bool, false, Rule::ANY;
        /// Whether subscribers may ask for join and leave messages. They need the right to see who
        /// is subscribed. When very many clients come and go, some messages are left out; the list
        /// of members stays right.
        "join_leave" join_leave: bool, Bool, false, Rule::ANY;
        /// Whether all subscribers get these messages without asking. It needs `join_leave`.
        "force_push_join_leave" force_push_join_leave: bool, Bool, false, Rule::ANY;
        /// Whether subscribers may see who is subscribed.
        "allow_presence_for_subscriber" allow_presence_for_subscriber: bool, Permission, false,
            Rule::ANY.example("false").unset(OPEN);
        /// Whether clients with a token may see who is subscribed without subscribing themselves.
        "allow_presence_for_client" allow_presence_for_client: bool, Permission, false,
            Rule::ANY.example("false").unset(OPEN);
        /// Whether clients without a token may do so too. It needs `allow_presence_for_client`.
        "allow_presence_for_anonymous" allow_presence_for_anonymous: bool, Permission, false,
            Rule::ANY.example("false").unset(OPEN);
    }
}
