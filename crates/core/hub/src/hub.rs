//! The hub's doors: commands, mail, connections that leave.

use std::collections::VecDeque;
use std::sync::Arc;

use hashbrown::HashTable;
use throng_broker::{
    Draft, Home, HomeOptions, HomeStats, Namespaces, Published, Refusal, Reply, Request,
    Subscribed, Ticket, home_of,
};
use throng_types::{ChannelName, ConnId, Now, Position, Publication, ShardId, Slots};

use crate::channel::{Channel, Member, NO_SWEEP};
use crate::link::Link;
use crate::subscriptions::{Entry, Place, Subscriptions};
use crate::sweep::{Newcomer, Sweep};
use crate::{Answer, Asker, Command, Format, Mail, Sink};

/// What a hub is made of.
#[derive(Clone)]
pub struct HubOptions {
    /// Which shard this is.
    pub shard: ShardId,
    /// How many shards there are, at most 64.
    pub shards: u8,
    /// Subscriptions that one connection may have.
    pub subscriptions_max: usize,
    /// The home of this shard's channels.
    pub home: HomeOptions,
}

/// Sizes for metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HubStats {
    /// Channels with a subscriber on this shard.
    pub channels: usize,
    /// Subscriptions on this shard, answered or not.
    pub subscriptions: usize,
    /// Of the streams at home here.
    pub home: HomeStats,
}

/// A question that another shard has not answered yet.
enum Pending {
    Subscribe {
        asker: Asker,
        channel: u32,
        format: Format,
    },
    Publish {
        asker: Asker,
    },
    History {
        asker: Asker,
    },
}

/// See the crate's head.
pub struct Hub {
    pub(crate) options: HubOptions,
    pub(crate) namespaces: Arc<Namespaces>,
    pub(crate) home: Home,
    pub(crate) channels: Slots<Channel>,
    names: HashTable<u32>,
    hasher: foldhash::fast::FixedState,
    pub(crate) subscriptions: Subscriptions,
    pending: Slots<Pending>,
    pub(crate) links: Vec<Link>,
    pub(crate) sweeps: Slots<Sweep>,
    pub(crate) turn_order: VecDeque<u32>,
    /// Publications that wait for a later round of their sweep, in all sweeps.
    pub(crate) waiting: usize,
}

/// Publications that may wait for their members before publishing is refused and mail is left where it is.
const WAITING_MAX: usize = 65_536;

impl Hub {
    /// A hub without subscribers.
    ///
    /// # Panics
    /// If there are more than 64 shards: interest is kept in the bits of one word.
    #[must_use]
    pub fn new(options: HubOptions) -> Self {
        assert!((1..=64).contains(&options.shards), "1 to 64 shards");
        Self {
            namespaces: options.home.namespaces.clone(),
            home: Home::new(options.home.clone()),
            channels: Slots::default(),
            names: HashTable::new(),
            hasher: foldhash::fast::FixedState::with_seed(options.home.hash_seed),
            subscriptions: Subscriptions::default(),
            pending: Slots::default(),
            links: (0..options.shards).map(|_| Link::default()).collect(),
            sweeps: Slots::default(),
            turn_order: VecDeque::new(),
            waiting: 0,
            options,
        }
    }

    /// Sizes for metrics.
    #[must_use]
    pub fn stats(&self) -> HubStats {
        HubStats {
            channels: self.channels.len(),
            subscriptions: self.subscriptions.total(),
            home: self.home.stats(),
        }
    }

    /// Which shards have subscribers of a channel, as bits; known for channels at home here.
    #[must_use]
    pub fn interest(&self, channel: &ChannelName) -> u64 {
        self.home.interest(channel)
    }

    /// How many channels a connection subscribes to, answered or not.
    #[must_use]
    pub fn subscription_count(&self, conn: ConnId) -> usize {
        self.subscriptions.of(conn).len()
    }

    /// Whether a connection subscribes to a channel, answered or not.
    #[must_use]
    pub fn is_subscribed(&self, conn: ConnId, channel: &ChannelName) -> bool {
        self.channel_key(channel)
            .is_some_and(|key| self.subscriptions.find(conn, key).is_some())
    }

