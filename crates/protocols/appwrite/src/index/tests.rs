//! Checks receivers and costs, and the index against a walk over everything.

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::json;
use throng_types::{Save as _, Saved};

use super::*;
use crate::{FeedMessage, MessageLimits, QueryFilter, RealtimeError, channel};

mod heap;

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
        let mut ids = b"[".to_vec();
        index.write_ids(&matches, receiver, &mut ids);
        ids.push(b']');
        let ids: Vec<String> = serde_json::from_slice(&ids).unwrap();
        assert_eq!(ids.len(), matches.ordinals(receiver).len());
        let twice = found.insert(receiver.connection, ids);
        assert_eq!(twice, None, "a receiver is named once");
    }
    agrees_one_by_one(index, event, &found);
    found
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
            let mut ids = b"[".to_vec();
            index.write_ids(&matches, receiver, &mut ids);
            ids.push(b']');
            serde_json::from_slice::<Vec<String>>(&ids).unwrap()
        });
        assert_eq!(alone.as_ref(), found.get(&connection));
    }
}

fn subscribe(index: &mut Index, connection: u32, id: &str, channels: &[&str]) {
    let channels: Vec<String> = channels.iter().map(|&c| c.to_owned()).collect();
    let subscription = IndexedSubscription {
        id,
        channels: &channels,
        filter: &QueryFilter::ALL,
    };
    index.subscribe(connection, &[subscription]).unwrap();
}

#[track_caller]
fn check(index: &mut Index, event: &FeedMessage, expect: &[(u32, &[&str])]) {
    let found = receivers(index, event);
    let expect: BTreeMap<u32, Vec<String>> = expect
        .iter()
        .map(|(connection, ids)| (*connection, ids.iter().map(|&id| id.to_owned()).collect()))
        .collect();
    assert_eq!(found, expect);
}

/// The role table: which roles of an event reach which connection.
#[test]
fn roles_decide() {
    let mut index = Index::new(1);
    let connections: [&[&str]; 4] = [
        &["guests"],
        &["user:U", "users", "user:U/verified", "users/verified"],
        &[
            "user:V",
            "users",
            "user:V/unverified",
            "users/unverified",
            "team:T",
            "member:M",
            "team:T/owner",
        ],
        &[
            "user:W",
            "users",
            "user:W/verified",
            "users/verified",
            "label:vip",
        ],
    ];
    for (connection, roles) in connections.iter().enumerate() {
        index.insert(connection as u32, "p", roles).unwrap();
        subscribe(&mut index, connection as u32, "s", &["files"]);
    }
    for (roles, expect) in [
        (&["any"] as &[&str], &[0_u32, 1, 2, 3] as &[u32]),
        (&["guests"], &[0]),
        (&["users"], &[1, 2, 3]),
        (&["users/verified"], &[1, 3]),
        (&["users/unverified"], &[2]),
        (&["user:U"], &[1]),
        (&["user:U/verified"], &[1]),
        (&["user:U/unverified"], &[]),
        (&["team:T"], &[2]),
        (&["team:T/owner"], &[2]),
        (&["team:T/admin"], &[]),
        (&["member:M"], &[2]),
        (&["label:vip"], &[3]),
        (&["user:U", "team:T", "users"], &[1, 2, 3]),
        (&["user:X"], &[]),
        (&["role:all"], &[0, 1, 2, 3]),
        (&["role:member"], &[1, 2, 3]),
        (&["*"], &[0, 1, 2, 3]),
    ] {
        let found = receivers(&mut index, &event("p", roles, &["files"], json!({})));
        assert_eq!(
            found.keys().copied().collect::<Vec<_>>(),
            expect,
            "{roles:?}"
        );
        let elsewhere = receivers(&mut index, &event("q", roles, &["files"], json!({})));
        assert!(elsewhere.is_empty());
    }
    index.check_invariants();
}

#[test]
fn ids_of_all_matching_subscriptions_come_in_one_match() {
    let mut index = Index::new(2);
    index.insert(7, "p", &["guests"]).unwrap();
    subscribe(&mut index, 7, "a", &["files", "buckets.B.files"]);
    subscribe(&mut index, 7, "b", &["documents"]);
    subscribe(&mut index, 7, "c", &["files"]);
    let files = event("p", &["any"], &["files", "buckets.B.files", "x"], json!({}));
    check(&mut index, &files, &[(7, &["a", "c"])]);
    assert!(index.unsubscribe(7, "a"));
    assert!(!index.unsubscribe(7, "a"));
    check(&mut index, &files, &[(7, &["c"])]);
    check(
        &mut index,
        &event("p", &["guests"], &["documents"], json!({})),
        &[(7, &["b"])],
    );
    assert_eq!(index.subscriptions(7), 2);
    index.check_invariants();
}

