//! A channel with a delay: publications gather, and no member waits longer than the delay. With
//! "latest only" each subscription gets the newest publication of each window, and is told no
//! other.

use std::collections::BTreeMap;

use throng_broker::{ChannelOptions, Draft, Overflow, Recovery, Retention};
use throng_hub::{Answer, FormKind, Format, Hub};
use throng_solo::{Heard, conn, draft, hub_of, name, subscribe};
use throng_types::{Millis, Now, Position, Publication, Rng};

/// Window of the channels that conflate, in milliseconds.
const WINDOW_MS: u64 = 50;

/// A hub; `late:` has a delay of 5 ms, `price:` and `kept:` conflate within a window, and `kept:`
/// has history.
struct Stage {
    hub: Hub,
    now: Now,
    heard: Heard,
    /// Position of each connection in each channel.
    positions: BTreeMap<(u32, String), Position>,
    recovered: Vec<String>,
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
        }
    }

    /// A stage with so many members of `late:a`, from slot 0 on.
    fn late(members: u32) -> Self {
        let mut stage = Self::new();
        (0..members).for_each(|index| stage.subscribe(index, "late:a", None));
        stage
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

    /// Deliveries at a time, with that many visits: the slot and the first 20 letters of each.
    /// Checks that positions rise.
    fn at(&mut self, ms: u64, visits: usize) -> Vec<(u32, String)> {
        self.now.mono = Millis(ms);
        self.hub.fan_out(visits, self.now, &mut self.heard);
        let mut got = Vec::new();
        for batch in self.heard.deliveries.drain(..) {
            let frames = batch.frames.as_ref().map(Vec::len);
            assert!(frames.is_none_or(|count| count == batch.publications.len()));
            for publication in &batch.publications {
                let text = text(publication);
                let shown = text.get(..20).unwrap_or(&text).to_owned();
                got.push((batch.index, shown));
                if let Some(position) = publication.position {
                    let place = (batch.index, publication.channel.to_string());
                    let before = self.positions.insert(place, position);
                    assert!(before.is_none_or(|before| before.offset < position.offset));
                }
            }
        }
        got.sort();
        got
    }

    /// Numbers of publications for each slot at a time, and when the hub has more to do.
    fn counts(&mut self, ms: u64, visits: usize) -> (Vec<(u32, usize)>, Option<u64>) {
        self.now.mono = Millis(ms);
        let more = self.hub.fan_out(visits, self.now, &mut self.heard);
        let deadline = self.hub.deadline().map(|at| at.0);
        let next = if more { Some(ms) } else { deadline };
        let counts = self.heard.deliveries.drain(..);
        let mut counts: Vec<_> = counts.map(|it| (it.index, it.publications.len())).collect();
        counts.sort_unstable();
        (counts, next)
    }
}

fn got(all: &[(u32, &str)]) -> Vec<(u32, String)> {
    all.iter()
        .map(|(index, text)| (*index, (*text).to_owned()))
        .collect()
}

#[test]
fn publications_gather_for_so_long() {
    let mut stage = Stage::late(2);
    stage.subscribe(2, "a", None);
    stage.publish("late:a", "1");
    stage.publish("a", "1");
    assert_eq!(
        stage.counts(0, 100),
        (vec![(2, 1)], Some(5)),
        "others go on"
    );
    stage.publish("late:a", "1");
    assert_eq!(stage.counts(4, 100), (vec![], Some(5)));
    stage.publish("late:a", "1");
    assert_eq!(stage.counts(5, 100), (vec![(0, 3), (1, 3)], None));
    // The next one begins anew.
    stage.publish("late:a", "1");
    assert_eq!(stage.counts(7, 100), (vec![], Some(12)));
    assert_eq!(stage.counts(30, 100), (vec![(0, 1), (1, 1)], None));
}

#[test]
fn a_round_goes_to_its_end_and_the_rest_gathers_again() {
    let mut stage = Stage::late(3);
    stage.publish("late:a", "1");
    stage.counts(0, 100);
    assert_eq!(stage.counts(5, 1), (vec![(0, 1)], Some(5)));
    stage.publish("late:a", "1");
    // Those who were not visited yet get both at once.
    assert_eq!(stage.counts(6, 100), (vec![(1, 2), (2, 2)], Some(11)));
    assert_eq!(stage.counts(11, 100), (vec![(0, 1)], None));
}

#[test]
fn as_many_as_one_visit_carries_do_not_wait() {
    let mut stage = Stage::late(1);
    stage.publish("late:a", "1");
    assert_eq!(stage.counts(0, 100), (vec![], Some(5)));
    for _ in 0..255 {
        stage.publish("late:a", "1");
    }
    assert_eq!(stage.counts(1, 100), (vec![(0, 256)], None));
}

#[test]
fn members_come_and_go_during_a_rest() {
    let mut stage = Stage::late(2);
    stage.publish("late:a", "1");
    stage.counts(0, 100);
    stage.subscribe(7, "late:a", None);
    stage.hub.gone(conn(0), stage.now);
    stage.publish("late:a", "1");
    assert_eq!(stage.counts(5, 100), (vec![(1, 2), (7, 1)], None));
    // The last member leaves: nothing waits for it.
    stage.publish("late:a", "1");
    assert_eq!(stage.counts(6, 100), (vec![], Some(11)));
    for index in [1, 7] {
        stage.hub.gone(conn(index), stage.now);
    }
    assert_eq!(stage.counts(7, 100), (vec![], None));
    assert_eq!(stage.hub.stats().channels, 0);
}

