//! Publications with tags are reported once all members have them, however few these are.

mod support;

use throng_broker::Draft;
use throng_hub::{Answer, Batch, Command, FormKind, Format, Hub, ReplyTo, Sink};
use throng_types::{ChannelName, ConnId, Now, Payload, PayloadKind, Publication, ShardId};

#[derive(Default)]
struct Heard {
    delivered: usize,
    /// The tags, and the number of members that had it then.
    carried: Vec<(String, usize)>,
}

impl Sink for Heard {
    fn answer(&mut self, _: ReplyTo, _: Answer) {}

    fn encode(&mut self, _: Format, _: &Publication, out: &mut Vec<u8>) {
        out.push(b'x');
    }

    fn deliver(&mut self, _: u32, batch: &Batch<'_>) {
        self.delivered += batch.publications.len();
    }

    fn carried(&mut self, publication: &Publication) {
        let tags = publication.tags.as_deref().unwrap_or_default();
        self.carried.push((tags.to_owned(), self.delivered));
    }
}

fn channel() -> ChannelName {
    ChannelName::new("c").unwrap()
}

fn publish(hub: &mut Hub, tags: Option<&str>) {
    let draft = Draft {
        channel: channel(),
        payload: Payload {
            bytes: b"x"[..].into(),
            kind: PayloadKind::Text,
        },
        publisher: None,
        tags: tags.map(Into::into),
        skip_history: false,
        idempotency_key: None,
        version: None,
        acknowledge: throng_broker::Acknowledge::Memory,
    };
    hub.publish_here(draft, Now::default()).expect("room");
}

/// A hub with so many subscribers.
fn hub(members: u32, heard: &mut Heard) -> Hub {
    let mut hub = support::hub(0, 1, Vec::new());
    for index in 0..members {
        let command = Command::Subscribe {
            reply_to: ReplyTo {
                conn: ConnId::new(ShardId(0), index, 1),
                token: 0,
            },
            channel: channel(),
            format: Format::new(1, FormKind::Shared),
            since: None,
            presence: None,
        };
        hub.handle(command, Now::default(), heard);
    }
    hub
}

#[test]
fn everybody_has_it_first() {
    let mut heard = Heard::default();
    let mut hub = hub(3, &mut heard);
    publish(&mut hub, Some("a"));
    publish(&mut hub, None);
    assert!(hub.fan_out(2, Now::default(), &mut heard));
    assert_eq!(heard.carried, []);
    hub.fan_out(9, Now::default(), &mut heard);
    assert_eq!(heard.carried, [("a".to_owned(), 6)]);
}

#[test]
fn nobody_is_everybody_too() {
    let mut heard = Heard::default();
    let mut empty = hub(0, &mut heard);
    publish(&mut empty, Some("a"));
    empty.fan_out(9, Now::default(), &mut heard);
    // Nothing goes to a shard without subscribers, so nothing is reported.
    assert_eq!(heard.carried, []);
    let mut left = hub(2, &mut heard);
    publish(&mut left, Some("b"));
    for index in 0..2 {
        left.gone(ConnId::new(ShardId(0), index, 1), Now::default());
    }
    left.fan_out(9, Now::default(), &mut heard);
    assert_eq!(heard.carried, [("b".to_owned(), 0)]);
}
