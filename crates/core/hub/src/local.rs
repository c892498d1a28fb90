//! State that a shard's hub keeps by itself: channels with subscribers, their members, and
//! publications on their way to them.
//!
//! Never calls the broker. Returns its requests ([`Local::subscribe`], `farewells`), and
//! the hub makes them.
//!
//! Rule for "full": while [`WAITING_MAX`] publications or [`WAITING_BYTES_MAX`] wait for their
//! members, publishing is refused and mail is left where it is. One channel may have a quarter of
//! either, so that a flood in one does not stop the others.
//!
//! Invariants
//! - `publications` and `bytes` are those of all fan-outs together.
//! - A fan-out is in `turn_order` or in `resting`, once.
//! - A channel in `channels` has a member, a joining connection, or a subscribe without a reply.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use throng_broker::{ChannelMap, Presence, Request, Ticket};
use throng_types::{ChannelName, ConnId, Millis, Publication, PublicationKind, ShardId, Slots};

use crate::channel::{Channel, NO_FANOUT};
use crate::deferred::Deferred;
use crate::fanout::{Fanout, Rules};
use crate::subscriptions::Subscriptions;
use crate::{Format, HubOptions, ReplyTo};

/// Publications that may wait for their members. Queue: `fan-out`.
pub(crate) const WAITING_MAX: usize = 65_536;
/// Bytes of those publications. Queue: `fan-out`.
pub(crate) const WAITING_BYTES_MAX: usize = 64 << 20;
/// Publications waiting in a channel from which on comings and goings are dropped, so that a crowd
/// does not fill the queue. Queue: `comings and goings`.
const NEWS_MAX: usize = 1024;
/// Part of the queue that one channel may use: one in so many.
const CHANNEL_PART: usize = 4;
/// Ended fan-outs kept for reuse: a turn of publications to a channel each needs as many as it has
/// visits.
const SPARE: usize = 256;

/// A shard's channels with subscribers, and what is on its way to them.
pub(crate) struct Local {
    pub(crate) options: HubOptions,
    /// This hub's shard, taken from the newest subscriber's id.
    pub(crate) shard: ShardId,
    pub(crate) channels: ChannelMap<Channel>,
    pub(crate) subscriptions: Subscriptions,
    pub(crate) waiting: Requests,
    /// Members with presence, by connection and channel. Queue: `members`.
    pub(crate) present: BTreeMap<(ConnId, u32), Presence>,
    pub(crate) deferred: Deferred,
    pub(crate) fanouts: Slots<Box<Fanout>>,
    /// Ended fan-outs for reuse. Bound: [`SPARE`].
    #[expect(
        clippy::vec_box,
        reason = "they come and go as boxes, and are large to move"
    )]
    spare: Vec<Box<Fanout>>,
    /// Bound: one entry per fan-out.
    pub(crate) turn_order: VecDeque<u32>,
    /// Fan-outs that let publications gather, by the end of their rests.
    /// Bound: one entry per fan-out.
    pub(crate) resting: BTreeSet<(Millis, u32)>,
    /// Last publication of each channel with deltas. Bound: one publication a channel that has
    /// subscribers here.
    pub(crate) bases: BTreeMap<u32, Arc<Publication>>,
    /// Publications that some member lacks, in all fan-outs.
    pub(crate) publications: usize,
    /// Bytes of those publications.
    pub(crate) bytes: usize,
    /// Comings and goings dropped for lack of room.
    pub(crate) news_dropped: u64,
    /// Deliveries saved because a newer publication replaced theirs.
    pub(crate) conflated: u64,
    /// Publications with tags that all members have, until the sink is told.
    pub(crate) carried: Vec<Arc<Publication>>,
    /// Requests still to be sent to the broker: members that left, and channels that were released.
    pub(crate) farewells: Vec<Request>,
}

impl Local {
    pub(crate) fn new(options: HubOptions) -> Self {
        Self {
            channels: ChannelMap::new(options.hash_seed),
            options,
            shard: ShardId(0),
            subscriptions: Subscriptions::default(),
            waiting: Requests::default(),
            present: BTreeMap::new(),
            deferred: Deferred::default(),
            fanouts: Slots::default(),
            spare: Vec::new(),
            turn_order: VecDeque::new(),
            resting: BTreeSet::new(),
            bases: BTreeMap::new(),
            publications: 0,
            bytes: 0,
            news_dropped: 0,
            conflated: 0,
            carried: Vec::new(),
            farewells: Vec::new(),
        }
    }

    pub(crate) fn is_subscribed(&self, conn: ConnId, channel: &ChannelName) -> bool {
        self.channels
            .key(channel)
            .is_some_and(|key| self.subscriptions.find(conn, key).is_some())
    }

    /// Whether more publications may wait.
    pub(crate) const fn has_room(&self) -> bool {
        self.publications < WAITING_MAX && self.bytes < WAITING_BYTES_MAX
    }

    /// Whether one more publication of that size may wait in a channel. One of any size may if no
    /// other does.
    pub(crate) fn has_room_in(&self, channel: &ChannelName, bytes: usize) -> bool {
        let is_little = self.publications < WAITING_MAX / CHANNEL_PART
            && self.bytes + bytes <= WAITING_BYTES_MAX / CHANNEL_PART;
        if is_little || self.publications == 0 {
            return true;
        }
        let channel = self.channels.get(channel);
        let fanout = channel.and_then(|channel| self.fanouts.get(channel.fanout));
        let Some(fanout) = fanout else {
            return self.has_room();
        };
        self.has_room()
            && fanout.waiting() < WAITING_MAX / CHANNEL_PART
            && fanout.bytes() + bytes <= WAITING_BYTES_MAX / CHANNEL_PART
    }

