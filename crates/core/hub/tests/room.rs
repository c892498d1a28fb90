//! Publications that wait for members are bounded in number and bytes; a channel by a part of it.

use throng_broker::{Draft, Refusal, Reply};
use throng_hub::{Answer, Batch, BrokerMail, Command, FormKind, Format, Hub, Patch, ReplyTo, Sink};
use throng_solo::{Heard, conn, draft, fan_out, hub_of, name, subscribe};
use throng_types::{Now, Payload, PayloadKind, Publication, ShardId};

const NOW: Now = Now::new(0, 0);

/// Sink that keeps nothing.
struct Nobody;

impl Sink for Nobody {
    fn answer(&mut self, _: ReplyTo, _: Answer) {}

    fn encode(&mut self, _: Format, _: &Publication, _: Option<Patch<'_>>, _: &mut Vec<u8>) {}

    fn deliver(&mut self, _: u32, _: &Batch<'_>) {}
}

/// A hub with one member of each of these channels.
fn hub(channels: &[&str]) -> Hub {
    subscribed(hub_of(&[]), 1, channels)
}

/// Adds one more connection to each of these channels.
fn subscribed(mut hub: Hub, index: u32, channels: &[&str]) -> Hub {
    for channel in channels {
        let format = Format::new(0, FormKind::Shared);
        let command = subscribe((conn(index), 0), channel, format, None);
        hub.handle(command, NOW, &mut Nobody);
    }
    hub
}

/// Publishes until that is refused; gives how many were accepted.
fn fill(hub: &mut Hub, channel: &str, bytes: usize) -> usize {
    let most = (200 << 20) / (bytes + size_of::<Publication>());
    for accepted in 0..most.min(70_000) {
        let payload = Payload {
            bytes: vec![b'x'; bytes].into(),
            kind: PayloadKind::Text,
        };
        let draft = Draft::new(name(channel), payload);
        if let Err((refusal, draft)) = hub.publish_here(draft, NOW) {
            assert_eq!(refusal, Refusal::Busy);
            assert_eq!(draft.payload.bytes.len(), bytes, "it comes back");
            return accepted;
        }
    }
    panic!("{most} publications wait, and one more may");
}

fn empty(hub: &mut Hub) {
    fan_out(hub, 1000, NOW, &mut Nobody);
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
        hub.publish_here(draft("other", "x"), NOW).expect("room");
        empty(&mut hub);
        assert!(hub.wants_mail());
    }
}

/// A session that publishes finds the same bound as a publication from the broker's own shard.
#[test]
fn a_command_to_publish_is_refused_when_there_is_no_room() {
    let mut hub = hub(&["a"]);
    assert_eq!(fill(&mut hub, "a", 1), 16_384);
    let publish = |hub: &mut Hub, channel: &str| {
        let reply_to = ReplyTo::new(conn(7), 1);
        let draft = draft(channel, "x");
        let mut heard = Heard::default();
        hub.handle(Command::Publish { reply_to, draft }, NOW, &mut heard);
        match &heard.answers[..] {
            [(_, Answer::Published { result })] => *result,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(publish(&mut hub, "a"), Err(Refusal::Busy));
    assert_eq!(publish(&mut hub, "b"), Ok(None));
    empty(&mut hub);
    assert_eq!(publish(&mut hub, "a"), Ok(None));
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
        let publication = Publication::new(name(channel), None, Payload::text("x"));
        BrokerMail::Reply(Reply::Delivery(publication.shared()))
    };
    // Mail is not refused; it is left where it is.
    for n in 16_384..65_536 {
        assert!(hub.wants_mail(), "{n}");
        hub.mail(ShardId(0), delivery("b"), NOW, &mut Nobody);
    }
    assert!(!hub.wants_mail());
    hub.unsubscribe(conn(1), &name("b"), NOW);
    assert!(hub.wants_mail());
    assert!(hub.fan_out(1, NOW, &mut Nobody), "only the other channel's");
    empty(&mut hub);
    assert_eq!(fill(&mut hub, "a", 1), 16_384);
}

#[test]
fn the_bytes_that_wait_are_those_that_somebody_lacks() {
    const MIB: usize = (1 << 20) - size_of::<Publication>();
    let mut hub = hub(&["a", "b"]);
    assert_eq!(fill(&mut hub, "a", MIB), 16);
    hub.unsubscribe(conn(1), &name("a"), NOW);
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
    assert!(hub.fan_out(1, NOW, &mut Nobody));
    assert_eq!(fill(&mut hub, "b", MIB), 0);
    empty(&mut hub);
    assert_eq!(fill(&mut hub, "b", MIB), 16);
}
