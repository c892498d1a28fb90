//! What the handle and a shard of the old process say to each other.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use super::link::Link;
use super::meeting::Meeting;
use super::successor::HandOverError;
use crate::drain::DrainOptions;

/// How long the shards may take to come to rest. Nothing is read meanwhile, so what they do is
/// bounded by what waited.
const REST: Duration = Duration::from_secs(2);
/// How long all of it may take until a shard has reported.
const GIVE: Duration = Duration::from_secs(20);

/// What a shard is told when it is to hand over.
pub(crate) struct Giving {
    pub(super) link: Link,
    pub(super) meeting: Arc<Meeting>,
    /// By then the shards have come to rest, or go on.
    pub(super) until: Instant,
    pub(super) drain: DrainOptions,
    pub(super) report: Sender<Result<Moved, String>>,
    pub(super) verdict: Receiver<()>,
}

/// How many connections moved, and how many stay.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Moved {
    pub(crate) moved: usize,
    pub(crate) stay: usize,
}

/// The other end: hears what a shard did. Dropping it lets the shard go on as before.
pub(crate) struct Report {
    report: Receiver<Result<Moved, String>>,
    verdict: Sender<()>,
}

impl Giving {
    pub(crate) fn new(
        link: Link,
        meeting: Arc<Meeting>,
        drain: DrainOptions,
    ) -> (Box<Self>, Report) {
        let (report, heard) = channel();
        let (said, verdict) = channel();
        let giving = Self {
            link,
            meeting,
            until: Instant::now() + REST,
            drain,
            report,
            verdict,
        };
        let report = Report {
            report: heard,
            verdict: said,
        };
        (Box::new(giving), report)
    }
}

impl Report {
    /// Waits until all shards have sent everything.
    pub(crate) fn all(shards: &[Self]) -> Result<Moved, HandOverError> {
        let mut all = Moved::default();
        for shard in shards {
            let heard = shard.report.recv_timeout(GIVE);
            let heard = heard.unwrap_or_else(|_| Err("a shard does not answer".to_owned()));
            let Moved { moved, stay } = heard.map_err(HandOverError::Here)?;
            all.moved += moved;
            all.stay += stay;
        }
        Ok(all)
    }

    /// The new process has everything.
    pub(crate) fn let_go(self) {
        // A shard that has ended has nothing to let go.
        let _ = self.verdict.send(());
    }
}
