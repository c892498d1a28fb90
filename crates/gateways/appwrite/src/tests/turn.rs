//! The gateway on its shard, turn by turn: news in, frames out, and connections that lag or go.

mod moved;
mod presence;

use std::cell::RefCell;
use std::collections::VecDeque;

use throng_broker::{Draft, Published, Refusal};
use throng_hub::Hub;
use throng_metrics::Gauge;
use throng_session::{Flow, Gateway, Own};

use super::*;
use crate::{Inbox, News};

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
    hall: Shard,
    orders: Vec<Order>,
    /// Bytes queued for each of them, beside those of the current turn.
    queued: BTreeMap<u32, usize>,
}

impl throng_session::ShardCalls<Appwrite> for Floor {
    fn this(&self) -> ShardId {
        ShardId(0)
    }

    fn shards(&self) -> u8 {
        1
    }

    fn now(&self) -> Now {
        self.hall.now
    }

    fn shared(&self) -> &Shared {
        &self.hall.shared
    }

    fn hub(&self) -> &Hub {
        panic!("Appwrite has a hub of its own")
    }

    fn publish(&mut self, draft: Draft) -> Result<Published, (Refusal, Draft)> {
        Err((Refusal::Busy, draft))
    }

    fn is_connected(&self, conn: ConnId) -> bool {
        self.conn(conn.index()) == Some(conn)
    }

    fn conn(&self, index: u32) -> Option<ConnId> {
        self.hall.hall.id(index)
    }

    fn sessions(&self) -> Vec<ConnId> {
        self.hall.hall.sessions.keys().copied().map(conn).collect()
    }

    fn queued_bytes(&self, conn: ConnId) -> usize {
        self.queued.get(&conn.index()).copied().unwrap_or_default()
    }

