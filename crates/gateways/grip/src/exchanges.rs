//! Exchanges with backends that are under way, and how fast backends are read.
//!
//! A backend is read as fast as its client takes the answer: bytes are granted again while the
//! client's queue is short, and otherwise when it has become empty. A client that takes nothing
//! of a long queue for [`STUCK_MS`] is given up, or it would keep its backend's connection for
//! ever.

use std::collections::BTreeMap;

use throng_http1::origin::{OriginFailure, OriginRequest};
use throng_types::{ConnId, Millis};

/// Sends requests to backends. Calls return at once; events come as [`crate::Mail::Origin`].
pub trait OriginClient {
    /// Takes a request. Its events go to `conn`, with `token`.
    ///
    /// # Errors
    /// If there is no room; nothing follows then.
    fn submit(
        &self,
        conn: ConnId,
        token: u32,
        request: OriginRequest,
    ) -> Result<Box<dyn OriginExchange>, OriginFailure>;

    /// Takes a request whose answer is not awaited.
    ///
    /// # Errors
    /// If there is no room.
    fn tell(&self, request: OriginRequest) -> Result<(), OriginFailure>;
}

/// The hand on a request that was taken. Dropping it ends the exchange.
pub trait OriginExchange {
    /// The client has taken this many bytes of the answer: as many more may come.
    fn grant(&self, bytes: usize);
    /// Sends more bytes behind the request. An event confirms them; until then they are kept, so
    /// stop while much is on its way.
    fn send(&mut self, bytes: Vec<u8>);
    /// Marks the end of the bytes that follow the request.
    fn finish(&mut self);
}

/// Bytes of a queue that count as long: twice the bytes that an exchange may be ahead.
const QUEUE_LONG_BYTES: usize = 256 << 10;

/// Milliseconds that a client may take nothing while much waits for it. Long, because the kernel's
/// own buffer may hold some megabytes before.
const STUCK_MS: u64 = 300_000;

struct Live {
    token: u32,
    ticket: Box<dyn OriginExchange>,
    /// Bytes that are granted when the client's queue is empty.
    owed: usize,
    /// Whether it is in the list of those that owe since this turn.
    is_listed: bool,
    /// The client's queue while something is owed, when it last became shorter.
    shortest: Option<(usize, Millis)>,
}

/// The exchanges under way, at most one for each connection.
#[derive(Default)]
pub(crate) struct Exchanges {
    /// Bound: the shard's connections.
    live: BTreeMap<ConnId, Live>,
    /// Those that came to owe something in this turn, and in the one before.
    owing: [Vec<ConnId>; 2],
}

impl Exchanges {
    /// An exchange began; one that the connection had before is over.
    pub(crate) fn begin(&mut self, conn: ConnId, token: u32, ticket: Box<dyn OriginExchange>) {
        let live = Live {
            token,
            ticket,
            owed: 0,
            is_listed: false,
            shortest: None,
        };
        self.live.insert(conn, live);
    }

    /// Clients that have taken nothing for too long. To be asked now and then.
    pub(crate) fn stuck(
        &mut self,
        now: Millis,
        queued_bytes: impl Fn(ConnId) -> usize,
    ) -> Vec<ConnId> {
        let mut stuck = Vec::new();
        for (conn, live) in &mut self.live {
            if live.owed == 0 {
                live.shortest = None;
                continue;
            }
            let queued_bytes = queued_bytes(*conn);
            match live.shortest {
                Some((bytes, since)) if queued_bytes >= bytes => {
                    if now.0.saturating_sub(since.0) >= STUCK_MS {
                        stuck.push(*conn);
                    }
                }
                _ => live.shortest = Some((queued_bytes, now)),
            }
        }
        stuck
    }

    pub(crate) fn send(&mut self, conn: ConnId, bytes: Vec<u8>) {
        if let Some(live) = self.live.get_mut(&conn) {
            live.ticket.send(bytes);
        }
    }

