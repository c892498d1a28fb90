//! Connections on which TLS is spoken: sealed when written, opened when read.
//!
//! Owns each such connection's [`TlsLink`], by the place of its slot; a plain connection has a flag
//! that is not set, and nothing else. Never: decides who speaks TLS; the listener does, or whoever
//! connects.
//!
//! Bytes wait as they are, shared, and are sealed when the kernel has room for them: at most one
//! record's worth at a time. What it then refuses waits sealed at the head of the queue, and counts
//! there. So queues hold, drop and count the same things as on plain connections.
//!
//! Invariants
//! - Nothing is sealed while sealed bytes wait, but for rustls' own words, which go behind them.
//! - During the handshake the app gets nothing, and the connection's deadline is the
//!   handshake's.

use std::io::{self, IoSlice};
use std::mem;
use std::net::SocketAddr;
use std::num::NonZeroU32;

use throng_tls::{ClientTls, TlsFault, TlsLink};
use throng_types::{ConnId, Millis};

use super::links::{Entry, Intake, Taken, TlsEvent, TlsNews};
use super::{Conns, Delivery, Flushed, LINGER_MS, NO_QUEUE, flag};
use crate::{Accepted, Closed, Kernel};

/// Bytes that are sealed at a time: one full record (RFC 8446 section 5.1).
const SEAL_BYTES: usize = 16 << 10;

impl<S, K: Kernel> Conns<S, K> {
    /// As [`Conns::connect`], by TLS: [`crate::App::connected`] follows when the handshake is done.
    pub fn connect_secure(
        &mut self,
        source: Option<SocketAddr>,
        target: SocketAddr,
        accepted: Accepted<S>,
        tls: &ClientTls,
    ) -> io::Result<ConnId> {
        let id = self.open(source, target, accepted)?;
        self.secure(id.index(), TlsLink::client(tls), None);
        self.watch(id.index());
        Ok(id)
    }

    /// Starts a TLS handshake on an outgoing connection that is established and plain, and on which
    /// nothing waits: both sides have agreed on it. [`crate::App::connected`] follows once more.
    pub fn begin_tls(&mut self, id: ConnId, tls: &ClientTls) {
        let is_plain = { self.slots.get(id.index()) }
            .is_some_and(|slot| !slot.has(flag::SECURE | flag::LEAVING) && slot.out == NO_QUEUE);
        if self.session(id).is_some() && is_plain {
            self.secure(id.index(), TlsLink::client(tls), None);
            self.start_shaking(id.index());
        }
    }

    /// Speaks TLS on a new connection. `deadline` is the app's, and begins to count when hands are
    /// shaken; outgoing connections keep the one that they have.
    pub(crate) fn secure(
        &mut self,
        index: u32,
        link: Result<TlsLink, TlsFault>,
        deadline: Option<Millis>,
    ) {
        let Some(slot) = self.slots.get_mut(index) else {
            return;
        };
        slot.flags |= flag::SECURE | flag::SHAKING;
        match link {
            Ok(link) => {
                if !link.is_client() {
                    let most = self.now.mono + self.limits.handshake_timeout_ms;
                    self.wheel.set(index, Some(most));
                }
                let deadline_ms = deadline.map(|at| {
                    let after_ms = at.0.saturating_sub(self.now.mono.0);
                    u32::try_from(after_ms).map_or(NonZeroU32::MAX, |after_ms| {
                        NonZeroU32::new(after_ms).unwrap_or(NonZeroU32::MIN)
                    })
                });
                let entry = Box::new(Entry { link, deadline_ms });
                self.secured.links.insert(index, entry);
            }
            Err(fault) => {
                self.tell(index, |_| TlsNews::Refused(fault));
                self.close(index, Closed::ByApp);
            }
        }
    }

    /// Begins the handshake on an outgoing connection that is established; false if it is plain.
    pub(crate) fn start_shaking(&mut self, index: u32) -> bool {
        let Some(entry) = self.secured.links.get(index) else {
            return false;
        };
        let mut wire = Vec::new();
        let started = entry.link.start(&mut wire);
        self.send_sealed(index, &wire);
        if let Err(fault) = started {
            self.give_up(index, fault);
        }
        true
    }

