//! Positions, recovery, history and its end, idempotency, versions.

use throng_broker::{Draft, HistoryQuery, Outcome, Recovery, Refusal, Request, Version};
use throng_types::{Epoch, Position, ShardId};

use crate::cluster::{KEPT, TTL_MS};
use crate::tester::{ALL, Tester, draft, expect_recovery, name, texts};

/// Publishes the numbers from 1 to `count`.
fn numbers(tester: &mut Tester, channel: &str, count: u32) -> (Vec<String>, Vec<Position>) {
    let texts: Vec<String> = (1..=count).map(|n| n.to_string()).collect();
    let positions = texts.iter().map(|text| tester.publish(channel, text));
    let positions = positions
        .map(|position| position.expect("a position"))
        .collect();
    (texts, positions)
}

/// A position so many behind another, where nothing has been published.
const fn ahead(position: Position, by: u64) -> Position {
    let offset = position.offset + by;
    Position { offset, ..position }
}

/// A position of another stream.
const fn foreign(position: Position) -> Position {
    let epoch = Epoch(position.epoch.0 ^ 1);
    Position { epoch, ..position }
}

/// Positions of one stream have one epoch, and rise.
pub fn positions_rise_and_begin_at_one_epoch(tester: &mut Tester) {
    for channel in ["kept:a", "kept:b"] {
        let shard = tester.shard();
        let start = tester.subscribe(shard, channel, None);
        assert_eq!(start.recovery, Recovery::NotAsked);
        let mut last = start.position.expect("a position");
        for position in numbers(tester, channel, 5).1 {
            assert_eq!(position.epoch, last.epoch);
            assert!(position.offset > last.offset);
            last = position;
        }
        let again = tester.subscribe(shard, channel, None);
        assert_eq!(again.position, Some(last));
    }
    assert_eq!(tester.publish("plain", "x"), None);
}

/// A client gets everything that it missed, or is told that something is missing.
pub fn recovery_is_whole_or_lost(tester: &mut Tester) {
    let shard = tester.shard();
    let start = tester.subscribe(shard, "kept:a", None).position;
    let start = start.expect("a position");
    let (texts, positions) = numbers(tester, "kept:a", KEPT + 3);
    for (at, &position) in positions.iter().enumerate() {
        let missed = &texts[at + 1..];
        let is_kept = missed.len() <= KEPT as usize;
        let found = tester.recover("kept:a", position);
        expect_recovery(&found, is_kept.then_some(missed));
    }
    expect_recovery(&tester.recover("kept:a", start), None);
    expect_recovery(&tester.recover("kept:a", Position::START), None);
    let top = positions[positions.len() - 1];
    for wrong in [ahead(top, 1), foreign(top)] {
        expect_recovery(&tester.recover("kept:a", wrong), None);
    }
    // A stream without publications has nothing to lose.
    let start = tester.subscribe(shard, "kept:b", None).position;
    let start = start.expect("a position");
    expect_recovery(&tester.recover("kept:b", start), Some(&[]));
    tester.leave(shard, "kept:b");
    numbers(tester, "kept:b", 1);
    for beginning in [start, Position::START] {
        expect_recovery(&tester.recover("kept:b", beginning), Some(&["1".into()]));
    }
}

/// A client gets the newest publication, or nothing if it has that.
pub fn a_cache_gives_the_newest(tester: &mut Tester) {
    let shard = tester.shard();
    let start = tester.subscribe(shard, "last:a", None).position;
    let start = start.expect("a position");
    expect_recovery(&tester.recover("last:a", start), Some(&[]));
    let (texts, positions) = numbers(tester, "last:a", KEPT + 3);
    let newest = &texts[texts.len() - 1..];
    let top = positions[positions.len() - 1];
    for before in [start, Position::START, positions[0], foreign(top)] {
        expect_recovery(&tester.recover("last:a", before), Some(newest));
    }
    expect_recovery(&tester.recover("last:a", top), Some(&[]));
    // When it has gone, only the position itself is known to miss nothing.
    tester.pass(TTL_MS * 2);
    expect_recovery(&tester.recover("last:a", top), Some(&[]));
    expect_recovery(&tester.recover("last:a", positions[0]), None);
}

