//! Publications that are answered when the store has them.

use super::*;
use crate::memory::outbox::HELD_MAX;
use crate::{
    Acknowledge, Broker as _, BrokerMail, ChannelOptions, MemoryBroker, NamespaceOptions,
    Published, Receiver, Reply, Request, Retention, Ticket,
};

#[derive(Default)]
struct Hub(Vec<Reply>);

impl Receiver for Hub {
    fn has_room(&self, _: &ChannelName, _: usize) -> bool {
        true
    }

    fn reply(&mut self, reply: Reply) {
        self.0.push(reply);
    }
}

impl Hub {
    /// The answers since the last call.
    fn answers(&mut self) -> Vec<(u32, Result<Option<u64>, Refusal>)> {
        let all = std::mem::take(&mut self.0).into_iter();
        let answer = |reply| match reply {
            Reply::Published { ticket, result } => Some((ticket.0, result.map(offset))),
            _ => None,
        };
        all.filter_map(answer).collect()
    }
}

fn offset(published: Published) -> Option<u64> {
    published.position.map(|position| position.offset)
}

/// A part whose channels in `kept` wait for `level`; those of `plain` do not wait.
fn part(level: Acknowledge, shards: u8, shard: u8) -> (MemoryBroker, Tape) {
    let kept = ChannelOptions {
        retention: Retention {
            publications_max: 5,
            ttl_ms: 1000,
        },
        acknowledge: level,
        recovery: true,
        ..ChannelOptions::default()
    };
    let named = vec![
        ("kept".into(), kept),
        ("plain".into(), ChannelOptions::default()),
    ];
    let options = MemoryOptions {
        namespaces: Arc::new(NamespaceOptions::new(ChannelOptions::default(), named)),
        ..options(5, 1000, 1 << 20)
    };
    let tape = Tape::default();
    let part = MemoryBroker::new(ShardId(shard), shards, options);
    (part.with_store(Box::new(tape.clone()), None, at(0)), tape)
}

fn ask(part: &mut MemoryBroker, ticket: u32, draft: Draft, hub: &mut Hub) {
    let ticket = Ticket(ticket);
    part.request(Request::Publish { ticket, draft }, at(1), hub);
}

#[test]
fn an_answer_waits_until_the_store_has_it() {
    for level in [Acknowledge::Written, Acknowledge::Synced] {
        let (mut part, tape) = part(level, 1, 0);
        let mut hub = Hub::default();
        part.request(
            Request::Subscribe {
                ticket: Ticket(0),
                channel: name("kept:a"),
                since: None,
                presence: None,
            },
            at(0),
            &mut hub,
        );
        ask(&mut part, 1, draft("kept:a", "1"), &mut hub);
        ask(&mut part, 2, draft("kept:a", "2"), &mut hub);
        let heard = { hub.0.iter() }.filter(|it| matches!(it, Reply::Delivery(_)));
        assert_eq!(heard.count(), 2, "subscribers do not wait");
        ask(&mut part, 3, draft("plain:a", "3"), &mut hub);
        let skips = Draft {
            skip_history: true,
            ..draft("kept:a", "4")
        };
        ask(&mut part, 4, skips, &mut hub);
        assert_eq!(
            hub.answers(),
            [(3, Ok(None)), (4, Ok(None))],
            "nothing is kept"
        );
        assert_eq!(tape.state().hurried, Some(level));
        part.poll(&mut hub);
        assert_eq!(hub.answers(), []);
        let reach = |written, synced| {
            tape.state().reached = Reached {
                written,
                synced,
                failed: 0,
            };
        };
        reach(1, 0);
        part.poll(&mut hub);
        let first = [(1, Ok(Some(1)))];
        let is_written = level == Acknowledge::Written;
        assert_eq!(hub.answers(), if is_written { &first[..] } else { &[] });
        reach(2, 1);
        part.poll(&mut hub);
        let second = (
            if is_written { 2 } else { 1 },
            Ok(Some(if is_written { 2 } else { 1 })),
        );
        assert_eq!(hub.answers(), [second]);
    }
}

/// A repeat waits for what it repeats.
#[test]
fn a_repeated_key_is_answered_no_sooner_than_the_first() {
    let (mut part, tape) = part(Acknowledge::Written, 1, 0);
    let mut hub = Hub::default();
    let keyed = Draft {
        idempotency_key: Some("k".into()),
        ..draft("kept:a", "1")
    };
    ask(&mut part, 1, keyed.clone(), &mut hub);
    ask(&mut part, 2, keyed, &mut hub);
    part.poll(&mut hub);
    assert_eq!(hub.answers(), []);
    tape.state().reached.written = 2;
    part.poll(&mut hub);
    assert_eq!(hub.answers(), [(1, Ok(Some(1))), (2, Ok(Some(1)))]);
}