    pub(crate) fn finish(&mut self, conn: ConnId) {
        if let Some(live) = self.live.get_mut(&conn) {
            live.ticket.finish();
        }
    }

    pub(crate) fn remove(&mut self, conn: ConnId) {
        self.live.remove(&conn);
    }

    /// A connection's queue is empty again.
    pub(crate) fn drained(&mut self, conn: ConnId) {
        if let Some(live) = self.live.get_mut(&conn)
            && live.owed > 0
        {
            live.ticket.grant(std::mem::take(&mut live.owed));
        }
    }

    /// Grants bytes that were owed only because a turn brought much at once. A queue that is still
    /// long after a whole turn reports when it is empty. True if some were listed in this turn.
    pub(crate) fn settle(&mut self, queued_bytes: impl Fn(ConnId) -> usize) -> bool {
        let settled = std::mem::take(&mut self.owing[1]);
        self.owing.swap(0, 1);
        for conn in &self.owing[1] {
            if let Some(live) = self.live.get_mut(conn) {
                live.is_listed = false;
            }
        }
        let is_more = !self.owing[1].is_empty();
        for conn in settled {
            if queued_bytes(conn) <= QUEUE_LONG_BYTES {
                self.drained(conn);
            }
        }
        is_more
    }

    /// Accounts for bytes of an answer sent to a client with this queue.
    pub(crate) fn pay(&mut self, conn: ConnId, token: u32, bytes: usize, queued_bytes: usize) {
        let Some(live) = self.live.get_mut(&conn).filter(|live| live.token == token) else {
            return;
        };
        if queued_bytes <= QUEUE_LONG_BYTES {
            return live.ticket.grant(bytes);
        }
        // Each time, not only the first: the bytes of one turn may be gone after it, and then no
        // event reports an empty queue.
        if !live.is_listed {
            live.is_listed = true;
            self.owing[0].push(conn);
        }
        live.owed += bytes;
    }

    pub(crate) fn end(&mut self, conn: ConnId, token: u32) {
        if self.live.get(&conn).is_some_and(|live| live.token == token) {
            self.live.remove(&conn);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Ignored;

    impl OriginExchange for Ignored {
        fn grant(&self, _: usize) {}
        fn send(&mut self, _: Vec<u8>) {}
        fn finish(&mut self) {}
    }

    /// Grants into a place that the test sees.
    struct Granted(std::sync::Arc<std::sync::atomic::AtomicUsize>);

    impl OriginExchange for Granted {
        fn grant(&self, bytes: usize) {
            self.0
                .fetch_add(bytes, std::sync::atomic::Ordering::Relaxed);
        }
        fn send(&mut self, _: Vec<u8>) {}
        fn finish(&mut self) {}
    }

    #[test]
    fn what_one_turn_owed_is_granted_when_the_queue_is_short_again() {
        let granted = std::sync::Arc::default();
        let now = || std::sync::Arc::clone(&granted);
        let conn = ConnId::from_bits(1);
        let mut exchanges = Exchanges::default();
        exchanges.begin(conn, 7, Box::new(Granted(now())));
        exchanges.pay(conn, 7, 10, QUEUE_LONG_BYTES);
        exchanges.pay(conn, 7, 100, QUEUE_LONG_BYTES + 1);
        let so_far = || granted.load(std::sync::atomic::Ordering::Relaxed);
        assert_eq!(
            so_far(),
            10,
            "a short queue pays at once, a long one does not"
        );
        exchanges.settle(|_| 0);
        assert_eq!(so_far(), 10, "a whole turn has to pass");
        exchanges.settle(|_| 0);
        assert_eq!(so_far(), 110);
    }

    #[test]
    fn the_end_of_an_old_exchange_does_not_end_the_one_after_it() {
        let conn = ConnId::from_bits(1);
        let mut exchanges = Exchanges::default();
        exchanges.begin(conn, 7, Box::new(Ignored));
        exchanges.end(conn, 6);
        assert!(exchanges.live.contains_key(&conn));
        exchanges.end(conn, 7);
        assert!(exchanges.live.is_empty());
    }
}
