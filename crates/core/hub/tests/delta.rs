//! Publications as differences: each member can read each one, whenever it came and however the
//! fan-out was cut.

use std::collections::BTreeMap;

use throng_broker::{ChannelOptions, Draft, Recovery, Retention};
use throng_hub::{Answer, Batch, FormKind, Format, Hub, Patch, ReplyTo, Sink};
use throng_solo::{conn, draft, fan_out, hub_of, name, subscribe};
use throng_types::{Now, Position, Publication, Rng};

const CHANNEL: &str = "d:1";

const WHOLE: u8 = b'=';
const PATCH: u8 = b'~';

/// Strict clients: they forget their publication when they subscribe anew.
#[derive(Default)]
struct Clients {
    /// Last data of each client.
    had: BTreeMap<u32, Vec<u8>>,
    /// Position of each client.
    at: BTreeMap<u32, Position>,
    whole: usize,
    patches: usize,
    made: usize,
}

impl Sink for Clients {
    fn answer(&mut self, reply_to: ReplyTo, answer: Answer) {
        let index = reply_to.conn.index();
        let Answer::Subscribed { result, .. } = answer else {
            return;
        };
        self.had.remove(&index);
        let Ok(subscribed) = result else {
            return;
        };
        if let Some(position) = subscribed.position {
            self.at.insert(index, position);
        }
        if let Recovery::Whole(missed) = subscribed.recovery
            && let Some(last) = missed.last()
        {
            self.had.insert(index, last.payload.bytes.to_vec());
        }
    }

    fn encode(
        &mut self,
        _: Format,
        publication: &Publication,
        patch: Option<Patch<'_>>,
        out: &mut Vec<u8>,
    ) {
        self.made += 1;
        let (kind, bytes) = match &patch {
            Some(patch) => (PATCH, patch.delta),
            None => (WHOLE, &*publication.payload.bytes),
        };
        out.push(kind);
        out.extend_from_slice(bytes);
    }

    fn deliver(&mut self, index: u32, batch: &Batch<'_>) {
        let frames = batch.encoded.expect("shared bytes").frames.each();
        assert_eq!(frames.len(), batch.publications.len());
        for (publication, frame) in batch.publications.iter().zip(frames) {
            let (kind, bytes) = frame.split_first().expect("a frame");
            let data = match *kind {
                WHOLE => {
                    self.whole += 1;
                    bytes.to_vec()
                }
                _ => {
                    self.patches += 1;
                    let had = self.had.get(&index).expect("the first one is whole");
                    throng_fossil::apply(had, bytes, 1 << 20).expect("it has the base")
                }
            };
            assert_eq!(data, *publication.payload.bytes);
            self.had.insert(index, data);
            if let Some(position) = publication.position {
                self.at.insert(index, position);
            }
        }
    }
}

struct Stage {
    hub: Hub,
    clients: Clients,
    text: String,
}

impl Stage {
    fn new() -> Self {
        let options = ChannelOptions {
            delta: true,
            recovery: true,
            retention: Retention {
                publications_max: 20,
                ttl_ms: 60_000,
            },
            ..ChannelOptions::default()
        };
        Self {
            hub: hub_of(&[("d", options)]),
            clients: Clients::default(),
            text: (0..40).map(|n| format!("\"key{n}\":{n},")).collect(),
        }
    }

    fn subscribe(&mut self, index: u32, recover: bool) {
        // Two forms: one patch serves both.
        let format = Format::new((index % 2) as u8, FormKind::Delta);
        let since = self.clients.at.get(&index).copied().filter(|_| recover);
        let command = subscribe((conn(index), 0), CHANNEL, format, since);
        self.hub.handle(command, Now::default(), &mut self.clients);
    }

    fn unsubscribe(&mut self, index: u32) {
        self.hub
            .unsubscribe(conn(index), &name(CHANNEL), Now::default());
    }

    fn publish(&mut self, text: &str, skip_history: bool) {
        let draft = Draft {
            skip_history,
            ..draft(CHANNEL, text)
        };
        self.hub.publish_here(draft, Now::default()).expect("room");
    }

    /// Changes the text, and publishes it.
    fn change_and_publish(&mut self, number: u64) {
        self.change(number);
        self.publish(&self.text.clone(), false);
    }

