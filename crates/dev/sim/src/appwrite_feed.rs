//! Appwrite's events on their way to the shards, without a peer that receives them.

use throng_appwrite::FeedMessage;
use throng_appwrite_api::EventFeed;
use throng_gateway_appwrite::News;
use throng_server::gateways::Inlet;

use crate::directory::Answer;

/// Hands Appwrite's news to the shards of a process, in the peer's place.
pub(crate) struct AppwriteFeed {
    feed: EventFeed,
    inlets: Vec<Inlet>,
}

impl AppwriteFeed {
    /// Begins; `None` if Appwrite is not configured.
    pub(crate) fn begin(inlets: Vec<Inlet>) -> Option<Self> {
        let feed = EventFeed::new(1);
        let own = Self { feed, inlets };
        own.tell_all(&own.feed.begun());
        (!own.inlets.is_empty()).then_some(own)
    }

    /// Hands an event to every shard.
    pub(crate) fn publish(&mut self, event: FeedMessage) {
        let news = self.feed.event(event);
        self.tell_all(&news);
    }

    /// Begins a new epoch: events may have been lost.
    pub(crate) fn begin_anew(&mut self) {
        let news = self.feed.begin_anew();
        self.tell_all(&news);
    }

    fn tell_all(&self, news: &News) {
        (0..self.inlets.len()).for_each(|shard| self.tell(shard, news.clone()));
    }

    fn tell(&self, shard: usize, news: News) {
        assert!((self.inlets[shard])(news).is_ok(), "room for news");
    }

    /// Sends the answer to the connection that asked.
    pub(crate) fn answer(&self, answer: Answer) {
        let Answer {
            conn, token, found, ..
        } = answer;
        self.tell(conn.shard().index(), News::Found { conn, token, found });
    }
}
