//! Parts of any broker that need nothing but mail between them.

use std::collections::VecDeque;

use throng_broker::{Broker, BrokerStats, Draft, Receiver, Reply, Request, Ticket};
use throng_types::{ChannelName, Now, Rng, ShardId};

use crate::cluster::Cluster;

/// A hub that keeps its replies and deliveries.
struct Inbox {
    has_room: bool,
    /// Bound: what the properties ask, which take each reply.
    replies: VecDeque<Reply>,
}

impl Receiver for Inbox {
    fn has_room(&self, _: &ChannelName, _: usize) -> bool {
        self.has_room
    }

    fn reply(&mut self, reply: Reply) {
        self.replies.push_back(reply);
    }
}

/// A broker's parts with mailboxes between them; each step delivers one piece of mail.
pub struct Parts<B: Broker> {
    brokers: Vec<B>,
    inboxes: Vec<Inbox>,
    /// By sender, then by receiver. Bound: the broker's own, which is what is tested.
    mail: Vec<Vec<VecDeque<B::Mail>>>,
    /// Sender and receiver of the mailboxes that are not empty.
    full: Vec<(usize, usize)>,
    has_room: bool,
}

impl<B: Broker> Parts<B> {
    /// The parts of shards 0, 1 and so on.
    #[must_use]
    pub fn new(brokers: Vec<B>) -> Self {
        let mailboxes = || brokers.iter().map(|_| VecDeque::new()).collect();
        let inbox = |_| Inbox {
            has_room: true,
            replies: VecDeque::new(),
        };
        Self {
            mail: brokers.iter().map(|_| mailboxes()).collect(),
            inboxes: brokers.iter().map(inbox).collect(),
            brokers,
            full: Vec::new(),
            has_room: true,
        }
    }

    /// Puts a part's mail into the mailboxes. While hubs have no room, it stays where it is.
    fn collect_mail(&mut self, from: usize) {
        if !self.has_room {
            return;
        }
        let broker = &mut self.brokers[from];
        for (to, mailbox) in self.mail[from].iter_mut().enumerate() {
            let receiver = ShardId(to as u8);
            while broker.has_mail(receiver) {
                if mailbox.is_empty() {
                    self.full.push((from, to));
                }
                mailbox.push_back(broker.take_mail(receiver).expect("there is mail"));
            }
            assert!(broker.take_mail(receiver).is_none(), "there is no mail");
        }
    }
}

impl<B: Broker> Cluster for Parts<B> {
    fn request(&mut self, shard: ShardId, request: Request, now: Now) {
        let at = shard.index();
        self.brokers[at].request(request, now, &mut self.inboxes[at]);
        // Where there is a store, a copy makes progress between any two requests.
        self.brokers[at].write_down(now);
        self.collect_mail(at);
    }

    fn publish_all(&mut self, shard: ShardId, drafts: Vec<(Ticket, Draft)>, now: Now) {
        let at = shard.index();
        self.brokers[at].publish_all(drafts, now, &mut self.inboxes[at]);
        self.collect_mail(at);
    }

    fn step(&mut self, now: Now, rng: &mut Rng) -> bool {
        if self.full.is_empty() || !self.has_room {
            return false;
        }
        let at = rng.below(self.full.len() as u64) as usize;
        let (from, to) = self.full[at];
        let mailbox = &mut self.mail[from][to];
        let mail = mailbox.pop_front().expect("a mailbox that is not empty");
        if mailbox.is_empty() {
            self.full.swap_remove(at);
        }
        let sender = ShardId(from as u8);
        self.brokers[to].mail(sender, mail, now, &mut self.inboxes[to]);
        self.collect_mail(to);
        true
    }

    fn take(&mut self, shard: ShardId) -> Option<Reply> {
        self.inboxes[shard.index()].replies.pop_front()
    }

    fn set_room(&mut self, has_room: bool) {
        self.has_room = has_room;
        for inbox in &mut self.inboxes {
            inbox.has_room = has_room;
        }
        for from in 0..self.brokers.len() {
            self.collect_mail(from);
        }
    }

    fn tick(&mut self, now: Now) {
        for (broker, inbox) in self.brokers.iter_mut().zip(&mut self.inboxes) {
            let turns = (0..10_000).take_while(|_| broker.tick(now, 10, inbox));
            assert!(turns.count() < 10_000, "what is due comes to an end");
        }
        for from in 0..self.brokers.len() {
            self.collect_mail(from);
        }
    }

    fn stats(&self) -> Option<BrokerStats> {
        let mut sum = BrokerStats::default();
        for broker in &self.brokers {
            let stats = broker.stats();
            sum.streams += stats.streams;
            sum.history_publications += stats.history_publications;
            sum.history_bytes += stats.history_bytes;
            sum.members += stats.members;
        }
        Some(sum)
    }
}
