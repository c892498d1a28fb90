//! Outside of a shard, controlled by tests.

#![expect(clippy::disallowed_types, reason = "the world is outside of the shard")]

use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::mpsc::Sender;

use super::*;
use crate::{Outside, PresenceCall, QueueFull};

/// Hands questions to the test.
pub(super) struct World {
    asked: Sender<Lookup>,
    pub(super) doings: Mutex<Doings>,
}

/// Record of calls to the outside, and switches that make them fail.
#[derive(Default)]
pub(super) struct Doings {
    pub(super) counted: Vec<IpAddr>,
    pub(super) published: Vec<FeedMessage>,
    /// Presences to be written or deleted, not yet taken by the test.
    pub(super) presences: VecDeque<PresenceCall>,
    /// No address may open one more connection.
    pub(super) admits_nobody: bool,
    /// There is no room for a question or an event.
    pub(super) is_full: bool,
}

impl World {
    pub(super) fn new(asked: Sender<Lookup>) -> Self {
        let doings = Mutex::default();
        Self { asked, doings }
    }

    pub(super) fn change(&self, change: impl FnOnce(&mut Doings)) {
        change(&mut self.doings.lock().expect("no test panics in it"));
    }

    /// Refuses if there is no room.
    fn room(&self) -> Result<(), QueueFull> {
        let mut is_full = false;
        self.change(|doings| is_full = doings.is_full);
        if is_full { Err(QueueFull) } else { Ok(()) }
    }
}

impl Outside for World {
    fn admit(&self, address: IpAddr, _: Now) -> bool {
        let mut admits = true;
        self.change(|doings| {
            doings.counted.push(address);
            admits = !doings.admits_nobody;
        });
        admits
    }

    fn identify(&self, lookup: Lookup) -> Result<(), QueueFull> {
        self.room()?;
        self.asked.send(lookup).map_err(|_| QueueFull)
    }

    fn presence(&self, call: PresenceCall) -> Result<(), QueueFull> {
        self.room()?;
        self.change(|doings| doings.presences.push_back(call));
        Ok(())
    }

    fn publish(&self, event: FeedMessage) -> Result<(), QueueFull> {
        self.room()?;
        self.change(|doings| doings.published.push(event));
        Ok(())
    }
}
