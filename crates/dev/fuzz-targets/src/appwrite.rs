//! Appwrite: events, messages of clients, URLs, accounts.

use serde_json::Value;
use throng_appwrite::{
    AppwriteIdentity, ClientMessage, ConnectRequest, ConnectionPhase, EVENT_HEAD, FeedMessage,
    Index, IndexedSubscription, Matches, MembershipList, MessageLimits, QueryFilter, RealtimeError,
    RefusalStyle, Response, RoleChange, SessionHeaders, Slot, SubscriptionEntry, channel, glimpse,
    write_slot_ids,
};

use crate::pieces::{is_json, texts};

/// Messages of Appwrite clients: limits hold, a filter's text reads as the same filter, and answers
/// and refusals are JSON.
pub(crate) fn appwrite_client(input: &[u8]) {
    let limits = MessageLimits {
        message_bytes_max: 1500,
        channels_max: 4,
        channel_bytes_max: 40,
        subscriptions_max: 3,
        queries_max: 8,
        query_values_max: 8,
        query_depth_max: 4,
        ..MessageLimits::default()
    };
    match ClientMessage::parse(input, &limits) {
        Err(fault) => refusals(&fault),
        Ok(ClientMessage::Subscribe(items)) => {
            assert!(items.len() <= limits.subscriptions_max);
            let mut index = Index::new(7);
            index.insert(0, "p", &["any"]).expect("the first");
            for item in &items {
                assert!(item.channels.len() <= limits.channels_max);
                same_filter(&item.filter);
                let channels = channel::convert(&item.channels, "U");
                let id = item.id.as_deref().unwrap_or("made");
                let one = IndexedSubscription {
                    id,
                    channels: &channels,
                    filter: &item.filter,
                };
                index.subscribe(0, &[one]).expect("within every limit");
                let done = [SubscriptionEntry {
                    id,
                    channels: &channels,
                    queries: item.filter.text(),
                }];
                answer(&Response::Subscribe(&done));
            }
            assert!(index.subscriptions(0) <= items.len());
        }
        Ok(ClientMessage::Unsubscribe(ids)) => {
            assert!(ids.len() <= limits.subscriptions_max);
            let done: Vec<(&str, bool)> = ids.iter().map(|id| (id.as_str(), false)).collect();
            answer(&Response::Unsubscribe(&done));
        }
        Ok(ClientMessage::Ping | ClientMessage::Authentication { .. }) => {}
        Ok(ClientMessage::Presence(presence)) => assert_ne!(presence.id.as_deref(), Some("")),
    }
}

fn answer(response: &Response<'_>) {
    let mut out = Vec::new();
    response.encode(&mut out);
    assert!(is_json(&out), "{}", out.escape_ascii());
}

fn refusals(fault: &RealtimeError) {
    for phase in [ConnectionPhase::Open, ConnectionPhase::Message] {
        for style in [RefusalStyle::STOCK, RefusalStyle::default()] {
            let mut out = Vec::new();
            fault.refuse(phase, style, &mut out);
            assert!(is_json(&out), "{}", out.escape_ascii());
        }
    }
}

/// Clients send back the ids that they were given.
fn same_filter(filter: &QueryFilter) {
    let texts: Vec<String> = serde_json::from_str(filter.text()).expect("a list of texts");
    let again = QueryFilter::parse(
        &texts,
        &MessageLimits::default(),
        RealtimeError::MessageQuery,
    );
    assert_eq!(again.expect("a filter's own text").text(), filter.text());
}

