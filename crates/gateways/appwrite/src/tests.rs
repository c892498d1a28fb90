//! The gateway on its shard without sockets: bytes and news in, frames out, and a world that
//! answers when told to.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, Ipv4Addr};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};

use serde_json::{Value, json};
use throng_appwrite::{
    AppwriteIdentity, Change, ConnectionPhase, FeedMessage, MembershipList, RealtimeError,
};
use throng_broker::{Draft, Published, Refusal};
use throng_hub::Hub;
use throng_metrics::{Counter, Gauge};
use throng_session::{Flow, Gateway, Own, Port, Shared};
use throng_solo::{Order as Wish, Solo};
use throng_types::{ConnId, End, Epoch, Frame, Millis, Now, Position, ShardId};
use throng_ws::{Masking, Opcode, encode_header};

use crate::Cx;
use crate::{
    Appwrite, AppwriteProject, AppwriteShared, Connection, Connections, EventHub, EventHubOptions,
    Inbox, Lookup, LookupPriority, LookupReply, News, Order,
};

const PEER: IpAddr = IpAddr::V4(Ipv4Addr::new(203, 0, 113, 7));
const FILES: &str = "project=bench&channels[]=files";
/// `{"userId":"ann","sessionId":"S","exp":1700000060}`: a minute after the clock's start.
const TOKEN: &str = "e30.eyJ1c2VySWQiOiJhbm4iLCJzZXNzaW9uSWQiOiJTIiwiZXhwIjoxNzAwMDAwMDYwfQ.x";
const QUEUE_BYTES_MAX: usize = 1 << 20;

/// The queue of news, whose other end the test holds.
#[derive(Clone, Default)]
struct Post(Rc<RefCell<VecDeque<News>>>);

impl Inbox for Post {
    fn next(&mut self) -> Option<News> {
        self.0.borrow_mut().pop_front()
    }
}

/// The connections of a shard, without their sockets.
struct Floor {
    shared: Rc<Shared>,
    own: Rc<AppwriteShared>,
    now: Now,
    sessions: BTreeMap<u32, Solo<Appwrite>>,
    sent: BTreeMap<u32, Vec<u8>>,
    ended: Vec<u32>,
    orders: Vec<Order>,
    /// Bytes queued for each of them, beside those of the current turn.
    queued: BTreeMap<u32, usize>,
}

const fn conn(index: u32) -> ConnId {
    ConnId::new(ShardId(0), index, 1)
}

impl Floor {
    /// Takes the output and orders of a session.
    fn gather(&mut self, index: u32) {
        let solo = self.sessions.get_mut(&index).expect("it is there");
        if solo.actions.end == Some(End::Flush) && !self.ended.contains(&index) {
            self.ended.push(index);
        }
        self.sent.entry(index).or_default().append(&mut solo.out);
        let orders = solo.orders.drain(..).filter_map(|order| match order {
            Wish::Gateway(order) => Some(order),
            _ => None,
        });
        self.orders.extend(orders);
    }
}

impl throng_session::ShardCalls<Appwrite> for Floor {
    fn this(&self) -> ShardId {
        ShardId(0)
    }

    fn shards(&self) -> u8 {
        1
    }

    fn now(&self) -> Now {
        self.now
    }

    fn shared(&self) -> &Shared {
        &self.shared
    }

    fn hub(&self) -> &Hub {
        panic!("Appwrite has a hub of its own")
    }

    fn publish(&mut self, draft: Draft) -> Result<Published, (Refusal, Draft)> {
        Err((Refusal::Busy, draft))
    }

    fn survey(&mut self, survey: throng_session::Survey) {
        panic!("{survey:?}")
    }

    fn is_connected(&self, conn: ConnId) -> bool {
        self.conn(conn.index()) == Some(conn)
    }

    fn conn(&self, index: u32) -> Option<ConnId> {
        self.sessions.contains_key(&index).then(|| conn(index))
    }

    fn sessions(&self) -> Vec<ConnId> {
        self.sessions.keys().copied().map(conn).collect()
    }

    fn queued_bytes(&self, conn: ConnId) -> usize {
        self.queued.get(&conn.index()).copied().unwrap_or_default()
    }

