//! The broker in memory: one part per shard, and mail between them.
//!
//! Owns the streams of the channels whose home is this shard ([`home`]), and the mail that waits
//! for other shards ([`outbox`]). A publication from anywhere goes to the channel's home, gets its
//! position there and goes out to each shard that has a subscriber.
//!
//! With a [`Remote`], which the server decides at its start, every channel goes to that, except
//! those of the server itself: what a node publishes about itself stays on that node.
//!
//! Never: subscribers, mailboxes, the clock.
//!
//! Invariants
//! - A request about a channel that is at home here is answered before [`Broker::request`]
//!   returns, without a way through any queue; but for publications whose answer waits for the
//!   store ([`held`]). Those have gone out by then.
//! - A publication is accepted only if each interested shard has room for it.

mod budget;
mod home;
mod keys;
mod members;
mod outbox;
mod stream;

use std::sync::Arc;

use throng_types::{
    ChannelName, Now, Parts, Payload, PayloadKind, Publication, PublicationKind, Publisher, Saved,
    ShardId,
};

pub use budget::Budget;
pub use home::{BrokerStats, MemoryOptions, home_of};
pub use outbox::{BrokerMail, DELIVERIES_MAX, REQUESTS_MAX};

use crate::{
    Acknowledge, Announced, Draft, LiveOptions, Moving, Outcome, Published, Receiver, Refusal,
    Remote, Reply, Request, Restored, Store, Ticket,
};
use home::Home;
use outbox::{HELD_MAX, Held, Holding, Outbox};

/// The namespace of channels that stay on their node.
const OWN: &str = "throng";

/// One shard's part of the broker. The rules at the head of `contract.rs` hold.
pub struct Broker {
    shard: ShardId,
    home: Home,
    held: Holding,
    outboxes: Vec<Outbox>,
    /// Serves every channel but the server's own, if it is there. Hand it no requests past this
    /// part.
    pub remote: Option<Box<dyn Remote>>,
}

impl Broker {
    /// The part of `shard`, one of `shards`.
    ///
    /// # Panics
    /// If there are no shards or more than 64: interest is kept in the bits of one word.
    #[must_use]
    pub fn new(shard: ShardId, shards: u8, options: MemoryOptions) -> Self {
        assert!((1..=64).contains(&shards), "1 to 64 shards");
        Self {
            shard,
            home: Home::new(options),
            held: Holding::new(),
            outboxes: (0..shards).map(|_| Outbox::default()).collect(),
            remote: None,
        }
    }

    /// Restores the state of this part from a store, and writes to it from now on. Call it before
    /// anything else.
    #[must_use]
    pub fn with_store(
        mut self,
        store: Box<dyn Store>,
        restored: Option<Restored>,
        now: Now,
    ) -> Self {
        if let Some(restored) = restored {
            self.home.restore_all(restored, now);
        }
        self.home.write_to(store);
        self
    }

    /// Leaves every channel but the server's own to a broker on another server.
    #[must_use]
    pub fn with_remote(mut self, remote: Box<dyn Remote>) -> Self {
        self.remote = Some(remote);
        self
    }

    /// Carries out a request of this shard's hub.
    ///
    /// Replies and deliveries that are known at once are handed to `hub` before this returns.
    /// [`Request::Leave`] and [`Request::Quit`] hand it deliveries alone.
    pub fn request(&mut self, request: Request, now: Now, hub: &mut impl Receiver) {
        if let Some(remote) = self.remote(request.channel()) {
            if let Some(refused) = remote.request(request) {
                hub.reply(refused);
            }
            return;
        }
        let home = home_of(request.channel(), self.outboxes.len() as u8);
        if home == self.shard {
            return self.carry_out(home, request, now, hub);
        }
        let outbox = &mut self.outboxes[home.index()];
        let needs_no_room = matches!(request, Request::Leave { .. } | Request::Quit { .. });
        if needs_no_room || outbox.may_ask(1) {
            outbox.push(BrokerMail::Request(request));
        } else if let Some(reply) = request.refused(Refusal::Busy) {
            hub.reply(reply);
        }
    }

    /// Makes many publications that were asked for together. Each has a ticket and a reply of its
    /// own, as if it were a [`Request::Publish`] by itself, in this order. Those with one home
    /// travel in one message.
    pub fn publish_all(&mut self, drafts: Vec<(Ticket, Draft)>, now: Now, hub: &mut impl Receiver) {
        let shards = self.outboxes.len() as u8;
        let mut away: Vec<Vec<(Ticket, Draft)>> = Vec::new();
        away.resize_with(usize::from(shards), Vec::new);
        for (ticket, draft) in drafts {
            let home = home_of(&draft.channel, shards);
            let group = &mut away[home.index()];
            if home == self.shard || self.is_elsewhere(&draft.channel) {
                self.request(Request::Publish { ticket, draft }, now, hub);
            } else if self.outboxes[home.index()].may_ask(1 + group.len()) {
                group.push((ticket, draft));
            } else {
                hub.reply(Reply::published(ticket, Err(Refusal::Busy)));
            }
        }
        for (outbox, group) in self.outboxes.iter_mut().zip(away) {
            if !group.is_empty() {
                outbox.push(BrokerMail::Publications(group));
            }
        }
    }