    /// The text with another number in it.
    fn change(&mut self, number: u64) {
        let key = format!("\"key{}\":", number % 40);
        let at = self.text.find(&key).expect("a key") + key.len();
        let end = at + self.text[at..].find(',').expect("a comma");
        self.text.replace_range(at..end, &number.to_string());
    }

    fn fan_out(&mut self, visits: usize) -> bool {
        self.hub.fan_out(visits, Now::default(), &mut self.clients)
    }
}

#[test]
fn the_first_is_whole_and_what_follows_is_made_once_for_each_form() {
    let mut stage = Stage::new();
    for index in 0..6 {
        stage.subscribe(index, false);
    }
    for number in 0..3 {
        stage.change_and_publish(number + 100);
        stage.fan_out(usize::MAX);
        assert_eq!(stage.clients.made, 2 * (number as usize + 1));
    }
    assert_eq!((stage.clients.whole, stage.clients.patches), (6, 12));
    // A later member begins with a whole one, and the others go on.
    stage.subscribe(7, false);
    stage.change_and_publish(200);
    stage.fan_out(usize::MAX);
    assert_eq!((stage.clients.whole, stage.clients.patches), (7, 18));
}

#[test]
fn what_was_recovered_is_a_base() {
    let mut stage = Stage::new();
    for index in 0..2 {
        stage.subscribe(index, false);
    }
    let publish = |stage: &mut Stage, number| {
        stage.change_and_publish(number);
        stage.fan_out(usize::MAX);
    };
    publish(&mut stage, 101);
    stage.unsubscribe(0);
    publish(&mut stage, 102);
    stage.subscribe(0, true);
    publish(&mut stage, 103);
    assert_eq!((stage.clients.whole, stage.clients.patches), (2, 3));
    // There was no member meanwhile.
    stage.unsubscribe(0);
    stage.unsubscribe(1);
    publish(&mut stage, 104);
    stage.subscribe(1, true);
    publish(&mut stage, 105);
    assert_eq!((stage.clients.whole, stage.clients.patches), (2, 4));
    // A client that missed nothing may have no publication: it gets a whole one.
    stage.unsubscribe(1);
    stage.subscribe(1, true);
    publish(&mut stage, 106);
    assert_eq!((stage.clients.whole, stage.clients.patches), (3, 4));
    // A publication outside history is no base for a recovering client.
    stage.subscribe(0, true);
    stage.unsubscribe(0);
    publish(&mut stage, 107);
    let text = stage.text.clone();
    stage.publish(&format!("{text}more"), true);
    stage.fan_out(usize::MAX);
    stage.subscribe(0, true);
    publish(&mut stage, 108);
    assert_eq!((stage.clients.whole, stage.clients.patches), (4, 7));
}

/// Each seed is a run of subscribes, unsubscribes, publications and slices of fan-outs.
#[test]
fn every_difference_can_be_read() {
    let (mut whole, mut patches) = (0, 0);
    for seed in 0..300 {
        let mut rng = Rng::new(seed);
        let mut stage = Stage::new();
        let mut subscribed = [false; 6];
        for _ in 0..120 {
            let index = rng.below(6) as u32;
            let number = rng.below(1 << 20);
            match rng.below(10) {
                0..3 if !subscribed[index as usize] => {
                    stage.subscribe(index, number.is_multiple_of(2));
                    subscribed[index as usize] = true;
                }
                0 => {
                    stage.unsubscribe(index);
                    subscribed[index as usize] = false;
                }
                1..7 => {
                    stage.change(number);
                    let text = stage.text.clone();
                    match number % 16 {
                        0 => stage.publish("short", false),
                        1 => stage.publish(&text, true),
                        _ => stage.publish(&text, false),
                    }
                }
                _ => {
                    stage.fan_out(rng.below(4) as usize);
                }
            }
        }
        fan_out(&mut stage.hub, 3, Now::default(), &mut stage.clients);
        whole += stage.clients.whole;
        patches += stage.clients.patches;
    }
    assert!(patches > whole, "{patches} of {whole}");
}

/// Data too long for differences travels whole, and so does the publication after it.
#[test]
fn a_long_one_is_whole() {
    let mut stage = Stage::new();
    stage.subscribe(0, false);
    let long = "x".repeat(throng_fossil::BYTES_MAX + 1);
    for text in [&long[1..], &long, &long[1..], &long[1..]] {
        stage.publish(text, false);
        stage.fan_out(usize::MAX);
    }
    assert_eq!((stage.clients.whole, stage.clients.patches), (3, 1));
}
