//! A client that is held until something is published, or its time is over.

use throng_grip::instruct::Reply;

use crate::following::Following;

/// A held response.
pub(crate) struct Wait {
    pub(crate) following: Following,
    /// What the client gets when its time is over.
    pub(crate) reply: Reply,
    pub(crate) body: Vec<u8>,
}

impl Wait {
    /// What the client gets when nothing was published.
    pub(crate) fn into_answer(self) -> (Reply, Vec<u8>) {
        (self.reply, self.body)
    }
}
