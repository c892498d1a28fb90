//! Whole dialogues with every generation of the official web SDK, in the bytes that it sends.
//!
//! URLs and client messages were captured from the npm packages of the versions named, in a
//! program that subscribes to `files` and `account` in one call and, in another, to a collection's
//! documents (from 22.1 on those whose status is open) while it remembers a session. The server's
//! side is the smallest session that this crate allows: what a shard does, without a socket.

use throng_appwrite::{
    ClientMessage, ConnectRequest, Connected, ConnectionPhase, EncodedEvent, ErrorAction,
    FeedMessage, Identity, Index, Layout, Matches, MessageLimits, PONG, Rebind, RefusalStyle,
    Response, Slot, Subscribed, Subscription, channel, subscription_id,
};

const ACCOUNT: &str = concat!(
    r#"{"$id":"U","name":"Ann","status":true,"labels":[],"emailVerification":true,"#,
    r#""phoneVerification":false,"prefs":{}}"#,
);
const MICROS: u64 = 1_700_000_000_000_000;

/// One connection, key 0, of one shard.
struct Server {
    index: Index,
    identity: Identity,
    limits: MessageLimits,
}

impl Server {
    /// Opens a connection and gives the server and its first frame.
    #[track_caller]
    fn open(query: &str, identity: Identity) -> (Self, String) {
        let limits = MessageLimits::default();
        let request = ConnectRequest::parse(query).unwrap();
        let mut index = Index::new(1);
        index.insert(0, &request.project, &identity.roles).unwrap();
        let slots = request.subscriptions(&identity.user_id, &limits).unwrap();
        let ids: Vec<String> = (0..)
            .take(slots.len())
            .map(|n| subscription_id(MICROS, n))
            .collect();
        let subscriptions: Vec<Subscription<'_>> = slots
            .iter()
            .zip(&ids)
            .map(|(slot, id)| Subscription {
                id,
                channels: &slot.channels,
                filter: &slot.filter,
            })
            .collect();
        index.subscribe(0, &subscriptions).unwrap();
        let named: Vec<(Slot, &String)> = slots
            .iter()
            .map(|slot| slot.slot.clone())
            .zip(&ids)
            .collect();
        let mut out = Vec::new();
        Connected {
            channels: &channel::convert(&request.channels, &identity.user_id),
            subscriptions: Some(&named),
            account: (!identity.is_guest()).then_some(&*identity.account),
        }
        .encode(&mut out);
        let server = Self {
            index,
            identity,
            limits,
        };
        (server, String::from_utf8(out).unwrap())
    }

    /// Answers a message. The session `eyJpZCI6IlUifQ==` is good.
    fn receive(&mut self, frame: &str) -> (String, ErrorAction) {
        let mut out = Vec::new();
        let then = match ClientMessage::parse(frame.as_bytes(), &self.limits) {
            Ok(message) => {
                self.act(message, &mut out);
                ErrorAction::Stay
            }
            Err(fault) => fault.refuse(ConnectionPhase::Message, RefusalStyle::default(), &mut out),
        };
        (String::from_utf8(out).unwrap(), then)
    }

    fn act(&mut self, message: ClientMessage, out: &mut Vec<u8>) {
        match message {
            ClientMessage::Ping => out.extend_from_slice(PONG),
            ClientMessage::Authentication { session } => {
                assert_eq!(session, "eyJpZCI6IlUifQ==");
                let user = Identity::from_account(ACCOUNT.as_bytes(), &[]).unwrap();
                let rebind = Rebind {
                    from: &self.identity.user_id,
                    to: &user.user_id,
                };
                self.index.set_roles(0, &user.roles, Some(rebind));
                Response::Authentication {
                    account: &user.account,
                }
                .encode(out);
                self.identity = user;
            }
            ClientMessage::Subscribe(mut items) => {
                for (n, item) in (100..).zip(&mut items) {
                    item.channels = channel::convert(&item.channels, &self.identity.user_id);
                    item.id.get_or_insert_with(|| subscription_id(MICROS, n));
                }
                let id = |n: usize| items[n].id.as_deref().unwrap();
                let subscriptions: Vec<Subscription<'_>> = (0..items.len())
                    .map(|n| Subscription {
                        id: id(n),
                        channels: &items[n].channels,
                        filter: &items[n].filter,
                    })
                    .collect();
                self.index.subscribe(0, &subscriptions).unwrap();
                let answers: Vec<Subscribed<'_>> = (0..items.len())
                    .map(|n| Subscribed {
                        id: id(n),
                        channels: &items[n].channels,
                        queries: items[n].filter.text(),
                    })
                    .collect();
                Response::Subscribe(&answers).encode(out);
            }
            ClientMessage::Unsubscribe(ids) => {
                let removed: Vec<(&str, bool)> = ids
                    .iter()
                    .map(|id| (id.as_str(), self.index.unsubscribe(0, id)))
                    .collect();
                Response::Unsubscribe(&removed).encode(out);
            }
            ClientMessage::Presence(_) => Response::Presence { presence: "{}" }.encode(out),
        }
    }