    /// Takes mail from another shard's part.
    ///
    /// Call it only while the hub has room ([`Receiver::has_room`] is asked before a publication
    /// is accepted, but not for mail): otherwise leave the mail where it is.
    pub fn mail(&mut self, from: ShardId, mail: BrokerMail, now: Now, hub: &mut impl Receiver) {
        match mail {
            BrokerMail::Publications(drafts) => {
                let publish = |asked| self.publish_for(from, asked, now, hub);
                let results: Vec<_> = drafts.into_iter().filter_map(publish).collect();
                if !results.is_empty() {
                    self.outboxes[from.index()].push(BrokerMail::Published(results));
                }
            }
            BrokerMail::Published(results) => {
                for (ticket, result) in results {
                    self.outboxes[from.index()].answered();
                    hub.reply(Reply::published(ticket, result));
                }
            }
            BrokerMail::Request(request) => self.carry_out(from, request, now, hub),
            BrokerMail::Reply(reply) => {
                self.outboxes[from.index()].answered();
                hub.reply(reply);
            }
            BrokerMail::Delivery(publication) => hub.deliver(publication),
        }
    }

    /// Takes what the store and a broker elsewhere have left for this shard, as far as the hub has
    /// room; true if more waits only for the next call. Called once a turn.
    pub fn poll(&mut self, hub: &mut impl Receiver) -> bool {
        if !self.held.is_empty() {
            self.answer_held(hub);
        }
        self.remote.as_mut().is_some_and(|remote| remote.poll(hub))
    }

    /// Bit set of the shards with subscribers of a channel; exact for channels at home here. All
    /// bits are set for channels elsewhere.
    pub fn interest(&self, channel: &ChannelName) -> u64 {
        match self.is_elsewhere(channel) {
            true => u64::MAX,
            false => self.home.interest(channel),
        }
    }

    /// Hands a publication to the broker elsewhere; a reply with this ticket follows.
    ///
    /// # Errors
    /// The reason, with the draft: after [`Refusal::Busy`] it may be offered again. No reply
    /// follows.
    pub fn publish_elsewhere(
        &mut self,
        ticket: Ticket,
        draft: Draft,
    ) -> Result<(), (Refusal, Draft)> {
        match self.remote(&draft.channel) {
            None => Err((Refusal::UnknownChannel, draft)),
            Some(remote) => remote.publish(ticket, draft),
        }
    }

    /// The next mail for another shard's part, in the order in which it must be delivered.
    pub fn take_mail(&mut self, to: ShardId) -> Option<BrokerMail> {
        self.outboxes[to.index()].pop()
    }

    /// Whether mail waits for a shard.
    pub fn has_mail(&self, to: ShardId) -> bool {
        !self.outboxes[to.index()].is_empty()
    }

    /// Does what is due with time, at most `budget` streams of it. True if more is due now.
    pub fn tick(&mut self, now: Now, budget: usize) -> bool {
        self.home.tick(now, budget)
    }

    /// Whether a channel and its history are on another server, so that a process that takes over
    /// finds them there. False for channels that stay on their node.
    pub fn is_elsewhere(&self, channel: &ChannelName) -> bool {
        self.remote.is_some() && is_remote(channel)
    }

    /// Passes a step of a hand-over between processes to a broker elsewhere; see [`Moving`].
    pub fn hand_over(&mut self, moving: Moving) {
        if let Some(remote) = &mut self.remote
            && moving.channel().is_none_or(is_remote)
        {
            remote.hand_over(moving);
        }
    }

    /// Whether a broker elsewhere has every request, and nothing more comes before the requested
    /// cut.
    pub fn has_stopped(&self) -> bool {
        self.remote.as_ref().is_none_or(|it| it.has_stopped())
    }

    /// Hands everything that this part keeps to a process that takes over, as items of kinds below
    /// 128, and forgets it bit by bit, without a record in the store: it is loaded elsewhere from
    /// the items, or here again.
    pub fn give_up(&mut self, parts: &mut Parts<'_>) {
        self.home.give_up(parts);
    }

    /// Loads one saved item; `None` if it is not valid. Safe for any bytes.
    pub fn load(&mut self, kind: u8, from: &mut Saved<'_>) -> Option<()> {
        self.home.load(kind, from)
    }

