//! Surveys of the server API that wait for the replies of other shards.
//!
//! There is at most one for each connection of the API port, which bounds them.

use throng_hub::ReplyTo;
use throng_session::SurveyReply;
use throng_types::Slots;

struct Waiting {
    reply_to: ReplyTo,
    replies: Vec<SurveyReply>,
    shards: usize,
}

/// Surveys that wait for replies.
#[derive(Default)]
pub(crate) struct Surveys(Slots<Waiting>);

impl Surveys {
    /// Begins to wait for the replies of so many shards.
    pub(crate) fn begin(&mut self, reply_to: ReplyTo, shards: usize) -> u32 {
        self.0.insert(Waiting {
            reply_to,
            replies: Vec::new(),
            shards,
        })
    }

    /// Takes a reply; gives all of them once they are in.
    pub(crate) fn take(
        &mut self,
        ticket: u32,
        reply: SurveyReply,
    ) -> Option<(ReplyTo, Vec<SurveyReply>)> {
        let waiting = self.0.get_mut(ticket)?;
        waiting.replies.push(reply);
        if waiting.replies.len() < waiting.shards {
            return None;
        }
        self.0
            .remove(ticket)
            .map(|waiting| (waiting.reply_to, waiting.replies))
    }
}
