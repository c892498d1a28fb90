//! Events of connections: they come, bytes arrive, there is room, they end.
//!
//! Rule for "no descriptors": accepting pauses, says so once, is tried again twice a second and
//! whenever a connection was removed, and never spins. Queue: `accept`. Listeners that may use the
//! spare descriptors go on as long as there are any; what is freed makes up for them first.
//!
//! Never: decides what bytes mean; the app does.

use std::io;
use std::net::SocketAddr;

use throng_tls::TlsLink;
use throng_types::Now;

use super::{LOOK_BYTES, LOOK_BYTES_PER_READ, Listener, READ_BYTES, Running};
use crate::conns::{Flushed, Intake, NewStream, StreamNews};
use crate::{App, Closed, Kernel, Ready};

/// Connections that one turn accepts, all listeners together.
const ACCEPTS_PER_TURN: usize = 256;
/// Connections that are accepted of a listener before it closes.
const LAST_ACCEPTS: usize = 4096;
/// Milliseconds for which accepting pauses when descriptors have run out, unless one is freed
/// before. Connections that arrive meanwhile wait in the kernel.
const ACCEPT_PAUSE_MS: u64 = 500;
/// Reads from one connection before others have their turn.
const READS_PER_TURN: usize = 4;
/// Part of a turn's time for reading that connections of HTTP/2 have, and those that may begin with
/// it; and bytes that are read from one at once. A few bytes of theirs ask for much, and others do
/// not wait for all of it.
const FRAMES_PART: u64 = 20;
const FRAMES_BYTES: usize = LOOK_BYTES;

impl<A: App<K>, K: Kernel> Running<A, K> {
    pub(super) fn connections_wait(&mut self, listener: u8) {
        if let Some(listener) = self.listeners.get_mut(usize::from(listener)) {
            listener.waiting = true;
        }
    }

    pub(super) fn stop_listening(&mut self, now: Now) {
        for (number, empties) in std::mem::take(&mut self.conns.closing_listeners) {
            for _ in 0..if empties { LAST_ACCEPTS } else { 0 } {
                let listener = self.listeners.get(usize::from(number));
                let Some(listener) = listener.and_then(|listener| listener.socket.as_ref()) else {
                    break;
                };
                match self.conns.kernel.accept(listener) {
                    Ok((socket, peer)) => self.accepted(number, socket, peer, now),
                    Err(error) if is_last(&error) || is_exhausted(&error) => break,
                    Err(_) => {}
                }
            }
            if let Some(listener) = self.listeners.get_mut(usize::from(number)) {
                listener.waiting = false;
                if let Some(socket) = listener.socket.take() {
                    self.conns.kernel.close_listener(socket);
                }
            }
        }
    }

    /// Accepts each listener's share; true if connections may be left.
    pub(super) fn accept(&mut self, now: Now) -> bool {
        let is_due = self.accept_again_at.is_none_or(|at| at <= now.mono);
        if is_due {
            self.accept_again_at = None;
            for listener in &mut self.listeners {
                listener.paused = false;
            }
            self.keep_spares();
        }
        let share = ACCEPTS_PER_TURN.div_ceil(self.listeners.len().max(1));
        for number in 0..self.listeners.len() {
            for _ in 0..share {
                if !self.listeners[number].may_accept() {
                    break;
                }
                let Some(listener) = &self.listeners[number].socket else {
                    self.listeners[number].waiting = false;
                    break;
                };
                match self.conns.kernel.accept(listener) {
                    Ok((socket, peer)) => self.accepted(number as u8, socket, peer, now),
                    Err(error) if is_exhausted(&error) => {
                        if self.app.may_use_spares(number as u8) && self.spares.pop().is_some() {
                            continue;
                        }
                        self.pause(number, now);
                    }
                    Err(error) if is_last(&error) => self.listeners[number].waiting = false,
                    // An error of the connection that would have been accepted (accept(2)).
                    Err(_) => {}
                }
            }
        }
        if self.accept_again_at.is_none() && std::mem::take(&mut self.is_pause_told) {
            self.app.accept_paused(false);
        }
        self.listeners.iter().any(Listener::may_accept)
    }

    fn pause(&mut self, number: usize, now: Now) {
        self.listeners[number].paused = true;
        self.accept_again_at
            .get_or_insert(now.mono + ACCEPT_PAUSE_MS);
        if !std::mem::replace(&mut self.is_pause_told, true) {
            self.stats.accept_pauses += 1;
            self.app.accept_paused(true);
        }
    }

    /// Takes as many spare descriptors as shall be kept, if there are so many.
    fn keep_spares(&mut self) {
        while self.spares.len() < self.conns.limits().spare_descriptors
            && let Ok(spare) = self.conns.kernel.make_spare()
        {
            self.spares.push(spare);
        }
    }

