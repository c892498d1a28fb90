//! All shards of the gateway with their hubs, without sockets: input of clients and publishers goes
//! in, their output comes out, and a test plays the backends.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};

use throng_broker::{ChannelOptions, Draft, NamespaceOptions, Published, Refusal, home_of};
use throng_hub::{Batch, Format, Hub, Patch, ReplyTo, Sink};
use throng_session::{Context, FormKind, Gateway, Sender, ShardCalls, Shared};
use throng_types::{Actions, Frame, Now};

use super::*;
use crate::exchanges::OriginExchange;
use crate::{Mail, OriginClient, Session};

pub(super) const SHARDS: u8 = 3;
/// Rounds of all shards after which everything must be quiet.
const ROUNDS_MAX: usize = 1000;

/// The sessions of a shard, its hub, and the mail that it sends.
pub(super) struct Floor {
    pub(super) this: u8,
    pub(super) clients: BTreeMap<ConnId, Client>,
    pub(super) shared: Rc<Shared>,
    own: Rc<GripShared>,
    pub(super) hub: Hub,
    pub(super) now: Now,
    pub(super) mails: Vec<(ShardId, Mail)>,
    /// Orders of sessions whose connection has closed.
    left_over: Vec<Order>,
    /// No other shard takes questions.
    pub(super) is_full: bool,
}

impl Floor {
    pub(super) fn new(this: u8, own: Rc<GripShared>) -> Self {
        let options = ChannelOptions::default();
        let named = vec![(crate::NAMESPACE.into(), options)];
        let namespaces = Arc::new(NamespaceOptions::new(options, named));
        Self {
            this,
            clients: BTreeMap::new(),
            shared: Rc::new(throng_solo::shared()),
            own,
            hub: throng_solo::hub(ShardId(this), SHARDS, &namespaces),
            now: Now {
                mono: Millis(1_000_000),
                unix_ms: 0,
            },
            mails: Vec::new(),
            left_over: Vec::new(),
            is_full: false,
        }
    }
}

impl ShardCalls<Grip> for Floor {
    fn this(&self) -> ShardId {
        ShardId(self.this)
    }

    fn shards(&self) -> u8 {
        SHARDS
    }

    fn now(&self) -> Now {
        self.now
    }

    fn shared(&self) -> &Shared {
        &self.shared
    }

    fn hub(&self) -> &Hub {
        &self.hub
    }

    fn publish(&mut self, draft: Draft) -> Result<Published, (Refusal, Draft)> {
        self.hub.publish_here(draft, self.now)
    }

    fn survey(&mut self, survey: throng_session::Survey) {
        panic!("{survey:?}")
    }

    fn is_connected(&self, conn: ConnId) -> bool {
        self.clients.contains_key(&conn)
    }

    fn conn(&self, index: u32) -> Option<ConnId> {
        let mut conns = self.clients.keys().copied();
        conns.find(|conn| conn.index() == index)
    }

    fn sessions(&self) -> Vec<ConnId> {
        self.clients.keys().copied().collect()
    }

    fn queued_bytes(&self, conn: ConnId) -> usize {
        { self.clients.get(&conn) }.map_or(0, |client| client.solo.out.len())
    }

    fn with(
        &mut self,
        conn: ConnId,
        act: impl FnOnce(&mut Session, &mut Context<'_, GripShared, Order>) -> Flow,
    ) -> bool {
        let Some(client) = self.clients.get_mut(&conn) else {
            return false;
        };
        client.solo.now = self.now;
        let acted = client.solo.act_and_become(act);
        client.sort();
        acted
    }

    fn with_gone(
        &mut self,
        id: ConnId,
        session: &mut Session,
        act: impl FnOnce(&mut Session, &mut Context<'_, GripShared, Order>),
    ) {
        let mut orders = VecDeque::new();
        let mut cx = Context {
            id,
            now: self.now,
            shared: &self.shared,
            own: &*self.own,
            out: &mut Vec::new(),
            actions: &mut Actions::default(),
            orders: &mut Vec::new(),
            own_orders: &mut orders,
            place: 0,
            forms_from: 0,
        };
        act(session, &mut cx);
        self.left_over.extend(orders);
    }

    fn take_orders(&mut self) -> Vec<Order> {
        Vec::new()
    }

    fn deliver(&mut self, _: ConnId, _: &[u8], _: &Frame) {}

    fn has_room(&self, _: ShardId) -> bool {
        !self.is_full
    }

    fn mail(&mut self, to: ShardId, mail: Mail) {
        self.mails.push((to, mail));
    }
}

/// Outlet of a shard's hub to its clients.
struct Outlet<'a> {
    clients: &'a mut BTreeMap<ConnId, Client>,
    own: &'a GripShared,
    shared: &'a Shared,
    now: Now,
    carried: Vec<Order>,
}

impl Outlet<'_> {
    fn show(&mut self, conn: ConnId, publication: &Arc<Publication>) {
        let Some(client) = self.clients.get_mut(&conn) else {
            return;
        };
        let before = client.solo.out.len();
        client.happens(Event::Publication(publication));
        if client.solo.out.len() > before {
            self.note(conn, publication);
        }
    }

