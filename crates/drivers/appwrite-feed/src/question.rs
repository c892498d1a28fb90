//! What is asked of Appwrite, whoever asks.

use throng_gateway_appwrite::{Credential, Part};

use crate::cache::Key;

/// One question.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Question {
    pub(crate) project: Box<str>,
    pub(crate) credential: Credential,
    pub(crate) part: Part,
}

impl Question {
    /// Under which its answer is remembered.
    pub(crate) fn key(&self) -> Key {
        (self.project.clone(), self.credential.clone())
    }
}
