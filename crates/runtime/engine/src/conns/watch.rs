//! What the reactor is asked to tell of connections.

use std::io;
use std::os::fd::AsRawFd;

use mio::unix::SourceFd;
use mio::{Interest, Registry, Token};

use super::{Conns, flag};
use crate::Closed;

impl<S> Conns<S> {
    pub(crate) fn set_registry(&mut self, registry: Registry) {
        self.registry = Some(registry);
    }

    /// Begins to watch a connection. Whether it can be written to is asked for only once a
    /// write was refused: most never are, and each would announce itself as writable first.
    pub(crate) fn watch(&mut self, index: u32) {
        let interest = if self.is_connecting(index) {
            Interest::READABLE | Interest::WRITABLE
        } else {
            Interest::READABLE
        };
        self.tell_reactor(index, interest, |registry, fd, token, interest| {
            registry.register(fd, token, interest)
        });
    }

    /// Asks the kernel to tell when a connection that was refused a write has room. The
    /// question stays in force, and is answered at once if room has come meanwhile.
    pub(super) fn ask_for_room(&mut self, index: u32) {
        let interest = Interest::READABLE | Interest::WRITABLE;
        if self
            .slots
            .get(index)
            .is_some_and(|slot| !slot.has(flag::WATCHED))
        {
            self.tell_reactor(index, interest, |registry, fd, token, interest| {
                registry.reregister(fd, token, interest)
            });
        }
    }

    fn tell_reactor(
        &mut self,
        index: u32,
        interest: Interest,
        tell: impl FnOnce(&Registry, &mut SourceFd<'_>, Token, Interest) -> io::Result<()>,
    ) {
        let (Some(slot), Some(registry)) = (self.slots.get_mut(index), &self.registry) else {
            return;
        };
        if interest.is_writable() {
            slot.flags |= flag::WATCHED;
        }
        let fd = slot.fd.as_raw_fd();
        if let Err(error) = tell(
            registry,
            &mut SourceFd(&fd),
            Token(index as usize),
            interest,
        ) {
            self.doom(index, Closed::Error(error.raw_os_error().unwrap_or(0)));
        }
    }
}
