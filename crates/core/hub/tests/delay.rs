//! Plays the dialogues in `delay.txt`: in a channel with a delay publications gather, and no member
//! waits longer than the delay. With "latest only" each subscription gets the newest publication of
//! each window, and is told no other.
//!
//! Channels in `late:` have a delay of 5 ms; those in `price:` and `kept:` conflate within a window
//! of 50 ms, and `kept:` has history.
//!
//! Steps: `N subscribes CHANNEL`, `again` from its position; `N unsubscribes CHANNEL`; `N goes`;
//! `publish CHANNEL TEXT ..`, each word by itself; `fill CHANNEL COUNT` publishes so many. `at MS
//! [VISITS]` lets the hub work; `delivered SLOT:TEXT,.. ..` is what each batch then had, and
//! `counted SLOT:COUNT ..` how much; `next MS` is when the hub has more to do. `N stands at OFFSET`
//! in `kept:a`; `recovered TEXT ..` by the last subscribe; `conflated COUNT` and `carried COUNT` so
//! far; `channels COUNT`; `hurry`; the hub `rests`.

use std::collections::BTreeMap;

use throng_broker::{ChannelOptions, Draft, Overflow, Recovery, Retention};
use throng_dialogue::{AssertingStage, check_list, number, play_asserting};
use throng_hub::{Answer, FormKind, Format, Hub};
use throng_solo::{Heard, conn, draft, hub_of, name, subscribe};
use throng_types::{Millis, Now, Position, Publication, Rng};

/// Window of the channels that conflate, in milliseconds.
const WINDOW_MS: u64 = 50;

#[test]
fn delays_have_their_dialogues() {
    play_asserting("delay.txt", include_str!("delay.txt"), Stage::new);
}

struct Stage {
    hub: Hub,
    now: Now,
    heard: Heard,
    /// Position of each connection in each channel.
    positions: BTreeMap<(u32, String), Position>,
    recovered: Vec<String>,
    /// Texts of each batch of the last turn, by slot.
    delivered: Vec<(u32, Vec<String>)>,
    /// When the hub has more to do.
    next: Option<Millis>,
}

fn text(publication: &Publication) -> String {
    String::from_utf8_lossy(&publication.payload.bytes).into_owned()
}

impl Stage {
    fn new() -> Self {
        let late = ChannelOptions {
            max_delay_ms: 5,
            ..ChannelOptions::default()
        };
        let price = ChannelOptions {
            max_delay_ms: WINDOW_MS as u32,
            overflow: Overflow::LatestOnly,
            ..ChannelOptions::default()
        };
        let kept = ChannelOptions {
            recovery: true,
            retention: Retention {
                publications_max: 100,
                ttl_ms: 60_000,
            },
            ..price
        };
        Self {
            hub: hub_of(&[("late", late), ("price", price), ("kept", kept)]),
            now: Now::default(),
            heard: Heard::default(),
            positions: BTreeMap::new(),
            recovered: Vec::new(),
            delivered: Vec::new(),
            next: None,
        }
    }

    /// Connections with odd numbers encode for themselves.
    fn subscribe(&mut self, index: u32, channel: &str, from: Option<Position>) {
        let kind = match index % 2 {
            0 => FormKind::Shared,
            _ => FormKind::Personal,
        };
        let format = Format::new((index % 2) as u8, kind);
        let command = subscribe((conn(index), 0), channel, format, from);
        self.hub.handle(command, self.now, &mut self.heard);
        for (reply_to, answer) in self.heard.answers.drain(..) {
            let Answer::Subscribed { channel, result } = answer else {
                panic!("{answer:?}");
            };
            let subscribed = result.expect("room");
            let place = (reply_to.conn.index(), channel.to_string());
            self.positions
                .extend(subscribed.position.map(|position| (place, position)));
            if let Recovery::Whole(missed) = subscribed.recovery {
                self.recovered = missed.iter().map(|it| text(it)).collect();
            }
        }
    }

    fn publish(&mut self, channel: &str, text: &str) {
        let draft = Draft {
            tags: Some("t".into()),
            ..draft(channel, text)
        };
        self.hub.publish_here(draft, self.now).expect("room");
    }

    /// Lets the hub work at a time, with that many visits. Keeps the first 20 letters of each
    /// publication, and checks that positions rise.
    fn at(&mut self, ms: u64, visits: usize) -> &[(u32, Vec<String>)] {
        self.now.mono = Millis(ms);
        let more = self.hub.fan_out(visits, self.now, &mut self.heard);
        self.next = match more {
            true => Some(self.now.mono),
            false => self.hub.deadline(),
        };
        self.delivered.clear();
        for batch in self.heard.deliveries.drain(..) {
            let frames = batch.frames.as_ref().map(Vec::len);
            assert!(frames.is_none_or(|count| count == batch.publications.len()));
            let mut texts = Vec::new();
            for publication in &batch.publications {
                let text = text(publication);
                texts.push(text.get(..20).unwrap_or(&text).to_owned());
                if let Some(position) = publication.position {
                    let place = (batch.index, publication.channel.to_string());
                    let before = self.positions.insert(place, position);
                    assert!(before.is_none_or(|before| before.offset < position.offset));
                }
            }
            self.delivered.push((batch.index, texts));
        }
        self.delivered.sort();
        &self.delivered
    }

