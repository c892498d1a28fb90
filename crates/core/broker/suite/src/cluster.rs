//! Interface of the suite to a broker and everything around it.

use std::sync::Arc;

use throng_broker::{
    BrokerStats, ChannelOptions, Draft, Namespaces, PresenceOptions, Reply, ReplyLimit, Request,
    Retention, Ticket,
};
use throng_types::{Now, Rng, ShardId};

/// Publications that the channels `kept:` keep.
pub const KEPT: u32 = 8;
/// Publications that the channels `long:` keep.
pub const LONG: u32 = 60;
/// The most members in one answer.
pub(crate) const MEMBERS_MAX: usize = 30;
/// Milliseconds for which both keep them.
pub const TTL_MS: u64 = 60_000;

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
    pub namespaces: Arc<Namespaces>,
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
            namespaces: Arc::new(Namespaces::new(ChannelOptions::default(), named)),
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
