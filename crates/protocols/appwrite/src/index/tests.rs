//! Plays the dialogues in `tests.txt`; checks refusals and costs.
//!
//! Steps of connection `N`, which is in the project `p`: `N joins ROLE ..`; `N subscribes ID
//! CHANNEL .. [where QUERY]`; `N ends ID`, or `N has no ID`; `N has COUNT` subscriptions; `N
//! becomes USER ROLE ..`, who was a guest, and `N has roles ROLE ..`. `event ROLE,.. CHANNEL,..
//! [PAYLOAD] reaches N:ID,.. ..` is an event of `p`, and nobody gets it in another project; `role
//! ROLE is of N`.

use std::collections::BTreeMap;

use serde_json::json;
use throng_dialogue::{AssertingStage, check_list, play_asserting};

use super::*;
use crate::{FeedMessage, MessageLimits, QueryFilter, RealtimeError};

mod heap;
mod model;

use heap::Sizes;

fn event(
    project: &str,
    roles: &[&str],
    channels: &[&str],
    payload: serde_json::Value,
) -> FeedMessage {
    let message = json!({
        "project": project, "roles": roles,
        "data": {"events": ["e"], "channels": channels, "timestamp": "t", "payload": payload}
    });
    FeedMessage::parse(message.to_string().as_bytes(), 1 << 20).unwrap()
}

/// The receivers with the ids that match on each, in the order of their keys.
fn receivers(index: &mut Index, event: &FeedMessage) -> BTreeMap<u32, Vec<String>> {
    let mut matches = Matches::default();
    index.matches(event, &mut matches);
    let mut found = BTreeMap::new();
    for receiver in &matches.receivers {
        let ids = ids_of(index, &matches, receiver);
        assert_eq!(ids.len(), matches.ordinals(receiver).len());
        let twice = found.insert(receiver.connection, ids);
        assert_eq!(twice, None, "a receiver is named once");
    }
    agrees_one_by_one(index, event, &found);
    found
}

fn ids_of(index: &Index, matches: &Matches, receiver: &Match) -> Vec<String> {
    let mut ids = b"[".to_vec();
    index.write_ids(matches, receiver, &mut ids);
    ids.push(b']');
    serde_json::from_slice(&ids).unwrap()
}

/// Checks that a connection asked about alone gets the same answer.
fn agrees_one_by_one(index: &mut Index, event: &FeedMessage, found: &BTreeMap<u32, Vec<String>>) {
    let mut matches = Matches::default();
    for connection in 0..64 {
        index.matches_for(connection, event, &mut matches);
        let alone = matches.receivers.first().map(|receiver| {
            assert_eq!(
                (matches.receivers.len(), receiver.connection),
                (1, connection)
            );
            ids_of(index, &matches, receiver)
        });
        assert_eq!(alone.as_ref(), found.get(&connection));
    }
}

fn texts(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|&text| text.to_owned()).collect()
}

fn subscribe(index: &mut Index, connection: u32, id: &str, channels: &[&str]) {
    subscribe_with(index, connection, id, channels, &QueryFilter::ALL);
}

fn subscribe_with(
    index: &mut Index,
    connection: u32,
    id: &str,
    channels: &[&str],
    filter: &QueryFilter,
) {
    let channels = texts(channels);
    let subscription = IndexedSubscription {
        id,
        channels: &channels,
        filter,
    };
    index.subscribe(connection, &[subscription]).unwrap();
}

fn filter_of(queries: &[&str]) -> QueryFilter {
    let limits = MessageLimits::default();
    QueryFilter::parse(queries, &limits, RealtimeError::MessageQuery).unwrap()
}

#[test]
fn receivers_have_their_dialogues() {
    play_asserting("tests.txt", include_str!("tests.txt"), || {
        Stage(Index::new(1))
    });
}

struct Stage(Index);

impl AssertingStage for Stage {
    fn step(&mut self, step: &str) {
        if let Some((event, expected)) = step.split_once(" reaches ") {
            return self.check_event(&event.split(' ').collect::<Vec<_>>(), expected);
        }
        let Self(index) = self;
        let (first, rest) = step.split_once(' ').expect("a step");
        let words: Vec<&str> = rest.split(' ').collect();
        match (first.parse(), &*words) {
            (Ok(connection), ["joins", roles @ ..]) => {
                index.insert(connection, "p", roles).unwrap();
            }
            (Ok(connection), ["subscribes", id, channels @ ..]) => {
                let (channels, filter) = match channels {
                    [channels @ .., "where", query] => (channels, filter_of(&[query])),
                    channels => (channels, QueryFilter::ALL),
                };
                subscribe_with(index, connection, id, channels, &filter);
            }
            (Ok(connection), ["ends", id]) => assert!(index.unsubscribe(connection, id)),
            (Ok(connection), ["has", "no", id]) => assert!(!index.unsubscribe(connection, id)),
            (Ok(connection), ["has", count]) => {
                check_list(&[index.subscriptions(connection)], count, " ");
            }
            (Ok(connection), ["becomes", to, roles @ ..]) => {
                let rebind = Some(Rebind { from: "", to });
                assert!(index.set_roles(connection, roles, rebind));
            }
            (Ok(connection), ["has", "roles", roles @ ..]) => {
                assert!(index.set_roles(connection, roles, None));
            }
            (_, [role, "is", "of", connections]) if first == "role" => {
                let mut found = Vec::new();
                index.with_role("p", role, &mut found);
                check_list(&found, connections, " ");
            }
            _ => panic!("no step"),
        }
        index.check_invariants();
    }
}

