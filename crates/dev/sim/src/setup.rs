//! What a run is made of: sizes, namespaces and keys, drawn from the seed.

use std::sync::Arc;

use throng_auth::{Algorithm, ApiKeys, KeyConfig, NewToken, Origins, SigningKey, Verifier, sign};
use throng_broker::{
    Budget, ChannelOptions, HomeOptions, MemoryBroker, Namespaces, Overflow, ReplyLimit, Retention,
};
use throng_hub::{Hub, HubOptions};
use throng_metrics::Board;
use throng_session::{Desk, NodeKey, Page, Pages, SessionLimits};
use throng_types::ShardId;

use crate::rng::Rng;

/// The channels of a run.
pub(crate) const CHANNELS: [&str; 9] = [
    "plain", "other", "hist:a", "hist:b", "small:a", "drop:a", "drop:b", "last:a", "priv:a",
];
/// The channels of a run in which everybody is in the same few: by their places above.
pub(crate) const FEW: [usize; 3] = [0, 2, 5];
const SECRET: &[u8] = b"a secret of the simulator's own";

/// See the module's head.
pub(crate) struct Setup {
    pub(crate) shards: u8,
    pub(crate) clients: usize,
    pub(crate) backends: usize,
    /// Bytes of deliveries that may wait for one connection.
    pub(crate) queue_bytes_max: usize,
    /// Bytes that the kernel takes for one connection.
    pub(crate) kernel_bytes: usize,
    /// Deliveries of one turn.
    pub(crate) deliveries_per_turn: usize,
    /// Times in a hundred that a client's step cuts its connection.
    pub(crate) cut_percent: usize,
    /// Times in a hundred that a step of the clock is a leap.
    pub(crate) leap_percent: usize,
    /// The step at which the drain begins, if there is one.
    pub(crate) drain_at: Option<usize>,
    pub(crate) tight: bool,
    pub(crate) broadcasts: bool,
    pub(crate) meddling: bool,
    pub(crate) crowded: bool,
    /// Times in a hundred that a shard's turn takes mail.
    pub(crate) mail_percent: usize,
    pub(crate) namespaces: Arc<Namespaces>,
    verifier: Arc<Verifier>,
    history_bytes_max: usize,
    seed: u64,
}

impl Setup {
    pub(crate) fn draw(seed: u64, steps: usize, rng: &mut Rng) -> Self {
        let tight = rng.percent(20);
        let keys = KeyConfig {
            hmac_secret: Some(SECRET.into()),
            ..KeyConfig::default()
        };
        Self {
            shards: rng.between(1, 4) as u8,
            clients: rng.between(3, 10),
            backends: rng.between(1, 2),
            queue_bytes_max: rng.pick(&[700, 1500, 4000, 20_000]),
            kernel_bytes: rng.pick(&[50, 300, 2000, 30_000]),
            deliveries_per_turn: rng.pick(&[1, 2, 5, 50]),
            cut_percent: rng.pick(&[0, 1, 4, 12]),
            leap_percent: rng.pick(&[0, 0, 2, 6]),
            drain_at: rng.percent(20).then(|| rng.between(steps / 2, steps)),
            tight,
            broadcasts: rng.percent(50),
            meddling: rng.percent(30),
            crowded: rng.percent(40),
            mail_percent: rng.pick(&[15, 75, 100]),
            namespaces: Arc::new(namespaces()),
            verifier: Arc::new(Verifier::new(keys).expect("a good key")),
            history_bytes_max: if tight {
                rng.between(400, 4000)
            } else {
                1 << 24
            },
            seed,
        }
    }

    pub(crate) fn hub(&self, shard: u8) -> Hub {
        let home = HomeOptions {
            nonce: 7,
            hash_seed: self.seed,
            history: Budget::new(self.history_bytes_max, 1),
            streams_max: 1000,
            reply: ReplyLimit {
                publications_max: 1000,
                bytes_max: 1 << 20,
            },
            namespaces: self.namespaces.clone(),
        };
        let options = HubOptions {
            subscriptions_max: 128,
            hash_seed: self.seed,
            namespaces: self.namespaces.clone(),
        };
        let broker = MemoryBroker::new(ShardId(shard), self.shards, home);
        Hub::new(options, broker)
    }

    pub(crate) fn desk(&self) -> Desk {
        Desk {
            limits: SessionLimits::default(),
            namespaces: self.namespaces.clone(),
            verifier: Some(self.verifier.clone()),
            anonymous: true,
            origins: Arc::new(Origins::new([], true).expect("no origin is a good list")),
            api_keys: Arc::new(ApiKeys::new([]).expect("no key is a good list")),
            node: NodeKey(self.seed | 1),
            board: Arc::new(Board::new()),
            pages: Arc::new(NoPages),
            version: "sim",
            started_unix_ms: 0,
            draining: false,
            appwrite: None,
            grip: None,
        }
    }
}

struct NoPages;

impl Pages for NoPages {
    fn page(&self, _: &str) -> Option<Page> {
        None
    }
}

fn namespaces() -> Namespaces {
    let options = |publications_max, ttl_ms, overflow| ChannelOptions {
        retention: Retention {
            publications_max,
            ttl_ms,
        },
        recovery: true,
        overflow,
        anonymous_subscribe: true,
        anonymous_publish: true,
        publish: true,
        subscribe_token: false,
    };
    let private = ChannelOptions {
        subscribe_token: true,
        ..options(30, 60_000, Overflow::Close)
    };
    Namespaces::new(
        options(0, 0, Overflow::Close),
        vec![
            ("hist".into(), options(40, 600_000, Overflow::Close)),
            ("small".into(), options(4, 3_000, Overflow::Close)),
            ("drop".into(), options(40, 600_000, Overflow::DropOldest)),
            ("last".into(), options(0, 0, Overflow::LatestOnly)),
            ("priv".into(), private),
        ],
    )
}

/// A token for a connection (`channel` is `None`) or for a subscription.
pub(crate) fn token(
    user: &str,
    channel: Option<&str>,
    channels: Vec<&str>,
    exp: Option<u64>,
) -> String {
    let claims = NewToken {
        sub: user,
        exp,
        channel,
        channels,
        ..NewToken::default()
    };
    sign(&claims, Algorithm::Hs256, SigningKey::HmacSecret(SECRET)).expect("a good key")
}
