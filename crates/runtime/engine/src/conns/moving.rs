//! Connections that leave for another process, and those that have come from one.
//!
//! Owns what the table knows of a connection as bytes: its place, its deadline, what waits for it,
//! and its TLS. Never: the descriptor's way, or what the session holds.
//!
//! A connection keeps its place and its generation, so that its id stays what it was.

use std::collections::BTreeSet;

use throng_http2::Code;
use throng_tls::TlsLink;
use throng_types::{ConnId, Millis, Save};

use super::carrier::Moved;
use super::links::Entry;
use super::{Conns, NO_QUEUE, Slot, flag};
use crate::Kernel;
use crate::outbound::Outbound;

/// Connections with one of these do not move.
const STAYS: u32 = flag::LEAVING | flag::CONNECTING | flag::SHAKING | flag::SAID_ALL;

/// A connection in the table, without its session.
#[derive(Save)]
pub struct SavedConn {
    index: u32,
    generation: u32,
    deadline: Option<Millis>,
    is_paused: bool,
    queue: Option<Outbound>,
    /// The keys, if TLS is spoken.
    tls: Option<TlsLink>,
    http2: Moved,
}

impl SavedConn {
    /// A table with more places would be larger than any machine.
    const PLACES_MAX: u32 = 1 << 28;

    /// Whether it comes with a socket; if not, it is a stream of another connection.
    pub const fn has_socket(&self) -> bool {
        !matches!(self.http2, Moved::Stream { .. })
    }

    /// Returns its id in a table; `None` if that cannot have such a place.
    pub fn id<S, K: Kernel>(&self, conns: &Conns<S, K>) -> Option<ConnId> {
        let id = ConnId::new(conns.shard, self.index, self.generation);
        (self.index < Self::PLACES_MAX).then_some(id)
    }
}

impl<S, K: Kernel> Conns<S, K> {
    /// Connections that can move, each behind the place of the one that has its socket: those of
    /// one socket, which move together or not at all, are side by side. They are established, not
    /// on their way out, of peers that read, and in plain text or with TLS whose keys can be taken
    /// out.
    pub fn movable(&self) -> Vec<(u32, ConnId)> {
        let (mut all, mut stay) = (Vec::new(), BTreeSet::new());
        for (index, slot) in self.slots.iter() {
            let ride = self.streams.rides.peek(index);
            let socket = ride.map_or(index, |ride| ride.carrier);
            let link = self.secured.links.peek(index).map(|entry| &entry.link);
            let moves =
                !slot.has(STAYS) && self.reads(slot.out) && link.is_none_or(TlsLink::can_move);
            match moves {
                true => all.push((socket, self.id_of(index, slot))),
                false => drop(stay.insert(socket)),
            }
        }
        all.retain(|(socket, _)| !stay.contains(socket));
        all.sort_by_key(|&(socket, _)| socket);
        all
    }

    /// The tag of a connection that is still there.
    pub fn tag(&self, id: ConnId) -> Option<u32> {
        Some(self.slot(id)?.tag)
    }

    /// Takes the keys of a connection from rustls, if TLS is spoken, so that it can be saved. What
    /// rustls had yet to say leaves, or waits with it. False if the connection stays, since it can
    /// only end. One that does not move after all goes on with records of our own.
    pub fn leave_rustls(&mut self, id: ConnId) -> bool {
        let index = id.index();
        let mut wire = self.secured.take_wire();
        let left = match self.secured.links.get(index) {
            Some(entry) => entry.link.leave_rustls(&mut wire),
            None => Ok(true),
        };
        self.send_sealed(index, &wire);
        self.secured.put_wire(wire);
        match left {
            Ok(has_left) => has_left && { self.slots.get(index) }.is_some_and(|s| !s.has(STAYS)),
            Err(fault) => {
                self.give_up(index, fault);
                false
            }
        }
    }

    /// Appends a [`SavedConn`] of a connection, whose keys are out of rustls; nothing if it
    /// has gone.
    pub fn save(&self, id: ConnId, out: &mut Vec<u8>) {
        let Some(slot) = self.slots.get(id.index()) else {
            return;
        };
        let deadline = self.wheel.get(id.index());
        (id.index(), slot.generation, deadline).save(out);
        let entry = self.secured.links.peek(id.index());
        let (queue, link) = (self.queues.get(slot.out), entry.map(|entry| &entry.link));
        (slot.has(flag::PAUSED), queue, link).save(out);
        self.save_http2(id.index(), out);
    }

