//! One home: bounds and books that the suite of brokers cannot see. What a home does for clients is
//! told there.

mod bounds;
#[expect(
    clippy::disallowed_types,
    reason = "a store and the test look at the same tape"
)]
mod durable;
mod moved;

use throng_types::json::payload_of;

use super::*;
use crate::{ChannelOptions, HistoryQuery, LiveOptions, ReplyLimit};

const SHARD: ShardId = ShardId(0);

impl Home {
    fn publish(&mut self, draft: Draft, now: Now) -> Accepted {
        let (retention, interest) = (
            self.retention(&draft.channel),
            self.interest(&draft.channel),
        );
        self.accept(draft, retention, interest, now)
    }

    /// The texts that a channel keeps, or those of a page of it.
    fn texts(&mut self, channel: &str, query: HistoryQuery, ms: u64) -> Vec<String> {
        let page = self.history(&name(channel), query, at(ms)).unwrap();
        texts(&page.publications)
    }
}

fn at(ms: u64) -> Now {
    Now {
        mono: Millis(ms),
        unix_ms: 1_700_000_000_000 + ms,
    }
}

/// Bytes that one tiny publication of a channel with a short name costs, with its stream.
const TINY_BYTES: usize = size_of::<Publication>() + STREAM_BYTES + 7;

fn options(size: u32, ttl_ms: u64, history_bytes_max: usize) -> MemoryOptions {
    let kept = ChannelOptions {
        retention: Retention {
            publications_max: size,
            ttl_ms,
        },
        recovery: true,
        ..ChannelOptions::default()
    };
    let namespaces = NamespaceOptions::new(ChannelOptions::default(), vec![("kept".into(), kept)]);
    MemoryOptions {
        nonce: 0xabcd,
        hash_seed: 1,
        history: Budget::new(history_bytes_max, 1),
        streams_max: 1000,
        reply: ReplyLimit {
            publications_max: 1000,
            members_max: 100,
            bytes_max: 1 << 20,
        },
        namespaces: Arc::new(namespaces),
    }
}

fn home(size: u32, ttl_ms: u64, history_bytes_max: usize) -> Home {
    Home::new(options(size, ttl_ms, history_bytes_max))
}

impl Home {
    /// Checks the invariants at the module's head.
    fn check(&self) {
        let (mut bytes, mut kept) = (self.keys.bytes(), 0);
        for (channel, stream) in self.streams.iter() {
            let key = self.streams.key(channel).unwrap();
            let at = (stream.due, key);
            let is_idle = stream.kept() == 0 && stream.interest == 0;
            assert_eq!(self.expiring.contains(&at), stream.kept() > 0, "{channel}");
            assert_eq!(self.idle.contains(&at), is_idle, "{channel}");
            kept += stream.kept();
            bytes += stream.cost_bytes();
            if stream.kept() > 0 {
                bytes += STREAM_BYTES + channel.as_str().len();
            }
        }
        assert!(self.expiring.len() + self.idle.len() <= self.streams.len());
        assert_eq!(
            (self.history_publications, self.share.used()),
            (kept, bytes)
        );
    }
}

fn name(name: &str) -> ChannelName {
    ChannelName::new(name).unwrap()
}

fn draft(channel: &str, data: &str) -> Draft {
    Draft::new(name(channel), payload_of(data.as_bytes()))
}

fn keyed(channel: &str, key: &str) -> Draft {
    Draft {
        idempotency_key: Some(key.into()),
        ..draft(channel, key)
    }
}

fn versioned(number: u64, channel: &str, data: &str) -> Draft {
    let epoch = "".into();
    Draft {
        version: Some(Box::new(Version { number, epoch })),
        ..draft(channel, data)
    }
}

fn publish(home: &mut Home, channel: &str, data: &str, ms: u64) -> Position {
    home.publish(draft(channel, data), at(ms)).position.unwrap()
}

fn texts(publications: &[Arc<Publication>]) -> Vec<String> {
    publications
        .iter()
        .map(|publication| String::from_utf8(publication.payload.bytes.to_vec()).unwrap())
        .collect()
}