/// Events of Appwrite's feed: frames are JSON, and receivers get ids that fit.
pub(crate) fn appwrite_feed(input: &[u8]) {
    let _ = glimpse(input);
    assert!(FeedMessage::parse(input, input.len().saturating_sub(1)).is_err());
    let Ok(event) = FeedMessage::parse(input, input.len()) else {
        return;
    };
    assert!(!event.project.is_empty() && !event.roles.is_empty() && !event.channels.is_empty());
    let _ = (event.names(), event.attributes());
    if let Some(change) = event.identity_change() {
        let roles = ["user:U", "users", "team:t", "member:m"].map(str::to_owned);
        let outcome = change.what.outcome(&change.user_id, &roles);
        let again = |roles: &[String]| change.what.outcome(&change.user_id, roles);
        if let RoleChange::Roles(roles) = outcome {
            assert_eq!(
                again(&roles),
                RoleChange::Same,
                "a change that is told twice is one"
            );
        }
    }
    let frame = [EVENT_HEAD, br#""a","b\"""#, &event.encode_tail()].concat();
    assert!(is_json(&frame), "{}", frame.escape_ascii());
    matches(&event);
}

/// One connection with the event's own role and channel gets it, one of another project does not.
fn matches(event: &FeedMessage) {
    let mut index = Index::new(7);
    let channels = [event.channels[0].to_string()];
    for (key, project) in [(1, &*event.project), (2, "another project")] {
        index.insert(key, project, &event.roles[..1]).expect("new");
        let one = IndexedSubscription {
            id: "s",
            channels: &channels,
            filter: &QueryFilter::ALL,
        };
        index.subscribe(key, &[one]).expect("the first");
    }
    let mut found = Matches::default();
    index.matches(event, &mut found);
    let mut ids = Vec::new();
    for receiver in &found.receivers {
        index.write_ids(&found, receiver, &mut ids);
    }
    let expected: &[u8] = if &*event.project == "another project" {
        b"\"s\"\"s\""
    } else {
        b"\"s\""
    };
    assert_eq!(ids, expected);
}

/// Appwrite's answer about an account, and the places where a handshake carries a session: an
/// account without an id is not accepted, and a session is one that the client sent.
///
/// Input: the account, a list of memberships, then the three headers, with NUL bytes between them.
pub(crate) fn appwrite_identity(input: &[u8]) {
    let Some([account, memberships, cookie, session, fallback]) = texts::<5>(input) else {
        return;
    };
    let list = MembershipList {
        body: memberships.as_bytes(),
        is_own: true,
    };
    if let Ok(identity) = AppwriteIdentity::from_account(account.as_bytes(), &[list]) {
        assert!(!identity.is_guest() && is_json(identity.account.as_bytes()));
        let user = format!("user:{}", identity.user_id);
        assert!(identity.roles.contains(&user) && identity.roles.contains(&"users".to_owned()));
    }
    let headers = SessionHeaders {
        cookie: Some(cookie),
        session: Some(session),
        fallback: Some(fallback),
    };
    for admin in [false, true] {
        if let Some(found) = headers.find("p", admin) {
            assert!(!found.is_empty());
            let cookie = cookie.replace("%3D", "=").replace("%3d", "=");
            let sent = cookie.contains(&found) || session == found;
            // JSON may write a text in several ways.
            assert!(sent || is_json(fallback.as_bytes()));
        }
    }
}

/// The URL of an Appwrite client: limits hold, and each slot gets its id under a key of its own.
pub(crate) fn appwrite_url(input: &[u8]) {
    let Ok(query) = std::str::from_utf8(input) else {
        return;
    };
    let limits = MessageLimits {
        url_params_max: 12,
        channels_max: 4,
        channel_bytes_max: 40,
        subscriptions_max: 3,
        ..MessageLimits::default()
    };
    let Ok(request) = ConnectRequest::parse(query, &limits) else {
        return;
    };
    assert!(!request.project.is_empty());
    assert!(request.channels.len() <= limits.channels_max);
    for (at, channel) in request.channels.iter().enumerate() {
        assert!(channel.len() <= limits.channel_bytes_max);
        assert!(!request.channels[..at].contains(channel));
    }
    for user_id in ["", "U"] {
        let Ok(slots) = request.subscriptions(user_id, &limits) else {
            continue;
        };
        assert!(slots.len() <= limits.subscriptions_max);
        let named: Vec<(Slot, &str)> = slots.iter().map(|slot| (slot.slot.clone(), "id")).collect();
        let mut out = Vec::new();
        write_slot_ids(&named, &mut out);
        let ids: Value = serde_json::from_slice(&out).expect("JSON");
        let count = ids.as_array().map(Vec::len);
        let count = count.or_else(|| ids.as_object().map(serde_json::Map::len));
        assert_eq!(count, Some(slots.len()));
        for slot in &slots {
            assert!(!slot.channels.is_empty());
            assert!(is_json(slot.filter.text().as_bytes()));
        }
    }
}
