//! GRIP on a shard: requests on their way to backends, and items on their way to the homes of
//! their channels.
//!
//! Owns the tickets of this shard's exchanges and the order of items in its channels. A
//! backend is read as fast as its client takes the answer: bytes are granted again while the
//! client's queue is short, and otherwise when it has become empty.
//!
//! Rule for "full": an item is refused while [`BEHIND_MAX`] drafts wait for the hub; what was taken
//! is published, however long that takes.

mod start;
mod topics;

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use throng_broker::{Draft, Refusal, home_of};
use throng_engine::Conns;
use throng_grip::exchange::OriginEvent;
use throng_grip::item::Item;
use throng_hub::{Answer, Asker};
use throng_metrics::Counter;
use throng_origin::{Client, Origin, Ticket};
use throng_session::{Desk, Fx, GripHome, GripOrder, Offered, Session};
use throng_types::{ChannelName, ConnId, Millis, Now, Position};

pub(crate) use start::{GripPlan, Listener, listeners};

use crate::gather::Note;
use crate::observe::recount;
use crate::shard::ShardApp;
use crate::sink::act;
use topics::Topics;

/// Drafts that may wait for the hub.
const BEHIND_MAX: usize = 4096;
/// A queue above this is one that the client does not empty: twice what an exchange may be ahead.
const QUEUE_LONG_BYTES: usize = 256 << 10;

/// Between two looks at sessions without a connection, in milliseconds.
const GHOSTS_MS: u64 = 1000;

struct Live {
    token: u32,
    ticket: Ticket,
    /// Bytes that are granted when the client's queue is empty.
    owed: usize,
}

/// See the module's head.
pub(crate) struct Grip {
    client: Client,
    /// Ends with the last shard.
    _origin: Arc<Origin>,
    live: HashMap<ConnId, Live>,
    /// Those that came to owe something in this turn, and in the one before.
    owing: [Vec<ConnId>; 2],
    home: GripHome,
    behind: VecDeque<Draft>,
    /// Items of publishers that wait until there is room in `behind`; each has few.
    patient: VecDeque<(Asker, Box<Item>)>,
    /// Sessions whose connection has gone, and whose backends have yet to hear of it.
    ghosts: HashMap<ConnId, Session>,
    ghosts_at: Millis,
    topics: Topics,
}

/// What is told between shards.
#[derive(Debug)]
pub(crate) enum GripNote {
    /// Publish this in a channel of yours.
    Publish {
        asker: Asker,
        item: Box<Item>,
        patient: bool,
    },
    /// It is done.
    Published {
        asker: Asker,
        result: Result<Option<Position>, Refusal>,
    },
    /// Which item went out last?
    LastId { conn: ConnId, channel: ChannelName },
    /// This one.
    LastIs {
        conn: ConnId,
        channel: ChannelName,
        last_id: Option<Box<str>>,
    },
    /// All your sessions ask their backends.
    Recover,
    /// Your WebSockets over HTTP ask theirs: one, or all of a channel.
    Refresh {
        connection: Option<ConnId>,
        channel: Option<ChannelName>,
    },
    /// A channel has subscribers on the shard that says so, or none any more.
    Topic {
        channel: ChannelName,
        is_wanted: bool,
    },
}

impl Grip {
    pub(crate) fn new(client: Client, origin: Arc<Origin>) -> Self {
        Self {
            client,
            _origin: origin,
            live: HashMap::new(),
            owing: [Vec::new(), Vec::new()],
            home: GripHome::default(),
            behind: VecDeque::new(),
            patient: VecDeque::new(),
            ghosts: HashMap::new(),
            ghosts_at: Millis::default(),
            topics: Topics::default(),
        }
    }

    pub(crate) fn deadline(&self) -> Option<Millis> {
        self.home.deadline()
    }
}

