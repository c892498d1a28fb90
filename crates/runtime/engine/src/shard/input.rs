//! Events of connections from the kernel: established, bytes, room, the end.
//!
//! Never: decides what bytes mean; the app does.

use std::io;

use super::{LOOK_BYTES, LOOK_BYTES_PER_READ, READ_BYTES, Running};
use crate::conns::{Flushed, Intake};
use crate::{App, Closed, Kernel, Ready};

/// Reads from one connection before others have their turn.
const READS_PER_TURN: usize = 4;

impl<A: App<K>, K: Kernel> Running<A, K> {
    pub(super) fn ready(&mut self, index: u32, event: &Ready, flushed: &mut Flushed) {
        if self.conns.is_connecting(index) && (event.writable || event.error) {
            self.connected(index);
        }
        let has_ended = event.read_closed || event.error;
        // The last word of a peer that has gone is read before a write finds that it has.
        if has_ended {
            self.read(index, true);
        }
        if event.writable {
            self.conns.write(index, flushed);
        }
        if event.readable && !has_ended {
            self.read(index, false);
        }
    }

    fn connected(&mut self, index: u32) {
        if let Some(error) = self.conns.connect_error(index) {
            let number = error.raw_os_error().unwrap_or(0);
            self.conns.close(index, Closed::Error(number));
        } else if self.conns.take_connecting(index) && !self.conns.start_shaking(index) {
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
    pub(super) fn has_read_enough(&mut self, index: u32) -> bool {
        if self.unlooked_bytes < LOOK_BYTES {
            return false;
        }
        let is_late = self.reads_until_us <= self.conns.kernel.mono_us();
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
            self.read(index, true);
        }
    }

    /// Reads a connection's share. With `to_end`, a short read is not taken for the last one:
    /// the peer's close may be behind it.
    pub(super) fn read(&mut self, index: u32, to_end: bool) {
        let mut has_read = false;
        for _ in 0..READS_PER_TURN {
            if !self.conns.may_read(index) {
                return;
            }
            if self.has_read_enough(index) {
                break;
            }
            let count = match self.conns.recv(index, &mut self.buffer) {
                Ok(0) => {
                    self.conns.ends_unsaid(index);
                    return self.conns.read_ended(index);
                }
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
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
                }
                Intake::Sealed => self.read_sealed(index, count),
                Intake::Nothing => {}
            }
            if count < READ_BYTES && !to_end {
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
        if taken.is_connected {
            self.tell_connected(index);
        }
        if !plain.is_empty() && !self.conns.is_ending(index) {
            let app = &mut self.app;
            self.conns.act(index, |id, session, fx| {
                app.bytes(id, session, &mut plain, fx);
            });
        }
        if taken.has_ended {
            self.conns.read_ended(index);
        }
        plain.clear();
        plain.shrink_to(READ_BYTES);
        self.plain = plain;
    }
}
