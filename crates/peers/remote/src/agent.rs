//! One channel on one node: which shards want it, and where its deliveries stand.
//!
//! Invariant: while a channel is [`State::Live`], every publication up to its `top` was left in the
//! queues of the shards that are interested, and no later one.

use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;

use throng_broker::{ChannelOptions, HistoryPage, Recovery, Refusal, Subscribed};
use throng_types::{ChannelName, Epoch, Position, Publication};

/// Publications that one refill may carry. Queue: `refill`.
pub const REFILL_MAX: usize = 10_000;
/// Their bytes. Queue: `refill`.
pub const REFILL_BYTES_MAX: usize = 8 << 20;
/// Between two looks whether a channel has missed anything, in milliseconds.
pub const AUDIT_MS: u64 = 40_000;
/// Until the first one, where a subscription takes effect late.
pub const AUDIT_SOON_MS: u64 = 300;
/// Refills in a row, until what still does not follow is given up.
pub(crate) const FUTILE_MAX: u8 = 5;
/// The most looks of that kind in a second.
pub const AUDITS_PER_S: usize = 50;
/// Publications of one channel that wait for an answer, and their bytes. More of them are
/// forgotten, and looked for in the history.
const EARLY_MAX: usize = 256;
const EARLY_BYTES_MAX: usize = 1 << 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// No shard has got anything yet.
    Joining,
    /// Another process hands over its subscribers: those with positions are left when it is known
    /// up to where they have everything.
    Arriving,
    /// Each publication is left as it comes.
    Live,
    /// Something may be missing: those with positions are left when it was found.
    Deaf,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Took {
    /// Handed to the shards that are interested.
    Next,
    /// Known to them, or part of what the next look brings.
    Known,
    /// Something is missing before it.
    Gap,
    /// Contradicts what came before, for this reason: see [`crate::NodeIo::doubt_from`].
    Strange(&'static str),
}

/// A channel that shards of this node want.
pub struct Channel {
    /// Bit `n` is set while shard `n` is interested.
    pub interest: u64,
    pub pending: u32,
    pub state: State,
    /// The broker was asked for it on this connection.
    pub is_subscribed: bool,
    pub is_refilling: bool,
    /// Refills in a row behind which something was missing again.
    pub(crate) futile: u8,
    /// The position of the last publication that was left, in channels with history.
    pub top: Option<Position>,
    /// Up to where the subscribers of each shard have everything, where they came from another
    /// process, until the shards are at one. Bound: the shards.
    #[expect(
        clippy::box_collection,
        reason = "8 bytes instead of 24 in every channel"
    )]
    pub(crate) floors: Option<Box<Vec<(u8, Position)>>>,
    /// Digests of its newest publications; none before the first one.
    contents: Option<Box<Contents>>,
    /// Publications that came before the answer that they follow.
    pub(crate) early: Option<Box<Early>>,
    /// Distinguishes it from a former channel of that name.
    pub serial: u64,
}

/// Publications of a channel whose contents are remembered.
const CONTENTS_MAX: usize = 16;

/// Contents of the newest publications of one epoch, as digests of 32 bits.
struct Contents {
    epoch: Epoch,
    newest: u64,
    /// The newest offset that was delivered on this connection.
    heard: u64,
    /// By the last digits of the offset; zero where it is not known.
    digests: [u32; CONTENTS_MAX],
}

/// A digest of what a publication holds, never zero. It finds accidents, not forgeries.
fn digest(publication: &Publication) -> u32 {
    let mut hasher = DefaultHasher::new();
    publication.payload.bytes.hash(&mut hasher);
    (hasher.finish() as u32).max(1)
}

impl Contents {
    const fn new(epoch: Epoch) -> Self {
        Self {
            epoch,
            newest: 0,
            heard: 0,
            digests: [0; CONTENTS_MAX],
        }
    }

    /// Whether what is remembered of this offset is another content. Remembers it where nothing
    /// is.
    fn differs(&mut self, offset: u64, digest: u32) -> bool {
        let max = CONTENTS_MAX as u64;
        if offset > self.newest {
            for skipped in (self.newest + 1..offset).rev().take(CONTENTS_MAX) {
                self.digests[(skipped % max) as usize] = 0;
            }
            self.newest = offset;
            self.digests[(offset % max) as usize] = digest;
            return false;
        }
        if self.is_forgotten(offset) {
            return false;
        }
        let known = &mut self.digests[(offset % max) as usize];
        if *known == 0 {
            *known = digest;
        }
        *known != digest
    }

    /// Whether so much came since that nothing is remembered of this offset.
    const fn is_forgotten(&self, offset: u64) -> bool {
        offset + CONTENTS_MAX as u64 <= self.newest
    }
}

impl Channel {
    /// Makes an agent that no shard has yet.
    #[must_use]
    pub const fn new(serial: u64) -> Self {
        Self {
            interest: 0,
            pending: 0,
            state: State::Joining,
            is_subscribed: false,
            is_refilling: false,
            futile: 0,
            top: None,
            floors: None,
            contents: None,
            early: None,
            serial,
        }
    }

    #[must_use]
    pub const fn is_unwanted(&self) -> bool {
        self.interest == 0 && self.pending == 0
    }

    /// Notes what a publication holds that came with an answer. False if it contradicts what the
    /// channel had at its position.
    #[must_use]
    pub fn remember(&mut self, publication: &Publication) -> bool {
        let Some(position) = publication.position else {
            return true;
        };
        let contents = self.contents_of(position.epoch);
        !contents.differs(position.offset, digest(publication))
    }