impl ShardApp {
    /// Lets a session act outside its own events; it may become something else.
    fn with(
        &mut self,
        conn: ConnId,
        conns: &mut Conns<Session>,
        run: impl FnOnce(&mut Session, &Desk, &mut Fx<'_>),
    ) {
        let (desk, orders) = (&self.parts.desk, &mut self.orders);
        conns.with(conn, |session, effects| {
            let before = session.transport();
            act(effects, orders, |fx| run(session, desk, fx));
            recount(desk, before, session.transport());
        });
    }

    pub(crate) fn grip_order(&mut self, order: GripOrder, conns: &mut Conns<Session>, now: Now) {
        match order {
            GripOrder::Ask {
                conn,
                token,
                request,
            } => {
                self.board().count(Counter::GripRequests);
                let Some(grip) = self.grip.as_mut() else {
                    return;
                };
                match grip.client.submit(conn, token, *request) {
                    Ok(ticket) => {
                        let owed = 0;
                        let live = Live {
                            token,
                            ticket,
                            owed,
                        };
                        grip.live.insert(conn, live);
                    }
                    Err(failure) => {
                        grip.live.remove(&conn);
                        let event = OriginEvent::Failed(failure);
                        self.origin_event(conn, token, event, conns);
                    }
                }
            }
            GripOrder::Tell { request } => {
                self.board().count(Counter::GripRequests);
                if let Some(grip) = &self.grip
                    && grip.client.tell(*request).is_err()
                {
                    self.board().count(Counter::GripOriginFailures);
                }
            }
            GripOrder::Forget { conn } => {
                if let Some(grip) = self.grip.as_mut() {
                    grip.live.remove(&conn);
                }
            }
            GripOrder::Publish {
                asker,
                item,
                patient,
            } => self.publish_item(asker, item, patient, conns, now),
            GripOrder::Listen { conn } => self.listen(conn, conns),
            GripOrder::Refresh {
                connection,
                channel,
            } => self.refresh(connection, channel, conns),
            GripOrder::LastId { conn, channel } => {
                let home = home_of(&channel, self.parts.shards);
                if home == self.parts.shard {
                    let last_id = self.last_id(&channel);
                    self.tell_last_id(conn, &channel, last_id.as_deref(), conns);
                } else {
                    self.note(home.index(), GripNote::LastId { conn, channel });
                }
            }
            GripOrder::Recover => {
                for shard in 0..usize::from(self.parts.shards) {
                    if shard != self.parts.shard.index() {
                        self.note(shard, GripNote::Recover);
                    }
                }
                self.recover(conns);
            }
        }
    }

    fn note(&mut self, shard: usize, note: GripNote) {
        if let Some(notes) = self.notes.get_mut(shard) {
            notes.push_back(Note::Grip(note));
        }
    }

    pub(crate) fn grip_note(
        &mut self,
        from: Option<usize>,
        note: GripNote,
        conns: &mut Conns<Session>,
        now: Now,
    ) {
        match note {
            GripNote::Publish {
                asker,
                item,
                patient,
            } => self.offer(asker, item, patient, conns, now),
            GripNote::Topic { channel, is_wanted } => {
                if let Some(from) = from {
                    self.topic(from, &channel, is_wanted, conns);
                }
            }
            GripNote::Published { asker, result } => self.published(asker, result, conns),
            GripNote::LastId { conn, channel } => {
                let last_id = self.last_id(&channel).map(Into::into);
                if let Some(from) = from {
                    let note = GripNote::LastIs {
                        conn,
                        channel,
                        last_id,
                    };
                    self.note(from, note);
                }
            }
            GripNote::LastIs {
                conn,
                channel,
                last_id,
            } => self.tell_last_id(conn, &channel, last_id.as_deref(), conns),
            GripNote::Recover => self.recover(conns),
            GripNote::Refresh {
                connection,
                channel,
            } => self.refresh_here(connection, channel.as_ref(), conns),
        }
    }

    // ---- backends ----

    /// A backend has done something.
    pub(crate) fn origin_event(
        &mut self,
        conn: ConnId,
        token: u32,
        event: OriginEvent,
        conns: &mut Conns<Session>,
    ) {
        let bytes = match &event {
            OriginEvent::Body(bytes) => bytes.len(),
            _ => 0,
        };
        let is_last = matches!(event, OriginEvent::End | OriginEvent::Failed(_));
        if let OriginEvent::Failed(failure) = &event {
            tracing::debug!(detail = failure.detail, "a backend failed");
        }
        if conns.session(conn).is_some() {
            self.with(conn, conns, |session, desk, fx| {
                session.origin(conn, token, event, desk, fx);
            });
        } else {
            self.with_ghost(conn, conns.now(), |session, desk, fx| {
                session.origin(conn, token, event, desk, fx);
            });
        }
        let Some(grip) = self.grip.as_mut() else {
            return;
        };
        let Some(live) = grip.live.get_mut(&conn).filter(|live| live.token == token) else {
            return;
        };
        if is_last {
            grip.live.remove(&conn);
        } else if bytes > 0 && conns.queued_bytes(conn) > QUEUE_LONG_BYTES {
            if live.owed == 0 {
                grip.owing[0].push(conn);
            }
            live.owed += bytes;
        } else if bytes > 0 {
            live.ticket.grant(bytes);
        }
    }

    /// A connection's queue is empty again.
    pub(crate) fn grip_drained(&mut self, conn: ConnId) {
        let live = self.grip.as_mut().and_then(|grip| grip.live.get_mut(&conn));
        if let Some(live) = live
            && live.owed > 0
        {
            live.ticket.grant(std::mem::take(&mut live.owed));
        }
    }

    /// A connection has gone.
    pub(crate) fn grip_closed(&mut self, conn: ConnId, mut session: Session, now: Now) {
        let Some(grip) = self.grip.as_mut() else {
            return;
        };
        grip.topics.left(conn);
        let mut out = Vec::new();
        let mut fx = Fx::new(&mut out, &mut self.orders, now);
        if session.gone(conn, &self.parts.desk, &mut fx) {
            grip.ghosts.insert(conn, session);
        } else {
            grip.live.remove(&conn);
        }
    }

    fn recover(&mut self, conns: &mut Conns<Session>) {
        let all: Vec<ConnId> = conns.sessions().map(|(conn, _)| conn).collect();
        for conn in all {
            self.with(conn, conns, |session, desk, fx| {
                session.recover(conn, desk, fx)
            });
        }
    }

    fn refresh(
        &mut self,
        connection: Option<ConnId>,
        channel: Option<String>,
        conns: &mut Conns<Session>,
    ) {
        let channel = channel.and_then(|name| {
            let name = format!("{}:{name}", throng_session::GRIP_NAMESPACE);
            ChannelName::new(&name).ok()
        });
        for shard in 0..usize::from(self.parts.shards) {
            if shard != self.parts.shard.index() {
                let channel = channel.clone();
                let note = GripNote::Refresh {
                    connection,
                    channel,
                };
                self.note(shard, note);
            }
        }
        self.refresh_here(connection, channel.as_ref(), conns);
    }

    fn refresh_here(
        &mut self,
        connection: Option<ConnId>,
        channel: Option<&ChannelName>,
        conns: &mut Conns<Session>,
    ) {
        let hub = &self.parts.hub;
        let fits = |conn: &ConnId| {
            connection == Some(*conn)
                || channel.is_some_and(|channel| hub.is_subscribed(*conn, channel))
        };
        let all: Vec<ConnId> = conns
            .sessions()
            .map(|(conn, _)| conn)
            .filter(fits)
            .collect();
        for conn in all {
            self.with(conn, conns, |session, desk, fx| {
                session.refresh(conn, desk, fx)
            });
        }
    }

    /// Lets a session go on that has no connection any more; false if there is none.
    fn with_ghost(
        &mut self,
        conn: ConnId,
        now: Now,
        run: impl FnOnce(&mut Session, &Desk, &mut Fx<'_>),
    ) {
        let Some(grip) = self.grip.as_mut() else {
            return;
        };
        let Some(ghost) = grip.ghosts.get_mut(&conn) else {
            return;
        };
        let mut out = Vec::new();
        let mut fx = Fx::new(&mut out, &mut self.orders, now);
        run(ghost, &self.parts.desk, &mut fx);
        if ghost.is_over() {
            grip.ghosts.remove(&conn);
            grip.live.remove(&conn);
        }
    }

    // ---- publishing ----

    fn publish_item(
        &mut self,
        asker: Asker,
        item: Box<Item>,
        patient: bool,
        conns: &mut Conns<Session>,
        now: Now,
    ) {
        let home = throng_session::grip_home_of(&item, self.parts.shards);
        if home == self.parts.shard {
            self.offer(asker, item, patient, conns, now);
        } else {
            let note = GripNote::Publish {
                asker,
                item,
                patient,
            };
            self.note(home.index(), note);
        }
    }

    /// Takes an item of a channel that is at home here, or lets it wait if whoever asks does.
    fn offer(
        &mut self,
        asker: Asker,
        item: Box<Item>,
        patient: bool,
        conns: &mut Conns<Session>,
        now: Now,
    ) {
        if patient
            && let Some(grip) = self.grip.as_mut()
            && (grip.behind.len() >= BEHIND_MAX || !grip.patient.is_empty())
        {
            return grip.patient.push_back((asker, item));
        }
        let result = self.take_item(&item, now);
        self.answer_publisher(asker, result, conns);
    }

    fn answer_publisher(
        &mut self,
        asker: Asker,
        result: Result<Option<Position>, Refusal>,
        conns: &mut Conns<Session>,
    ) {
        if asker.conn.shard() == self.parts.shard {
            self.published(asker, result, conns);
        } else {
            let note = GripNote::Published { asker, result };
            self.note(asker.conn.shard().index(), note);
        }
    }

    fn published(
        &mut self,
        asker: Asker,
        result: Result<Option<Position>, Refusal>,
        conns: &mut Conns<Session>,
    ) {
        let answer = Answer::Published { result };
        self.with(asker.conn, conns, |session, desk, fx| {
            session.answer(asker.conn, asker.token, answer, desk, fx);
        });
    }

    /// Takes an item of a channel that is at home here.
    fn take_item(&mut self, item: &Item, now: Now) -> Result<Option<Position>, Refusal> {
        let Some(grip) = self.grip.as_mut() else {
            return Err(Refusal::NotAvailable);
        };
        if grip.behind.len() >= BEHIND_MAX {
            return Err(Refusal::Busy);
        }
        let hub = &self.parts.hub;
        let listened = |channel: &ChannelName| hub.interest(channel) != 0;
        let mut due = Vec::new();
        match grip.home.offer(now.mono, item, listened, &mut due) {
            Offered::Due | Offered::Waits | Offered::Nothing => {}
            Offered::Duplicate => self.parts.desk.board.count(Counter::GripDuplicates),
            Offered::BadChannel => return Err(Refusal::UnknownChannel),
        }
        grip.behind.extend(due);
        self.publish_behind(now);
        Ok(None)
    }

    /// Publishes what waits, as far as the hub takes it.
    fn publish_behind(&mut self, now: Now) {
        let Some(grip) = self.grip.as_mut() else {
            return;
        };
        while let Some(draft) = grip.behind.pop_front() {
            if let Err((Refusal::Busy, draft)) = self.parts.hub.publish_here(draft, now) {
                grip.behind.push_front(draft);
                return;
            }
        }
    }

    /// Grants what was owed only because a turn brought much at once. A queue that is long after
    /// everything was written is one that the kernel does not take, and that is told when it does.
    fn settle(&mut self, conns: &Conns<Session>) -> bool {
        let Some(grip) = self.grip.as_mut() else {
            return false;
        };
        let settled = std::mem::take(&mut grip.owing[1]);
        grip.owing.swap(0, 1);
        let is_more = !grip.owing[1].is_empty();
        for conn in settled {
            if conns.queued_bytes(conn) <= QUEUE_LONG_BYTES {
                self.grip_drained(conn);
            }
        }
        is_more
    }

    /// Retries of those whose connection has gone.
    fn wake_ghosts(&mut self, now: Now) {
        let Some(grip) = self.grip.as_mut() else {
            return;
        };
        if grip.ghosts.is_empty() || now.mono < grip.ghosts_at {
            return;
        }
        grip.ghosts_at = now.mono + GHOSTS_MS;
        let all: Vec<ConnId> = grip.ghosts.keys().copied().collect();
        for conn in all {
            self.with_ghost(conn, now, |session, desk, fx| {
                session.timeout(conn, desk, fx)
            });
        }
    }

    /// Once a turn; true if something waits.
    pub(crate) fn grip_turn(&mut self, conns: &mut Conns<Session>, now: Now) -> bool {
        let is_more = self.settle(conns);
        self.sweep_topics(conns, now);
        self.wake_ghosts(now);
        let Some(grip) = self.grip.as_mut() else {
            return false;
        };
        if grip.home.deadline().is_some_and(|at| at <= now.mono) {
            let hub = &self.parts.hub;
            let mut due = Vec::new();
            let listened = |channel: &ChannelName| hub.interest(channel) != 0;
            grip.home.expire(now.mono, listened, &mut due);
            grip.behind.extend(due);
        }
        self.publish_behind(now);
        while let Some(grip) = self.grip.as_mut()
            && grip.behind.len() < BEHIND_MAX
            && let Some((asker, item)) = grip.patient.pop_front()
        {
            let result = self.take_item(&item, now);
            self.answer_publisher(asker, result, conns);
        }
        let is_behind = self
            .grip
            .as_ref()
            .is_some_and(|grip| !grip.behind.is_empty());
        is_more || is_behind
    }

    fn last_id(&self, channel: &ChannelName) -> Option<String> {
        let home = &self.grip.as_ref()?.home;
        home.last_id(channel).map(str::to_owned)
    }

    fn tell_last_id(
        &mut self,
        conn: ConnId,
        channel: &ChannelName,
        last_id: Option<&str>,
        conns: &mut Conns<Session>,
    ) {
        self.with(conn, conns, |session, desk, fx| {
            session.last_id(conn, channel, last_id, desk, fx);
        });
    }
}
