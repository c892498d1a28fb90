//! Outbound queues: what a connection was given and the kernel has not taken yet.
//!
//! Owns the order of bytes and their count. Never: writes, closes, encodes. A
//! connection has a queue only while bytes wait.
//!
//! Rule for "full": see [`Overflow`]; a queue holds at most its bound of deliveries (one that had
//! begun to leave may exceed it), and a reply that finds more than twice the bound waiting ends the
//! connection.
//!
//! Invariants
//! - `bytes` equals the bytes of all items less `head_sent`.
//! - An item whose first byte the kernel has taken is never dropped, nor is a frame of a
//!   channel that says [`Overflow::Close`]: another channel of the connection may shed only
//!   what is its like.
//! - The first `staying` items may not be dropped; who looks for what may begins behind them.
//! - Own bytes leave in the order in which they were appended, among the frames; while
//!   the queue is held they overtake the frames that came after it was, and there are no
//!   own bytes behind those.

use std::collections::VecDeque;
use std::io::IoSlice;

use throng_types::{Frame, Load, Millis, Overflow, Save, Saved, save_count};

/// Outcome of pushing a frame into a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pushed {
    /// The queue took the frame and dropped this many, which may include the frame itself.
    Queued { dropped: u32 },
    /// The queue has no room and the connection must end.
    Full,
}

enum Item {
    /// The next bytes of `own`.
    Own { bytes: u32 },
    Frame {
        frame: Frame,
        key: u32,
        /// Set for frames that are never dropped: the connection ends instead.
        stays: bool,
        /// Continues the message of the frame before it.
        goes_on: bool,
    },
    /// Always at the head: TLS records of bytes that have left the queue.
    Sealed {
        records: Frame,
        /// Bytes of the next item that the records contain too.
        next_sent: u32,
    },
}

impl Item {
    fn len(&self) -> usize {
        match self {
            Self::Own { bytes } => *bytes as usize,
            Self::Frame { frame, .. } => frame.len(),
            Self::Sealed { records, .. } => records.len(),
        }
    }
}

/// Items for which a queue in the pool keeps room.
const ITEMS_KEPT: usize = 16;
/// Own bytes for which a queue in the pool keeps room.
const OWN_BYTES_KEPT: usize = 1024;
/// Slices offered to one gathered write.
const SLICES: usize = 64;
/// Divisor for a frame whose other holders are not known yet: it counts at least its part if so
/// many queues take it in the same turn.
const HOLDERS: usize = 4;

/// Bytes that were queued since all queues were counted, and the number at which they are counted
/// again.
#[derive(Default)]
pub(crate) struct Sum {
    pub(crate) since: usize,
    pub(crate) since_max: usize,
}

impl Sum {
    pub(crate) const fn note(&mut self, bytes: usize) {
        self.since = self.since.saturating_add(bytes);
    }

    pub(crate) fn note_frame(&mut self, frame: &Frame) {
        let part = frame.len().min(HOLDERS * frame.len() / frame.holders());
        self.note(part + Outbound::ITEM_BYTES);
    }

    pub(crate) const fn is_due(&self) -> bool {
        self.since > self.since_max
    }
}

/// Queue of one connection, in the order in which it leaves.
#[derive(Default)]
pub(crate) struct Outbound {
    /// Queue: `outbound`. Bytes that the kernel took are in its own, Queue: `kernel's send buffer`.
    items: VecDeque<Item>,
    /// Bytes of items that are not shared. Bound: that of the items.
    own: VecDeque<u8>,
    head_sent: usize,
    bytes: usize,
    /// The kernel's buffer is full: an event follows when there is room.
    pub(crate) blocked: bool,
    /// Set if the queue was full at some time since it was last empty.
    pub(crate) lagged: bool,
    /// Frames forgotten since the queue was last empty.
    pub(crate) dropped: u32,
    /// While the queue is held, how many items at its head may leave. Own bytes join them;
    /// frames wait behind.
    held_behind: Option<usize>,
    pub(crate) owner: u32,
    /// When the kernel last took something of it, or it was empty.
    pub(crate) moved_at: Millis,
    /// Items at the head that were looked at and stay: a connection that reads nothing may have
    /// thousands of them, and every delivery of a channel that sheds would pass them all again.
    staying: usize,
    #[cfg(test)]
    looks: usize,
}