    /// The channels of a connection.
    pub fn channels_of(&self, conn: ConnId) -> impl Iterator<Item = &ChannelName> {
        let entries = self.subscriptions.of(conn).iter();
        entries
            .filter_map(|entry| self.channels.get(entry.channel))
            .map(|channel| &channel.name)
    }

    /// The channels with members on this shard, and how many.
    pub fn channels(&self) -> impl Iterator<Item = (&ChannelName, u32)> {
        self.channels.iter().map(|(_, channel)| {
            let newcomers = self
                .sweeps
                .get(channel.sweep)
                .map_or(0, |sweep| sweep.newcomers.len());
            (&channel.name, channel.members.len() + newcomers as u32)
        })
    }

    /// Carries out what a connection wants.
    pub fn handle(&mut self, command: Command, now: Now, sink: &mut impl Sink) {
        match command {
            Command::Subscribe {
                asker,
                channel,
                format,
                since,
            } => {
                self.subscribe(asker, channel, format, since, now, sink);
            }
            Command::Unsubscribe { conn, channel } => {
                self.unsubscribe(conn, &channel, now);
            }
            Command::Publish { asker, draft } => self.publish(asker, draft, now, sink),
            Command::History {
                asker,
                channel,
                query,
            } => {
                let home = self.home_of(&channel);
                if home == self.options.shard {
                    let result = self.home.history(&channel, query, now);
                    sink.answer(asker, Answer::History { result });
                } else if self.links[home.index()].may_ask() {
                    let ticket = self.pend(Pending::History { asker });
                    self.ask(
                        home,
                        Request::History {
                            ticket,
                            channel,
                            query,
                        },
                    );
                } else {
                    sink.answer(
                        asker,
                        Answer::History {
                            result: Err(Refusal::Busy),
                        },
                    );
                }
            }
        }
    }

    /// Takes mail from another shard's hub.
    pub fn mail(&mut self, from: ShardId, mail: Mail, now: Now, sink: &mut impl Sink) {
        match mail {
            Mail::Request(request) => self.request(from, request, now),
            Mail::Reply(reply) => {
                if !matches!(reply, Reply::Delivery(_)) {
                    let link = &mut self.links[from.index()];
                    link.unanswered = link.unanswered.saturating_sub(1);
                }
                self.reply(reply, now, sink);
            }
        }
    }

    /// The next mail for a shard, in the order in which it must be delivered.
    pub fn take_mail(&mut self, to: ShardId) -> Option<Mail> {
        self.links[to.index()].pop()
    }

    /// Whether mail waits for a shard.
    #[must_use]
    pub fn has_mail(&self, to: ShardId) -> bool {
        !self.links[to.index()].is_empty()
    }

    /// Whether mail may be taken. While not, leave it in the mailbox: its sender will
    /// find no room for more and refuse new publications.
    #[must_use]
    pub const fn wants_mail(&self) -> bool {
        self.waiting < WAITING_MAX
    }

    /// Ends all subscriptions of a connection that has gone.
    pub fn gone(&mut self, conn: ConnId, now: Now) {
        while let Some(entry) = self.subscriptions.remove_any(conn) {
            self.detach(conn, entry, now);
        }
    }

    /// Ends one subscription; false if there was none.
    pub fn unsubscribe(&mut self, conn: ConnId, channel: &ChannelName, now: Now) -> bool {
        let Some(key) = self.channel_key(channel) else {
            return false;
        };
        let Some(entry) = self.subscriptions.remove(conn, key) else {
            return false;
        };
        self.detach(conn, entry, now);
        true
    }

    /// Expires history; true if more is due than `budget` allowed.
    pub fn expire(&mut self, now: Now, budget: usize) -> bool {
        self.home.sweep(now, budget)
    }

    // ---- channels ----

    fn home_of(&self, channel: &ChannelName) -> ShardId {
        home_of(channel, self.options.shards)
    }

    fn hash(&self, channel: &ChannelName) -> u64 {
        use std::hash::BuildHasher;
        self.hasher.hash_one(channel.as_str())
    }

