//! What waits for NATS: each request that was sent, and what its answer is for.

use std::collections::BTreeSet;

use throng_broker::{Presence, Ticket};
use throng_remote::Wanted;
use throng_types::ChannelName;

use crate::rows::{Comparison, Member};

/// What an answer is for.
#[derive(Debug)]
pub(crate) enum Flight {
    /// The newest message of a channel.
    Last(ChannelName),
    /// Seeds of a stream, by its name.
    Seeds(Box<str>),
    /// That they are stored.
    SeedsStored(Box<str>),
    /// A message of a channel by its sequence; from the leader, which has it if anybody does.
    Message(ChannelName, u64, bool),
    /// That a message of a channel is stored.
    Store(ChannelName),
    /// That the key of a channel's publication is this turn's.
    Claim(ChannelName),
    /// What is kept about that key.
    KeyRow(ChannelName),
    /// The first message behind that.
    After(ChannelName),
    /// That somebody is listed.
    Row(Wanted),
    /// That somebody is listed again; and the subject under the name that this node had before.
    RowAgain(Member, Option<String>),
    /// That somebody who has left is not listed.
    Unlisted(ChannelName, Presence),
    /// The subjects of this node's own members.
    OwnRows(Comparison),
    /// Whether this node, and nobody else, has removed its own row from before.
    RowMoved(ChannelName, Box<str>),
    /// That somebody is listed who came from another process.
    RowTaken(ChannelName, Box<Presence>, u64),
    /// Who is present: the subjects of a channel's members.
    Members(u64),
    /// One of them.
    Member(u64),
    /// That this node's lease is renewed.
    Leased,
    /// That this node may have members.
    Rostered,
    /// Which nodes live, and which of these do not: nodes that may have members.
    Leases(Option<BTreeSet<String>>),
    /// Which nodes may have members.
    Rosters,
    /// The subjects of the members of a node that has died.
    Orphans(String),
    /// One of them by its subject, and then whether this node has removed it.
    Orphan(String),
    OrphanGone(Presence, ChannelName),
    /// Nothing follows.
    Nothing,
}

/// What follows when NATS has taken all that was written before.
pub(crate) enum Then {
    Published(u8, Ticket),
    Subscribed(Wanted),
}

/// A request without an answer.
pub(crate) struct Pending {
    pub(crate) flight: Flight,
    /// As it was sent: where nobody takes it, it is sent again.
    pub(crate) command: Box<[u8]>,
    pub(crate) since_ms: u64,
}
