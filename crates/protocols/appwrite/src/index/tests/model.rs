//! The index against a model that walks over everything, at random.

use proptest::prelude::*;
use throng_types::{Save as _, Saved};

use super::*;
use crate::channel;

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
                roles: texts(&roles),
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
                connection.roles = texts(&roles);
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
            let queries: Vec<&str> = query.iter().map(|&n| QUERIES[n]).collect();
            let channels = texts(&pick(&CHANNELS, channels));
            (id_name(*id), channels, filter_of(&queries))
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
