//! The way of other threads to a peer.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use throng_types::lock;

/// Hands calls to a peer, from any thread. Clones lead to the same peer.
pub struct CallSender<C>(Arc<Shared<C>>);

struct Shared<C> {
    /// Queue: `to a peer`.
    calls: Mutex<Vec<C>>,
    is_closed: AtomicBool,
    wake: Arc<dyn Fn() + Send + Sync>,
}

impl<C> Clone for CallSender<C> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<C> CallSender<C> {
    /// `wake` lets the peer's shard take a turn.
    pub fn new(wake: Arc<dyn Fn() + Send + Sync>) -> Self {
        Self(Arc::new(Shared {
            calls: Mutex::new(Vec::new()),
            is_closed: AtomicBool::new(false),
            wake,
        }))
    }

    /// Hands a call in; false if the peer has ended.
    pub fn send(&self, call: C) -> bool {
        let mut calls = lock(&self.0.calls);
        if self.is_closed() {
            return false;
        }
        let is_first = calls.is_empty();
        calls.push(call);
        drop(calls);
        if is_first {
            (self.0.wake)();
        }
        true
    }

    pub(crate) fn take(&self) -> Vec<C> {
        let mut calls = lock(&self.0.calls);
        std::mem::take(&mut *calls)
    }

    /// Takes no more calls, forgets those that wait, and lets the shard end.
    pub(crate) fn close(&self) {
        self.0.is_closed.store(true, Ordering::Release);
        drop(self.take());
        (self.0.wake)();
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.0.is_closed.load(Ordering::Acquire)
    }
}
