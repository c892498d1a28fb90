//! Where a hand-over and the thread that hears events wait for each other.
//!
//! Never: what "everything" is; the subscriber knows.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum State {
    #[default]
    Goes,
    Asked,
    Stands,
}

/// Whether the subscriber stands, and whether it hears anything.
#[derive(Default)]
pub(crate) struct Standstill {
    state: Mutex<(State, bool)>,
    changed: Condvar,
}

impl Standstill {
    fn state(&self) -> MutexGuard<'_, (State, bool)> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks it to stand still, and waits; false if it takes too long. Who hears nothing stands.
    pub(crate) fn ask(&self, longest: Duration) -> bool {
        let mut state = self.state();
        state.0 = State::Asked;
        let waits = |&mut (state, hears): &mut (State, bool)| hears && state == State::Asked;
        let waited = self.changed.wait_timeout_while(state, longest, waits);
        let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        !state.1 || state.0 != State::Asked
    }

    /// It goes on.
    pub(crate) fn end(&self) {
        self.state().0 = State::Goes;
        self.changed.notify_all();
    }

    /// The subscriber hears events, or nothing any more.
    pub(crate) fn hears(&self, hears: bool) {
        self.state().1 = hears;
        self.changed.notify_all();
    }

    /// Whether the subscriber is to stand still.
    pub(crate) fn is_asked(&self) -> bool {
        self.state().0 == State::Asked
    }

    /// It has everything: stands until it is told to go on.
    pub(crate) fn stand(&self) {
        let mut state = self.state();
        if state.0 == State::Asked {
            state.0 = State::Stands;
            self.changed.notify_all();
            let stands = |state: &mut (State, bool)| state.0 == State::Stands;
            drop(self.changed.wait_while(state, stands));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    const SOON: Duration = Duration::from_millis(5);
    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn whoever_hears_nothing_is_not_waited_for() {
        let standstill = Standstill::default();
        assert!(standstill.ask(LONG));
        standstill.end();
        standstill.hears(true);
        assert!(!standstill.ask(SOON), "it has not heard of it");
        standstill.hears(false);
        assert!(standstill.ask(LONG));
    }

    #[test]
    fn it_stands_until_it_is_told_to_go_on() {
        let standstill = Standstill::default();
        standstill.hears(true);
        thread::scope(|scope| {
            let subscriber = scope.spawn(|| {
                while !standstill.is_asked() {
                    thread::yield_now();
                }
                standstill.stand();
            });
            assert!(standstill.ask(LONG));
            assert!(!subscriber.is_finished());
            standstill.end();
        });
        assert!(!standstill.is_asked());
        standstill.stand();
    }
}
