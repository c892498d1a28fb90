//! From a configuration to what all shards have in common.

use std::cell::Cell;
use std::sync::Arc;

use throng_auth::{ApiKeys, KeyConfig, KeyError, Verifier};
use throng_broker::{
    AnyBroker, ChannelOptions, MemoryBroker, MemoryOptions, Namespaces, PresenceOptions,
    ProxySwitches, Retention,
};
use throng_config::{Config, RecoveryMode, SlowConsumer};
use throng_hub::{Hub, HubOptions};
use throng_metrics::Counters;
use throng_proxy::Block;
use throng_redis::{RedisBroker, RedisOptions, Ring};
use throng_session::{
    Census, DateCell, Forwarded, Guards, Meter, NodeKey, Notices, Port, SessionLimits, Shared,
    WorkLimits,
};
use throng_sys::memory;
use throng_types::{Overflow, Rng, ShardId};

use crate::broker::{Part, RemotePart, home_options, redis_options};
use crate::gateways::pushpin_metrics;
use crate::guards::guards;
use crate::list::GatewayList;
use crate::observe::Observer;
use crate::options::{Options, StartError};
use crate::pages::ServerPages;
use crate::peers::Peers;
use crate::plan::OwnPort;
use crate::shard::{ShardApp, ShardParts};
use crate::start::Start;
use crate::stats::{Observatory, Ticker};

/// What all shards have in common, ready to be given to each.
#[derive(Clone)]
pub struct Blueprint {
    shards: u8,
    limits: SessionLimits,
    work: WorkLimits,
    work_secret: [u64; 2],
    subscriptions_max: usize,
    namespaces: Arc<Namespaces>,
    closed_namespaces: Arc<[&'static str]>,
    verifier: Option<Arc<Verifier>>,
    anonymous: bool,
    personal_channel: bool,
    api_for_clients: bool,
    guards: Arc<Guards>,
    api_keys: Arc<ApiKeys>,
    observatory: Arc<Observatory>,
    peers: Arc<Peers>,
    node: NodeKey,
    seed: u64,
    home: MemoryOptions,
    broker: Option<RedisOptions>,
    connections_max: usize,
    ports: Arc<[Port]>,
    /// Which of the listeners begin with a PROXY header.
    proxied: Arc<[bool]>,
    /// On which of the listeners TLS is spoken.
    secure: Arc<[bool]>,
    proxies: Arc<[Block]>,
    /// For the handle, which has a thread of its own.
    pub(crate) handle_counters: Arc<Counters>,
}

impl Blueprint {
    /// Checks the configuration as far as it concerns all shards. `ports` are the gateways' own,
    /// which listen behind the client ports and the API port.
    ///
    /// # Errors
    /// See [`StartError`].
    pub fn new<L: GatewayList>(
        options: &Options,
        shards: u8,
        own_ports: &[OwnPort],
        subscriptions_max: usize,
        start: Start,
        driver_counters: Arc<Counters>,
    ) -> Result<Self, StartError> {
        let config = &options.config;
        let mut random = Rng::new(start.seed);
        // The last eight bytes, which the node's key leaves.
        let [.., a, b, c, d, e, f, g, h] = start.secret;
        let mut secret = Rng::new(u64::from_be_bytes([a, b, c, d, e, f, g, h]));
        let mut counters: Vec<_> = (0..shards).map(|_| Arc::new(Counters::new())).collect();
        // Drivers have counters of their own: a set has one writer.
        counters.push(driver_counters);
        let broker_counters = Arc::new(Counters::new());
        counters.push(broker_counters.clone());
        let handle_counters = Arc::new(Counters::new());
        counters.push(handle_counters.clone());
        let observatory = Observatory {
            counters,
            version: options.version,
            started_unix_ms: start.unix_ms,
            open_mode: config.open_mode(),
            capacity: options.capacity.clone(),
            pushpin: config.grip.as_ref().map(pushpin_metrics),
            broker: std::sync::OnceLock::new(),
            base_bytes: memory::process(None).map_or(0, |process| process.rss_bytes),
        };
        let closed: Vec<&'static str> = L::NAMESPACES.concat();
        let namespaces = Arc::new(namespaces(config, &closed));
        let limits = limits(config);
        let client_ports = config.listen.client.iter().map(|_| Port::Client);
        let ports = client_ports.chain([Port::Api]);
        let ports = ports.chain(own_ports.iter().map(|own| Port::Own {
            gateway: own.gateway,
            port: own.port,
        }));
        let connections_max = config.engine.connections_max as usize;
        let home = home_options(config, namespaces.clone(), shards, &mut random);
        Ok(Self {
            broker: redis_options(config, &home, broker_counters, secret.next_u64()),
            shards,
            subscriptions_max: subscriptions_max.max(limits.channels_max),
            limits,
            work: work_limits(config),
            work_secret: [secret.next_u64(), secret.next_u64()],
            home,
            namespaces,
            closed_namespaces: closed.into(),
            verifier: verifier(config)?.map(Arc::new),
            anonymous: config.anonymous_allowed(),
            personal_channel: config.auth.personal_channel,
            api_for_clients: config.listen.api_for_clients,
            guards: Arc::new(guards(config, own_ports)?),
            api_keys: Arc::new(ApiKeys::new(config.auth.api_keys.iter().map(|key| &**key))?),
            observatory: Arc::new(observatory),
            peers: Arc::new(Peers::new(config.limits.connections_per_ip)),
            node: NodeKey::new(start.secret),
            seed: random.next_u64(),
            connections_max: per_shard(connections_max, usize::from(shards)),
            ports: ports.collect(),
            proxied: { config.listeners() }
                .map(|listener| config.listen.proxy_protocol.contains(&listener.address))
                .collect(),
            secure: { config.listeners() }
                .map(|listener| listener.is_tls)
                .collect(),
            handle_counters,
            proxies: config.listen.trusted_proxies.clone().into(),
        })
    }