    /// The offset at which a connection stands in `kept:a`.
    fn offset(&self, index: u32) -> u64 {
        self.positions[&(index, "kept:a".to_owned())].offset
    }

    fn client(&mut self, index: u32, step: &str) {
        let words: Vec<&str> = step.split(' ').collect();
        match *words {
            ["subscribes", channel] => self.subscribe(index, channel, None),
            ["subscribes", channel, "again"] => {
                let position = self.positions[&(index, channel.to_owned())];
                self.subscribe(index, channel, Some(position));
            }
            ["unsubscribes", channel] => {
                self.hub.unsubscribe(conn(index), &name(channel), self.now);
            }
            ["goes"] => self.hub.gone(conn(index), self.now),
            ["stands", "at", offset] => check_list(&[self.offset(index)], offset, ""),
            _ => panic!("no step of a connection"),
        }
    }
}

impl AssertingStage for Stage {
    fn step(&mut self, step: &str) {
        let (verb, rest) = step.split_once(' ').unwrap_or((step, ""));
        if let Ok(index) = verb.parse() {
            return self.client(index, rest);
        }
        let words: Vec<&str> = rest.split(' ').collect();
        match (verb, &*words) {
            ("publish", [channel, texts @ ..]) => {
                texts.iter().for_each(|text| self.publish(channel, text));
            }
            ("fill", [channel, count]) => {
                (0..number(count)).for_each(|_: u32| self.publish(channel, "x"));
            }
            ("at", [ms, visits @ ..]) => {
                let visits = visits.first().map_or(100, |visits| number(visits));
                self.at(number(ms), visits);
            }
            ("delivered", _) => {
                let all = self.delivered.iter();
                let all = all.map(|(index, texts)| format!("{index}:{}", texts.join(",")));
                check_list(&all.collect::<Vec<_>>(), rest, " ");
            }
            ("counted", _) => {
                let all = self.delivered.iter();
                let all = all.map(|(index, texts)| format!("{index}:{}", texts.len()));
                check_list(&all.collect::<Vec<_>>(), rest, " ");
            }
            ("next", _) => {
                let next: Vec<u64> = self.next.iter().map(|at| at.0).collect();
                check_list(&next, rest, " ");
            }
            ("recovered", _) => check_list(&self.recovered, rest, " "),
            ("conflated", _) => check_list(&[self.hub.stats().conflated], rest, " "),
            ("carried", _) => check_list(&[self.heard.carried.len()], rest, " "),
            ("channels", _) => check_list(&[self.hub.stats().channels], rest, " "),
            ("hurry", _) => self.hub.hurry(),
            ("rests", _) => assert!(self.hub.is_at_rest()),
            _ => panic!("no step"),
        }
    }
}

/// Neither their number nor their size ends a window, fills the queue, or is encoded in vain.
#[test]
fn a_window_holds_any_number_of_any_size() {
    let mut stage = Stage::new();
    stage.subscribe(0, "price:a", None);
    let large = "x".repeat(400 << 10);
    for n in 0..100_000 {
        match n % 1000 {
            0 => stage.publish("price:a", &format!("{n:020}{large}")),
            _ => stage.publish("price:a", &format!("{n:020}")),
        }
        if n % 100 == 0 {
            assert_eq!(stage.at(n / 3000, 100), [], "{n}");
        }
        stage.heard.carried.clear();
    }
    stage.publish("price:a", &format!("{:020}{large}", 100_000));
    let newest = format!("{:020}", 100_000);
    assert_eq!(stage.at(WINDOW_MS, 100), [(0, vec![newest])]);
    assert_eq!(stage.heard.encoded, 1);
}

/// In any order of publications, members and visits: offsets rise, all members end with the newest,
/// and none gets two within a window.
#[test]
fn nobody_gets_two_in_a_window_and_everybody_gets_the_last() {
    for seed in 1..200 {
        let mut rng = Rng::new(seed);
        let mut stage = Stage::new();
        let mut members: BTreeMap<u32, Option<u64>> = BTreeMap::new();
        let mut published = 0;
        let mut ms = 0;
        for _ in 0..300 {
            ms += rng.below(8);
            let index = rng.below(6) as u32;
            match rng.below(10) {
                0 if !members.contains_key(&index) => {
                    members.insert(index, None);
                    stage.subscribe(index, "kept:a", None);
                }
                1 if members.remove(&index).is_some() => stage.hub.gone(conn(index), stage.now),
                2..=6 => {
                    published += 1;
                    stage.publish("kept:a", &published.to_string());
                }
                _ => {
                    for (index, _) in stage.at(ms, 1 + rng.below(4) as usize) {
                        let last = members.get_mut(index).expect("a member");
                        let early = last.replace(ms).is_some_and(|last| ms < last + WINDOW_MS);
                        assert!(!early, "seed {seed}: {index} at {ms}");
                    }
                }
            }
        }
        published += 1;
        stage.publish("kept:a", &published.to_string());
        for more in 0..100 {
            stage.at(ms + more * WINDOW_MS, 100);
        }
        assert!(stage.hub.is_at_rest(), "seed {seed}");
        for index in members.keys() {
            assert_eq!(stage.offset(*index), published, "seed {seed}: {index}");
        }
    }
}