    fn accepted(&mut self, listener: u8, socket: K::Socket, peer: SocketAddr, now: Now) {
        let Some(accepted) = self.app.accept(listener, peer, now) else {
            self.stats.refused += 1;
            return self.conns.kernel.close(socket);
        };
        self.stats.accepted += 1;
        let deadline = accepted.deadline;
        let id = self.conns.insert(Some(socket), accepted, false);
        if self.app.may_use_spares(listener) {
            self.conns.prefer(id);
        }
        if let Some(Some(tls)) = self.tls.get(usize::from(listener)) {
            self.conns
                .secure(id.index(), TlsLink::server(tls), deadline);
        }
        // Its request is most likely there already: then it is served within this turn, and
        // the reactor has nothing to tell. In a turn that has read enough, the reactor tells of
        // it in the next one.
        if !self.has_read_enough(id.index()) {
            self.read(id.index());
        }
        self.conns.watch(id.index());
    }

    /// Takes connections that ended out of the table; true if accepting may go on because of it.
    pub(super) fn remove_closed(&mut self, now: Now) -> bool {
        let mut freed = false;
        while let Some((id, session, tag, why)) = self.conns.take_closed() {
            self.app.closed(id, session, tag, why, now);
            freed = true;
        }
        if freed && self.accept_again_at.is_some() {
            self.accept_again_at = Some(now.mono);
            return true;
        }
        // Streams that have gone say so to their peers.
        self.conns.has_dirty()
    }

    pub(super) fn ready(&mut self, index: u32, event: &Ready, flushed: &mut Flushed) {
        if self.conns.is_connecting(index) && (event.writable || event.error) {
            self.connected(index);
        }
        let has_ended = event.read_closed || event.error;
        // The last word of a peer that has gone is read before a write finds that it has.
        if has_ended {
            self.conns.note_close(index);
            self.read(index);
        }
        if event.writable {
            self.conns.write(index, flushed);
        }
        if event.readable && !has_ended {
            self.read(index);
        }
    }

    fn connected(&mut self, index: u32) {
        if let Some(error) = self.conns.connect_error(index) {
            let number = error.raw_os_error().unwrap_or(0);
            self.conns.close(index, Closed::Error(number));
        } else if self.conns.take_connecting(index)
            && !self.conns.start_shaking(index)
            && !self.conns.is_carrier(index)
        {
            self.tell_connected(index);
        }
    }

    fn tell_connected(&mut self, index: u32) {
        let app = &mut self.app;
        self.conns
            .act(index, |id, session, fx| app.connected(id, session, fx));
    }

    /// Reports the outcomes of handshakes to the app.
    #[inline]
    pub(super) fn tell_tls(&mut self) {
        if self.conns.has_tls_events() {
            self.tell_each_tls();
        }
    }

    #[cold]
    fn tell_each_tls(&mut self) {
        for event in self.conns.take_tls_events() {
            self.app.tls(&event);
        }
    }

    /// Whether this turn has read enough. Connections that are served first are read all the same.
    #[inline]
    fn has_read_enough(&mut self, index: u32) -> bool {
        if self.unlooked_bytes < LOOK_BYTES {
            return false;
        }
        let kept_us = match self.conns.takes_frames(index) {
            true => self.reading_us - self.reading_us / FRAMES_PART,
            false => 0,
        };
        let is_late = self.reads_until_us <= self.conns.kernel.mono_us() + kept_us;
        if !is_late {
            self.unlooked_bytes = 0;
        }
        is_late && !self.conns.is_preferred(index)
    }

    /// Reads the last word of a peer to which nothing can be written any more, and for which there
    /// is no other turn.
    pub(super) fn read_last(&mut self, index: u32) {
        if let Some(id) = self.conns.id(index) {
            self.conns.prefer(id);
            self.conns.note_close(index);
            self.read(index);
        }
    }