    pub(crate) fn channel_key(&self, channel: &ChannelName) -> Option<u32> {
        let same = |key: &u32| {
            self.channels
                .get(*key)
                .is_some_and(|known| known.name == *channel)
        };
        self.names.find(self.hash(channel), same).copied()
    }

    fn channel_key_or_new(&mut self, channel: &ChannelName) -> u32 {
        if let Some(key) = self.channel_key(channel) {
            return key;
        }
        let hash = self.hash(channel);
        let key = self.channels.insert(Channel::new(channel.clone()));
        let (channels, hasher) = (&self.channels, &self.hasher);
        self.names.insert_unique(hash, key, |key| {
            use std::hash::BuildHasher;
            channels
                .get(*key)
                .map_or(0, |channel| hasher.hash_one(channel.name.as_str()))
        });
        key
    }

    /// Forgets a channel that nobody here subscribes to, and tells its home.
    pub(crate) fn release_if_unused(&mut self, key: u32, now: Now) {
        let Some(channel) = self.channels.get(key) else {
            return;
        };
        let newcomers = self
            .sweeps
            .get(channel.sweep)
            .is_some_and(|s| !s.newcomers.is_empty());
        if channel.members.len() > 0 || channel.asked > 0 || newcomers {
            return;
        }
        let sweep = channel.sweep;
        let hash = self.hash(&channel.name);
        if let Ok(entry) = self.names.find_entry(hash, |known| *known == key) {
            entry.remove();
        }
        if self.names.is_empty() {
            self.names = HashTable::new();
        }
        if let Some(sweep_left) = self.sweeps.remove(sweep) {
            self.waiting -= sweep_left.waiting();
            self.turn_order.retain(|&waiting| waiting != sweep);
        }
        let Some(channel) = self.channels.remove(key) else {
            return;
        };
        let home = self.home_of(&channel.name);
        if home == self.options.shard {
            self.home.leave(home, &channel.name, now);
        } else {
            let leave = Request::Leave {
                channel: channel.name,
            };
            self.links[home.index()].push(Mail::Request(leave));
        }
    }

    // ---- subscribing ----

    fn subscribe(
        &mut self,
        asker: Asker,
        name: ChannelName,
        format: Format,
        since: Option<Position>,
        now: Now,
        sink: &mut impl Sink,
    ) {
        let home = self.home_of(&name);
        let local = home == self.options.shard;
        let busy = asker.conn.index() > Member::INDEX_MAX
            || (!local && !self.links[home.index()].may_ask());
        let refusal = if self.namespaces.find(&name).is_none() {
            Some(Refusal::UnknownChannel)
        } else if self.is_subscribed(asker.conn, &name) {
            Some(Refusal::AlreadySubscribed)
        } else if self.subscription_count(asker.conn) >= self.options.subscriptions_max {
            Some(Refusal::ChannelLimit)
        } else {
            busy.then_some(Refusal::Busy)
        };
        if let Some(refusal) = refusal {
            let result = Err(refusal);
            return sink.answer(
                asker,
                Answer::Subscribed {
                    channel: name,
                    result,
                },
            );
        }
        let key = self.channel_key_or_new(&name);
        if local {
            let subscribed = self.home.subscribe(home, &name, since, now);
            self.join(asker.conn, key, format, subscribed.position);
            sink.answer(
                asker,
                Answer::Subscribed {
                    channel: name,
                    result: Ok(subscribed),
                },
            );
            return;
        }
        let Some(channel) = self.channels.get_mut(key) else {
            return;
        };
        if channel.live && since.is_none() {
            // Deliveries reach this shard already: it stands where the last one left it.
            let subscribed = Subscribed {
                position: channel.position,
                recovery: throng_broker::Recovery::NotAsked,
            };
            self.join(asker.conn, key, format, subscribed.position);
            sink.answer(
                asker,
                Answer::Subscribed {
                    channel: name,
                    result: Ok(subscribed),
                },
            );
            return;
        }
        channel.asked += 1;
        let ticket = self.pend(Pending::Subscribe {
            asker,
            channel: key,
            format,
        });
        self.subscriptions.add(
            asker.conn,
            Entry {
                channel: key,
                place: Place::Asked(ticket.0),
            },
        );
        self.ask(
            home,
            Request::Subscribe {
                ticket,
                channel: name,
                since,
            },
        );
    }

