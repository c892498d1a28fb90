//! Streams of one connection: those that live, and a few that have gone.
//!
//! Invariants
//! - Ids grow from front to back, so a stream is found by halving; places of removed ones stay
//!   until they are half of all.
//! - `blocked` is the number of live streams that wait for a window.

use throng_types::Save;

/// Memory of a stream.
pub const STREAM_BYTES: usize = size_of::<Stream>();

/// The peer sends nothing more.
pub(crate) const PEER_ENDED: u8 = 0x01;
/// We send nothing more.
pub(crate) const WE_ENDED: u8 = 0x02;
/// Its owner has more for it than a window lets through.
pub(crate) const BLOCKED: u8 = 0x04;
/// The client's: a final response has come, so what follows are trailers.
pub(crate) const ANSWERED: u8 = 0x08;
/// Told that it may go on, and has not sent since.
pub(crate) const TOLD: u8 = 0x10;
/// Removed; only its place is left.
const REMOVED: u8 = 0x80;

/// Stands for a body whose length was not declared.
pub(crate) const UNKNOWN: u32 = u32::MAX;

#[derive(Clone, Copy, Debug, Save)]
pub(crate) struct Stream {
    pub(crate) id: u32,
    /// Place of its owner.
    pub(crate) tag: u32,
    /// Bytes that we may send; below zero after the peer has made its windows smaller.
    pub(crate) send: i32,
    /// Bytes that the peer may send.
    pub(crate) recv: u32,
    /// Bytes that the owner took and the peer was not told about.
    pub(crate) taken: u32,
    /// Bytes of the declared body that have not come, or [`UNKNOWN`].
    pub(crate) body_left: u32,
    pub(crate) flags: u8,
}

impl Stream {
    pub(crate) const fn is(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }
}

/// Reason for which a stream is not there any more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Save)]
pub(crate) enum Gone {
    /// Both sides have ended it.
    #[default]
    Ended,
    PeerReset,
    /// Frames that the peer has sent before it knows are ignored (RFC 9113 section 5.4.2).
    WeReset,
}

/// Streams whose end is remembered: enough for what is on its way when several end at once.
const GONE_MAX: usize = 16;

#[derive(Debug, Default, Save)]
#[save(check = Self::is_sound)]
pub(crate) struct Streams {
    all: Vec<Stream>,
    removed: u32,
    blocked: u32,
    /// The last one that was told to go on, or of those the last one that has sent: the next in
    /// order comes after it.
    turn: u32,
    gone: [(u32, Gone); GONE_MAX],
    gone_at: u8,
}

impl Streams {
    fn is_sound(&self) -> bool {
        let count = |flag| self.all.iter().filter(|stream| stream.is(flag)).count();
        let blocked = { self.all.iter() }
            .filter(|stream| is_waiting(stream))
            .count();
        self.all.is_sorted_by(|a, b| a.id < b.id)
            && count(REMOVED) == self.removed as usize
            && blocked == self.blocked as usize
            && usize::from(self.gone_at) < GONE_MAX
    }

    pub(crate) fn len(&self) -> usize {
        self.all.len() - self.removed as usize
    }

    /// Memory on the heap.
    pub(crate) fn held_bytes(&self) -> usize {
        self.all.capacity() * STREAM_BYTES
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Stream> {
        self.all.iter().filter(|stream| !stream.is(REMOVED))
    }

    fn place(&self, id: u32) -> Option<usize> {
        let place = self
            .all
            .binary_search_by_key(&id, |stream| stream.id)
            .ok()?;
        (!self.all[place].is(REMOVED)).then_some(place)
    }

    pub(crate) fn get(&self, id: u32) -> Option<&Stream> {
        self.place(id).map(|place| &self.all[place])
    }

    pub(crate) fn get_mut(&mut self, id: u32) -> Option<&mut Stream> {
        self.place(id).map(|place| &mut self.all[place])
    }

    /// Adds a stream whose id is above all before.
    pub(crate) fn push(&mut self, stream: Stream) {
        debug_assert!(
            self.all.last().is_none_or(|last| last.id < stream.id),
            "ids grow"
        );
        self.all.push(stream);
    }

    pub(crate) fn remove(&mut self, id: u32, why: Gone) -> Option<Stream> {
        let place = self.place(id)?;
        let stream = self.all[place];
        self.blocked -= u32::from(is_waiting(&stream));
        self.all[place].flags = REMOVED;
        self.removed += 1;
        if self.removed as usize * 2 > self.all.len() {
            self.all.retain(|stream| !stream.is(REMOVED));
            self.removed = 0;
            self.all.shrink_to(2 * self.all.len());
        }
        self.note_gone(id, why);
        Some(stream)
    }

    /// Remembers the end of a stream, in the place of the oldest that is remembered.
    pub(crate) fn note_gone(&mut self, id: u32, why: Gone) {
        if let Some(known) = self.gone.iter_mut().find(|(gone, _)| *gone == id) {
            known.1 = why;
            return;
        }
        self.gone[usize::from(self.gone_at)] = (id, why);
        self.gone_at = (self.gone_at + 1) % GONE_MAX as u8;
    }

    /// Tells why a stream is gone, if that is remembered.
    pub(crate) fn why_gone(&self, id: u32) -> Option<Gone> {
        let found = self.gone.iter().find(|(gone, _)| *gone == id);
        found.map(|&(_, why)| why)
    }

    /// Notes that a stream's owner has more for it.
    pub(crate) fn block(&mut self, id: u32) {
        if let Some(place) = self.place(id)
            && !self.all[place].is(BLOCKED)
        {
            self.all[place].flags |= BLOCKED;
            self.blocked += 1;
        }
    }

    pub(crate) const fn any_blocked(&self) -> bool {
        self.blocked > 0
    }

    /// Takes the next in turn of those that wait and may send.
    pub(crate) fn next_writable(&mut self) -> Option<&Stream> {
        if self.blocked == 0 {
            return None;
        }
        let start = self.all.partition_point(|stream| stream.id <= self.turn);
        let count = self.all.len();
        let places = (start..count).chain(0..start);
        let place = { places }.find(|&place| {
            let stream = &self.all[place];
            is_waiting(stream) && stream.send > 0
        })?;
        let stream = &mut self.all[place];
        stream.flags = (stream.flags & !BLOCKED) | TOLD;
        self.blocked -= 1;
        self.turn = stream.id;
        Some(stream)
    }

    /// Notes that a stream has sent. If several were told to go on before one could, and the window
    /// was not enough for all, the others come first the next time.
    pub(crate) fn note_turn(&mut self, id: u32) {
        if let Some(stream) = self.get_mut(id)
            && stream.is(TOLD)
        {
            stream.flags &= !TOLD;
            self.turn = id;
        }
    }

    /// Moves the windows of all streams by as much; false if one is too large then (RFC 9113
    /// section 6.9.2).
    pub(crate) fn move_windows(&mut self, by: i64) -> bool {
        if by == 0 {
            return true;
        }
        let mut live = self.all.iter_mut().filter(|stream| !stream.is(REMOVED));
        live.all(|stream| {
            let moved = i32::try_from(i64::from(stream.send) + by);
            moved.is_ok_and(|moved| {
                stream.send = moved;
                true
            })
        })
    }
}

const fn is_waiting(stream: &Stream) -> bool {
    stream.flags & (BLOCKED | REMOVED) == BLOCKED
}