    /// Reads a connection's share. A short read is the last one, unless the peer's close is behind
    /// it.
    pub(super) fn read(&mut self, index: u32) {
        let mut has_read = false;
        for _ in 0..READS_PER_TURN {
            let Some(to_end) = self.conns.may_read(index) else {
                return;
            };
            if self.has_read_enough(index) {
                break;
            }
            let bytes = match self.conns.takes_frames(index) {
                true => FRAMES_BYTES,
                false => READ_BYTES,
            };
            let count = match self.conns.recv(index, &mut self.buffer[..bytes]) {
                Ok(0) => {
                    self.conns.ends_unsaid(index);
                    return self.conns.read_ended(index);
                }
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    return self.conns.forget_close(index);
                }
                Err(error) => return self.conns.fail(index, &error),
            };
            self.stats.read_bytes += count as u64;
            self.unlooked_bytes += count.max(LOOK_BYTES_PER_READ);
            has_read = true;
            match self.conns.intake(index) {
                Intake::Plain => {
                    let (app, input) = (&mut self.app, &mut self.buffer[..count]);
                    self.conns
                        .act(index, |id, session, fx| app.bytes(id, session, input, fx));
                    self.begin_http2(index);
                }
                Intake::Sealed => self.read_sealed(index, count),
                Intake::Frames => {
                    let buffer = std::mem::take(&mut self.buffer);
                    self.read_frames(index, &buffer[..count]);
                    self.buffer = buffer;
                }
                Intake::Nothing => {}
            }
            if count < bytes && !to_end {
                return;
            }
        }
        if self.conns.list(index) {
            let list = if has_read {
                &mut self.again
            } else {
                &mut self.unread
            };
            list.push(index);
        }
    }

    /// Takes what was read from a connection on which TLS is spoken.
    fn read_sealed(&mut self, index: u32, count: usize) {
        let mut plain = std::mem::take(&mut self.plain);
        let taken = self
            .conns
            .take_sealed(index, &mut self.buffer[..count], &mut plain);
        let is_carrier = self.conns.is_carrier(index);
        if taken.is_connected && !is_carrier {
            self.tell_connected(index);
        }
        if is_carrier {
            self.read_frames(index, &plain);
        } else if !plain.is_empty() && !self.conns.is_ending(index) {
            let app = &mut self.app;
            self.conns.act(index, |id, session, fx| {
                app.bytes(id, session, &mut plain, fx);
            });
            self.begin_http2(index);
        }
        if taken.has_ended {
            self.conns.read_ended(index);
        }
        plain.clear();
        plain.shrink_to(READ_BYTES);
        self.plain = plain;
    }
}

impl<A: App<K>, K: Kernel> Running<A, K> {
    /// Takes the first frames of a connection on which the app has just begun HTTP/2.
    #[inline]
    fn begin_http2(&mut self, index: u32) {
        if self.conns.has_begun_http2() {
            let first = self.conns.take_first();
            self.read_frames(index, &first);
        }
    }

    /// Takes frames of HTTP/2, and hands its streams what is theirs.
    fn read_frames(&mut self, index: u32, mut input: &[u8]) {
        let mut bytes = std::mem::take(&mut self.stream_bytes);
        while !self.conns.is_ending(index) {
            match self.conns.read_frames(index, &mut input, &mut bytes) {
                StreamNews::Nothing if input.is_empty() => break,
                StreamNews::Nothing => {}
                StreamNews::Begins(stream) => self.begin_stream(index, &stream, &mut bytes),
                StreamNews::Bytes { stream, came } => {
                    if self.conns.takes_bytes(stream, came, &bytes) {
                        self.hand_over(stream, came, &mut bytes);
                    }
                }
                StreamNews::Settled => self.tell_connected(index),
                StreamNews::Gone(stream) => self.conns.close(stream, Closed::ByPeer),
                StreamNews::Broken => break,
            }
        }
        self.conns.set_carrier_deadline(index);
        bytes.clear();
        bytes.shrink_to(READ_BYTES);
        self.stream_bytes = bytes;
    }

    fn begin_stream(&mut self, carrier: u32, stream: &NewStream, head: &mut [u8]) {
        let (app, mut accepted) = (&mut self.app, None);
        self.conns.act(carrier, |_, session, fx| {
            accepted = app.accept_stream(session, fx);
        });
        let Some(accepted) = accepted else {
            self.stats.refused += 1;
            return self.conns.refuse_stream(carrier, stream);
        };
        self.stats.streams += 1;
        let id = self.conns.insert_stream(carrier, stream, accepted);
        self.hand_over(id.index(), 0, head);
    }

    /// Hands a stream's session bytes that have taken so much of a window.
    fn hand_over(&mut self, stream: u32, came: usize, bytes: &mut [u8]) {
        if !bytes.is_empty() {
            let app = &mut self.app;
            self.conns
                .act(stream, |id, session, fx| app.bytes(id, session, bytes, fx));
        }
        self.conns.took(stream, came);
    }

    /// Hands a stream's session what it did not take before.
    pub(super) fn read_held(&mut self, stream: u32) {
        if let Some((mut bytes, came)) = self.conns.take_held(stream) {
            self.hand_over(stream, came, &mut bytes);
        }
    }
}

/// Whether the process or the machine has no descriptor or memory left for a connection.
fn is_exhausted(error: &io::Error) -> bool {
    use throng_sys::errno::{EMFILE, ENFILE, ENOBUFS, ENOMEM};
    matches!(
        error.raw_os_error(),
        Some(EMFILE | ENFILE | ENOBUFS | ENOMEM)
    )
}

/// Whether asking again is useless: no connection waits, or the listener itself is of no use.
fn is_last(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        // EAGAIN, and EINVAL of a listener that was shut (accept(2)).
        io::ErrorKind::WouldBlock | io::ErrorKind::InvalidInput
    )
}
