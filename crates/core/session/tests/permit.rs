//! Who may do what in a channel: by its options, by a token, by its name.

use std::sync::Arc;

use throng_auth::{Allow, ChannelPattern};
use throng_broker::{BackendId, ChannelOptions, Namespaces, PresenceOptions};
use throng_session::*;
use throng_types::ChannelName;

/// A server with keys, where only the case's options open channels.
fn shared(options: ChannelOptions) -> Shared {
    let named = vec![("chat".into(), options), (RESERVED.into(), options)];
    Shared {
        namespaces: Arc::new(Namespaces::new(options, named)),
        ..throng_solo::shared()
    }
}

fn identity(user: &str, allow: Option<&[&str]>) -> Identity {
    let pattern = |pattern: &&str| ChannelPattern::new(pattern).expect("a pattern");
    Identity {
        user: user.into(),
        allow: allow.map(|patterns| Allow {
            subscribe: patterns.iter().map(pattern).collect(),
            publish: Vec::new(),
        }),
        ..Identity::default()
    }
}

fn name(channel: &str) -> ChannelName {
    ChannelName::new(channel).expect("a channel name")
}

const CLOSED: ChannelOptions = ChannelOptions {
    retention: throng_broker::Retention {
        publications_max: 0,
        ttl_ms: 0,
    },
    acknowledge: throng_broker::Acknowledge::Memory,
    recovery: false,
    overflow: throng_types::Overflow::Close,
    max_delay_ms: 0,
    compression: false,
    delta: false,
    cache: false,
    tags_filter: false,
    anonymous_subscribe: false,
    subscribe: false,
    user_channels: false,
    anonymous_publish: false,
    publish: false,
    history: false,
    presence: PresenceOptions {
        is_listed: true,
        is_announced: false,
        is_pushed: false,
        for_subscriber: false,
        for_client: false,
        for_anonymous: false,
    },
    proxies: throng_broker::ProxySwitches {
        subscribe: None,
        publish: None,
        sub_refresh: None,
        cache_empty: None,
    },
};
const SUBSCRIBE: ChannelOptions = ChannelOptions {
    subscribe: true,
    ..CLOSED
};
const ANYBODY: ChannelOptions = ChannelOptions {
    anonymous_subscribe: true,
    ..CLOSED
};
const USERS: ChannelOptions = ChannelOptions {
    user_channels: true,
    ..CLOSED
};
const USERS_AND_SUBSCRIBE: ChannelOptions = ChannelOptions {
    subscribe: true,
    ..USERS
};

/// Table of subscribers, options and channels, with or without a token for the channel.
#[test]
fn a_channel_is_closed_unless_something_opens_it() {
    let ann = Some(identity("ann", None));
    let nobody = Some(identity("", None));
    let patterns = |patterns: &[&str]| Some(identity("ann", Some(patterns)));
    for (line, (options, who, channel, proven, expected)) in [
        // Nothing opens it: what any token could subscribe before.
        (CLOSED, &ann, "news", false, Verdict::No),
        (CLOSED, &ann, "user#ann", false, Verdict::No),
        (CLOSED, &None, "news", false, Verdict::No),
        // A token for the channel.
        (CLOSED, &ann, "news", true, Verdict::Yes),
        (CLOSED, &ann, "$news", true, Verdict::Yes),
        (CLOSED, &ann, "throng:stats", true, Verdict::No),
        (CLOSED, &ann, "$throng:stats", true, Verdict::No),
        (CLOSED, &ann, "other:1", true, Verdict::UnknownChannel),
        // `$`: whatever else is open.
        (ANYBODY, &ann, "$news", false, Verdict::No),
        (SUBSCRIBE, &ann, "$chat:1", false, Verdict::No),
        (CLOSED, &patterns(&["*"]), "$news", false, Verdict::No),
        // The token's patterns decide before the options.
        (
            CLOSED,
            &patterns(&["chat:*"]),
            "chat:1",
            false,
            Verdict::Yes,
        ),
        (
            SUBSCRIBE,
            &patterns(&["chat:*"]),
            "news",
            false,
            Verdict::No,
        ),
        (
            ANYBODY,
            &patterns(&["throng:*"]),
            "throng:x",
            false,
            Verdict::No,
        ),
        // The options.
        (SUBSCRIBE, &ann, "news", false, Verdict::Yes),
        (SUBSCRIBE, &nobody, "news", false, Verdict::No),
        (SUBSCRIBE, &None, "news", false, Verdict::No),
        (ANYBODY, &None, "news", false, Verdict::Yes),
        (ANYBODY, &ann, "chat:1", false, Verdict::Yes),
        // `#`, with the option and without.
        (SUBSCRIBE, &ann, "chat#bob", false, Verdict::Yes),
        (USERS, &ann, "chat#ann", false, Verdict::Yes),
        (USERS, &ann, "chat:1#bob,ann", false, Verdict::Yes),
        (USERS, &ann, "#ann", false, Verdict::Yes),
        (USERS, &ann, "news", false, Verdict::No),
        (USERS_AND_SUBSCRIBE, &ann, "chat#bob", false, Verdict::No),
        (
            USERS_AND_SUBSCRIBE,
            &ann,
            "chat#ann#bob",
            false,
            Verdict::No,
        ),
        (USERS_AND_SUBSCRIBE, &ann, "chat#ann,", false, Verdict::Yes),
        (USERS_AND_SUBSCRIBE, &nobody, "chat#", false, Verdict::No),
        (USERS_AND_SUBSCRIBE, &None, "chat#,", false, Verdict::No),
        (USERS_AND_SUBSCRIBE, &ann, "news", false, Verdict::Yes),
    ]
    .into_iter()
    .enumerate()
    {
        let found = may_subscribe(who.as_ref(), &name(channel), proven, &shared(options));
        assert_eq!(found, expected, "case {line}: {channel}");
    }
}

