//! A channel's history, read or removed by itself.

use throng_types::{ChannelName, Now};

use super::Home;
use crate::memory::stream::Stream;
use crate::{HistoryPage, HistoryQuery, Refusal};

impl Home {
    /// Forgets the history of a channel; its stream keeps its position.
    pub(in crate::memory) fn forget_history(
        &mut self,
        channel: &ChannelName,
        now: Now,
    ) -> Result<HistoryPage, Refusal> {
        let Some(retention) = self.retention_of(channel) else {
            return Err(Refusal::UnknownChannel);
        };
        if !retention.keeps() {
            return Err(Refusal::NotAvailable);
        }
        if let Some(key) = self.streams.key(channel) {
            while self.drop_oldest(key) {}
            self.note_base(key);
            let now = self.shifted(now);
            self.rest(key, now.mono);
        }
        Ok(HistoryPage::default())
    }

    /// Reads the history of a channel.
    pub(in crate::memory) fn history(
        &mut self,
        channel: &ChannelName,
        query: HistoryQuery,
        now: Now,
    ) -> Result<HistoryPage, Refusal> {
        let retention = self.retention(channel);
        if !retention.keeps() {
            return Err(Refusal::NotAvailable);
        }
        let (nonce, limit) = (self.options.nonce, self.options.reply);
        let now = self.shifted(now);
        if let Some(key) = self.streams.key(channel) {
            self.expire(key, retention, now.mono);
            self.rest(key, now.mono);
        }
        // A stream that has not been used yet: gives where it would begin, without making it.
        let unused = Stream::new(self.forgotten);
        let key = self.streams.key(channel);
        let stream = key.and_then(|key| self.streams.at(key));
        let stream = stream.map_or(&unused, |(_, stream)| stream);
        let here = stream.position(nonce);
        let translate = |since| {
            let here = (here, stream.start());
            self.ancestry
                .translate(since, here, key.unwrap_or(u32::MAX))
        };
        let query = HistoryQuery {
            since: query.since.map(translate),
            ..query
        };
        Ok(HistoryPage {
            position: Some(here),
            publications: stream.page(query, nonce, limit)?,
        })
    }
}
