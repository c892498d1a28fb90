//! Configuration of the broker: in memory, on Redis or on NATS.

use std::path::PathBuf;
use std::sync::Arc;

use throng_broker::{Budget, LiveOptions, MemoryOptions};
use throng_config::{BrokerKind, Config};
use throng_engine::MailboxSender;
use throng_metrics::Counters;
use throng_nats::{CredentialsFile, NatsOptions};
use throng_redis::RedisOptions;
use throng_remote::{BrokerPeer, Health, Node, RemoteBroker, RemoteOptions, WakePeer, WakeShard};
use throng_types::Rng;

use crate::shard::ShardMail;

/// Part of a remote broker; `None` with the broker in memory.
pub(crate) type Part = Option<RemoteBroker>;

/// The options of every shard's part; they share one budget for history.
pub(crate) fn home_options(
    config: &Config,
    live: &LiveOptions,
    shards: u8,
    random: &mut Rng,
) -> MemoryOptions {
    let limits = &config.limits;
    MemoryOptions {
        // Never zero, so that no epoch of ours is the one that stands for "unknown".
        nonce: (random.next_u64() as u32).max(1),
        hash_seed: random.next_u64(),
        history: Budget::new(limits.history_bytes_max as usize, shards),
        live: live.clone(),
    }
}

pub(crate) fn broker_peers(config: &Config) -> usize {
    let broker = &config.broker;
    match (broker.kind, &broker.url) {
        (BrokerKind::Redis, Some(url)) => throng_redis::servers(url.expose()).len(),
        _ => 1,
    }
}

/// Options of a broker on the other side of a network, whose peers are to start.
#[derive(Clone)]
pub(crate) enum RemoteStart {
    Redis(Vec<RedisOptions>),
    Nats(NatsOptions),
}

impl RemoteStart {
    /// Reads the configuration; `None` if the broker is in memory.
    pub(crate) fn new(
        config: &Config,
        home: &MemoryOptions,
        counters: &[Arc<Counters>],
        random: &mut Rng,
    ) -> Option<Self> {
        let broker = &config.broker;
        let url = broker.url.as_ref()?.expose().to_owned();
        let mut remote = |counters: &Arc<Counters>| RemoteOptions {
            prefix: broker.prefix.clone(),
            namespaces: home.live.namespaces.clone(),
            reply: home.live.reply,
            position_ttl_ms: broker.position_ttl_ms,
            timeout_ms: broker.timeout_ms,
            seed: random.next_u64(),
            counters: counters.clone(),
            is_traced: config.trace.otlp_url.is_some(),
            authorities: broker.authorities.as_ref().map(PathBuf::from),
            clock_ms: Arc::default(),
        };
        match broker.kind {
            BrokerKind::Memory => None,
            BrokerKind::Redis => {
                let servers = throng_redis::servers(&url).into_iter().zip(counters);
                let servers = servers.map(|(url, counters)| RedisOptions {
                    url,
                    remote: remote(counters),
                });
                Some(Self::Redis(servers.collect()))
            }
            BrokerKind::Nats => Some(Self::Nats(NatsOptions {
                url,
                credentials: { broker.credentials.as_ref() }.map(|path| CredentialsFile {
                    path: PathBuf::from(path),
                    read: crate::files::read,
                }),
                replicas: broker.replicas as u8,
                remote: remote(counters.first()?),
            })),
        }
    }

    /// Gives each peer a chance of its own, in the place of that of the server's start: a process
    /// that takes over begins as the one before it, and both are nodes of the cluster for a while.
    pub(crate) fn reseed(&mut self, seed: u64) {
        let mut random = Rng::new(seed);
        match self {
            Self::Redis(all) => {
                { all.iter_mut() }.for_each(|it| it.remote.seed = random.next_u64())
            }
            Self::Nats(options) => options.remote.seed = random.next_u64(),
        }
    }

    /// Has `host` serve it. Each ring wakes a shard; gives each shard's part, in the order of the
    /// rings.
    pub(crate) fn start(
        self,
        rings: Vec<WakeShard>,
        host: &mut impl BrokerHost,
    ) -> Result<(Vec<RemoteBroker>, Health), String> {
        match self {
            Self::Redis(options) => {
                let nodes = throng_redis::nodes(options).map_err(|error| error.to_string())?;
                throng_remote::start(nodes, rings, |node| host.host(node))
            }
            Self::Nats(options) => {
                let node = throng_nats::node(options).map_err(|error| error.to_string())?;
                throng_remote::start(vec![node], rings, |node| host.host(node))
            }
        }
    }
}

pub(crate) fn rings(mailboxes: &[MailboxSender<ShardMail>]) -> Vec<WakeShard> {
    let ring = |mailbox: MailboxSender<ShardMail>| Box::new(move || mailbox.ring()) as WakeShard;
    mailboxes.iter().cloned().map(ring).collect()
}

/// Serves the peers of a broker: on threads, or on the stage of the simulator.
pub trait BrokerHost {
    /// Begins to serve a node, which ends with the last way to it.
    fn host<N: Node>(&mut self, node: N) -> Result<WakePeer, String>;
}

/// Serves each node on a shard of its own, on a thread.
pub(crate) struct Threads;

impl BrokerHost for Threads {
    fn host<N: Node>(&mut self, node: N) -> Result<WakePeer, String> {
        let deliver = Box::new(|reply| match reply {});
        let host = throng_outward::start("broker", || BrokerPeer::new(node), deliver);
        let host = host.map_err(|error| format!("no thread for the broker: {error}"))?;
        Ok(Arc::new(move || {
            host.calls().send(());
        }))
    }
}
