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

use throng_broker::{
    Announced, ChannelMap, ChannelMember, Recovery, Refusal, Request, Subscribed, Ticket,
};
use throng_types::{
    ChannelName, ConnId, Millis, Position, Publication, PublicationKind, ShardId, Slots,
};

use crate::channel::{Channel, Member, NO_FANOUT};
use crate::deferred::Deferred;
use crate::fanout::{Fanout, Joining, Rules};
use crate::subscriptions::{Entry, Place, Subscriptions};
use crate::waiting::{Requests, Waiting};
use crate::{Answer, Command, Format, HubOptions, ReplyTo, Sink};

/// Publications that may wait for their members. Queue: `fan-out`.
pub(crate) const WAITING_MAX: usize = 65_536;
/// Bytes of those publications. Queue: `fan-out`.
pub(crate) const WAITING_BYTES_MAX: usize = 64 << 20;
/// Publications waiting in a channel from which on comings and goings are dropped, so that a crowd
/// does not fill the queue. Queue: `comings and goings`.
const NEWS_MAX: usize = 1024;
/// Milliseconds for which a user stays in its channels after its last connection has gone: who
/// reloads a page is back before that.
const STAY_MS: u64 = 3_000;
/// Members that stay so; the oldest leave early. Queue: `leaving`.
const LEAVING_MAX: usize = 65_536;
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
    pub(crate) present: BTreeMap<(ConnId, u32), ChannelMember>,
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
    /// Publications that all members have, until the sink is told. Bound: what waits in fan-outs.
    pub(crate) carried: Vec<Arc<Publication>>,
    /// Requests still to be sent to the broker: members that left, and channels that were released.
    /// Bound: two a subscription that ended in this turn.
    pub(crate) farewells: Vec<Request>,
    /// Members whose connections have gone, with the times at which they leave. Queue: `leaving`.
    pub(crate) leaving: VecDeque<(Millis, Request)>,
    /// Whether what is loaded was here before, so that webhooks know of it.
    pub(crate) has_given: bool,
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
            leaving: VecDeque::new(),
            has_given: false,
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
                label: options.label,
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
        if channel.members.len() > 0 || channel.requests.is_waiting() || is_joined {
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
            && channel.requests.is_live()
        {
            self.farewells.push(Request::Leave { channel: name });
        }
    }

    // ---- membership: subscribing, joining, leaving ----

    /// Connection and channel whose earlier command waits for the broker, so that this one must
    /// wait, too. `None` if it can be carried out now.
    #[inline]
    pub(crate) fn waits_for(&self, command: &Command) -> Option<(ConnId, u32)> {
        let (conn, channel) = match command {
            Command::Subscribe {
                reply_to, channel, ..
            } => (reply_to.conn, channel),
            Command::Unsubscribe {
                conn,
                channel,
                token: Some(_),
            } => (*conn, channel),
            _ => return None,
        };
        let key = self.channels.key(channel)?;
        let is_asked = matches!(
            self.subscriptions.find(conn, key),
            Some(Place::Requested(_))
        );
        (is_asked || self.deferred.has(conn, key)).then_some((conn, key))
    }

    /// Subscribes a connection, at once if this shard knows the stream's position. Otherwise
    /// returns the request for the broker.
    pub(crate) fn subscribe(
        &mut self,
        (reply_to, format): (ReplyTo, Format),
        channel: ChannelName,
        since: Option<Position>,
        presence: Option<ChannelMember>,
        sink: &mut impl Sink,
    ) -> Option<Request> {
        let conn = reply_to.conn;
        if let Some(refusal) = self.refusal(conn, &channel) {
            let result = Err(refusal);
            sink.answer(reply_to, Answer::Subscribed { channel, result });
            return None;
        }
        self.shard = conn.shard();
        let key = self.channels.key_or_insert(&channel, || Channel::NEW);
        if since.is_none()
            && presence.is_none()
            && let Some(subscribed) = self.known_position(key)
        {
            let place = self.join(conn, key, format);
            let entry = Entry {
                channel: key,
                place,
            };
            self.subscriptions.add(conn, entry);
            let result = Ok(subscribed);
            sink.answer(reply_to, Answer::Subscribed { channel, result });
            return None;
        }
        if let Some(channel) = self.channels.at_mut(key) {
            channel.requests.begin();
        }
        let ticket = self.waiting.insert(Waiting::Subscribe {
            reply_to,
            channel: key,
            format,
        });
        if let Some(presence) = &presence {
            self.present.insert((conn, key), presence.clone());
        }
        let place = Place::Requested(ticket.0);
        let entry = Entry {
            channel: key,
            place,
        };
        self.subscriptions.add(conn, entry);
        Some(Request::Subscribe {
            ticket,
            channel,
            since,
            presence,
        })
    }

    fn refusal(&self, conn: ConnId, channel: &ChannelName) -> Option<Refusal> {
        if self.options.namespaces.find(channel).is_none() {
            Some(Refusal::UnknownChannel)
        } else if self.is_subscribed(conn, channel) {
            Some(Refusal::AlreadySubscribed)
        } else if self.subscriptions.of(conn).len() >= self.options.subscriptions_max {
            Some(Refusal::ChannelLimit)
        } else {
            (conn.index() > Member::INDEX_MAX).then_some(Refusal::Busy)
        }
    }

    /// Position of a channel's stream after its last delivery, if deliveries reach this shard
    /// already.
    fn known_position(&self, key: u32) -> Option<Subscribed> {
        let (_, channel) = self
            .channels
            .at(key)
            .filter(|(_, channel)| channel.requests.is_live())?;
        Some(Subscribed {
            position: channel.position.get(),
            recovery: Recovery::NotAsked,
        })
    }

    /// Makes a connection a member from now on; returns its place.
    pub(crate) fn join(&mut self, conn: ConnId, key: u32, format: Format) -> Place {
        let member = Member::new(conn.index(), format);
        let Some(channel) = self.channels.at_mut(key) else {
            return Place::Joining;
        };
        match self.fanouts.get_mut(channel.fanout) {
            Some(fanout) => {
                let mark = fanout.next_number();
                fanout.joining.push(Joining { member, mark });
                Place::Joining
            }
            None => {
                channel.members.push(member);
                Place::Member(channel.members.len() - 1)
            }
        }
    }

    /// Ends the subscriptions of a channel whose deliveries have a gap. Drops what still waits for
    /// its members: they come back from the position that they have.
    pub(crate) fn broken(&mut self, name: &ChannelName, sink: &mut impl Sink) {
        let Some(key) = self.channels.key(name) else {
            return;
        };
        let Some((_, channel)) = self.channels.at(key) else {
            return;
        };
        let joining = self.fanouts.get(channel.fanout).into_iter();
        let joining = joining.flat_map(|fanout| fanout.joining.iter().map(|it| it.member));
        let members = channel.members.as_slice().iter().copied().chain(joining);
        let conns: Vec<ConnId> = members
            .filter_map(|member| self.subscriptions.conn_at(member.index(), self.shard))
            .collect();
        for conn in conns {
            if let Some(entry) = self.subscriptions.remove(conn, key) {
                self.detach(conn, entry);
                sink.lost(conn, name);
            }
        }
    }

    /// Queues a quit for a member that came with presence.
    fn quit(&mut self, conn: ConnId, entry: Entry) {
        if let Some(presence) = self.present.remove(&(conn, entry.channel))
            && let Some((name, _)) = self.channels.at(entry.channel)
        {
            if matches!(entry.place, Place::Requested(_)) {
                // It may be listed, and what begins ends.
                self.options.tell_member(name, &presence, true);
            }
            let channel = name.clone();
            self.farewells.push(Request::Quit { channel, presence });
        }
    }

    /// Lets members of a connection that has gone stay for a while, if users are announced.
    pub(crate) fn stay(&mut self, now: Millis) {
        let stays = |farewell: &Request| match farewell {
            Request::Quit { presence, .. } => presence.announced == Announced::Users,
            _ => false,
        };
        if self.farewells.iter().any(stays) {
            let staying = self.farewells.extract_if(.., |it| stays(it));
            self.leaving
                .extend(staying.map(|quit| (now + STAY_MS, quit)));
            self.leave_due(now);
        }
    }

    /// Makes members leave whose time has come.
    pub(crate) fn leave_due(&mut self, now: Millis) {
        while let Some((due, _)) = self.leaving.front()
            && (*due <= now || self.leaving.len() > LEAVING_MAX)
            && let Some((_, quit)) = self.leaving.pop_front()
        {
            self.farewells.push(quit);
        }
    }

    /// Takes a connection out of a channel after its entry was taken out of the subscriptions.
    pub(crate) fn detach(&mut self, conn: ConnId, entry: Entry) {
        self.quit(conn, entry);
        let Some(channel) = self.channels.at_mut(entry.channel) else {
            return;
        };
        match entry.place {
            // The reply will find no subscription.
            Place::Requested(_) => return,
            Place::Joining => {
                if let Some(fanout) = self.fanouts.get_mut(channel.fanout) {
                    fanout
                        .joining
                        .retain(|joining| joining.member.index() != conn.index());
                }
            }
            Place::Member(at) => self.remove_member(entry.channel, at),
        }
        self.release_if_unused(entry.channel);
    }

    /// Removes the member at a place. Others move up so that, during a fan-out, neighbours still
    /// have the same mark.
    pub(crate) fn remove_member(&mut self, key: u32, at: u32) {
        let Some(channel) = self.channels.at_mut(key) else {
            return;
        };
        let last = channel.members.len() - 1;
        let moves = match self.fanouts.get_mut(channel.fanout) {
            Some(fanout) => fanout.remove(at),
            None => vec![last],
        };
        let mut hole = at;
        for from in moves.into_iter().filter(|&from| from != at) {
            let members = channel.members.as_mut_slice();
            members.swap(hole as usize, from as usize);
            let moved = members[hole as usize].index();
            self.subscriptions
                .set_place(moved, key, Place::Member(hole));
            hole = from;
        }
        debug_assert_eq!(hole, last, "the hole ends up last");
        channel.members.pop();
    }

    /// Takes the reply to a subscribe.
    pub(crate) fn subscribed(
        &mut self,
        (reply_to, key, format): (ReplyTo, u32, Format),
        ticket: Ticket,
        result: Result<Subscribed, Refusal>,
        sink: &mut impl Sink,
    ) {
        let Some((name, channel)) = self.channels.entry_mut(key) else {
            return;
        };
        let name = name.clone();
        channel.requests.answered();
        if let Ok(subscribed) = &result {
            let was_live = channel.requests.is_live();
            channel.requests.accepted();
            channel.position.set(subscribed.position);
            if !was_live {
                self.options.tell_occupied(&name, true);
            }
        }
        let is_wanted =
            self.subscriptions.find(reply_to.conn, key) == Some(Place::Requested(ticket.0));
        let result = match result {
            // It unsubscribed meanwhile. It gets an answer if it is still there: every command has
            // one, and an opening waits for all of its channels.
            _ if !is_wanted => Err(Refusal::Cancelled),
            Ok(subscribed) => {
                let format = self.format_after(key, format, &subscribed);
                let place = self.join(reply_to.conn, key, format);
                self.subscriptions
                    .set_place(reply_to.conn.index(), key, place);
                if let Some(presence) = self.present.get(&(reply_to.conn, key)) {
                    self.options.tell_member(&name, presence, true);
                }
                Ok(subscribed)
            }
            Err(refusal) => {
                self.subscriptions.remove(reply_to.conn, key);
                // It was never listed.
                self.present.remove(&(reply_to.conn, key));
                Err(refusal)
            }
        };
        let is_member = result.is_ok();
        let channel = name;
        sink.answer(reply_to, Answer::Subscribed { channel, result });
        self.deferred.answered(reply_to.conn, key);
        if !is_member {
            self.release_if_unused(key);
        }
    }
}
