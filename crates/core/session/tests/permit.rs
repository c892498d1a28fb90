//! Who may do what in a channel: by its options, by a token, by its name.

use std::sync::Arc;

use throng_auth::{Allow, ChannelPattern};
use throng_broker::{
    BackendId, ChannelOptions, NamespaceOptions, PresenceOptions, ProxySwitches, Retention,
};
use throng_session::*;
use throng_solo::name;

/// A server with keys, where only the case's options open channels.
fn shared(options: ChannelOptions) -> Shared {
    let named = vec![("chat".into(), options), (RESERVED.into(), options)];
    Shared {
        namespaces: Arc::new(NamespaceOptions::new(options, named)),
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

/// Options of a channel that lists its members: each word opens something, `kept` keeps history.
fn options(words: &str) -> ChannelOptions {
    let has = |word: &str| words.split(' ').any(|known| known == word);
    let kept = u32::from(has("kept"));
    ChannelOptions {
        anonymous_subscribe: has("anybody"),
        subscribe: has("subscribe"),
        user_channels: has("users"),
        anonymous_publish: has("anonymous_publish"),
        publish: has("publish"),
        history: has("history"),
        retention: Retention {
            publications_max: kept,
            ttl_ms: kept.into(),
        },
        presence: PresenceOptions {
            is_listed: true,
            ..PresenceOptions::default()
        },
        ..ChannelOptions::default()
    }
}

/// Table of subscribers, options and channels, with or without a token for the channel.
#[test]
fn a_channel_is_closed_unless_something_opens_it() {
    let ann = Some(identity("ann", None));
    let nobody = Some(identity("", None));
    let [all, chat, server] =
        ["*", "chat:*", "throng:*"].map(|pattern| Some(identity("ann", Some(&[pattern]))));
    for (line, (words, who, channel, proven, expected)) in [
        // Nothing opens it: what any token could subscribe before.
        ("", &ann, "news", false, Verdict::No),
        ("", &ann, "user#ann", false, Verdict::No),
        ("", &None, "news", false, Verdict::No),
        // A token for the channel.
        ("", &ann, "news", true, Verdict::Yes),
        ("", &ann, "$news", true, Verdict::Yes),
        ("", &ann, "throng:stats", true, Verdict::No),
        ("", &ann, "$throng:stats", true, Verdict::No),
        ("", &ann, "other:1", true, Verdict::UnknownChannel),
        // `$`: whatever else is open.
        ("anybody", &ann, "$news", false, Verdict::No),
        ("subscribe", &ann, "$chat:1", false, Verdict::No),
        ("", &all, "$news", false, Verdict::No),
        // The token's patterns decide before the options.
        ("", &chat, "chat:1", false, Verdict::Yes),
        ("subscribe", &chat, "news", false, Verdict::No),
        ("anybody", &server, "throng:x", false, Verdict::No),
        // The options.
        ("subscribe", &ann, "news", false, Verdict::Yes),
        ("subscribe", &nobody, "news", false, Verdict::No),
        ("subscribe", &None, "news", false, Verdict::No),
        ("anybody", &None, "news", false, Verdict::Yes),
        ("anybody", &ann, "chat:1", false, Verdict::Yes),
        // `#`, with the option and without.
        ("subscribe", &ann, "chat#bob", false, Verdict::Yes),
        ("users", &ann, "chat#ann", false, Verdict::Yes),
        ("users", &ann, "chat:1#bob,ann", false, Verdict::Yes),
        ("users", &ann, "#ann", false, Verdict::Yes),
        ("users", &ann, "news", false, Verdict::No),
        ("users subscribe", &ann, "chat#bob", false, Verdict::No),
        ("users subscribe", &ann, "chat#ann#bob", false, Verdict::No),
        ("users subscribe", &ann, "chat#ann,", false, Verdict::Yes),
        ("users subscribe", &nobody, "chat#", false, Verdict::No),
        ("users subscribe", &None, "chat#,", false, Verdict::No),
        ("users subscribe", &ann, "news", false, Verdict::Yes),
    ]
    .into_iter()
    .enumerate()
    {
        let found = may_subscribe(
            who.as_ref(),
            &name(channel),
            proven,
            &shared(options(words)),
        );
        assert_eq!(found, expected, "case {line}: {channel}");
    }
}

/// A backend decides in place of the options, and not where a token or a name does.
#[test]
fn a_backend_is_asked_where_neither_token_nor_name_decides() {
    let to = BackendId(3);
    let proxies = ProxySwitches {
        subscribe: Some(to),
        publish: Some(to),
        ..ProxySwitches::default()
    };
    let asked = |words| ChannelOptions {
        proxies,
        ..options(words)
    };
    let ann = Some(identity("ann", None));
    let patterns = Some(identity("ann", Some(&["chat:*"])));
    for (options, who, channel, proven, expected) in [
        (asked(""), &ann, "news", false, Verdict::Ask(to)),
        (asked("anybody"), &None, "news", false, Verdict::Ask(to)),
        (asked(""), &ann, "news", true, Verdict::Yes),
        (asked(""), &ann, "$news", false, Verdict::No),
        (asked(""), &ann, "throng:stats", false, Verdict::No),
        (asked(""), &patterns, "chat:1", false, Verdict::Yes),
        (asked(""), &patterns, "news", false, Verdict::No),
        (asked("users"), &ann, "chat#ann", false, Verdict::Yes),
        (asked("users"), &ann, "chat#bob", false, Verdict::No),
        (asked(""), &ann, "other:1", false, Verdict::UnknownChannel),
    ] {
        let found = may_subscribe(who.as_ref(), &name(channel), proven, &shared(options));
        assert_eq!(found, expected, "{channel}");
    }
    for (channel, expected) in [("news", Verdict::Ask(to)), ("throng:stats", Verdict::No)] {
        let found = may_publish(ann.as_ref(), &name(channel), &shared(asked("")));
        assert_eq!(found, expected, "{channel}");
    }
}

#[test]
fn history_is_for_subscribers_unless_an_option_opens_it() {
    let ann = Some(identity("ann", None));
    for (words, who, channel, expected) in [
        ("kept subscribe", &ann, "news", Sight::IfSubscribed),
        ("subscribe", &ann, "news", Sight::NotAvailable),
        ("kept history", &ann, "news", Sight::Yes),
        ("kept history", &None, "news", Sight::IfSubscribed),
        ("kept history anybody", &None, "news", Sight::Yes),
        ("kept history", &ann, "$news", Sight::IfSubscribed),
        ("kept history users", &ann, "chat#bob", Sight::IfSubscribed),
        ("kept history users", &ann, "chat#ann", Sight::Yes),
        ("kept history", &ann, "throng:stats", Sight::IfSubscribed),
        ("kept history", &ann, "other:1", Sight::UnknownChannel),
    ] {
        let found = may_read_history(who.as_ref(), &name(channel), &shared(options(words)));
        assert_eq!(found, expected, "{channel}");
    }
}

#[test]
fn publishing_needs_an_option_of_its_own() {
    let ann = Some(identity("ann", None));
    for (words, who, expected) in [
        ("subscribe", &ann, Verdict::No),
        ("publish", &ann, Verdict::Yes),
        ("publish", &None, Verdict::No),
        ("anonymous_publish", &ann, Verdict::No),
        ("anonymous_publish", &None, Verdict::Yes),
    ] {
        let found = may_publish(who.as_ref(), &name("news"), &shared(options(words)));
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
            ..ChannelOptions::default()
        };
        let shared = Shared {
            namespaces: Arc::new(NamespaceOptions::new(options, Vec::new())),
            ..throng_solo::shared()
        };
        let sight = may_see_presence(who.as_ref(), &name("news"), &shared);
        assert_eq!(sight, expected, "{options:?} {who:?}");
        let unknown = may_see_presence(who.as_ref(), &name("no:where"), &shared);
        assert_eq!(unknown, Sight::UnknownChannel);
    }
}
