//! Deliveries by form: which frames are empty; and publications with tags, which are reported once
//! all members have them, however few these are.

use std::sync::Arc;

use throng_broker::{ChannelOptions, Draft, Reply};
use throng_hub::{BrokerMail, FormKind, Format, Hub};
use throng_solo::{Heard, conn, draft, fan_out, hub_of, name, subscribe};
use throng_types::{Now, Payload, Publication, PublicationKind, ShardId};

const NOW: Now = Now::new(0, 0);
const CHANNEL: &str = "seen:a";

/// A hub with one subscriber for each form, in slots from zero. Writes nothing for a publication
/// that asks for that.
fn hub(formats: &[Format]) -> (Hub, Heard) {
    let seen = ChannelOptions {
        delta: true,
        ..ChannelOptions::default()
    };
    let mut hub = hub_of(&[("seen", seen)]);
    let mut heard = Heard::encoding(|publication, _, out| match publication.told {
        PublicationKind::Data if &*publication.payload.bytes == b"nothing" => {}
        PublicationKind::Data => out.extend_from_slice(&publication.payload.bytes),
        _ => out.extend_from_slice(b"somebody"),
    });
    for (index, format) in (0..).zip(formats) {
        hub.handle(
            subscribe((conn(index), 0), CHANNEL, *format, None),
            NOW,
            &mut heard,
        );
    }
    (hub, heard)
}

fn publish(hub: &mut Hub, text: &str) {
    hub.publish_here(draft(CHANNEL, text), NOW).expect("room");
}

/// Publishes the given texts, `+` for a coming, and delivers them in one turn. Gives each slot, its
/// frames, and whether some of them are said to be empty.
fn heard(formats: &[Format], words: &[&str]) -> Vec<(u32, Vec<String>, bool)> {
    let (mut hub, mut heard) = hub(formats);
    for word in words {
        if *word == "+" {
            let joined = Publication {
                told: PublicationKind::Joined,
                publisher: Some(Box::default()),
                ..Publication::new(name(CHANNEL), None, Payload::text(""))
            };
            let delivery = BrokerMail::Reply(Reply::Delivery(Arc::new(joined)));
            hub.mail(ShardId(0), delivery, NOW, &mut heard);
        } else {
            publish(&mut hub, word);
        }
    }
    fan_out(&mut hub, 100, NOW, &mut heard);
    let all = heard.deliveries.into_iter();
    let all = all.map(|it| (it.index, it.frames.expect("shared bytes"), it.has_gaps));
    let mut all: Vec<_> = all.collect();
    all.sort_by_key(|(index, ..)| *index);
    all
}

/// Forms without comings have no frame for them; where sessions compare frames with publications,
/// an empty one.
#[test]
fn comings_are_told_to_those_who_want_to_hear_of_them() {
    let plain = Format::new(1, FormKind::Shared);
    let noted = Format::new(2, FormKind::Noted);
    let delta = Format::new(3, FormKind::Delta);
    let formats = [plain, noted, delta].map(|form| [form, form.with_news()]);
    let all = heard(formats.as_flattened(), &["one", "+", "two"]);
    let whole = &["one", "somebody", "two"][..];
    let expected = [
        (&["one", "two"][..], false),
        (whole, false),
        (&["one", "", "two"], true),
        (whole, false),
        (&["one", "two"], false),
        (whole, false),
    ];
    assert_eq!(all.len(), expected.len());
    for ((index, frames, has_gaps), expected) in all.iter().zip(expected) {
        assert_eq!(*frames, expected.0, "{index}");
        assert_eq!(*has_gaps, expected.1, "{index}");
    }
}

/// A frame without bytes is a gap, wherever it stands; the next load has none of the last one's.
#[test]
fn empty_frames_are_told_of() {
    let noted = [Format::new(2, FormKind::Noted)];
    for (words, has_gaps) in [
        (&["one", "two"][..], false),
        (&["nothing", "two"], true),
        (&["one", "nothing"], true),
        (&["one", "nothing", "three"], true),
        (&["nothing"], true),
    ] {
        let all = heard(&noted, words);
        assert_eq!(all.len(), 1);
        assert_eq!(all[0].2, has_gaps, "{words:?}");
    }
    let (mut hub, mut heard) = hub(&noted);
    for (word, has_gaps) in [("nothing", true), ("one", false), ("nothing", true)] {
        publish(&mut hub, word);
        hub.fan_out(100, NOW, &mut heard);
        let told = heard.deliveries.pop().expect("a delivery");
        assert_eq!(
            (told.publications.len(), told.has_gaps),
            (1, has_gaps),
            "{word}"
        );
    }
}

fn publish_tagged(hub: &mut Hub, tags: &str) {
    let draft = Draft {
        tags: Some(tags.into()),
        ..draft(CHANNEL, "x")
    };
    hub.publish_here(draft, NOW).expect("room");
}

/// The tags of what all members have, and the publications delivered before.
fn carried(heard: &Heard) -> Vec<(&str, usize)> {
    let all = heard.carried.iter();
    all.map(|(publication, before)| (publication.tags.as_deref().unwrap_or_default(), *before))
        .collect()
}

#[test]
fn everybody_has_it_first() {
    let (mut hub, mut heard) = hub(&[Format::new(1, FormKind::Shared); 3]);
    publish_tagged(&mut hub, "a");
    publish(&mut hub, "x");
    assert!(hub.fan_out(2, NOW, &mut heard));
    assert_eq!(carried(&heard), []);
    hub.fan_out(9, NOW, &mut heard);
    assert_eq!(carried(&heard), [("a", 6)]);
}

#[test]
fn nobody_is_everybody_too() {
    let (mut empty, mut heard) = hub(&[]);
    publish_tagged(&mut empty, "a");
    empty.fan_out(9, NOW, &mut heard);
    // Nothing goes to a shard without subscribers, so nothing is reported.
    assert_eq!(carried(&heard), []);
    let (mut left, mut heard) = hub(&[Format::new(1, FormKind::Shared); 2]);
    publish_tagged(&mut left, "b");
    for index in 0..2 {
        left.gone(conn(index), NOW);
    }
    left.fan_out(9, NOW, &mut heard);
    assert_eq!(carried(&heard), [("b", 0)]);
}
