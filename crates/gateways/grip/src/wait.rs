//! A client that is held until something is published, or its time is over.

use throng_grip::instruct::HeldReply;
use throng_types::Save;

use crate::following::Following;

/// Held response of a long poll.
#[derive(Save)]
pub(crate) struct Wait {
    pub(crate) following: Following,
    /// Answer for the client at its timeout.
    pub(crate) reply: HeldReply,
    pub(crate) body: Vec<u8>,
}

impl Wait {
    /// Returns the answer for a client to which nothing was published.
    pub(crate) fn into_answer(self) -> (HeldReply, Vec<u8>) {
        (self.reply, self.body)
    }
}
