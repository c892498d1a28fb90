//! Questions and answers between nodes, as bytes that only those who ask understand.

/// Questions without all of their answers. Queue: `questions to nodes`.
pub const QUESTIONS_MAX: usize = 1024;

/// Those of them that clients have caused, so that operators' questions always have places. Queue:
/// `questions to nodes`.
pub const CLIENTS_QUESTIONS_MAX: usize = 64;

/// The asking side on another node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asker {
    /// Its node, shard and ticket.
    pub(crate) who: Box<str>,
    /// By which peer the question came.
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
    /// To ask all of them, by a ticket of the shard's.
    Ask(u32, Vec<u8>),
    /// To ask the one of this name for a client. Nobody answers if there is none.
    AskOne(u32, Box<str>, Vec<u8>),
    /// To answer a question of one.
    Answer(Asker, Vec<u8>),
}
