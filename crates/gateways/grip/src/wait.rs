//! A client that is held until something is published, or its time is over.

use throng_grip::instruct::HeldReply;

use crate::following::Following;

/// A held response.
pub(crate) struct Wait {
    pub(crate) following: Following,
    /// What the client gets when its time is over.
    pub(crate) reply: HeldReply,
    pub(crate) body: Vec<u8>,
}

impl Wait {
    /// What the client gets when nothing was published.
    pub(crate) fn into_answer(self) -> (HeldReply, Vec<u8>) {
        (self.reply, self.body)
    }
}