    fn note(&mut self, conn: ConnId, publication: &Arc<Publication>) {
        let Some(client) = self.clients.get_mut(&conn) else {
            return;
        };
        if let Some(session) = client.solo.session() {
            let publications = std::slice::from_ref(publication);
            Grip::delivered(self.own, session, publications, true, self.now, self.shared);
        }
    }
}

impl Sink for Outlet<'_> {
    fn answer(&mut self, reply_to: ReplyTo, answer: Answer) {
        let token = reply_to.token;
        if let Some(client) = self.clients.get_mut(&reply_to.conn) {
            client.happens(Event::Answer { token, answer });
        }
    }

    fn encode(
        &mut self,
        format: Format,
        publication: &Publication,
        patch: Option<Patch<'_>>,
        out: &mut Vec<u8>,
    ) {
        Grip::encode(self.own, format.number(), publication, patch, out);
    }

    fn deliver(&mut self, index: u32, batch: &Batch<'_>) {
        let mut conns = self.clients.keys().copied();
        let Some(conn) = conns.find(|conn| conn.index() == index) else {
            return;
        };
        for (at, publication) in batch.publications.iter().enumerate() {
            let frames = batch.encoded.map(|encoded| encoded.frames.each());
            match frames.and_then(|frames| frames.get(at)) {
                Some(frame) if !frame.is_empty() => {
                    assert_eq!(batch.format.kind(), FormKind::Noted);
                    let client = self.clients.get_mut(&conn).expect("it is there");
                    let to = client.held.as_mut().unwrap_or(&mut client.solo.out);
                    to.extend_from_slice(frame);
                    self.note(conn, publication);
                }
                _ => self.show(conn, publication),
            }
        }
    }

    fn carried(&mut self, publication: &Publication) {
        self.carried.extend(Grip::carried(self.own, publication));
    }
}

/// Record of calls to backends, and of the exchanges' ends.
#[derive(Default)]
pub(super) struct Log {
    pub(super) asked: Vec<(ConnId, u32, OriginRequest)>,
    /// Requests whose answer is not awaited.
    pub(super) told: Vec<OriginRequest>,
    pub(super) sent: Vec<u8>,
    pub(super) granted: usize,
    pub(super) finished: usize,
    pub(super) dropped: Vec<(ConnId, u32)>,
    /// There is no room for requests.
    pub(super) is_full: bool,
}

/// Backends controlled by the test.
#[derive(Clone, Default)]
pub(super) struct Played(pub(super) Rc<RefCell<Log>>);

struct Hand {
    log: Played,
    exchange: (ConnId, u32),
}

impl Played {
    fn room(&self) -> Result<(), OriginFailure> {
        let failure = OriginFailure {
            fault: OriginFailureKind::Busy,
            detail: "full".to_owned(),
        };
        (!self.0.borrow().is_full).then_some(()).ok_or(failure)
    }
}

impl OriginClient for Played {
    fn submit(
        &self,
        conn: ConnId,
        token: u32,
        request: OriginRequest,
    ) -> Result<Box<dyn OriginExchange>, OriginFailure> {
        self.room()?;
        self.0.borrow_mut().asked.push((conn, token, request));
        Ok(Box::new(Hand {
            log: self.clone(),
            exchange: (conn, token),
        }))
    }

    fn tell(&self, request: OriginRequest) -> Result<(), OriginFailure> {
        self.room()?;
        self.0.borrow_mut().told.push(request);
        Ok(())
    }
}

impl OriginExchange for Hand {
    fn grant(&self, bytes: usize) {
        self.log.0.borrow_mut().granted += bytes;
    }

    fn send(&mut self, bytes: Vec<u8>) {
        self.log.0.borrow_mut().sent.extend(bytes);
    }

    fn finish(&mut self) {
        self.log.0.borrow_mut().finished += 1;
    }
}

