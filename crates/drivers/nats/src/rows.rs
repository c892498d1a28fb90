//! Members of this node, as they are here and as bytes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use throng_broker::{Presence, Present, Ticket};
use throng_remote::blob;
use throng_types::{ChannelName, Publisher};

/// Somebody who comes, is there, or leaves.
pub(crate) struct Row {
    pub(crate) presence: Presence,
    /// Of the subscribe that it came with.
    pub(crate) serial: u64,
    /// NATS has said that it lists it, under this node's name of now.
    pub(crate) is_stored: bool,
    /// Its subscribe was answered.
    pub(crate) is_in: bool,
    /// It leaves as soon as its subscribe is answered.
    pub(crate) is_gone: bool,
}

/// A member of this node, by channel, client and the number of its subscribe.
pub(crate) type Member = (ChannelName, Box<str>, u64);

/// Members of this node as NATS lists them, while they are compared with those that are here.
#[derive(Debug)]
pub(crate) struct Comparison {
    /// They were stored before it was asked. Bound: the rows.
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

/// Somebody as the bytes of a member's message: whether that is announced, the channel, and the
/// form of a publication without data.
pub(crate) fn body(channel: &ChannelName, presence: &Presence) -> Vec<u8> {
    let name = channel.as_str().as_bytes();
    let mut out = vec![b'1', u8::from(presence.is_announced)];
    out.extend_from_slice(&(name.len() as u32).to_be_bytes());
    out.extend_from_slice(name);
    out.extend_from_slice(&blob::of_somebody(&presence.who));
    out
}

/// Reads [`body`].
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