    /// Returns the treatment of a connection's bytes by its state.
    #[inline]
    pub(crate) fn intake(&self, index: u32) -> Intake {
        let flags = self.slots.get(index).map_or(0, |slot| slot.flags);
        match flags & (flag::LEAVING | flag::SECURE | flag::CARRIER) {
            0 => Intake::Plain,
            _ if flags & flag::LEAVING != 0 => Intake::Nothing,
            _ if flags & flag::SECURE != 0 => Intake::Sealed,
            _ => Intake::Frames,
        }
    }

    /// Whether a connection is a carrier, or may become one by its first bytes.
    #[inline]
    pub(crate) fn takes_frames(&self, index: u32) -> bool {
        let slot = self.slots.get(index);
        slot.is_some_and(|slot| slot.has(flag::CARRIER | flag::FRESH))
    }

    /// Opens records, answers those of the handshake, and appends what the others say to `plain`.
    pub(crate) fn take_sealed(
        &mut self,
        index: u32,
        input: &mut [u8],
        plain: &mut Vec<u8>,
    ) -> Taken {
        let mut taken = Taken::default();
        let Some(entry) = self.secured.links.get(index) else {
            return taken;
        };
        // Taken and put back: handshakes are long, and nothing else is sealed meanwhile.
        let mut wire = Vec::new();
        let result = entry.link.receive(input, plain, &mut wire);
        let (shaken, is_client) = (entry.link.shaken(), entry.link.is_client());
        let deadline_ms = entry.deadline_ms;
        if let Some(shaken) = shaken
            && let Some(slot) = { self.slots.get_mut(index) }.filter(|slot| slot.has(flag::SHAKING))
        {
            slot.flags &= !flag::SHAKING;
            taken.is_connected = is_client;
            if !is_client {
                slot.flags |= if shaken.is_http2 { flag::AGREED } else { 0 };
                let deadline = deadline_ms.map(|after| self.now.mono + u64::from(after.get()));
                self.wheel.set(index, deadline);
            }
            self.tell(index, |_| TlsNews::Shaken(shaken));
            if !shaken.is_http2 && self.is_carrier(index) {
                // A server that has not agreed on HTTP/2 would make nothing of it.
                self.close(index, Closed::ByPeer);
            }
            // What was handed over meanwhile.
            self.mark_dirty(index);
        }
        self.send_sealed(index, &wire);
        match result {
            Ok(true) => taken.has_ended = true,
            Ok(false) => {}
            Err(fault) => self.give_up(index, fault),
        }
        taken
    }

    /// Ends a connection whose peer does not keep to TLS: an alert may be on its way.
    pub(super) fn give_up(&mut self, index: u32, fault: TlsFault) {
        self.tell(index, |is_shaking| {
            if is_shaking {
                TlsNews::Refused(fault)
            } else {
                TlsNews::Broken(fault)
            }
        });
        let Some(slot) = self.slots.get_mut(index) else {
            return;
        };
        slot.flags &= !flag::SHAKING;
        slot.flags |= flag::ENDING | flag::SAID_ALL;
        if let Some(queue) = self.queues.get_mut(slot.out) {
            queue.forget_plain();
        }
        self.wheel.set(index, Some(self.now.mono + LINGER_MS));
        self.mark_dirty(index);
    }

    /// Whether a client's time for its handshake is up; it then goes.
    pub(super) fn shook_too_long(&mut self, index: u32) -> bool {
        let slot = self.slots.get(index);
        let is_shaking = slot.is_some_and(|slot| slot.has(flag::SHAKING));
        if !is_shaking
            || self
                .secured
                .links
                .get(index)
                .is_none_or(|entry| entry.link.is_client())
        {
            return false;
        }
        self.tell(index, |_| TlsNews::Refused(TlsFault::TimedOut));
        if let Some(slot) = self.slots.get_mut(index) {
            slot.flags &= !flag::SHAKING;
        }
        self.close(index, Closed::ByApp);
        true
    }

    /// A connection leaves the table: if its peer went away before hands were shaken, that is news.
    pub(super) fn leaves(&mut self, index: u32, why: Closed) {
        let slot = self.slots.get(index);
        if slot.is_some_and(|slot| slot.has(flag::SHAKING)) && why != Closed::ByApp {
            self.tell(index, |_| TlsNews::Refused(TlsFault::Gone));
        }
    }

