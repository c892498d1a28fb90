//! Delivery of publications to subscribers.

use std::collections::BTreeMap;

use throng_broker::{BrokerStats, Draft, Outcome, Refusal};
use throng_types::SpanContext;

use crate::cluster::TTL_MS;
use crate::tester::{Tester, draft, text};

/// All shards get a channel's publications in one order, which is that of each publisher; see also
/// [`crate::Cluster::orders_all`].
pub fn everybody_gets_the_same_order(tester: &mut Tester) {
    for channel in ["kept:a", "plain"] {
        for shard in tester.shards() {
            tester.subscribe(shard, channel, None);
        }
        let publishers: Vec<_> = (0..3).map(|_| tester.shard()).collect();
        for n in 0..20 {
            for (who, &shard) in publishers.iter().enumerate() {
                tester.send(shard, draft(channel, &format!("{who} {n:02}")));
                if n % 3 == 0 {
                    tester.step();
                }
            }
        }
        tester.settle();
        let first = tester.delivered(throng_types::ShardId(0));
        for who in 0..3 {
            let prefix = format!("{who} ");
            let theirs: Vec<&String> = { first.iter() }
                .filter(|text| text.starts_with(&prefix))
                .collect();
            assert_eq!(theirs.len(), 20);
            let same_shard = |other: usize| publishers[other] == publishers[who];
            assert!(theirs.is_sorted() || !same_shard(who), "{theirs:?}");
        }
        for shard in tester.shards().skip(1) {
            let mut theirs = tester.delivered(shard);
            let mut first = first.clone();
            if channel == "plain" && !tester.orders_all() {
                // Compares in each publisher's order; the filter keeps it.
                theirs.sort_by_key(|text| publisher(text));
                first.sort_by_key(|text| publisher(text));
            }
            assert_eq!(theirs, first, "{channel}");
        }
    }
}

/// Publisher of a text in [`everybody_gets_the_same_order`].
fn publisher(text: &str) -> Option<char> {
    text.chars().next()
}

/// A shard gets what is published from its subscribe to its leave, and nothing else. One that
/// subscribes twice gets it once, and leaves once.
pub fn only_subscribers_get_publications(tester: &mut Tester) {
    let shards: Vec<_> = tester.shards().take(3).collect();
    let publisher = tester.shard();
    for channel in ["kept:a", "plain"] {
        for (count, &shard) in (0..).zip(&shards) {
            let published = tester
                .offer(publisher, draft(channel, "early"))
                .expect("room");
            assert!(published.shards.is_none_or(|shards| shards == count));
            tester.subscribe(shard, channel, None);
            tester.subscribe(shard, channel, None);
        }
        for &shard in &shards {
            tester.delivered(shard);
        }
        tester.publish("plain-other", "elsewhere");
        let published = tester
            .offer(publisher, draft(channel, "all"))
            .expect("room");
        assert!(
            published
                .shards
                .is_none_or(|count| count as usize == shards.len())
        );
        for &shard in &shards {
            assert_eq!(tester.delivered(shard), ["all"]);
        }
        for &shard in &shards {
            tester.delivered(shard);
            tester.leave(shard, channel);
            tester.publish(channel, "late");
            assert_eq!(tester.delivered(shard), [""; 0]);
        }
        let published = tester
            .offer(publisher, draft(channel, "nobody"))
            .expect("room");
        assert!(published.shards.is_none_or(|shards| shards == 0));
        for shard in tester.shards() {
            tester.delivered(shard);
        }
    }
}

