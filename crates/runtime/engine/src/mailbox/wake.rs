//! The protocol of two threads: how mail is posted, and how its reader is woken.
//!
//! Owns the flag that says whether a reader sleeps. Never: keeps mail.
//!
//! The writer pushes, then wakes, which costs a system call only if the reader sleeps. The reader
//! says that it sleeps, looks into its mailboxes once more, and only then does. What must hold,
//! whatever the threads do in between:
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
    /// Set while the reader sleeps, or is about to.
    asleep: F,
    /// The reader was asked to look around, mail or no mail.
    rung: F,
}

impl<W: Wake> Waker<W> {
    pub(crate) const fn new(wake: W) -> Self {
        Self {
            wake,
            asleep: AtomicBool::new(false),
            rung: AtomicBool::new(false),
        }
    }
}

impl<W: Wake, F: Flag> Waker<W, F> {
    /// Wakes the reader after mail was pushed; true if the reader slept and had to be woken.
    pub(crate) fn wake(&self) -> bool {
        let slept = self.asleep.replace(false);
        if slept {
            self.wake.wake();
        }
        slept
    }

    /// Makes the reader look around, even if no mail was pushed.
    pub(crate) fn ring(&self) {
        self.rung.replace(true);
        self.wake();
    }

    /// Says that the reader sleeps from now on. The mailboxes must be looked into after it: whoever
    /// pushes later finds the flag and wakes, and what was pushed before a wake that came too early
    /// is visible to that look (both are swaps of one flag, so they are ordered).
    pub(crate) fn fall_asleep(&self) {
        self.asleep.replace(true);
    }

    /// Says that the reader is awake, so that nobody need wake it, and looks around now, so that
    /// who rang before need not be heard again.
    pub(crate) fn awake(&self) {
        self.asleep.replace(false);
        self.rung.replace(false);
    }

    /// Whether the reader was asked to look around since it was last asked this.
    pub(crate) fn was_rung(&self) -> bool {
        self.rung.replace(false)
    }
}

/// Outcome of posting mail to one shard.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Posted {
    /// Messages pushed: if there are any, wake the reader.
    pub(crate) count: u64,
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
        posted.count += 1;
    }
}

#[cfg(test)]
mod tests;