/// In channels without recovery, a subscriber that asks for it gets `Lost`.
pub fn recovery_is_for_channels_that_have_it(tester: &mut Tester) {
    let (_, positions) = numbers(tester, "past:a", 2);
    expect_recovery(&tester.recover("past:a", positions[1]), None);
    expect_recovery(&tester.recover("plain", positions[1]), None);
    let shard = tester.shard();
    let plain = tester.subscribe(shard, "plain", None);
    assert_eq!((plain.position, plain.recovery), (None, Recovery::NotAsked));
}

/// A position of a stream that was forgotten recovers nothing from its successor.
pub fn a_forgotten_stream_is_never_continued(tester: &mut Tester) {
    let (_, before) = numbers(tester, "kept:a", 2);
    for _ in 0..40 {
        tester.pass(TTL_MS * 4);
    }
    if let Some(stats) = tester.stats() {
        assert_eq!(stats, throng_broker::BrokerStats::default());
    }
    numbers(tester, "kept:a", 3);
    for position in before {
        expect_recovery(&tester.recover("kept:a", position), None);
    }
}

/// Pages after and before a position, oldest or newest first.
pub fn history_pages_go_both_ways(tester: &mut Tester) {
    let (all, positions) = numbers(tester, "kept:a", KEPT);
    let mut page = |limit, since: Option<usize>, reverse| {
        let since = since.map(|at| positions[at]);
        let query = HistoryQuery {
            limit,
            since,
            reverse,
        };
        let page = tester.history("kept:a", query).expect("a page");
        assert_eq!(page.position, positions.last().copied());
        texts(&page.publications)
    };
    let newest_first: Vec<String> = all.iter().rev().cloned().collect();
    assert_eq!(page(None, None, false), all);
    assert_eq!(page(None, None, true), newest_first);
    assert_eq!(page(Some(0), None, false), [""; 0]);
    assert_eq!(page(Some(3), None, false), all[..3]);
    assert_eq!(page(Some(3), None, true), newest_first[..3]);
    assert_eq!(page(None, Some(2), false), all[3..]);
    assert_eq!(page(Some(2), Some(2), false), all[3..5]);
    assert_eq!(
        page(None, Some(2), true),
        newest_first[newest_first.len() - 2..]
    );
    let top = positions[positions.len() - 1];
    for since in [ahead(top, 2), foreign(top)].map(Some) {
        let wrong = tester.history("kept:a", HistoryQuery { since, ..ALL });
        assert_eq!(wrong, Err(Refusal::UnrecoverablePosition));
    }
    assert_eq!(tester.history("plain", ALL), Err(Refusal::NotAvailable));
    let unused = tester.history("kept:never", ALL).expect("a page");
    assert!(unused.publications.is_empty() && unused.position.is_some());
}

/// Publications older than the channel's time are not given any more.
pub fn history_expires(tester: &mut Tester) {
    let first = tester.publish("kept:a", "1").expect("a position");
    tester.pass(TTL_MS / 2);
    let second = tester.publish("kept:a", "2").expect("a position");
    tester.pass(TTL_MS / 2 - 1);
    assert_eq!(tester.kept("kept:a"), ["1", "2"]);
    tester.pass(1);
    assert_eq!(tester.kept("kept:a"), ["2"]);
    expect_recovery(&tester.recover("kept:a", first), Some(&["2".into()]));
    tester.pass(TTL_MS / 2);
    assert_eq!(tester.kept("kept:a"), [""; 0]);
    expect_recovery(&tester.recover("kept:a", first), None);
    expect_recovery(&tester.recover("kept:a", second), Some(&[]));
    let third = tester.publish("kept:a", "3").expect("a position");
    assert_eq!(third.epoch, second.epoch);
    assert!(third.offset > second.offset);
}

/// A channel keeps its newest.
pub fn old_history_goes_when_its_channel_is_full(tester: &mut Tester) {
    let (texts, _) = numbers(tester, "kept:a", KEPT * 2);
    assert_eq!(tester.kept("kept:a"), texts[KEPT as usize..]);
}

