//! Interface of the suite to a broker and everything around it; and two clusters: parts that need
//! nothing but mail between them, and one whose replies come late.

use std::collections::VecDeque;
use std::sync::Arc;

use throng_broker::{
    Broker, BrokerStats, ChannelOptions, Draft, NamespaceOptions, PresenceOptions, Receiver,
    Refusal, Reply, ReplyLimit, Request, Retention, Ticket,
};
use throng_types::{ChannelName, Now, Rng, ShardId};

/// Publications that the channels `kept:` keep.
pub(crate) const KEPT: u32 = 8;
/// Publications that the channels `long:` keep.
pub(crate) const LONG: u32 = 60;
/// The most members in one answer.
pub(crate) const MEMBERS_MAX: usize = 30;
/// Milliseconds for which both keep them.
pub(crate) const TTL_MS: u64 = 60_000;

/// Options of a cluster under test.
#[derive(Clone)]
pub struct Setup {
    /// Number of shards, from 1 to 64.
    pub shards: u8,
    /// History in all shards together, in bytes.
    pub history_bytes_max: usize,
    /// Limits of one reply.
    pub reply: ReplyLimit,
    /// Channels without history; `kept:` and `long:` with history and recovery; `past:` with
    /// history, but without recovery; `last:` with the newest publication as all that is recovered;
    /// `seen:` with a list of members who hear of each other.
    pub namespaces: Arc<NamespaceOptions>,
}

impl Setup {
    /// The setup of all properties, for so many shards.
    #[must_use]
    pub fn new(shards: u8) -> Self {
        let options = |publications_max, recovery| ChannelOptions {
            retention: Retention {
                publications_max,
                ttl_ms: TTL_MS,
            },
            recovery,
            ..ChannelOptions::default()
        };
        let seen = ChannelOptions {
            presence: PresenceOptions {
                is_listed: true,
                is_announced: true,
                ..PresenceOptions::default()
            },
            ..options(0, false)
        };
        let last = ChannelOptions {
            cache: true,
            ..options(KEPT, true)
        };
        let named = vec![
            ("kept".into(), options(KEPT, true)),
            ("long".into(), options(LONG, true)),
            ("past".into(), options(KEPT, false)),
            ("last".into(), last),
            ("seen".into(), seen),
        ];
        Self {
            shards,
            history_bytes_max: 1 << 18,
            reply: ReplyLimit {
                publications_max: 20,
                members_max: MEMBERS_MAX,
                bytes_max: 8192,
            },
            namespaces: Arc::new(NamespaceOptions::new(ChannelOptions::default(), named)),
        }
    }
}

/// All parts of a broker, and the links between them.
pub trait Cluster {
    /// The hub of a shard makes a request.
    fn request(&mut self, shard: ShardId, request: Request, now: Now);

    /// The hub of a shard makes publications together.
    fn publish_all(&mut self, shard: ShardId, drafts: Vec<(Ticket, Draft)>, now: Now) {
        for (ticket, draft) in drafts {
            self.request(shard, Request::Publish { ticket, draft }, now);
        }
    }

    /// Lets one thing happen that is under way, such as a piece of mail that arrives. `rng` chooses
    /// which. False if nothing is under way, or if no hub has room for it.
    fn step(&mut self, now: Now, rng: &mut Rng) -> bool;

    /// The next reply or delivery that reached a shard's hub.
    fn take(&mut self, shard: ShardId) -> Option<Reply>;

    /// Sets whether hubs have room for publications.
    fn set_room(&mut self, has_room: bool);

    /// Lets time pass, and does what is due.
    fn tick(&mut self, now: Now);

    /// Whether publications without positions have one order too. If not, every shard has those of
    /// each publisher in their order, and those of several publishers as they come.
    fn orders_all(&self) -> bool {
        true
    }

    /// Sizes of all parts together; `None` if they do not know.
    fn stats(&self) -> Option<BrokerStats>;
}

/// Builds a cluster from its options.
pub type Make = fn(Setup) -> Box<dyn Cluster>;

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

/// Requests of one shard that may wait.
const REQUESTS_MAX: usize = 1000;

/// One shard's way to the cluster and back.
#[derive(Default)]
struct Line {
    /// Bound: [`REQUESTS_MAX`], and one leave for each channel that was joined.
    requests: VecDeque<Request>,
    /// Bound: what the properties ask.
    replies: VecDeque<Reply>,
    /// Bound: what the properties ask.
    arrived: VecDeque<Reply>,
}

/// A cluster whose replies come late: every request and every reply waits for a step of its own, as
/// with a broker on the other side of a network. It shows that the suite expects nothing at once.
pub struct Late {
    inner: Box<dyn Cluster>,
    lines: Vec<Line>,
    has_room: bool,
}

impl Late {
    /// Puts lines between hubs and a cluster of so many shards.
    #[must_use]
    pub fn new(inner: Box<dyn Cluster>, shards: u8) -> Self {
        Self {
            inner,
            lines: (0..shards).map(|_| Line::default()).collect(),
            has_room: true,
        }
    }

    fn collect(&mut self) {
        for (shard, line) in (0..).map(ShardId).zip(&mut self.lines) {
            while let Some(reply) = self.inner.take(shard) {
                line.replies.push_back(reply);
            }
        }
    }
}

impl Cluster for Late {
    fn request(&mut self, shard: ShardId, request: Request, _: Now) {
        let line = &mut self.lines[shard.index()];
        if line.requests.len() < REQUESTS_MAX
            || matches!(request, Request::Leave { .. } | Request::Quit { .. })
        {
            line.requests.push_back(request);
        } else {
            line.arrived.extend(request.refused(Refusal::Busy));
        }
    }

    fn step(&mut self, now: Now, rng: &mut Rng) -> bool {
        self.collect();
        let can_step =
            |line: &Line| !line.replies.is_empty() || self.has_room && !line.requests.is_empty();
        let busy: Vec<usize> = (0..self.lines.len())
            .filter(|&at| can_step(&self.lines[at]))
            .collect();
        if busy.is_empty() || rng.below(2) == 0 && self.inner.step(now, rng) {
            return !busy.is_empty() || self.inner.step(now, rng);
        }
        let at = busy[rng.below(busy.len() as u64) as usize];
        let line = &mut self.lines[at];
        let request = if self.has_room && (line.replies.is_empty() || rng.below(2) == 0) {
            line.requests.pop_front()
        } else {
            None
        };
        if let Some(request) = request {
            self.inner.request(ShardId(at as u8), request, now);
        } else {
            line.arrived.extend(line.replies.pop_front());
        }
        true
    }

    fn take(&mut self, shard: ShardId) -> Option<Reply> {
        self.lines[shard.index()].arrived.pop_front()
    }

    fn set_room(&mut self, has_room: bool) {
        self.has_room = has_room;
        self.inner.set_room(has_room);
    }

    fn tick(&mut self, now: Now) {
        self.inner.tick(now);
    }

    fn stats(&self) -> Option<BrokerStats> {
        self.inner.stats()
    }
}
