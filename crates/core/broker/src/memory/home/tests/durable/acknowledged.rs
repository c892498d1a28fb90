//! Publications that are answered when the store has them.

use super::*;
use crate::memory::outbox::HELD_MAX;
use crate::{
    Acknowledge, Broker, BrokerMail, ChannelOptions, NamespaceOptions, Outcome, Published,
    Receiver, Reply, Request, Retention, Ticket,
};

#[derive(Default)]
pub(super) struct Hub {
    replies: Vec<Reply>,
    pub(super) deliveries: u32,
}

impl Receiver for Hub {
    fn has_room(&self, _: &ChannelName, _: usize) -> bool {
        true
    }

    fn reply(&mut self, reply: Reply) {
        self.replies.push(reply);
    }

    fn deliver(&mut self, _: Arc<Publication>) {
        self.deliveries += 1;
    }

    fn broken(&mut self, _: &ChannelName) {}
}

impl Hub {
    /// The answers since the last call.
    pub(super) fn answers(&mut self) -> Vec<(u32, Result<Option<u64>, Refusal>)> {
        let all = std::mem::take(&mut self.replies).into_iter();
        let answer = |reply: Reply| match reply.outcome {
            Outcome::Published(result) => Some((reply.ticket.0, result.map(offset))),
            _ => None,
        };
        all.filter_map(answer).collect()
    }
}

fn offset(published: Published) -> Option<u64> {
    published.position.map(|position| position.offset)
}

/// A part whose channels in `kept` wait for `level`; those of `plain` do not wait.
pub(super) fn part(level: Acknowledge, shards: u8, shard: u8) -> (Broker, Tape) {
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
    let namespaces = NamespaceOptions::new(ChannelOptions::default(), named);
    let options = MemoryOptions::for_tests(1, Arc::new(namespaces));
    let tape = Tape::default();
    let part = Broker::new(ShardId(shard), shards, options);
    (part.with_store(Box::new(tape.clone()), None, at(0)), tape)
}

pub(super) fn ask(part: &mut Broker, ticket: u32, draft: Draft, hub: &mut Hub) {
    let ticket = Ticket(ticket);
    part.request(Request::Publish { ticket, draft }, at(1), hub);
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
    let bring = |from: &mut Broker, to: &mut Broker, shards: (u8, u8), hub: &mut Hub| {
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

#[test]
fn so_many_answers_wait_for_the_store() {
    let (mut part, _) = part(Acknowledge::Synced, 1, 0);
    let mut hub = Hub::default();
    let asked = (1..).map(|ticket| {
        ask(&mut part, ticket, draft("kept:b", "x"), &mut hub);
        hub.answers().pop()
    });
    let answer = { asked }.find_map(|answer| answer);
    assert_eq!(answer, Some((1 + HELD_MAX as u32, Err(Refusal::Busy))));
}
