//! The options of the history on disk.

use super::HOUR;
use crate::kind::{Choice, Duration, Named, Opt, Rule, Text};
use crate::section::section;

/// What becomes of publications while they cannot be written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum OnDiskFailure {
    /// They are delivered and kept in memory.
    #[default]
    Continue,
    /// They are refused.
    Refuse,
}

impl Named for OnDiskFailure {
    const NAMES: &'static [(&'static str, Self)] =
        &[("continue", Self::Continue), ("refuse", Self::Refuse)];
}

section! {
    /// History on disk, so that channels keep their publications, positions and epochs over a
    /// crash and a restart. What is kept, and for how long, is said by the channels' options, as
    /// in memory; only for `broker.kind = "memory"`. See docs/guides/history.md.
    "history" History {
        /// The folder for the history of this server, and of no other one. It is made if it is not
        /// there.
        "path" path: Option<String>, Opt<Text>, None,
            Rule::ANY.restart().example("\"/var/lib/throng/history\"")
                .unset("history ends with the process");
        /// After how long at most what was published is on the disk, in case the machine loses
        /// power. A process that dies loses some milliseconds at most, whatever stands here. "0s"
        /// syncs after each write.
        "sync" sync_ms: u64, Duration, 1000, Rule::ANY.restart().range(1, HOUR).zero("each write");
        /// What happens while the disk is full or fails: `continue` delivers publications and
        /// keeps them in memory, `refuse` refuses those that channels are to keep.
        "on_failure" on_failure: OnDiskFailure, Choice<OnDiskFailure>, OnDiskFailure::Continue,
            Rule::ANY.restart();
    }
}