    /// Continues to write this part's state to its store, if a copy is due; true if there is more
    /// to do now. Called once a turn where there is a store.
    pub fn write_down(&mut self, now: Now) -> bool {
        self.home.copy(now)
    }

    /// Sizes of this part, for metrics.
    pub fn stats(&self) -> BrokerStats {
        self.home.stats()
    }

    /// Replaces the options. What exceeds them is dropped when it is next looked at.
    pub fn renew(&mut self, options: &LiveOptions, now: Now) {
        if let Some(remote) = &mut self.remote {
            remote.renew(options);
        }
        self.home.renew(options.clone(), now.mono);
    }
}

impl Broker {
    fn remote(&mut self, channel: &ChannelName) -> Option<&mut Box<dyn Remote>> {
        self.remote.as_mut().filter(|_| is_remote(channel))
    }

    /// Publishes at once in a channel that is at home here.
    ///
    /// # Errors
    /// The reason, with the draft: after [`Refusal::Busy`] it may be offered again.
    pub fn publish_here(
        &mut self,
        draft: Draft,
        now: Now,
        hub: &mut impl Receiver,
    ) -> Result<Published, (Refusal, Draft)> {
        let Some(retention) = self.home.retention_of(&draft.channel) else {
            return Err((Refusal::UnknownChannel, draft));
        };
        if retention.keeps() && !draft.skip_history && self.home.refuses() {
            return Err((Refusal::NotWritten, draft));
        }
        let bytes = draft.cost_bytes();
        let interest = self.home.interest(&draft.channel);
        let have_room = bits(interest).all(|shard| {
            if shard == self.shard {
                hub.has_room(&draft.channel, bytes)
            } else {
                self.outboxes[shard.index()].has_room(bytes)
            }
        });
        if !have_room {
            return Err((Refusal::Busy, draft));
        }
        let accepted = self.home.accept(draft, retention, interest, now);
        let mut shards = 0;
        if let Some(publication) = accepted.publication {
            for shard in bits(accepted.interest) {
                shards += 1;
                let publication = publication.clone();
                if shard == self.shard {
                    hub.deliver(publication);
                } else {
                    self.outboxes[shard.index()].push(BrokerMail::Delivery(publication));
                }
            }
        }
        Ok(Published {
            position: accepted.position,
            shards: Some(shards),
        })
    }

    /// Publishes for a shard; nothing if the answer waits for the store.
    fn publish_for(
        &mut self,
        from: ShardId,
        asked: (Ticket, Draft),
        now: Now,
        hub: &mut impl Receiver,
    ) -> Option<(Ticket, Result<Published, Refusal>)> {
        // The check borrows the draft: it is large, and moved once.
        match asked {
            (ticket, draft) if self.home.acknowledge(&draft) == Acknowledge::Memory => {
                Some((ticket, self.publish_now(draft, now, hub)))
            }
            (ticket, draft) => {
                let result = self.publish_held((from, ticket), draft, now, hub)?;
                Some((ticket, result))
            }
        }
    }

    #[inline]
    fn publish_now(
        &mut self,
        draft: Draft,
        now: Now,
        hub: &mut impl Receiver,
    ) -> Result<Published, Refusal> {
        let result = self.publish_here(draft, now, hub);
        result.map_err(|(refusal, _)| refusal)
    }

    /// Publishes a draft whose answer may wait for the store; gives the answer if it is known at
    /// once.
    #[inline(never)]
    fn publish_held(
        &mut self,
        (from, ticket): (ShardId, Ticket),
        draft: Draft,
        now: Now,
        hub: &mut impl Receiver,
    ) -> Option<Result<Published, Refusal>> {
        let level = self.home.acknowledge(&draft);
        if self.held.len() >= HELD_MAX || !self.home.has_place_for(&draft) {
            return Some(Err(Refusal::Busy));
        }
        let channel = draft.channel.clone();
        match self.publish_here(draft, now, hub) {
            Err((refusal, _)) => Some(Err(refusal)),
            Ok(published) => {
                let (record, inside) = self.home.written_by(&channel, level);
                self.held.push_back(Held {
                    to: from,
                    ticket,
                    published,
                    level,
                    record,
                    inside,
                });
                None
            }
        }
    }

