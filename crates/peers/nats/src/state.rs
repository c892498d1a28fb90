//! State that a node has under way: requests to NATS and what their answers are for, turns of
//! channels' streams (see `turns.rs`), and members as they are here and as bytes.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use throng_broker::{Draft, Presence, Present, Ticket};
use throng_remote::{Purpose, Query, Wanted, blob};
use throng_types::{ChannelName, Publisher};

use crate::batch::{Known, Told};
use crate::record::{Record, State};
use crate::walk::Walk;

/// Purpose of a request.
#[derive(Debug)]
pub(crate) enum Flight {
    /// The newest message of a channel.
    Last(ChannelName),
    /// Seeds of a stream, by its name.
    Seeds(Box<str>),
    /// Seeds of a stream are to be stored.
    SeedsStored(Box<str>),
    /// A message of a channel by its sequence; from the leader, which has it if anybody does.
    Message(ChannelName, u64, bool),
    /// A message of a channel is to be stored.
    Store(ChannelName),
    /// The key of a channel's publication is claimed for this turn.
    Claim(ChannelName),
    /// The row of that key.
    KeyRow(ChannelName),
    /// The first message behind that.
    After(ChannelName),
    /// A member is to be listed.
    Row(Wanted),
    /// A member is to be listed again; and the subject under the name that this node had before.
    RowAgain(Member, Option<String>),
    /// A member who has left is to be removed from the list.
    Unlisted(ChannelName, Presence),
    /// The subjects of this node's own members.
    OwnRows(Comparison),
    /// Whether this node, and nobody else, has removed its own row from before.
    RowMoved(ChannelName, Box<str>),
    /// A member that came from another process is to be listed.
    RowTaken(ChannelName, Box<Presence>, u64),
    /// The subjects of a channel's members.
    Members(u64),
    /// A member of a channel, by its subject.
    Member(u64),
    /// This node's lease is renewed.
    Leased,
    /// This node is written into the roster: it may have members.
    Rostered,
    /// Lists live nodes, to find those that do not live among these: nodes that may have members.
    Leases(Option<BTreeSet<String>>),
    /// Lists nodes that may have members.
    Rosters,
    /// The subjects of the members of a node that has died.
    Orphans(String),
    /// A row by its subject, and then whether this node has removed it.
    Orphan(String),
    OrphanGone(Presence, ChannelName),
    /// No answer is waited for.
    Nothing,
}

/// A step that follows when NATS has taken all that was written before.
pub(crate) enum Then {
    Published(u8, Ticket),
    Subscribed(Wanted),
}

/// A request without an answer.
pub(crate) struct Pending {
    pub(crate) flight: Flight,
    /// Bytes that were sent: where nobody takes them, they are sent again.
    pub(crate) command: Box<[u8]>,
    pub(crate) since_ms: u64,
}

// ---- channels ----

/// A request for a stream.
#[derive(Debug)]
pub(crate) enum Op {
    Publish(u8, Ticket, Box<Draft>),
    Look(Purpose, Query),
    Forget(u8, Ticket),
}

pub(crate) enum Stage {
    /// The newest message is on its way.
    Last,
    /// The seeds of its stream are on their way: the channel has no message.
    Seeds,
    /// A message that only says where the stream stands is being stored. What is already known of
    /// the stream's history comes with it.
    Open(State, Option<Record>),
    /// The key of the turn's publication is being claimed.
    Claim,
    /// The row of an earlier publication with that key is on its way.
    KeyRow,
    /// The first message behind this sequence is on its way.
    After(u64),
    /// Publications are being stored.
    Store(State, Vec<Told>),
    Walk(Box<Walk>),
}

pub(crate) struct Turn {
    pub(crate) ops: Vec<Op>,
    pub(crate) stage: Stage,
    pub(crate) tries: u32,
    pub(crate) key: Claimed,
}

/// Progress of a publication with an idempotency key. See `writing.rs`.
#[derive(Default)]
pub(crate) struct Claimed {
    /// The newest row of the key that this turn has written or read; 0 without one.
    pub(crate) row: u64,
    /// The row says from where this turn's publication is to be stored.
    pub(crate) is_ours: bool,
    /// Another publisher had claimed it before, and may have published.
    pub(crate) is_second: bool,
    /// The sequence behind which they claimed it, where there was no message yet.
    pub(crate) awaited: Option<u64>,
}

/// Requests for a channel's stream.
#[derive(Default)]
pub(crate) struct Stream {
    /// Bound: the requests of the lanes.
    pub(crate) queue: VecDeque<Op>,
    pub(crate) turn: Option<Turn>,
    pub(crate) known: Option<Known>,
    pub(crate) is_idle: bool,
    pub(crate) used_at_ms: u64,
}

// ---- members ----

/// A member who comes, is there, or leaves.
pub(crate) struct Row {
    pub(crate) presence: Presence,
    /// Serial of the subscribe that it came with.
    pub(crate) serial: u64,
    /// NATS has said that it lists it, under this node's name of now.
    pub(crate) is_stored: bool,
    /// Set once its subscribe was answered.
    pub(crate) is_in: bool,
    /// Leaves as soon as its subscribe is answered.
    pub(crate) is_gone: bool,
}

/// A member of this node, by channel, client and the number of its subscribe.
pub(crate) type Member = (ChannelName, Box<str>, u64);

/// Members of this node as NATS lists them, while they are compared with those that are here.
#[derive(Debug)]
pub(crate) struct Comparison {
    /// Members that were stored before it was asked. Bound: the rows.
    pub(crate) stored: Vec<Member>,
    /// Subjects so far. Bound: what NATS lists.
    pub(crate) listed: BTreeSet<String>,
}

/// Rows by channel and client, in the order in which they came. Bound: the subscriptions.
pub(crate) type Rows = BTreeMap<(ChannelName, Box<str>), Vec<Row>>;

/// An answer about members that is being put together.
pub(crate) struct Gather {
    pub(crate) lane: u8,
    pub(crate) ticket: Ticket,
    pub(crate) with_members: bool,
    pub(crate) missing: usize,
    pub(crate) present: Present,
    pub(crate) members: Vec<Arc<Publisher>>,
}

/// A member as the bytes of its message: whether that is announced, the channel, and the
/// form of a publication without data.
pub(crate) fn body(channel: &ChannelName, presence: &Presence) -> Vec<u8> {
    let name = channel.as_str().as_bytes();
    let mut out = vec![b'1', u8::from(presence.is_announced)];
    out.extend_from_slice(&(name.len() as u32).to_be_bytes());
    out.extend_from_slice(name);
    out.extend_from_slice(&blob::of_somebody(&presence.who));
    out
}

/// Reads what [`body`] wrote; `None` for any other form.
pub(crate) fn read_body(bytes: &[u8]) -> Option<(ChannelName, Presence)> {
    let (&[form, announced], rest) = bytes.split_first_chunk::<2>()?;
    let (length, rest) = rest.split_first_chunk::<4>()?;
    let (name, rest) = rest.split_at_checked(u32::from_be_bytes(*length) as usize)?;
    let name = std::str::from_utf8(name).ok()?;
    let channel = ChannelName::with_bound(name, usize::MAX).ok()?;
    let who = Arc::new(*blob::decode(rest)?.publisher?);
    let presence = Presence {
        who,
        is_listed: true,
        is_announced: announced == 1,
    };
    (form == b'1').then_some((channel, presence))
}
