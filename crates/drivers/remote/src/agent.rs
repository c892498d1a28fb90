//! One channel on one node: which shards want it, and where its deliveries stand.
//!
//! Invariant: while a channel is [`State::Live`], every publication up to its `top` was left in the
//! lanes of the shards that are interested, and no later one.

use std::collections::VecDeque;
use std::sync::Arc;

use throng_broker::{ChannelOptions, HistoryPage, Recovery, Refusal, Subscribed};
use throng_types::{ChannelName, Position, Publication};

/// Publications that one refill may carry. Queue: `refill`.
pub const REFILL_MAX: usize = 10_000;
/// Their bytes. Queue: `refill`.
pub const REFILL_BYTES_MAX: usize = 8 << 20;
/// Between two looks whether a channel has missed anything, in milliseconds.
pub const AUDIT_MS: u64 = 40_000;
/// Until the first one, where a subscription takes effect late.
pub const AUDIT_SOON_MS: u64 = 300;
/// The most looks of that kind in a second.
pub const AUDITS_PER_S: usize = 50;

/// What a channel's deliveries are worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// No shard is told anything yet.
    Joining,
    /// Another process hands over its subscribers: those with positions are left when it is known
    /// up to where they have everything.
    Arriving,
    /// Each publication is left as it comes.
    Live,
    /// Something may be missing: those with positions are left when it was found.
    Deaf,
}

/// What becomes of a publication that was delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Took {
    /// It goes to the shards that are interested.
    Next,
    /// They have it, or will get it with what the next look brings.
    Known,
    /// Something is missing before it.
    Gap,
}

/// A channel that shards of this node want.
pub struct Channel {
    /// Bit `n` is set while shard `n` is interested.
    pub interest: u64,
    /// Subscribes on their way.
    pub pending: u32,
    /// What its deliveries are worth.
    pub state: State,
    /// The broker was asked for it on this connection.
    pub is_subscribed: bool,
    /// A refill is on its way.
    pub is_refilling: bool,
    /// The position of the last publication that was left, in channels with history.
    pub top: Option<Position>,
    /// Up to where the subscribers of each shard have everything, where they came from another
    /// process, until the shards are at one. Bound: the shards.
    #[expect(
        clippy::box_collection,
        reason = "8 bytes instead of 24 in every channel"
    )]
    pub(crate) floors: Option<Box<Vec<(u8, Position)>>>,
    /// Tells it from a channel of that name before.
    pub serial: u64,
}

impl Channel {
    /// One that nobody has yet.
    #[must_use]
    pub const fn new(serial: u64) -> Self {
        Self {
            interest: 0,
            pending: 0,
            state: State::Joining,
            is_subscribed: false,
            is_refilling: false,
            top: None,
            floors: None,
            serial,
        }
    }

    /// Whether no shard wants it.
    #[must_use]
    pub const fn is_unwanted(&self) -> bool {
        self.interest == 0 && self.pending == 0
    }

    /// Takes what was delivered at a position.
    pub fn took(&mut self, position: Option<Position>) -> Took {
        let Some(position) = position else {
            return Took::Next;
        };
        let Some(top) = self.top.filter(|_| self.state == State::Live) else {
            return Took::Known;
        };
        if position.epoch == top.epoch && position.offset <= top.offset {
            return Took::Known;
        }
        if position.epoch != top.epoch || position.offset != top.offset + 1 {
            return Took::Gap;
        }
        self.top = Some(position);
        Took::Next
    }

    /// The connection is lost: nobody knows what is missed from now on.
    pub fn lost_connection(&mut self, keeps: bool) {
        self.is_subscribed = false;
        self.is_refilling = false;
        if self.state == State::Live && keeps {
            self.state = State::Deaf;
        }
    }
}

