//! GRIP on a shard: requests on their way to backends, and items on their way to the homes of
//! their channels.
//!
//! Owns the tickets of this shard's exchanges and the order of items in its channels. A
//! backend is read as fast as its client takes the answer: bytes are granted again while the
//! client's queue is short, and otherwise when it has become empty.
//!
//! Rule for "full": an item is refused while [`BEHIND_MAX`] drafts wait for the hub; what was taken
//! is published, however long that takes.

mod backends;
mod publishing;
mod receipts;
mod start;
mod topics;

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use throng_broker::{Draft, Refusal, home_of};
use throng_engine::{Conns, Kernel};
use throng_grip::exchange::OriginEvent;
use throng_grip::item::Item;
use throng_grip::sequence::SequenceLimits;
use throng_hub::Asker;
use throng_metrics::{Counter, Gauge};
use throng_origin::{Client, Origin, Ticket};
use throng_session::{Desk, Fx, GripHome, GripOrder, LastItem, Receipt, Session};
use throng_types::{ChannelName, ConnId, Millis, Now, Position};

pub(crate) use start::{GripPlan, Listener, answer, listeners, metrics};

use crate::gather::Note;
use crate::observe::recount;
use crate::shard::ShardApp;
use crate::sink::act;
use receipts::{News, Receipts};
use topics::Topics;

/// Drafts that may wait for the hub. Queue: `drafts`.
const BEHIND_MAX: usize = 4096;
/// A queue above this is one that the client does not empty: twice what an exchange may be ahead.
const QUEUE_LONG_BYTES: usize = 256 << 10;

/// Between two looks at sessions without a connection, in milliseconds.
const GHOSTS_MS: u64 = 1000;

const MINUTE_MS: u64 = 60_000;

struct Live {
    token: u32,
    ticket: Ticket,
    /// Bytes that are granted when the client's queue is empty.
    owed: usize,
    /// It came to owe something in this turn.
    is_listed: bool,
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
    /// Bound: [`BEHIND_MAX`] for what publishers send; what was taken before goes in first.
    behind: VecDeque<Draft>,
    /// Items of publishers that wait until there is room in `behind`; each has few.
    patient: VecDeque<(Asker, Box<Item>)>,
    /// Sessions whose connection has gone, and whose backends have yet to hear of it.
    ghosts: HashMap<ConnId, Session>,
    ghosts_at: Millis,
    topics: Topics,
    receipts: Receipts,
    /// Milliseconds of clients that are not a minute yet, and up to when they were counted.
    connected_ms: u64,
    counted_at: Millis,
}

/// What is told between shards.
#[derive(Debug)]
pub(crate) enum GripNote {
    /// Publish this in a channel of yours.
    Publish {
        asker: Asker,
        item: Box<Item>,
        patient: bool,
        receipt: Option<Receipt>,
    },
    /// About an item of which somebody wants to know how many took it.
    Receipt { number: u64, news: News },
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
        last: LastItem,
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
    pub(crate) fn new(client: Client, origin: Arc<Origin>, order: SequenceLimits) -> Self {
        Self {
            client,
            _origin: origin,
            live: HashMap::new(),
            owing: [Vec::new(), Vec::new()],
            home: GripHome::new(order),
            behind: VecDeque::new(),
            patient: VecDeque::new(),
            ghosts: HashMap::new(),
            ghosts_at: Millis::default(),
            topics: Topics::default(),
            receipts: Receipts::default(),
            connected_ms: 0,
            counted_at: Millis::default(),
        }
    }

    pub(crate) fn deadline(&self) -> Option<Millis> {
        self.home.deadline()
    }
}

impl ShardApp {
    /// Lets a session act outside its own events; it may become something else.
    pub(crate) fn with(
        &mut self,
        conn: ConnId,
        conns: &mut Conns<Session, impl Kernel>,
        run: impl FnOnce(&mut Session, &Desk, &mut Fx<'_>),
    ) {
        let (desk, orders) = (&self.parts.desk, &mut self.orders);
        conns.with(conn, |session, effects| {
            let before = session.standing();
            act(effects, orders, |fx| run(session, desk, fx));
            recount(desk, before, session.standing());
        });
    }

    pub(crate) fn grip_order(
        &mut self,
        order: GripOrder,
        conns: &mut Conns<Session, impl Kernel>,
        now: Now,
    ) {
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
                            is_listed: false,
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
            GripOrder::Send { conn, bytes } => {
                let grip = self.grip.as_mut();
                if let Some(live) = grip.and_then(|grip| grip.live.get_mut(&conn)) {
                    live.ticket.send(bytes);
                }
            }
            GripOrder::Finish { conn } => {
                if let Some(live) = self.grip.as_mut().and_then(|grip| grip.live.get_mut(&conn)) {
                    live.ticket.finish();
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
                counts,
            } => self.publish_item((asker, counts), item, patient, conns, now),
            GripOrder::Carried { receipt, count } => {
                self.tell_receipt(receipt, News::Count(count), conns);
            }
            GripOrder::Listen { conn } => self.listen(conn, conns),
            GripOrder::Refresh {
                connection,
                channel,
            } => self.refresh(connection, channel, conns),
            GripOrder::LastId { conn, channel } => {
                let home = home_of(&channel, self.parts.shards);
                if home == self.parts.shard {
                    let last = self.last_item(&channel, now);
                    self.tell_last_item(conn, &channel, &last, conns);
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

    /// Adds up how long clients have been connected; once a second.
    pub(crate) fn grip_minutes(&mut self, now: Now) {
        let board = self.parts.desk.board.clone();
        let Some(grip) = self.grip.as_mut() else {
            return;
        };
        let since = std::mem::replace(&mut grip.counted_at, now.mono);
        let connections = board.gauge(Gauge::GripConnections);
        grip.connected_ms += connections * now.mono.0.saturating_sub(since.0);
        board.add(
            Counter::GripConnectionMinutes,
            grip.connected_ms / MINUTE_MS,
        );
        grip.connected_ms %= MINUTE_MS;
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
        conns: &mut Conns<Session, impl Kernel>,
        now: Now,
    ) {
        match note {
            GripNote::Publish {
                asker,
                item,
                patient,
                receipt,
            } => self.offer((asker, receipt), item, patient, conns, now),
            GripNote::Receipt { number, news } => self.hear_receipt(number, news, conns),
            GripNote::Topic { channel, is_wanted } => {
                if let Some(from) = from {
                    self.topic(from, &channel, is_wanted, conns);
                }
            }
            GripNote::Published { asker, result } => self.published(asker, result, conns),
            GripNote::LastId { conn, channel } => {
                let last = self.last_item(&channel, now);
                if let Some(from) = from {
                    let note = GripNote::LastIs {
                        conn,
                        channel,
                        last,
                    };
                    self.note(from, note);
                }
            }
            GripNote::LastIs {
                conn,
                channel,
                last,
            } => self.tell_last_item(conn, &channel, &last, conns),
            GripNote::Recover => self.recover(conns),
            GripNote::Refresh {
                connection,
                channel,
            } => self.refresh_here(connection, channel.as_ref(), conns),
        }
    }
}
