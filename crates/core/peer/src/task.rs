//! Sequential code over links: a task awaits where a thread would block.
//!
//! A handshake, or a source that is asked one question after the other, is an `async` function over
//! a [`Net`]. A [`Peer`] owns its [`Tasks`], hands them the events of its links and its wake-ups,
//! and polls what became ready. Without sockets, clocks and threads: time is the turn's.
//!
//! Never: runs by itself, or on another thread than its peer.
//!
//! Invariants
//! - A task is polled only if something that it awaits has happened.
//! - A [`Link`] that is dropped ends; nothing is heard of it any more.
//!
//! Bound: [`INPUT_BYTES_MAX`] of unread input of a link and what one read brought; beyond it the
//! host reads nothing. A task bounds what it writes by what it awaits.
//!
//! [`Peer`]: crate::Peer

mod link;
mod queue;
mod run;
mod time;

pub use link::Link;
pub use queue::{Receiver, Sender, queue};
pub use run::{Task, Tasks};
pub use time::{Either, Late, Sleep, first};

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::task::Waker;

use throng_types::{Millis, Now};

use crate::link::{Dial, DialTls, Ended, LinkId};

/// Unread input of one link above which the host stops reading it, in bytes.
pub const INPUT_BYTES_MAX: usize = 256 << 10;

/// Everything that tasks ask of the world. Clones lead to the same one.
#[derive(Clone, Default)]
pub struct Net(Rc<RefCell<World>>);

/// Tells a link from others before its host has named it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key(u64);

/// A wish of a task. Carried out after it was polled.
enum Wish {
    Dial(Key, Dial),
    Secure(Key, DialTls),
    Write(Key, Vec<u8>),
    Resume(Key),
    /// Reads a link again that is the peer's own now.
    ResumeReleased(LinkId),
    Finish(Key),
    End(Key),
}

/// State of links and timers that tasks share with [`Tasks`].
#[derive(Default)]
struct World {
    now: Now,
    next_key: u64,
    /// Bound: what tasks wish in one poll.
    wishes: Vec<Wish>,
    links: BTreeMap<Key, link::State>,
    ids: BTreeMap<LinkId, Key>,
    names: BTreeMap<Key, LinkId>,
    next_timer: u64,
    due: BTreeSet<(Millis, u64)>,
    timers: BTreeMap<u64, Waker>,
    /// Bound: tasks that were spawned in one poll.
    spawned: Vec<run::Spawned>,
}

impl Net {
    /// The clocks, as read at the start of the turn.
    #[must_use]
    pub fn now(&self) -> Now {
        self.0.borrow().now
    }

    /// Waits until then.
    #[must_use]
    pub fn sleep_until(&self, at: Millis) -> Sleep {
        Sleep::new(self.clone(), at)
    }

    /// Waits for so many milliseconds.
    #[must_use]
    pub fn sleep(&self, ms: u64) -> Sleep {
        self.sleep_until(self.now().mono + ms)
    }

    /// Gives a future so many milliseconds. At the deadline itself the future still wins.
    ///
    /// # Errors
    /// [`Late`], after that time.
    pub async fn timeout<F: Future>(&self, ms: u64, future: F) -> Result<F::Output, Late> {
        match first(future, self.sleep(ms)).await {
            Either::Left(output) => Ok(output),
            Either::Right(()) => Err(Late),
        }
    }

    /// Establishes a link.
    ///
    /// # Errors
    /// [`Ended::Unreachable`], with the host's text.
    pub async fn dial(&self, dial: Dial) -> Result<Link, Ended> {
        let link = Link::begin(self, dial);
        link.established().await?;
        Ok(link)
    }
}

#[cfg(test)]
mod tests;