/// Which channels are to be compared with their streams, and when: each some time after it was
/// wanted, and again after each time.
#[derive(Default)]
pub struct Audits {
    /// In the order of their times. Bound: the channels, and those that were given up within
    /// [`AUDIT_MS`].
    soon: VecDeque<(u64, ChannelName, u64)>,
    /// The same. Bound: as `soon`.
    later: VecDeque<(u64, ChannelName, u64)>,
}

impl Audits {
    /// Adds a channel, by its serial number; `is_soon` for the first time after [`AUDIT_SOON_MS`].
    pub fn add(&mut self, name: &ChannelName, serial: u64, now_ms: u64, is_soon: bool) {
        let (queue, after_ms) = if is_soon {
            (&mut self.soon, AUDIT_SOON_MS)
        } else {
            (&mut self.later, AUDIT_MS)
        };
        queue.push_back((now_ms + after_ms, name.clone(), serial));
    }

    /// The next channel that is due. Who takes it adds it again, if the channel is still there.
    pub fn next(&mut self, now_ms: u64) -> Option<(ChannelName, u64)> {
        let is_due = |queue: &VecDeque<(u64, ChannelName, u64)>| {
            queue.front().is_some_and(|(at_ms, ..)| *at_ms <= now_ms)
        };
        let queue = match (is_due(&self.soon), is_due(&self.later)) {
            (true, _) => &mut self.soon,
            (_, true) => &mut self.later,
            _ => return None,
        };
        let (_, name, serial) = queue.pop_front()?;
        Some((name, serial))
    }
}

/// A part of a stream's history, as the broker gave it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Looked {
    /// Where the stream stands.
    pub position: Position,
    /// Whether the rest is what was asked for.
    pub status: Status,
    /// What was asked for.
    pub publications: Vec<Arc<Publication>>,
}

impl Looked {
    /// As the answer to who asked for history.
    ///
    /// # Errors
    /// [`Refusal::UnrecoverablePosition`] if there is no such position.
    pub fn into_page(self) -> Result<HistoryPage, Refusal> {
        match self.status {
            Status::NoSuchPosition => Err(Refusal::UnrecoverablePosition),
            Status::Fits | Status::Lost => Ok(HistoryPage {
                position: Some(self.position),
                publications: self.publications,
            }),
        }
    }
}

/// Whether a part of history is what was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// It is.
    Fits,
    /// Something is missing, or it was too much.
    Lost,
    /// The position is of another epoch or lies ahead.
    NoSuchPosition,
}

/// What is looked for in a stream's history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Nothing but where it stands.
    Top,
    /// Everything after a position.
    Since,
    /// The newest, before a position if there is one.
    Newest,
    /// The oldest, after a position if there is one.
    Oldest,
}

/// What a look for a subscriber has to bring, besides where the stream stands, and how many
/// publications at most.
#[must_use]
pub fn wanted(
    options: &ChannelOptions,
    since: Option<Position>,
    most: usize,
) -> (Mode, Option<Position>, usize) {
    match since.filter(|_| options.recovery) {
        None => (Mode::Top, None, most),
        Some(_) if options.cache => (Mode::Newest, None, 1),
        since => (Mode::Since, since, most),
    }
}

/// What a subscriber is told, after the look that [`wanted`] describes; `None` in channels without
/// history.
#[must_use]
pub fn subscribed(
    options: &ChannelOptions,
    since: Option<Position>,
    looked: Option<Looked>,
) -> Subscribed {
    let mut result = Subscribed {
        position: None,
        recovery: if since.is_some() {
            Recovery::Lost
        } else {
            Recovery::NotAsked
        },
    };
    let Some(looked) = looked else {
        return result;
    };
    let here = looked.position;
    result.position = Some(here);
    let Some(since) = since.filter(|_| options.recovery && looked.status == Status::Fits) else {
        return result;
    };
    let is_known = since.epoch == here.epoch || since == Position::START;
    if options.cache && is_known && since.offset == here.offset {
        result.recovery = Recovery::Whole(Vec::new());
    } else if !options.cache || !looked.publications.is_empty() {
        result.recovery = Recovery::Whole(looked.publications);
    }
    result
}
