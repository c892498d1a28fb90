//! The options of the history on disk.

use super::HOUR;
use crate::kind::{Choice, Duration, Named, Opt, Rule, Text};
use crate::section::section;

/// Rule for publications while they cannot be written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum OnDiskFailure {
    /// Delivers them and keeps them in memory.
    #[default]
    Continue,
    /// Refuses them until they can be written.
    Refuse,
}

impl Named for OnDiskFailure {
    const NAMES: &'static [(&'static str, Self)] =
        &[("continue", Self::Continue), ("refuse", Self::Refuse)];
}

/// Storage that a publication must have reached before it is acknowledged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Acknowledge {
    /// Kept in memory only; a crash may lose it.
    #[default]
    Memory,
    /// Written: survives the process.
    Written,
    /// Synced: survives a loss of power.
    Synced,
}

impl Named for Acknowledge {
    const NAMES: &'static [(&'static str, Self)] = &[
        ("memory", Self::Memory),
        ("written", Self::Written),
        ("synced", Self::Synced),
    ];
}

section! {
    /// History on disk: channels keep their publications, positions and epochs over a crash and a
    /// restart. The channels' options limit it by number and time, as they do in memory. Only for
    /// `broker.kind = "memory"`. See docs/guides/history.md.
    "history" History {
        /// The folder for this server's history. No other server may use it. Throng creates it if
        /// it is missing.
        "path" path: Option<String>, Opt<Text>, None,
            Rule::ANY.restart().example("\"/var/lib/throng/history\"")
                .unset("history ends with the process");
        /// Maximum time until a publication is safe on the disk, in case the machine loses power.
        /// If only the process dies, at most some milliseconds are lost, with any value. "0s" syncs
        /// after each write.
        "sync" sync_ms: u64, Duration, 1000, Rule::ANY.restart().range(1, HOUR).zero("each write");
        /// The stage at which a publication in a channel that keeps history is acknowledged:
        /// `memory` at once, `written` when it survives the death of the process, `synced` when it
        /// survives that of the machine. Subscribers get it at once in any case. A channel may set
        /// another stage.
        "acknowledge" acknowledge: Acknowledge, Choice<Acknowledge>, Acknowledge::Memory, Rule::ANY;
        /// Rule while the disk is full or fails: `continue` delivers publications, keeps them in
        /// memory, and acknowledges them at every stage of `acknowledge`; `refuse` refuses
        /// publications to channels that keep history.
        "on_failure" on_failure: OnDiskFailure, Choice<OnDiskFailure>, OnDiskFailure::Continue,
            Rule::ANY.restart();
    }
}