    /// Starts the driver of a broker on the other side of a network, if one is configured. Each
    /// ring wakes a shard; gives each shard's part, in the order of the rings.
    pub(crate) fn start_broker(&self, rings: Vec<Ring>) -> Result<Vec<Part>, StartError> {
        let Some(options) = self.broker.clone() else {
            return Ok(rings.iter().map(|_| None).collect());
        };
        let (parts, status) = throng_redis::start(options, rings)?;
        let _ = self.observatory.broker.set(status);
        let part = |part: RedisBroker| {
            let nodes = part.peers();
            let broker = Box::new(part);
            Some(RemotePart { broker, nodes })
        };
        Ok(parts.into_iter().map(part).collect())
    }

    /// A shard's app with the broker in memory; on its thread.
    #[must_use]
    pub fn app<L: GatewayList>(&self, shard: ShardId, list: L) -> ShardApp<L> {
        self.app_with(shard, list, None)
    }

    /// A shard's app with its part of a broker elsewhere, if there is one; on its thread.
    pub(crate) fn app_with<L: GatewayList>(
        &self,
        shard: ShardId,
        list: L,
        remote: Part,
    ) -> ShardApp<L> {
        let options = HubOptions {
            subscriptions_max: self.subscriptions_max,
            hash_seed: self.home.hash_seed,
            namespaces: self.namespaces.clone(),
        };
        let memory = MemoryBroker::new(shard, self.shards, self.home.clone());
        let (remote, nodes) = remote.map(|part| (part.broker, part.nodes)).unzip();
        let broker = AnyBroker::new(memory, remote);
        let shared = Shared {
            limits: self.limits.clone(),
            namespaces: self.namespaces.clone(),
            closed_namespaces: self.closed_namespaces.clone(),
            verifier: self.verifier.clone(),
            anonymous: self.anonymous,
            personal_channel: self.personal_channel,
            api_for_clients: self.api_for_clients,
            guards: self.guards.clone(),
            api_keys: self.api_keys.clone(),
            node: self.node.clone(),
            notices: Notices::new(crate::notices::wants_published()),
            forwarded: Forwarded::new(
                self.proxies.clone(),
                self.peers
                    .limited()
                    .then(|| self.peers.clone() as Arc<dyn Census>),
            ),
            meter: Meter::new(self.work, self.work_secret),
            is_tls: Cell::new(false),
            counters: self.observatory.counters[shard.index()].clone(),
            pages: Arc::new(ServerPages(self.observatory.clone())),
            dates: DateCell::default(),
            version: self.observatory.version,
            started_unix_ms: self.observatory.started_unix_ms,
            draining: false,
        };
        let parts = ShardParts {
            shard,
            shards: self.shards,
            hub: Hub::new(options, broker),
            nodes,
            shared,
            peers: self.peers.clone(),
            connections_max: self.connections_max,
            ports: self.ports.clone(),
            proxied: self.proxied.clone(),
            secure: self.secure.clone(),
            ticker: Ticker::new(self.observatory.clone()),
            seed: self.seed ^ u64::from(shard.0),
        };
        ShardApp::new(parts, list)
    }

