//! Appwrite Realtime in a shard: the room, the queue of news, and the thin piece between the room
//! and the connections.
//!
//! News comes in one queue, so that answers about users and the events that change them keep their
//! order. Rule for "full": the driver waits, and with it Appwrite's Redis.

mod start;

use std::net::{IpAddr, Ipv6Addr};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, OnceLock};

use throng_appwrite::{Fault, FeedMessage, Phase};
use throng_appwrite_feed::{Directory, Feed, Inlet, Offered};
use throng_engine::{Conns, Delivery, Door, Kernel, Overflow};
use throng_metrics::{Counter, Gauge};
use throng_session::{
    AppwriteOrder, Desk, Farewell, Lookup, News, Order, Outside, Refused, Room, Session, Wire,
};
use throng_types::{ConnId, Disconnect, Frame, Now};

use crate::shard::{Mail, ShardApp};
use crate::sink::act;

pub(crate) use start::{Part, Plan};

/// News that may wait for one shard. Queue: `news`.
const NEWS_MAX: usize = 1024;
/// Events and answers of one turn, as far as their frames allow.
const NEWS_PER_TURN: usize = 256;
/// Addresses counted in one minute; beyond that nobody new is counted, and nobody refused for it.
const ADDRESSES_MAX: usize = 1 << 20;

/// A shard's part.
pub(crate) struct Appwrite {
    room: Room,
    news: Receiver<News>,
    feed: Arc<Feed>,
    /// Bytes that may wait for one connection.
    queue_bytes_max: usize,
}

impl Appwrite {
    pub(crate) const fn new(
        room: Room,
        news: Receiver<News>,
        feed: Arc<Feed>,
        queue_bytes_max: usize,
    ) -> Self {
        Self {
            room,
            news,
            feed,
            queue_bytes_max,
        }
    }

    /// A connection is gone.
    pub(crate) fn leave(&mut self, index: u32) {
        self.room.leave(index);
    }
}

impl Drop for Appwrite {
    fn drop(&mut self) {
        self.feed.end();
    }
}

/// The way of news into a shard.
pub(crate) struct ShardInlet {
    sender: SyncSender<News>,
    door: Door<Mail>,
}

/// An inlet and the queue behind it.
pub(crate) fn inlet(door: Door<Mail>) -> (Arc<dyn Inlet>, Receiver<News>) {
    let (sender, receiver) = sync_channel(NEWS_MAX);
    (Arc::new(ShardInlet { sender, door }), receiver)
}

impl Inlet for ShardInlet {
    fn send(&self, news: News, on_full: &dyn Fn()) -> bool {
        let sent = match self.sender.try_send(news) {
            Ok(()) => true,
            Err(TrySendError::Full(news)) => {
                on_full();
                self.sender.send(news).is_ok()
            }
            Err(TrySendError::Disconnected(_)) => false,
        };
        self.door.ring();
        sent
    }
}

impl ShardApp {
    /// Carries out a session's order to the room.
    pub(crate) fn appwrite_order(
        &mut self,
        order: AppwriteOrder,
        conns: &mut Conns<Session, impl Kernel>,
    ) {
        if let Some(appwrite) = &mut self.appwrite {
            let mut line = Line {
                conns,
                desk: &self.parts.desk,
                orders: &mut self.orders,
                queue_bytes_max: appwrite.queue_bytes_max,
            };
            appwrite.room.handle(order, &mut line);
        }
    }

    /// Takes news and makes frames, at most so many; true if more is to be done.
    pub(crate) fn appwrite_turn(
        &mut self,
        mut frames_max: usize,
        conns: &mut Conns<Session, impl Kernel>,
        now: Now,
    ) -> bool {
        // Frames that gather in one turn must not look like a queue that nobody empties.
        let mut bytes_left = match &self.appwrite {
            Some(appwrite) => appwrite.queue_bytes_max / 4,
            None => return false,
        };
        for _ in 0..NEWS_PER_TURN {
            let Some(appwrite) = &mut self.appwrite else {
                return false;
            };
            let mut line = Line {
                conns,
                desk: &self.parts.desk,
                orders: &mut self.orders,
                queue_bytes_max: appwrite.queue_bytes_max,
            };
            frames_max -= appwrite.room.fan_out(frames_max, &mut line);
            if appwrite.room.is_busy() || bytes_left == 0 {
                return true;
            }
            let Ok(news) = appwrite.news.try_recv() else {
                return false;
            };
            match news {
                News::Event { event, position } => {
                    bytes_left = bytes_left.saturating_sub(event.payload().len() + 1024);
                    appwrite.room.event(&event, position, now, &mut line);
                }
                News::Began(position) => appwrite.room.begin(position),
                News::Found { conn, token, found } => {
                    let (desk, orders) = (&self.parts.desk, &mut self.orders);
                    conns.with(conn, |session, effects| {
                        act(effects, orders, |fx| {
                            session.found(conn, token, found, desk, fx);
                        });
                    });
                }
            }
            // What comes next must find what this led to.
            self.carry_out(conns, now);
        }
        true
    }

    /// Once in a while.
    pub(crate) fn appwrite_tick(&mut self, conns: &mut Conns<Session, impl Kernel>, now: Now) {
        if let Some(appwrite) = &mut self.appwrite {
            let mut line = Line {
                conns,
                desk: &self.parts.desk,
                orders: &mut self.orders,
                queue_bytes_max: appwrite.queue_bytes_max,
            };
            appwrite.room.tick(now, &mut line);
            let connections = appwrite.room.connections() as u64;
            self.board().set(Gauge::AppwriteConnections, connections);
        }
    }
}