    /// Queues a publication for this shard's members.
    pub(crate) fn enqueue(&mut self, publication: Arc<Publication>) {
        let key = self.channels.key(&publication.channel);
        let Some((key, channel)) = key.and_then(|key| Some((key, self.channels.at_mut(key)?)))
        else {
            return self.nobody_gets(publication);
        };
        if publication.position.is_some() {
            channel.position.set(publication.position);
        }
        if channel.members.len() == 0 && channel.fanout == NO_FANOUT {
            return self.nobody_gets(publication);
        }
        if publication.told != PublicationKind::Data {
            let fanout = self.fanouts.get(channel.fanout);
            let waiting = fanout.map_or(0, |fanout| fanout.waiting());
            if waiting >= NEWS_MAX || self.publications >= WAITING_MAX / CHANNEL_PART {
                self.news_dropped += 1;
                return;
            }
        }
        if channel.fanout == NO_FANOUT {
            let options = self.options.namespaces.find(&publication.channel);
            let rules = options.map(|options| Rules {
                overflow: options.overflow,
                delay_ms: options.max_delay_ms,
                delta: options.delta,
            });
            let rules = rules.unwrap_or_default();
            let before = { rules.delta }
                .then(|| self.bases.get(&key).cloned())
                .flatten();
            let mut fanout = self.spare.pop().unwrap_or_default();
            fanout.begin(key, rules, channel.members.len(), before);
            channel.fanout = self.fanouts.insert(fanout);
            self.turn_order.push_back(channel.fanout);
        }
        if let Some(fanout) = self.fanouts.get_mut(channel.fanout) {
            if fanout.conflates(&publication) {
                self.publications -= fanout.waiting();
                self.bytes -= fanout.bytes();
                self.conflated += fanout.forget_older(&mut self.carried);
                self.publications += fanout.waiting();
                self.bytes += fanout.bytes();
            }
            self.publications += 1;
            self.bytes += publication.cost_bytes();
            fanout.push(publication);
            if fanout.rests_until().is_some() && fanout.is_full() {
                let key = channel.fanout;
                self.end_rest(key);
            }
        }
    }

    /// Continues a fan-out that rests.
    pub(crate) fn end_rest(&mut self, key: u32) {
        let fanout = self.fanouts.get_mut(key);
        if let Some((until, fanout)) = fanout.and_then(|it| Some((it.rests_until()?, it))) {
            fanout.end_rest();
            self.resting.remove(&(until, key));
            self.turn_order.push_back(key);
        }
    }

    /// Keeps an ended fan-out for reuse.
    pub(crate) fn spare(&mut self, mut fanout: Box<Fanout>) {
        if self.spare.len() < SPARE {
            fanout.end();
            self.spare.push(fanout);
        }
    }

    fn nobody_gets(&mut self, publication: Arc<Publication>) {
        if publication.tags.is_some() {
            self.carried.push(publication);
        }
    }

    /// Forgets a channel without members, of a hub at rest; sends nothing to the broker.
    pub(crate) fn forget_if_unused(&mut self, key: u32) {
        let channel = self.channels.at(key).map(|(_, channel)| channel);
        // A fan-out that rests stays, and so does its channel.
        if channel.is_some_and(|it| it.members.len() == 0 && it.fanout == NO_FANOUT) {
            self.bases.remove(&key);
            self.channels.remove(key);
        }
    }

    /// Forgets a channel without subscribers here.
    pub(crate) fn release_if_unused(&mut self, key: u32) {
        let Some((_, channel)) = self.channels.at(key) else {
            return;
        };
        let at = channel.fanout;
        let is_joined = { self.fanouts.get(at) }.is_some_and(|fanout| !fanout.joining.is_empty());
        if channel.members.len() > 0 || channel.asked.is_waiting() || is_joined {
            return;
        }
        self.end_rest(at);
        if let Some(fanout) = self.fanouts.remove(at) {
            self.publications -= fanout.waiting();
            self.bytes -= fanout.bytes();
            self.carried.extend(fanout.tagged());
            self.turn_order.retain(|&waiting| waiting != at);
            self.spare(fanout);
        }
        self.bases.remove(&key);
        if let Some((name, channel)) = self.channels.remove(key)
            && channel.asked.is_live()
        {
            self.farewells.push(Request::Leave { channel: name });
        }
    }
}

/// Request that waits for a reply.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Waiting {
    Subscribe {
        reply_to: ReplyTo,
        channel: u32,
        format: Format,
    },
    Publish {
        reply_to: ReplyTo,
    },
    /// A publication of a feed.
    Feed {
        round: u32,
        number: u32,
    },
    History {
        reply_to: ReplyTo,
    },
    Present {
        reply_to: ReplyTo,
    },
    /// Nobody waits. Also keeps the first place, which is always taken.
    Nobody,
}

/// Waiting requests, by ticket.
pub(crate) struct Requests(Slots<Waiting>);

impl Default for Requests {
    fn default() -> Self {
        let mut slots = Slots::default();
        // A slab gives back memory when it is empty. Most requests are answered at once, so it
        // would do so for each of them.
        slots.insert(Waiting::Nobody);
        Self(slots)
    }
}

impl Requests {
    /// Whether no request waits.
    pub(crate) const fn is_empty(&self) -> bool {
        self.0.len() == 1
    }

    pub(crate) fn insert(&mut self, waiting: Waiting) -> Ticket {
        Ticket(self.0.insert(waiting))
    }

    /// Removes the request that a reply answers.
    pub(crate) fn remove(&mut self, ticket: Ticket) -> Waiting {
        let waiting = self.0.remove(ticket.0);
        debug_assert!(waiting.is_some(), "a reply answers a request, once");
        waiting.unwrap_or(Waiting::Nobody)
    }
}
