//! Sessions and a room without sockets: bytes in, frames out, and a world that answers when told
//! to.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};

use serde_json::{Value, json};
use throng_appwrite::{
    AppwriteIdentity, Change, ConnectionPhase, FeedMessage, MembershipList, RealtimeError,
};
use throng_metrics::Counter;
use throng_session::{Port, Shared};
use throng_solo::{Order as Wish, Solo};
use throng_types::{ConnId, End, Epoch, Frame, Millis, Now, Position, ShardId};
use throng_ws::{Masking, Opcode, encode_header};

use crate::Cx;
use crate::{
    Appwrite, AppwriteProject, AppwriteShared, Connection, Connections, EventHub, EventHubOptions,
    Lookup, LookupPriority, LookupReply, Order,
};

const PEER: IpAddr = IpAddr::V4(Ipv4Addr::new(203, 0, 113, 7));
const FILES: &str = "project=bench&channels[]=files";

/// Connections and the frames sent to them.
struct Shard {
    shared: Rc<Shared>,
    own: Rc<AppwriteShared>,
    world: Arc<World>,
    asked: Receiver<Lookup>,
    hub: EventHub,
    hall: Hall,
    now: Now,
}

/// Connections of a test's event hub.
struct Hall {
    sessions: BTreeMap<u32, Solo<Appwrite>>,
    sent: BTreeMap<u32, Vec<u8>>,
    ended: Vec<u32>,
    /// Changes passed to sessions, and refusals, each in order.
    changes: Vec<(ConnId, Change)>,
    refusals: Vec<(ConnId, RealtimeError, ConnectionPhase)>,
}

const fn conn(index: u32) -> ConnId {
    ConnId::new(ShardId(0), index, 1)
}

impl Connections for Hall {
    fn id(&self, index: u32) -> Option<ConnId> {
        self.sessions.contains_key(&index).then(|| conn(index))
    }

    fn say(&mut self, conn: ConnId, bytes: &[u8]) {
        self.sent.entry(conn.index()).or_default().extend(bytes);
    }

    fn deliver(&mut self, conn: ConnId, head: &[u8], tail: &Frame) {
        // As in the engine, a closing connection gets nothing more.
        if self.ended.contains(&conn.index()) {
            return;
        }
        let sent = self.sent.entry(conn.index()).or_default();
        sent.extend(head);
        sent.extend(&**tail);
    }

    fn changed(&mut self, conn: ConnId, what: &Change) {
        self.changes.push((conn, what.clone()));
    }

    fn recheck(&mut self, conn: ConnId) -> bool {
        let Some(solo) = self.sessions.get_mut(&conn.index()) else {
            return false;
        };
        let mut asks = false;
        solo.act(|session, cx| asks = session.recheck(cx));
        asks
    }

    fn refuse(&mut self, conn: ConnId, fault: &RealtimeError, phase: ConnectionPhase) {
        self.refusals.push((conn, fault.clone(), phase));
    }

    fn matched(&mut self, _: usize) {}

    fn recovered(&mut self, _: bool) {}
}

impl Shard {
    fn new() -> Self {
        let (sender, asked) = channel();
        let project = AppwriteProject {
            id: "bench".into(),
            platforms: throng_appwrite::Platforms::new(&["localhost"]),
        };
        let world = Arc::new(World::new(sender));
        let mut appwrite = AppwriteShared::new(vec![project], world.clone());
        appwrite.identifies = true;
        let options = EventHubOptions {
            seed: 1,
            history_ms: 1000,
            history_bytes_max: 1 << 20,
        };
        Self {
            shared: Rc::new(throng_solo::shared()),
            own: Rc::new(appwrite),
            world,
            asked,
            hub: EventHub::new(options),
            hall: Hall {
                sessions: BTreeMap::new(),
                sent: BTreeMap::new(),
                ended: Vec::new(),
                changes: Vec::new(),
                refusals: Vec::new(),
            },
            now: Now {
                mono: Millis(1000),
                unix_ms: 1_700_000_000_000,
            },
        }
    }

    /// Runs a session and carries out its orders.
    fn run(&mut self, index: u32, run: impl FnOnce(&mut Solo<Appwrite>)) {
        self.run_alone(index, run);
        self.settle();
    }

    fn run_alone(&mut self, index: u32, run: impl FnOnce(&mut Solo<Appwrite>)) {
        let Some(mut solo) = self.hall.sessions.remove(&index) else {
            return;
        };
        solo.now = self.now;
        run(&mut solo);
        self.hall.sessions.insert(index, solo);
        for order in self.gather(index) {
            self.hub.handle(order, &mut self.hall);
        }
    }

