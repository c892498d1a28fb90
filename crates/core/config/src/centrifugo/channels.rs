//! Namespaces and the rights in them.
//!
//! Every right is written, also where it is `false`, since our own defaults depend on other
//! options. Where a backend decides in Centrifugo, or a name means something that it does not
//! mean here, the right is not taken over.

use super::given::{Effect, Notes, Options, Output};
use super::proxies::{Backends, put_asked};
use super::server::duration;
use crate::check::{NAMESPACE_BYTES_MAX, is_name};

/// Options that change the meaning of a channel's name: path, default, and what is lost if changed.
const NAMES: [(&str, &str, &str); 3] = [
    (
        "channel.private_prefix",
        "$",
        "here `$` marks channels that need a token",
    ),
    (
        "channel.namespace_boundary",
        ":",
        "here `:` ends a namespace",
    ),
    ("channel.user_boundary", "#", "here `#` stands before users"),
];

pub(super) fn translate(
    given: &mut Options,
    asked: &Backends,
    out: &mut Output,
    notes: &mut Notes,
) {
    let mut is_closed = false;
    for (path, default, here) in NAMES {
        let other = given
            .take(path)
            .filter(|leaf| leaf.value.as_str() != Some(default));
        if let Some(leaf) = other {
            is_closed = true;
            let text = format!(
                "{here}; clients without a token cannot subscribe until names and rights have been \
                 reviewed"
            );
            notes.add(Effect::Narrower, &leaf.option, text);
        }
    }
    match given.text("channel.user_separator") {
        Some((option, text)) if text != "," => {
            notes.add(
                Effect::Narrower,
                &option,
                "users are separated by commas here",
            );
        }
        _ => {}
    }
    let all = All {
        is_closed,
        is_insecure: given.is_insecure,
        is_compressed: given.is_on("websocket.compression").is_some(),
        asked,
    };
    let mut own = given.without_namespace();
    options("[channel]", "", &mut own, &all, out, notes);
    let mut namespaces = std::mem::take(&mut given.namespaces);
    for (name, options_of) in &mut namespaces {
        if !is_name(name, NAMESPACE_BYTES_MAX) {
            let text = "a name has 1 to 64 letters, digits, `-`, `_` and `.`, and no patterns: its \
                        channels are unknown here";
            notes.add(Effect::Narrower, &format!("namespace {name:?}"), text);
            continue;
        }
        out.begin("[[namespace]]");
        out.put_last("name", name.as_str());
        options("", name, options_of, &all, out, notes);
    }
    // The rest of each namespace is reported with the other remaining options.
    namespaces.push((String::new(), own));
    given.namespaces = namespaces;
}

struct All<'a> {
    /// Whether some names mean something else here.
    is_closed: bool,
    /// Whether all clients have all rights.
    is_insecure: bool,
    is_compressed: bool,
    asked: &'a Backends,
}