/// A backend decides in place of the options, and not where a token or a name does.
#[test]
fn a_backend_is_asked_where_neither_token_nor_name_decides() {
    let to = BackendId(3);
    let proxies = throng_broker::ProxySwitches {
        subscribe: Some(to),
        publish: Some(to),
        ..CLOSED.proxies
    };
    let asked = |options| ChannelOptions { proxies, ..options };
    let ann = Some(identity("ann", None));
    let patterns = Some(identity("ann", Some(&["chat:*"])));
    for (options, who, channel, proven, expected) in [
        (asked(CLOSED), &ann, "news", false, Verdict::Ask(to)),
        (asked(ANYBODY), &None, "news", false, Verdict::Ask(to)),
        (asked(CLOSED), &ann, "news", true, Verdict::Yes),
        (asked(CLOSED), &ann, "$news", false, Verdict::No),
        (asked(CLOSED), &ann, "throng:stats", false, Verdict::No),
        (asked(CLOSED), &patterns, "chat:1", false, Verdict::Yes),
        (asked(CLOSED), &patterns, "news", false, Verdict::No),
        (asked(USERS), &ann, "chat#ann", false, Verdict::Yes),
        (asked(USERS), &ann, "chat#bob", false, Verdict::No),
        (
            asked(CLOSED),
            &ann,
            "other:1",
            false,
            Verdict::UnknownChannel,
        ),
    ] {
        let found = may_subscribe(who.as_ref(), &name(channel), proven, &shared(options));
        assert_eq!(found, expected, "{channel}");
    }
    for (channel, expected) in [("news", Verdict::Ask(to)), ("throng:stats", Verdict::No)] {
        let found = may_publish(ann.as_ref(), &name(channel), &shared(asked(CLOSED)));
        assert_eq!(found, expected, "{channel}");
    }
}

#[test]
fn history_is_for_subscribers_unless_an_option_opens_it() {
    let kept = |options| ChannelOptions {
        retention: throng_broker::Retention {
            publications_max: 1,
            ttl_ms: 1,
        },
        ..options
    };
    let history = |options| ChannelOptions {
        history: true,
        ..kept(options)
    };
    let ann = Some(identity("ann", None));
    for (options, who, channel, expected) in [
        (kept(SUBSCRIBE), &ann, "news", Sight::IfSubscribed),
        (SUBSCRIBE, &ann, "news", Sight::NotAvailable),
        (history(CLOSED), &ann, "news", Sight::Yes),
        (history(CLOSED), &None, "news", Sight::IfSubscribed),
        (history(ANYBODY), &None, "news", Sight::Yes),
        (history(CLOSED), &ann, "$news", Sight::IfSubscribed),
        (history(USERS), &ann, "chat#bob", Sight::IfSubscribed),
        (history(USERS), &ann, "chat#ann", Sight::Yes),
        (history(CLOSED), &ann, "throng:stats", Sight::IfSubscribed),
        (history(CLOSED), &ann, "other:1", Sight::UnknownChannel),
    ] {
        let found = may_read_history(who.as_ref(), &name(channel), &shared(options));
        assert_eq!(found, expected, "{channel}");
    }
}

#[test]
fn publishing_needs_an_option_of_its_own() {
    let publish = ChannelOptions {
        publish: true,
        ..CLOSED
    };
    let anonymous = ChannelOptions {
        anonymous_publish: true,
        ..CLOSED
    };
    let ann = Some(identity("ann", None));
    for (options, who, expected) in [
        (SUBSCRIBE, &ann, Verdict::No),
        (publish, &ann, Verdict::Yes),
        (publish, &None, Verdict::No),
        (anonymous, &ann, Verdict::No),
        (anonymous, &None, Verdict::Yes),
    ] {
        let found = may_publish(who.as_ref(), &name("news"), &shared(options));
        assert_eq!(found, expected);
    }
}

/// Table of clients that may see presence, by options.
#[test]
fn presence_is_seen_by_whom_the_options_let() {
    let (ann, nobody) = (Some(identity("ann", None)), None);
    let seen = |is_listed, for_subscriber, for_client, for_anonymous| PresenceOptions {
        is_listed,
        for_subscriber,
        for_client,
        for_anonymous,
        ..PresenceOptions::default()
    };
    for (options, who, expected) in [
        (seen(false, true, true, true), &ann, Sight::NotAvailable),
        (seen(true, false, false, false), &ann, Sight::No),
        (seen(true, false, false, true), &ann, Sight::No),
        (seen(true, true, false, false), &ann, Sight::IfSubscribed),
        (seen(true, true, false, false), &nobody, Sight::IfSubscribed),
        (seen(true, false, true, false), &ann, Sight::Yes),
        (seen(true, true, true, false), &ann, Sight::Yes),
        (seen(true, false, true, false), &nobody, Sight::No),
        (seen(true, true, true, false), &nobody, Sight::IfSubscribed),
        (seen(true, false, true, true), &nobody, Sight::Yes),
    ] {
        let options = ChannelOptions {
            presence: options,
            ..CLOSED
        };
        let shared = Shared {
            namespaces: Arc::new(Namespaces::new(options, Vec::new())),
            ..throng_solo::shared()
        };
        let sight = may_see_presence(who.as_ref(), &name("news"), &shared);
        assert_eq!(sight, expected, "{options:?} {who:?}");
        let unknown = may_see_presence(who.as_ref(), &name("no:where"), &shared);
        assert_eq!(unknown, Sight::UnknownChannel);
    }
}
