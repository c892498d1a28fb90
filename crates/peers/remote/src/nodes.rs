//! Questions and answers between nodes, as bytes that only those who ask understand.

/// Questions without all of their answers. Queue: `questions to nodes`.
pub const QUESTIONS_MAX: usize = 1024;

/// Those of them that clients have caused, so that operators' questions always have places. Queue:
/// `questions to nodes`.
pub const CLIENTS_QUESTIONS_MAX: usize = 64;

/// The asking side on another node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asker {
    /// Node, shard and ticket of the asker.
    pub(crate) who: Box<str>,
    /// Number of the peer by which the question came.
    pub(crate) way: usize,
}

/// News of other nodes.
#[derive(Debug, PartialEq, Eq)]
pub enum NodeEvent {
    /// Another node asks; [`crate::Nodes::answer`] is to follow.
    Asked(Asker, Vec<u8>),
    /// Every node that was asked has answered the question with this ticket; `None` if one has not,
    /// or could not be asked.
    Answered(u32, Option<Vec<Vec<u8>>>),
}

/// Wish of a shard for other nodes.
pub enum ToNodes {
    /// The name of this node, by which others ask it alone.
    Named(Box<str>),
    /// Question to all nodes, with a ticket of the shard's.
    Ask(u32, Vec<u8>),
    /// Question to the node of this name for a client. No answer comes if there is none.
    AskOne(u32, Box<str>, Vec<u8>),
    /// Answer to another node's question.
    Answer(Asker, Vec<u8>),
}