    /// Makes a connection a member from now on.
    fn join(&mut self, conn: ConnId, key: u32, format: Format, position: Option<Position>) {
        let Some(channel) = self.channels.get_mut(key) else {
            return;
        };
        channel.live = true;
        channel.position = position;
        let member = Member::new(conn.index(), format);
        let place = match self.sweeps.get_mut(channel.sweep) {
            Some(sweep) => {
                let from = sweep.next_number();
                sweep.newcomers.push(Newcomer { member, from });
                Place::Newcomer
            }
            None => {
                channel.members.push(member);
                Place::Member(channel.members.len() - 1)
            }
        };
        self.subscriptions.add(
            conn,
            Entry {
                channel: key,
                place,
            },
        );
    }

    /// Takes a connection out of a channel after its entry was taken out of the subscriptions.
    fn detach(&mut self, conn: ConnId, entry: Entry, now: Now) {
        let Some(channel) = self.channels.get_mut(entry.channel) else {
            return;
        };
        match entry.place {
            // The answer will find that nobody waits for it.
            Place::Asked(_) => return,
            Place::Newcomer => {
                if let Some(sweep) = self.sweeps.get_mut(channel.sweep) {
                    sweep
                        .newcomers
                        .retain(|newcomer| newcomer.member.index() != conn.index());
                }
            }
            Place::Member(at) => self.remove_member(entry.channel, at),
        }
        self.release_if_unused(entry.channel, now);
    }

    /// Removes the member at a place and keeps those before and after the sweep's cursor apart.
    fn remove_member(&mut self, key: u32, at: u32) {
        let Some(channel) = self.channels.get_mut(key) else {
            return;
        };
        let last = channel.members.len() - 1;
        let mut hole = at;
        if let Some(sweep) = self.sweeps.get_mut(channel.sweep)
            && at < sweep.cursor
        {
            // The last of those that have the batch fills the hole; its place becomes the hole.
            sweep.cursor -= 1;
            let members = channel.members.as_mut_slice();
            members.swap(hole as usize, sweep.cursor as usize);
            let moved = members[hole as usize].index();
            if hole != sweep.cursor {
                self.subscriptions
                    .set_place(moved, key, Place::Member(hole));
            }
            hole = sweep.cursor;
        }
        let members = channel.members.as_mut_slice();
        members.swap(hole as usize, last as usize);
        let moved = members[hole as usize].index();
        channel.members.pop();
        if hole != last {
            self.subscriptions
                .set_place(moved, key, Place::Member(hole));
        }
    }

    // ---- publishing ----

    fn publish(&mut self, asker: Asker, draft: Draft, now: Now, sink: &mut impl Sink) {
        let home = self.home_of(&draft.channel);
        if home == self.options.shard {
            let result = self.accept(draft, now);
            sink.answer(asker, Answer::Published { result });
        } else if self.links[home.index()].may_ask() {
            let ticket = self.pend(Pending::Publish { asker });
            self.ask(home, Request::Publish { ticket, draft });
        } else {
            sink.answer(
                asker,
                Answer::Published {
                    result: Err(Refusal::Busy),
                },
            );
        }
    }

    /// Publishes in a channel that is at home here.
    fn accept(&mut self, draft: Draft, now: Now) -> Result<Option<Position>, Refusal> {
        if self.namespaces.find(&draft.channel).is_none() {
            return Err(Refusal::UnknownChannel);
        }
        let bytes = draft.payload.bytes.len() + size_of::<Publication>();
        let interest = self.home.interest(&draft.channel);
        let others = interest & !(1 << self.options.shard.0);
        let roads_open = bits(others).all(|shard| self.links[shard.index()].may_deliver(bytes));
        if !roads_open || !self.wants_mail() {
            return Err(Refusal::Busy);
        }
        let Published {
            publication,
            position,
            interest,
        } = self.home.publish(draft, now);
        if let Some(publication) = publication {
            for shard in bits(interest) {
                if shard == self.options.shard {
                    self.enqueue(publication.clone());
                } else {
                    let delivery = Reply::Delivery(publication.clone());
                    self.links[shard.index()].push(Mail::Reply(delivery));
                }
            }
        }
        Ok(position)
    }

