//! One shard's app: sessions on one side, the hub on the other.
//!
//! Owns the hub and the desk. Orders that sessions write down during a turn are
//! carried out at its end, in the order in which they were written, and only then is
//! there fan-out; so what a connection asked for stands before it hears of it.

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use throng_engine::{Accepted, App, Closed, Conns, Effects, Kernel};
use throng_grip::exchange::OriginEvent;
use throng_hub::{Asker, Command, Hub};
use throng_metrics::{Board, Counter, Gauge};
use throng_session::{Admission, Desk, Farewell, Order, Question, Session, Told};
use throng_types::{ConnId, Disconnect, Millis, Now, ShardId, Slots};

use crate::appwrite::Appwrite;
use crate::drain::{Drain, DrainOptions};
use crate::gather::{Gathers, Note};
use crate::grip::{Grip, Listener};
use crate::observe::{recount, uncount};
use crate::peers::Peers;
use crate::sink::{Outlet, act};
use crate::stats::Ticker;

/// Members visited in one turn: few enough that what is published meanwhile joins the sweep
/// at the next turn, and that a crowd does not keep others waiting.
const VISITS_PER_TURN: usize = 256;
/// Streams whose history is looked at in one turn.
const EXPIRIES_PER_TURN: usize = 256;
/// Between two looks at history and gauges, in milliseconds.
const HOUSEKEEPING_MS: u64 = 1000;
/// A crowd whose leaving is worth giving memory back to the kernel.
const CROWD: usize = 1024;
/// No tag: the connection's address is not counted.
const UNCOUNTED: u32 = u32::MAX;
/// The tag of connections to the API port, which count against no limit on clients.
const API: u32 = u32::MAX - 1;

/// What shards send each other, and what they are told from outside.
pub struct Mail(pub(crate) Message);

pub(crate) enum Message {
    /// Between hubs.
    Hub(throng_hub::Mail),
    /// Between apps.
    Note(Note),
    /// From a backend.
    Origin {
        conn: ConnId,
        token: u32,
        event: OriginEvent,
    },
    /// Begin to end gracefully.
    Drain(DrainOptions),
    /// End now.
    Stop,
}

/// What an app is made of.
pub(crate) struct ShardParts {
    pub(crate) shard: ShardId,
    pub(crate) shards: u8,
    pub(crate) hub: Hub,
    pub(crate) desk: Desk,
    pub(crate) peers: Arc<Peers>,
    pub(crate) connections_max: usize,
    /// The number of the API port's listener; those before it are for clients.
    pub(crate) api_listener: u8,
    pub(crate) ticker: Ticker,
    pub(crate) appwrite: Option<Appwrite>,
    pub(crate) grip: Option<Grip>,
    /// What the listeners behind the API's take.
    pub(crate) grip_listeners: Vec<Listener>,
    /// Publishers may want to know which channels have subscribers.
    pub(crate) tells_topics: bool,
}

/// See the module's head.
pub struct ShardApp {
    pub(crate) parts: ShardParts,
    pub(crate) orders: Vec<Order>,
    pub(crate) appwrite: Option<Appwrite>,
    pub(crate) grip: Option<Grip>,
    gathers: Gathers,
    pub(crate) notes: Vec<VecDeque<Note>>,
    addresses: Slots<IpAddr>,
    pub(crate) drain: Option<Drain>,
    stopped: bool,
    /// Connections of the client port.
    clients: usize,
    /// As of the last turn.
    now: Now,
    housekeeping_at: Millis,
    /// The most connections since memory was last given back.
    peak: usize,
}

impl ShardApp {
    pub(crate) fn new(mut parts: ShardParts) -> Self {
        let notes = (0..parts.shards).map(|_| VecDeque::new()).collect();
        parts.desk.board.set(Gauge::Shards, 1);
        Self {
            appwrite: parts.appwrite.take(),
            grip: parts.grip.take(),
            parts,
            orders: Vec::new(),
            gathers: Gathers::default(),
            notes,
            addresses: Slots::default(),
            drain: None,
            stopped: false,
            clients: 0,
            now: Now::default(),
            housekeeping_at: Millis::default(),
            peak: 0,
        }
    }

    pub(crate) fn board(&self) -> &Board {
        &self.parts.desk.board
    }

