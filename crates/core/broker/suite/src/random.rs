//! Random hubs against a plain model of what each must have got.
//!
//! Subscribers come, leave and come back where they were, while others publish and mail is late. A
//! shard that was told a position gets everything after it, once and in order, until it leaves.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Bound::{Excluded, Included};

use throng_broker::{Outcome, Published, Recovery, Reply, Subscribed};
use throng_types::{Position, Publication, ShardId};

use crate::HubMessage;
use crate::cluster::{KEPT, LONG};
use crate::tester::{Tester, draft, leave, subscribe, text};

const CHANNELS: [&str; 3] = ["kept:a", "long:b", "plain"];

/// State of one channel at a shard.
#[derive(Default)]
struct Hub {
    /// A subscribe without a reply, and the position that it asked to recover from.
    asked: Option<(u32, Option<Position>)>,
    is_live: bool,
    /// Position of the last reply or delivery.
    position: Option<Position>,
    /// Texts delivered since the reply.
    texts: BTreeSet<String>,
    /// Texts published since the reply and not delivered yet.
    owed: BTreeSet<String>,
}

/// Observation at a hub of a channel with positions, to be compared with all that was accepted.
enum Shown {
    /// After one offset, this came next.
    Next(u64, u64, String),
    /// There is nothing after one offset up to the other.
    Nothing(u64, u64),
    /// Recovery between the two was refused as too long.
    Lost(u64, u64),
}

