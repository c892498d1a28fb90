//! A message, and the event that it is.

use throng_nats_protocol::MessageMetadata;
use throng_types::SpanContext;

use super::options::NatsStream;
use crate::event::Event;

/// The header with a message's tags.
const TAGS_HEADER: &str = "tags";
/// The header of a mark that a key of a key-value bucket is deleted.
const MARK_HEADER: &str = "KV-Operation";

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Message {
    subject: String,
    /// Subject on which it is acknowledged.
    pub(super) reply: String,
    pub(super) delivery: MessageMetadata,
    channel: Option<String>,
    tags: Option<String>,
    trace: Option<SpanContext>,
    /// A mark that something is deleted, and nothing else.
    is_mark: bool,
    data: Vec<u8>,
}

pub(super) struct Held {
    /// Subject on which it is acknowledged.
    pub(super) reply: String,
    /// None if it is a mark that something is deleted.
    pub(super) event: Option<Event>,
    /// Those of its data.
    pub(super) bytes: usize,
}

impl Message {
    /// None if it is not from a consumer.
    pub(super) fn read(
        message: &throng_nats_protocol::Message<'_>,
        channel_header: &str,
    ) -> Option<Self> {
        let (reply, headers) = (message.reply?, message.headers);
        Some(Self {
            subject: message.subject.to_owned(),
            reply: reply.to_owned(),
            delivery: MessageMetadata::read(reply)?,
            channel: headers.get(channel_header).map(str::to_owned),
            tags: headers.get(TAGS_HEADER).map(str::to_owned),
            trace: { headers.get(SpanContext::FIELD) }.and_then(SpanContext::sampled),
            is_mark: headers.get(MARK_HEADER).is_some(),
            data: message.payload.to_vec(),
        })
    }

    /// As it waits to be published. `created` says when the stream was made.
    pub(super) fn held(self, reads: &NatsStream, created: &str) -> Held {
        let reply = self.reply.clone();
        let event = self.event(reads, created);
        let data = event.as_ref().and_then(|event| event.data.as_ref());
        Held {
            reply,
            bytes: data.map_or(0, Vec::len),
            event,
        }
    }

    /// None if it is a mark that a key of a bucket is deleted.
    fn event(self, reads: &NatsStream, created: &str) -> Option<Event> {
        let (number, time) = (self.delivery.stream_seq, self.delivery.time_ns);
        let is_too_long = self.data.len() > reads.data_bytes_max;
        (!self.is_mark).then(|| Event {
            place: format!(
                "nats {} {} {created} {number} {time}",
                reads.feed, reads.stream
            ),
            channel: self.channel,
            tags: self.tags,
            trace: self.trace,
            key: Some(self.subject),
            data: (!is_too_long).then_some(self.data),
            is_too_long,
        })
    }
}

#[cfg(test)]
mod tests {
    use throng_nats_protocol::{Decoder, Limits, Op};

    use super::super::options::tests::reads;
    use super::*;

    fn message(reply: &str, headers: &str, body: &str) -> Option<Message> {
        let head = format!("NATS/1.0\r\n{headers}\r\n");
        let (of_head, all) = (head.len(), head.len() + body.len());
        let wire = format!("HMSG a.1 2 {reply} {of_head} {all}\r\n{head}{body}\r\n");
        let mut decoder = Decoder::new(Limits::SERVER);
        decoder.feed(wire.as_bytes());
        let op = decoder.next_op().unwrap();
        let Some(Op::Message(message)) = op else {
            panic!("{op:?}");
        };
        Message::read(&message, "to")
    }

    #[test]
    fn a_message_is_an_event() {
        let reads = NatsStream {
            data_bytes_max: 3,
            ..reads(None, false)
        };
        let event = |headers: &str, body| {
            let message = message("$JS.ACK.S.C.1.7.9.5.0", headers, body);
            message.unwrap().event(&reads, "monday")
        };
        let whole = Event {
            place: "nats f S monday 7 5".to_owned(),
            channel: Some("b".to_owned()),
            key: Some("a.1".to_owned()),
            data: Some(b"1".to_vec()),
            tags: Some("{}".to_owned()),
            trace: Some(SpanContext {
                trace_id: 10,
                span_id: 11,
            }),
            is_too_long: false,
        };
        let trace = "traceparent: 00-0000000000000000000000000000000a-000000000000000b-01";
        let headers = format!("to: b\r\ntags: {{}}\r\n{trace}\r\n");
        assert_eq!(event(&headers, "1"), Some(whole));
        let long = event("", "1234").unwrap();
        assert_eq!((long.data, long.is_too_long), (None, true));
        assert_eq!(event("KV-Operation: DEL\r\n", ""), None);
        assert_eq!(message("_INBOX.1", "to: b\r\n", "1"), None);
    }
}
