//! One home: positions, recovery, history, idempotency.

mod bounds;
#[expect(
    clippy::disallowed_types,
    reason = "a store and the test look at the same tape"
)]
mod durable;
mod renewed;

use throng_types::{Payload, PayloadKind};

use super::*;
use crate::{Acknowledge, ChannelOptions, HistoryQuery, ReplyLimit};

const SHARD: ShardId = ShardId(0);

impl Home {
    fn publish(&mut self, draft: Draft, now: Now) -> Accepted {
        let (retention, interest) = (
            self.retention(&draft.channel),
            self.interest(&draft.channel),
        );
        self.accept(draft, retention, interest, now)
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
    let namespaces = Namespaces::new(ChannelOptions::default(), vec![("kept".into(), kept)]);
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
    Draft {
        channel: name(channel),
        payload: Payload {
            bytes: data.as_bytes().into(),
            kind: PayloadKind::Text,
        },
        publisher: None,
        tags: None,
        skip_history: false,
        idempotency_key: None,
        version: None,
        acknowledge: Acknowledge::Memory,
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
fn offsets_rise_by_one_and_begin_at_one() {
    let mut home = home(10, 1000, 1 << 20);
    assert_eq!(
        home.subscribe(SHARD, &name("kept:a"), None, at(0))
            .position
            .unwrap()
            .offset,
        0
    );
    assert_eq!(publish(&mut home, "kept:a", "1", 0).offset, 1);
    assert_eq!(publish(&mut home, "kept:a", "2", 0).offset, 2);
    assert_eq!(publish(&mut home, "kept:b", "1", 0).offset, 1);
}

#[test]
fn a_channel_without_history_has_no_positions_and_goes_to_whoever_listens() {
    let mut home = home(10, 1000, 1 << 20);
    let subscribed = home.subscribe(ShardId(3), &name("plain"), None, at(0));
    assert_eq!(
        subscribed,
        Subscribed {
            position: None,
            recovery: Recovery::NotAsked
        }
    );
    let published = home.publish(draft("plain", "x"), at(0));
    assert_eq!((published.position, published.interest), (None, 1 << 3));
    home.leave(ShardId(3), &name("plain"), at(0));
    assert_eq!(home.publish(draft("plain", "x"), at(0)).interest, 0);
    assert_eq!(home.stats().streams, 0);
}

#[test]
fn recovery_is_whole_or_lost() {
    let mut home = home(3, 1000, 1 << 20);
    let start = home
        .subscribe(SHARD, &name("kept:a"), None, at(0))
        .position
        .unwrap();
    let positions: Vec<_> = (1..=5)
        .map(|n| publish(&mut home, "kept:a", &n.to_string(), n))
        .collect();
    check_recovery(&mut home, positions[4], 6, Some(&[]));
    check_recovery(&mut home, positions[1], 6, Some(&["3", "4", "5"]));
    check_recovery(&mut home, positions[0], 6, None);
    check_recovery(&mut home, start, 6, None);
    let ahead = Position {
        offset: 6,
        ..positions[4]
    };
    check_recovery(&mut home, ahead, 6, None);
    let stranger = Position {
        epoch: throng_types::Epoch(9),
        offset: 4,
    };
    check_recovery(&mut home, stranger, 6, None);
}

#[test]
fn age_ends_history_but_not_the_stream() {
    let mut home = home(10, 1000, 1 << 20);
    let first = publish(&mut home, "kept:a", "1", 0);
    let second = publish(&mut home, "kept:a", "2", 900);
    check_recovery(&mut home, first, 1500, Some(&["2"]));
    check_recovery(&mut home, first, 1900, None);
    check_recovery(&mut home, second, 1900, Some(&[]));
    assert_eq!(home.stats().history_bytes, 0);
    assert_eq!(publish(&mut home, "kept:a", "3", 2000).offset, 3);
}

#[test]
fn a_forgotten_stream_returns_with_another_epoch() {
    let mut home = home(10, 1000, 1 << 20);
    let old = publish(&mut home, "kept:a", "1", 0);
    for ms in (0..10_000_000).step_by(100_000) {
        home.tick(at(ms), 100);
    }
    assert_eq!(home.stats(), BrokerStats::default());
    let new = publish(&mut home, "kept:a", "2", 10_000_000);
    assert_eq!(new.offset, 1);
    assert_ne!(new.epoch, old.epoch);
    check_recovery(&mut home, old, 10_000_000, None);
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

#[test]
fn a_stream_that_never_had_a_publication_is_the_same_stream_when_it_returns() {
    let mut home = home(10, 1000, 1 << 20);
    let before = home
        .subscribe(SHARD, &name("kept:a"), None, at(0))
        .position
        .unwrap();
    home.leave(SHARD, &name("kept:a"), at(0));
    assert_eq!(home.stats().streams, 0);
    publish(&mut home, "kept:a", "1", 5);
    check_recovery(&mut home, before, 6, Some(&["1"]));
}

#[test]
fn a_repeated_key_is_answered_but_not_delivered() {
    let mut home = home(10, 1000, 1 << 20);
    let keyed = || Draft {
        idempotency_key: Some("k".into()),
        ..draft("kept:a", "1")
    };
    let first = home.publish(keyed(), at(0));
    let again = home.publish(keyed(), at(1));
    assert!(first.publication.is_some() && again.publication.is_none());
    assert_eq!(first.position, again.position);
    home.tick(at(299_999), 10);
    assert!(home.publish(keyed(), at(299_999)).publication.is_none());
    home.tick(at(300_000), 10);
    assert!(home.publish(keyed(), at(300_000)).publication.is_some());
    // The key is another one in another channel.
    let elsewhere = Draft {
        channel: name("kept:b"),
        ..keyed()
    };
    assert!(home.publish(elsewhere, at(300_000)).publication.is_some());
}

#[test]
fn history_pages_go_both_ways() {
    let mut home = home(4, 1000, 1 << 20);
    let positions: Vec<_> = (1..=6)
        .map(|n| publish(&mut home, "kept:a", &n.to_string(), n))
        .collect();
    let mut page = |limit, since: Option<usize>, reverse| {
        let query = HistoryQuery {
            limit,
            since: since.map(|n| positions[n - 1]),
            reverse,
        };
        texts(
            &home
                .history(&name("kept:a"), query, at(7))
                .unwrap()
                .publications,
        )
    };
    assert_eq!(page(None, None, false), ["3", "4", "5", "6"]);
    assert_eq!(page(Some(0), None, false), [""; 0]);
    assert_eq!(page(Some(2), None, false), ["3", "4"]);
    assert_eq!(page(Some(2), None, true), ["6", "5"]);
    assert_eq!(page(None, Some(4), false), ["5", "6"]);
    assert_eq!(page(None, Some(5), true), ["4", "3"]);
    assert_eq!(page(None, Some(1), false), ["3", "4", "5", "6"]);
    // A position before the newest covers all earlier ones; one ahead of the stream is invalid.
    let newest = positions[5];
    for (offset, reverse, expected) in [
        (7, true, Ok(4)),
        (7, false, Ok(0)),
        (8, true, Err(Refusal::UnrecoverablePosition)),
        (8, false, Err(Refusal::UnrecoverablePosition)),
    ] {
        let query = HistoryQuery {
            limit: None,
            since: Some(Position { offset, ..newest }),
            reverse,
        };
        let page = home.history(&name("kept:a"), query, at(7));
        assert_eq!(page.map(|page| page.publications.len()), expected);
    }
    let unknown = home.history(
        &name("plain"),
        HistoryQuery {
            limit: None,
            since: None,
            reverse: false,
        },
        at(7),
    );
    assert_eq!(unknown, Err(Refusal::NotAvailable));
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
