//! The protocol of two threads: how mail is posted, and how its reader is woken.
//!
//! Owns the flag that says whether a reader sleeps. Never: keeps mail.
//!
//! The writer pushes, then wakes, which costs a system call only if the reader sleeps. The reader
//! says that it sleeps, looks into its mailboxes once more, and only then does. What must hold,
//! whatever the threads do in between:
//! - mail that was pushed is read without anybody else's help: no reader sleeps on it;
//! - mail that found no room makes its writer look again: no writer sleeps on it.
//!
//! The tests check both for every order in which the threads can run, with loom. They run the
//! code that production runs; only the atomic and the ring are loom's.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::{MailSender, Wake};

/// The one atomic operation of the protocol.
pub(crate) trait Flag {
    /// Sets the flag and gives what it was. It acquires and releases.
    fn replace(&self, value: bool) -> bool;
}

impl Flag for AtomicBool {
    fn replace(&self, value: bool) -> bool {
        self.swap(value, Ordering::AcqRel)
    }
}

/// Wakes a shard from its sleep, once however often it is asked.
pub(crate) struct Waker<W, F = AtomicBool> {
    wake: W,
    /// Set while the reader sleeps, or is about to.
    asleep: F,
    /// The reader was asked to look around, mail or no mail.
    rung: F,
}

impl<W: Wake> Waker<W> {
    pub(crate) const fn new(wake: W) -> Self {
        Self {
            wake,
            asleep: AtomicBool::new(false),
            rung: AtomicBool::new(false),
        }
    }
}

impl<W: Wake, F: Flag> Waker<W, F> {
    /// Wakes the reader after mail was pushed; true if the reader slept and had to be woken.
    pub(crate) fn wake(&self) -> bool {
        let slept = self.asleep.replace(false);
        if slept {
            self.wake.wake();
        }
        slept
    }

    /// Makes the reader look around, even if no mail was pushed.
    pub(crate) fn ring(&self) {
        self.rung.replace(true);
        self.wake();
    }

    /// Says that the reader sleeps from now on. The mailboxes must be looked into after it: whoever
    /// pushes later finds the flag and wakes, and what was pushed before a wake that came too early
    /// is visible to that look (both are swaps of one flag, so they are ordered).
    pub(crate) fn fall_asleep(&self) {
        self.asleep.replace(true);
    }

    /// Says that the reader is awake, so that nobody need wake it, and looks around now, so that
    /// who rang before need not be heard again.
    pub(crate) fn awake(&self) {
        self.asleep.replace(false);
        self.rung.replace(false);
    }