    fn with(
        &mut self,
        conn: ConnId,
        act: impl FnOnce(&mut Connection, &mut Own<'_, Appwrite>) -> Flow,
    ) -> bool {
        let now = self.hall.now;
        let Some(solo) = self.hall.hall.sessions.get_mut(&conn.index()) else {
            return false;
        };
        solo.now = now;
        let acted = solo.act(act).is_some();
        let orders = self.hall.gather(conn.index());
        self.orders.extend(orders);
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
        self.hall.hall.deliver(conn, head, tail);
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
}

impl Server {
    fn new() -> Self {
        Self::with(|_| {})
    }

    fn with(change: impl FnOnce(&mut AppwriteShared)) -> Self {
        let hall = Shard::new();
        let options = EventHubOptions {
            seed: 1,
            history_ms: 60_000,
            history_bytes_max: 1 << 20,
        };
        let post = Post::default();
        let mut own = AppwriteShared::clone(&hall.own);
        change(&mut own);
        let inbox = Box::new(post.clone());
        let appwrite = Appwrite::new(own, options, inbox, QUEUE_BYTES_MAX);
        let mut floor = Floor {
            hall,
            orders: Vec::new(),
            queued: BTreeMap::new(),
        };
        floor.hall.own = appwrite.shared();
        Self {
            appwrite,
            floor,
            post,
        }
    }

    /// Carries out the orders of sessions.
    fn settle(&mut self) {
        for order in std::mem::take(&mut self.floor.orders) {
            self.appwrite.order(order, &mut self.floor);
        }
    }

    fn open(&mut self, index: u32, query: &str) {
        let target = format!("/v1/realtime?{query}");
        let mut solo = self.floor.hall.client(PEER, index, &target, "");
        drop_head(&mut solo);
        self.floor.hall.hall.sessions.insert(index, solo);
        self.acted(index);
    }

    /// Takes what a session has done.
    fn acted(&mut self, index: u32) {
        let orders = self.floor.hall.gather(index);
        self.floor.orders.extend(orders);
        self.settle();
    }

    /// Closes a connection from the client's side.
    fn close(&mut self, index: u32) {
        let solo = self.floor.hall.hall.sessions.remove(&index);
        let session = solo.and_then(|mut solo| {
            solo.act(|session, cx| std::mem::replace(session, Connection::new(cx)))
        });
        let session = session.expect("a session");
        self.appwrite.closed(conn(index), session, &mut self.floor);
    }

    fn open_as(&mut self, index: u32, user: &str, query: &str) {
        self.open(index, &format!("{query}&jwt={user}"));
        let lookup = self.asked();
        self.answer(&lookup, user_of(user, &[]));
        let told = self.floor.hall.frames(index);
        assert_eq!(told[0]["type"], "connected");
    }

    #[track_caller]
    fn asked(&self) -> Lookup {
        self.floor.hall.asked.try_recv().expect("a question")
    }

    fn answer(&mut self, lookup: &Lookup, found: LookupReply) {
        let (conn, token) = (lookup.conn, lookup.token);
        self.news(News::Found { conn, token, found });
        self.turn();
    }

    fn news(&self, news: News) {
        self.post.0.borrow_mut().push_back(news);
    }

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

    /// Takes turns until nothing waits.
    fn turn(&mut self) {
        let mut turns = 0..100;
        let is_over = turns.any(|_| !self.appwrite.turn(1000, &mut self.floor));
        assert!(is_over, "turns without an end");
    }

    fn heard(&mut self, index: u32) -> Vec<String> {
        self.floor.hall.heard(index)
    }

    fn frames(&mut self, index: u32) -> Vec<Value> {
        self.floor.hall.frames(index)
    }

    fn counted(&self, counter: Counter) -> u64 {
        self.floor.hall.shared.counters.counter(counter)
    }
}

/// Events keep their order, however few frames a turn allows; and a turn reports whether more
/// waits.
#[test]
fn a_turn_makes_so_many_frames_and_no_more() {
    let mut server = Server::new();
    for index in 0..3 {
        server.open(index, FILES);
        server.frames(index);
    }
    server.event(1, &event("A", "any"));
    server.event(2, &event("B", "any"));
    let mut heard = vec![Vec::new(); 3];
    for (frames_max, more, total) in [(2, true, 2), (2, true, 4), (5, false, 6), (5, false, 6)] {
        let told = server.appwrite.turn(frames_max, &mut server.floor);
        assert_eq!(told, more, "after {total} frames");
        for index in 0..3 {
            heard[index as usize].extend(server.heard(index));
        }
        assert_eq!(heard.iter().map(Vec::len).sum::<usize>(), total);
    }
    assert_eq!(heard, vec![["A", "B"]; 3]);
    assert_eq!(server.counted(Counter::AppwriteMatches), 6);
}

/// Large events of one turn must not look like a queue that is never emptied.
#[test]
fn a_turn_takes_a_quarter_of_a_queue() {
    let mut server = Server::new();
    server.open(0, FILES);
    server.frames(0);
    let mut large = event("A", "any");
    large["data"]["payload"]["text"] = json!("x".repeat(60_000));
    for offset in 1..=9 {
        server.event(offset, &large);
    }
    assert!(server.appwrite.turn(1000, &mut server.floor));
    assert_eq!(
        server.heard(0).len(),
        5,
        "a quarter, and what goes beyond it"
    );
    assert!(!server.appwrite.turn(1000, &mut server.floor));
    assert_eq!(server.heard(0).len(), 4);
}

/// Frames that fit to the last byte are sent; a connection without room for them ends, once.
#[test]
fn a_client_that_lags_is_told_to_come_back() {
    let mut server = Server::new();
    for index in 0..3 {
        server.open(index, FILES);
        server.frames(index);
    }
    server.event(1, &event("A", "any"));
    server.turn();
    let bytes = server.floor.hall.hall.sent[&0].len();
    (0..3).for_each(|index| assert_eq!(server.heard(index), ["A"]));
    server.floor.queued.insert(1, QUEUE_BYTES_MAX - bytes);
    server.floor.queued.insert(2, QUEUE_BYTES_MAX - bytes + 1);
    server.event(2, &event("B", "any"));
    server.event(3, &event("C", "any"));
    server.turn();
    assert_eq!(server.heard(0), ["B", "C"]);
    assert_eq!(server.heard(1), ["B", "C"]);
    assert_eq!(server.frames(2), [json!({ "close": 1013 })]);
    assert_eq!(server.counted(Counter::DroppedClose), 1);
}

/// A connection that closes between two turns gets nothing, and neither does the slot's next
/// connection.
#[test]
fn who_goes_lets_go_of_everything() {
    let mut server = Server::new();
    server.open(0, "project=console&channels[]=files");
    for index in [1, 2] {
        server.open(index, FILES);
        server.frames(index);
    }
    server.appwrite.tick(&mut server.floor);
    let gauge = Gauge::AppwriteConnections;
    assert_eq!(server.floor.hall.shared.counters.gauge(gauge), 3);
    server.event(1, &event("A", "any"));
    assert!(server.appwrite.turn(0, &mut server.floor));
    server.close(1);
    server.turn();
    assert_eq!((server.heard(1).len(), server.heard(2).len()), (0, 1));
    server.appwrite.tick(&mut server.floor);
    assert_eq!(server.floor.hall.shared.counters.gauge(gauge), 2);
}

/// A project that only `*` allows is remembered while it has connections.
#[test]
fn the_last_client_of_a_project_takes_its_number_along() {
    let mut server = Server::with(|own| {
        let any = AppwriteProject {
            id: "*".into(),
            platforms: throng_appwrite::Platforms::new(&["*"]),
        };
        *own = AppwriteShared::new(vec![any], own.outside.clone());
    });
    for index in [0, 1] {
        server.open(index, "project=x&channels[]=files");
        assert_eq!(server.frames(index)[0]["type"], "connected");
    }
    // The configuration has two: this one and the console.
    let own = server.floor.hall.own.clone();
    for (index, id) in [(0, "x"), (1, "")] {
        server.close(index);
        assert_eq!(&*own.projects.id(2), id);
    }
}

/// Every five seconds, for guests of the console.
#[test]
fn the_channel_tests_has_an_event_every_five_seconds() {
    let mut server = Server::new();
    server.open(0, "project=console&channels[]=tests");
    server.frames(0);
    let mut heard = Vec::new();
    for at_ms in [0, 1000, 4999, 5000, 5001, 9999, 10_000] {
        server.floor.hall.now.mono = Millis(1000 + at_ms);
        server.appwrite.tick(&mut server.floor);
        server.turn();
        if !server.frames(0).is_empty() {
            heard.push(at_ms);
        }
    }
    assert_eq!(heard, [0, 5000, 10_000]);
}

#[test]
fn changes_of_users_reach_their_sessions() {
    let mut server = Server::new();
    server.open_as(0, "ann", FILES);
    server.event(1, &change("A", "ann", "user:ann"));
    server.turn();
    let lookup = server.asked();
    assert_eq!(
        (lookup.conn, lookup.haste),
        (conn(0), LookupPriority::Change)
    );
    assert!(server.frames(0).is_empty());
    server.answer(&lookup, user_of("ann", &[]));
    assert_eq!(server.heard(0), ["A"]);
    // Events may have been lost: it is asked again, and not before those who wait to come in, be
    // there one gap or more.
    let began = News::Began(Position {
        epoch: Epoch(1),
        offset: 0,
    });
    server.news(began.clone());
    server.turn();
    let first = server.asked();
    server.news(began);
    server.turn();
    server.answer(&first, user_of("ann", &[]));
    let second = server.asked();
    assert_eq!(
        (first.haste, second.haste),
        (LookupPriority::Recheck, LookupPriority::Recheck)
    );
    server.answer(&second, user_of("ann", &[]));
    // More than is held back without an answer.
    server.event(1, &change("A", "ann", "user:ann"));
    for offset in 2..300 {
        server.event(offset, &event("B", "user:ann"));
    }
    server.turn();
    let told = server.frames(0);
    assert_eq!(told[0]["data"]["code"], 500, "{told:?}");
    assert_eq!(told[1..], [json!({ "close": 1011 })]);
    assert_eq!(server.counted(Counter::AppwriteRefusedServer), 1);
}

#[test]
fn recoveries_are_counted() {
    let mut server = Server::new();
    server.open(0, FILES);
    for offset in 1..=2 {
        server.event(offset, &event("A", "any"));
    }
    server.turn();
    for (index, since) in [(1, "1-0"), (2, "1-2"), (3, "7-0"), (4, "")] {
        server.open(index, &format!("{FILES}&recover={since}"));
    }
    assert_eq!(server.counted(Counter::RecoveredComplete), 2);
    assert_eq!(server.counted(Counter::RecoveredFailed), 1);
}

/// The first connection gets the event of the channel `tests` at once, however long none was there;
/// and it does not come between an event and its frames.
#[test]
fn the_event_of_the_channel_tests_waits_for_somebody_and_for_its_turn() {
    let mut server = Server::new();
    server.appwrite.tick(&mut server.floor);
    server.open(0, "project=console&channels[]=tests");
    server.open(1, FILES);
    (0..2).for_each(|index| drop(server.frames(index)));
    server.event(1, &event("A", "any"));
    assert!(server.appwrite.turn(0, &mut server.floor));
    server.appwrite.tick(&mut server.floor);
    server.turn();
    assert_eq!(server.heard(1), ["A"]);
    assert!(server.frames(0).is_empty());
    server.appwrite.tick(&mut server.floor);
    server.turn();
    let told = server.frames(0).remove(0);
    assert_eq!(
        told["data"]["payload"]["response"],
        "WS:/v1/realtime:passed"
    );
    assert!(server.frames(1).is_empty());
}