#[test]
fn a_known_id_changes_the_channels_it_names() {
    let limits = MessageLimits::default();
    let one = QueryFilter::parse(
        &[r#"{"method":"equal","attribute":"a","values":[1]}"#],
        &limits,
        RealtimeError::MessageQuery,
    )
    .unwrap();
    let mut index = Index::new(3);
    index.insert(0, "p", &["guests"]).unwrap();
    subscribe(&mut index, 0, "s", &["x", "y"]);
    let channels = ["y".to_owned()];
    let changed = IndexedSubscription {
        id: "s",
        channels: &channels,
        filter: &one,
    };
    index.subscribe(0, &[changed]).unwrap();
    assert_eq!(index.subscriptions(0), 1);
    check(
        &mut index,
        &event("p", &["any"], &["x"], json!({})),
        &[(0, &["s"])],
    );
    check(&mut index, &event("p", &["any"], &["y"], json!({})), &[]);
    check(
        &mut index,
        &event("p", &["any"], &["y"], json!({"a": 1})),
        &[(0, &["s"])],
    );
    check(
        &mut index,
        &event("p", &["any"], &["x", "y"], json!({})),
        &[(0, &["s"])],
    );
    // Without channels nothing is made.
    subscribe(&mut index, 0, "t", &[]);
    assert!(!index.unsubscribe(0, "t"));
    index.check_invariants();
}

#[test]
fn signing_in_rewrites_account_channels() {
    let mut index = Index::new(4);
    index.insert(0, "p", &["guests"]).unwrap();
    subscribe(&mut index, 0, "s", &["account", "account.update"]);
    let own = event("p", &["user:U"], &["account.U.update"], json!({}));
    check(&mut index, &own, &[]);
    let rebind = Some(Rebind { from: "", to: "U" });
    assert!(index.set_roles(0, &["user:U", "users"], rebind));
    check(&mut index, &own, &[(0, &["s"])]);
    check(
        &mut index,
        &event("p", &["any"], &["account.update"], json!({})),
        &[],
    );
    let mut found = Vec::new();
    index.with_role("p", "user:U", &mut found);
    assert_eq!(found, [0]);
    assert!(index.set_roles(0, &["guests"], None));
    check(&mut index, &own, &[]);
    index.check_invariants();
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
    let limits = MessageLimits::default();
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
        let filter =
            QueryFilter::parse(&[query.to_string()], &limits, RealtimeError::MessageQuery).unwrap();
        let channels = ["messages".to_owned()];
        let by_query = IndexedSubscription {
            id: "room",
            channels: &channels,
            filter: &filter,
        };
        index.subscribe(user, &[by_query]).unwrap();
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

// ---- against a model that walks everything

const ROLES: [&str; 6] = ["guests", "users", "user:U", "user:V", "team:T", "label:l"];
const CHANNELS: [&str; 5] = [
    "files",
    "documents",
    "account",
    "account.update",
    "account.U",
];
const QUERIES: [&str; 5] = [
    r#"{"method":"equal","attribute":"a","values":[2,0,2]}"#,
    r#"{"method":"equal","attribute":"b","values":[null,"x"]}"#,
    r#"{"method":"equal","attribute":"a","values":[1]}"#,
    r#"{"method":"notEqual","attribute":"a","values":[1]}"#,
    r#"{"method":"isNull","attribute":"b"}"#,
];

#[derive(Debug, Default)]
struct Model(BTreeMap<u32, Connection>);

#[derive(Debug)]
struct Connection {
    project: String,
    roles: Vec<String>,
    /// Ids in order, each with its channels and their filters.
    subscriptions: Vec<(String, BTreeMap<String, QueryFilter>)>,
}

impl Model {
    fn receivers(&self, event: &FeedMessage) -> BTreeMap<u32, Vec<String>> {
        let mut found = BTreeMap::new();
        for (key, connection) in &self.0 {
            let allowed = event
                .roles
                .iter()
                .any(|role| **role == *"any" || connection.roles.iter().any(|own| **own == **role));
            if !allowed || *connection.project != *event.project {
                continue;
            }
            let ids: Vec<String> = connection
                .subscriptions
                .iter()
                .filter(|(_, channels)| {
                    event.channels.iter().any(|channel| {
                        channels
                            .get(&**channel)
                            .is_some_and(|filter| filter.wants(event.attributes()))
                    })
                })
                .map(|(id, _)| id.clone())
                .collect();
            if !ids.is_empty() {
                found.insert(*key, ids);
            }
        }
        found
    }
}

#[derive(Clone, Debug)]
enum Step {
    Join {
        key: u32,
        project: bool,
        roles: Vec<usize>,
    },
    Leave {
        key: u32,
    },
    Subscribe {
        key: u32,
        items: Vec<(u8, Vec<usize>, Option<usize>)>,
    },
    Unsubscribe {
        key: u32,
        id: u8,
    },
    Roles {
        key: u32,
        roles: Vec<usize>,
        rebind: Option<(usize, usize)>,
    },
    Event {
        project: bool,
        roles: Vec<usize>,
        any: bool,
        channels: Vec<usize>,
        a: Option<u8>,
        b: bool,
    },
    Move {
        key: u32,
    },
}

const USERS: [&str; 3] = ["", "U", "V"];

fn step() -> impl Strategy<Value = Step> {
    let key = 0..8_u32;
    let roles = || proptest::collection::vec(0..ROLES.len(), 1..4);
    let channels = || proptest::collection::vec(0..CHANNELS.len(), 0..4);
    let item = (0..4_u8, channels(), proptest::option::of(0..QUERIES.len()));
    prop_oneof![
        2 => (key.clone(), any::<bool>(), roles())
            .prop_map(|(key, project, roles)| Step::Join { key, project, roles }),
        1 => key.clone().prop_map(|key| Step::Leave { key }),
        2 => key.clone().prop_map(|key| Step::Move { key }),
        4 => (key.clone(), proptest::collection::vec(item, 0..4))
            .prop_map(|(key, items)| Step::Subscribe { key, items }),
        1 => (key.clone(), 0..4_u8).prop_map(|(key, id)| Step::Unsubscribe { key, id }),
        2 => (key, roles(), proptest::option::of((0..3_usize, 0..3_usize)))
            .prop_map(|(key, roles, rebind)| Step::Roles { key, roles, rebind }),
        4 => (
            any::<bool>(), roles(), proptest::bool::weighted(0.3),
            proptest::collection::vec(0..CHANNELS.len(), 1..4),
            proptest::option::of(0..3_u8), any::<bool>(),
        ).prop_map(|(project, roles, any, channels, a, b)| {
            Step::Event { project, roles, any, channels, a, b }
        }),
    ]
}

fn project_name(project: bool) -> &'static str {
    if project { "p" } else { "q" }
}

fn pick(names: &[&'static str], picks: &[usize]) -> Vec<&'static str> {
    picks.iter().map(|&n| names[n]).collect()
}

fn id_name(id: u8) -> String {
    // Half of them in the packed form.
    if id < 2 {
        format!("id-{id}")
    } else {
        format!("{id:020x}")
    }
}

fn filter_of(query: Option<usize>) -> QueryFilter {
    let queries: Vec<&str> = query.iter().map(|&n| QUERIES[n]).collect();
    QueryFilter::parse(
        &queries,
        &MessageLimits::default(),
        RealtimeError::MessageQuery,
    )
    .unwrap()
}

fn run(index: &mut Index, model: &mut Model, step: &Step) {
    match step {
        Step::Join {
            key,
            project,
            roles,
        } => {
            let roles = pick(&ROLES, roles);
            let joined = index.insert(*key, project_name(*project), &roles);
            assert_eq!(joined.is_err(), model.0.contains_key(key));
            model.0.entry(*key).or_insert_with(|| Connection {
                project: project_name(*project).to_owned(),
                roles: roles.iter().map(|&role| role.to_owned()).collect(),
                subscriptions: Vec::new(),
            });
        }
        Step::Leave { key } => {
            assert_eq!(index.remove(*key), model.0.remove(key).is_some());
        }
        Step::Move { key } => moves(index, *key, model.0.contains_key(key)),
        Step::Subscribe { key, items } => subscribe_both(index, model, *key, items),
        Step::Unsubscribe { key, id } => {
            let id = id_name(*id);
            let removed = model.0.get_mut(key).is_some_and(|connection| {
                let before = connection.subscriptions.len();
                connection.subscriptions.retain(|(known, _)| *known != id);
                connection.subscriptions.len() < before
            });
            assert_eq!(index.unsubscribe(*key, &id), removed);
        }
        Step::Roles { key, roles, rebind } => {
            let roles = pick(&ROLES, roles);
            let rebind = rebind.map(|(from, to)| Rebind {
                from: USERS[from],
                to: USERS[to],
            });
            let known = index.set_roles(*key, &roles, rebind);
            assert_eq!(known, model.0.contains_key(key));
            if let Some(connection) = model.0.get_mut(key) {
                connection.roles = roles.iter().map(|&role| role.to_owned()).collect();
                if let Some(rebind) = rebind {
                    rebind_model(connection, rebind);
                }
            }
        }
        Step::Event {
            project,
            roles,
            any,
            channels,
            a,
            b,
        } => {
            let mut roles = pick(&ROLES, roles);
            if *any {
                roles.push("any");
            }
            let mut payload = json!({});
            if let Some(a) = a {
                payload["a"] = json!(a);
            }
            if *b {
                payload["b"] = json!(null);
            }
            let event = event(
                project_name(*project),
                &roles,
                &pick(&CHANNELS, channels),
                payload,
            );
            assert_eq!(receivers(index, &event), model.receivers(&event));
        }
    }
}

/// The connection goes away as bytes and comes back; of nothing less than those.
fn moves(index: &mut Index, key: u32, is_there: bool) {
    let mut bytes = Vec::new();
    assert_eq!(index.save(key, &mut bytes), is_there);
    if !is_there {
        return assert!(bytes.is_empty());
    }
    assert_eq!(index.load(key, &mut Saved::new(&bytes)), None, "it is here");
    let project = index
        .connections
        .get(key)
        .map(|row| Box::from(index.projects[row.project].name()));
    index.remove(key);
    for cut in 0..bytes.len() {
        assert_eq!(index.load(key, &mut Saved::new(&bytes[..cut])), None);
    }
    let mut from = Saved::new(&bytes);
    assert_eq!(index.load(key, &mut from), project);
    assert!(from.is_empty() && index.contains(key));
}

fn subscribe_both(
    index: &mut Index,
    model: &mut Model,
    key: u32,
    items: &[(u8, Vec<usize>, Option<usize>)],
) {
    let owned: Vec<(String, Vec<String>, QueryFilter)> = items
        .iter()
        .map(|(id, channels, query)| {
            let channels = pick(&CHANNELS, channels)
                .into_iter()
                .map(str::to_owned)
                .collect();
            (id_name(*id), channels, filter_of(*query))
        })
        .collect();
    let subscriptions: Vec<IndexedSubscription<'_>> = owned
        .iter()
        .map(|(id, channels, filter)| IndexedSubscription {
            id,
            channels,
            filter,
        })
        .collect();
    let subscribed = index.subscribe(key, &subscriptions);
    assert_eq!(subscribed.is_ok(), model.0.contains_key(&key));
    let Some(connection) = model.0.get_mut(&key) else {
        return;
    };
    for (id, channels, filter) in owned {
        if channels.is_empty() {
            continue;
        }
        let known = connection
            .subscriptions
            .iter()
            .position(|(name, _)| *name == id);
        let at = known.unwrap_or_else(|| {
            connection.subscriptions.push((id, BTreeMap::new()));
            connection.subscriptions.len() - 1
        });
        for channel in channels {
            connection.subscriptions[at]
                .1
                .insert(channel, filter.clone());
        }
    }
}

/// Two channels may become one; the one that had the name keeps its filter.
fn rebind_model(connection: &mut Connection, rebind: Rebind<'_>) {
    for (_, channels) in &mut connection.subscriptions {
        let old: Vec<String> = channels.keys().cloned().collect();
        let moves = old
            .into_iter()
            .filter_map(|name| Some((channel::rebind(&name, rebind.from, rebind.to)?, name)));
        let moved: Vec<(String, QueryFilter)> = moves
            .filter_map(|(to, name)| Some((to, channels.remove(&name)?)))
            .collect();
        for (name, filter) in moved {
            channels.entry(name).or_insert(filter);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn the_index_agrees_with_a_walk_over_everything(
        steps in proptest::collection::vec(step(), 1..60),
        seed in any::<u64>(),
    ) {
        let mut index = Index::new(seed);
        let mut model = Model::default();
        for step in &steps {
            run(&mut index, &mut model, step);
            index.check_invariants();
            assert_eq!(index.sizes().connections, model.0.len());
        }
        for key in 0..8 {
            index.remove(key);
        }
        assert_eq!(index.sizes(), Sizes::default());
    }

    #[test]
    fn no_bytes_harm_the_index(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let mut index = Index::new(1);
        let mut saved = ("p".to_owned(), vec!["any".to_owned()]).saved();
        saved.extend_from_slice(&bytes);
        for bytes in [bytes, saved] {
            let loaded = index.load(7, &mut Saved::new(&bytes));
            assert_eq!(loaded.is_some(), index.contains(7));
            index.check_invariants();
            index.remove(7);
        }
    }
}
