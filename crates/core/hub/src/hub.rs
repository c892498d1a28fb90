//! The hub: what sessions call, and the requests to the broker that follow from it.

use std::sync::Arc;

use throng_broker::{
    Broker, BrokerMail, BrokerStats, Draft, Hooks, LiveOptions, Outcome, Published, Receiver,
    Refusal, Reply, Request,
};
use throng_types::{ChannelName, ConnId, Millis, Now, Publication, ShardId};

use crate::channel::Channel;
use crate::local::Local;
use crate::subscriptions::Place;
use crate::waiting::{TracedPublish, Waiting};
use crate::{Answer, Command, HubOptions, ReplyTo, Sink};

/// Sizes of a hub, for metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HubStats {
    /// Channels with a subscriber on this shard.
    pub channels: usize,
    /// Subscriptions on this shard, answered or not.
    pub subscriptions: usize,
    /// Comings and goings dropped for lack of room, since the start.
    pub news_dropped: u64,
    /// Deliveries saved because a newer publication replaced theirs in its window, since the start.
    pub conflated: u64,
    /// Sizes of this shard's part of the broker.
    pub home: BrokerStats,
}

/// One shard's hub, with its part of a broker.
pub struct Hub {
    /// Called past the hub only for what hands it nothing.
    pub broker: Broker,
    pub(crate) local: Local,
}

impl Hub {
    /// A hub without subscribers.
    pub fn new(options: HubOptions, broker: Broker) -> Self {
        Self {
            broker,
            local: Local::new(options),
        }
    }

    /// Sizes of this hub, for metrics.
    pub fn stats(&self) -> HubStats {
        HubStats {
            channels: self.local.channels.len(),
            subscriptions: self.local.subscriptions.total(),
            news_dropped: self.local.news_dropped,
            conflated: self.local.conflated,
            home: self.broker.stats(),
        }
    }

    /// Whether a connection of this shard subscribes to a channel, answered or not.
    pub fn has_channel(&self, channel: &ChannelName) -> bool {
        self.local.channels.key(channel).is_some()
    }

    /// Number of connections of this shard that subscribe to a channel, answered or not.
    pub fn member_count(&self, channel: &ChannelName) -> u32 {
        let channel = self.local.channels.get(channel);
        channel.map_or(0, |channel| channel.members.len())
    }

    /// Number of subscribers of a channel on this shard, as in [`Self::channels`].
    pub fn subscribers(&self, channel: &ChannelName) -> u32 {
        let channel = self.local.channels.get(channel);
        channel.map_or(0, |channel| self.members(channel))
    }

    /// Number of channels that a connection subscribes to, answered or not.
    pub fn subscription_count(&self, conn: ConnId) -> usize {
        self.local.subscriptions.of(conn).len()
    }

    /// Whether a connection subscribes to a channel, answered or not.
    pub fn is_subscribed(&self, conn: ConnId, channel: &ChannelName) -> bool {
        self.local.is_subscribed(conn, channel)
    }

    pub fn channels_of(&self, conn: ConnId) -> impl Iterator<Item = &ChannelName> {
        let entries = self.local.subscriptions.of(conn).iter();
        entries
            .filter_map(|entry| self.local.channels.at(entry.channel))
            .map(|(name, _)| name)
    }

    /// Channels with members on this shard, and their numbers.
    pub fn channels(&self) -> impl Iterator<Item = (&ChannelName, u32)> {
        self.local
            .channels
            .iter()
            .map(|(name, channel)| (name, self.members(channel)))
    }

    fn members(&self, channel: &Channel) -> u32 {
        let fanout = self.local.fanouts.get(channel.fanout);
        let joining = fanout.map_or(0, |fanout| fanout.joining.len());
        channel.members.len() + joining as u32
    }

    /// Carries out a command, after the connection's earlier ones for the channel.
    pub fn handle(&mut self, command: Command, now: Now, sink: &mut impl Sink) {
        if let Some((conn, key)) = self.local.waits_for(&command) {
            return self.local.deferred.push(conn, key, command, sink);
        }
        self.act(command, now, sink);
        self.act_on_ready(now, sink);
    }

    /// Carries out commands that waited for a subscribe, once it has been answered.
    #[inline]
    fn act_on_ready(&mut self, now: Now, sink: &mut impl Sink) {
        if self.local.deferred.has_ready() {
            self.act_on_each_ready(now, sink);
        }
    }

