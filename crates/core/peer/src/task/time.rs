//! Waiting for a time.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::{Context, Poll};

use throng_types::Millis;

use super::world::Net;

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