    fn with(
        &mut self,
        conn: ConnId,
        act: impl FnOnce(&mut Connection, &mut Own<'_, Appwrite>) -> Flow,
    ) -> bool {
        let now = self.now;
        let Some(solo) = self.sessions.get_mut(&conn.index()) else {
            return false;
        };
        solo.now = now;
        let acted = solo.act(act).is_some();
        self.gather(conn.index());
        acted
    }

    fn with_gone(
        &mut self,
        _: ConnId,
        _: &mut Connection,
        _: impl FnOnce(&mut Connection, &mut Own<'_, Appwrite>),
    ) {
    }

    fn take_orders(&mut self) -> Vec<Order> {
        std::mem::take(&mut self.orders)
    }

    fn deliver(&mut self, conn: ConnId, head: &[u8], tail: &Frame) {
        // As in the engine, a closing connection gets nothing more.
        if !self.ended.contains(&conn.index()) {
            let sent = self.sent.entry(conn.index()).or_default();
            sent.extend(head);
            sent.extend(&**tail);
        }
    }

    fn has_room(&self, _: ShardId) -> bool {
        true
    }

    fn mail(&mut self, _: ShardId, mail: std::convert::Infallible) {
        match mail {}
    }
}

/// A gateway, its connections and its news.
struct Server {
    appwrite: Appwrite,
    floor: Floor,
    post: Post,
    world: Arc<World>,
    asked: Receiver<Lookup>,
}

impl Server {
    fn new() -> Self {
        Self::with(|_| {})
    }

    /// A server with other options.
    fn with(change: impl FnOnce(&mut AppwriteShared)) -> Self {
        let (sender, asked) = channel();
        let project = AppwriteProject {
            id: "bench".into(),
            platforms: throng_appwrite::Platforms::new(&["localhost"]),
        };
        let world = Arc::new(World::new(sender));
        let mut own = AppwriteShared::new(vec![project], world.clone());
        own.identifies = true;
        change(&mut own);
        let options = EventHubOptions {
            seed: 1,
            history_ms: 60_000,
            history_bytes_max: 1 << 20,
        };
        let post = Post::default();
        let appwrite = Appwrite::new(own, options, Box::new(post.clone()), QUEUE_BYTES_MAX);
        let floor = Floor {
            shared: Rc::new(throng_solo::shared()),
            own: appwrite.shared(),
            now: Now {
                mono: Millis(1000),
                unix_ms: 1_700_000_000_000,
            },
            sessions: BTreeMap::new(),
            sent: BTreeMap::new(),
            ended: Vec::new(),
            orders: Vec::new(),
            queued: BTreeMap::new(),
        };
        Self {
            appwrite,
            floor,
            post,
            world,
            asked,
        }
    }

    /// Changes what is shared by all gateways, before anybody connects.
    fn shared(&mut self) -> &mut Shared {
        Rc::get_mut(&mut self.floor.shared).expect("nobody has it yet")
    }

    /// Runs a session, and carries out orders and news until nothing waits.
    fn run(&mut self, index: u32, run: impl FnOnce(&mut Solo<Appwrite>)) {
        let now = self.floor.now;
        let Some(solo) = self.floor.sessions.get_mut(&index) else {
            return;
        };
        solo.now = now;
        run(solo);
        self.acted(index);
        self.turn();
    }

    /// Takes what a session has done, and carries out its orders.
    fn acted(&mut self, index: u32) {
        self.floor.gather(index);
        for order in std::mem::take(&mut self.floor.orders) {
            self.appwrite.order(order, &mut self.floor);
        }
    }

    fn open(&mut self, index: u32, query: &str, headers: &str) {
        self.open_from(PEER, index, query, headers);
    }

    fn open_from(&mut self, peer: IpAddr, index: u32, query: &str, headers: &str) {
        let mut solo = self.client(peer, index, &format!("/v1/realtime?{query}"), headers);
        let head = solo.out.windows(4).position(|end| end == b"\r\n\r\n");
        solo.out.drain(..head.expect("an answer") + 4);
        self.floor.sessions.insert(index, solo);
        self.acted(index);
    }

    /// A client that has asked for a WebSocket.
    fn client(&self, peer: IpAddr, index: u32, target: &str, headers: &str) -> Solo<Appwrite> {
        let (shared, own) = (self.floor.shared.clone(), self.floor.own.clone());
        let mut solo = Solo::new(conn(index), Port::Client, peer, shared, own);
        solo.now = self.floor.now;
        // No page of the test is of this host.
        let fields = throng_solo::WEBSOCKET;
        let head = format!("GET {target} HTTP/1.1\r\nHost: x\r\n{fields}{headers}\r\n");
        solo.feed(head.as_bytes());
        solo
    }

    /// Opens as a user of these teams, and answers the question that follows.
    fn open_as(&mut self, index: u32, user: &str, teams: &[&str], query: &str) {
        self.open(index, query, &format!("Cookie: a_session_bench={user}\r\n"));
        assert_eq!(
            self.frames(index),
            [Value::Null; 0],
            "nobody knows who it is"
        );
        let lookup = self.lookup();
        assert_eq!(lookup.haste, LookupPriority::Open);
        self.answer(&lookup, user_of(user, teams));
    }

    /// Closes a connection from the client's side.
    fn close(&mut self, index: u32) {
        let solo = self.floor.sessions.remove(&index);
        let session = solo.and_then(|mut solo| {
            solo.act(|session, cx| std::mem::replace(session, Connection::new(cx)))
        });
        let session = session.expect("a session");
        self.appwrite.closed(conn(index), session, &mut self.floor);
    }

    fn say(&mut self, index: u32, text: &str) {
        self.run(index, |solo| solo.feed(&text_frame(text)));
    }

    fn act(&mut self, index: u32, act: impl FnOnce(&mut Connection, &mut Cx<'_>)) {
        self.run(index, |solo| {
            solo.act(act);
        });
    }

    #[track_caller]
    fn lookup(&self) -> Lookup {
        self.asked.try_recv().expect("a question")
    }

    #[track_caller]
    fn nothing_asked(&self) {
        if let Ok(lookup) = self.asked.try_recv() {
            panic!("{lookup:?}");
        }
    }

    fn answer(&mut self, lookup: &Lookup, found: LookupReply) {
        let (conn, token) = (lookup.conn, lookup.token);
        self.news(News::Found { conn, token, found });
        self.turn();
    }

    fn news(&self, news: News) {
        self.post.0.borrow_mut().push_back(news);
    }

    /// Hands an event to the gateway, whose next turn takes it.
    fn event(&self, offset: u64, event: &Value) {
        let event = FeedMessage::parse(event.to_string().as_bytes(), 1 << 20);
        self.news(News::Event {
            event: Arc::new(event.expect("an event")),
            position: Position {
                epoch: Epoch(1),
                offset,
            },
        });
    }

    /// Begins a new epoch: events may have been lost.
    fn begin(&mut self, epoch: u64) {
        let epoch = Epoch(epoch);
        self.news(News::Began(Position { epoch, offset: 0 }));
        self.turn();
    }

    /// Takes turns until nothing waits.
    fn turn(&mut self) {
        let mut turns = 0..1000;
        let is_over = turns.any(|_| !self.appwrite.turn(1000, &mut self.floor));
        assert!(is_over, "turns without an end");
    }

    fn pass(&mut self, ms: u64) {
        self.floor.now.mono = self.floor.now.mono + ms;
        self.floor.now.unix_ms += ms;
    }

    /// Lets time pass, and a connection's deadline come if it is due.
    fn wait(&mut self, index: u32, ms: u64) {
        self.pass(ms);
        if self
            .deadline(index)
            .is_some_and(|at| at <= self.floor.now.mono)
        {
            self.run(index, |solo| solo.event(throng_session::Event::Timeout));
        }
    }

    fn deadline(&self, index: u32) -> Option<Millis> {
        self.floor.sessions[&index].actions.deadline.flatten()
    }

    /// Takes the frames sent to a connection; a close frame becomes its code.
    fn frames(&mut self, index: u32) -> Vec<Value> {
        let sent = std::mem::take(self.floor.sent.entry(index).or_default());
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
        let solo = self.floor.sessions.get_mut(&index);
        solo.and_then(Solo::session)
            .is_some_and(|session| session.more.is_none())
    }

    /// Refusals so far, each with its reason.
    fn refusals(&self) -> Vec<String> {
        let of_ours = Counter::ALL
            .iter()
            .filter(|it| it.name() == "throng_appwrite_refused_total");
        let counts = of_ours.map(|it| (it.label().expect("a reason").value, self.counted(*it)));
        let counts = counts.filter(|(_, count)| *count > 0);
        counts
            .map(|(reason, count)| format!("{reason}:{count}"))
            .collect()
    }

    fn counted(&self, counter: Counter) -> u64 {
        self.floor.shared.counters.counter(counter)
    }
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

/// Event of stock for a change of a membership; `roles` if the user is in the team.
fn membership(id: &str, user: &str, team: &str, roles: Option<&[&str]>) -> Value {
    let mut event = change(id, user, &format!("team:{team}"));
    let action = if roles.is_some() { "update" } else { "delete" };
    event["data"]["events"] = json!([format!("teams.{team}.memberships.m.{action}")]);
    event["data"]["payload"] =
        json!({"$id": "m", "teamId": team, "userId": "", "confirm": true, "roles": roles});
    event
}

/// As stock publishes it when an account changes.
fn account(user: &str, what: &str, payload: Value) -> Value {
    let mut event = event("X", &format!("user:{user}"));
    event["data"]["events"] = json!([format!("users.{user}.{what}")]);
    event["data"]["channels"] = json!(["account", format!("account.{user}")]);
    event["data"]["payload"] = payload;
    event
}

mod dialogues;
mod ends;
mod events;
mod history;
mod opening;
mod questions;
mod turn;
mod world;

use world::World;