/// Publications that go together are in order with each other and with those before and after
/// them, and each has a reply.
pub fn many_at_once_are_as_each_alone(tester: &mut Tester) {
    let listener = tester.shard();
    let channels: Vec<String> = (0..8).map(|n| format!("kept:{n}")).collect();
    for channel in &channels {
        tester.subscribe(listener, channel, None);
    }
    let publisher = tester.shard();
    let mut tickets = Vec::new();
    for round in 0..5 {
        let text = |more: &str| format!("{round}{more}");
        tickets.push(tester.send(publisher, draft(&channels[0], &text("a"))));
        let together = { channels.iter().chain(&channels) }
            .zip(0..)
            .map(|(channel, n)| draft(channel, &text(if n < 8 { "b" } else { "c" })));
        tickets.extend(tester.publish_all(publisher, together.collect()));
        tickets.extend(tester.publish_all(publisher, vec![draft(&channels[1], &text("d"))]));
        tester.step();
    }
    tester.settle();
    for ticket in tickets {
        let reply = tester.reply(publisher, ticket);
        let Some(Outcome::Published(result)) = reply else {
            panic!("{reply:?} to a publication");
        };
        assert!(result.is_ok_and(|published| published.position.is_some()));
    }
    let mut heard: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (channel, text) in tester.delivered_where(listener) {
        heard.entry(channel).or_default().push(text);
    }
    for (n, channel) in channels.iter().enumerate() {
        let marks: &[&str] = [&["a", "b", "c"][..], &["b", "c", "d"], &["b", "c"]][n.min(2)];
        let each = |round: u32| marks.iter().map(move |mark| format!("{round}{mark}"));
        let expected: Vec<String> = (0..5).flat_map(each).collect();
        assert_eq!(heard.get(channel), Some(&expected), "{channel}");
    }
}

/// A delivery has the trace of its own draft, if that has one, whichever shard it comes from and
/// whatever goes with it.
pub fn a_trace_comes_with_its_publication(tester: &mut Tester) {
    let channels = ["kept:a", "plain"];
    for channel in channels {
        for shard in tester.shards() {
            tester.subscribe(shard, channel, None);
        }
    }
    let trace_of = |n: u32| {
        (n % 3 == 1).then(|| SpanContext {
            trace_id: u128::MAX - u128::from(n),
            span_id: u64::from(n),
        })
    };
    for n in 0..16 {
        let publisher = tester.shard();
        for channel in channels {
            let traced = Draft {
                trace: trace_of(n).map(Box::new),
                ..draft(channel, &n.to_string())
            };
            tester.send(publisher, traced);
        }
        if n % 5 == 0 {
            tester.step();
        }
    }
    tester.settle();
    for shard in tester.shards() {
        let publications = tester.publications(shard);
        assert_eq!(publications.len(), 16 * channels.len());
        for publication in publications {
            let n = text(&publication).parse().expect("a number");
            assert_eq!(publication.trace.as_deref().copied(), trace_of(n), "{n}");
        }
    }
}

/// A publication that skips history has no position, and does not count.
pub fn what_is_not_kept_is_delivered(tester: &mut Tester) {
    let shard = tester.shard();
    let before = tester.publish("kept:a", "1");
    tester.subscribe(shard, "kept:a", None);
    let passing = Draft {
        skip_history: true,
        ..draft("kept:a", "passing")
    };
    let published = tester.offer(shard, passing).expect("room");
    assert_eq!(published.position, None);
    assert_eq!(tester.delivered(shard), ["passing"]);
    assert_eq!(tester.kept("kept:a"), ["1"]);
    assert_eq!(tester.subscribe(shard, "kept:a", None).position, before);
}

/// After the last has left and time has passed, nothing is remembered.
pub fn nothing_is_kept_of_those_who_left(tester: &mut Tester) {
    for channel in ["kept:a", "kept:b", "long:a", "plain", "plain-b"] {
        for shard in tester.shards() {
            tester.subscribe(shard, channel, None);
        }
        tester.publish(channel, "x");
        for shard in tester.shards() {
            tester.leave(shard, channel);
            tester.leave(shard, channel);
        }
    }
    for _ in 0..80 {
        tester.pass(TTL_MS);
    }
    let stats = tester.stats().unwrap_or_default();
    assert_eq!(stats, BrokerStats::default());
}

/// A channel of a namespace that is not configured takes nothing.
pub fn unknown_channels_are_refused(tester: &mut Tester) {
    let shard = tester.shard();
    let refused = tester.offer(shard, draft("unknown:a", "x"));
    assert_eq!(refused, Err(Refusal::UnknownChannel));
}
