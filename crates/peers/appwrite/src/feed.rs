//! Calls of the rest of the server and replies to it, and the one order of events.
//!
//! Invariant: offsets rise by one; a new epoch means that events may have been lost before it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use throng_appwrite::{FeedMessage, Lookup, News, PresenceCall, QueueFull};
use throng_types::{Epoch, Position};

/// Events of the server API that wait for their turn. Queue: `offers`.
pub(crate) const OFFERS_MAX: usize = 1024;

/// Called once, when the subscriber stands still.
pub type Stood = Box<dyn FnOnce() + Send>;

pub enum Call {
    /// Begins: sends the first position to the shards, and connects.
    Begin,
    /// Looks a user up; [`News::Found`] follows, even if the answer is known already.
    LookUp(Lookup),
    /// Writes or deletes a presence; [`News::Presence`] follows one that writes.
    Presence(PresenceCall),
    /// Hands an event of the server API to every shard. [`Offers`] counts it.
    Offer(FeedMessage),
    /// Another process hears events from now on, too: a connection that is lost is not made again
    /// before [`Call::GoOn`].
    Share,
    /// Stands still once everything is handed on that was published so far, or at once if nothing
    /// is heard; [`Reply::Stands`] follows, unless [`Call::GoOn`] comes first.
    StandStill(Stood),
    /// Reads events again after [`Call::StandStill`], and connects again after [`Call::Share`].
    /// Accepts offers again, unless another process `has_taken_over`.
    GoOn { has_taken_over: bool },
}

pub enum Reply {
    News(usize, News),
    /// The subscriber stands still, and all shards have what it heard.
    Stands(Stood),
}

/// Numbers events. Each of its news is for every shard.
pub(crate) struct EventFeed {
    position: Position,
}

impl EventFeed {
    /// Begins at offset 0. `epoch` must differ from those of earlier processes.
    #[must_use]
    pub(crate) const fn new(epoch: u64) -> Self {
        let epoch = Epoch(epoch);
        Self {
            position: Position { epoch, offset: 0 },
        }
    }

    #[must_use]
    pub(crate) const fn begun(&self) -> News {
        News::Began(self.position)
    }

    pub(crate) fn event(&mut self, event: FeedMessage) -> News {
        self.position.offset += 1;
        News::Event {
            event: Arc::new(event),
            position: self.position,
        }
    }

    /// Begins a new epoch: events may have been lost, so positions from before mean nothing.
    pub(crate) const fn begin_anew(&mut self) -> News {
        *self = Self::new(self.position.epoch.0.wrapping_add(1));
        self.begun()
    }
}

/// Number of offers that the peer has not taken, shared with the callers that offer.
#[derive(Clone, Debug, Default)]
pub struct Offers(Arc<AtomicUsize>);

/// Added to the number while no offer is accepted.
const CLOSED: usize = 1 << (usize::BITS - 1);

impl Offers {
    /// Counts one more.
    ///
    /// # Errors
    /// [`QueueFull`] if too many wait, or the peer stands still.
    pub fn add(&self) -> Result<(), QueueFull> {
        let more = |waiting| (waiting < OFFERS_MAX).then_some(waiting + 1);
        let order = Ordering::Relaxed;
        let added = self.0.fetch_update(order, order, more);
        added.map(drop).map_err(|_| QueueFull)
    }

    pub(crate) fn taken(&self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }

    pub(crate) fn close(&self, is_closed: bool) {
        if is_closed {
            self.0.fetch_or(CLOSED, Ordering::Relaxed);
        } else {
            self.0.fetch_and(!CLOSED, Ordering::Relaxed);
        }
    }

    /// Whether every offer that was counted is taken, those on their way to the peer included.
    pub(crate) fn are_taken(&self) -> bool {
        self.0.load(Ordering::Relaxed) & !CLOSED == 0
    }
}
