//! Answers of the hub or of all shards that calls of the server API await.

use throng_broker::{HistoryPage, Present, Refusal};
use throng_centrifuge::api::ServerApiError;
use throng_session::{Publications, SurveyReply};

use crate::surveyed::Surveyed;

/// Answers that a call awaits, and those it has got.
pub(crate) enum Awaited {
    /// Nothing: it was refused.
    Refused(ServerApiError),
    /// One answer for each channel, in order.
    Publications {
        publications: Publications,
        is_broadcast: bool,
    },
    History(Option<Result<HistoryPage, Refusal>>),
    Present(Option<Result<Present, Refusal>>),
    Forgotten(Option<Result<(), Refusal>>),
    Survey(Surveyed, Option<Vec<SurveyReply>>),
}

/// Call that was carried out and whose answer is not written.
pub(crate) struct OpenCall {
    /// Id of the command.
    pub(crate) id: u32,
    /// The token of the first answer that it awaits.
    pub(crate) first: u32,
    pub(crate) awaited: Awaited,
}

impl OpenCall {
    /// Whether its answer can be written.
    pub(crate) fn is_answered(&self) -> bool {
        match &self.awaited {
            Awaited::Refused(_) => true,
            Awaited::Publications { publications, .. } => publications.is_whole(),
            Awaited::History(page) => page.is_some(),
            Awaited::Present(present) => present.is_some(),
            Awaited::Forgotten(done) => done.is_some(),
            Awaited::Survey(_, replies) => replies.is_some(),
        }
    }
}
