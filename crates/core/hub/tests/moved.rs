//! Hubs that another process takes over: subscriptions go on from their position, in their form;
//! connections that did not move have left.

use std::sync::Arc;

use throng_broker::{
    Announced, ChannelMember, ChannelOptions, PresenceOptions, Recovery, Refusal, Retention,
};
use throng_hub::{Answer, Command, FormKind, Format, Hub, ReplyTo};
use throng_solo::{Heard, conn, draft, fan_out, hub_of, name, name_at, namespaces};
use throng_types::{ConnId, Load as _, Now, Parts, Position, Publisher, Save, Saved, ShardId};

const NOW: Now = Now::new(1, 1);

/// A frame that is a difference says so.
fn sink() -> Heard {
    Heard::encoding(|publication, patch, out| match patch {
        Some(_) => out.extend_from_slice(b"difference"),
        None => out.extend_from_slice(&publication.payload.bytes),
    })
}

/// Takes the answers as texts.
fn answers(heard: &mut Heard) -> Vec<String> {
    let answers = heard.answers.drain(..);
    let answers = answers.map(|(_, answer)| match answer {
        Answer::Subscribed { result, .. } => {
            let result = result.map(|it| (it.position.map(|at| at.offset), it.recovery));
            match result {
                Ok((at, Recovery::Whole(missed))) => format!("at {at:?}, {}", missed.len()),
                Ok((at, _)) => format!("at {at:?}"),
                Err(refusal) => format!("{refusal:?}"),
            }
        }
        Answer::Present { result } => format!("{:?} present", result.map(|it| it.clients)),
        other => format!("{other:?}"),
    });
    answers.collect()
}

/// Takes the first word of each frame, sorted by slots; with the number of its form.
fn words(heard: &mut Heard) -> Vec<(u32, u8, String)> {
    let all = heard.deliveries.drain(..).flat_map(|it| {
        let frames = it.frames.expect("shared bytes").into_iter();
        frames.map(move |frame| {
            let word = frame.split(' ').next().unwrap_or_default().to_owned();
            (it.index, it.format.number(), word)
        })
    });
    let mut all: Vec<_> = all.collect();
    all.sort_unstable();
    all
}

/// A hub whose channels keep history, list members, and send differences; `late:` has a delay.
fn hub() -> Hub {
    let kept = ChannelOptions {
        recovery: true,
        delta: true,
        retention: Retention {
            publications_max: 20,
            ttl_ms: 60_000,
        },
        presence: PresenceOptions {
            is_listed: true,
            ..PresenceOptions::default()
        },
        ..ChannelOptions::default()
    };
    let late = ChannelOptions {
        max_delay_ms: 50,
        ..ChannelOptions::default()
    };
    hub_of(&[("kept", kept), ("late", late)])
}

fn subscribe(hub: &mut Hub, heard: &mut Heard, index: u32, channel: &str, format: Format) {
    let who = Publisher {
        client: format!("client {index}").into(),
        ..Publisher::default()
    };
    let presence = channel.starts_with("kept").then(|| ChannelMember {
        who: Arc::new(who),
        is_listed: true,
        announced: Announced::Nothing,
    });
    let command = Command::Subscribe {
        reply_to: ReplyTo::new(conn(index), 1),
        channel: name(channel),
        format,
        since: None,
        presence,
    };
    hub.handle(command, NOW, heard);
}

fn publish(hub: &mut Hub, channel: &str, text: &str) -> Option<Position> {
    let text = format!("{text} {}", "the same again ".repeat(20));
    { hub.publish_here(draft(channel, &text), NOW) }
        .expect("room")
        .position
}

fn present(hub: &mut Hub, channel: &str) -> String {
    let mut heard = sink();
    let command = Command::Present {
        reply_to: ReplyTo::new(conn(0), 1),
        channel: name(channel),
        with_members: false,
        only_subscribed: false,
    };
    hub.handle(command, NOW, &mut heard);
    answers(&mut heard).remove(0)
}

/// The hub in another process, with those connections that move; the others are said to leave.
fn moves(hub: &mut Hub, moved: &[u32], left: &[u32]) -> Hub {
    let mut bytes = Vec::new();
    let mut send = |piece: &[u8]| bytes.extend_from_slice(piece);
    let mut parts = Parts::new(&mut send);
    assert!(hub.is_at_rest());
    hub.give_up(&mut parts);
    for &index in left {
        hub.save_quits(conn(index), &mut parts);
    }
    parts.end();
    let mut other = self::hub();
    let mut from = Saved::new(&bytes);
    while let Some(kind) = u8::load(&mut from) {
        other.load(kind, &mut from).expect("a good item");
    }
    for &index in moved {
        let mut bytes = Vec::new();
        assert!(hub.save_subscriptions(conn(index), &mut bytes));
        for cut in 0..bytes.len() {
            let mut fresh = self::hub();
            let part = fresh.load_subscriptions(conn(index), &mut Saved::new(&bytes[..cut]));
            assert!(part.is_none(), "{cut} of {} bytes", bytes.len());
        }
        let loaded = other.load_subscriptions(conn(index), &mut Saved::new(&bytes));
        loaded.expect("its subscriptions");
        let again = other.load_subscriptions(conn(index), &mut Saved::new(&bytes));
        assert!(again.is_none(), "it is a member once");
    }
    other.loaded(NOW);
    other
}

