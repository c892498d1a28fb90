//! What shards want of the broker.

use throng_broker::{Draft, HistoryQuery, Request, Ticket};
use throng_remote::agent::Mode;
use throng_remote::blob;
use throng_types::ChannelName;

use crate::command::Script;
use crate::flight::Flight;
use crate::node::Node;

/// How long an idempotency key is remembered, in milliseconds (Centrifugo: five minutes).
const KEY_TTL_MS: u64 = 300_000;

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
            Request::Publish { ticket, draft } => self.publish(lane, ticket, draft),
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
                let stream = self.keys.stream(&channel);
                let flight = Flight::Forget { lane, ticket };
                self.send(flight, &[b"DEL", stream.as_bytes()]);
            }
        }
    }

    fn publish(&mut self, lane: u8, ticket: Ticket, draft: Draft) {
        let channel = &draft.channel;
        let retention = self.desk.options.of(channel).retention;
        let size = if retention.keeps() {
            retention.publications_max
        } else {
            0
        };
        let key = draft.idempotency_key.as_deref();
        let result = self.keys.result(channel, key.unwrap_or_default());
        let (meta, stream) = (self.keys.meta(channel), self.keys.stream(channel));
        let name = self.keys.channel(channel);
        let [server, fresh, clock, keep] = self.stream_args();
        let (size, ttl_ms) = (size.to_string(), retention.ttl_ms.to_string());
        let skip = if draft.skip_history { "1" } else { "0" };
        let remember_ms = if key.is_some() { KEY_TTL_MS } else { 0 }.to_string();
        let version = draft.version.as_deref();
        // Of one length, so that texts compare as numbers do.
        let number = version.map_or(String::new(), |version| format!("{:020}", version.number));
        let versions = version.map_or("", |version| &version.epoch);
        let mut body = Vec::with_capacity(draft.payload.bytes.len() + 64);
        let (who, tags) = (draft.publisher.as_deref(), draft.tags.as_deref());
        blob::encode(&draft.payload, who, tags, &mut body);
        let args = [
            &*server,
            &fresh,
            &clock,
            &keep,
            &size,
            &ttl_ms,
            skip,
            &remember_ms,
            &number,
            versions,
        ];
        let mut args: Vec<&[u8]> = args.iter().map(|arg| arg.as_bytes()).collect();
        args.push(&body);
        let flight = Flight::Publish { lane, ticket };
        self.call(
            flight,
            Script::Publish,
            &[&meta, &stream, &result, &name],
            &args,
        );
    }

    fn history(&mut self, lane: u8, ticket: Ticket, channel: &ChannelName, query: HistoryQuery) {
        let reply = self.desk.options.reply;
        let limit = query.limit.map_or(usize::MAX, |limit| limit as usize);
        let mode = if query.reverse {
            Mode::Newest
        } else {
            Mode::Oldest
        };
        let channel_name = channel.clone();
        let flight = Flight::History {
            lane,
            ticket,
            channel: channel_name,
        };
        let bounds = (limit.min(reply.publications_max), reply.bytes_max);
        self.look(flight, channel, mode, query.since, bounds);
    }
}
