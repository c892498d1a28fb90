//! Connections that come and go: accepting, opening, removing.
//!
//! Rule for "no descriptors": accepting pauses, says so once, is tried again twice a second and
//! whenever a connection was removed, and never spins. Queue: `accept`. Listeners that may use the
//! spare descriptors go on as long as there are any; what is freed makes up for them first.

use std::io;
use std::net::SocketAddr;

use throng_tls::Link;
use throng_types::Now;

use super::{Listener, Running};
use crate::{App, Kernel};

/// Connections that one turn accepts, all listeners together.
const ACCEPTS_PER_TURN: usize = 256;
/// Connections that are accepted of a listener before it closes.
const LAST_ACCEPTS: usize = 4096;
/// Milliseconds for which accepting pauses when descriptors have run out, unless one is freed
/// before. Connections that arrive meanwhile wait in the kernel.
const ACCEPT_PAUSE_MS: u64 = 500;

impl<A: App<K>, K: Kernel> Running<A, K> {
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

    /// Leaves a listener alone for a while.
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
        let id = self.conns.insert(socket, accepted, false);
        if self.app.may_use_spares(listener) {
            self.conns.prefer(id);
        }
        if let Some(Some(tls)) = self.tls.get(usize::from(listener)) {
            self.conns.secure(id.index(), Link::server(tls), deadline);
        }
        // Its request is most likely there already: then it is served within this turn, and
        // the reactor has nothing to tell. In a turn that has read enough, the reactor tells of
        // it in the next one.
        if !self.has_read_enough(id.index()) {
            self.read(id.index(), false);
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
        false
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