    /// Whether the reader was asked to look around since it was last asked this.
    pub(crate) fn was_rung(&self) -> bool {
        self.rung.replace(false)
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Posted {
    /// Messages pushed: if there are any, wake the reader.
    pub(crate) count: u64,
    /// There was no room left, so mail may wait: look again soon.
    pub(crate) full: bool,
}

/// Pushes what `take` gives, as long as there is room.
pub(crate) fn post<M>(
    sender: &mut impl MailSender<M>,
    mut take: impl FnMut() -> Option<M>,
) -> Posted {
    let mut posted = Posted::default();
    loop {
        // Asked once: room that the reader makes meanwhile must not hide that mail was left.
        if sender.slots() == 0 {
            posted.full = true;
            return posted;
        }
        let Some(mail) = take() else {
            return posted;
        };
        // There is room: this thread is the only writer.
        let pushed = sender.push(mail);
        debug_assert!(pushed.is_ok(), "room was checked");
        posted.count += 1;
    }
}

#[cfg(test)]
mod tests {
    //! The protocol under every order in which its threads can run.
    //!
    //! Loom plays threads, atomics and locks. The ring keeps what rtrb keeps, two counters with
    //! the same orderings; the kernel's wait is a flag under a lock, as an eventfd is.

    use loom::sync::atomic::{AtomicBool as LoomBool, AtomicUsize};
    use loom::sync::{Arc, Condvar, Mutex};
    use loom::thread;

    use super::*;

    impl Flag for LoomBool {
        fn replace(&self, value: bool) -> bool {
            self.swap(value, Ordering::AcqRel)
        }
    }

    /// An eventfd and the wait for it.
    #[derive(Clone)]
    struct Event(Arc<(Mutex<bool>, Condvar)>);

    impl Event {
        fn new() -> Self {
            Self(Arc::new((Mutex::new(false), Condvar::new())))
        }

        /// Sleeps until it is woken. Loom reports a sleep that nobody can end.
        fn wait(&self) {
            let (woken, changed) = &*self.0;
            let mut woken = woken.lock().unwrap();
            while !*woken {
                woken = changed.wait(woken).unwrap();
            }
            *woken = false;
        }
    }

    impl Wake for Event {
        fn wake(&self) {
            let (woken, changed) = &*self.0;
            *woken.lock().unwrap() = true;
            changed.notify_one();
        }
    }

    fn waker(event: &Event) -> Arc<Waker<Event, LoomBool>> {
        Arc::new(Waker {
            wake: event.clone(),
            asleep: LoomBool::new(false),
            rung: LoomBool::new(false),
        })
    }

    /// A ring's counters: messages pushed, and messages taken.
    struct Ring {
        pushed: AtomicUsize,
        taken: AtomicUsize,
        room: usize,
    }

    struct Writer(Arc<Ring>);
    struct Reader(Arc<Ring>);

    fn ring(room: usize) -> (Writer, Reader) {
        let ring = Arc::new(Ring {
            pushed: AtomicUsize::new(0),
            taken: AtomicUsize::new(0),
            room,
        });
        (Writer(ring.clone()), Reader(ring))
    }

    impl MailSender<usize> for Writer {
        fn slots(&self) -> usize {
            let ring = &self.0;
            let waiting = ring.pushed.load(Ordering::Relaxed) - ring.taken.load(Ordering::Acquire);
            ring.room - waiting
        }

        fn push(&mut self, mail: usize) -> Result<(), usize> {
            let pushed = self.0.pushed.load(Ordering::Relaxed);
            assert_eq!(mail, pushed, "in order");
            self.0.pushed.store(pushed + 1, Ordering::Release);
            Ok(())
        }

        fn is_abandoned(&self) -> bool {
            false
        }
    }

    impl Reader {
        fn pop(&mut self) -> Option<usize> {
            let taken = self.0.taken.load(Ordering::Relaxed);
            if self.0.pushed.load(Ordering::Acquire) == taken {
                return None;
            }
            self.0.taken.store(taken + 1, Ordering::Release);
            Some(taken)
        }
    }

    /// Posts so many messages as a shard does: turn after turn, until none is left.
    fn write(mut writer: Writer, messages: usize, waker: &Waker<Event, LoomBool>) {
        let mut left = (0..messages).peekable();
        while left.peek().is_some() {
            let posted = post(&mut writer, || left.next());
            if posted.count > 0 {
                waker.wake();
            }
            // It would sleep here, and nobody would wake it for its own mail.
            assert!(posted.full || left.peek().is_none(), "mail was left");
            thread::yield_now();
        }
    }

    /// Reads as a shard does, until so many messages have come from each writer: says that it
    /// sleeps, looks, and sleeps only if nothing was there.
    fn read(
        readers: &mut [Reader],
        messages: usize,
        waker: &Waker<Event, LoomBool>,
        event: &Event,
    ) {
        let mut taken = vec![0; readers.len()];
        while taken.iter().any(|&taken| taken < messages) {
            waker.fall_asleep();
            let mut is_idle = true;
            for (reader, taken) in readers.iter_mut().zip(&mut taken) {
                while let Some(mail) = reader.pop() {
                    assert_eq!(mail, *taken, "in order");
                    *taken += 1;
                    is_idle = false;
                }
            }
            if is_idle {
                event.wait();
            }
            waker.awake();
        }
    }

    fn check(messages: usize, room: usize) {
        let mut model = loom::model::Builder::new();
        // Every order for two messages; for more those with at most three forced switches, because
        // there are too many.
        model.preemption_bound = (messages > 2).then_some(3);
        model.check(move || {
            let event = Event::new();
            let waker = waker(&event);
            let (writer, reader) = ring(room);
            let others = waker.clone();
            let thread = thread::spawn(move || write(writer, messages, &others));
            read(&mut [reader], messages, &waker, &event);
            thread.join().unwrap();
        });
    }

    #[test]
    fn no_reader_sleeps_on_mail() {
        check(2, 2);
        check(3, 2);
    }

    #[test]
    fn no_writer_sleeps_on_mail_that_found_no_room() {
        check(2, 1);
        check(3, 1);
    }

    #[test]
    fn two_writers_wake_one_reader() {
        // The orders of three threads are too many to try all: those with at most two forced
        // switches between threads are tried, and one message each, without the questions for room.
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(2);
        model.check(|| {
            let event = Event::new();
            let waker = waker(&event);
            let mut readers = Vec::new();
            for _ in 0..2 {
                let (mut writer, reader) = ring(1);
                readers.push(reader);
                let waker = waker.clone();
                thread::spawn(move || {
                    writer.push(0).unwrap();
                    waker.wake();
                });
            }
            read(&mut readers, 1, &waker, &event);
        });
    }

    #[test]
    fn who_is_asked_to_look_around_does() {
        loom::model(|| {
            let event = Event::new();
            let waker = waker(&event);
            // Something that is in no mailbox.
            let news = Arc::new(AtomicUsize::new(0));
            let (others, written) = (waker.clone(), news.clone());
            let thread = thread::spawn(move || {
                written.store(1, Ordering::Relaxed);
                others.ring();
            });
            while news.load(Ordering::Relaxed) == 0 {
                waker.fall_asleep();
                if !waker.was_rung() {
                    event.wait();
                }
                waker.awake();
            }
            thread.join().unwrap();
        });
    }
}