    /// The kernel says that nothing more comes of a peer that has not said so by TLS. A client
    /// cannot know whether it has heard all.
    pub(crate) fn ends_unsaid(&mut self, index: u32) {
        let slot = self.slots.get(index);
        if slot.is_some_and(|slot| slot.has(flag::SECURE) && !slot.has(flag::SHAKING)) && {
            self.secured.links.peek(index)
        }
        .is_some_and(|entry| entry.link.is_client())
        {
            self.tell(index, |_| TlsNews::Truncated);
        }
    }

    fn tell(&mut self, index: u32, news: impl FnOnce(bool) -> TlsNews) {
        let Some(slot) = self.slots.get(index) else {
            return;
        };
        let news = news(slot.has(flag::SHAKING));
        let peer = match news {
            TlsNews::Shaken(_) | TlsNews::Truncated => None,
            TlsNews::Refused(_) | TlsNews::Broken(_) => {
                { slot.socket.as_ref() }.and_then(|socket| self.kernel.peer(socket))
            }
        };
        self.secured.events.push(TlsEvent {
            conn: ConnId::new(self.shard, index, slot.generation),
            peer,
            news,
        });
    }

    #[inline]
    pub(crate) const fn has_tls_events(&self) -> bool {
        !self.secured.events.is_empty()
    }

    pub(crate) fn take_tls_events(&mut self) -> Vec<TlsEvent> {
        mem::take(&mut self.secured.events)
    }

    /// Sends records that must leave before anything that is not sealed yet.
    pub(super) fn send_sealed(&mut self, index: u32, records: &[u8]) {
        let Some(slot) = self.slots.get(index) else {
            return;
        };
        if records.is_empty() || slot.has(flag::CLOSED | flag::LINGERING) {
            return;
        }
        let waits = self
            .queues
            .get(slot.out)
            .is_some_and(|queue| queue.sealed().is_some());
        if waits {
            return self.queue_mut(index).push_sealed(records);
        }
        let Some(socket) = &slot.socket else {
            return;
        };
        self.stats.writes += 1;
        let sent = match self.kernel.send(socket, records) {
            Ok(sent) => sent,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => 0,
            Err(error) => return self.fail(index, &error),
        };
        self.stats.sent_bytes += sent as u64;
        if sent < records.len() {
            let queue = self.queue_mut(index);
            queue.push_sealed(&records[sent..]);
            queue.blocked = true;
            // Asked once more at the end of the turn: then the connection is watched, and the
            // kernel's word that it is full is certain.
            self.mark_dirty(index);
        }
    }

    /// Tells the peer of a TLS connection that nothing more will come. False if that waits.
    pub(super) fn say_all(&mut self, index: u32) -> bool {
        let Some(slot) = self.slots.get_mut(index) else {
            return true;
        };
        let secure = slot.flags & (flag::SECURE | flag::SAID_ALL | flag::CLOSED | flag::SHAKING);
        if secure != flag::SECURE {
            return true;
        }
        slot.flags |= flag::SAID_ALL;
        let mut wire = self.secured.take_wire();
        if let Some(entry) = self.secured.links.get(index) {
            entry.link.close(&mut wire);
        }
        self.send_sealed(index, &wire);
        self.secured.put_wire(wire);
        let slot = self.slots.get(index);
        slot.is_none_or(|slot| slot.out == NO_QUEUE)
    }

    /// Hands a delivery to a connection on which TLS is spoken, as [`Conns::deliver`] does.
    #[inline(never)]
    pub(super) fn deliver_secure(&mut self, index: u32, delivery: &Delivery<'_>) {
        let Some(slot) = self.slots.get(index) else {
            return;
        };
        let at_once = slot.out == NO_QUEUE && !slot.has(flag::SHAKING) && !delivery.gather;
        if !at_once || SEAL_BYTES < delivery.joined.len() {
            return self.queue_frames(index, delivery.frames.each(), delivery);
        }
        let mut wire = self.secured.take_wire();
        let Some(entry) = self.secured.links.get(index) else {
            return;
        };
        if let Err(fault) = entry.link.seal(delivery.joined, &mut wire) {
            return self.give_up(index, fault);
        }
        self.stats.deliveries += delivery.frames.len() as u64;
        self.send_sealed(index, &wire);
        self.secured.put_wire(wire);
    }

