//! Publications that wait for members are bounded in number and bytes; a channel by a part of it.

mod support;

use std::sync::Arc;

use throng_broker::{Acknowledge, Draft, Refusal, Reply};
use throng_hub::{Answer, Batch, Command, FormKind, Format, Hub, Mail, ReplyTo, Sink};
use throng_types::{
    ChannelName, ConnId, Now, Payload, PayloadKind, Position, Publication, PublicationKind, ShardId,
};

struct Nobody;

impl Sink for Nobody {
    fn answer(&mut self, _: ReplyTo, _: Answer) {}

    fn encode(&mut self, _: Format, _: &Publication, _: &mut Vec<u8>) {}

    fn deliver(&mut self, _: u32, _: &Batch<'_>) {}
}

fn name(name: &str) -> ChannelName {
    ChannelName::new(name).unwrap()
}

fn payload(bytes: usize) -> Payload {
    Payload {
        bytes: vec![b'x'; bytes].into(),
        kind: PayloadKind::Text,
    }
}

/// A hub with one member of each of these channels.
fn hub(channels: &[&str]) -> Hub {
    subscribed(support::hub(0, 1, Vec::new()), 1, channels)
}

/// Adds one more connection to each of these channels.
fn subscribed(mut hub: Hub, conn: u32, channels: &[&str]) -> Hub {
    for channel in channels {
        let command = Command::Subscribe {
            reply_to: ReplyTo {
                conn: ConnId::new(ShardId(0), conn, 1),
                token: 0,
            },
            channel: name(channel),
            format: Format::new(0, FormKind::Shared),
            since: None,
            presence: None,
        };
        hub.handle(command, Now::default(), &mut Nobody);
    }
    hub
}

/// Publishes until that is refused; gives how many were accepted.
fn fill(hub: &mut Hub, channel: &str, bytes: usize) -> usize {
    let most = (200 << 20) / (bytes + size_of::<Publication>());
    for accepted in 0..most.min(70_000) {
        let draft = Draft {
            channel: name(channel),
            payload: payload(bytes),
            publisher: None,
            tags: None,
            skip_history: false,
            idempotency_key: None,
            version: None,
            acknowledge: Acknowledge::Memory,
        };
        if let Err((refusal, draft)) = hub.publish_here(draft, Now::default()) {
            assert_eq!(refusal, Refusal::Busy);
            assert_eq!(draft.payload.bytes.len(), bytes, "it comes back");
            return accepted;
        }
    }
    panic!("{most} publications wait, and one more may");
}

fn empty(hub: &mut Hub) {
    let more = || hub.fan_out(1000, Now::default(), &mut Nobody);
    let turns = std::iter::repeat_with(more).take(10_000);
    assert!(
        turns.take_while(|more| *more).count() < 10_000,
        "fan-out comes to an end"
    );
}

#[test]
fn a_channel_has_a_quarter_of_the_publications() {
    let mut hub = hub(&["a", "b", "c", "d", "e"]);
    for _ in 0..2 {
        for channel in ["a", "b", "c", "d"] {
            assert!(hub.wants_mail());
            assert_eq!(fill(&mut hub, channel, 1), 16_384);
            assert_eq!(fill(&mut hub, channel, 1), 0);
        }
        assert!(!hub.wants_mail(), "four quarters");
        assert_eq!(fill(&mut hub, "e", 1), 0);
        // It has no members here.
        hub.publish_here(other(), Now::default()).expect("room");
        empty(&mut hub);
        assert!(hub.wants_mail());
    }
}

/// A session that publishes finds the same bound as a publication from the broker's own shard.
#[test]
fn a_command_to_publish_is_refused_when_there_is_no_room() {
    #[derive(Default)]
    struct Answers(Vec<Result<Option<Position>, Refusal>>);

    impl Sink for Answers {
        fn answer(&mut self, _: ReplyTo, answer: Answer) {
            if let Answer::Published { result } = answer {
                self.0.push(result);
            }
        }

        fn encode(&mut self, _: Format, _: &Publication, _: &mut Vec<u8>) {}

        fn deliver(&mut self, _: u32, _: &Batch<'_>) {}
    }

    let mut hub = hub(&["a"]);
    let mut answers = Answers::default();
    assert_eq!(fill(&mut hub, "a", 1), 16_384);
    let publish = |hub: &mut Hub, answers: &mut Answers, channel: &str| {
        let draft = Draft {
            channel: name(channel),
            ..other()
        };
        let conn = ConnId::new(ShardId(0), 7, 1);
        let reply_to = ReplyTo { conn, token: 1 };
        hub.handle(
            Command::Publish { reply_to, draft },
            Now::default(),
            answers,
        );
        std::mem::take(&mut answers.0)
    };
    assert_eq!(publish(&mut hub, &mut answers, "a"), [Err(Refusal::Busy)]);
    assert_eq!(publish(&mut hub, &mut answers, "b"), [Ok(None)]);
    empty(&mut hub);
    assert_eq!(publish(&mut hub, &mut answers, "a"), [Ok(None)]);
}

fn other() -> Draft {
    Draft {
        channel: name("other"),
        payload: payload(1),
        publisher: None,
        tags: None,
        skip_history: false,
        idempotency_key: None,
        version: None,
        acknowledge: Acknowledge::Memory,
    }
}

#[test]
fn a_channel_has_a_quarter_of_the_bytes() {
    let mut hub = hub(&["a", "b", "c", "d", "e"]);
    let bytes = (1 << 20) - size_of::<Publication>();
    for _ in 0..2 {
        for channel in ["a", "b", "c", "d"] {
            assert!(hub.wants_mail());
            assert_eq!(fill(&mut hub, channel, bytes), 16);
        }
        assert!(!hub.wants_mail(), "four quarters");
        assert_eq!(fill(&mut hub, "e", 1), 0);
        empty(&mut hub);
    }
    // A single one may have any size, and then no more fit.
    assert_eq!(fill(&mut hub, "a", 80 << 20), 1);
    assert!(!hub.wants_mail());
    empty(&mut hub);
    assert_eq!(
        fill(&mut hub, "a", 1 << 10),
        (16 << 20) / ((1 << 10) + size_of::<Publication>())
    );
}

#[test]
fn what_waits_for_those_who_left_waits_no_more() {
    let mut hub = hub(&["a", "b"]);
    assert_eq!(fill(&mut hub, "a", 1), 16_384);
    let delivery = |channel: &str| {
        Mail::Reply(Reply::Delivery(Arc::new(Publication {
            channel: name(channel),
            told: PublicationKind::Data,
            position: None,
            payload: payload(1),
            publisher: None,
            tags: None,
            time_unix_ms: 0,
        })))
    };
    // Mail is not refused; it is left where it is.
    for n in 16_384..65_536 {
        assert!(hub.wants_mail(), "{n}");
        hub.mail(ShardId(0), delivery("b"), Now::default(), &mut Nobody);
    }
    assert!(!hub.wants_mail());
    hub.unsubscribe(ConnId::new(ShardId(0), 1, 1), &name("b"), Now::default());
    assert!(hub.wants_mail());
    assert!(
        hub.fan_out(1, Now::default(), &mut Nobody),
        "only the other channel's"
    );
    empty(&mut hub);
    assert_eq!(fill(&mut hub, "a", 1), 16_384);
}

#[test]
fn the_bytes_that_wait_are_those_that_somebody_lacks() {
    const MIB: usize = (1 << 20) - size_of::<Publication>();
    let mut hub = hub(&["a", "b"]);
    assert_eq!(fill(&mut hub, "a", MIB), 16);
    hub.unsubscribe(ConnId::new(ShardId(0), 1, 1), &name("a"), Now::default());
    // Those of `a` are forgotten with their channel: four channels have their quarters again.
    let mut hub = subscribed(hub, 1, &["c", "d", "e"]);
    for channel in ["b", "c", "d", "e"] {
        assert_eq!(fill(&mut hub, channel, MIB), 16, "{channel}");
    }
    assert!(!hub.wants_mail());
    empty(&mut hub);
    // Of two members the second one still lacks what the first one has.
    let mut hub = subscribed(hub, 2, &["b"]);
    assert_eq!(fill(&mut hub, "b", MIB), 16);
    assert!(hub.fan_out(1, Now::default(), &mut Nobody));
    assert_eq!(fill(&mut hub, "b", MIB), 0);
    empty(&mut hub);
    assert_eq!(fill(&mut hub, "b", MIB), 16);
}