impl Drop for Hand {
    fn drop(&mut self) {
        self.log.0.borrow_mut().dropped.push(self.exchange);
    }
}

/// All shards, and the played backends.
pub(super) struct World {
    pub(super) shards: Vec<(Grip, Floor)>,
    pub(super) played: Played,
    next: u32,
    /// Connections that have ended.
    pub(super) left: BTreeMap<ConnId, Client>,
}

impl World {
    pub(super) fn new() -> Self {
        Self::with(options())
    }

    pub(super) fn with(options: Arc<GripOptions>) -> Self {
        let played = Played::default();
        let shard = |this| {
            let grip = Grip::new(GripShared::new(options.clone()), Box::new(played.clone()));
            let floor = Floor::new(this, grip.shared());
            (grip, floor)
        };
        Self {
            shards: (0..SHARDS).map(shard).collect(),
            played: played.clone(),
            next: 1,
            left: BTreeMap::new(),
        }
    }

    pub(super) fn connect(&mut self, shard: u8, port: Port) -> ConnId {
        let conn = ConnId::new(ShardId(shard), self.next, 1);
        self.next += 1;
        let (grip, floor) = &mut self.shards[usize::from(shard)];
        let mut client = Client::by(
            (port, Ipv4Addr::LOCALHOST.into()),
            conn,
            grip.shared(),
            floor.shared.clone(),
        );
        client.solo.now = floor.now;
        floor.clients.insert(conn, client);
        conn
    }

    /// Connects to one of the gateway's own ports.
    pub(super) fn connect_own(&mut self, shard: u8, port: u8) -> ConnId {
        self.connect(shard, Port::Own { gateway: 0, port })
    }

