//! What shards want of the broker.

use throng_broker::{HistoryQuery, Refusal, Request, Ticket};
use throng_metrics::Counter;
use throng_remote::agent::Mode;
use throng_types::ChannelName;

use crate::node::Node;
use crate::stream::{Op, Purpose};
use crate::walk::Query;

impl Node {
    /// Takes a shard's request.
    pub(crate) fn wish(&mut self, lane: u8, request: Request) {
        let options = { &self.desk.options.namespaces }.find(request.channel());
        let is_known = options.is_some();
        let options = options.copied().unwrap_or_default();
        let keeps = options.retention.keeps();
        let refusal = match &request {
            Request::Subscribe { .. } | Request::Leave { .. } | Request::Quit { .. } => None,
            Request::History { .. } if !keeps => Some(Refusal::NotAvailable),
            _ if !is_known => Some(Refusal::UnknownChannel),
            Request::Forget { .. } if !keeps => Some(Refusal::NotAvailable),
            Request::Present { .. } if !options.presence.is_listed => Some(Refusal::NotAvailable),
            _ if self.link.is_none() => {
                self.desk.count(Counter::BrokerUnavailable);
                Some(Refusal::Unavailable)
            }
            _ => None,
        };
        if let Some(refusal) = refusal {
            return self.desk.refuse(lane, request, refusal);
        }
        match request {
            Request::Subscribe { .. } if self.link.is_none() => {
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
