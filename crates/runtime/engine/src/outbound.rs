//! Outbound queues: what a connection was given and the kernel has not taken yet.
//!
//! Owns the order of bytes and their count. Never: writes, closes, encodes. A
//! connection has a queue only while bytes wait.
//!
//! Rule for "full": see [`Overflow`]; a queue holds at most its bound of deliveries (one
//! that had begun to leave may exceed it), and a reply that finds more than twice the bound waiting ends
//! the connection.
//!
//! Invariants
//! - `bytes` equals the bytes of all items less `head_sent`.
//! - An item whose first byte the kernel has taken is never dropped.
//! - Own bytes leave in the order in which they were appended, among the frames.

use std::collections::VecDeque;
use std::io::IoSlice;

use throng_types::Frame;

/// What happens to a frame that finds the queue full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overflow {
    /// The connection is to be ended.
    Close,
    /// The oldest frames that have not begun to leave are forgotten.
    DropOldest,
    /// Older frames with the same key are forgotten as soon as the connection lags.
    LatestOnly,
}

/// What became of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pushed {
    /// It is in the queue; this many other frames were forgotten for it, or it itself was.
    Queued { dropped: u32 },
    /// It has no room and the connection must end.
    Full,
}

enum Item {
    /// The next bytes of `own`.
    Own {
        bytes: u32,
    },
    Frame {
        frame: Frame,
        key: u32,
    },
}

impl Item {
    fn len(&self) -> usize {
        match self {
            Self::Own { bytes } => *bytes as usize,
            Self::Frame { frame, .. } => frame.len(),
        }
    }
}

/// Slices offered to one gathered write.
const SLICES: usize = 64;

/// See the module's head.
#[derive(Default)]
pub(crate) struct Outbound {
    items: VecDeque<Item>,
    own: VecDeque<u8>,
    head_sent: usize,
    bytes: usize,
    /// The kernel's buffer was full at the last write.
    pub(crate) blocked: bool,
    /// Frames forgotten since the queue was last empty.
    pub(crate) dropped: u32,
}

impl Outbound {
    pub(crate) const fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Appends a connection's own bytes.
    pub(crate) fn push_own(&mut self, bytes: &[u8]) {
        self.own.extend(bytes);
        self.bytes += bytes.len();
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
        });
    }

    /// Appends a shared frame, within `bytes_max`.
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
        if self.bytes + frame.len() > bytes_max {
            if overflow == Overflow::Close {
                return Pushed::Full;
            }
            dropped += self.drop_oldest(frame.len(), bytes_max);
            if self.bytes + frame.len() > bytes_max {
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
        });
        Pushed::Queued { dropped }
    }

    /// Whether the item at a place may be forgotten.
    fn droppable(&self, at: usize) -> bool {
        (at > 0 || self.head_sent == 0) && matches!(self.items[at], Item::Frame { .. })
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
        let mut dropped = 0;
        let mut at = 0;
        while at < self.items.len() && self.bytes + needed > bytes_max {
            if self.droppable(at) {
                self.forget(at);
                dropped += 1;
            } else {
                at += 1;
            }
        }
        dropped
    }

    fn forget(&mut self, at: usize) {
        if let Some(item) = self.items.remove(at) {
            self.bytes -= item.len();
        }
    }

    /// Offers the head of the queue as slices for one gathered write.
    pub(crate) fn with_slices<R>(&self, write: impl FnOnce(&[IoSlice<'_>]) -> R) -> R {
        let mut slices = [IoSlice::new(&[]); SLICES];
        let mut count = 0;
        let (own_front, own_back) = self.own.as_slices();
        let mut own_at = 0;
        let mut skip = self.head_sent;
        for item in &self.items {
            if count + 2 > SLICES {
                break;
            }
            match item {
                Item::Frame { frame, .. } => {
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
            skip = 0;
        }
        write(&slices[..count])
    }

    /// Notes that the kernel took this many bytes.
    pub(crate) fn sent(&mut self, mut bytes: usize) {
        debug_assert!(bytes <= self.bytes);
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
            self.head_sent = 0;
            self.items.pop_front();
            if bytes == 0 {
                return;
            }
        }
    }

    /// Makes an empty queue fit for the next connection; false if it grew too large to keep.
    pub(crate) fn recycle(&mut self) -> bool {
        self.items.clear();
        self.own.clear();
        self.head_sent = 0;
        self.bytes = 0;
        self.blocked = false;
        self.dropped = 0;
        self.items.capacity() <= 64 && self.own.capacity() <= 4096
    }
}

#[cfg(test)]
#[path = "outbound/tests.rs"]
mod tests;