fn options(
    head: &str,
    name: &str,
    given: &mut Options,
    all: &All<'_>,
    out: &mut Output,
    notes: &mut Notes,
) {
    let backends = all.asked;
    let kind = given.text("subscription_type");
    let kind = kind.filter(|(_, kind)| kind != "stream");
    if let Some((option, kind)) = &kind {
        let text = format!(
            "{kind:?} is not offered (see docs/CENTRIFUGO.md): clients need a token that names the \
             channel, and subscribe to a stream"
        );
        notes.add(Effect::Narrower, option, text);
    }
    let is_closed = all.is_closed || kind.is_some();
    let is_insecure = all.is_insecure && !is_closed;
    let mut put = |key: &str, value: toml::Value| match head {
        "" => out.put_last(key, value),
        head => out.put(head, key, value),
    };
    let place = match name {
        "" => "without namespace".to_owned(),
        name => format!("namespace {name}"),
    };
    let size = given.number("history_size").map(|(_, size)| size);
    let ttl = given
        .text("history_ttl")
        .and_then(|(_, ttl)| duration(&ttl));
    let has_history = size.is_some() && ttl.is_some();
    if let (Some(size), Some(ttl)) = (size, ttl) {
        put("history_size", (size as i64).into());
        put("history_ttl", ttl.into());
    }
    let recovers = [given.is_on("force_recovery"), given.is_on("allow_recovery")];
    if has_history {
        put("recovery", recovers.iter().any(Option::is_some).into());
    }
    let mode = given.text("force_recovery_mode");
    let is_cache = mode.is_some_and(|(_, mode)| mode == "cache")
        && has_history
        && recovers.iter().any(Option::is_some);
    if is_cache {
        put("force_recovery_mode", "cache".into());
    }
    if all.is_compressed {
        put("compression", true.into());
    }
    if given.is_on("allow_tags_filter").is_some() {
        put("allow_tags_filter", true.into());
    }
    if let Some((option, types)) = given.texts("allowed_delta_types") {
        let known = types.iter().any(|name| name == "fossil");
        if known {
            put("allowed_delta_types", vec!["fossil".to_owned()].into());
        }
        if types.iter().any(|name| name != "fossil") {
            notes.add(
                Effect::Missing,
                &option,
                "`fossil` is the only kind of deltas",
            );
        }
    }
    // A backend alone decides, so the rights beside it open nothing.
    let asked = backends.of("subscribe", given);
    let streams = given.is_on("subscribe_stream_proxy_enabled");
    let streams = streams.or_else(|| backends.stream_of(given));
    if let Some((_, Some(name))) = asked.as_ref().filter(|_| !is_closed) {
        put_asked("subscribe", name, &mut put);
    }
    if let Some((_, Some(name))) = backends.of("sub_refresh", given) {
        put_asked("sub_refresh", &name, &mut put);
    }
    if let Some((_, Some(name))) = backends.of("cache_empty", given).filter(|_| is_cache) {
        put_asked("cache_empty", &name, &mut put);
    }
    let unknown = { asked.as_ref() }.and_then(|(option, name)| name.is_none().then_some(option));
    for option in unknown.into_iter().chain(&streams) {
        let text = "no backend is asked: clients need a token that names the channel";
        notes.add(Effect::Narrower, option, text);
    }
    let may_open = !is_closed && asked.is_none() && streams.is_none();
    let subscribe =
        (given.is_on("allow_subscribe_for_client").is_some() || is_insecure) && may_open;
    let anonymous = given.is_on("allow_subscribe_for_anonymous").is_some() || is_insecure;
    let anonymous = anonymous && subscribe;
    put("subscribe", subscribe.into());
    put("anonymous_subscribe", anonymous.into());
    let limited = given.is_on("allow_user_limited_channels").is_some() && !is_closed;
    put("user_channels", (limited && !is_insecure).into());
    // Rights to publish.
    let backend = backends.of("publish", given);
    if let Some((_, Some(name))) = backend.as_ref().filter(|_| !is_closed) {
        put_asked("publish", name, &mut put);
    } else if let Some((option, _)) = &backend {
        let text = "no backend is asked: clients may not publish";
        notes.add(Effect::Narrower, option, text);
    }
    let may_publish = backend.is_none() && kind.is_none();
    let publish = given.is_on("allow_publish_for_client").is_some() || is_insecure;
    let publish = publish && may_publish;
    let strangers = given.is_on("allow_publish_for_anonymous").is_some() || is_insecure;
    let strangers = strangers && publish;
    put("publish", publish.into());
    put("anonymous_publish", strangers.into());
    let subscribers = given.is_on("allow_publish_for_subscriber");
    if let Some(option) = subscribers.filter(|_| !publish && may_publish) {
        let text = "publishing cannot be limited to subscribers, so no client may publish; \
                    `publish = true` allows all clients with a token";
        notes.add(Effect::Narrower, &option, text);
    }
    let who = Who {
        anonymous,
        is_insecure,
    };
    history(given, &place, has_history, &who, notes, &mut put);
    presence(given, &who, notes, &mut put);
}

struct Who {
    anonymous: bool,
    is_insecure: bool,
}

/// Writes the options of presence. The rights have equal names, and matter only where presence is
/// on.
fn presence(
    given: &mut Options,
    who: &Who,
    notes: &mut Notes,
    put: &mut impl FnMut(&str, toml::Value),
) {
    let is_kept = given.is_on("presence").is_some();
    let is_told = given.is_on("join_leave").is_some();
    let is_forced = given.is_on("force_push_join_leave").is_some() && is_told;
    let rights = [
        "allow_presence_for_subscriber",
        "allow_presence_for_client",
        "allow_presence_for_anonymous",
    ];
    let allowed = rights.map(|right| given.is_on(right));
    if !is_kept && !is_told {
        return;
    }
    put("presence", is_kept.into());
    put("join_leave", is_told.into());
    put("force_push_join_leave", is_forced.into());
    for (right, allowed) in rights.into_iter().zip(&allowed) {
        put(right, (allowed.is_some() || who.is_insecure).into());
    }
    let [subscribers, _, strangers] = allowed;
    let is_wider = who.anonymous && strangers.is_none() && !who.is_insecure;
    if let Some(option) = subscribers.filter(|_| is_wider) {
        let text = "subscribers without a token may see the members too";
        notes.add(Effect::Wider, &option, text);
    }
}

fn history(
    given: &mut Options,
    place: &str,
    has_history: bool,
    who: &Who,
    notes: &mut Notes,
    put: &mut impl FnMut(&str, toml::Value),
) {
    let clients = given.is_on("allow_history_for_client");
    let subscribers = given.is_on("allow_history_for_subscriber");
    let strangers = given.is_on("allow_history_for_anonymous");
    put(
        "history",
        (has_history && (clients.is_some() || who.is_insecure)).into(),
    );
    if !has_history || who.is_insecure {
        return;
    }
    if clients.is_none() && subscribers.is_none() {
        let option = format!("allow_history_for_subscriber ({place})");
        let text = "subscribers may always read the history of what they subscribe to";
        notes.add(Effect::Wider, &option, text);
    }
    if let Some(option) = clients.filter(|_| who.anonymous && strangers.is_none()) {
        let text = "clients without a token may read the history too, since they may subscribe";
        notes.add(Effect::Wider, &option, text);
    }
}