    /// Takes a connection out of the table, with its socket, which stays as it is: watched, and
    /// silent. [`Conns::let_go`] follows, or [`Conns::adopt`] with what was saved.
    pub fn take_out(&mut self, id: ConnId) -> Option<(Option<K::Socket>, S)> {
        self.session(id)?;
        self.wheel.set(id.index(), None);
        let slot = self.slots.remove(id.index())?;
        if slot.out != NO_QUEUE {
            self.recycle(slot.out);
        }
        self.secured.links.take(id.index());
        self.forget_http2(id.index());
        Some((slot.socket, slot.session))
    }

    /// Gives a socket up that was taken out and that another process has from now on: its peer
    /// notices nothing.
    pub fn let_go(&mut self, socket: K::Socket) {
        self.kernel.let_go(socket);
    }

    /// Takes nothing in from the connections that are left: what they ask would be carried out
    /// where nobody sees it. What they are told still leaves. Peers that share a connection hear
    /// which of their streams was the last, and may repeat those behind it elsewhere.
    pub fn pause_all(&mut self) {
        let all: Vec<u32> = self.slots.iter().map(|(index, _)| index).collect();
        for index in all {
            if self.is_carrier(index) {
                // It is read, since answers need windows.
                self.with_carrier(index, |carrier, out| {
                    carrier.conn.close(Code::NO_ERROR, "", out);
                });
            } else if let Some(slot) = self.slots.get_mut(index) {
                slot.flags |= flag::PAUSED;
            }
        }
    }

    /// Returns the number of connections there have ever been, modulo 2^32: the generation of the
    /// next one.
    pub const fn generation(&self) -> u32 {
        self.generation
    }

    /// Goes on counting where another process stopped.
    pub const fn resume_generation(&mut self, generation: u32) {
        self.generation = generation;
    }

    /// Puts a connection into its place, with its socket if it has one. Nothing is read or written
    /// before the shard begins, or takes it back. `None`, and the socket is closed, if the place is
    /// taken.
    pub fn adopt(
        &mut self,
        saved: SavedConn,
        socket: Option<K::Socket>,
        tag: u32,
        session: S,
    ) -> Option<ConnId> {
        let id = saved.id(self)?;
        let SavedConn {
            index,
            generation,
            deadline,
            is_paused,
            queue,
            tls,
            http2,
        } = saved;
        let slot = Slot {
            socket,
            generation,
            out: NO_QUEUE,
            tag,
            flags: if is_paused { flag::PAUSED } else { 0 }
                | if tls.is_some() { flag::SECURE } else { 0 }
                | http2.flags(),
            session,
        };
        if !self.slots.restore(index, slot) {
            return None;
        }
        self.wheel.set(index, deadline);
        if let Some(mut queue) = queue {
            (queue.owner, queue.moved_at) = (index, self.now.mono);
            self.sum.note(queue.bytes());
            let place = self.queues.insert(queue);
            if let Some(slot) = self.slots.get_mut(index) {
                slot.out = place;
            }
        }
        if let Some(link) = tls {
            let deadline_ms = None;
            let entry = Box::new(Entry { link, deadline_ms });
            self.secured.links.insert(index, entry);
        }
        self.restore_http2(index, http2);
        self.keep_bound();
        Some(id)
    }

    /// Whether a connection was listed now, to be read from in the next turn. What waits for it is
    /// written at the end of that.
    pub(crate) fn list_again(&mut self, id: ConnId) -> bool {
        let slot = self.slots.get(id.index());
        if slot.is_some_and(|slot| slot.out != NO_QUEUE) {
            self.mark_dirty(id.index());
        }
        self.note_close(id.index());
        self.list(id.index())
    }

    /// Begins to read from and write to all connections: they are this process's now. Gives those
    /// that were listed now: streams of which something was read and not taken.
    pub(crate) fn watch_adopted(&mut self) -> Vec<u32> {
        self.close_orphans();
        let all: Vec<u32> = self.slots.iter().map(|(index, _)| index).collect();
        for index in all {
            self.watch(index);
            if self
                .slots
                .get(index)
                .is_some_and(|slot| slot.out != NO_QUEUE)
            {
                self.mark_dirty(index);
            }
        }
        let held: Vec<u32> = self.streams.held.keys().copied().collect();
        held.into_iter().filter(|&index| self.list(index)).collect()
    }
}

#[cfg(test)]
mod tests {
    use throng_types::{Load as _, check_saved};

    use super::*;

    #[test]
    fn what_the_table_knows_survives() {
        let mut queue = Outbound::default();
        queue.push_own(b"own");
        let saved = SavedConn {
            index: 7,
            generation: 9,
            deadline: Some(Millis(11)),
            is_paused: true,
            queue: Some(queue),
            tls: None,
            http2: Moved::Neither,
        };
        check_saved(&saved);
        let mut bytes = saved.saved();
        *bytes.last_mut().unwrap() = 9;
        assert!(SavedConn::load_whole(&bytes).is_none(), "no such kind");
    }
}
