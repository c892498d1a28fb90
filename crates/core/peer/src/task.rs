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

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::{Context, Poll};

use throng_types::Millis;

use crate::{Dial, Ended};

pub use link::Link;
pub use queue::{Receiver, Sender, queue};
pub use run::{INPUT_BYTES_MAX, Net, Task, Tasks};

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

/// Ends at a time. Dropping it forgets the timer.
pub struct Sleep {
    net: Net,
    at: Millis,
    timer: Option<u64>,
}

impl Sleep {
    pub(super) const fn new(net: Net, at: Millis) -> Self {
        Self {
            net,
            at,
            timer: None,
        }
    }

    fn forget(&mut self) {
        if let Some(timer) = self.timer.take() {
            let mut world = self.net.0.borrow_mut();
            world.timers.remove(&timer);
            world.due.remove(&(self.at, timer));
        }
    }
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if self.at <= self.net.now().mono {
            self.forget();
            return Poll::Ready(());
        }
        let at = self.at;
        let known = self.timer;
        let mut world = self.net.0.borrow_mut();
        let timer = known.unwrap_or_else(|| {
            world.next_timer += 1;
            world.next_timer
        });
        world.due.insert((at, timer));
        world.timers.insert(timer, cx.waker().clone());
        drop(world);
        self.timer = Some(timer);
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        self.forget();
    }
}

/// A future that did not end in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Late;

/// The output of the first of two futures that was ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Either<A, B> {
    /// Output of the first future.
    Left(A),
    /// Output of the second future.
    Right(B),
}

/// Waits for one of two futures, and drops the other. The first wins where both are ready.
pub async fn first<A: Future, B: Future>(a: A, b: B) -> Either<A::Output, B::Output> {
    let (mut a, mut b) = (pin!(a), pin!(b));
    poll_fn(|cx| match a.as_mut().poll(cx) {
        Poll::Ready(output) => Poll::Ready(Either::Left(output)),
        Poll::Pending => b.as_mut().poll(cx).map(Either::Right),
    })
    .await
}

#[cfg(test)]
mod tests;
