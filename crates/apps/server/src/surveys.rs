//! Surveys of the server API that wait for the replies of other shards and nodes.
//!
//! There is at most one for each connection of the API port, and one for each question of another
//! node, which bounds them.

use throng_hub::ReplyTo;
use throng_remote::NodeCaller;
use throng_session::SurveyReply;
use throng_types::Slots;

pub(crate) enum Asked {
    /// A connection of this shard.
    Here(ReplyTo),
    /// Another node of the cluster.
    Elsewhere(NodeCaller),
}

struct Waiting {
    asked: Asked,
    replies: Vec<SurveyReply>,
    expected: usize,
}

#[derive(Default)]
pub(crate) struct Surveys(Slots<Waiting>);

impl Surveys {
    /// Begins to wait for so many replies.
    pub(crate) fn begin(&mut self, asked: Asked, expected: usize) -> u32 {
        self.0.insert(Waiting {
            asked,
            replies: Vec::new(),
            expected,
        })
    }

    /// Takes a reply; gives all of them once they are in.
    pub(crate) fn take(
        &mut self,
        ticket: u32,
        reply: SurveyReply,
    ) -> Option<(Asked, Vec<SurveyReply>)> {
        let waiting = self.0.get_mut(ticket)?;
        waiting.replies.push(reply);
        if waiting.replies.len() < waiting.expected {
            return None;
        }
        self.0
            .remove(ticket)
            .map(|waiting| (waiting.asked, waiting.replies))
    }
}
