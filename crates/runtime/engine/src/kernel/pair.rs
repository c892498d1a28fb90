//! Two rings as one mailbox: a near one, small, and a far one for what it cannot hold.
//!
//! A ring goes round: it touches all of its places, however few messages wait at a time. With one
//! long ring between each two shards, every ring becomes resident in full after its first few
//! thousand messages. A near ring that is seldom full is all that most mailboxes ever touch.
//!
//! Owns the order between the two. Never: wakes anybody.
//!
//! Invariants
//! - Mail goes into the near ring only while the far one is empty, and into the far one only once
//!   the near one is full. So whatever waits in both, the near ring's is older.
//! - A reader that sees mail in the far ring sees everything that was put into the near one before
//!   it, if it looks there again.

use super::{MailReceiver, MailSender};

/// Sending end of a pair of rings.
pub struct PairSender<S> {
    near: S,
    far: S,
    /// Capacity of the far ring, in messages.
    far_room: usize,
    /// Mail goes into the far ring until that is empty.
    spills: bool,
}

/// Receiving end of a pair of rings.
pub struct PairReceiver<R> {
    near: R,
    far: R,
}

/// Both ends of a mailbox from those of its rings; the far one holds `far_room` messages.
pub(super) fn pair<S, R>(
    near: (S, R),
    far: (S, R),
    far_room: usize,
) -> (PairSender<S>, PairReceiver<R>) {
    let sender = PairSender {
        near: near.0,
        far: far.0,
        far_room,
        spills: false,
    };
    let receiver = PairReceiver {
        near: near.1,
        far: far.1,
    };
    (sender, receiver)
}

impl<M, S: MailSender<M>> MailSender<M> for PairSender<S> {
    fn slots(&self) -> usize {
        match self.spills {
            true => self.far.slots(),
            false => self.near.slots() + self.far_room,
        }
    }

    fn push(&mut self, mail: M) -> Result<(), M> {
        if self.spills && self.far.slots() == self.far_room {
            self.spills = false;
        }
        if self.spills {
            return self.far.push(mail);
        }
        self.near.push(mail).or_else(|mail| {
            self.spills = true;
            self.far.push(mail)
        })
    }

    fn is_abandoned(&self) -> bool {
        self.near.is_abandoned()
    }
}

impl<M, R: MailReceiver<M>> MailReceiver<M> for PairReceiver<R> {
    fn pop(&mut self) -> Option<M> {
        let mail = self.near.pop();
        if mail.is_some() || self.far.is_empty() {
            return mail;
        }
        // Since the first look the near ring may have been filled, and only then the far one.
        self.near.pop().or_else(|| self.far.pop())
    }

    fn is_empty(&self) -> bool {
        self.near.is_empty() && self.far.is_empty()
    }
}

#[cfg(test)]
mod tests;