#[test]
fn what_the_disk_refuses_is_said() {
    let (mut part, tape) = part(Acknowledge::Synced, 1, 0);
    let mut hub = Hub::default();
    ask(&mut part, 1, draft("kept:a", "1"), &mut hub);
    tape.state().reached.failed = 1;
    part.poll(&mut hub);
    assert_eq!(hub.answers(), [(1, Err(Refusal::NotOnDisk))]);
    tape.state().refuses = true;
    ask(&mut part, 2, draft("kept:a", "2"), &mut hub);
    assert_eq!(hub.answers(), [(2, Err(Refusal::NotWritten))]);
    tape.state().refuses = false;
    tape.state().is_full = true;
    ask(&mut part, 3, draft("kept:a", "3"), &mut hub);
    assert_eq!(hub.answers(), [(3, Err(Refusal::Busy))]);
    tape.state().is_full = false;
    for ticket in 4.. {
        ask(&mut part, ticket, draft("kept:b", "x"), &mut hub);
        if let Some(answer) = hub.answers().pop() {
            assert_eq!(answer, (4 + HELD_MAX as u32, Err(Refusal::Busy)));
            break;
        }
    }
}

/// While a copy is inside a stream, the copy writes what is published there.
#[test]
fn an_answer_waits_for_a_copy_that_has_yet_to_come_to_it() {
    let (mut part, tape) = part(Acknowledge::Written, 1, 0);
    let mut hub = Hub::default();
    ask(&mut part, 1, draft("kept:a", "1"), &mut hub);
    ask(&mut part, 2, draft("kept:a", "2"), &mut hub);
    tape.state().round = 1;
    tape.state().room = 2;
    part.write_down(at(1));
    let before = tape.state().records.len();
    ask(&mut part, 3, draft("kept:a", "3"), &mut hub);
    assert_eq!(tape.state().records.len(), before, "the copy is inside");
    tape.state().reached.written = before as u64;
    part.poll(&mut hub);
    assert_eq!(hub.answers(), [(1, Ok(Some(1))), (2, Ok(Some(2)))]);
    tape.state().room = 100;
    part.write_down(at(1));
    part.poll(&mut hub);
    assert_eq!(hub.answers(), [], "it is not written yet");
    let all = tape.state().records.len();
    tape.state().reached.written = all as u64;
    part.poll(&mut hub);
    assert_eq!(hub.answers(), [(3, Ok(Some(3)))]);
}

#[test]
fn publishers_of_other_shards_wait_too() {
    let (mut home, tape) = part(Acknowledge::Written, 2, 0);
    let (mut away, _) = part(Acknowledge::Written, 2, 1);
    let mut names = (0..).map(|n| format!("kept:{n}"));
    let channel = names.find(|it| home_of(&name(it), 2) == ShardId(0));
    let channel = channel.expect("a channel");
    let mut hub = Hub::default();
    let drafts = (1..=3).map(|n| (Ticket(n), draft(&channel, "x"))).collect();
    away.publish_all(drafts, at(1), &mut hub);
    let bring =
        |from: &mut MemoryBroker, to: &mut MemoryBroker, shards: (u8, u8), hub: &mut Hub| {
            let mut count = 0;
            while let Some(mail) = from.take_mail(ShardId(shards.1)) {
                count += usize::from(!matches!(mail, BrokerMail::Reply(_)));
                to.mail(ShardId(shards.0), mail, at(1), hub);
            }
            count
        };
    assert_eq!(bring(&mut away, &mut home, (1, 0), &mut Hub::default()), 1);
    assert_eq!(bring(&mut home, &mut away, (0, 1), &mut hub), 0);
    tape.state().reached.written = 2;
    home.poll(&mut Hub::default());
    assert_eq!(bring(&mut home, &mut away, (0, 1), &mut hub), 1);
    assert_eq!(hub.answers(), [(1, Ok(Some(1))), (2, Ok(Some(2)))]);
    tape.state().reached.written = 3;
    home.poll(&mut Hub::default());
    bring(&mut home, &mut away, (0, 1), &mut hub);
    assert_eq!(hub.answers(), [(3, Ok(Some(3)))]);
}