    /// The frame that an event brings to the connection, if any.
    fn event(&mut self, message: &str) -> Option<String> {
        let event = FeedMessage::parse(message.as_bytes(), 1 << 20).unwrap();
        let mut matches = Matches::default();
        self.index.matches(&event, &mut matches);
        let receiver = matches.receivers.first()?;
        assert_eq!((matches.receivers.len(), receiver.connection), (1, 0));
        let (mut ids, mut frame) = (Vec::new(), Vec::new());
        self.index.write_ids(&matches, receiver, &mut ids);
        EncodedEvent::new(&event, Layout::IdsLast).splice(&ids, &mut frame);
        Some(String::from_utf8(frame).unwrap())
    }
}

/// The feed's message and the `event` frame that stock makes of it, but for the ids.
fn file_event() -> (String, &'static str) {
    let data = concat!(
        r#""events":["buckets.B.files.F.create"],"channels":["files","buckets.B.files","#,
        r#""buckets.B.files.F"],"timestamp":"2026-08-21T12:42:57.123+00:00","#,
        r#""payload":{"$id":"F"}"#,
    );
    let head =
        r#"{"project":"bench","roles":["any"],"permissionsChanged":false,"userId":null,"data":{"#;
    (format!("{head}{data}}}}}"), data)
}

