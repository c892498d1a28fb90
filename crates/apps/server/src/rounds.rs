//! Rounds of feeds that are under way on a shard.
//!
//! Invariants
//! - A feed has one round under way on a shard at most, and a round is answered once, when all of
//!   its publications are.
//! - Publications of feeds are answered to ids of [`FEEDS`], which no connection ever has.

use throng_feeds::{Call, Round, RoundId};
use throng_hub::{Answer, Command, ReplyTo};
use throng_outward::CallSender;
use throng_session::Publications;
use throng_types::{ConnId, ShardId, Slots};

/// The shard of ids that stand for rounds.
const FEEDS: ShardId = ShardId(u8::MAX - 1);

/// A round on its way to a shard, and the way back.
pub(crate) struct FeedLetter {
    pub(crate) round: Round,
    pub(crate) feeds: CallSender<Call>,
}

/// A round whose publications are not all answered.
struct Waiting {
    publications: Publications,
    id: RoundId,
    feeds: CallSender<Call>,
}

/// Rounds of feeds under way on this shard.
#[derive(Default)]
pub(crate) struct Rounds {
    /// Bound: one round a feed.
    waiting: Slots<Waiting>,
}

impl Rounds {
    /// Takes a round; gives what the hub is to do.
    pub(crate) fn begin(&mut self, letter: FeedLetter) -> Command {
        let FeedLetter { round, feeds } = letter;
        let drafts = round.drafts;
        let index = self.waiting.insert(Waiting {
            publications: Publications::new(drafts.len()),
            id: round.id,
            feeds,
        });
        let conn = ConnId::new(FEEDS, index, 0);
        let reply_to = ReplyTo { conn, token: 0 };
        Command::PublishAll { reply_to, drafts }
    }

    /// Takes an answer; false if it is not for a feed.
    pub(crate) fn answer(&mut self, reply_to: ReplyTo, answer: &Answer) -> bool {
        if reply_to.conn.shard() != FEEDS {
            return false;
        }
        let index = reply_to.conn.index();
        if let Some(waiting) = self.waiting.get_mut(index)
            && let Some(results) = waiting.publications.answer(reply_to.token, answer)
            && let Some(waiting) = self.waiting.remove(index)
        {
            let results = results.into_iter().map(|result| result.map(drop)).collect();
            // Feeds that have ended meanwhile do not hear.
            waiting.feeds.send(Call::Answer(waiting.id, results));
        }
        true
    }
}
