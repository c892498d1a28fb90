//! Answers that a shard waits for: those of other shards and nodes to surveys of the server API,
//! and those of the hub to rounds of feeds.

use throng_feeds::{Call, Round, RoundId};
use throng_hub::{Command, ReplyTo};
use throng_outward::CallSender;
use throng_remote::NodeCaller;
use throng_session::{Publications, PublishOutcome, SurveyReply};
use throng_types::Slots;

/// Caller of a survey, which gets the replies.
pub(crate) enum Caller {
    /// A connection of this shard.
    Here(ReplyTo),
    /// The gateway in this place, on this shard.
    Gateway(u8),
    /// Another node of the cluster.
    Elsewhere(NodeCaller),
}

struct Waiting {
    caller: Caller,
    replies: Vec<SurveyReply>,
    expected: usize,
}

/// Surveys under way. At most one for each connection of the API port, for each gateway, and for
/// each question of another node.
#[derive(Default)]
pub(crate) struct Surveys(Slots<Waiting>);

impl Surveys {
    pub(crate) fn begin(&mut self, caller: Caller, expected: usize) -> u32 {
        self.0.insert(Waiting {
            caller,
            replies: Vec::new(),
            expected,
        })
    }

    /// Takes a reply; gives all of them once they are in.
    pub(crate) fn take(
        &mut self,
        ticket: u32,
        reply: SurveyReply,
    ) -> Option<(Caller, Vec<SurveyReply>)> {
        let waiting = self.0.get_mut(ticket)?;
        waiting.replies.push(reply);
        if waiting.replies.len() < waiting.expected {
            return None;
        }
        self.0
            .remove(ticket)
            .map(|waiting| (waiting.caller, waiting.replies))
    }
}

/// A round on its way to a shard, and the way back.
pub(crate) struct FeedRound {
    pub(crate) round: Round,
    pub(crate) feeds: CallSender<Call>,
}

/// Rounds of feeds under way on a shard. A feed has one at most; it is answered once, when all of
/// its publications are.
#[derive(Default)]
pub(crate) struct FeedBatches {
    /// Bound: one round a feed.
    waiting: Slots<(Publications, RoundId, CallSender<Call>)>,
}

impl FeedBatches {
    /// Takes a round; gives what the hub is to do.
    pub(crate) fn begin(&mut self, FeedRound { round, feeds }: FeedRound) -> Command {
        let publications = Publications::new(round.drafts.len());
        Command::Feed {
            round: self.waiting.insert((publications, round.id, feeds)),
            drafts: round.drafts,
        }
    }

    pub(crate) fn published(&mut self, round: u32, number: u32, result: PublishOutcome) {
        let Some((publications, ..)) = self.waiting.get_mut(round) else {
            return;
        };
        publications.record(number, result);
        if let Some(results) = publications.all()
            && let Some((_, id, feeds)) = self.waiting.remove(round)
        {
            let results = results.into_iter().map(|result| result.map(drop)).collect();
            // Feeds that have ended meanwhile do not hear.
            feeds.send(Call::Answer(id, results));
        }
    }
}