#[test]
fn members_go_on_where_they_were() {
    let shared = Format::new(1, FormKind::Shared);
    let delta = Format::new(2, FormKind::Delta);
    let mut heard = sink();
    let mut old = hub();
    for (index, format) in [(1, shared), (2, delta), (3, shared)] {
        subscribe(&mut old, &mut heard, index, "kept:a", format);
    }
    subscribe(&mut old, &mut heard, 2, "b", delta);
    subscribe(&mut old, &mut heard, 3, "alone", shared);
    assert_eq!(heard.answers.len(), 5);
    let at = publish(&mut old, "kept:a", "one");
    assert!(!old.is_at_rest(), "members lack something");
    fan_out(&mut old, 100, NOW, &mut heard);
    assert_eq!(present(&mut old, "kept:a"), "Ok(3) present");
    let mut new = moves(&mut old, &[1, 2], &[3]);
    // The third is seen no more, and what only it subscribed to is forgotten.
    assert_eq!(present(&mut new, "kept:a"), "Ok(2) present");
    assert!(!new.has_channel(&name("alone")));
    assert_eq!(new.stats().channels, 2);
    assert_eq!(
        (new.subscription_count(conn(2)), new.stats().subscriptions),
        (2, 3)
    );
    // The next one follows; the first difference is said as a whole.
    let mut heard = sink();
    let after = publish(&mut new, "kept:a", "two").expect("a position");
    assert_eq!(Some(after.epoch), at.map(|at| at.epoch));
    assert_eq!(Some(after.offset - 1), at.map(|at| at.offset));
    publish(&mut new, "b", "b");
    fan_out(&mut new, 100, NOW, &mut heard);
    publish(&mut new, "kept:a", "three");
    fan_out(&mut new, 100, NOW, &mut heard);
    let expected = [
        (1, 1, "three"),
        (1, 1, "two"),
        (2, 2, "b"),
        (2, 2, "difference"),
        (2, 2, "two"),
    ];
    let expected = expected.map(|(index, form, word)| (index, form, word.to_owned()));
    assert_eq!(words(&mut heard), expected);
    // A new subscriber is answered at once: the new process knows where the stream stands.
    subscribe(&mut new, &mut heard, 9, "b", shared);
    assert_eq!(answers(&mut heard), ["at None"]);
    // And a connection that ends is gone.
    for index in [1, 2, 9] {
        new.gone(conn(index), NOW);
    }
    assert_eq!(present(&mut new, "kept:a"), "Ok(0) present");
    assert_eq!(new.stats().channels, 0);
}

/// Nothing of a connection moves while one of its subscriptions waits, or joins behind what is on
/// its way; and what gathers in a channel with a delay leaves first.
#[test]
fn what_is_under_way_does_not_move() {
    let shared = Format::new(1, FormKind::Shared);
    let mut heard = sink();
    let mut hub = hub();
    assert!(hub.is_at_rest());
    subscribe(&mut hub, &mut heard, 1, "late:a", shared);
    publish(&mut hub, "late:a", "one");
    assert!(!hub.fan_out(100, NOW, &mut heard), "it rests");
    assert!(hub.deadline().is_some() && heard.deliveries.is_empty() && !hub.is_at_rest());
    subscribe(&mut hub, &mut heard, 2, "late:a", shared);
    assert!(
        !hub.save_subscriptions(conn(2), &mut Vec::new()),
        "it joins"
    );
    assert!(hub.save_subscriptions(conn(1), &mut Vec::new()));
    hub.hurry();
    assert_eq!(hub.deadline(), None);
    fan_out(&mut hub, 100, NOW, &mut heard);
    assert_eq!(heard.deliveries.len(), 1);
    assert!(hub.is_at_rest());
    assert!(hub.save_subscriptions(conn(2), &mut Vec::new()));
    // One of two shards asks the other one.
    let mut asks = throng_solo::hub(ShardId(0), 2, &namespaces(&[]));
    let channel = name_at(ShardId(1), "");
    subscribe(&mut asks, &mut heard, 1, channel.as_str(), shared);
    assert!(!asks.is_at_rest());
    assert!(!asks.save_subscriptions(conn(1), &mut Vec::new()));
    // A connection that subscribes to nothing moves at any time.
    let mut nothing = Vec::new();
    assert!(asks.save_subscriptions(conn(2), &mut nothing));
    let loaded = hub.load_subscriptions(conn(5), &mut Saved::new(&nothing));
    assert!(loaded.is_some() && hub.subscription_count(conn(5)) == 0);
}

