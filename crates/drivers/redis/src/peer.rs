//! What nodes tell each other, as bytes that only those who ask understand.

use std::collections::BTreeMap;

/// Questions without all of their answers. Queue: `questions to nodes`.
pub(crate) const QUESTIONS_MAX: usize = 1024;

/// Who asked, on another node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asker(pub(crate) Box<str>);

/// What other nodes want or say.
#[derive(Debug, PartialEq, Eq)]
pub enum PeerEvent {
    /// Another node asks; [`crate::Peers::answer`] is to follow.
    Asked(Asker, Vec<u8>),
    /// Every other node has answered the question with this ticket; `None` if one has not, or could
    /// not be asked.
    Answered(u32, Option<Vec<Vec<u8>>>),
}

/// What a shard wants of other nodes.
pub(crate) enum ToPeers {
    Ask(u32, Vec<u8>),
    Answer(Asker, Vec<u8>),
}

/// A question of this node.
pub(crate) struct Question {
    pub(crate) answers: Vec<Vec<u8>>,
    /// How many there will be, once that is known.
    pub(crate) expected: Option<usize>,
    pub(crate) until_ms: u64,
}

/// Questions of this node, by shard and ticket.
pub(crate) type Questions = BTreeMap<(u8, u32), Question>;
