//! Deliveries by form: which frames are empty, and the output of a sink that does not implement
//! differences.

mod support;

use std::sync::Arc;

use throng_broker::{Acknowledge, ChannelOptions, Draft, Reply};
use throng_hub::{Answer, Batch, Command, FormKind, Format, Hub, Mail, ReplyTo, Sink};
use throng_types::{
    ChannelName, ConnId, Now, Payload, PayloadKind, Publication, PublicationKind, ShardId,
};

/// Each delivery: the slot, its frames, and whether some of them are said to be empty.
#[derive(Default)]
struct Heard(Vec<(u32, Vec<String>, bool)>);

impl Sink for Heard {
    fn answer(&mut self, _: ReplyTo, _: Answer) {}

    /// Writes nothing for a publication that asks for that.
    fn encode(&mut self, _: Format, publication: &Publication, out: &mut Vec<u8>) {
        match publication.told {
            PublicationKind::Data if &*publication.payload.bytes != b"nothing" => {
                out.extend_from_slice(&publication.payload.bytes);
            }
            PublicationKind::Data => {}
            _ => out.extend_from_slice(b"somebody"),
        }
    }

    fn deliver(&mut self, index: u32, batch: &Batch<'_>) {
        let encoded = batch.encoded.expect("shared bytes");
        let frames = encoded.frames.each();
        let texts = frames
            .iter()
            .map(|frame| String::from_utf8_lossy(frame).into_owned());
        self.0.push((index, texts.collect(), encoded.has_gaps));
    }
}

fn name() -> ChannelName {
    ChannelName::new("seen:a").expect("a good name")
}

fn payload(text: &str) -> Payload {
    Payload {
        bytes: text.as_bytes().into(),
        kind: PayloadKind::Text,
    }
}

/// A hub with one subscriber for each form, in slots from zero.
fn hub(formats: &[Format]) -> (Hub, Heard) {
    let seen = ChannelOptions {
        delta: true,
        ..ChannelOptions::default()
    };
    let mut hub = support::hub(0, 1, vec![("seen".into(), seen)]);
    let mut heard = Heard::default();
    for (index, format) in (0..).zip(formats) {
        let command = Command::Subscribe {
            reply_to: ReplyTo {
                conn: ConnId::new(ShardId(0), index, 1),
                token: 0,
            },
            channel: name(),
            format: *format,
            since: None,
            presence: None,
        };
        hub.handle(command, Now::default(), &mut heard);
    }
    (hub, heard)
}

fn publish(hub: &mut Hub, word: &str) {
    let draft = Draft {
        channel: name(),
        payload: payload(word),
        publisher: None,
        tags: None,
        skip_history: false,
        idempotency_key: None,
        version: None,
        acknowledge: Acknowledge::Memory,
    };
    hub.publish_here(draft, Now::default()).expect("room");
}

/// Publishes the given texts, `+` for a coming, and delivers them in one turn.
fn heard(formats: &[Format], words: &[&str]) -> Vec<(u32, Vec<String>, bool)> {
    let (mut hub, mut heard) = hub(formats);
    for word in words {
        if *word == "+" {
            let joined = Publication {
                channel: name(),
                told: PublicationKind::Joined,
                position: None,
                payload: payload(""),
                publisher: Some(Box::default()),
                tags: None,
                time_unix_ms: 0,
            };
            let delivery = Mail::Reply(Reply::Delivery(Arc::new(joined)));
            hub.mail(ShardId(0), delivery, Now::default(), &mut heard);
            continue;
        }
        publish(&mut hub, word);
    }
    let turns = (0..1000).take_while(|_| hub.fan_out(100, Now::default(), &mut heard));
    assert!(turns.count() < 1000, "fan-out comes to an end");
    heard.0.sort_by_key(|(index, ..)| *index);
    heard.0
}

fn texts(texts: &[&str]) -> Vec<String> {
    texts.iter().map(ToString::to_string).collect()
}

/// Forms without comings have no frame for them; where sessions compare frames with publications,
/// an empty one.
#[test]
fn comings_are_told_to_those_who_want_to_hear_of_them() {
    let plain = Format::new(1, FormKind::Shared);
    let noted = Format::new(2, FormKind::Noted);
    let delta = Format::new(3, FormKind::Delta);
    let formats = [
        plain,
        plain.with_news(),
        noted,
        noted.with_news(),
        delta,
        delta.with_news(),
    ];
    let all = heard(&formats, &["one", "+", "two"]);
    assert_eq!(
        all,
        [
            (0, texts(&["one", "two"]), false),
            (1, texts(&["one", "somebody", "two"]), false),
            (2, texts(&["one", "", "two"]), true),
            (3, texts(&["one", "somebody", "two"]), false),
            (4, texts(&["one", "two"]), false),
            (5, texts(&["one", "somebody", "two"]), false),
        ]
    );
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
        hub.fan_out(100, Now::default(), &mut heard);
        let (_, frames, has) = heard.0.pop().expect("a delivery");
        assert_eq!((frames.len(), has), (1, has_gaps), "{word}");
    }
}