    #[inline(never)]
    fn act_on_each_ready(&mut self, now: Now, sink: &mut impl Sink) {
        while let Some(command) = self.local.deferred.next_ready(sink) {
            match self.local.waits_for(&command) {
                Some((conn, key)) => self.local.deferred.push(conn, key, command, sink),
                None => self.act(command, now, sink),
            }
        }
    }

    fn act(&mut self, command: Command, now: Now, sink: &mut impl Sink) {
        match command {
            Command::Subscribe {
                reply_to,
                channel,
                format,
                since,
                presence,
            } => {
                let who = (reply_to, format);
                let request = self.local.subscribe(who, channel, since, presence, sink);
                if let Some(request) = request {
                    self.request(request, now, sink);
                }
            }
            Command::Unsubscribe {
                conn,
                channel,
                token,
            } => {
                self.unsubscribe(conn, &channel, now);
                if let Some(token) = token {
                    let result = Ok(());
                    let answer = Answer::Unsubscribed { channel, result };
                    sink.answer(ReplyTo::new(conn, token), answer);
                }
            }
            Command::Publish { reply_to, draft } => {
                self.local.note_published(&draft.channel, sink);
                let waiting = self.waits(Waiting::Answer(reply_to), &draft, now);
                let ticket = self.local.waiting.insert(waiting);
                self.request(Request::Publish { ticket, draft }, now, sink);
            }
            Command::PublishAll { reply_to, drafts } => {
                let waits = |number| {
                    let token = reply_to.token.wrapping_add(number);
                    let reply_to = ReplyTo { token, ..reply_to };
                    Waiting::Answer(reply_to)
                };
                self.publish_all(drafts, waits, now, sink);
            }
            Command::Feed { round, drafts } => {
                let waits = |number| Waiting::Feed { round, number };
                self.publish_all(drafts, waits, now, sink);
            }
            Command::Announce { draft } => {
                let ticket = self.local.waiting.insert(Waiting::Nobody);
                self.request(Request::Publish { ticket, draft }, now, sink);
            }
            Command::Present {
                reply_to,
                channel,
                with_members,
                only_subscribed,
            } => {
                if only_subscribed && !self.local.is_subscribed(reply_to.conn, &channel) {
                    let what = "presence";
                    return sink.answer(reply_to, Answer::NotSubscribed { what, channel });
                }
                let ticket = self.local.waiting.insert(Waiting::Answer(reply_to));
                let request = Request::Present {
                    ticket,
                    channel,
                    with_members,
                };
                self.request(request, now, sink);
            }
            Command::Forget { reply_to, channel } => {
                let ticket = self.local.waiting.insert(Waiting::Answer(reply_to));
                self.request(Request::Forget { ticket, channel }, now, sink);
            }
            Command::History {
                reply_to,
                channel,
                query,
                only_subscribed,
            } => {
                if only_subscribed && !self.local.is_subscribed(reply_to.conn, &channel) {
                    let what = "history";
                    return sink.answer(reply_to, Answer::NotSubscribed { what, channel });
                }
                let ticket = self.local.waiting.insert(Waiting::Answer(reply_to));
                let request = Request::History {
                    ticket,
                    channel,
                    query,
                };
                self.request(request, now, sink);
            }
        }
    }

    /// Notes the time of a traced draft that goes to a broker elsewhere.
    #[inline]
    fn waits(&self, waiting: Waiting, draft: &Draft, now: Now) -> Waiting {
        match &draft.trace {
            Some(by) if self.broker.is_elsewhere(&draft.channel) => {
                Waiting::Traced(Box::new(TracedPublish {
                    waiting,
                    by: by.clone(),
                    channel: draft.channel.clone(),
                    since_unix_ms: now.unix_ms,
                }))
            }
            _ => waiting,
        }
    }

    /// Publishes drafts together; `waits` says by its number who waits for each.
    fn publish_all(
        &mut self,
        drafts: Vec<Draft>,
        waits: impl Fn(u32) -> Waiting,
        now: Now,
        sink: &mut impl Sink,
    ) {
        for draft in &drafts {
            self.local.note_published(&draft.channel, sink);
        }
        let ask = |(number, draft): (u32, Draft)| {
            let waiting = self.waits(waits(number), &draft, now);
            (self.local.waiting.insert(waiting), draft)
        };
        let drafts = (0..).zip(drafts).map(ask).collect();
        let local = &mut self.local;
        let hub = &mut Replies { local, sink };
        self.broker.publish_all(drafts, now, hub);
        self.leave_unused(now);
    }

