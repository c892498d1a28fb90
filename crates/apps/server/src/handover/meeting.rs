//! The way between a shard that moves and the handle; and where the shards of the old process find
//! out that all of them are at rest.
//!
//! A shard that has nothing to do may get mail from one that has. So they meet: when all have
//! come, none runs, and what is in their mailboxes then is all that there is. Each says whether it
//! sees something; if one does, they go on and meet again.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Condvar, Mutex};
use std::time::Instant;

/// A shard's end: it reports, and waits for one word.
pub(crate) struct Reporter<T> {
    reports: Sender<T>,
    word: Receiver<()>,
}

/// The handle's end. Dropping it says that the shard is not to go on with what moves.
pub(crate) struct Reports<T> {
    pub(super) heard: Receiver<T>,
    word: Sender<()>,
}

pub(crate) fn reports<T>() -> (Reporter<T>, Reports<T>) {
    // Bound: one report a message of the hand-over, and one word.
    let (reports, heard) = channel();
    let (said, word) = channel();
    let reporter = Reporter { reports, word };
    (reporter, Reports { heard, word: said })
}

impl<T> Reporter<T> {
    /// Reports; the handle may have given up, which the missing word tells.
    pub(crate) fn report(&self, report: T) {
        let _ = self.reports.send(report);
    }

    /// Waits for the word; false if it does not come.
    pub(crate) fn hears_word(&self) -> bool {
        self.word.recv().is_ok()
    }
}

impl<T> Reports<T> {
    /// Says the word: the new process has everything. A shard that has ended does not hear it.
    pub(crate) fn say_word(self) {
        let _ = self.word.send(());
    }
}

#[derive(Default)]
struct State {
    came: usize,
    is_busy: bool,
    /// Number of meetings that are over, and the outcome of the last one.
    over: u64,
    was_busy: bool,
    is_broken: bool,
}

/// A place to meet, for as many threads as shards.
pub(crate) struct Meeting {
    parties: usize,
    state: Mutex<State>,
    news: Condvar,
}

impl Meeting {
    pub(crate) fn new(parties: usize) -> Self {
        Self {
            parties,
            state: Mutex::default(),
            news: Condvar::new(),
        }
    }

    /// Waits for all the others; says whether one of them is busy. `None` if somebody has not come
    /// in time, for everybody and from then on.
    pub(crate) fn meet(&self, is_busy: bool, until: Instant) -> Option<bool> {
        let mut state = self.state.lock().ok()?;
        state.came += 1;
        state.is_busy |= is_busy;
        if state.came == self.parties && !state.is_broken {
            (state.was_busy, state.is_busy) = (state.is_busy, false);
            state.came = 0;
            state.over += 1;
            self.news.notify_all();
            return Some(state.was_busy);
        }
        let this = state.over;
        while state.over == this && !state.is_broken {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                state.is_broken = true;
                self.news.notify_all();
                break;
            }
            state = self.news.wait_timeout(state, left).ok()?.0;
        }
        (state.over != this).then_some(state.was_busy)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn all_hear_the_same_and_nobody_waits_for_ever() {
        let meeting = Meeting::new(3);
        let until = Instant::now() + Duration::from_secs(60);
        let rounds = |busy: [bool; 3]| busy.map(|busy| meeting.meet(busy, until));
        std::thread::scope(|scope| {
            let others: Vec<_> = [[true, false, false], [false, false, false]]
                .map(|busy| scope.spawn(move || rounds(busy)))
                .into_iter()
                .collect();
            assert_eq!(
                rounds([false, false, true]),
                [Some(true), Some(false), Some(true)]
            );
            for other in others {
                let heard = other.join().expect("no panic");
                assert_eq!(heard, [Some(true), Some(false), Some(true)]);
            }
        });
        assert_eq!(
            meeting.meet(false, Instant::now()),
            None,
            "nobody else comes"
        );
        assert_eq!(meeting.meet(false, until), None, "it is over for good");
    }
}