    /// Answers the publications that the store has by now.
    fn answer_held(&mut self, hub: &mut impl Receiver) {
        let mut away: Vec<(ShardId, Vec<_>)> = Vec::new();
        while let Some(held) = self.held.front_mut() {
            if let Some(key) = held.inside {
                if self.home.is_copied_inside(key) {
                    break;
                }
                held.inside = None;
                held.record = self.home.newest_record(held.level);
            }
            let Some(result) = held.result(self.home.reached()) else {
                break;
            };
            let (to, ticket) = (held.to, held.ticket);
            self.held.pop_front();
            if to == self.shard {
                hub.reply(Reply::published(ticket, result));
                continue;
            }
            match away.iter_mut().find(|(shard, _)| *shard == to) {
                Some((_, results)) => results.push((ticket, result)),
                None => away.push((to, vec![(ticket, result)])),
            }
        }
        for (to, results) in away {
            self.outboxes[to.index()].push(BrokerMail::Published(results));
        }
    }

    /// Carries out a request about a channel that is at home here.
    fn serve(
        &mut self,
        from: ShardId,
        request: Request,
        now: Now,
        hub: &mut impl Receiver,
    ) -> Option<Reply> {
        let (ticket, outcome) = match request {
            Request::Subscribe {
                ticket,
                channel,
                since,
                presence: _,
            } => {
                let subscribed = self.home.subscribe(from, &channel, since, now);
                (ticket, Outcome::Subscribed(Ok(subscribed)))
            }
            Request::Leave { channel } => {
                self.home.leave(from, &channel, now);
                return None;
            }
            Request::Quit { .. } => return None,
            Request::Present {
                ticket,
                channel,
                with_members,
            } => {
                let present = self.home.present(&channel, with_members);
                (ticket, Outcome::Present(present))
            }
            Request::Publish { ticket, draft }
                if self.home.acknowledge(&draft) == Acknowledge::Memory =>
            {
                (
                    ticket,
                    Outcome::Published(self.publish_now(draft, now, hub)),
                )
            }
            Request::Publish { ticket, draft } => {
                let result = self.publish_held((from, ticket), draft, now, hub)?;
                (ticket, Outcome::Published(result))
            }
            Request::Forget { ticket, channel } => {
                let forgotten = self.home.forget_history(&channel, now);
                (ticket, Outcome::History(forgotten))
            }
            Request::History {
                ticket,
                channel,
                query,
            } => {
                let page = self.home.history(&channel, query, now);
                (ticket, Outcome::History(page))
            }
        };
        Some(Reply { ticket, outcome })
    }

    /// Carries out a request, replies, and then announces the coming or going.
    fn carry_out(&mut self, from: ShardId, request: Request, now: Now, hub: &mut impl Receiver) {
        let is_users = self.home.members.note(&request);
        let announcement = announcement(&request, is_users, now);
        if let Some(reply) = self.serve(from, request, now, hub) {
            if from == self.shard {
                hub.reply(reply);
            } else {
                self.outboxes[from.index()].push(BrokerMail::Reply(reply));
            }
        }
        if let Some(announcement) = announcement {
            self.announce(&announcement, hub);
        }
    }

    /// Delivers the notice of a coming or going, as far as there is room to spare.
    fn announce(&mut self, announcement: &Arc<Publication>, hub: &mut impl Receiver) {
        let channel = &announcement.channel;
        if !self.home.may_announce(channel) {
            return;
        }
        for shard in bits(self.home.interest(channel)) {
            let announcement = announcement.clone();
            if shard == self.shard {
                hub.deliver(announcement);
            } else if self.outboxes[shard.index()].has_spare_room() {
                self.outboxes[shard.index()].push(BrokerMail::Delivery(announcement));
            }
        }
    }
}

/// The coming or going that a request causes, once it has taken effect. `is_users` if it is the
/// user's, and not of one connection alone.
fn announcement(request: &Request, is_users: bool, now: Now) -> Option<Arc<Publication>> {
    let (channel, presence, told) = match request {
        Request::Subscribe {
            channel,
            presence: Some(presence),
            ..
        } => (channel, presence, PublicationKind::Joined),
        Request::Quit { channel, presence } => (channel, presence, PublicationKind::Left),
        _ => return None,
    };
    let publication = || Publication {
        channel: channel.clone(),
        told,
        position: None,
        payload: Payload {
            bytes: Arc::from(&[][..]),
            kind: PayloadKind::Text,
        },
        publisher: Some(Box::new(Publisher::clone(&presence.who))),
        tags: None,
        time_unix_ms: now.unix_ms,
        trace: None,
    };
    let is_told = match presence.announced {
        Announced::Nothing => false,
        Announced::Connections => true,
        Announced::Users => is_users,
    };
    is_told.then(|| publication().shared())
}

fn is_remote(channel: &ChannelName) -> bool {
    channel.namespace() != Some(OWN)
}

fn bits(mut set: u64) -> impl Iterator<Item = ShardId> {
    std::iter::from_fn(move || {
        let shard = (set != 0).then(|| ShardId(set.trailing_zeros() as u8))?;
        set &= set - 1;
        Some(shard)
    })
}
