//! Mailboxes between two shards, whose room is seen late.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

use throng_engine::{MailReceiver, MailSender};

use crate::net::Net;

/// Both ends of a mailbox.
pub(super) fn mailbox<M>(net: &Net) -> (SimSender<M>, SimReceiver<M>) {
    let ring = Rc::new(Ring {
        mail: RefCell::new(VecDeque::new()),
        closed: Cell::new(false),
    });
    let sender = SimSender {
        ring: ring.clone(),
        seen: Cell::new(0),
        net: net.clone(),
    };
    (sender, SimReceiver { ring })
}

struct Ring<M> {
    mail: RefCell<VecDeque<M>>,
    closed: Cell<bool>,
}

/// The sending end of a mailbox. What its reader took meanwhile it may see late, as a thread does.
pub(crate) struct SimSender<M> {
    ring: Rc<Ring<M>>,
    /// Messages that lie in the ring, as far as the sender knows.
    seen: Cell<usize>,
    net: Net,
}

impl<M> MailSender<M> for SimSender<M> {
    fn slots(&self) -> usize {
        let world = &mut *self.net.0.borrow_mut();
        let truth = self.ring.mail.borrow().len();
        let odds = world.odds;
        if truth < self.seen.get() {
            if world.fault(odds.stale_room, "room in a mailbox is seen late") {
                // The reader is at work: the next look sees it.
            } else {
                self.seen.set(truth);
            }
        }
        let slots = world.mailbox_slots - self.seen.get();
        if slots == 0 {
            world.tally.count("a mailbox has no room");
        }
        slots
    }

    fn push(&mut self, mail: M) -> Result<(), M> {
        let slots = self.net.0.borrow().mailbox_slots;
        let mut ring = self.ring.mail.borrow_mut();
        if ring.len() == slots {
            return Err(mail);
        }
        ring.push_back(mail);
        self.seen.set(self.seen.get() + 1);
        Ok(())
    }

    fn is_abandoned(&self) -> bool {
        self.ring.closed.get()
    }
}

/// The receiving end of a mailbox.
pub(crate) struct SimReceiver<M> {
    ring: Rc<Ring<M>>,
}

impl<M> MailReceiver<M> for SimReceiver<M> {
    fn pop(&mut self) -> Option<M> {
        self.ring.mail.borrow_mut().pop_front()
    }

    fn is_empty(&self) -> bool {
        self.ring.mail.borrow().is_empty()
    }
}

impl<M> Drop for SimReceiver<M> {
    fn drop(&mut self) {
        self.ring.closed.set(true);
    }
}
