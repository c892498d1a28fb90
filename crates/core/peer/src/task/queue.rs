//! Queues between a peer and its tasks, and among tasks.
//!
//! Rule for "full": [`QueueSender::send`] gives the item back, [`QueueSender::put`] waits.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

struct Shared<T> {
    /// Items, oldest first. Bound: `max`.
    items: VecDeque<T>,
    max: usize,
    senders: usize,
    is_closed: bool,
    waker: Option<Waker>,
    /// Senders that wait for room. Bound: one entry a sender.
    puts: Vec<Waker>,
}

impl<T> Shared<T> {
    fn pop(&mut self) -> Option<T> {
        let item = self.items.pop_front()?;
        self.puts.drain(..).for_each(Waker::wake);
        Some(item)
    }
}

/// Puts items in. Clones lead to the same queue.
pub struct QueueSender<T>(Rc<RefCell<Shared<T>>>);

/// Takes items out, in their order.
pub struct QueueReceiver<T>(Rc<RefCell<Shared<T>>>);

/// Makes a queue of at most so many items.
#[must_use]
pub fn queue<T>(max: usize) -> (QueueSender<T>, QueueReceiver<T>) {
    let shared = Rc::new(RefCell::new(Shared {
        items: VecDeque::new(),
        max,
        senders: 1,
        is_closed: false,
        waker: None,
        puts: Vec::new(),
    }));
    (QueueSender(shared.clone()), QueueReceiver(shared))
}

impl<T> QueueSender<T> {
    /// Puts an item in.
    ///
    /// # Errors
    /// The item, if the queue is full or its receiver is gone.
    pub fn send(&self, item: T) -> Result<(), T> {
        let mut shared = self.0.borrow_mut();
        if shared.is_closed || shared.items.len() >= shared.max {
            return Err(item);
        }
        shared.items.push_back(item);
        if let Some(waker) = shared.waker.take() {
            waker.wake();
        }
        Ok(())
    }

    /// Waits for room, and puts an item in.
    ///
    /// # Errors
    /// The item, if the receiver is gone.
    pub async fn put(&self, item: T) -> Result<(), T> {
        let mut item = Some(item);
        poll_fn(|cx| {
            let back = item.take().and_then(|item| self.send(item).err());
            let mut shared = self.0.borrow_mut();
            match back {
                Some(back) if !shared.is_closed => {
                    item = Some(back);
                    shared.puts.push(cx.waker().clone());
                    Poll::Pending
                }
                Some(back) => Poll::Ready(Err(back)),
                None => Poll::Ready(Ok(())),
            }
        })
        .await
    }
}

impl<T> Clone for QueueSender<T> {
    fn clone(&self) -> Self {
        self.0.borrow_mut().senders += 1;
        Self(self.0.clone())
    }
}

impl<T> Drop for QueueSender<T> {
    fn drop(&mut self) {
        let mut shared = self.0.borrow_mut();
        shared.senders -= 1;
        if shared.senders == 0
            && let Some(waker) = shared.waker.take()
        {
            waker.wake();
        }
    }
}

impl<T> QueueReceiver<T> {
    /// Waits for an item; `None` once all senders are gone and nothing is left.
    pub async fn next(&mut self) -> Option<T> {
        poll_fn(|cx| self.poll_next(cx)).await
    }

    pub fn try_next(&mut self) -> Option<T> {
        self.0.borrow_mut().pop()
    }

    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<T>> {
        let mut shared = self.0.borrow_mut();
        let item = shared.pop();
        if item.is_some() || shared.senders == 0 {
            return Poll::Ready(item);
        }
        shared.waker = Some(cx.waker().clone());
        Poll::Pending
    }
}

impl<T> Drop for QueueReceiver<T> {
    fn drop(&mut self) {
        let mut shared = self.0.borrow_mut();
        shared.is_closed = true;
        shared.items.clear();
        shared.puts.drain(..).for_each(Waker::wake);
    }
}