#[track_caller]
fn check_recovery(home: &mut Home, since: Position, ms: u64, expect: Option<&[&str]>) {
    let subscribed = home.subscribe(SHARD, &name("kept:a"), Some(since), at(ms));
    match (subscribed.recovery, expect) {
        (Recovery::Whole(found), Some(expect)) => assert_eq!(texts(&found), expect),
        (Recovery::Lost, None) => {}
        (found, expect) => panic!("found {found:?}, expected {expect:?}"),
    }
}

#[test]
fn a_publication_begins_the_hour_of_a_position_anew() {
    let mut home = home(10, 1000, 1 << 20);
    publish(&mut home, "kept:a", "1", 0);
    home.tick(at(1000), 10);
    // Its hour would end at 3,601,000 now.
    let last = publish(&mut home, "kept:a", "2", 2000);
    home.tick(at(3000), 10);
    home.tick(at(3_602_000), 10);
    assert_eq!(home.stats().streams, 1);
    home.tick(at(3_603_000), 10);
    assert_eq!(home.stats(), BrokerStats::default());
    check_recovery(&mut home, last, 3_603_000, None);
}

/// The suite tells what a repeated key does.
#[test]
fn a_key_is_remembered_for_five_minutes() {
    let mut home = home(10, 1000, 1 << 20);
    for (ms, is_new) in [(0, true), (1, false), (299_999, false), (300_000, true)] {
        home.tick(at(ms), 10);
        let accepted = home.publish(keyed("kept:a", "k"), at(ms));
        assert_eq!(accepted.publication.is_some(), is_new, "{ms}");
    }
}

/// A position before the newest covers all earlier ones; one ahead of the stream is invalid.
#[test]
fn a_page_begins_at_most_one_behind_the_newest() {
    let mut home = home(4, 1000, 1 << 20);
    let newest = (1..=6).map(|n| publish(&mut home, "kept:a", &n.to_string(), n));
    let newest = newest.last().unwrap();
    for (offset, reverse, expected) in [
        (1, false, Ok(4)),
        (7, true, Ok(4)),
        (7, false, Ok(0)),
        (8, true, Err(Refusal::UnrecoverablePosition)),
        (8, false, Err(Refusal::UnrecoverablePosition)),
    ] {
        let query = HistoryQuery {
            since: Some(Position { offset, ..newest }),
            reverse,
            ..HistoryQuery::default()
        };
        let page = home.history(&name("kept:a"), query, at(7));
        assert_eq!(page.map(|page| page.publications.len()), expected);
    }
}

#[test]
fn homes_are_spread_and_stable() {
    let homes: Vec<_> = (0..100)
        .map(|n| home_of(&name(&format!("c{n}")), 4))
        .collect();
    for shard in 0..4 {
        assert!(homes.iter().filter(|home| home.0 == shard).count() > 10);
    }
    assert_eq!(home_of(&name("c1"), 1), ShardId(0));
}

fn live(size: u32) -> LiveOptions {
    let options = options(size, 10_000, 1 << 20);
    LiveOptions {
        namespaces: options.namespaces,
        reply: options.reply,
        streams_max: options.streams_max,
    }
}

#[test]
fn less_history_goes_with_the_next_publication() {
    let mut home = home(10, 10_000, 1 << 20);
    let first = publish(&mut home, "kept:a", "1", 0);
    for n in 2..6 {
        publish(&mut home, "kept:a", &n.to_string(), n);
    }
    home.renew(live(2), Millis(10));
    home.check();
    publish(&mut home, "kept:a", "6", 11);
    assert_eq!(home.stats().history_publications, 2);
    check_recovery(&mut home, first, 12, None);
    home.check();
}

#[test]
fn what_was_published_while_nothing_was_kept_is_never_passed_over() {
    let mut home = home(10, 10_000, 1 << 20);
    let before = publish(&mut home, "kept:a", "1", 0);
    home.subscribe(SHARD, &name("kept:a"), None, at(0));
    home.renew(live(0), Millis(1));
    home.check();
    // Without a position it could not be found again.
    let accepted = home.publish(draft("kept:a", "2"), at(2));
    assert_eq!(accepted.position, None);
    assert_eq!(accepted.interest, 1, "subscribers stay");
    home.renew(live(10), Millis(3));
    let after = publish(&mut home, "kept:a", "3", 4);
    assert_ne!(before.epoch, after.epoch);
    check_recovery(&mut home, before, 5, None);
    check_recovery(&mut home, after, 5, Some(&[]));
    home.check();
}