impl Outbound {
    /// Bytes that an item costs beside its content.
    pub(crate) const ITEM_BYTES: usize = size_of::<Item>();

    pub(crate) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Memory that would be free without it, in bytes: a frame counts as much as others leave of
    /// it.
    pub(crate) fn cost(&self) -> usize {
        let frames = self.items.iter().map(|item| match item {
            Item::Own { .. } => 0,
            Item::Frame { frame, .. } | Item::Sealed { records: frame, .. } => {
                frame.len() / frame.holders()
            }
        });
        let lists = self.own.capacity() + self.items.capacity() * Self::ITEM_BYTES;
        lists + frames.sum::<usize>()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    pub(crate) fn may_leave(&self) -> bool {
        !self.items.is_empty() && self.held_behind != Some(0)
    }

    /// Whether frames wait for [`Outbound::hold`] to be taken back.
    pub(crate) const fn is_held(&self) -> bool {
        self.held_behind.is_some()
    }

    /// Holds back what is appended from now on, but for own bytes; or lets it go.
    pub(crate) fn hold(&mut self, hold: bool) {
        self.held_behind = hold.then_some(self.items.len());
    }

    /// Forgets the frames that were held back: the connection ends before it says where it stands.
    pub(crate) fn forget_held(&mut self) {
        let Some(behind) = self.held_behind.take() else {
            return;
        };
        for item in self.items.drain(behind..) {
            self.bytes -= item.len();
        }
        self.staying = self.staying.min(behind);
    }

    /// Forgets all but the message at the head, which may have begun to leave, and holds nothing
    /// back any more. Keeps an item at the head in any case: where own bytes may be cut is not
    /// known, nor that another process has begun a frame.
    pub(crate) fn keep_begun(&mut self) {
        self.forget_held();
        let head = 1 + usize::from(self.sealed().is_some());
        let goes_on = |item: &&Item| matches!(item, Item::Frame { goes_on: true, .. });
        let more = self.items.iter().skip(head).take_while(goes_on).count();
        let kept = self.items.len().min(head + more);
        for item in self.items.drain(kept..) {
            self.bytes -= item.len();
            if let Item::Own { bytes } = item {
                self.own.truncate(self.own.len() - bytes as usize);
            }
        }
        self.items.shrink_to(ITEMS_KEPT);
        self.own.shrink_to(self.own.len().max(OWN_BYTES_KEPT));
        self.staying = 0;
    }

    /// Appends a connection's own bytes; while held, before the frames that wait.
    pub(crate) fn push_own(&mut self, bytes: &[u8]) {
        self.own.extend(bytes);
        self.bytes += bytes.len();
        if let Some(behind) = self.held_behind {
            let last = behind.checked_sub(1).and_then(|at| self.items.get_mut(at));
            if let Some(Item::Own { bytes: last }) = last {
                *last += bytes.len() as u32;
            } else {
                let bytes = bytes.len() as u32;
                self.items.insert(behind, Item::Own { bytes });
                self.held_behind = Some(behind + 1);
                self.staying += usize::from(behind < self.staying);
            }
            return;
        }
        match self.items.back_mut() {
            Some(Item::Own { bytes: last }) => *last += bytes.len() as u32,
            _ => self.items.push_back(Item::Own {
                bytes: bytes.len() as u32,
            }),
        }
    }

    /// Appends a frame of which `sent` bytes have left already.
    pub(crate) fn push_begun(&mut self, frame: &Frame, sent: usize) {
        debug_assert!(self.items.is_empty(), "only the head can have begun");
        self.head_sent = sent;
        self.bytes = frame.len() - sent;
        self.items.push_back(Item::Frame {
            frame: frame.clone(),
            key: u32::MAX,
            stays: true,
            goes_on: false,
        });
    }

    /// Bytes of deliveries. A large reply, such as a long history, does not count against the
    /// deliveries that follow it, or whoever recovers much would be cut off for it, and again.
    fn frame_bytes(&self) -> usize {
        self.bytes - self.own.len()
    }

    /// Appends a shared frame; the deliveries in the queue stay within `bytes_max`.
    pub(crate) fn push_frame(
        &mut self,
        frame: &Frame,
        key: u32,
        overflow: Overflow,
        bytes_max: usize,
    ) -> Pushed {
        let mut dropped = 0;
        if overflow == Overflow::LatestOnly && self.blocked {
            dropped += self.drop_where(|other| other == key);
        }
        if self.frame_bytes() + frame.len() > bytes_max {
            if overflow == Overflow::Close {
                return Pushed::Full;
            }
            dropped += self.drop_oldest(frame.len(), bytes_max);
            if self.frame_bytes() + frame.len() > bytes_max {
                // Nothing else can go, so it is this one's turn.
                self.dropped += dropped + 1;
                return Pushed::Queued {
                    dropped: dropped + 1,
                };
            }
        }
        self.dropped += dropped;
        self.bytes += frame.len();
        self.items.push_back(Item::Frame {
            frame: frame.clone(),
            key,
            stays: overflow == Overflow::Close,
            goes_on: false,
        });
        Pushed::Queued { dropped }
    }

    /// Appends the parts of one message, all of them or none; none is dropped for a later frame.
    pub(crate) fn push_parts(&mut self, parts: &[Frame], bytes_max: usize) -> Pushed {
        let bytes: usize = parts.iter().map(|part| part.len()).sum();
        if self.frame_bytes() + bytes > bytes_max {
            return Pushed::Full;
        }
        self.bytes += bytes;
        for (n, part) in parts.iter().enumerate() {
            self.items.push_back(Item::Frame {
                frame: part.clone(),
                key: u32::MAX,
                stays: true,
                goes_on: n > 0,
            });
        }
        Pushed::Queued { dropped: 0 }
    }

    /// Whether the item at a place may be forgotten.
    fn droppable(&self, at: usize) -> bool {
        let has_begun = match (at, self.items.front()) {
            (0, _) => self.head_sent > 0,
            (1, Some(Item::Sealed { next_sent, .. })) => *next_sent > 0,
            _ => false,
        };
        !has_begun && matches!(self.items[at], Item::Frame { stays: false, .. })
    }

    fn drop_where(&mut self, doomed: impl Fn(u32) -> bool) -> u32 {
        let mut dropped = 0;
        for at in (0..self.items.len()).rev() {
            let hit = matches!(self.items[at], Item::Frame { key, .. } if doomed(key));
            if hit && self.droppable(at) {
                self.forget(at);
                dropped += 1;
            }
        }
        dropped
    }

    fn drop_oldest(&mut self, needed: usize, bytes_max: usize) -> u32 {
        debug_assert!((0..self.staying).all(|at| !self.droppable(at)));
        let mut dropped = 0;
        let mut at = self.staying;
        while at < self.items.len() && self.frame_bytes() + needed > bytes_max {
            #[cfg(test)]
            {
                self.looks += 1;
            }
            if self.droppable(at) {
                self.forget(at);
                dropped += 1;
            } else {
                at += 1;
            }
        }
        self.staying = at;
        dropped
    }

    fn forget(&mut self, at: usize) {
        if let Some(item) = self.items.remove(at) {
            self.bytes -= item.len();
            self.held_behind = self
                .held_behind
                .map(|behind| behind - usize::from(at < behind));
        }
        self.join_own(at);
    }

    /// Makes own bytes that have become neighbours one item: what cannot be dropped must not
    /// pile up where the next frame looks for what can.
    fn join_own(&mut self, at: usize) {
        let Some(&Item::Own { bytes: after }) = self.items.get(at) else {
            return;
        };
        let before = at.checked_sub(1).and_then(|at| self.items.get_mut(at));
        if let Some(Item::Own { bytes }) = before {
            *bytes += after;
            self.items.remove(at);
            // Behind the held mark there are no own bytes, so this one was before it.
            self.held_behind = self.held_behind.map(|behind| behind - 1);
        }
    }

    /// Offers the head of the queue as slices for one gathered write.
    pub(crate) fn with_slices<R>(&self, write: impl FnOnce(&[IoSlice<'_>]) -> R) -> R {
        // Mostly one delivery waits, and nothing of it has to be gathered.
        if self.items.len() == 1
            && let Some(Item::Frame { frame, .. }) = self.items.front()
        {
            return write(&[IoSlice::new(&frame[self.head_sent..])]);
        }
        let mut slices = [IoSlice::new(&[]); SLICES];
        let mut count = 0;
        let (own_front, own_back) = self.own.as_slices();
        let mut own_at = 0;
        let mut skip = self.head_sent;
        let may_leave = self.held_behind.unwrap_or(self.items.len());
        for item in self.items.iter().take(may_leave) {
            if count + 2 > SLICES {
                break;
            }
            match item {
                Item::Frame { frame, .. } | Item::Sealed { records: frame, .. } => {
                    slices[count] = IoSlice::new(&frame[skip..]);
                    count += 1;
                }
                // Own bytes that have left are gone from `own`, so nothing is skipped.
                Item::Own { bytes } => {
                    let left = *bytes as usize - skip;
                    let (start, end) = (own_at, own_at + left);
                    own_at = end;
                    let cut = own_front.len();
                    if start < cut {
                        slices[count] = IoSlice::new(&own_front[start..end.min(cut)]);
                        count += 1;
                    }
                    if end > cut {
                        let from = start.max(cut) - cut;
                        slices[count] = IoSlice::new(&own_back[from..end - cut]);
                        count += 1;
                    }
                }
            }
            skip = match item {
                Item::Sealed { next_sent, .. } => *next_sent as usize,
                _ => 0,
            };
        }
        write(&slices[..count])
    }

    /// Notes that the kernel took this many bytes.
    pub(crate) fn sent(&mut self, mut bytes: usize) {
        debug_assert!(bytes <= self.bytes);
        if bytes == self.bytes {
            // One by one, because it mostly is one.
            while self.items.pop_front().is_some() {}
            if !self.own.is_empty() {
                self.own.clear();
            }
            (self.head_sent, self.bytes) = (0, 0);
            self.held_behind = self.held_behind.map(|_| 0);
            self.staying = 0;
            return;
        }
        self.bytes -= bytes;
        while let Some(head) = self.items.front() {
            let left = head.len() - self.head_sent;
            let taken = left.min(bytes);
            if matches!(head, Item::Own { .. }) {
                self.own.drain(..taken);
            }
            bytes -= taken;
            if taken < left {
                self.head_sent += taken;
                return;
            }
            self.head_sent = match self.items.pop_front() {
                Some(Item::Sealed { next_sent, .. }) => next_sent as usize,
                _ => 0,
            };
            self.held_behind = self.held_behind.map(|behind| behind.saturating_sub(1));
            self.staying = self.staying.saturating_sub(1);
            if bytes == 0 {
                return;
            }
        }
    }

    /// Makes a queue fit for the next connection, and smaller if it has grown.
    pub(crate) fn recycle(&mut self) {
        if !self.items.is_empty() {
            self.items.clear();
            self.own.clear();
        }
        (self.head_sent, self.bytes) = (0, 0);
        (self.blocked, self.lagged, self.dropped) = (false, false, 0);
        (self.held_behind, self.staying) = (None, 0);
        if ITEMS_KEPT < self.items.capacity() {
            self.items.shrink_to(ITEMS_KEPT);
        }
        if OWN_BYTES_KEPT < self.own.capacity() {
            self.own.shrink_to(OWN_BYTES_KEPT);
        }
    }

    /// The rest of the TLS records that must leave before anything else, in place of the bytes that
    /// they say.
    pub(crate) fn sealed(&self) -> Option<&[u8]> {
        match self.items.front()? {
            Item::Sealed { records, .. } => Some(&records[self.head_sent..]),
            _ => None,
        }
    }

    /// Puts TLS records before everything but those that are there.
    pub(crate) fn push_sealed(&mut self, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        let (records, next_sent) = match self.items.front() {
            Some(Item::Sealed { records, next_sent }) => {
                let before = &records[self.head_sent..];
                let joined = (Frame::new(&[before, bytes].concat()), *next_sent);
                self.items.pop_front();
                joined
            }
            _ => {
                self.held_behind = self.held_behind.map(|behind| behind + 1);
                self.staying += 1;
                (Frame::new(bytes), self.head_sent as u32)
            }
        };
        self.bytes += bytes.len();
        self.head_sent = 0;
        self.items.push_front(Item::Sealed { records, next_sent });
    }

    /// Forgets what is not sealed: it cannot leave any more.
    pub(crate) fn forget_plain(&mut self) {
        let sealed = self.sealed().map(Frame::new);
        self.items.clear();
        self.own.clear();
        (self.head_sent, self.bytes) = (0, 0);
        (self.held_behind, self.staying) = (None, 0);
        if let Some(sealed) = sealed {
            self.push_sealed(&sealed);
        }
    }
}

/// Kinds of items: own bytes; a frame, which may be dropped, or stays, or is the next part of the
/// message before it; TLS records.
const OWN: u8 = 0;
const FRAME: u8 = 1;
const FRAME_STAYS: u8 = 2;
const SEALED: u8 = 3;
const FRAME_GOES_ON: u8 = 4;

/// A queue as bytes. Frames that were shared with other queues are copies where they arrive.
impl Save for Outbound {
    fn save(&self, out: &mut Vec<u8>) {
        save_count(self.items.len(), out);
        let (mut own_at, mut skip) = (0, self.head_sent);
        for item in &self.items {
            match item {
                Item::Own { bytes } => {
                    let end = own_at + (*bytes as usize - skip);
                    let own: Vec<u8> = self.own.range(own_at..end).copied().collect();
                    own_at = end;
                    out.push(OWN);
                    own.save(out);
                }
                Item::Frame {
                    frame,
                    stays,
                    goes_on,
                    ..
                } => {
                    out.push(match (goes_on, stays) {
                        (true, _) => FRAME_GOES_ON,
                        (_, true) => FRAME_STAYS,
                        // The rest of a frame that has begun to leave must follow.
                        _ if skip > 0 => FRAME_STAYS,
                        _ => FRAME,
                    });
                    frame[skip..].save(out);
                }
                Item::Sealed { records, .. } => {
                    out.push(SEALED);
                    records[skip..].save(out);
                }
            }
            skip = match item {
                Item::Sealed { next_sent, .. } => *next_sent as usize,
                _ => 0,
            };
        }
        self.held_behind.save(out);
        (self.lagged, self.dropped).save(out);
    }
}

impl Load for Outbound {
    fn load(from: &mut Saved<'_>) -> Option<Self> {
        let mut queue = Self::default();
        for _ in 0..from.count()? {
            let (kind, bytes) = (u8::load(from)?, from.bytes()?);
            queue.bytes += bytes.len();
            queue.items.push_back(match kind {
                OWN => {
                    queue.own.extend(bytes);
                    let bytes = u32::try_from(bytes.len()).ok()?;
                    Item::Own { bytes }
                }
                // No other frame is told to replace it: the channel's key is another one here.
                FRAME | FRAME_STAYS | FRAME_GOES_ON => Item::Frame {
                    frame: Frame::new(bytes),
                    key: u32::MAX,
                    stays: kind != FRAME,
                    goes_on: kind == FRAME_GOES_ON,
                },
                // What they say of the next item was not saved with that.
                SEALED if queue.items.is_empty() => Item::Sealed {
                    records: Frame::new(bytes),
                    next_sent: 0,
                },
                _ => return None,
            });
        }
        queue.held_behind = Load::load(from)?;
        (queue.lagged, queue.dropped) = Load::load(from)?;
        let is_sound = queue.held_behind.is_none_or(|behind| {
            let mut after = queue.items.iter().skip(behind);
            behind <= queue.items.len() && after.all(|item| matches!(item, Item::Frame { .. }))
        });
        is_sound.then_some(queue)
    }
}

#[cfg(test)]
mod tests;
