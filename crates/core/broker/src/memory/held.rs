//! Answers to publications that wait for the store.
//!
//! Rule for "full": a publication whose answer would have to wait is refused, as
//! [`crate::Refusal::Busy`].

use std::collections::VecDeque;

use throng_types::ShardId;

use crate::{Acknowledge, Published, Reached, Refusal, Ticket};

/// Answers that may wait. Queue: `unwritten`.
pub(super) const HELD_MAX: usize = 65_536;

/// An answer that waits.
pub(super) struct Held {
    pub(super) to: ShardId,
    pub(super) ticket: Ticket,
    pub(super) published: Published,
    pub(super) level: Acknowledge,
    /// Number of the publication's record, or of a later one.
    pub(super) record: u64,
    /// The stream, while a copy that is inside it has yet to write the record.
    pub(super) inside: Option<u32>,
}

impl Held {
    /// The answer, if the store has got far enough to know it.
    pub(super) fn result(&self, reached: Reached) -> Option<Result<Published, Refusal>> {
        let there = match self.level {
            Acknowledge::Synced => reached.synced,
            Acknowledge::Memory | Acknowledge::Written => reached.written,
        };
        if reached.failed >= self.record {
            return Some(Err(Refusal::NotOnDisk));
        }
        (there >= self.record).then_some(Ok(self.published))
    }
}

/// All answers that wait at one home, in the order of their publications. Bound: [`HELD_MAX`].
pub(super) type Holding = VecDeque<Held>;
