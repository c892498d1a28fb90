//! Rounds of feeds that are under way on a shard.
//!
//! Invariant: a feed has one round under way on a shard at most, and a round is answered once, when
//! all of its publications are.

use throng_feeds::{Call, Round, RoundId};
use throng_hub::Command;
use throng_outward::CallSender;
use throng_session::{Publications, PublishResult};
use throng_types::Slots;

/// A round on its way to a shard, and the way back.
pub(crate) struct FeedRound {
    pub(crate) round: Round,
    pub(crate) feeds: CallSender<Call>,
}

/// FeedBatches of feeds under way on a shard: publications that are not all answered.
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

    pub(crate) fn published(&mut self, round: u32, number: u32, result: PublishResult) {
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
