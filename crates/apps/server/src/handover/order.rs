//! Messages between the handle and a shard of the old process.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::link::Link;
use super::meeting::{Meeting, Reporter, Reports, reports};
use super::successor::HandOverError;
use crate::drain::DrainOptions;

/// Longest wait for the shards to come to rest. Nothing is read meanwhile, so their work is bounded
/// by what waited.
const REST: Duration = Duration::from_secs(2);
/// Longest wait for a shard's next word. Its whole hand-over may take as long as there are
/// connections.
const GIVE: Duration = Duration::from_secs(20);

/// Report of a shard that hands over.
pub(crate) enum Word {
    /// A message has gone to the new process.
    GoesOn,
    /// Everything has gone, or it does not.
    Sent(Result<Moved, String>),
}

pub(crate) struct HandOver {
    pub(super) link: Link,
    pub(super) meeting: Arc<Meeting>,
    /// The number of the cut in what a broker elsewhere delivers; the same for all shards.
    pub(super) cut: u64,
    /// Deadline for the shards to come to rest; otherwise they go on.
    pub(super) until: Instant,
    pub(super) drain: DrainOptions,
    pub(super) way: Reporter<Word>,
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Moved {
    pub(crate) moved: usize,
    pub(crate) stay: usize,
}

impl HandOver {
    pub(crate) fn new(
        link: Link,
        meeting: Arc<Meeting>,
        drain: DrainOptions,
        cut: u64,
    ) -> (Box<Self>, Given) {
        let (way, reports) = reports();
        let order = Self {
            link,
            meeting,
            cut,
            until: Instant::now() + REST,
            drain,
            way,
        };
        (Box::new(order), reports)
    }
}

/// Reports of a shard that hands over, for the handle.
pub(crate) type Given = Reports<Word>;

impl Given {
    /// Waits until all shards have sent everything.
    pub(crate) fn all(shards: &[Self]) -> Result<Moved, HandOverError> {
        let mut all = Moved::default();
        for shard in shards {
            let sent = loop {
                match shard.heard.recv_timeout(GIVE) {
                    Ok(Word::GoesOn) => {}
                    Ok(Word::Sent(sent)) => break sent,
                    Err(_) => break Err("a shard does not answer".to_owned()),
                }
            };
            let Moved { moved, stay } = sent.map_err(HandOverError::Here)?;
            all.moved += moved;
            all.stay += stay;
        }
        Ok(all)
    }
}
