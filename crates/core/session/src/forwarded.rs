//! Connections through proxies: which proxies are trusted, and which client is behind each
//! connection.
//!
//! Owns the addresses of clients behind proxies, by connection; a direct client's is its socket's.
//! Never: reads a header; the front door does.
//!
//! Invariant: a connection that is noted here is counted once, for the client that it is noted for.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use throng_proxy::Block;
use throng_types::ConnId;

use crate::work::Payer;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counted {
    /// Nowhere: its address has no limit.
    No,
    /// By its own address alone.
    Exactly,
    /// In the places of its address, which other addresses share.
    Roughly(Payer),
}

/// Count of connections by address, over all shards.
pub trait Census: Send + Sync {
    /// Counts a connection; false if its address has too many with it.
    fn enter(&self, address: IpAddr) -> (Counted, bool);
    /// Counts a connection's end where it was counted, also that of one too many.
    fn leave(&self, address: IpAddr, counted: Counted);
}

/// Trusted proxies, and the clients behind them, as one shard knows them.
#[derive(Default)]
pub struct Forwarded {
    trusted: Arc<[Block]>,
    census: Option<Arc<dyn Census>>,
    /// With each, where it is counted. Bound: the connections of this shard.
    clients: RefCell<HashMap<u32, (IpAddr, Counted)>>,
    /// Address of an untrusted proxy that names other clients, until it is logged.
    unnamed: Cell<Option<IpAddr>>,
}

impl Forwarded {
    /// With the proxies that are believed, and the census if there may be a limit.
    pub fn new(trusted: Arc<[Block]>, census: Option<Arc<dyn Census>>) -> Self {
        Self {
            trusted,
            census,
            clients: RefCell::default(),
            unnamed: Cell::default(),
        }
    }

    pub fn renew(&mut self, trusted: Arc<[Block]>) {
        self.trusted = trusted;
    }

    pub fn trusted(&self) -> &[Block] {
        &self.trusted
    }

    pub fn trusts(&self, address: IpAddr) -> bool {
        self.trusted.iter().any(|block| block.contains(address))
    }

    /// Notes an address close by that speaks for others and is not trusted.
    pub(crate) fn note_unnamed(&self, address: IpAddr) {
        self.unnamed.set(Some(address));
    }

    /// The last such address that was noted since this was asked.
    pub fn take_unnamed(&self) -> Option<IpAddr> {
        self.unnamed.take()
    }

    /// Records the client behind a connection; false if that client has as many connections as it
    /// may.
    #[must_use]
    pub fn belongs_to(&self, conn: ConnId, client: IpAddr) -> bool {
        let mut clients = self.clients.borrow_mut();
        let before = clients.get(&conn.index());
        if before.is_some_and(|(before, _)| *before == client) {
            return true;
        }
        self.leaves(clients.remove(&conn.index()));
        let census = self.census.as_ref();
        let (counted, has_room) = census.map_or((Counted::No, true), |it| it.enter(client));
        if !has_room {
            self.leaves(Some((client, counted)));
            return false;
        }
        clients.insert(conn.index(), (client, counted));
        true
    }

    pub fn client_of(&self, conn: ConnId) -> Option<IpAddr> {
        let clients = self.clients.borrow();
        clients.get(&conn.index()).map(|(client, _)| *client)
    }

    pub fn gone(&self, conn: ConnId) {
        self.leaves(self.clients.borrow_mut().remove(&conn.index()));
    }

    fn leaves(&self, client: Option<(IpAddr, Counted)>) {
        if let (Some((client, counted)), Some(census)) = (client, &self.census) {
            census.leave(client, counted);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicI64, Ordering};

    use throng_types::ShardId;

    use super::*;

    /// Two connections are the most.
    #[derive(Default)]
    struct Two(AtomicI64);

    impl Census for Two {
        fn enter(&self, _: IpAddr) -> (Counted, bool) {
            if self.0.load(Ordering::Relaxed) < 0 {
                return (Counted::No, true);
            }
            let before = self.0.fetch_add(1, Ordering::Relaxed);
            (Counted::Exactly, before < 2)
        }

        fn leave(&self, _: IpAddr, counted: Counted) {
            if counted != Counted::No {
                self.0.fetch_sub(1, Ordering::Relaxed);
            }
        }
    }

    #[test]
    fn a_connection_counts_once_for_the_client_that_it_is_noted_for() {
        let two = Arc::new(Two::default());
        let forwarded = Forwarded::new(Arc::new([]), Some(two.clone()));
        let conn = |index| ConnId::new(ShardId(0), index, 1);
        let [one, other] = [IpAddr::from([192, 0, 2, 1]), IpAddr::from([192, 0, 2, 2])];
        for client in [one, one, other, one] {
            assert!(forwarded.belongs_to(conn(1), client));
            assert_eq!(forwarded.client_of(conn(1)), Some(client));
        }
        assert!(forwarded.belongs_to(conn(2), one));
        assert!(!forwarded.belongs_to(conn(3), one));
        assert_eq!(forwarded.client_of(conn(3)), None);
        assert_eq!(two.0.load(Ordering::Relaxed), 2);
        for index in 1..4 {
            forwarded.gone(conn(index));
            forwarded.gone(conn(index));
        }
        assert_eq!(two.0.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn who_came_before_there_was_a_limit_leaves_no_census() {
        let two = Arc::new(Two(AtomicI64::new(-9)));
        let forwarded = Forwarded::new(Arc::new([]), Some(two.clone()));
        let conn = |index| ConnId::new(ShardId(0), index, 1);
        let client = IpAddr::from([192, 0, 2, 1]);
        assert!(forwarded.belongs_to(conn(1), client));
        two.0.store(0, Ordering::Relaxed);
        assert!(forwarded.belongs_to(conn(2), client));
        forwarded.gone(conn(1));
        assert_eq!(two.0.load(Ordering::Relaxed), 1);
        forwarded.gone(conn(2));
        assert_eq!(two.0.load(Ordering::Relaxed), 0);
    }
}