    /// Runs a session, and counts it elsewhere if it became something else.
    fn run(
        &mut self,
        session: &mut Session,
        effects: &mut Effects<'_>,
        run: impl FnOnce(&mut Session, &Desk, &mut throng_session::Fx<'_>),
    ) {
        let before = session.standing();
        let desk = &self.parts.desk;
        act(effects, &mut self.orders, |fx| run(session, desk, fx));
        recount(desk, before, session.standing());
    }

    fn grip_listener(&self, listener: u8) -> Option<Listener> {
        let behind = usize::from(listener).checked_sub(usize::from(self.parts.api_listener) + 1)?;
        self.parts.grip_listeners.get(behind).copied()
    }

    // ---- orders ----

    pub(crate) fn carry_out(&mut self, conns: &mut Conns<Session, impl Kernel>, now: Now) {
        while !self.orders.is_empty() {
            for order in std::mem::take(&mut self.orders) {
                match order {
                    Order::Hub(command) => {
                        if let Command::Subscribe { channel, .. } = &command {
                            self.grip_subscribed(channel, conns);
                        }
                        self.command(command, conns, now);
                    }
                    Order::Grip(order) => self.grip_order(order, conns, now),
                    Order::Appwrite(order) => self.appwrite_order(order, conns),
                    Order::Ask { asker, question } => self.ask(asker, question, conns, now),
                }
            }
        }
    }

    fn command(&mut self, command: Command, conns: &mut Conns<Session, impl Kernel>, now: Now) {
        let (desk, orders) = (&self.parts.desk, &mut self.orders);
        let mut outlet = Outlet::new(conns, desk, orders);
        self.parts.hub.handle(command, now, &mut outlet);
    }

    fn ask(
        &mut self,
        asker: Asker,
        question: Question,
        conns: &mut Conns<Session, impl Kernel>,
        now: Now,
    ) {
        let ticket = self.gathers.begin(asker, self.notes.len());
        for (to, notes) in self.notes.iter_mut().enumerate() {
            if to != self.parts.shard.index() {
                notes.push_back(Note::Ask {
                    ticket,
                    question: question.clone(),
                });
            }
        }
        let told = self.tell(question, conns, now);
        self.told(ticket, told, conns);
    }

    fn told(&mut self, ticket: u32, told: Told, conns: &mut Conns<Session, impl Kernel>) {
        let Some((asker, told)) = self.gathers.take(ticket, told) else {
            return;
        };
        self.with(asker.conn, conns, |session, desk, fx| {
            session.told(asker.conn, told, desk, fx);
        });
    }

    pub(crate) fn farewell(
        &mut self,
        conn: ConnId,
        farewell: &Farewell,
        conns: &mut Conns<Session, impl Kernel>,
    ) {
        self.with(conn, conns, |session, desk, fx| {
            session.farewell(farewell, desk, fx);
        });
    }

    /// After half of a crowd has left, small holes are all over the heap; the allocator keeps
    /// them unless it is asked.
    fn give_memory_back(&mut self, connections: usize) {
        self.peak = self.peak.max(connections);
        if self.peak >= CROWD && connections <= self.peak / 2 {
            self.peak = connections;
            throng_sys::memory::trim();
        }
    }

    pub(crate) fn hub(&self) -> &Hub {
        &self.parts.hub
    }
}

impl<K: Kernel> App<K> for ShardApp {
    type Session = Session;
    type Mail = Mail;

    fn accept(&mut self, listener: u8, peer: SocketAddr, now: Now) -> Option<Accepted<Session>> {
        let deadline = Some(now.mono + self.parts.desk.limits.head_timeout_ms);
        self.board().rise(Gauge::ConnectionsHttp, 1);
        if listener == self.parts.api_listener {
            return Some(Accepted {
                session: Session::api(),
                tag: API,
                deadline,
            });
        }
        if let Some(listener) = self.grip_listener(listener) {
            let session = match listener {
                Listener::Http => Session::publisher(),
                Listener::Zmq(socket) => Session::zmtp(socket),
                Listener::Metrics => Session::metrics(),
            };
            return Some(Accepted {
                session,
                tag: API,
                deadline,
            });
        }
        let mut tag = UNCOUNTED;
        self.clients += 1;
        let mut admission = Admission::Welcome;
        if self.clients > self.parts.connections_max {
            admission = Admission::ServerFull;
        }
        if self.parts.peers.limited() {
            if !self.parts.peers.enter(peer.ip()) {
                admission = Admission::AddressFull;
            }
            tag = self.addresses.insert(peer.ip());
        }
        let session = Session::client(admission, peer.ip());
        Some(Accepted {
            session,
            tag,
            deadline,
        })
    }

    fn bytes(&mut self, id: ConnId, session: &mut Session, input: &mut [u8], fx: &mut Effects<'_>) {
        self.run(session, fx, |session, desk, fx| {
            session.bytes(id, input, desk, fx)
        });
    }

    fn timeout(&mut self, id: ConnId, session: &mut Session, fx: &mut Effects<'_>) {
        self.run(session, fx, |session, desk, fx| {
            session.timeout(id, desk, fx)
        });
    }

    fn drained(&mut self, id: ConnId, session: &mut Session, dropped: u32, fx: &mut Effects<'_>) {
        self.grip_drained(id);
        self.run(session, fx, |session, _, fx| session.drained(dropped, fx));
    }

