//! Bounds of a broker, and what happens at each.

use throng_broker::{Draft, HistoryQuery, Outcome, Refusal, Request};

use crate::cluster::LONG;
use crate::tester::{ALL, Tester, draft, expect_recovery, name, subscribe};

/// Publications of which one must have been refused while no hub has room.
const MANY: usize = 50_000;

/// History of all channels and shards together stays within its bytes.
pub fn history_stays_within_its_bytes(tester: &mut Tester) {
    let bytes_max = tester.setup.history_bytes_max;
    let large = "x".repeat(bytes_max / 32);
    for n in 0..80 {
        let channel = format!("kept:{}", n % 10);
        let position = tester.publish(&channel, &large).expect("a position");
        let Some(stats) = tester.stats() else {
            return;
        };
        assert!(stats.history_bytes <= bytes_max);
        expect_recovery(&tester.recover(&channel, position), Some(&[]));
    }
    // Homes above an equal part give way, so the newest channels have some.
    let shards = usize::from(tester.setup.shards);
    for _ in 0..4 {
        for n in 0..10 {
            tester.publish(&format!("kept:{n}"), "small");
            tester.pass(1);
        }
    }
    let kept = (0..10).filter(|n| !tester.kept(&format!("kept:{n}")).is_empty());
    assert_eq!(kept.count(), 10, "{shards} shards");
}

/// Pages are cut, and a recovery that is too long is refused.
pub fn one_reply_carries_only_so_much(tester: &mut Tester) {
    let reply = tester.setup.reply;
    let all: Vec<String> = (0..LONG).map(|n| format!("{n}")).collect();
    let positions: Vec<_> = { all.iter() }
        .map(|text| tester.publish("long:a", text).expect("a position"))
        .collect();
    let page = tester.kept("long:a");
    assert_eq!(page, all[..reply.publications_max]);
    let newest = HistoryQuery {
        reverse: true,
        limit: Some(1000),
        ..ALL
    };
    let page = tester.history("long:a", newest).expect("a page");
    assert_eq!(page.publications.len(), reply.publications_max);
    for missed in [1, reply.publications_max, reply.publications_max + 1, 50] {
        let at = positions.len() - missed;
        let found = tester.recover("long:a", positions[at - 1]);
        let is_short = missed <= reply.publications_max;
        expect_recovery(&found, is_short.then_some(&all[at..]));
    }
    // The limit by bytes; a single one is never too large.
    let large = "y".repeat(reply.bytes_max / 3);
    let begin = tester.publish("long:b", "0").expect("a position");
    for _ in 0..5 {
        tester.publish("long:b", &large);
    }
    let page = tester.kept("long:b");
    assert!(page.len() >= 2 && page.len() <= 4, "{}", page.len());
    expect_recovery(&tester.recover("long:b", begin), None);
    let huge = "z".repeat(reply.bytes_max * 2);
    let before = tester.publish("long:c", "0").expect("a position");
    tester.publish("long:c", &huge);
    expect_recovery(&tester.recover("long:c", before), Some(&[huge]));
}

/// Accepted publications are delivered when there is room again; refused ones never are.
pub fn a_full_hub_makes_publishers_busy(tester: &mut Tester) {
    let (listener, publisher) = (tester.shard(), tester.shard());
    tester.subscribe(listener, "plain", None);
    tester.set_room(false);
    let mut tickets = Vec::new();
    let mut refused = None;
    while refused.is_none() && tickets.len() < MANY {
        let ticket = tester.send(publisher, draft("plain", &tickets.len().to_string()));
        tickets.push(ticket);
        tester.step();
        refused = tester.reply(publisher, ticket);
        if let Some(Outcome::Published(Ok(_))) = refused {
            refused = None;
        }
    }
    let Some(Outcome::Published(result)) = refused else {
        panic!("{MANY} publications wait, and one more may");
    };
    assert_eq!(result, Err(Refusal::Busy));
    let accepted: Vec<String> = (0..tickets.len() - 1).map(|n| n.to_string()).collect();
    tester.set_room(true);
    tester.settle();
    assert_eq!(tester.delivered(listener), accepted);
    tester.publish("plain", "after");
    assert_eq!(tester.delivered(listener), ["after"]);
}

/// Each request has one reply, also above the limit, where it is refused.
pub fn every_request_has_one_reply(tester: &mut Tester) {
    let shard = tester.shard();
    let mut tickets = Vec::new();
    for n in 0..1500 {
        let channel = ["kept:a", "kept:b", "plain"][n % 3];
        tickets.push(match n % 4 {
            0 => tester.ask(shard, |ticket| subscribe(ticket, channel, None)),
            1 => {
                let query = HistoryQuery {
                    limit: Some(0),
                    ..ALL
                };
                let channel = name(channel);
                tester.ask(shard, |ticket| Request::History {
                    ticket,
                    channel,
                    query,
                })
            }
            _ => {
                let draft = Draft {
                    skip_history: true,
                    ..draft(channel, "x")
                };
                tester.send(shard, draft)
            }
        });
    }
    tester.settle();
    tester.delivered(shard);
    let mut taken = 0;
    for (n, ticket) in tickets.into_iter().enumerate() {
        let reply = tester.reply(shard, ticket);
        taken += match (n % 4, reply) {
            (0, Some(Outcome::Subscribed(result))) => usize::from(result.is_ok()),
            (1, Some(Outcome::History(result))) => {
                let is_available = n % 3 != 2;
                assert!(result.is_ok() || !is_available || result == Err(Refusal::Busy));
                0
            }
            (2 | 3, Some(Outcome::Published(result))) => usize::from(result.is_ok()),
            (_, other) => panic!("{other:?} to request {n}"),
        };
    }
    assert!(taken > 0);
}
