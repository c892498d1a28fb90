//! Serves a peer on a shard of the engine: connections that we open have the same sockets, TLS,
//! deadlines and queues as those that we accept.
//!
//! [`start`] gives the peer a thread of its own; [`Outward`] is the app that runs there, and runs
//! over any kernel. Names are looked up on helper threads, since nothing else blocks.
//!
//! Bounds and rules for "full"
//! - Calls: as many as callers have under way; each counts its own. Queue: `to a peer`.
//! - Replies: as the peer bounds them. One whose destination is busy is offered again after a
//!   millisecond; those behind it for the same destination wait, others do not.
//!   Queue: `from a peer`.
//! - Names: see `names.rs`. An answer holds for ten seconds, or until none of its addresses can be
//!   reached.

mod app;
mod calls;
mod names;
mod tls;

use std::io;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Instant;

use throng_engine::{ConnLimits, ShardOptions, builders};
use throng_peer::Peer;
use throng_types::ShardId;

pub use app::{AskName, Deliver, Outward};
pub use calls::CallSender;
pub use names::{Addresses, ResolvedName};

/// Bytes that may wait for one link. Requests and their bodies are bounded where they are made, so
/// this is far above all that a peer writes.
const QUEUE_BYTES_MAX: usize = 1 << 30;

/// A peer at work. Dropping it ends all links without a word, and waits for the end of its thread.
pub struct Host<C> {
    calls: CallSender<C>,
    thread: Option<JoinHandle<()>>,
}

impl<C> Host<C> {
    #[must_use]
    pub fn calls(&self) -> CallSender<C> {
        self.calls.clone()
    }
}

/// A peer that the caller serves by itself.
impl<C> From<CallSender<C>> for Host<C> {
    fn from(calls: CallSender<C>) -> Self {
        let thread = None;
        Self { calls, thread }
    }
}

impl<C> Drop for Host<C> {
    fn drop(&mut self) {
        self.calls.close();
        // Links end with the thread; a look-up that takes long is not waited for.
        drop(self.thread.take().map(JoinHandle::join));
    }
}

/// Limits of a peer's links: 1 GiB of output for each, since peers bound what they write, and
/// reading goes on whatever waits.
#[must_use]
pub fn limits() -> ConnLimits {
    ConnLimits {
        queue_bytes_max: QUEUE_BYTES_MAX,
        // An answer may come before its request was taken.
        unread_above_bytes: usize::MAX,
        ..ConnLimits::default()
    }
}

/// Starts a peer on a thread of this name, which makes it there. `deliver` takes its replies.
///
/// # Errors
/// If the kernel gives no reactor or no thread.
pub fn start<P: Peer + 'static>(
    name: &str,
    make: impl FnOnce() -> P + Send + 'static,
    deliver: Deliver<P::Reply>,
) -> io::Result<Host<P::Call>> {
    let options = ShardOptions {
        shard: ShardId(0),
        listeners: Vec::new(),
        limits: limits(),
        started: Instant::now(),
    };
    let (mut shards, mut mailboxes) = builders(vec![options])?;
    let (Some(shard), Some(mailbox)) = (shards.pop(), mailboxes.pop()) else {
        return Err(io::ErrorKind::Other.into());
    };
    let waker = mailbox.clone();
    let calls = CallSender::new(Arc::new(move || waker.ring()));
    let names = names::Names::new(mailbox);
    let ask = Box::new(move |name: &str| names.look_up(name));
    let (own, ended) = (calls.clone(), calls.clone());
    let thread = thread::Builder::new().name(name.to_owned());
    let thread = thread.spawn(move || {
        let app = Outward::new(make(), own, deliver, ask);
        // A reactor that fails ends the shard; callers then get an error.
        let _ = shard.with(app).run(|_, _, _| {});
        ended.close();
    })?;
    Ok(Host {
        calls,
        thread: Some(thread),
    })
}
