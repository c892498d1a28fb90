//! State of a feed, readable from any thread.

use std::sync::atomic::{AtomicU8, Ordering::SeqCst};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum State {
    /// Nothing was read yet.
    Starting,
    Up,
    /// The source cannot be read.
    NoSource,
    /// The broker does not take what it read.
    NoBroker,
}

/// Name and state of one feed.
#[derive(Debug)]
pub struct Status {
    name: String,
    kind: &'static str,
    state: AtomicU8,
}

impl Status {
    pub(crate) fn new(name: &str, kind: &'static str) -> Self {
        Self {
            name: name.to_owned(),
            kind,
            state: AtomicU8::new(State::Starting as u8),
        }
    }

    /// The feed's name in the configuration.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The kind of its source.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        self.kind
    }

    /// Line for `/healthz` that says what keeps it from going on, if anything does.
    #[must_use]
    pub fn lacks(&self) -> Option<&'static str> {
        let state = self.state.load(SeqCst);
        if state == State::NoSource as u8 {
            Some("degraded: a feed cannot read its source")
        } else if state == State::NoBroker as u8 {
            Some("degraded: the broker takes nothing from a feed")
        } else {
            None
        }
    }

    /// Takes another state; gives whether it is another one.
    pub(crate) fn set(&self, state: State) -> bool {
        self.state.swap(state as u8, SeqCst) != state as u8
    }

    pub(crate) fn is(&self, state: State) -> bool {
        self.state.load(SeqCst) == state as u8
    }
}