impl Stage {
    fn check_event(&mut self, event: &[&str], expected: &str) {
        let [_, roles, channels, payload @ ..] = event else {
            panic!("no event");
        };
        let payload = payload.first().copied().unwrap_or("{}");
        let [roles, channels] = [roles, channels].map(|it| it.split(',').collect::<Vec<_>>());
        let mut found = |project| {
            let payload = serde_json::from_str(payload).unwrap();
            let event = self::event(project, &roles, &channels, payload);
            let found = receivers(&mut self.0, &event).into_iter();
            let found = found.map(|(key, ids)| format!("{key}:{}", ids.join(",")));
            found.collect::<Vec<_>>()
        };
        check_list(&found("p"), expected, " ");
        assert!(found("q").is_empty());
    }
}

#[test]
fn refusals_change_nothing() {
    let mut index = Index::new(5);
    index.insert(0, "p", &["guests"]).unwrap();
    assert_eq!(index.insert(0, "q", &["guests"]), Err(IndexError::Known));
    let channels = ["x".to_owned()];
    let with = |id| IndexedSubscription {
        id,
        channels: &channels,
        filter: &QueryFilter::ALL,
    };
    assert_eq!(index.subscribe(1, &[with("s")]), Err(IndexError::Unknown));
    let long = "x".repeat(255);
    assert_eq!(
        index.subscribe(0, &[with("s"), with(&long)]),
        Err(IndexError::IdTooLong)
    );
    assert_eq!(
        index.subscribe(0, &[with("s"); 5000]),
        Err(IndexError::TooMany)
    );
    assert_eq!(index.subscriptions(0), 0);
    assert!(
        !index.set_roles(1, &["guests"], None) && !index.remove(1) && !index.unsubscribe(1, "s")
    );
    index.check_invariants();
}

#[test]
fn everything_returns_when_everybody_has_left() {
    let mut index = Index::new(6);
    for connection in 0..1000 {
        let user = format!("user:{connection}");
        index
            .insert(connection, "p", &[user.as_str(), "users"])
            .unwrap();
        subscribe(
            &mut index,
            connection,
            "s",
            &["files", &format!("doc.{connection}")],
        );
    }
    let full = index.sizes();
    assert_eq!(
        (full.connections, full.profiles, full.channels, full.roles),
        (1000, 1000, 1001, 1001)
    );
    for connection in 0..1000 {
        assert!(index.remove(connection));
    }
    assert_eq!(index.sizes(), Sizes::default());
    let kept = index.heap_bytes();
    assert!(kept < 1024, "{kept}");
}

/// The cost of an event follows its receivers, from whichever side they are few.
#[test]
fn events_visit_few() {
    let mut index = Index::new(8);
    for user in 0..2000_u32 {
        let roles = [
            format!("user:{user}"),
            "users".to_owned(),
            format!("team:{}", user / 10),
        ];
        index.insert(user, "p", &roles).unwrap();
        subscribe(&mut index, user, "all", &["files"]);
        subscribe(&mut index, user, "own", &[&format!("doc.{}", user / 10)]);
        let query = json!({"method": "equal", "attribute": "room", "values": [user / 10]});
        let filter = filter_of(&[&query.to_string()]);
        subscribe_with(&mut index, user, "room", &["messages"], &filter);
    }
    for (roles, channel, payload) in [
        (&["team:7"] as &[&str], "files", json!({})),
        (&["any"], "doc.7", json!({})),
        (&["users"], "doc.7", json!({})),
        (&["any"], "messages", json!({"room": 7})),
        (&["users"], "messages", json!({"room": 7, "text": "x"})),
    ] {
        let mut matches = Matches::default();
        index.matches(&event("p", roles, &[channel], payload), &mut matches);
        assert_eq!(matches.receivers.len(), 10, "{roles:?} {channel}");
        assert!(
            matches.visits <= 20,
            "{roles:?} {channel}: {} visits",
            matches.visits
        );
    }
}

/// Many guests on one channel share everything but a row, a place and an id.
#[test]
fn an_idle_guest_is_cheap() {
    let mut index = Index::new(7);
    let guests = 65_536;
    for connection in 0..guests {
        index.insert(connection, "console", &["guests"]).unwrap();
        let id = crate::subscription_id(u64::from(connection), connection);
        subscribe(&mut index, connection, &id, &["files"]);
    }
    assert_eq!(index.sizes().profiles, 1);
    let each = index.heap_bytes() as f64 / f64::from(guests);
    assert!(each <= 64.0, "{each} bytes for each guest");
    let everybody = receivers(
        &mut index,
        &event("console", &["any"], &["files"], json!({})),
    );
    assert_eq!(everybody.len(), guests as usize);
}

impl Index {
    /// Checks the invariants of the header; for tests, as it walks everything.
    fn check_invariants(&self) {
        for (id, project) in self.projects.iter() {
            project.check_invariants(|connection, profile, place| {
                let row = self
                    .connections
                    .get(connection)
                    .expect("a member has a row");
                assert_eq!((row.project, row.profile, row.place), (id, profile, place));
            });
            assert!(!project.is_empty());
        }
    }
}