    fn contents_of(&mut self, epoch: Epoch) -> &mut Contents {
        let contents = self
            .contents
            .get_or_insert_with(|| Box::new(Contents::new(epoch)));
        if contents.epoch != epoch {
            **contents = Contents::new(epoch);
        }
        contents
    }

    pub fn took(&mut self, publication: &Publication) -> Took {
        let Some(position) = publication.position else {
            return Took::Next;
        };
        // What had to wait for an answer is taken once more, and then it is the next.
        let is_had = { self.top }
            .is_some_and(|top| top.epoch == position.epoch && position.offset <= top.offset);
        let is_had = is_had && self.state == State::Live;
        let contents = self.contents_of(position.epoch);
        if contents.differs(position.offset, digest(publication)) {
            return Took::Strange("two contents for one position");
        }
        // Deliveries of one connection rise. One that another server sends late is not far behind.
        if is_had && position.offset <= contents.heard && contents.is_forgotten(position.offset) {
            return Took::Strange("a delivery behind those before it");
        }
        contents.heard = contents.heard.max(position.offset);
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

    /// Keeps a publication aside until the answer comes that it follows.
    pub(crate) fn keep_early(&mut self, publication: &Arc<Publication>) {
        self.early.get_or_insert_default().push(publication);
    }

    /// Publications that were kept aside, as far as they are behind a position.
    pub(crate) fn early_behind(&self, position: Option<Position>) -> Vec<Arc<Publication>> {
        let early = self.early.as_ref().zip(position);
        early.map_or(Vec::new(), |(early, at)| early.behind(at))
    }

    /// The connection is lost: it is unknown what is missed from now on.
    pub fn lost_connection(&mut self, keeps: bool) {
        self.is_subscribed = false;
        (self.is_refilling, self.futile, self.early) = (false, 0, None);
        if let Some(contents) = &mut self.contents {
            contents.heard = 0;
        }
        if self.state == State::Live && keeps {
            self.state = State::Deaf;
        }
    }
}

/// Channels that are to be compared with their streams, and when: each some time after it was
/// wanted, and again after each time.
#[derive(Default)]
pub struct Audits {
    /// In the order of their times. Bound: the channels, and those that were given up within
    /// [`AUDIT_MS`].
    soon: VecDeque<(u64, ChannelName, u64)>,
    /// Channels that were compared before. Bound: as `soon`.
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

    /// The next channel that is due. The caller adds it again, if the channel is still there.
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
    pub position: Position,
    /// Whether the rest is what was asked for.
    pub status: HistoryMatch,
    /// The part that was asked for. Bound: those of its question.
    pub publications: Vec<Arc<Publication>>,
}

impl Looked {
    /// As the answer to a request for history.
    ///
    /// # Errors
    /// [`Refusal::UnrecoverablePosition`] if there is no such position.
    pub fn into_page(self) -> Result<HistoryPage, Refusal> {
        match self.status {
            HistoryMatch::NoSuchPosition => Err(Refusal::UnrecoverablePosition),
            HistoryMatch::Fits | HistoryMatch::Lost => Ok(HistoryPage {
                position: Some(self.position),
                publications: self.publications,
            }),
        }
    }
}

/// Whether a part of history is what was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HistoryMatch {
    Fits,
    /// Something is missing, or it was too much.
    Lost,
    /// The position is of another epoch or lies ahead.
    NoSuchPosition,
}

/// Part of a stream's history that is looked for.
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

/// Content of a look for a subscriber, besides where the stream stands, and the publications at
/// most.
#[must_use]
pub fn subscriber_query(
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

/// The answer to a subscriber; see [`crate::NodeIo::subscribed`].
pub(crate) fn subscribed(
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
    let Some(since) = since.filter(|_| options.recovery && looked.status == HistoryMatch::Fits)
    else {
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

/// Publications that were delivered before the answer that they follow. Only where deliveries and
/// answers take different roads through the broker, so that either may come first.
#[derive(Default)]
pub(crate) struct Early {
    /// In order, without a gap. Bound: [`EARLY_MAX`], [`EARLY_BYTES_MAX`].
    publications: Vec<Arc<Publication>>,
    bytes: usize,
}

impl Early {
    pub(crate) fn push(&mut self, publication: &Arc<Publication>) {
        let after = self.publications.last().and_then(|last| last.position);
        let follows = after
            .zip(publication.position)
            .is_none_or(|(last, it)| last.epoch == it.epoch && last.offset + 1 == it.offset);
        if !follows || self.publications.len() >= EARLY_MAX || self.bytes > EARLY_BYTES_MAX {
            self.publications.clear();
            self.bytes = 0;
        }
        self.bytes += publication.cost_bytes();
        self.publications.push(publication.clone());
    }

    /// Those behind a position.
    pub(crate) fn behind(&self, position: Position) -> Vec<Arc<Publication>> {
        let is_behind = |it: &&Arc<Publication>| {
            it.position
                .is_some_and(|at| at.epoch != position.epoch || at.offset > position.offset)
        };
        self.publications
            .iter()
            .filter(is_behind)
            .cloned()
            .collect()
    }
}

/// Makes an answer reach up to a position, by the publications in between.
pub(crate) fn continue_to(
    result: &mut Subscribed,
    top: Position,
    mut more: Vec<Arc<Publication>>,
    is_cache: bool,
) {
    result.position = Some(top);
    if let Recovery::Whole(missed) = &mut result.recovery {
        if is_cache {
            missed.clear();
            missed.extend(more.pop());
        } else {
            missed.append(&mut more);
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