struct Model<'a> {
    tester: &'a mut Tester,
    hubs: HashMap<(ShardId, &'static str), Hub>,
    /// Publications without a reply: what and where.
    publishing: HashMap<u32, (&'static str, String)>,
    /// Accepted texts, by offset.
    logs: HashMap<&'static str, BTreeMap<u64, String>>,
    shown: Vec<(&'static str, Shown)>,
}

/// No gap and no duplicate, in any order of events.
pub fn nothing_is_lost_or_doubled_in_any_order(tester: &mut Tester) {
    let steps = if tester.setup.shards > 8 { 500 } else { 2000 };
    let mut model = Model {
        tester,
        hubs: HashMap::new(),
        publishing: HashMap::new(),
        logs: HashMap::new(),
        shown: Vec::new(),
    };
    for n in 0..steps {
        model.act(n);
        model.listen();
    }
    model.tester.settle();
    model.listen();
    model.check();
}

impl Model<'_> {
    fn act(&mut self, n: usize) {
        let few = self.tester.setup.shards.min(4);
        let shard = ShardId(self.tester.rng.below(few.into()) as u8);
        let channel = CHANNELS[self.tester.rng.below(3) as usize];
        match self.tester.rng.below(12) {
            0 | 1 => self.subscribe(shard, channel),
            2 => self.leave(shard, channel),
            3..=5 => self.publish(shard, channel, n.to_string()),
            _ => drop(self.tester.step()),
        }
    }

    fn subscribe(&mut self, shard: ShardId, channel: &'static str) {
        let hub = self.hubs.entry((shard, channel)).or_default();
        if hub.is_live || hub.asked.is_some() {
            return;
        }
        let since = hub.position.filter(|_| self.tester.rng.below(3) > 0);
        let make = |ticket| subscribe(ticket, channel, since);
        hub.asked = Some((self.tester.ask(shard, make), since));
    }

    fn leave(&mut self, shard: ShardId, channel: &'static str) {
        let hub = self.hubs.entry((shard, channel)).or_default();
        // The real hub waits for the reply too.
        if hub.is_live {
            hub.is_live = false;
            self.tester.ask(shard, |_| leave(channel));
        }
    }

    fn publish(&mut self, shard: ShardId, channel: &'static str, text: String) {
        for ((_, theirs), hub) in &mut self.hubs {
            if *theirs == channel && hub.is_live {
                hub.owed.insert(text.clone());
            }
        }
        let ticket = self.tester.send(shard, draft(channel, &text));
        self.publishing.insert(ticket, (channel, text));
    }

    // ---- replies and deliveries at hubs ----

    fn listen(&mut self) {
        for shard in self.tester.shards() {
            while let Some(heard) = self.tester.next(shard) {
                match heard {
                    HubMessage::Delivery(publication) => self.delivered(shard, &publication),
                    HubMessage::Reply(Reply { ticket, outcome }) => match outcome {
                        Outcome::Subscribed(result) => {
                            let result = result.expect("these queues are far from full");
                            self.subscribed(shard, ticket.0, result);
                        }
                        Outcome::Published(result) => {
                            let published = result.expect("these queues are far from full");
                            self.published(ticket.0, published);
                        }
                        other => panic!("nobody asked for {other:?}"),
                    },
                    HubMessage::Broken(channel) => panic!("{channel}: nothing was lost"),
                }
            }
        }
    }

    fn published(&mut self, ticket: u32, published: Published) {
        let asked = self.publishing.remove(&ticket);
        let (channel, text) = asked.expect("a reply to a publication");
        if let Some(position) = published.position {
            let log = self.logs.entry(channel).or_default();
            assert_eq!(log.insert(position.offset, text), None, "one offset each");
        }
    }

    fn subscribed(&mut self, shard: ShardId, ticket: u32, result: Subscribed) {
        let asked = |hub: &Hub| hub.asked.is_some_and(|(asked, _)| asked == ticket);
        let mut hubs = self.hubs.iter_mut();
        let found = hubs.find(|((theirs, _), hub)| *theirs == shard && asked(hub));
        let ((_, channel), hub) = found.expect("a reply to a subscribe");
        let since = hub.asked.take().and_then(|(_, since)| since);
        hub.is_live = true;
        hub.texts.clear();
        hub.owed.clear();
        hub.position = result.position;
        let Some((since, top)) = since.zip(result.position) else {
            return;
        };
        assert_eq!(since.epoch, top.epoch, "nothing was forgotten");
        let mut last = since.offset;
        match result.recovery {
            Recovery::Whole(missed) => {
                for publication in missed {
                    let offset = publication.position.expect("a position").offset;
                    let next = Shown::Next(last, offset, text(&publication));
                    self.shown.push((channel, next));
                    last = offset;
                }
                self.shown.push((channel, Shown::Nothing(last, top.offset)));
            }
            Recovery::Lost => self.shown.push((channel, Shown::Lost(last, top.offset))),
            Recovery::NotAsked => panic!("it was asked"),
        }
    }

    fn delivered(&mut self, shard: ShardId, publication: &Publication) {
        let known = CHANNELS
            .iter()
            .find(|name| **name == publication.channel.as_str());
        let channel = *known.expect("a channel of ours");
        let hub = self.hubs.entry((shard, channel)).or_default();
        if !hub.is_live {
            // On its way when the shard left, or published before the position of the reply.
            return;
        }
        let text = text(publication);
        hub.owed.remove(&text);
        assert!(hub.texts.insert(text.clone()), "once");
        if let Some((before, position)) = hub.position.zip(publication.position) {
            assert_eq!(before.epoch, position.epoch);
            let next = Shown::Next(before.offset, position.offset, text);
            self.shown.push((channel, next));
            hub.position = Some(position);
        }
    }

    fn check(&self) {
        assert!(self.publishing.is_empty(), "every request has a reply");
        let nothing = BTreeMap::new();
        for (channel, shown) in &self.shown {
            let log = self.logs.get(channel).unwrap_or(&nothing);
            let count = |from: u64, to: u64| {
                let between = (Excluded(from), Included(to));
                log.range(between).count()
            };
            match shown {
                Shown::Next(before, offset, text) => {
                    assert_eq!(log.get(offset), Some(text), "{channel}");
                    assert_eq!(count(*before, *offset), 1, "{channel}: after {before}");
                }
                Shown::Nothing(before, top) => {
                    assert_eq!(count(*before, *top), 0, "{channel}: after {before}");
                }
                Shown::Lost(before, top) => {
                    let kept = if *channel == CHANNELS[0] { KEPT } else { LONG };
                    let most = self.tester.setup.reply.publications_max;
                    assert!(count(*before, *top) > most.min(kept as usize), "{channel}");
                }
            }
        }
        for ((shard, channel), hub) in &self.hubs {
            assert!(hub.asked.is_none(), "every request has a reply");
            if !hub.is_live {
                continue;
            }
            assert_eq!(hub.owed, BTreeSet::new(), "{channel} on shard {}", shard.0);
            if let Some(position) = hub.position {
                let log = self.logs.get(channel);
                let top = log.and_then(|log| log.keys().last().copied());
                assert_eq!(position.offset, top.unwrap_or(0), "{channel}");
            }
        }
    }
}
