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

pub struct PairSender<S> {
    near: S,
    far: S,
    /// Capacity of the far ring, in messages.
    far_room: usize,
    /// Mail goes into the far ring until that is empty.
    spills: bool,
}

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
mod tests {
    //! The order of mail under every order in which writer and reader can run.
    //!
    //! Loom plays threads and atomics. A ring keeps what rtrb keeps: places, and two counters with
    //! the same orderings.

    use loom::sync::Arc;
    use loom::sync::atomic::{AtomicUsize, Ordering};
    use loom::thread;

    use super::*;

    struct Ring {
        pushed: AtomicUsize,
        taken: AtomicUsize,
        places: Vec<AtomicUsize>,
    }

    struct Writer(Arc<Ring>);
    struct Reader(Arc<Ring>);

    fn ring(room: usize) -> (Writer, Reader) {
        let ring = Arc::new(Ring {
            pushed: AtomicUsize::new(0),
            taken: AtomicUsize::new(0),
            places: (0..room).map(|_| AtomicUsize::new(0)).collect(),
        });
        (Writer(ring.clone()), Reader(ring))
    }

    impl Ring {
        fn place(&self, number: usize) -> &AtomicUsize {
            &self.places[number % self.places.len()]
        }
    }

    impl MailSender<usize> for Writer {
        fn slots(&self) -> usize {
            let ring = &self.0;
            let waiting = ring.pushed.load(Ordering::Relaxed) - ring.taken.load(Ordering::Acquire);
            ring.places.len() - waiting
        }

        fn push(&mut self, mail: usize) -> Result<(), usize> {
            if self.slots() == 0 {
                return Err(mail);
            }
            let pushed = self.0.pushed.load(Ordering::Relaxed);
            self.0.place(pushed).store(mail, Ordering::Relaxed);
            self.0.pushed.store(pushed + 1, Ordering::Release);
            Ok(())
        }

        fn is_abandoned(&self) -> bool {
            false
        }
    }

    impl MailReceiver<usize> for Reader {
        fn pop(&mut self) -> Option<usize> {
            if self.is_empty() {
                return None;
            }
            let taken = self.0.taken.load(Ordering::Relaxed);
            let mail = self.0.place(taken).load(Ordering::Relaxed);
            self.0.taken.store(taken + 1, Ordering::Release);
            Some(mail)
        }

        fn is_empty(&self) -> bool {
            self.0.pushed.load(Ordering::Acquire) == self.0.taken.load(Ordering::Relaxed)
        }
    }

    fn check(messages: usize, near_room: usize, far_room: usize) {
        let mut model = loom::model::Builder::new();
        // There are too many orders to try all: those with at most three forced switches.
        model.preemption_bound = Some(3);
        model.check(move || {
            let (mut writer, mut reader) = pair(ring(near_room), ring(far_room), far_room);
            let thread = thread::spawn(move || {
                for mail in 0..messages {
                    while writer.slots() == 0 {
                        thread::yield_now();
                    }
                    writer.push(mail).expect("there is room");
                }
            });
            let mut taken = 0;
            while taken < messages {
                match reader.pop() {
                    Some(mail) => {
                        assert_eq!(mail, taken, "in order");
                        taken += 1;
                    }
                    None => thread::yield_now(),
                }
            }
            thread.join().unwrap();
            assert!(reader.is_empty() && reader.pop().is_none());
        });
    }

    #[test]
    fn mail_comes_in_the_order_in_which_it_was_sent() {
        check(3, 1, 2);
        check(4, 2, 2);
    }

    #[test]
    fn a_full_mailbox_keeps_the_order_too() {
        check(4, 1, 1);
    }

    #[test]
    fn the_far_ring_is_used_only_while_the_near_one_is_full() {
        loom::model(|| {
            let (near, far) = (ring(2), ring(2));
            let used = far.0.0.clone();
            let used = || used.pushed.load(Ordering::Relaxed);
            let (mut writer, mut reader) = pair(near, far, 2);
            for mail in 0..9 {
                assert_eq!(writer.slots(), 4);
                writer.push(mail).unwrap();
                assert_eq!(reader.pop(), Some(mail));
            }
            assert_eq!(used(), 0, "the reader kept up");
            for (mail, room) in (0..4).zip([3, 2, 1, 0]) {
                writer.push(mail).unwrap();
                assert_eq!(writer.slots(), room);
            }
            assert_eq!((used(), writer.push(4)), (2, Err(4)));
            // Room in the near ring alone is none while older mail is in the far one.
            assert_eq!((reader.pop(), writer.push(4)), (Some(0), Err(4)));
            assert_eq!((reader.pop(), reader.pop()), (Some(1), Some(2)));
            writer.push(4).unwrap();
            assert_eq!((used(), reader.pop(), reader.pop()), (3, Some(3), Some(4)));
            writer.push(5).unwrap();
            assert_eq!((used(), reader.pop()), (3, Some(5)));
        });
    }
}