    /// Puts a publication on its way to this shard's members.
    fn enqueue(&mut self, publication: Arc<Publication>) {
        let Some(key) = self.channel_key(&publication.channel) else {
            return;
        };
        let Some(channel) = self.channels.get_mut(key) else {
            return;
        };
        if publication.position.is_some() {
            channel.position = publication.position;
        }
        if channel.members.len() == 0 && channel.sweep == NO_SWEEP {
            return;
        }
        if channel.sweep == NO_SWEEP {
            let options = self.namespaces.find(&publication.channel);
            let overflow = options.map(|options| options.overflow).unwrap_or_default();
            channel.sweep = self.sweeps.insert(Sweep::new(key, overflow));
            self.turn_order.push_back(channel.sweep);
        }
        if let Some(sweep) = self.sweeps.get_mut(channel.sweep) {
            sweep.push(publication);
            self.waiting += 1;
        }
    }

    // ---- mail ----

    fn pend(&mut self, pending: Pending) -> Ticket {
        Ticket(self.pending.insert(pending))
    }

    fn ask(&mut self, home: ShardId, request: Request) {
        self.links[home.index()].push(Mail::Request(request));
    }

    /// Carries out another shard's question about a channel that is at home here.
    fn request(&mut self, from: ShardId, request: Request, now: Now) {
        let reply = match request {
            Request::Subscribe {
                ticket,
                channel,
                since,
            } => Reply::Subscribed {
                ticket,
                result: self.home.subscribe(from, &channel, since, now),
            },
            Request::Leave { channel } => return self.home.leave(from, &channel, now),
            Request::Publish { ticket, draft } => Reply::Published {
                ticket,
                result: self.accept(draft, now),
            },
            Request::History {
                ticket,
                channel,
                query,
            } => Reply::History {
                ticket,
                result: self.home.history(&channel, query, now),
            },
        };
        self.links[from.index()].push(Mail::Reply(reply));
    }

    fn reply(&mut self, reply: Reply, now: Now, sink: &mut impl Sink) {
        match reply {
            Reply::Delivery(publication) => self.enqueue(publication),
            Reply::Subscribed { ticket, result } => {
                if let Some(Pending::Subscribe {
                    asker,
                    channel,
                    format,
                }) = self.pending.remove(ticket.0)
                {
                    self.subscribed(asker, channel, format, ticket, result, now, sink);
                }
            }
            Reply::Published { ticket, result } => {
                if let Some(Pending::Publish { asker }) = self.pending.remove(ticket.0) {
                    sink.answer(asker, Answer::Published { result });
                }
            }
            Reply::History { ticket, result } => {
                if let Some(Pending::History { asker }) = self.pending.remove(ticket.0) {
                    sink.answer(asker, Answer::History { result });
                }
            }
        }
    }

    #[expect(
        clippy::too_many_arguments,
        reason = "the parts of one pending question"
    )]
    fn subscribed(
        &mut self,
        asker: Asker,
        key: u32,
        format: Format,
        ticket: Ticket,
        result: Subscribed,
        now: Now,
        sink: &mut impl Sink,
    ) {
        let Some(channel) = self.channels.get_mut(key) else {
            return;
        };
        channel.asked -= 1;
        channel.live = true;
        channel.position = result.position;
        if self.subscriptions.find(asker.conn, key) != Some(Place::Asked(ticket.0)) {
            // It has left meanwhile.
            self.release_if_unused(key, now);
            return;
        }
        let name = channel.name.clone();
        self.subscriptions.remove(asker.conn, key);
        self.join(asker.conn, key, format, result.position);
        sink.answer(
            asker,
            Answer::Subscribed {
                channel: name,
                result: Ok(result),
            },
        );
    }
}

/// The shards whose bits are set.
fn bits(mut set: u64) -> impl Iterator<Item = ShardId> {
    std::iter::from_fn(move || {
        let shard = (set != 0).then(|| ShardId(set.trailing_zeros() as u8))?;
        set &= set - 1;
        Some(shard)
    })
}
