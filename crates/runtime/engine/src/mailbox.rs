//! Mailboxes: the only places where two threads of the server meet.
//!
//! Between each pair of shards lies one bounded ring, first in first out, one writer,
//! one reader. Rule for "full": the writer keeps its mail and offers it again next
//! turn; its app decides what to refuse meanwhile. From outside the shards comes a
//! bounded channel; there "full" is an error to the caller.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};

/// Messages that a ring between two shards holds.
const RING: usize = 4096;
/// Messages from outside that may wait for a shard.
const OUTSIDE: usize = 4096;

/// Wakes a shard from its sleep, once however often it is asked.
pub(crate) struct Bell {
    waker: mio::Waker,
    rung: AtomicBool,
}

impl Bell {
    pub(crate) const fn new(waker: mio::Waker) -> Self {
        Self {
            waker,
            rung: AtomicBool::new(false),
        }
    }

    pub(crate) fn ring(&self) {
        if !self.rung.swap(true, Ordering::AcqRel) {
            // It fails only if the descriptor is invalid, which it is not while `self` lives,
            // or its counter is full, and then the shard is awake anyway.
            let _ = self.waker.wake();
        }
    }

    /// To be called before the mailboxes are read: whoever writes after it rings again,
    /// and what was written before it is visible to the reads that follow (both are swaps
    /// of one flag, so they are ordered).
    pub(crate) fn heard(&self) {
        self.rung.swap(false, Ordering::AcqRel);
    }
}

/// One shard's ends of all its mailboxes.
pub(crate) struct Mailboxes<M> {
    pub(crate) to: Vec<Option<(rtrb::Producer<M>, Arc<Bell>)>>,
    pub(crate) from: Vec<Option<rtrb::Consumer<M>>>,
    pub(crate) outside: Receiver<M>,
}

/// The way into a shard from outside the shards.
pub struct Door<M> {
    sender: SyncSender<M>,
    bell: Arc<Bell>,
}

impl<M> Clone for Door<M> {
    fn clone(&self) -> Self {
        Self {
            sender: self.sender.clone(),
            bell: self.bell.clone(),
        }
    }
}

impl<M> Door<M> {
    /// Hands mail in; gives it back if the mailbox is full or the shard has ended.
    pub fn send(&self, mail: M) -> Result<(), M> {
        match self.sender.try_send(mail) {
            Ok(()) => {
                self.bell.ring();
                Ok(())
            }
            Err(TrySendError::Full(mail) | TrySendError::Disconnected(mail)) => Err(mail),
        }
    }

    /// Wakes the shard, so that it looks around.
    pub fn ring(&self) {
        self.bell.ring();
    }
}

/// Mailboxes for shards that are woken by these bells, and the doors to them.
pub(crate) fn connect<M>(bells: &[Arc<Bell>]) -> (Vec<Mailboxes<M>>, Vec<Door<M>>) {
    let shards = bells.len();
    let mut doors = Vec::new();
    let mut boxes: Vec<Mailboxes<M>> = bells
        .iter()
        .map(|bell| {
            let (sender, outside) = sync_channel(OUTSIDE);
            doors.push(Door {
                sender,
                bell: bell.clone(),
            });
            Mailboxes {
                to: (0..shards).map(|_| None).collect(),
                from: (0..shards).map(|_| None).collect(),
                outside,
            }
        })
        .collect();
    for from in 0..shards {
        for to in (0..shards).filter(|&to| to != from) {
            let (producer, consumer) = rtrb::RingBuffer::new(RING);
            boxes[from].to[to] = Some((producer, bells[to].clone()));
            boxes[to].from[from] = Some(consumer);
        }
    }
    (boxes, doors)
}