/// The room's view of the connections, for the length of one call.
struct Line<'a, K: Kernel> {
    conns: &'a mut Conns<Session, K>,
    desk: &'a Desk,
    orders: &'a mut Vec<Order>,
    queue_bytes_max: usize,
}

impl<K: Kernel> Line<'_, K> {
    fn with(
        &mut self,
        conn: ConnId,
        run: impl FnOnce(&mut Session, &Desk, &mut throng_session::Fx<'_>),
    ) {
        let (desk, orders) = (self.desk, &mut *self.orders);
        self.conns.with(conn, |session, effects| {
            act(effects, orders, |fx| run(session, desk, fx));
        });
    }
}

impl<K: Kernel> Wire for Line<'_, K> {
    fn id(&self, index: u32) -> Option<ConnId> {
        self.conns.id(index)
    }

    fn say(&mut self, conn: ConnId, bytes: &[u8]) {
        self.with(conn, |_, _, fx| fx.out.extend_from_slice(bytes));
    }

    fn deliver(&mut self, conn: ConnId, head: &[u8], tail: &Frame) {
        if self.conns.id(conn.index()) != Some(conn) {
            return;
        }
        let bytes = head.len() + tail.len();
        if self.conns.queued_bytes(conn) + bytes > self.queue_bytes_max {
            // In the words of its protocol, behind what it still has to get.
            let slow = Farewell::Because(Disconnect::Slow);
            self.desk.board.count(Counter::DroppedClose);
            return self.with(conn, |session, desk, fx| session.farewell(&slow, desk, fx));
        }
        self.desk.board.count(Counter::Deliveries);
        self.desk.board.add(Counter::DeliveryBytes, bytes as u64);
        let frames = [Frame::new(head), tail.clone()];
        let delivery = Delivery {
            frames: &frames,
            // Never looked at: the pieces are gathered.
            joined: tail,
            key: 0,
            overflow: Overflow::Close,
            gather: true,
        };
        self.conns.deliver(conn.index(), &delivery);
    }

    fn reload(&mut self, conn: ConnId) {
        self.with(conn, |session, desk, fx| session.reload(conn, desk, fx));
    }

    fn refuse(&mut self, conn: ConnId, fault: &Fault, phase: Phase) {
        self.with(conn, |session, desk, fx| {
            session.refuse(fault, phase, desk, fx);
        });
    }

    fn matched(&mut self, receivers: usize) {
        let board = &self.desk.board;
        board.add(Counter::AppwriteMatches, receivers as u64);
    }

    fn recovered(&mut self, all: bool) {
        self.desk.board.count(match all {
            true => Counter::RecoveredComplete,
            false => Counter::RecoveredFailed,
        });
    }
}

/// What is outside the shards, for all of them.
pub(crate) struct World {
    pub(crate) openings: Openings,
    /// Set before the first connection is accepted.
    pub(crate) offered: OnceLock<Offered>,
    pub(crate) directory: OnceLock<Arc<Directory>>,
}

impl Outside for World {
    fn admit(&self, address: IpAddr, now: Now) -> bool {
        self.openings.admit(address, now)
    }

    fn identify(&self, lookup: Lookup) -> Result<(), Refused> {
        self.directory.get().ok_or(Refused)?.ask(lookup)
    }

    fn publish(&self, event: FeedMessage) -> Result<(), Refused> {
        self.offered.get().ok_or(Refused)?.put(event)
    }
}

/// How many connections each address has opened in this window, over all shards.
pub(crate) struct Openings {
    opens_max: u32,
    window_ms: u64,
    counts: Mutex<Counts>,
}

#[derive(Default)]
struct Counts {
    window: u64,
    by_address: std::collections::HashMap<IpAddr, u32>,
}

impl Openings {
    /// So many in a window; zero is no limit.
    pub(crate) fn new(opens_max: u32, window_ms: u64) -> Self {
        Self {
            opens_max,
            window_ms,
            counts: Mutex::default(),
        }
    }

    fn admit(&self, address: IpAddr, now: Now) -> bool {
        if self.opens_max == 0 {
            return true;
        }
        let Ok(mut counts) = self.counts.lock() else {
            return true;
        };
        let window = now.mono.0 / self.window_ms.max(1);
        if counts.window != window {
            *counts = Counts {
                window,
                ..Counts::default()
            };
        }
        let address = network_of(address);
        if counts.by_address.len() >= ADDRESSES_MAX && !counts.by_address.contains_key(&address) {
            return true;
        }
        let count = counts.by_address.entry(address).or_insert(0);
        *count = count.saturating_add(1);
        *count <= self.opens_max
    }
}

/// Whoever has one IPv6 address has the whole network of it.
fn network_of(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(_) => address,
        IpAddr::V6(v6) => {
            const NETWORK: u128 = !(u64::MAX as u128);
            IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() & NETWORK))
        }
    }
}

#[cfg(test)]
mod tests {
    use throng_types::Millis;

    use super::*;

    #[test]
    fn openings_are_counted_by_address_and_window() {
        let openings = Openings::new(2, 1000);
        let at = |ms| Now {
            mono: Millis(ms),
            unix_ms: 0,
        };
        let admit = |address: &str, ms| openings.admit(address.parse().unwrap(), at(ms));
        assert!(admit("203.0.113.1", 0) && admit("203.0.113.1", 999));
        assert!(!admit("203.0.113.1", 999));
        assert!(admit("203.0.113.2", 999));
        assert!(admit("203.0.113.1", 1000));
        assert!(admit("2001:db8::1", 1000) && admit("2001:db8::2", 1000));
        assert!(!admit("2001:db8::3", 1000) && admit("2001:db8:0:1::3", 1000));
        assert!(Openings::new(0, 1000).admit("203.0.113.1".parse().unwrap(), at(0)));
    }
}
