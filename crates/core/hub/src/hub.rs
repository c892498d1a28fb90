//! The hub's doors: commands, mail, connections that leave.

use std::collections::VecDeque;
use std::sync::Arc;

use throng_broker::{
    ChannelMap, Home, HomeOptions, HomeStats, Namespaces, Refusal, Reply, Request, home_of,
};
use throng_types::{ChannelName, ConnId, Now, Publication, ShardId, Slots};

use crate::channel::Channel;
use crate::link::Link;
use crate::members::Wish;
use crate::subscriptions::Subscriptions;
use crate::sweep::Sweep;
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
pub(crate) enum Pending {
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
    pub(crate) channels: ChannelMap<Channel>,
    pub(crate) subscriptions: Subscriptions,
    pub(crate) pending: Slots<Pending>,
    pub(crate) links: Vec<Link>,
    pub(crate) sweeps: Slots<Sweep>,
    pub(crate) turn_order: VecDeque<u32>,
    /// Publications that some member lacks, in all sweeps.
    pub(crate) waiting: usize,
    /// Publications with tags that everybody has got, until the sink is told.
    pub(crate) carried: Vec<Arc<Publication>>,
}

/// Publications that may wait for their members before publishing is refused and mail is left where
/// it is.
pub(crate) const WAITING_MAX: usize = 65_536;

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
            channels: ChannelMap::new(options.home.hash_seed),
            subscriptions: Subscriptions::default(),
            pending: Slots::default(),
            links: (0..options.shards).map(|_| Link::default()).collect(),
            sweeps: Slots::default(),
            turn_order: VecDeque::new(),
            waiting: 0,
            carried: Vec::new(),
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

    /// Whether anybody on this shard subscribes to a channel, answered or not.
    #[must_use]
    pub fn has_channel(&self, channel: &ChannelName) -> bool {
        self.channels.key(channel).is_some()
    }

    /// How many channels a connection subscribes to, answered or not.
    #[must_use]
    pub fn subscription_count(&self, conn: ConnId) -> usize {
        self.subscriptions.of(conn).len()
    }

    /// Whether a connection subscribes to a channel, answered or not.
    #[must_use]
    pub fn is_subscribed(&self, conn: ConnId, channel: &ChannelName) -> bool {
        self.channels
            .key(channel)
            .is_some_and(|key| self.subscriptions.find(conn, key).is_some())
    }

    /// The channels of a connection.
    pub fn channels_of(&self, conn: ConnId) -> impl Iterator<Item = &ChannelName> {
        let entries = self.subscriptions.of(conn).iter();
        entries
            .filter_map(|entry| self.channels.at(entry.channel))
            .map(|(name, _)| name)
    }

    /// The channels with members on this shard, and how many.
    pub fn channels(&self) -> impl Iterator<Item = (&ChannelName, u32)> {
        self.channels.iter().map(|(name, channel)| {
            let newcomers = self
                .sweeps
                .get(channel.sweep)
                .map_or(0, |sweep| sweep.newcomers.len());
            (name, channel.members.len() + newcomers as u32)
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
                let wish = Wish {
                    asker,
                    name: channel,
                    format,
                    since,
                };
                self.subscribe(wish, now, sink);
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
        let Some(key) = self.channels.key(channel) else {
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

    pub(crate) fn home_of(&self, channel: &ChannelName) -> ShardId {
        home_of(channel, self.options.shards)
    }

    /// Forgets a channel that nobody here subscribes to, and tells its home.
    pub(crate) fn release_if_unused(&mut self, key: u32, now: Now) {
        let Some((_, channel)) = self.channels.at(key) else {
            return;
        };
        let sweep = channel.sweep;
        let newcomers = self
            .sweeps
            .get(sweep)
            .is_some_and(|sweep| !sweep.newcomers.is_empty());
        if channel.members.len() > 0 || channel.asked > 0 || newcomers {
            return;
        }
        if let Some(sweep_left) = self.sweeps.remove(sweep) {
            self.waiting -= sweep_left.waiting();
            self.carried.extend(sweep_left.tagged());
            self.turn_order.retain(|&waiting| waiting != sweep);
        }
        let Some((channel, _)) = self.channels.remove(key) else {
            return;
        };
        let home = self.home_of(&channel);
        if home == self.options.shard {
            self.home.leave(home, &channel, now);
        } else {
            self.links[home.index()].push(Mail::Request(Request::Leave { channel }));
        }
    }
}
