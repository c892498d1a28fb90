//! A sweep: one channel's publications on their way to its members, in slices.
//!
//! Owns the publications that members still have to get. Never: the members' list.
//!
//! Publications are numbered as they arrive. A sweep carries a batch, numbers
//! `batch_start..batch_end`, over the members once; what arrives meanwhile waits in
//! `queue` for the next round.
//!
//! Invariants
//! - Members before `cursor` have everything below `batch_end`, members from `cursor`
//!   on have everything below `batch_start`.
//! - A newcomer has everything below its own number, and is not a member yet. When the
//!   cursor reaches the end it gets the rest of the batch and becomes a member, unless
//!   it joined after the batch was closed: then it waits for the next round.
//! - So whoever joins gets exactly what was published after it joined, in order, once.

use std::collections::VecDeque;
use std::sync::Arc;

use throng_broker::Overflow;
use throng_types::{Frame, Publication};

use crate::channel::Member;
use crate::{Encoded, Format, Sink};

/// Publications carried in one round.
const BATCH_MAX: usize = 256;
/// Bytes of data carried in one round, unless a single publication has more.
const BATCH_BYTES_MAX: usize = 256 << 10;

/// A member that joined during a sweep and the number of the first publication it must get.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Newcomer {
    pub(crate) member: Member,
    pub(crate) from: u64,
}

/// See the module's head.
pub(crate) struct Sweep {
    pub(crate) channel: u32,
    pub(crate) overflow: Overflow,
    pub(crate) cursor: u32,
    pub(crate) newcomers: Vec<Newcomer>,
    pub(crate) batch: Vec<Arc<Publication>>,
    /// The batch in the shared wire forms that members have, each made at its first use.
    pub(crate) encoded: Vec<(Format, Encoded)>,
    batch_start: u64,
    queue: VecDeque<Arc<Publication>>,
}

impl Sweep {
    pub(crate) const fn new(channel: u32, overflow: Overflow) -> Self {
        Self {
            channel,
            overflow,
            cursor: 0,
            newcomers: Vec::new(),
            batch: Vec::new(),
            batch_start: 0,
            queue: VecDeque::new(),
            encoded: Vec::new(),
        }
    }

    /// Publications that wait for a later round.
    pub(crate) fn waiting(&self) -> usize {
        self.queue.len()
    }

    pub(crate) fn push(&mut self, publication: Arc<Publication>) {
        self.queue.push_back(publication);
    }

    /// The number that the next publication will get.
    pub(crate) fn next_number(&self) -> u64 {
        self.batch_end() + self.queue.len() as u64
    }

    fn batch_end(&self) -> u64 {
        self.batch_start + self.batch.len() as u64
    }

    /// Whether a batch is on its way.
    pub(crate) fn in_round(&self) -> bool {
        !self.batch.is_empty()
    }

    /// Closes the finished batch and opens the next; false when there is nothing more to carry.
    pub(crate) fn next_round(&mut self) -> bool {
        self.batch_start = self.batch_end();
        self.batch.clear();
        self.encoded.clear();
        self.cursor = 0;
        let mut bytes = 0;
        while self.batch.len() < BATCH_MAX
            && let Some(next) = self.queue.front()
        {
            bytes += next.payload.bytes.len();
            if bytes > BATCH_BYTES_MAX && !self.batch.is_empty() {
                break;
            }
            self.batch.extend(self.queue.pop_front());
        }
        !self.batch.is_empty()
    }

    /// Where in the batch a newcomer begins, if it is due at the end of this round.
    pub(crate) fn newcomer_start(&self, newcomer: Newcomer) -> Option<usize> {
        (newcomer.from <= self.batch_end())
            .then(|| usize::try_from(newcomer.from.saturating_sub(self.batch_start)).unwrap_or(0))
    }
}

/// The batch in a shared wire form, made at its first use in the round.
pub(crate) fn encoded_once<'a>(
    encoded: &'a mut Vec<(Format, Encoded)>,
    batch: &[Arc<Publication>],
    format: Format,
    sink: &mut impl Sink,
) -> &'a Encoded {
    let known = encoded.iter().position(|(known, _)| *known == format);
    let at = known.unwrap_or_else(|| {
        encoded.push((format, encode(format, batch, sink)));
        encoded.len() - 1
    });
    &encoded[at].1
}

/// Publications in one wire form, each once.
pub(crate) fn encode(
    format: Format,
    publications: &[Arc<Publication>],
    sink: &mut impl Sink,
) -> Encoded {
    let mut bytes = Vec::new();
    let mut frames = Vec::with_capacity(publications.len());
    let mut start = 0;
    for publication in publications {
        sink.encode(format, publication, &mut bytes);
        frames.push(Frame::new(&bytes[start..]));
        start = bytes.len();
    }
    let joined = match &frames[..] {
        [only] => only.clone(),
        _ => Frame::new(&bytes),
    };
    Encoded { frames, joined }
}