    /// Takes the output and orders of a session.
    fn gather(&mut self, index: u32) -> Vec<Order> {
        let solo = self.hall.sessions.get_mut(&index).expect("it is there");
        if solo.actions.end == Some(End::Flush) {
            self.hall.ended.push(index);
        }
        self.hall
            .sent
            .entry(index)
            .or_default()
            .append(&mut solo.out);
        let orders = solo.orders.drain(..).filter_map(|order| match order {
            Wish::Gateway(order) => Some(order),
            _ => None,
        });
        orders.collect()
    }

    fn act(&mut self, index: u32, act: impl FnOnce(&mut Connection, &mut Cx<'_>)) {
        self.run_alone(index, |solo| {
            solo.act(act);
        });
    }

    /// Carries out the hub's requests to sessions, until none is left.
    fn settle(&mut self) {
        while !(self.hall.changes.is_empty() && self.hall.refusals.is_empty()) {
            for (conn, what) in std::mem::take(&mut self.hall.changes) {
                self.act(conn.index(), |session, cx| session.changed(&what, cx));
            }
            for (conn, fault, phase) in std::mem::take(&mut self.hall.refusals) {
                self.act(conn.index(), |session, cx| {
                    session.refuse(&fault, phase, cx)
                });
            }
        }
    }

    fn open(&mut self, index: u32, query: &str, headers: &str) {
        self.open_from(PEER, index, query, headers);
    }

    fn open_from(&mut self, peer: IpAddr, index: u32, query: &str, headers: &str) {
        let solo = self.client(peer, index, &format!("/v1/realtime?{query}"), headers);
        self.hall.sessions.insert(index, solo);
        self.run(index, drop_head);
    }

    /// A client that has asked for a WebSocket.
    fn client(&self, peer: IpAddr, index: u32, target: &str, headers: &str) -> Solo<Appwrite> {
        let (shared, own) = (self.shared.clone(), self.own.clone());
        let mut solo = Solo::new(conn(index), Port::Client, peer, shared, own);
        solo.now = self.now;
        let request = format!(
            "GET {target} HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\n\
             Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\n\
             Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n{headers}\r\n"
        );
        solo.feed(request.as_bytes());
        solo
    }

    /// Opens as a user, and answers the question that follows.
    fn open_as(&mut self, index: u32, user: &str, query: &str) {
        let cookie = format!("Cookie: a_session_bench={user}\r\n");
        self.open(index, query, &cookie);
        assert!(
            self.frames(index).is_empty(),
            "first it must be known who it is"
        );
        let lookup = self.asked.try_recv().unwrap();
        assert_eq!(lookup.haste, LookupPriority::Open);
        self.answer(&lookup, user_of(user, &[]));
    }

    fn say(&mut self, index: u32, text: &str) {
        self.run(index, |solo| solo.feed(&text_frame(text)));
    }

    fn answer(&mut self, lookup: &Lookup, found: LookupReply) {
        let (index, token) = (lookup.conn.index(), lookup.token);
        self.act(index, |session, cx| session.found(token, found, cx));
        self.settle();
    }

    /// Events may have been lost.
    fn lose(&mut self) {
        for solo in self.hall.sessions.values_mut() {
            solo.now = self.now;
        }
        self.hub.begin(Position {
            epoch: Epoch(2),
            offset: 0,
        });
        self.recheck();
    }

    fn recheck(&mut self) {
        while self.hub.recheck_some(&mut self.hall) {}
        let all: Vec<u32> = self.hall.sessions.keys().copied().collect();
        all.into_iter().for_each(|index| self.run(index, |_| {}));
    }

    /// Lets time pass, and a connection's deadline come if it is due.
    fn wait(&mut self, index: u32, ms: u64) {
        self.now.mono = Millis(self.now.mono.0 + ms);
        self.now.unix_ms += ms;
        let due = self.hall.sessions[&index].actions.deadline.flatten();
        if due.is_some_and(|at| at <= self.now.mono) {
            self.run(index, |solo| solo.event(throng_session::Event::Timeout));
        }
    }

    fn event(&mut self, offset: u64, event: &Value) {
        let event = FeedMessage::parse(event.to_string().as_bytes(), 1 << 20).unwrap();
        let position = Position {
            epoch: Epoch(1),
            offset,
        };
        self.hub
            .event(&Arc::new(event), position, self.now, &mut self.hall);
        self.settle();
        let made = || self.hub.fan_out(2, &mut self.hall);
        let frames = std::iter::repeat_with(made).take_while(|&made| made > 0);
        assert!(frames.take(1000).all(|made| made <= 2));
        assert!(!self.hub.is_busy(), "frames without an end");
        self.settle();
    }

    /// Takes the frames sent to a connection; a close frame becomes its code.
    fn frames(&mut self, index: u32) -> Vec<Value> {
        let sent = std::mem::take(self.hall.sent.entry(index).or_default());
        let (mut frames, mut rest) = (Vec::new(), &sent[..]);
        while let [opcode, length, after @ ..] = rest {
            let (length, after) = match length {
                126 => (
                    usize::from(u16::from_be_bytes([after[0], after[1]])),
                    &after[2..],
                ),
                length => (usize::from(*length), after),
            };
            let (payload, after) = after.split_at(length);
            rest = after;
            frames.push(match opcode & 15 {
                8 => json!({ "close": u16::from_be_bytes([payload[0], payload[1]]) }),
                _ => serde_json::from_slice(payload).unwrap(),
            });
        }
        frames
    }

    /// The ids of the events that a connection was sent.
    fn heard(&mut self, index: u32) -> Vec<String> {
        let frames = self.frames(index);
        let ids = frames
            .iter()
            .map(|frame| frame["data"]["payload"]["$id"].as_str());
        ids.map(|id| id.unwrap_or_else(|| panic!("{frames:?}")).to_owned())
            .collect()
    }

    /// Whether a session owns nothing beside its slot.
    fn is_bare(&mut self, index: u32) -> bool {
        let solo = self.hall.sessions.get_mut(&index);
        solo.and_then(Solo::session)
            .is_some_and(|session| session.more.is_none())
    }
}

/// Takes the answer to the handshake out of a session's output.
fn drop_head(solo: &mut Solo<Appwrite>) {
    let head = solo.out.windows(4).position(|end| end == b"\r\n\r\n");
    solo.out.drain(..head.expect("an answer") + 4);
}

fn text_frame(text: &str) -> Vec<u8> {
    let mut frame = Vec::new();
    // A key of zeros leaves the payload as it is.
    let masking = Masking::Client([0; 4]);
    encode_header(masking, Opcode::Text, text.len(), &mut frame);
    frame.extend(text.as_bytes());
    frame
}

fn user_of(user: &str, teams: &[&str]) -> LookupReply {
    let account = json!({"$id": user, "emailVerification": true}).to_string();
    let memberships = teams.iter().map(
        |team| json!({"$id": "m", "userId": user, "teamId": team, "confirm": true, "roles": []}),
    );
    let memberships = json!({ "memberships": memberships.collect::<Vec<_>>() }).to_string();
    let list = MembershipList {
        body: memberships.as_bytes(),
        is_own: true,
    };
    let identity = AppwriteIdentity::from_account(account.as_bytes(), &[list]);
    LookupReply::User(Arc::new(identity.unwrap()))
}

fn event(id: &str, role: &str) -> Value {
    json!({
        "project": "bench", "roles": [role], "permissionsChanged": false, "userId": null,
        "data": {"events": [format!("buckets.B.files.{id}.create")], "channels": ["files"],
                 "timestamp": "2026-08-21T12:42:57.123+00:00", "payload": {"$id": id}}
    })
}

/// Event about a change of a user without details.
fn change(id: &str, user: &str, role: &str) -> Value {
    let mut event = event(id, role);
    event["permissionsChanged"] = json!(true);
    event["userId"] = json!(user);
    event
}

mod dialogues;
mod ends;
mod events;
mod history;
mod identity;
mod opening;
mod questions;
mod turn;
mod words;
mod world;

use world::World;

#[test]
fn an_idle_guest_owns_nothing() {
    let mut shard = Shard::new();
    shard.open(0, "project=console&channels[]=files", "");
    let connected = shard.frames(0).remove(0);
    assert_eq!(connected["data"]["channels"], json!(["files"]));
    assert!(shard.is_bare(0));
    shard.open(1, "project=bench", "Origin: http://localhost:1\r\n");
    shard.say(1, r#"{"type":"subscribe","data":[{"channels":["files"]}]}"#);
    assert_eq!(shard.frames(1).len(), 2);
    assert!(shard.is_bare(1));
    // A user who signs out is a guest again, in this too.
    shard.open_as(2, "ann", FILES);
    assert!(!shard.is_bare(2));
    shard.event(1, &change("A", "ann", "user:ann"));
    let lookup = shard.asked.try_recv().unwrap();
    shard.answer(&lookup, LookupReply::Nobody);
    assert!(shard.is_bare(2));
}

#[test]
fn a_crowd_hears_in_order_some_at_a_time() {
    let mut shard = Shard::new();
    for index in 0..7 {
        shard.open(index, FILES, "");
        shard.frames(index);
    }
    shard.event(1, &event("A", "any"));
    shard.event(2, &event("B", "guests"));
    shard.event(3, &event("C", "users"));
    for index in 0..7 {
        assert_eq!(shard.heard(index), ["A", "B"]);
    }
}

#[test]
fn nothing_comes_before_connected() {
    let mut shard = Shard::new();
    shard.open(0, FILES, "Cookie: a_session_bench=ann\r\n");
    let lookup = shard.asked.try_recv().unwrap();
    shard.event(1, &event("A", "any"));
    shard.say(0, r#"{"type":"ping"}"#);
    assert!(shard.frames(0).is_empty());
    shard.answer(&lookup, user_of("ann", &[]));
    shard.event(2, &event("B", "user:ann"));
    let frames = shard.frames(0);
    let types: Vec<&Value> = frames.iter().map(|frame| &frame["type"]).collect();
    assert_eq!(types, ["connected", "pong", "event"]);
    assert_eq!(frames[0]["data"]["user"]["$id"], "ann");
    // The answer to an old lookup is ignored.
    shard.answer(&lookup, user_of("bob", &[]));
    shard.event(3, &event("C", "user:bob"));
    assert!(shard.frames(0).is_empty());
}

#[test]
fn an_answer_that_does_not_come_ends_the_connection() {
    let mut shard = Shard::new();
    let cookie = "Cookie: a_session_bench=ann\r\n";
    shard.open(0, FILES, cookie);
    let lookup = shard.asked.try_recv().unwrap();
    shard.answer(&lookup, LookupReply::Failed);
    shard.open(1, FILES, cookie);
    shard.run(1, |solo| solo.event(throng_session::Event::Timeout));
    for index in [0, 1] {
        assert_eq!(shard.frames(index)[1], json!({ "close": 1011 }));
    }
    assert_eq!(shard.hub.connections(), 0);
}

#[test]
fn those_who_left_are_not_in_the_room() {
    let mut shard = Shard::new();
    shard.open(0, &format!("{FILES}&recover="), "");
    shard.open_as(1, "ann", FILES);
    assert_eq!(shard.hub.connections(), 2);
    shard.event(1, &change("A", "ann", "any"));
    for index in [0, 1] {
        shard.hall.sessions.remove(&index);
        shard.hub.leave(index);
        shard.hub.leave(index);
    }
    assert_eq!(shard.hub.connections(), 0);
    // The slot's next connection has nothing of the last one's.
    for index in [0, 1] {
        shard.open(index, FILES, "");
        shard.frames(index);
    }
    shard.event(2, &event("B", "any"));
    for index in [0, 1] {
        let frames = shard.frames(index);
        assert_eq!(frames[0]["data"]["payload"]["$id"], "B");
        assert_eq!(frames[0]["data"]["position"], Value::Null);
    }
}

#[test]
fn what_was_missed_is_bounded_by_age() {
    let mut shard = Shard::new();
    for offset in 1..=3 {
        shard.now.mono = Millis(1000 + 400 * offset);
        shard.event(offset, &event("A", "any"));
    }
    let recovered = |shard: &mut Shard, since: &str| {
        shard.hub.leave(0);
        shard.open(0, &format!("{FILES}&recover={since}"), "");
        let frames = shard.frames(0);
        assert_eq!(frames[1]["data"]["position"], "1-3");
        (frames[1]["data"]["recovered"] == true, frames.len() - 2)
    };
    assert_eq!(recovered(&mut shard, "1-0"), (true, 3));
    assert_eq!(recovered(&mut shard, "1-3"), (true, 0));
    for nowhere in ["1-4", "2-3", "", "1", "-", "1-x"] {
        assert_eq!(recovered(&mut shard, nowhere), (false, 0), "{nowhere}");
    }
    shard.now.mono = Millis(2900);
    shard.hub.tick(shard.now, &mut shard.hall);
    assert_eq!(recovered(&mut shard, "1-1"), (false, 0));
    assert_eq!(recovered(&mut shard, "1-2"), (true, 1));
}

#[test]
fn pages_of_other_hosts_are_refused() {
    for (origin, expected) in [
        ("Origin: https://localhost\r\n", "connected"),
        ("", "connected"),
        ("Origin: https://evil.example\r\n", "error"),
        ("Origin: https://localhost.evil.example\r\n", "error"),
    ] {
        let mut shard = Shard::new();
        shard.open(1, "project=bench&channels[]=a", origin);
        let told = shard.frames(1);
        assert_eq!(told[0]["type"], expected, "{origin}: {told:?}");
    }
}
