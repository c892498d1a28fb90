//! The protocol of two threads: how mail is posted, and how its reader is woken.
//!
//! Owns the flag that says whether a reader was woken already. Never: keeps mail.
//!
//! The writer pushes, then wakes. The reader resets its waker, then reads, then sleeps. What must
//! hold, whatever the threads do in between:
//! - mail that was pushed is read without anybody else's help: no reader sleeps on it;
//! - mail that found no room makes its writer look again: no writer sleeps on it.
//!
//! The tests check both for every order in which the threads can run, with loom. They run the
//! code that production runs; only the atomic and the ring are loom's.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::{MailSender, Wake};

/// The one atomic operation of the protocol.
pub(crate) trait Flag {
    /// Sets the flag and gives what it was. It acquires and releases.
    fn replace(&self, value: bool) -> bool;
}

impl Flag for AtomicBool {
    fn replace(&self, value: bool) -> bool {
        self.swap(value, Ordering::AcqRel)
    }
}

/// Wakes a shard from its sleep, once however often it is asked.
pub(crate) struct Waker<W, F = AtomicBool> {
    wake: W,
    /// It was woken since it last read its mail.
    woken: F,
}

impl<W: Wake> Waker<W> {
    pub(crate) const fn new(wake: W) -> Self {
        Self {
            wake,
            woken: AtomicBool::new(false),
        }
    }
}

impl<W: Wake, F: Flag> Waker<W, F> {
    /// To be called after mail was pushed.
    pub(crate) fn wake(&self) {
        if !self.woken.replace(true) {
            self.wake.wake();
        }
    }

    /// To be called before the mailboxes are read: whoever pushes after it wakes again, and what
    /// was pushed before a wake that it takes back is visible to the reads that follow (both are
    /// swaps of one flag, so they are ordered).
    pub(crate) fn reset(&self) {
        self.woken.replace(false);
    }
}

/// What came of posting.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Posted {
    /// Something was pushed: wake the reader.
    pub(crate) any: bool,
    /// There was no room left, so mail may wait: look again soon.
    pub(crate) full: bool,
}

/// Pushes what `take` gives, as long as there is room.
pub(crate) fn post<M>(
    sender: &mut impl MailSender<M>,
    mut take: impl FnMut() -> Option<M>,
) -> Posted {
    let mut posted = Posted::default();
    loop {
        // Asked once: room that the reader makes meanwhile must not hide that mail was left.
        if sender.slots() == 0 {
            posted.full = true;
            return posted;
        }
        let Some(mail) = take() else {
            return posted;
        };
        // There is room: this thread is the only writer.
        let pushed = sender.push(mail);
        debug_assert!(pushed.is_ok(), "room was checked");
        posted.any = true;
    }
}

#[cfg(test)]
mod tests;