/// A draft with a key that was used is answered like the first, and not delivered.
pub fn a_key_is_published_once(tester: &mut Tester) {
    let listener = tester.shard();
    for channel in ["kept:a", "kept:b", "plain"] {
        tester.subscribe(listener, channel, None);
        let keyed = |text: &str| Draft {
            idempotency_key: Some("k".into()),
            ..draft(channel, text)
        };
        let first = tester.offer(listener, keyed("1")).expect("room");
        tester.publish(channel, "2");
        for shard in tester.shards() {
            let again = tester.offer(shard, keyed("3")).expect("room");
            assert_eq!(again.position, first.position);
            assert_eq!(again.shards.unwrap_or(0), 0);
        }
        assert_eq!(tester.delivered(listener), ["1", "2"], "{channel}");
    }
    tester.pass(TTL_MS);
    tester.pass(300_000);
    let again = Draft {
        idempotency_key: Some("k".into()),
        ..draft("plain", "4")
    };
    tester.offer(listener, again).expect("room");
    assert_eq!(tester.delivered(listener), ["4"]);
}

/// A version that is not newer than the newest of its channel is answered, not delivered and not
/// kept. Versions of another epoch begin anew, and an empty epoch is compared with all.
pub fn an_older_version_is_not_published(tester: &mut Tester) {
    let listener = tester.shard();
    tester.subscribe(listener, "kept:v", None);
    for (number, epoch, text, is_published) in [
        (2, "", "2", true),
        (2, "", "2 again", false),
        (1, "", "1", false),
        (3, "a", "3a", true),
        (1, "b", "1b", true),
        (1, "b", "1b again", false),
        (1, "", "1 again", false),
        (2, "", "2 later", true),
    ] {
        let shard = tester.shard();
        let versioned = versioned("kept:v", text, number, epoch);
        let published = tester.offer(shard, versioned).expect("room");
        let kept = tester.kept("kept:v");
        let offset = published.position.map(|position| position.offset);
        assert_eq!(offset, Some(kept.len() as u64), "{text}");
        assert_eq!(
            kept.last().map(String::as_str) == Some(text),
            is_published,
            "{text}"
        );
        let delivered = tester.delivered(listener);
        assert_eq!(delivered.len(), usize::from(is_published), "{text}");
    }
    // Without a version nothing is compared.
    tester.publish("kept:v", "plain");
    assert_eq!(tester.kept("kept:v").len(), 5);
}

fn versioned(channel: &str, text: &str, number: u64, epoch: &str) -> Draft {
    let epoch = epoch.into();
    Draft {
        version: Some(Box::new(Version { number, epoch })),
        ..draft(channel, text)
    }
}

/// Versions that began anew elsewhere count for a shard that has heard nothing of it.
pub fn versions_are_compared_with_the_newest_of_all(tester: &mut Tester) {
    for other in tester.shards() {
        let channel = format!("kept:v{}", other.0);
        let publications = [
            (ShardId(0), "5a", 5, "a"),
            (other, "1b", 1, "b"),
            (ShardId(0), "2", 2, ""),
        ];
        for (shard, text, number, epoch) in publications {
            let versioned = versioned(&channel, text, number, epoch);
            tester.offer(shard, versioned).expect("room");
        }
        assert_eq!(tester.kept(&channel), ["5a", "1b", "2"]);
    }
}

fn forget(tester: &mut Tester, channel: &str) -> Result<(), Refusal> {
    let shard = tester.shard();
    let channel = name(channel);
    let ticket = tester.ask(shard, |ticket| Request::Forget { ticket, channel });
    tester.settle();
    match tester.reply(shard, ticket) {
        Some(Outcome::History(result)) => result.map(|_| ()),
        other => panic!("{other:?} to a wish to forget"),
    }
}

/// Publications are forgotten, and the stream goes on where it stood.
pub fn a_history_is_forgotten_and_its_stream_goes_on(tester: &mut Tester) {
    for text in ["1", "2"] {
        tester.publish("kept:f", text);
    }
    assert_eq!(forget(tester, "kept:f"), Ok(()));
    assert_eq!(tester.kept("kept:f"), [""; 0]);
    let position = tester.publish("kept:f", "3").expect("a position");
    assert_eq!(position.offset, 3);
    assert_eq!(tester.kept("kept:f"), ["3"]);
    for (channel, refusal) in [
        ("plain", Refusal::NotAvailable),
        ("unknown:a", Refusal::UnknownChannel),
    ] {
        assert_eq!(forget(tester, channel), Err(refusal), "{channel}");
    }
}
