//! Mailboxes: the only places where two threads of the server meet.
//!
//! Between each pair of shards lies one bounded mailbox, first in first out, one writer,
//! one reader. Rule for "full": the writer keeps its mail and offers it again next
//! turn; its app decides what to refuse meanwhile. Mail from outside the shards waits in one
//! bounded list, which takes memory when mail comes; there "full" is an error to the caller.
//!
//! A shard posts what a turn gave it at once, and wakes a reader only if it sleeps.

mod wake;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

pub(crate) use wake::{Waker, post};

use throng_types::lock;

use crate::{Kernel, MailReceiver};

/// Messages from outside that may wait for a shard to take them.
const OUTSIDE_MAX: usize = 4096;

/// A shard's way to another: the ring, and what wakes its reader.
pub(crate) type Outgoing<M, K> = (<K as Kernel>::Sender<M>, Arc<Waker<<K as Kernel>::Wake>>);

/// One shard's ends of all its mailboxes. The entry for itself is empty.
pub(crate) struct Mailboxes<M, K: Kernel> {
    pub(crate) to: Vec<Option<Outgoing<M, K>>>,
    pub(crate) from: Vec<Option<K::Receiver<M>>>,
    outside: Outside<M>,
    /// Waker with which other threads wake this shard.
    waker: Arc<Waker<K::Wake>>,
}

impl<M, K: Kernel> Mailboxes<M, K> {
    pub(crate) fn pop_outside(&mut self) -> Option<M> {
        lock(&self.outside.0.0).as_mut()?.pop_front()
    }

    /// Says that the shard sleeps from now on, unless mail waits for it: then it is
    /// awake, and this is false. While it does not want mail of other shards (`takes_mail`), that
    /// mail does not keep it awake.
    pub(crate) fn fall_asleep(&mut self, takes_mail: bool) -> bool {
        self.waker.fall_asleep();
        let is_wanted =
            self.waker.was_rung() || self.outside.0.has_mail() || takes_mail && self.has_mail();
        if is_wanted {
            self.waker.awake();
        }
        !is_wanted
    }

    pub(crate) fn has_mail(&self) -> bool {
        { self.from.iter().flatten() }.any(|from| !from.is_empty())
    }

    pub(crate) fn awake(&self) {
        self.waker.awake();
    }
}

/// The reader's end of the mail from outside.
struct Outside<M>(Arc<Waiting<M>>);

/// Mail that its shard has not taken; `None` once the shard has ended.
/// Queue: `mailbox from outside`.
struct Waiting<M>(Mutex<Option<VecDeque<M>>>);

impl<M> Waiting<M> {
    fn has_mail(&self) -> bool {
        lock(&self.0).as_ref().is_some_and(|mail| !mail.is_empty())
    }
}

impl<M> Drop for Outside<M> {
    fn drop(&mut self) {
        // Dropped after the lock: mail may hold senders to this mailbox.
        let waiting = lock(&self.0.0).take();
        drop(waiting);
    }
}

/// The way into a shard from outside the shards.
pub struct MailboxSender<M> {
    waiting: Arc<Waiting<M>>,
    waker: Arc<dyn WakeShard>,
}

/// A [`Waker`] of any kernel.
trait WakeShard: Send + Sync {
    fn wake(&self);
    fn ring(&self);
}

impl<W: crate::Wake> WakeShard for Waker<W> {
    fn wake(&self) {
        Self::wake(self);
    }

    fn ring(&self) {
        Self::ring(self);
    }
}

impl<M> Clone for MailboxSender<M> {
    fn clone(&self) -> Self {
        Self {
            waiting: self.waiting.clone(),
            waker: self.waker.clone(),
        }
    }
}

impl<M> MailboxSender<M> {
    /// Hands mail in; gives it back if 4096 pieces wait already, or the shard has ended.
    pub fn send(&self, mail: M) -> Result<(), M> {
        match lock(&self.waiting.0).as_mut() {
            Some(waiting) if waiting.len() < OUTSIDE_MAX => waiting.push_back(mail),
            _ => return Err(mail),
        }
        self.waker.wake();
        Ok(())
    }

    /// Wakes the shard, so that it looks around.
    pub fn ring(&self) {
        self.waker.ring();
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
            let waiting = Arc::new(Waiting(Mutex::new(Some(VecDeque::new()))));
            mailboxes.push(MailboxSender {
                waiting: waiting.clone(),
                waker: waker.clone(),
            });
            Mailboxes {
                to: (0..shards).map(|_| None).collect(),
                from: (0..shards).map(|_| None).collect(),
                outside: Outside(waiting),
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

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;
    use crate::Linux;

    fn one() -> (Mailboxes<usize, Linux>, MailboxSender<usize>) {
        let mut kernel = Linux::new(Instant::now()).unwrap();
        let waker = Arc::new(Waker::new(kernel.make_wake().unwrap()));
        let (mut boxes, mut senders) = connect(&mut [&mut kernel], &[waker]);
        (boxes.remove(0), senders.remove(0))
    }

    #[test]
    fn who_was_woken_by_a_ring_looks_around_once() {
        let (mut mail, sender) = one();
        assert!(mail.fall_asleep(true));
        sender.ring();
        mail.awake();
        assert!(mail.fall_asleep(true), "it has looked around");
        mail.awake();
        sender.ring();
        assert!(!mail.fall_asleep(true), "it has not, since it was rung");
        assert!(mail.fall_asleep(true));
    }

    #[test]
    fn mail_from_outside_comes_in_order_and_has_a_bound_and_an_end() {
        let (mut mail, sender) = one();
        let all: Vec<usize> = (0..OUTSIDE_MAX).collect();
        all.iter().for_each(|&n| sender.send(n).unwrap());
        assert_eq!(sender.send(7), Err(7));
        assert!(!mail.fall_asleep(true));
        assert_eq!(sender.send(7), Err(7));
        // What is taken leaves room, and comes first.
        let first = mail.pop_outside();
        assert_eq!(sender.send(7), Ok(()));
        assert_eq!(sender.send(8), Err(8));
        let rest = std::iter::from_fn(|| mail.pop_outside());
        let taken: Vec<usize> = first.into_iter().chain(rest).collect();
        assert_eq!((&taken[..OUTSIDE_MAX], taken[OUTSIDE_MAX]), (&all[..], 7));
        drop(mail);
        assert_eq!(sender.send(8), Err(8));
    }
}