    /// Replaces the options, also for channels with subscribers; they hold for later publications
    /// and requests. `subscriptions_max` is that of [`HubOptions`].
    pub fn renew(&mut self, subscriptions_max: usize, options: &LiveOptions, now: Now) {
        self.local.options.subscriptions_max = subscriptions_max;
        self.local.options.namespaces = options.namespaces.clone();
        self.broker.renew(options, now);
    }

    /// Begins to tell webhooks, with the subscribers and members that are here.
    pub fn tell_webhooks(&mut self, hooks: Arc<dyn Hooks>) {
        let local = &mut self.local;
        local.options.hooks = Some(hooks);
        for (_, name, channel) in local.channels.entries() {
            if channel.requests.is_live() {
                local.options.tell_occupied(name, true);
            }
        }
        for ((conn, key), presence) in &local.present {
            let place = local.subscriptions.find(*conn, *key);
            if !matches!(place, Some(Place::Requested(_)))
                && let Some((name, _)) = local.channels.at(*key)
            {
                local.options.tell_member(name, presence, true);
            }
        }
        let leaving = local.leaving.iter().map(|(_, quit)| quit);
        for quit in leaving.chain(&local.farewells) {
            if let Request::Quit { channel, presence } = quit {
                local.options.tell_member(channel, presence, true);
            }
        }
    }

    fn request(&mut self, request: Request, now: Now, sink: &mut impl Sink) {
        let local = &mut self.local;
        self.broker
            .request(request, now, &mut Replies { local, sink });
        self.leave_unused(now);
    }

    /// Takes mail from another shard's hub.
    pub fn mail(&mut self, from: ShardId, mail: BrokerMail, now: Now, sink: &mut impl Sink) {
        let local = &mut self.local;
        self.broker
            .mail(from, mail, now, &mut Replies { local, sink });
        self.leave_unused(now);
        self.act_on_ready(now, sink);
    }

    /// Takes what a broker's driver has left for this shard, as far as there is room; true if more
    /// waits.
    pub fn poll(&mut self, now: Now, sink: &mut impl Sink) -> bool {
        let local = &mut self.local;
        let more = self.broker.poll(&mut Replies { local, sink });
        self.leave_unused(now);
        self.act_on_ready(now, sink);
        more
    }

    /// Whether mail may be taken. While not, leave it in the mailbox: its sender will
    /// find no room for more and refuse new publications.
    pub const fn wants_mail(&self) -> bool {
        self.local.has_room()
    }

    /// Ends all subscriptions of a connection that has gone.
    pub fn gone(&mut self, conn: ConnId, now: Now) {
        self.local.deferred.forget(conn);
        while let Some(entry) = self.local.subscriptions.remove_any(conn) {
            self.local.detach(conn, entry);
        }
        self.local.stay(now.mono);
        self.leave_unused(now);
    }

    /// Ends one subscription, and cancels those that wait; false if there was none.
    pub fn unsubscribe(&mut self, conn: ConnId, channel: &ChannelName, now: Now) -> bool {
        let Some(key) = self.local.channels.key(channel) else {
            return false;
        };
        let waited = self.local.deferred.cancel(conn, key);
        let Some(entry) = self.local.subscriptions.remove(conn, key) else {
            return waited;
        };
        if matches!(entry.place, Place::Requested(_)) {
            self.local.deferred.hold(conn, key);
        }
        self.local.detach(conn, entry);
        self.leave_unused(now);
        true
    }

    /// Delivers to at most `visits` members; true if more wait.
    ///
    /// A member whose connection has other channels is asked to gather, so that it is
    /// written to once even when several of its channels were published to in one turn.
    pub fn fan_out(&mut self, visits: usize, now: Now, sink: &mut impl Sink) -> bool {
        self.local.leave_due(now.mono);
        // Before the fan-out, which tells of them.
        self.leave_unused(now);
        let more = self.local.fan_out(visits, now.mono, sink);
        self.leave_unused(now);
        more
    }

