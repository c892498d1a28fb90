//! Mailboxes: the only places where two threads of the server meet.
//!
//! Between each pair of shards lies one bounded ring, first in first out, one writer,
//! one reader. Rule for "full": the writer keeps its mail and offers it again next
//! turn; its app decides what to refuse meanwhile. From outside the shards comes a
//! bounded channel; there "full" is an error to the caller.

mod wake;

use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};

pub(crate) use wake::{Waker, post};

use crate::Kernel;

/// Messages from outside that may wait for a shard. Queue: `mailbox from outside`.
const OUTSIDE: usize = 4096;

/// A shard's way to another: the ring, and what wakes its reader.
pub(crate) type Outgoing<M, K> = (<K as Kernel>::Sender<M>, Arc<Waker<<K as Kernel>::Wake>>);

/// One shard's ends of all its mailboxes. The entry for itself is empty.
pub(crate) struct Mailboxes<M, K: Kernel> {
    pub(crate) to: Vec<Option<Outgoing<M, K>>>,
    pub(crate) from: Vec<Option<K::Receiver<M>>>,
    pub(crate) outside: Receiver<M>,
    /// What others wake this shard with.
    pub(crate) waker: Arc<Waker<K::Wake>>,
}

/// The way into a shard from outside the shards.
pub struct MailboxSender<M> {
    sender: SyncSender<M>,
    waker: Arc<dyn WakeShard>,
}

/// A [`Waker`] of any kernel.
trait WakeShard: Send + Sync {
    fn wake(&self);
}

impl<W: crate::Wake> WakeShard for Waker<W> {
    fn wake(&self) {
        self.wake();
    }
}

impl<M> Clone for MailboxSender<M> {
    fn clone(&self) -> Self {
        Self {
            sender: self.sender.clone(),
            waker: self.waker.clone(),
        }
    }
}

impl<M> MailboxSender<M> {
    /// Hands mail in; gives it back if the mailbox is full or the shard has ended.
    pub fn send(&self, mail: M) -> Result<(), M> {
        match self.sender.try_send(mail) {
            Ok(()) => {
                self.waker.wake();
                Ok(())
            }
            Err(TrySendError::Full(mail) | TrySendError::Disconnected(mail)) => Err(mail),
        }
    }

    /// Wakes the shard, so that it looks around.
    pub fn ring(&self) {
        self.waker.wake();
    }
}

/// Mailboxes between shards on these kernels, which are woken by these wakers, and the ways into
/// them from outside.
pub(crate) fn connect<M: Send + 'static, K: Kernel>(
    kernels: &mut [&mut K],
    wakers: &[Arc<Waker<K::Wake>>],
) -> (Vec<Mailboxes<M, K>>, Vec<MailboxSender<M>>) {
    let shards = wakers.len();
    let mut mailboxes = Vec::new();
    let mut boxes: Vec<Mailboxes<M, K>> = wakers
        .iter()
        .map(|waker| {
            let (sender, outside) = sync_channel(OUTSIDE);
            mailboxes.push(MailboxSender {
                sender,
                waker: waker.clone(),
            });
            Mailboxes {
                to: (0..shards).map(|_| None).collect(),
                from: (0..shards).map(|_| None).collect(),
                outside,
                waker: waker.clone(),
            }
        })
        .collect();
    for (from, kernel) in kernels.iter_mut().enumerate() {
        for to in (0..shards).filter(|&to| to != from) {
            let (sender, receiver) = kernel.make_mailbox();
            boxes[from].to[to] = Some((sender, wakers[to].clone()));
            boxes[to].from[from] = Some(receiver);
        }
    }
    (boxes, mailboxes)
}