    /// Writes what waits for a connection on which TLS is spoken, as far as the kernel takes it.
    #[inline(never)]
    pub(super) fn write_secure(&mut self, index: u32, flushed: &mut Flushed) {
        let mut wire = self.secured.take_wire();
        let result = self.seal_and_send(index, &mut wire);
        self.secured.put_wire(wire);
        match result {
            Ok(full) => self.wrote(index, full, flushed),
            Err(Trouble::Kernel(error)) => flushed.broken.push((index, error)),
            Err(Trouble::Tls(fault)) => self.give_up(index, fault),
            Err(Trouble::Nothing) => self.written_if_leaving(index),
        }
    }

    fn written_if_leaving(&mut self, index: u32) {
        let slot = self.slots.get(index);
        if slot.is_some_and(|slot| slot.has(flag::LEAVING)) {
            self.written(index);
        }
    }

    /// True if the kernel took no more.
    fn seal_and_send(&mut self, index: u32, wire: &mut Vec<u8>) -> Result<bool, Trouble> {
        let slot = self.slots.get(index).ok_or(Trouble::Nothing)?;
        let queue = self.queues.get_mut(slot.out).ok_or(Trouble::Nothing)?;
        let socket = slot.socket.as_ref().ok_or(Trouble::Nothing)?;
        queue.lagged |= queue.blocked;
        loop {
            let result = if let Some(records) = queue.sealed() {
                self.stats.writes += 1;
                self.kernel.send(socket, records)
            } else {
                if !queue.may_leave() || slot.has(flag::SHAKING | flag::SAID_ALL) {
                    return Ok(false);
                }
                let entry = self.secured.links.get(index).ok_or(Trouble::Nothing)?;
                wire.clear();
                let plain = &mut self.secured.plain;
                let sealed = queue.with_slices(|slices| {
                    let data = gather(slices, plain);
                    entry.link.seal(data, wire).map(|()| data.len())
                });
                queue.sent(sealed.map_err(Trouble::Tls)?);
                self.stats.writes += 1;
                match self.kernel.send(socket, wire) {
                    Ok(sent) if sent < wire.len() => {
                        queue.push_sealed(&wire[sent..]);
                        queue.moved_at = self.now.mono;
                        self.sum.note(wire.len());
                        self.stats.sent_bytes += sent as u64;
                        continue;
                    }
                    Ok(sent) => {
                        queue.moved_at = self.now.mono;
                        self.stats.sent_bytes += sent as u64;
                        if slot.progress_gives_time() {
                            self.wheel.set(index, Some(self.now.mono + LINGER_MS));
                        }
                        continue;
                    }
                    Err(error) => {
                        queue.push_sealed(wire);
                        self.sum.note(wire.len());
                        Err(error)
                    }
                }
            };
            match result {
                Ok(sent) => {
                    self.stats.sent_bytes += sent as u64;
                    queue.sent(sent);
                    queue.moved_at = self.now.mono;
                    if slot.progress_gives_time() {
                        self.wheel.set(index, Some(self.now.mono + LINGER_MS));
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(true),
                Err(error) => return Err(Trouble::Kernel(error)),
            }
        }
    }
}

/// Why nothing more is written to a connection now.
enum Trouble {
    Kernel(io::Error),
    Tls(TlsFault),
    Nothing,
}

/// The next bytes to be sealed; put together in `plain` if they are not in one piece.
fn gather<'a>(slices: &'a [IoSlice<'_>], plain: &'a mut Vec<u8>) -> &'a [u8] {
    match slices {
        [] => &[],
        [one] => &one[..one.len().min(SEAL_BYTES)],
        [first, ..] if SEAL_BYTES <= first.len() => &first[..SEAL_BYTES],
        many => {
            plain.clear();
            for slice in many {
                let room = SEAL_BYTES - plain.len();
                plain.extend_from_slice(&slice[..slice.len().min(room)]);
            }
            plain
        }
    }
}