fn document_event(role: &str, status: &str) -> String {
    const COLLECTION: &str = "databases.D.collections.C.documents";
    let head = format!(r#""project":"bench","roles":["{role}"]"#);
    let channels = format!(r#"["documents","{COLLECTION}","{COLLECTION}.X"]"#);
    let facts = format!(r#""events":["{COLLECTION}.X.update"],"channels":{channels}"#);
    let when = r#""timestamp":"2026-08-21T12:42:57.123+00:00""#;
    let data = format!(r#"{{{facts},{when},"payload":{{"$id":"X","status":"{status}"}}}}"#);
    format!(r#"{{{head},"permissionsChanged":false,"userId":"U","data":{data}}}"#)
}

fn account_event() -> &'static str {
    concat!(
        r#"{"project":"bench","roles":["user:U"],"permissionsChanged":false,"userId":"U","#,
        r#""data":{"events":["users.U.update.name"],"channels":["account","account.U"],"#,
        r#""timestamp":"2026-08-21T12:42:57.123+00:00","payload":{"$id":"U"}}}"#,
    )
}

/// The ids in a frame.
fn ids(frame: Option<String>) -> Option<Vec<String>> {
    let frame: serde_json::Value = serde_json::from_str(&frame?).unwrap();
    serde_json::from_value(frame["data"]["subscriptions"].clone()).ok()
}

struct Sdk {
    version: &'static str,
    query: &'static str,
    connected: &'static str,
    /// Everything it sends after `connected`.
    sends: &'static [&'static str],
    /// The ids of the first call's subscription and of the second call's.
    files: &'static str,
    documents: &'static str,
    filters: bool,
}

const AUTHENTICATION: &str = r#"{"type":"authentication","data":{"session":"eyJpZCI6IlUifQ=="}}"#;
const ONE: &str = "6553f100000000000000";
const TWO: &str = "6553f100000000000001";

const SDKS: [Sdk; 5] = [
    Sdk {
        version: "9.0.2, 13.0.2, 18.2.0, and 21.5.0 through Client",
        query: "project=bench&channels%5B%5D=files&channels%5B%5D=account&\
                channels%5B%5D=databases.D.collections.C.documents",
        connected: concat!(
            r#"{"type":"connected","data":{"channels":["files","account","#,
            r#""databases.D.collections.C.documents"],"#,
            r#""subscriptions":["6553f100000000000000"],"user":null}}"#,
        ),
        sends: &[AUTHENTICATION],
        files: ONE,
        documents: ONE,
        filters: false,
    },
    Sdk {
        version: "21.5.0 through Realtime",
        query: "project=bench&channels[]=files&channels[]=account&\
                channels[]=databases.D.collections.C.documents",
        connected: concat!(
            r#"{"type":"connected","data":{"channels":["files","account","#,
            r#""databases.D.collections.C.documents"],"#,
            r#""subscriptions":["6553f100000000000000"],"user":null}}"#,
        ),
        sends: &[AUTHENTICATION],
        files: ONE,
        documents: ONE,
        filters: false,
    },
    Sdk {
        version: "24.2.0 through Realtime",
        query: "project=bench&channels[]=files&channels[]=account&\
             channels[]=databases.D.collections.C.documents&\
             files[1][]=%7B%22method%22%3A%22select%22%2C%22values%22%3A%5B%22*%22%5D%7D&\
             account[1][]=%7B%22method%22%3A%22select%22%2C%22values%22%3A%5B%22*%22%5D%7D&\
             databases.D.collections.C.documents[2][]=%7B%22method%22%3A%22equal%22%2C\
             %22attribute%22%3A%22status%22%2C%22values%22%3A%5B%22open%22%5D%7D",
        connected: concat!(
            r#"{"type":"connected","data":{"channels":["files","account","#,
            r#""databases.D.collections.C.documents"],"#,
            r#""subscriptions":{"1":"6553f100000000000000","2":"6553f100000000000001"},"#,
            r#""user":null}}"#,
        ),
        sends: &[AUTHENTICATION],
        files: ONE,
        documents: TWO,
        filters: true,
    },
    Sdk {
        version: "24.2.0 through Client",
        query: "project=bench&channels[]=files&channels[]=account&\
             channels[]=databases.D.collections.C.documents&\
             files[0][]=%7B%22method%22%3A%22select%22%2C%22values%22%3A%5B%22*%22%5D%7D&\
             account[0][]=%7B%22method%22%3A%22select%22%2C%22values%22%3A%5B%22*%22%5D%7D&\
             databases.D.collections.C.documents[1][]=%7B%22method%22%3A%22select%22%2C\
             %22values%22%3A%5B%22*%22%5D%7D",
        connected: concat!(
            r#"{"type":"connected","data":{"channels":["files","account","#,
            r#""databases.D.collections.C.documents"],"#,
            r#""subscriptions":["6553f100000000000000","6553f100000000000001"],"#,
            r#""user":null}}"#,
        ),
        sends: &[AUTHENTICATION],
        files: ONE,
        documents: TWO,
        filters: false,
    },
    Sdk {
        version: "25.0.0 and 27.0.0",
        query: "project=bench",
        connected: r#"{"type":"connected","data":{"channels":[],"subscriptions":[],"user":null}}"#,
        sends: &[
            AUTHENTICATION,
            concat!(
                r#"{"type":"subscribe","data":[{"subscriptionId":"6b00727a00234ff9e574","#,
                r#""channels":["files","account"],"queries":[]},"#,
                r#"{"subscriptionId":"6b00727a002350ffb54c","#,
                r#""channels":["databases.D.collections.C.documents"],"#,
                r#""queries":["{\"method\":\"equal\",\"attribute\":\"status\","#,
                r#"\"values\":[\"open\"]}"]}]}"#,
            ),
        ],
        files: "6b00727a00234ff9e574",
        documents: "6b00727a002350ffb54c",
        filters: true,
    },
];

#[test]
fn every_generation_has_its_story() {
    for sdk in SDKS {
        story(&sdk, sdk.sends);
        // SDKs send both messages at once, so either may be first.
        let mut swapped = sdk.sends.to_vec();
        swapped.reverse();
        story(&sdk, &swapped);
    }
}

#[track_caller]
fn story(sdk: &Sdk, sends: &[&str]) {
    let version = sdk.version;
    let (mut server, connected) = Server::open(sdk.query, Identity::guest());
    assert_eq!(connected, sdk.connected, "{version}");
    // A guest: nothing of the user's yet.
    assert_eq!(server.event(account_event()), None, "{version}");
    assert_eq!(
        server.event(&document_event("user:U", "open")),
        None,
        "{version}"
    );
    for message in sends {
        let (answer, then) = server.receive(message);
        assert_eq!(then, ErrorAction::Stay, "{version}: {answer}");
        assert!(
            answer.starts_with(r#"{"type":"response","data":{"to":""#),
            "{version}: {answer}"
        );
    }
    assert_eq!(server.receive(r#"{"type":"ping"}"#).0, r#"{"type":"pong"}"#);

    let (message, data) = file_event();
    let expect = format!(
        r#"{{"type":"event","data":{{{data},"subscriptions":["{}"]}}}}"#,
        sdk.files
    );
    assert_eq!(
        server.event(&message).as_deref(),
        Some(expect.as_str()),
        "{version}"
    );
    let one = |id: &str| Some(vec![id.to_owned()]);
    assert_eq!(
        ids(server.event(account_event())),
        one(sdk.files),
        "{version}"
    );
    let open = server.event(&document_event("user:U", "open"));
    assert_eq!(ids(open), one(sdk.documents), "{version}");
    let closed = ids(server.event(&document_event("user:U", "closed")));
    assert_eq!(
        closed,
        if sdk.filters {
            None
        } else {
            one(sdk.documents)
        },
        "{version}"
    );
    // Another user's document, and the permission taken back.
    assert_eq!(
        server.event(&document_event("user:V", "open")),
        None,
        "{version}"
    );
    server.index.set_roles(0, &["guests"], None);
    assert_eq!(
        server.event(&document_event("user:U", "open")),
        None,
        "{version}"
    );
    assert!(server.event(&message).is_some(), "{version}");
}

#[test]
fn a_cookie_makes_the_connection_a_users_from_the_start() {
    let user = Identity::from_account(ACCOUNT.as_bytes(), &[]).unwrap();
    let (mut server, connected) = Server::open("project=bench&channels[]=account", user);
    assert_eq!(
        connected,
        format!(
            "{{\"type\":\"connected\",\"data\":{{\"channels\":[\"account\",\"account.U\"],\
             \"subscriptions\":[\"{ONE}\"],\"user\":{ACCOUNT}}}}}"
        )
    );
    assert_eq!(
        ids(server.event(account_event())),
        Some(vec![ONE.to_owned()])
    );
}

#[test]
fn from_25_0_subscriptions_come_and_go_on_one_connection() {
    let (mut server, _) = Server::open("project=bench", Identity::guest());
    let subscribe = concat!(
        r#"{"type":"subscribe","data":[{"subscriptionId":"a","channels":["files","#,
        r#""account.other"],"queries":[]},{"channels":["files"]}]}"#,
    );
    assert_eq!(
        server.receive(subscribe).0,
        concat!(
            r#"{"type":"response","data":{"to":"subscribe","success":true,"#,
            r#""subscriptions":[{"subscriptionId":"a","channels":["files"],"queries":[]},"#,
            r#"{"subscriptionId":"6553f100000000000065","channels":["files"],"#,
            r#""queries":[]}]}}"#,
        )
    );
    let (message, _) = file_event();
    let both = ["a".to_owned(), "6553f100000000000065".to_owned()];
    assert_eq!(ids(server.event(&message)), Some(both.to_vec()));
    let unsubscribe =
        r#"{"type":"unsubscribe","data":[{"subscriptionId":"a"},{"subscriptionId":"nope"}]}"#;
    assert_eq!(
        server.receive(unsubscribe).0,
        concat!(
            r#"{"type":"response","data":{"to":"unsubscribe","success":true,"#,
            r#""subscriptions":[{"subscriptionId":"a","removed":true},"#,
            r#"{"subscriptionId":"nope","removed":false}]}}"#,
        )
    );
    assert_eq!(ids(server.event(&message)), Some(both[1..].to_vec()));
    let (refusal, then) = server.receive(r#"{"type":"subscribe","data":[{"channels":"files"}]}"#);
    assert_eq!(
        refusal,
        r#"{"type":"error","data":{"code":1003,"message":"items: channels is not a valid array."}}"#
    );
    assert_eq!(then, ErrorAction::Stay);
    assert_eq!(
        server
            .receive(r#"{"type":"presence","data":{"status":"online","presenceId":"p"}}"#)
            .0,
        r#"{"type":"response","data":{"to":"presence","presence":{}}}"#
    );
}