    /// What copies a shard's numbers at the end of each turn.
    #[must_use]
    pub fn observer(&self) -> Observer {
        Observer::default()
    }
}

/// A shard's part of a bound on all; zero is no bound.
const fn per_shard(all: usize, shards: usize) -> usize {
    if all == 0 {
        usize::MAX
    } else {
        all.div_ceil(shards)
    }
}

fn limits(config: &Config) -> SessionLimits {
    let limits = &config.limits;
    SessionLimits {
        head_bytes_max: limits.head_bytes_max as usize,
        message_bytes_max: limits.message_bytes_max as usize,
        publish_bytes_max: limits.publish_bytes_max as usize,
        channels_max: limits.channels_per_connection as usize,
        head_timeout_ms: limits.head_timeout_ms,
        keepalive_timeout_ms: limits.keepalive_timeout_ms,
        ping_interval_ms: config.websocket.ping_interval_ms,
        pong_timeout_ms: config.websocket.pong_timeout_ms,
        stream_keepalive_ms: config.stream.keepalive_interval_ms,
        drain_jitter_ms: config.drain.jitter_ms,
        ..SessionLimits::default()
    }
}

fn work_limits(config: &Config) -> WorkLimits {
    let limits = &config.limits;
    WorkLimits {
        messages_per_s_max: limits.messages_per_second_max,
        requests_per_s_max: limits.requests_per_second_max,
        address_ms_per_s_max: u32::try_from(limits.address_work_max_ms).unwrap_or(u32::MAX),
        channels_max: limits.channels_per_connection as usize,
        counts_private: !config.listen.trusted_proxies.is_empty(),
    }
}

fn namespaces(config: &Config, closed: &[&'static str]) -> Namespaces {
    let mut named: Vec<(Box<str>, ChannelOptions)> = config
        .namespaces
        .iter()
        .map(|namespace| {
            (
                namespace.name.as_str().into(),
                channel_options(&namespace.options),
            )
        })
        .collect();
    // The server's own channels; sessions keep clients out of it.
    named.push(("throng".into(), ChannelOptions::default()));
    // The gateways' own.
    for &name in closed {
        named.retain(|(known, _)| &**known != name);
        named.push((name.into(), ChannelOptions::default()));
    }
    Namespaces::new(channel_options(&config.channel), named)
}

const fn channel_options(options: &throng_config::ChannelOptions) -> ChannelOptions {
    ChannelOptions {
        retention: Retention {
            publications_max: options.history_size,
            ttl_ms: options.history_ttl_ms,
        },
        recovery: options.recovery,
        overflow: match options.slow_consumer {
            SlowConsumer::Close => Overflow::Close,
            SlowConsumer::DropOldest => Overflow::DropOldest,
            SlowConsumer::LatestOnly => Overflow::LatestOnly,
        },
        // At most a second.
        max_delay_ms: options.max_delay_ms as u32,
        compression: options.compression,
        cache: matches!(options.force_recovery_mode, RecoveryMode::Cache),
        tags_filter: options.allow_tags_filter,
        delta: !options.allowed_delta_types.is_empty(),
        anonymous_subscribe: options.anonymous_subscribe,
        subscribe: options.subscribe,
        user_channels: options.user_channels,
        anonymous_publish: options.anonymous_publish,
        publish: options.publish,
        history: options.history,
        presence: PresenceOptions {
            is_listed: options.presence,
            is_announced: options.join_leave,
            is_pushed: options.force_push_join_leave,
            for_subscriber: options.allow_presence_for_subscriber,
            for_client: options.allow_presence_for_client,
            for_anonymous: options.allow_presence_for_anonymous,
        },
        proxies: ProxySwitches {
            subscribe: options.subscribe_proxy_enabled,
            publish: options.publish_proxy_enabled,
            sub_refresh: options.sub_refresh_proxy_enabled,
        },
    }
}

fn verifier(config: &Config) -> Result<Option<Verifier>, KeyError> {
    let auth = &config.auth;
    if !auth.client_keys() {
        return Ok(None);
    }
    let keys = KeyConfig {
        hmac_secret: auth
            .hmac_secret
            .as_ref()
            .map(|secret| secret.as_bytes().into()),
        rsa_public_pem: auth.rsa_public_key.as_ref().map(|pem| pem.as_str().into()),
        ecdsa_public_pem: auth
            .ecdsa_public_key
            .as_ref()
            .map(|pem| pem.as_str().into()),
        eddsa_public_pem: auth
            .eddsa_public_key
            .as_ref()
            .map(|pem| pem.as_str().into()),
        audience: auth
            .audience
            .as_ref()
            .map(|audience| audience.as_str().into()),
        issuer: auth.issuer.as_ref().map(|issuer| issuer.as_str().into()),
        hmac_previous_secret: auth
            .hmac_previous_secret
            .as_ref()
            .map(|secret| secret.as_bytes().into()),
        leeway_s: auth.leeway_ms / 1000,
        require_exp: auth.require_exp,
    };
    Verifier::new(keys).map(Some)
}
