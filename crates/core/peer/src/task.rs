//! Sequential code over links: a task awaits where a thread would block.
//!
//! A handshake, or a source that gets one request after the other, is an `async` function over
//! a [`Net`]. A [`Peer`] owns its [`Tasks`], hands them the events of its links and its wake-ups,
//! and polls what became ready. Without sockets, clocks and threads: time is the turn's.
//!
//! Never: runs by itself, or on another thread than its peer.
//!
//! Invariants
//! - A task is polled only if something that it awaits has happened.
//! - A [`Link`] that is dropped ends; no event of it follows.
//!
//! Bound: [`INPUT_BYTES_MAX`] of unread input of a link and what one read brought; beyond it the
//! host reads nothing. A task bounds what it writes by what it awaits.
//!
//! [`Peer`]: crate::Peer

mod link;
mod queue;
mod run;
mod time;
mod world;

pub use link::Link;
pub use queue::{Receiver, Sender, queue};
pub use run::{Task, Tasks};
pub use time::{Either, Late, Sleep, first};
pub use world::{INPUT_BYTES_MAX, Net};

use throng_types::Millis;

use crate::link::{Dial, Ended};

impl Net {
    /// Waits until a time; ready at once if it has passed.
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
