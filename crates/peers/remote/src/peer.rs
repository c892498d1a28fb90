//! What nodes tell each other, as bytes that only those who ask understand.

/// Questions without all of their answers. Queue: `questions to nodes`.
pub const QUESTIONS_MAX: usize = 1024;

/// Those of them that clients have caused, so that operators' questions always have places. Queue:
/// `questions to nodes`.
pub const CLIENTS_QUESTIONS_MAX: usize = 64;

/// Who asked, on another node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asker {
    /// Its node, shard and ticket.
    pub(crate) who: Box<str>,
    /// By which driver the question came.
    pub(crate) way: usize,
}

/// What other nodes want or say.
#[derive(Debug, PartialEq, Eq)]
pub enum PeerEvent {
    /// Another node asks; [`crate::Peers::answer`] is to follow.
    Asked(Asker, Vec<u8>),
    /// Every node that was asked has answered the question with this ticket; `None` if one has not,
    /// or could not be asked.
    Answered(u32, Option<Vec<Vec<u8>>>),
}

/// What a shard wants of other nodes.
pub enum ToPeers {
    /// The name of this node, by which others ask it alone.
    Named(Box<str>),
    /// To ask all of them, by a ticket of the shard's.
    Ask(u32, Vec<u8>),
    /// To ask the one of this name for a client. Nobody answers if there is none.
    AskOne(u32, Box<str>, Vec<u8>),
    /// To answer one.
    Answer(Asker, Vec<u8>),
}
