//! The event hub on its shard: the queue of news, and the piece between the hub and the
//! connections.
//!
//! Rule for "full": news that is not taken stays in its queue, where its driver waits.

use std::rc::Rc;

use throng_appwrite::{Change, ConnectionPhase, RealtimeError};
use throng_metrics::Counter;
use throng_session::{CloseReason, Flow, Own, ShardCalls};
use throng_types::{ConnId, Disconnect, Frame};

use crate::connection::Connection;
use crate::event_hub::EventHub;
use crate::order::{Connections, EventHubOptions, Order};
use crate::shared::{AppwriteShared, Inbox, News};

pub struct Appwrite {
    /// Dropped before `shared`: the end of the world outside may wait for those who fill this.
    pub(crate) news: Box<dyn Inbox>,
    pub(crate) shared: Rc<AppwriteShared>,
    pub(crate) hub: EventHub,
    /// Bytes that may wait for one connection.
    pub(crate) queue_bytes_max: usize,
    /// Connections from another process whose project is not served here, until they are closed.
    pub(crate) unserved: Vec<ConnId>,
}

impl Appwrite {
    #[must_use]
    pub fn new(
        shared: AppwriteShared,
        options: EventHubOptions,
        news: Box<dyn Inbox>,
        queue_bytes_max: usize,
    ) -> Self {
        Self {
            news,
            shared: Rc::new(shared),
            hub: EventHub::new(options),
            queue_bytes_max,
            unserved: Vec::new(),
        }
    }
}

/// Events and answers of one turn, as far as their frames allow.
const NEWS_PER_TURN: usize = 256;

impl Appwrite {
    pub(crate) fn carry_out(&mut self, order: Order, shard: &mut impl ShardCalls<Self>) {
        let mut line = Line::new(shard, self.queue_bytes_max);
        self.hub.handle(order, &mut line);
    }

    /// Carries out the sessions' orders at once: the next news must find them done.
    fn carry_out_all(&mut self, shard: &mut impl ShardCalls<Self>) {
        for order in shard.take_orders() {
            self.carry_out(order, shard);
        }
    }

    /// Takes news and builds up to so many frames; true if more is to be done.
    pub(crate) fn take_news(
        &mut self,
        mut frames_max: usize,
        shard: &mut impl ShardCalls<Self>,
    ) -> bool {
        self.refuse_unserved(shard);
        // Frames that gather in one turn must not look like a queue that is never emptied.
        let mut bytes_left = self.queue_bytes_max / 4;
        for _ in 0..NEWS_PER_TURN {
            let mut line = Line::new(shard, self.queue_bytes_max);
            frames_max -= self.hub.fan_out(frames_max, &mut line);
            self.carry_out_all(shard);
            if self.hub.is_busy() || bytes_left == 0 {
                return true;
            }
            let mut line = Line::new(shard, self.queue_bytes_max);
            let Some(news) = self.news.next() else {
                self.hub.overlap.rests();
                let more = self.hub.recheck_some(&mut line);
                self.carry_out_all(shard);
                return more;
            };
            match news {
                News::Event { event, position } => {
                    bytes_left = bytes_left.saturating_sub(event.payload().len() + 1024);
                    let now = line.shard.now();
                    self.hub.event(&event, position, now, &mut line);
                }
                News::Began(position) => self.hub.begin(position),
                News::Found { conn, token, found } => {
                    line.with(conn, |session, cx| session.found(token, found, cx));
                }
                News::Presence {
                    conn,
                    token,
                    answer,
                } => {
                    line.with(conn, |session, cx| {
                        session.presence_answered(token, answer, cx);
                    });
                }
            }
            self.carry_out_all(shard);
        }
        true
    }

    /// Ends connections from another process whose project is not served here.
    fn refuse_unserved(&mut self, shard: &mut impl ShardCalls<Self>) {
        for conn in std::mem::take(&mut self.unserved) {
            shard.with(conn, |session, cx| {
                session.refuse_opening(&RealtimeError::UnknownProject, cx);
                Flow::Stay
            });
        }
    }

    pub(crate) fn tick_hub(&mut self, shard: &mut impl ShardCalls<Self>) {
        let now = shard.now();
        self.hub
            .tick(now, &mut Line::new(shard, self.queue_bytes_max));
    }
}

/// The event hub's view of the connections, for the length of one call.
struct Line<'s, S> {
    shard: &'s mut S,
    queue_bytes_max: usize,
}

impl<'s, S: ShardCalls<Appwrite>> Line<'s, S> {
    const fn new(shard: &'s mut S, queue_bytes_max: usize) -> Self {
        Self {
            shard,
            queue_bytes_max,
        }
    }

    fn with(&mut self, conn: ConnId, act: impl FnOnce(&mut Connection, &mut Own<'_, Appwrite>)) {
        self.shard.with(conn, |session, cx| {
            act(session, cx);
            Flow::Stay
        });
    }
}

impl<S: ShardCalls<Appwrite>> Connections for Line<'_, S> {
    fn id(&self, index: u32) -> Option<ConnId> {
        self.shard.conn(index)
    }

    fn say(&mut self, conn: ConnId, bytes: &[u8]) {
        self.with(conn, |_, cx| cx.out.extend_from_slice(bytes));
    }

    fn deliver(&mut self, conn: ConnId, head: &[u8], tail: &Frame) {
        if self.shard.conn(conn.index()) != Some(conn) {
            return;
        }
        let bytes = head.len() + tail.len();
        let is_full = self.shard.queued_bytes(conn) + bytes > self.queue_bytes_max;
        if is_full {
            // In the words of its protocol, behind what it still has to get.
            let slow = CloseReason::Because(Disconnect::Slow);
            return self.with(conn, |session, cx| {
                if !session.is_closing() {
                    cx.count(Counter::DroppedClose);
                    session.close(&slow, cx);
                }
            });
        }
        self.shard.deliver(conn, head, tail);
    }

    fn changed(&mut self, conn: ConnId, what: &Change) {
        self.with(conn, |session, cx| session.changed(what, cx));
    }

    fn recheck(&mut self, conn: ConnId) -> bool {
        let mut asks = false;
        self.with(conn, |session, cx| asks = session.recheck(cx));
        asks
    }

    fn refuse(&mut self, conn: ConnId, fault: &RealtimeError, phase: ConnectionPhase) {
        self.with(conn, |session, cx| session.refuse(fault, phase, cx));
    }

    fn matched(&mut self, receivers: usize) {
        let counters = &self.shard.shared().counters;
        counters.add(Counter::AppwriteMatches, receivers as u64);
    }

    fn recovered(&mut self, all: bool) {
        self.shard.shared().counters.count(match all {
            true => Counter::RecoveredComplete,
            false => Counter::RecoveredFailed,
        });
    }
}