    fn closed(&mut self, id: ConnId, session: Session, tag: u32, why: Closed, now: Now) {
        self.parts.hub.gone(id, now);
        if let Some(appwrite) = &mut self.appwrite {
            appwrite.leave(id.index());
        }
        // By its tag: a dashboard's stream came by the API port, whatever it has become.
        self.clients -= usize::from(tag != API);
        uncount(&self.parts.desk, session.standing());
        match why {
            Closed::ByPeer | Closed::Error(_) => self.board().count(Counter::ClosedClient),
            Closed::Slow => self.board().count(Counter::closed(Disconnect::Slow)),
            // Counted with its reason when the session said farewell.
            Closed::ByApp => {}
        }
        if let Some(address) = self.addresses.remove(tag) {
            self.parts.peers.leave(address);
        }
        self.grip_closed(id, session, now);
    }

    fn mail(&mut self, from: Option<usize>, mail: Mail, conns: &mut Conns<Session, K>, now: Now) {
        match mail.0 {
            Message::Hub(mail) => {
                let Some(from) = from else { return };
                let (desk, orders) = (&self.parts.desk, &mut self.orders);
                let mut outlet = Outlet::new(conns, desk, orders);
                self.parts
                    .hub
                    .mail(ShardId(from as u8), mail, now, &mut outlet);
            }
            Message::Note(Note::Ask { ticket, question }) => {
                let told = self.tell(question, conns, now);
                if let Some(notes) = from.and_then(|from| self.notes.get_mut(from)) {
                    notes.push_back(Note::Told { ticket, told });
                }
            }
            Message::Note(Note::Grip(note)) => self.grip_note(from, note, conns, now),
            Message::Origin { conn, token, event } => self.origin_event(conn, token, event, conns),
            Message::Note(Note::Told { ticket, told }) => self.told(ticket, told, conns),
            Message::Drain(options) => self.begin_drain(options, conns, now),
            Message::Stop => self.stopped = true,
        }
    }

    fn wants_mail(&self) -> bool {
        self.parts.hub.wants_mail()
    }

    fn take_mail(&mut self, to: usize) -> Option<Mail> {
        let note = self.notes[to].pop_front().map(Message::Note);
        let mut hub = || self.parts.hub.take_mail(ShardId(to as u8));
        note.or_else(|| hub().map(Message::Hub)).map(Mail)
    }

    fn turn(&mut self, conns: &mut Conns<Session, K>, now: Now) -> bool {
        self.now = now;
        if self.drain.is_some() {
            self.step_drain(conns, now);
        }
        self.carry_out(conns, now);
        let mut more = self.grip_turn(conns, now);
        if now.mono >= self.housekeeping_at {
            self.housekeeping_at = now.mono + HOUSEKEEPING_MS;
            let (desk, orders) = (&self.parts.desk, &mut self.orders);
            let mut outlet = Outlet::new(conns, desk, orders);
            let hub = &mut self.parts.hub;
            more |= hub.expire(now, EXPIRIES_PER_TURN, &mut outlet);
            self.give_memory_back(conns.len());
            self.grip_minutes(now);
            self.appwrite_tick(conns, now);
            let interest = self.parts.hub.interest(self.parts.ticker.channel());
            if let Some(command) =
                self.parts
                    .ticker
                    .tick(interest > 0, self.parts.desk.draining, now)
            {
                self.command(command, conns, now);
            }
        }
        more |= self.appwrite_turn(VISITS_PER_TURN, conns, now);
        let (desk, orders) = (&self.parts.desk, &mut self.orders);
        let mut outlet = Outlet::new(conns, desk, orders);
        more |= self.parts.hub.fan_out(VISITS_PER_TURN, now, &mut outlet);
        more || !self.orders.is_empty()
    }

    fn deadline(&self) -> Option<Millis> {
        let housekeeping = Some(self.housekeeping_at);
        let drain = self.drain.as_ref().map(Drain::deadline);
        let grip = self.grip.as_ref().and_then(Grip::deadline);
        housekeeping.into_iter().chain(drain).chain(grip).min()
    }

    fn finished(&self, conns: &Conns<Session, K>) -> bool {
        let drained = self.drain.as_ref().is_some_and(|drain| {
            (drain.all_told() && conns.is_empty()) || drain.is_over(self.now.mono)
        });
        self.stopped || drained
    }

    fn accept_paused(&mut self, paused: bool) {
        self.board().set(Gauge::AcceptPaused, u64::from(paused));
        if paused {
            self.board().count(Counter::RefusedDescriptors);
            tracing::warn!(
                shard = self.parts.shard.0,
                "out of file descriptors: new connections wait until one is freed; raise nofile (`throng doctor` says how)"
            );
        } else {
            tracing::info!(shard = self.parts.shard.0, "accepting connections again");
        }
    }
}
