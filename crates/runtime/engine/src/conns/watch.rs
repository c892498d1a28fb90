//! Events that the kernel is asked to report for connections.

use std::io;

use super::{Conns, flag};
use crate::{Closed, Interest, Kernel};

impl<S, K: Kernel> Conns<S, K> {
    /// Begins to watch a connection. Whether it can be written to is asked for only once a
    /// write was refused: most never are, and each would announce itself as writable first.
    pub(crate) fn watch(&mut self, index: u32) {
        let Some(slot) = self.slots.get_mut(index) else {
            return;
        };
        let interest = if slot.has(flag::CONNECTING) {
            slot.flags |= flag::WATCHED;
            Interest::InputAndRoom
        } else {
            Interest::Input
        };
        let told = self.kernel.watch(&slot.socket, index, interest);
        self.check(index, told);
    }

    /// Asks the kernel to tell when a connection that was refused a write has room. The
    /// question stays in force, and is answered at once if room has come meanwhile.
    pub(super) fn ask_for_room(&mut self, index: u32) {
        let Some(slot) = self.slots.get_mut(index) else {
            return;
        };
        if !slot.has(flag::WATCHED) {
            slot.flags |= flag::WATCHED;
            let told = self.kernel.watch_room(&slot.socket, index);
            self.check(index, told);
        }
    }

    fn check(&mut self, index: u32, told: io::Result<()>) {
        if let Err(error) = told {
            self.close(index, Closed::Error(error.raw_os_error().unwrap_or(0)));
        }
    }
}