    /// A client that has sent a request for a path.
    pub(super) fn asks(&mut self, shard: u8, path: &str) -> ConnId {
        let conn = self.connect(shard, Port::Client);
        self.say(conn, format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n"));
        conn
    }

    pub(super) fn stream(&mut self, shard: u8, channel: &str) -> ConnId {
        let conn = self.asks(shard, "/a");
        let fields = [("Grip-Hold", "stream"), ("Grip-Channel", channel)];
        self.answer(conn, 1, 200, &fields, "");
        self.told(conn);
        conn
    }

    /// A client's WebSocket over HTTP, opened with these events; its backend was asked once.
    pub(super) fn socket(&mut self, shard: u8, events: &str) -> ConnId {
        let conn = self.connect(shard, Port::Client);
        self.say(conn, upgrade("/over"));
        let fields = [EVENTS, EXTENSION];
        self.answer(conn, 1, 200, &fields, &format!("OPEN\r\n{events}"));
        assert!(self.told(conn).starts_with("HTTP/1.1 101 "));
        conn
    }

    /// Public id of a client.
    pub(super) fn id_of(&self, conn: ConnId) -> String {
        let shared = &self.shards[usize::from(conn.shard().0)].1.shared;
        shared.node.client_id(conn).as_str().to_owned()
    }

    pub(super) fn client(&mut self, conn: ConnId) -> &mut Client {
        let floor = &mut self.shards[usize::from(conn.shard().0)].1;
        let here = floor.clients.get_mut(&conn);
        here.unwrap_or_else(|| self.left.get_mut(&conn).expect("a connection"))
    }

    pub(super) fn is_connected(&self, conn: ConnId) -> bool {
        self.shards[usize::from(conn.shard().0)]
            .1
            .is_connected(conn)
    }

    pub(super) fn say(&mut self, conn: ConnId, bytes: impl AsRef<[u8]>) {
        self.client(conn).feeds(bytes.as_ref());
        self.run();
    }

    /// Takes the text that a connection received.
    pub(super) fn told(&mut self, conn: ConnId) -> String {
        self.client(conn).told()
    }

    pub(super) fn told_bytes(&mut self, conn: ConnId) -> Vec<u8> {
        self.client(conn).told_bytes()
    }

    pub(super) fn backend(&mut self, conn: ConnId, token: u32, event: OriginEvent) {
        let mail = Mail::Origin { conn, token, event };
        let (grip, floor) = &mut self.shards[usize::from(conn.shard().0)];
        grip.mail(Sender::Driver, mail, floor);
        self.run();
    }

    /// Plays a backend's answer: head and body.
    pub(super) fn answer(
        &mut self,
        conn: ConnId,
        token: u32,
        code: u16,
        fields: &[(&str, &str)],
        body: &str,
    ) {
        self.backend(conn, token, OriginEvent::Head(head(code, fields)));
        if !body.is_empty() {
            self.backend(conn, token, OriginEvent::Body(body.into()));
        }
        self.backend(conn, token, OriginEvent::End);
    }

    /// Takes the requests to backends: connection, token and request.
    pub(super) fn asked(&mut self) -> Vec<(ConnId, u32, OriginRequest)> {
        std::mem::take(&mut self.played.0.borrow_mut().asked)
    }

    /// Closes a connection from the client's side.
    pub(super) fn close(&mut self, conn: ConnId) {
        self.remove(conn);
        self.run();
    }

    fn remove(&mut self, conn: ConnId) {
        let (grip, floor) = &mut self.shards[usize::from(conn.shard().0)];
        let mut client = floor.clients.remove(&conn).expect("it is there");
        floor.hub.gone(conn, floor.now);
        if let Some(session) = client.solo.session() {
            let session = std::mem::replace(session, Session::Stats(Box::default()));
            grip.closed(conn, session, floor);
        }
        self.left.insert(conn, client);
    }

    /// Advances the clock, and runs due timers.
    pub(super) fn pass(&mut self, ms: u64) {
        for (grip, floor) in &mut self.shards {
            floor.now.mono = floor.now.mono + ms;
            floor.now.unix_ms += ms;
            for client in floor.clients.values_mut() {
                client.solo.now = floor.now;
                if client.due.take_if(|at| *at <= floor.now.mono).is_some() {
                    client.happens(Event::Timeout);
                }
            }
            grip.tick(floor);
        }
        self.run();
    }

    /// Lets all shards work until nothing is left to do.
    pub(super) fn run(&mut self) {
        for _ in 0..ROUNDS_MAX {
            if !self.round() {
                return;
            }
        }
        panic!("the shards do not come to rest");
    }

    /// One turn of each shard; true if there was something to do.
    fn round(&mut self) -> bool {
        let mut is_busy = false;
        let mut mails = Vec::new();
        let mut ended = Vec::new();
        for (grip, floor) in &mut self.shards {
            let from = ShardId(floor.this);
            let mut orders = std::mem::take(&mut floor.left_over);
            let mut commands = Vec::new();
            for client in floor.clients.values_mut() {
                orders.append(&mut client.orders);
                commands.append(&mut client.commands);
                ended.extend(client.ended.map(|_| client.solo.id));
            }
            is_busy |= !orders.is_empty() || !commands.is_empty();
            let mut outlet = Outlet {
                clients: &mut floor.clients,
                own: &floor.own,
                shared: &floor.shared,
                now: floor.now,
                carried: Vec::new(),
            };
            for command in commands {
                floor.hub.handle(command, floor.now, &mut outlet);
            }
            is_busy |= floor.hub.fan_out(10_000, floor.now, &mut outlet);
            orders.append(&mut outlet.carried);
            is_busy |= !orders.is_empty();
            orders
                .into_iter()
                .for_each(|order| grip.order(order, floor));
            is_busy |= grip.turn(1000, floor);
            for to in (0..SHARDS).map(ShardId) {
                while let Some(mail) = floor.hub.broker.take_mail(to) {
                    mails.push((from, to, Err(mail)));
                }
            }
            let own = floor.mails.drain(..);
            mails.extend(own.map(|(to, mail)| (from, to, Ok(mail))));
        }
        is_busy |= !mails.is_empty() || !ended.is_empty();
        for (from, to, mail) in mails {
            let (grip, floor) = &mut self.shards[usize::from(to.0)];
            match mail {
                Ok(mail) => grip.mail(Sender::Shard(from), mail, floor),
                Err(mail) => {
                    let mut outlet = Outlet {
                        clients: &mut floor.clients,
                        own: &floor.own,
                        shared: &floor.shared,
                        now: floor.now,
                        carried: Vec::new(),
                    };
                    floor.hub.mail(from, mail, floor.now, &mut outlet);
                    let orders = outlet.carried;
                    orders
                        .into_iter()
                        .for_each(|order| grip.order(order, floor));
                }
            }
        }
        ended.into_iter().for_each(|conn| self.remove(conn));
        is_busy
    }
}

/// A channel at home on a shard, by the backend's name.
pub(super) fn name_on(shard: u8) -> String {
    let mut names = (0..).map(|n| format!("c{n}"));
    let is_there = |name: &String| home_of(&channel(name), SHARDS) == ShardId(shard);
    names.find(is_there).expect("one of them")
}
