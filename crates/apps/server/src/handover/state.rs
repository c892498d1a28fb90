//! State of a shard as bytes: its hub and its connections, each as the rooms save their own.
//!
//! Never: sockets and processes; see `giving` and `taking`.

use std::net::IpAddr;

use throng_engine::{Conns, Kernel, SavedConn};
use throng_types::{ConnId, Load, Millis, Now, Parts, Save, Saved};

use crate::list::GatewayList;
use crate::shard::ShardApp;
use crate::standing::{standing, uncount};
use crate::tags::{NO_CLIENT, UNCOUNTED};

/// Client for which a connection counts.
#[derive(Save)]
enum Counted {
    /// No client: the connection came by another port.
    NoClient,
    /// Not counted: a proxy's connection, or one that was refused.
    Nobody,
    /// Client at this address.
    Address(IpAddr),
}

impl<L: GatewayList> ShardApp<L> {
    /// Does nothing by itself from now on, until [`ShardApp::be_active`].
    pub(crate) const fn be_still(&mut self) {
        self.housekeeping_at = Millis(u64::MAX);
    }

    pub(crate) const fn be_active(&mut self) {
        self.housekeeping_at = Millis(0);
    }

    /// Whether nothing is under way on this shard.
    pub(crate) fn is_at_rest(&self) -> bool {
        self.parts.hub.is_at_rest() && self.orders.is_empty() && self.ended.is_empty()
    }

    /// Lets everything leave at once that waits for its time.
    pub(crate) fn hurry(&mut self) {
        self.parts.hub.hurry();
    }

    /// Hands over which channels the new process is to hear; false if it hears them by the hub.
    pub(crate) fn save_expected(&self, cut: u64, parts: &mut Parts<'_>) -> bool {
        self.parts.hub.save_expected(cut, parts)
    }

    /// Takes nothing more that is delivered from elsewhere behind a cut.
    pub(crate) fn stop_at(&mut self, cut: Option<u64>) {
        self.parts.hub.stop_at(cut);
    }

    /// Whether all is taken that comes before the cut.
    pub(crate) fn has_stopped(&self) -> bool {
        self.parts.hub.has_stopped()
    }

    /// The new process begins: what is delivered from elsewhere is for that one.
    pub(crate) fn leave_deliveries(&mut self) {
        self.parts.hub.leave_deliveries();
    }

    /// Hands over the hub, and forgets what its part of the broker keeps. False, and nothing is
    /// handed over, if none of it can move.
    pub(crate) fn give_up_hub(&mut self, parts: &mut Parts<'_>) -> bool {
        self.parts.hub.give_up(parts)
    }

    /// Hands over that connections which stay are seen no more.
    pub(crate) fn save_quits(&self, stays: impl Iterator<Item = ConnId>, parts: &mut Parts<'_>) {
        for conn in stays {
            self.parts.hub.save_quits(conn, parts);
        }
    }

    /// Takes a piece of the hub's items.
    pub(crate) fn load_piece(&mut self, piece: &[u8]) -> Option<()> {
        let mut from = Saved::new(piece);
        while !from.is_empty() {
            let kind = u8::load(&mut from)?;
            self.parts.hub.load(kind, &mut from)?;
        }
        Some(())
    }

    /// Appends a connection; false, and nothing is appended, if it cannot move.
    pub(crate) fn save_conn<K: Kernel>(
        &self,
        id: ConnId,
        conns: &Conns<L::Session, K>,
        out: &mut Vec<u8>,
    ) -> bool {
        let start = out.len();
        let (Some(session), Some((_, tag))) = (conns.session(id), conns.holdings(id)) else {
            return false;
        };
        conns.save(id, out);
        self.counted(id, tag, conns).save(out);
        self.parts.shared.forwarded.client_of(id).save(out);
        let moves = self.list.save(id, session, out) && self.parts.hub.save_subscriptions(id, out);
        if !moves {
            out.truncate(start);
        }
        moves
    }

    fn counted<K: Kernel>(&self, id: ConnId, tag: u32, conns: &Conns<L::Session, K>) -> Counted {
        if tag == NO_CLIENT {
            return Counted::NoClient;
        }
        if tag == UNCOUNTED {
            return Counted::Nobody;
        }
        let known = self.addresses.get(tag).copied();
        let peer = || conns.peer(id).map(|peer| peer.ip().to_canonical());
        known
            .or_else(peer)
            .map_or(Counted::Nobody, Counted::Address)
    }

    /// Puts a connection into its place, with its session and subscriptions.
    pub(crate) fn load_conn<K: Kernel>(
        &mut self,
        from: &mut Saved<'_>,
        socket: K::Socket,
        conns: &mut Conns<L::Session, K>,
    ) -> Option<()> {
        let saved = SavedConn::load(from)?;
        let counted = Counted::load(from)?;
        let forwarded = Option::<IpAddr>::load(from)?;
        let session = self.list.load(saved.id(conns)?, from)?;
        let tag = match counted {
            Counted::NoClient => NO_CLIENT,
            Counted::Nobody => UNCOUNTED,
            // It was counted before, so there is room.
            Counted::Address(address) => self.enter(address).0,
        };
        self.clients += usize::from(tag != NO_CLIENT);
        self.sessions().count(&session);
        let id = conns.adopt(saved, socket, tag, session)?;
        if tag == NO_CLIENT {
            conns.prefer(id);
        }
        if let Some(client) = forwarded {
            // It was counted before, so there is room.
            let _ = self.parts.shared.forwarded.belongs_to(id, client);
        }
        self.parts.hub.load_subscriptions(id, from)
    }

    /// Appends what gateways keep of no one connection.
    pub(crate) fn save_rest(&self, out: &mut Vec<u8>) {
        self.list.save_rest(out);
    }

    /// Reads back what [`ShardApp::save_rest`] appended.
    pub(crate) fn load_rest(&mut self, from: &mut Saved<'_>) -> Option<()> {
        self.list.load_rest(from)
    }

    /// Tells the hub that everything has been loaded.
    pub(crate) fn loaded(&mut self, now: Now) {
        self.parts.hub.loaded(now);
    }

    /// Takes a connection out that was saved, with all that is known of it here, and gives its
    /// socket.
    pub(crate) fn take_out<K: Kernel>(
        &mut self,
        id: ConnId,
        conns: &mut Conns<L::Session, K>,
    ) -> Option<K::Socket> {
        let (_, tag) = conns.holdings(id)?;
        let (socket, session) = conns.take_out(id)?;
        uncount(&self.parts.shared, standing::<L>(&session));
        self.list.give_up(id, session);
        self.parts.hub.give_up_subscriptions(id);
        self.parts.shared.forwarded.gone(id);
        self.clients -= usize::from(tag != NO_CLIENT);
        self.leave(tag);
        Some(socket)
    }
}
