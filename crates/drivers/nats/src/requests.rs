//! What shards want of the broker.

use throng_broker::{HistoryQuery, Request, Ticket};
use throng_remote::agent::Mode;
use throng_types::ChannelName;

use crate::node::Node;
use crate::stream::{Op, Purpose};
use crate::walk::Query;

impl Node {
    /// Takes a shard's request.
    pub(crate) fn wish(&mut self, lane: u8, request: Request) {
        let is_up = self.link.is_some();
        let Some(request) = self.desk.admit(lane, request, is_up) else {
            return;
        };
        match request {
            Request::Subscribe { .. } if !is_up => {
                let until_ms = self.desk.now_ms + self.desk.options.timeout_ms;
                self.waiting.push_back((until_ms, lane, request));
            }
            Request::Subscribe {
                ticket,
                channel,
                since,
                presence,
            } => self.subscribe((lane, ticket), &channel, since, presence),
            Request::Leave { channel } => self.shard_left(lane, &channel),
            Request::Quit { channel, presence } => self.quit(&channel, &presence),
            Request::Publish { ticket, draft } => {
                let channel = draft.channel.clone();
                self.enqueue(&channel, Op::Publish(lane, ticket, Box::new(draft)));
            }
            Request::History {
                ticket,
                channel,
                query,
            } => self.history(lane, ticket, &channel, query),
            Request::Present {
                ticket,
                channel,
                with_members,
            } => self.present(lane, ticket, &channel, with_members),
            Request::Forget { ticket, channel } => {
                self.enqueue(&channel, Op::Forget(lane, ticket));
            }
        }
    }

    fn history(&mut self, lane: u8, ticket: Ticket, channel: &ChannelName, query: HistoryQuery) {
        let reply = self.desk.options.reply;
        let limit = query.limit.map_or(usize::MAX, |limit| limit as usize);
        let query = Query {
            mode: if query.reverse {
                Mode::Newest
            } else {
                Mode::Oldest
            },
            since: query.since,
            limit: limit.min(reply.publications_max),
            bytes: reply.bytes_max,
        };
        self.enqueue(channel, Op::Look(Purpose::History(lane, ticket), query));
    }
}
