//! The commands of a connection that have no reply yet.

use std::collections::BTreeMap;

use crate::witness::Place;

/// Command that waits for its reply.
#[derive(Debug)]
pub(super) enum Asked {
    Connect,
    /// A channel, its subscription, and where the client was.
    Subscribe(usize, usize, Option<Place>),
    Unsubscribe(usize),
    Publish(u64),
    History(usize),
    /// Presence of a channel; with the subscription that the client had when it asked.
    Presence(usize, Option<usize>),
    Ping,
    /// Something that is not offered: it must be refused.
    Refused,
}

impl Asked {
    /// The channel to which it subscribes, or whose subscription it ends. Such commands of one
    /// channel are answered in order.
    pub(super) const fn joins_or_leaves(&self) -> Option<usize> {
        match self {
            Self::Subscribe(channel, ..) | Self::Unsubscribe(channel) => Some(*channel),
            _ => None,
        }
    }
}

/// The commands of one connection.
#[derive(Debug, Default)]
pub(super) struct Commands {
    last_id: u32,
    pub(super) open: BTreeMap<u32, Asked>,
}

impl Commands {
    pub(super) fn next(&mut self, asked: Asked) -> u32 {
        self.last_id += 1;
        self.open.insert(self.last_id, asked);
        self.last_id
    }

    pub(super) fn settle(&self, who: &str) {
        let open = &self.open;
        assert!(open.is_empty(), "{who}: never answered: {open:?}");
    }
}