#[test]
fn each_subscription_gets_the_newest_of_each_window() {
    let mut stage = Stage::new();
    for index in 0..3 {
        stage.subscribe(index, "price:a", None);
    }
    stage.subscribe(0, "price:b", None);
    stage.subscribe(0, "c", None);
    for n in 0..5 {
        stage.publish("price:a", &format!("a{n}"));
        stage.publish("price:b", &format!("b{n}"));
        stage.publish("c", &format!("c{n}"));
        assert_eq!(stage.at(n * 9, 100), got(&[(0, &format!("c{n}"))]));
    }
    let window = stage.at(WINDOW_MS, 100);
    assert_eq!(window, got(&[(0, "a4"), (0, "b4"), (1, "a4"), (2, "a4")]));
    // 4 of `a` to three, 4 of `b` to one.
    assert_eq!(stage.hub.stats().conflated, 16);
    // Everything with tags is told of once, delivered or not.
    assert_eq!(stage.heard.carried.len(), 15);
    // Nothing is said twice, and the next window begins with the next publication.
    assert_eq!(stage.at(200, 100), got(&[]));
    stage.publish("price:a", "a5");
    assert_eq!(stage.at(210, 100), got(&[]));
    let window = stage.at(210 + WINDOW_MS, 100);
    assert_eq!(window, got(&[(0, "a5"), (1, "a5"), (2, "a5")]));
    assert_eq!(stage.hub.stats().conflated, 16);
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
            assert_eq!(stage.at(n / 3000, 100), got(&[]), "{n}");
        }
        stage.heard.carried.clear();
    }
    stage.publish("price:a", &format!("{:020}{large}", 100_000));
    let newest = format!("{:020}", 100_000);
    assert_eq!(stage.at(WINDOW_MS, 100), got(&[(0, &newest)]));
    assert_eq!(stage.heard.encoded, 1);
}

#[test]
fn who_comes_in_a_window_gets_what_is_newer_and_who_goes_is_not_waited_for() {
    let mut stage = Stage::new();
    stage.subscribe(0, "price:a", None);
    stage.publish("price:a", "1");
    stage.at(0, 100);
    stage.subscribe(1, "price:a", None);
    let window = stage.at(WINDOW_MS, 100);
    assert_eq!(window, got(&[(0, "1")]), "it was there before they came");
    stage.publish("price:a", "2");
    stage.at(60, 100);
    stage.subscribe(2, "price:a", None);
    stage.publish("price:a", "3");
    stage.hub.gone(conn(0), stage.now);
    assert_eq!(stage.at(60 + WINDOW_MS, 100), got(&[(1, "3"), (2, "3")]));
    stage.publish("price:a", "4");
    stage.at(120, 100);
    stage.hub.unsubscribe(conn(1), &name("price:a"), stage.now);
    stage.hub.gone(conn(2), stage.now);
    assert_eq!(stage.at(500, 100), got(&[]));
    assert_eq!(stage.hub.stats().channels, 0);
    assert!(stage.hub.is_at_rest());
}

/// Members that are visited late in a round get what is the newest then, and that alone.
#[test]
fn a_round_in_slices_gives_each_member_what_is_newest_at_its_visit() {
    let mut stage = Stage::new();
    for index in [0, 2, 4] {
        stage.subscribe(index, "price:a", None);
    }
    stage.publish("price:a", "1");
    stage.at(0, 100);
    assert_eq!(stage.at(WINDOW_MS, 1), got(&[(0, "1")]));
    stage.publish("price:a", "2");
    assert_eq!(stage.at(51, 1), got(&[(2, "2")]));
    stage.publish("price:a", "3");
    assert_eq!(stage.at(52, 100), got(&[(4, "3")]));
    // Two did not need the first, one not the second, and two have yet to get the third.
    assert_eq!(stage.hub.stats().conflated, 4);
    assert_eq!(stage.at(52 + WINDOW_MS, 100), got(&[(0, "3"), (2, "3")]));
    assert!(stage.hub.is_at_rest());
}

/// Conflated publications stay in history: a client that was cut off gets them from its position
/// on.
#[test]
fn positions_pass_over_what_was_not_delivered_and_recovery_gives_all_that_came_after() {
    let mut stage = Stage::new();
    stage.subscribe(0, "kept:a", None);
    for n in 1..=4 {
        stage.publish("kept:a", &n.to_string());
    }
    stage.at(0, 100);
    assert_eq!(stage.at(WINDOW_MS, 100), got(&[(0, "4")]));
    let position = stage.positions[&(0, "kept:a".to_owned())];
    assert_eq!(position.offset, 4);
    // It leaves in the middle of a window.
    for n in 5..=7 {
        stage.publish("kept:a", &n.to_string());
    }
    stage.at(60, 100);
    stage.hub.gone(conn(0), stage.now);
    stage.subscribe(0, "kept:a", Some(position));
    assert_eq!(stage.recovered, ["5", "6", "7"]);
    stage.publish("kept:a", "8");
    stage.at(70, 100);
    assert_eq!(stage.at(70 + WINDOW_MS, 100), got(&[(0, "8")]));
}

/// Before an upgrade windows end early, so that none has to move.
#[test]
fn a_hub_in_a_hurry_ends_its_windows() {
    let mut stage = Stage::new();
    stage.subscribe(0, "price:a", None);
    for n in 1..=4 {
        stage.publish("price:a", &n.to_string());
    }
    assert_eq!(stage.at(0, 100), got(&[]));
    stage.hub.hurry();
    assert_eq!(stage.at(1, 100), got(&[(0, "4")]));
    assert!(stage.hub.is_at_rest());
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
                        let last = members.get_mut(&index).expect("a member");
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
            let offset = stage.positions[&(*index, "kept:a".to_owned())].offset;
            assert_eq!(offset, published, "seed {seed}: {index}");
        }
    }
}
