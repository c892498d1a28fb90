//! Which channels have subscribers, for publishers that want to know (ZeroMQ's SUB socket).
//!
//! Each shard tells all others when it gets the first subscriber of a channel, and, a while
//! after the last one has left, that it has none. Nothing is told unless the socket is configured.

use std::collections::{BTreeMap, BTreeSet};

use throng_types::{ChannelName, ConnId, Millis};

/// Which channels have subscribers, and who wants to know.
#[derive(Default)]
pub(crate) struct Topics {
    /// The shards that have subscribers, as bits.
    pub(crate) wanted: BTreeMap<ChannelName, u64>,
    /// Those of this shard.
    pub(crate) own: BTreeSet<ChannelName>,
    pub(crate) listeners: Vec<ConnId>,
    pub(crate) look_at: Millis,
}

impl Topics {
    pub(crate) fn left(&mut self, conn: ConnId) {
        self.listeners.retain(|known| *known != conn);
    }
}
