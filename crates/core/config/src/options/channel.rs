//! The options of channels.

use super::{Acknowledge, DEFAULT_BACKEND, HOUR, SECOND};
use crate::kind::{Bool, Choice, Count, Duration, List, Opt, Text, choice};
use crate::section::section;

choice! {
    /// Rule for a subscriber that does not keep up, when its queue is full.
    SlowConsumer {
        /// The connection is closed and may come back and recover.
        #[default]
        Close = "close",
        /// Its oldest waiting deliveries are dropped and counted.
        DropOldest = "drop-oldest",
        /// Only the newest delivery of each channel waits.
        LatestOnly = "latest-only",
    }
}

choice! {
    /// Publications that a client gets when it comes back.
    RecoveryMode {
        /// All that it missed.
        #[default]
        Stream = "stream",
        /// Only the newest publication.
        Cache = "cache",
    }
}

choice! {
    /// Format of publications that are sent as differences.
    DeltaType {
        /// As the difference from the one before, in Fossil's format.
        #[default]
        Fossil = "fossil",
    }
}

section! {
    /// The options of channels without a namespace. A namespace has options with the same names and
    /// the same defaults. It inherits nothing from here.
    "channel" ChannelOptions {
        /// Number of publications that the channel keeps. 0 keeps no history.
        history_size: u32, Count = 0, range(0, 1_000_000);
        /// Time that publications are kept. "0s" keeps no history.
        history_ttl_ms as "history_ttl": u64, Duration = 0, range(0, 366 * 24 * HOUR);
        /// The stage at which a publication is acknowledged, if not that of `history.acknowledge`.
        history_acknowledge: Option<Acknowledge>, Opt<Choice<Acknowledge>>, example("\"written\""),
            unset("`history.acknowledge`");
        /// Whether clients that come back get what they missed. It needs `history_size` and
        /// `history_ttl`.
        recovery: bool, Bool = false;
        /// Publications that clients get when they come back: with `stream` everything that they
        /// missed, or a note that something is missing; with `cache` the newest publication, also
        /// when they subscribe for the first time and ask for recovery.
        force_recovery_mode: RecoveryMode, Choice<RecoveryMode>;
        /// Rule for a subscriber whose queue is full: `close` ends the connection, `drop-oldest`
        /// drops its oldest deliveries, `latest-only` keeps only the newest delivery of the
        /// channel. With `max_delay`, `latest-only` conflates: each subscriber gets only the newest
        /// publication of each window of `max_delay`.
        slow_consumer: SlowConsumer, Choice<SlowConsumer>;
        /// Maximum time that a publication waits for others, so that one system call for each
        /// subscriber sends all of them, or, with `slow_consumer = "latest-only"`, only the newest.
        /// "0s" sends each at once; under load they are sent together anyway.
        max_delay_ms as "max_delay": u64, Duration = 0, range(0, SECOND);
        /// Whether deliveries are compressed: to WebSockets (`/ws` and Centrifugo's SDKs) of
        /// clients that offer permessage-deflate, and to `/sse` and `/stream` with one channel for
        /// clients that accept gzip (browsers do both). A publication is compressed once for all of
        /// them. Publications of less than 96 bytes, and those that would not become smaller, are
        /// sent as they are.
        compression: bool, Bool = false;
        /// Formats in which publications may be shortened for Centrifugo's clients that ask for it.
        /// `fossil` sends the difference from the publication before. It needs `slow_consumer =
        /// "close"`.
        allowed_delta_types: Vec<DeltaType>, List<Choice<DeltaType>>;
        /// Whether Centrifugo's clients may subscribe with a filter on tags. Such a subscriber
        /// costs more, because Throng checks each publication for it alone. It gets no join and
        /// leave messages. Not with `max_delay` and `slow_consumer = "latest-only"` together.
        allow_tags_filter: bool, Bool = false;
        /// Whether clients with a user may subscribe. If neither this nor another option opens the
        /// channel, only a token does: a connection token that names it, or a subscription token. A
        /// channel whose name begins with `$` always needs such a token.
        subscribe: bool, Bool = false, permission;
        /// Whether clients without a user may subscribe. Clients with a user then may too.
        anonymous_subscribe: bool, Bool = false, permission;
        /// Whether clients without a user may publish.
        anonymous_publish: bool, Bool = false, permission;
        /// Whether a channel with `#` in its name is only for the users named after the last `#`,
        /// separated by commas (`chat#ann,bob`). Otherwise `#` means nothing.
        user_channels: bool, Bool = false;
        /// Whether clients with a user may publish.
        publish: bool, Bool = false, permission;
        /// Whether `proxy.subscribe` decides who may subscribe, unless the channel's name or a
        /// token decides it.
        subscribe_proxy_enabled: bool, Bool = false;
        /// Whether `proxy.publish` decides who may publish, and what.
        publish_proxy_enabled: bool, Bool = false;
        /// Whether `proxy.sub_refresh` is asked when a subscription that `proxy.subscribe` allowed
        /// expires.
        sub_refresh_proxy_enabled: bool, Bool = false;
        /// Whether `proxy.cache_empty` is told when a client asks for the newest publication and
        /// there is none. It needs `force_recovery_mode = "cache"`.
        cache_empty_proxy_enabled: bool, Bool = false;
        /// Name of the `[[proxy.backend]]` to ask in place of `proxy.subscribe`.
        subscribe_proxy_name: String, Text = DEFAULT_BACKEND.to_owned();
        /// Name of the backend to ask in place of `proxy.publish`.
        publish_proxy_name: String, Text = DEFAULT_BACKEND.to_owned();
        /// Name of the backend to ask in place of `proxy.sub_refresh`.
        sub_refresh_proxy_name: String, Text = DEFAULT_BACKEND.to_owned();
        /// Name of the backend to notify in place of `proxy.cache_empty`.
        cache_empty_proxy_name: String, Text = DEFAULT_BACKEND.to_owned();
        /// Whether clients may read the history of channels that they are not subscribed to. It
        /// applies to clients with a user, and to those without one if `anonymous_subscribe` is
        /// true. Subscribers always may.
        history: bool, Bool = false, permission;
        /// Whether Throng keeps a list of the channel's subscribers, for the commands and calls
        /// `presence` and `presence_stats`. A member costs some 300 bytes plus the length of its
        /// `info`.
        presence: bool, Bool = false;
        /// Whether subscribers may ask for join and leave messages. They need the right to see who
        /// is subscribed. When very many clients come and go, some messages are left out; the list
        /// of members stays right.
        join_leave: bool, Bool = false;
        /// Whether all subscribers get these messages without asking. It needs `join_leave`.
        force_push_join_leave: bool, Bool = false;
        /// Whether subscribers may see who is subscribed.
        allow_presence_for_subscriber: bool, Bool = false, permission;
        /// Whether clients with a user may see who is subscribed without subscribing themselves.
        allow_presence_for_client: bool, Bool = false, permission;
        /// Whether clients without a user may do so too. It needs `allow_presence_for_client`.
        allow_presence_for_anonymous: bool, Bool = false, permission;
    }
}