    /// When [`Hub::fan_out`] has something to do next, if nothing happens before: the end of a
    /// channel's delay, or of a member's stay.
    pub fn deadline(&self) -> Option<Millis> {
        let rest = self.local.resting.first().map(|&(until, _)| until);
        let stay = self.local.leaving.front().map(|&(due, _)| due);
        rest.into_iter().chain(stay).min()
    }

    /// Sends the broker the members that left, and the channels without subscribers here.
    #[inline]
    pub(crate) fn leave_unused(&mut self, now: Now) {
        if !self.local.farewells.is_empty() {
            self.say_farewells(now);
        }
    }

    #[inline(never)]
    fn say_farewells(&mut self, now: Now) {
        while let Some(farewell) = self.local.farewells.pop() {
            match &farewell {
                Request::Leave { channel } => self.local.options.tell_occupied(channel, false),
                Request::Quit { channel, presence } => {
                    self.local.options.tell_member(channel, presence, false);
                }
                _ => {}
            }
            self.broker.request(farewell, now, &mut self.local);
        }
    }

    /// Publishes at once in a channel that is at home here. One that is elsewhere is on its way
    /// then: nobody hears what becomes of it, but the hub is not at rest before it is known.
    ///
    /// # Errors
    /// The reason, with the draft: after [`Refusal::Busy`] it may be offered again.
    pub fn publish_here(&mut self, draft: Draft, now: Now) -> Result<Published, (Refusal, Draft)> {
        if !self.broker.is_elsewhere(&draft.channel) {
            return self.broker.publish_here(draft, now, &mut self.local);
        }
        let waiting = self.waits(Waiting::Nobody, &draft, now);
        let ticket = self.local.waiting.insert(waiting);
        match self.broker.publish_elsewhere(ticket, draft) {
            Ok(()) => Ok(Published {
                position: None,
                shards: None,
            }),
            Err(refused) => {
                self.local.waiting.remove(ticket);
                Err(refused)
            }
        }
    }
}

/// A hub that takes replies, for the length of one call.
pub(crate) struct Replies<'a, S> {
    pub(crate) local: &'a mut Local,
    pub(crate) sink: &'a mut S,
}

impl<S: Sink> Receiver for Replies<'_, S> {
    fn has_room(&self, channel: &ChannelName, bytes: usize) -> bool {
        self.local.has_room_in(channel, bytes)
    }

    fn reply(&mut self, reply: Reply) {
        let (local, sink) = (&mut *self.local, &mut *self.sink);
        let ticket = reply.ticket;
        let mut waiting = local.waiting.remove(ticket);
        if let Waiting::Traced(traced) = waiting {
            let is_taken = matches!(reply.outcome, Outcome::Published(Ok(_)));
            sink.broker_replied(&traced.by, traced.since_unix_ms, &traced.channel, is_taken);
            waiting = traced.waiting;
        }
        match (waiting, reply.outcome) {
            (
                Waiting::Subscribe {
                    reply_to,
                    channel,
                    format,
                },
                Outcome::Subscribed(result),
            ) => local.subscribed((reply_to, channel, format), ticket, result, sink),
            (Waiting::Feed { round, number }, Outcome::Published(result)) => {
                let result = result.map(|Published { position, .. }| position);
                sink.fed(round, number, result);
            }
            (Waiting::Answer(reply_to), outcome) => {
                if let Some(answer) = Answer::of(outcome) {
                    sink.answer(reply_to, answer);
                }
            }
            _ => {}
        }
    }

    fn deliver(&mut self, publication: Arc<Publication>) {
        self.local.enqueue(publication);
    }

    fn broken(&mut self, channel: &ChannelName) {
        self.local.broken(channel, self.sink);
    }
}

/// Takes deliveries where no reply can come.
impl Receiver for Local {
    fn has_room(&self, channel: &ChannelName, bytes: usize) -> bool {
        self.has_room_in(channel, bytes)
    }

    fn reply(&mut self, _: Reply) {
        debug_assert!(false, "a reply without a request");
    }

    fn deliver(&mut self, publication: Arc<Publication>) {
        self.enqueue(publication);
    }

    fn broken(&mut self, _: &ChannelName) {
        debug_assert!(false, "a gap without a broker elsewhere");
    }
}