/// Invalid bytes make no connection a member.
#[test]
fn bytes_that_no_hub_has_written_are_refused() {
    let entry = |channel: &str, bits: u16| {
        let mut bytes = Vec::new();
        1_u32.save(&mut bytes);
        (name(channel), bits).save(&mut bytes);
        None::<ChannelMember>.save(&mut bytes);
        bytes
    };
    let member = |conn: ConnId, bytes: &[u8]| {
        let mut hub = hub();
        let mut heard = sink();
        let shared = Format::new(1, FormKind::Shared);
        subscribe(&mut hub, &mut heard, 1, "a", shared);
        hub.load_subscriptions(conn, &mut Saved::new(bytes))
            .is_some()
    };
    // The form's number and kind, and whether it gets comings and goings.
    let bits = 1_u16;
    assert!(member(conn(2), &entry("a", bits)));
    assert!(member(conn(2), &entry("a", bits | 1 << 8)));
    assert!(!member(conn(2), &entry("a", bits | 1 << 9)), "no such form");
    assert!(
        !member(conn(2), &entry("a", bits | 5 << 5)),
        "nobody has a base"
    );
    assert!(!member(conn(2), &entry("b", bits)), "no such channel");
    assert!(!member(conn(1), &entry("a", bits)), "it is a member");
    // A member names its slot in 23 bits.
    let highest = (1 << 23) - 1;
    assert!(member(conn(highest), &entry("a", bits)));
    assert!(!member(conn(highest + 1), &entry("a", bits)));
    for kind in [0_u8, 127, 130, 255] {
        assert!(hub().load(kind, &mut Saved::new(&[])).is_none(), "{kind}");
    }
    // The limit of subscriptions is the same for connections that came by themselves.
    let mut full = hub();
    let mut heard = sink();
    let shared = Format::new(1, FormKind::Shared);
    for n in 0..129 {
        subscribe(&mut full, &mut heard, 1, &format!("c{n}"), shared);
    }
    let refused = format!("{:?}", Refusal::ChannelLimit);
    assert_eq!(answers(&mut heard).last(), Some(&refused));
}

#[test]
fn a_hub_takes_back_what_it_gave_up() {
    let shared = Format::new(1, FormKind::Shared);
    let mut heard = sink();
    let mut hub = hub();
    for (index, channel) in [
        (1, "kept:a"),
        (2, "kept:a"),
        (3, "kept:a"),
        (3, "alone"),
        (2, "b"),
    ] {
        subscribe(&mut hub, &mut heard, index, channel, shared);
    }
    let before = publish(&mut hub, "kept:a", "one").expect("a position");
    fan_out(&mut hub, 100, NOW, &mut heard);
    let stats = hub.stats();
    let mut bytes = Vec::new();
    let mut send = |piece: &[u8]| bytes.extend_from_slice(piece);
    let mut parts = Parts::new(&mut send);
    hub.give_up(&mut parts);
    parts.end();
    // The second stays.
    let gone = [1, 3].map(|index| {
        let mut bytes = Vec::new();
        assert!(hub.save_subscriptions(conn(index), &mut bytes));
        hub.give_up_subscriptions(conn(index));
        (index, bytes)
    });
    assert_eq!(hub.stats().subscriptions, 2);
    assert!(!hub.has_channel(&name("alone")) && hub.has_channel(&name("kept:a")));
    assert_eq!(hub.stats().home, Default::default());
    let mut from = Saved::new(&bytes);
    while let Some(kind) = u8::load(&mut from) {
        hub.load(kind, &mut from).expect("a good item");
    }
    for (index, bytes) in gone {
        let loaded = hub.load_subscriptions(conn(index), &mut Saved::new(&bytes));
        loaded.expect("its subscriptions");
    }
    assert!(hub.stats() == stats, "{:?} and {stats:?}", hub.stats());
    assert_eq!(present(&mut hub, "kept:a"), "Ok(3) present");
    let mut heard = sink();
    let after = publish(&mut hub, "kept:a", "two").expect("a position");
    assert_eq!(
        (after.epoch, after.offset),
        (before.epoch, before.offset + 1)
    );
    publish(&mut hub, "alone", "three");
    publish(&mut hub, "b", "four");
    fan_out(&mut hub, 100, NOW, &mut heard);
    let expect = [
        (1, "two"),
        (2, "four"),
        (2, "two"),
        (3, "three"),
        (3, "two"),
    ];
    let expect = expect.map(|(index, word)| (index, 1, word.to_owned()));
    assert_eq!(words(&mut heard), expect);
}
