//! Settings that can change while the server runs: made as a whole on the handle's
//! thread, given to each shard behind one `Arc`, and copied there to where sessions look.
//!
//! So nothing that a shard does for a client knows of reloads: there is no lock, and no look at a
//! version. Whatever may be wrong is found while it is made, before any shard hears of it.

use std::net::SocketAddr;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex};

use throng_auth::{
    ApiKeys, EmptyKey, Hosts, KeyConfig, KeyError, KeyRights, KeyRole, KeySource, OriginError,
    Origins, Verifier,
};
use throng_broker::{
    Acknowledge, BackendId, ChannelOptions, LiveOptions, NamespaceOptions, PresenceOptions,
    ProxySwitches, ReplyLimit, Retention,
};
use throng_config::{
    ApiRole, Auth, Config, DEFAULT_BACKEND, Http2, RecoveryMode, Secret, SlowConsumer,
};
use throng_engine::ConnLimits;
use throng_http1::{HEADERS_CAP, HttpLimits};
use throng_http2::H2Limits;
use throng_metrics::NamespaceLabels;
use throng_proxy::Block;
use throng_session::{Guard, Guards, SessionLimits, UserLimits, WorkLimits};
use throng_types::{Overflow, lock};

use crate::gateways::{GatewayMail, Gateways, OwnPort, app_prefixes};
use crate::hooks::Webhooks;
use crate::options::StartError;
use crate::token_keys::{KeptKeys, TokenKeys};

/// Part of the memory that all queues may take while `limits.queued_bytes_max` is not set: one of
/// so many.
const QUEUED_SHARE: u64 = 8;
/// Least bytes of that part.
const QUEUED_BYTES_MIN: u64 = 64 << 20;
/// Bytes of it where the memory is not known.
const QUEUED_BYTES_UNKNOWN: u64 = 256 << 20;

pub(crate) struct Live {
    pub(crate) limits: SessionLimits,
    pub(crate) work: WorkLimits,
    pub(crate) users: UserLimits,
    pub(crate) subscriptions_max: usize,
    pub(crate) broker: LiveOptions,
    pub(crate) verifier: Option<Arc<Verifier>>,
    /// Keys that are fetched, if the verifier has some.
    pub(crate) token_keys: Option<KeptKeys>,
    pub(crate) anonymous: bool,
    pub(crate) personal_channel: bool,
    pub(crate) api_for_clients: bool,
    pub(crate) guards: Arc<Guards>,
    pub(crate) api_keys: Arc<ApiKeys>,
    pub(crate) proxies: Arc<[Block]>,
    pub(crate) connections_max: usize,
    pub(crate) conns: ConnLimits,
}

/// Values that do not change, and go into each version.
#[derive(Clone)]
pub(crate) struct LiveMould {
    pub(crate) own_ports: Arc<[OwnPort]>,
    pub(crate) closed_namespaces: Arc<[&'static str]>,
    /// Least bound of subscriptions that gateways need.
    pub(crate) subscriptions_max: usize,
    pub(crate) shards: u8,
    pub(crate) memory_bytes: Option<u64>,
    pub(crate) token_keys: TokenKeys,
    pub(crate) labels: Arc<Mutex<NamespaceLabels>>,
}

/// New version of the options, on its way to a shard.
pub(crate) struct Renewed {
    pub(crate) live: Arc<Live>,
    pub(crate) mail: Vec<GatewayMail>,
    pub(crate) webhooks: Option<Arc<Webhooks>>,
    /// Dropped once it holds.
    pub(crate) done: Sender<()>,
}

impl LiveMould {
    /// Makes a version. Fails if a key, an origin or a host cannot be used. Keys that are to be
    /// fetched may not have come yet.
    pub(crate) fn make(&self, config: &Config) -> Result<Live, StartError> {
        let limits = limits(config);
        let shards = usize::from(self.shards);
        let most = &config.limits;
        let token_keys = self.token_keys.of(&config.auth)?;
        let key_source = token_keys.as_ref().map(KeptKeys::source);
        Ok(Live {
            subscriptions_max: self.subscriptions_max.max(limits.channels_max),
            limits,
            work: work_limits(config),
            users: UserLimits {
                connections_max: most.connections_per_user_max,
                commands_per_s_max: most.commands_per_user_per_second_max,
                channels_max: most.channels_per_connection as usize,
            },
            broker: LiveOptions {
                namespaces: Arc::new(namespaces(config, &self.closed_namespaces, &self.labels)),
                reply: ReplyLimit {
                    publications_max: most.history_reply_max as usize,
                    members_max: most.presence_reply_max as usize,
                    bytes_max: most.history_reply_bytes_max as usize,
                },
                streams_max: (most.streams_max as usize).div_ceil(shards),
            },
            verifier: verifier(config, key_source)?.map(Arc::new),
            token_keys,
            anonymous: config.anonymous_allowed(),
            personal_channel: config.auth.personal_channel,
            api_for_clients: config.listen.api_for_clients,
            guards: Arc::new(guards(config, &self.own_ports)?),
            api_keys: Arc::new(api_keys(&config.auth)?),
            proxies: config.listen.trusted_proxies.clone().into(),
            connections_max: per_shard(config.engine.connections_max as usize, shards),
            conns: conn_limits(config, shards, self.memory_bytes),
        })
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

/// The keys of the server API, those without a name first.
fn api_keys(auth: &Auth) -> Result<ApiKeys, EmptyKey> {
    let mut keys = ApiKeys::new(auth.api_keys.iter().map(|key| &**key))?;
    for named in &auth.named_api_keys {
        let roles = named.roles.iter().map(|role| match role {
            ApiRole::Metrics => KeyRole::Metrics,
            ApiRole::Read => KeyRole::Read,
            ApiRole::Publish => KeyRole::Publish,
            ApiRole::Admin => KeyRole::Admin,
        });
        let namespaces = named.namespaces.iter();
        let of_app = { named.app.iter() }.flat_map(|id| app_prefixes(id));
        let rights = KeyRights {
            name: named.name.as_str().into(),
            roles: roles.collect(),
            prefixes: { namespaces.map(|name| format!("{name}:").into()) }
                .chain(of_app)
                .collect(),
        };
        let key = named.key.as_deref().unwrap_or_default();
        keys.add(key, Some(Arc::new(rights)))?;
    }
    Ok(keys)
}

fn limits(config: &Config) -> SessionLimits {
    let (limits, http2) = (&config.limits, config.listen.http2);
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
        http2: [http2 == Http2::Plain, http2 != Http2::Off],
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

fn namespaces(
    config: &Config,
    closed: &[&'static str],
    labels: &Mutex<NamespaceLabels>,
) -> NamespaceOptions {
    let mut named: Vec<(Box<str>, ChannelOptions)> = config
        .namespaces
        .iter()
        .map(|namespace| {
            (
                namespace.name.as_str().into(),
                channel_options(&namespace.options, config),
            )
        })
        .collect();
    // The server's own channels; sessions keep clients out of it.
    named.push(("throng".into(), ChannelOptions::default()));
    // The gateways' own.
    for &name in closed {
        named.retain(|(known, _)| &**known != name);
        named.push((name.into(), Gateways::channel_options(name)));
    }
    let mut labels = lock(labels);
    for (name, options) in &mut named {
        options.label = labels.label_of(name);
    }
    NamespaceOptions::new(channel_options(&config.channel, config), named)
}

fn channel_options(options: &throng_config::ChannelOptions, config: &Config) -> ChannelOptions {
    let proxy = config.proxy.as_ref();
    let acknowledge = { options.history_acknowledge }.unwrap_or(config.history.acknowledge);
    let asked = |is_on: bool, name: &str| {
        let named = proxy.into_iter().flat_map(|proxy| &proxy.backends);
        let place = match name {
            DEFAULT_BACKEND => Some(0),
            name => named
                .map(|it| &it.name)
                .position(|it| it == name)
                .map(|at| at + 1),
        };
        let id = place.and_then(|at| u16::try_from(at).ok()).map(BackendId);
        id.filter(|_| is_on)
    };
    ChannelOptions {
        retention: Retention {
            publications_max: options.history_size,
            ttl_ms: options.history_ttl_ms,
        },
        acknowledge: match acknowledge {
            throng_config::Acknowledge::Memory => Acknowledge::Memory,
            throng_config::Acknowledge::Written => Acknowledge::Written,
            throng_config::Acknowledge::Synced => Acknowledge::Synced,
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
            subscribe: asked(
                options.subscribe_proxy_enabled,
                &options.subscribe_proxy_name,
            ),
            publish: asked(options.publish_proxy_enabled, &options.publish_proxy_name),
            sub_refresh: asked(
                options.sub_refresh_proxy_enabled,
                &options.sub_refresh_proxy_name,
            ),
            cache_empty: asked(
                options.cache_empty_proxy_enabled,
                &options.cache_empty_proxy_name,
            ),
        },
        label: 0,
    }
}

fn verifier(
    config: &Config,
    key_source: Option<Arc<dyn KeySource>>,
) -> Result<Option<Verifier>, KeyError> {
    let auth = &config.auth;
    if !auth.client_keys() {
        return Ok(None);
    }
    let text = |option: &Option<String>| option.as_deref().map(Into::into);
    let secret = |option: &Option<Secret>| Some(option.as_ref()?.as_bytes().into());
    let keys = KeyConfig {
        hmac_secret: secret(&auth.hmac_secret),
        rsa_public_pem: text(&auth.rsa_public_key),
        ecdsa_public_pem: text(&auth.ecdsa_public_key),
        eddsa_public_pem: text(&auth.eddsa_public_key),
        key_set: text(&auth.jwks),
        key_source,
        audience: text(&auth.audience),
        issuer: text(&auth.issuer),
        hmac_previous_secret: secret(&auth.hmac_previous_secret),
        leeway_s: auth.leeway_ms / 1000,
        require_exp: auth.require_exp,
    };
    Verifier::new(keys).map(Some)
}

/// Bytes that may wait for all clients together, on a machine of so much memory: what the
/// configuration says, else an eighth of the memory, but at least 64 MiB; 256 MiB if it is unknown.
pub fn queued_bytes_max(config: &Config, memory: Option<u64>) -> u64 {
    let share = |memory: u64| (memory / QUEUED_SHARE).max(QUEUED_BYTES_MIN);
    let unset = || memory.map_or(QUEUED_BYTES_UNKNOWN, share);
    config.limits.queued_bytes_max.unwrap_or_else(unset)
}

/// Bounds of connections of one shard, on a machine of so much memory.
pub(crate) fn conn_limits(config: &Config, shards: usize, memory: Option<u64>) -> ConnLimits {
    let all = queued_bytes_max(config, memory);
    ConnLimits {
        queue_bytes_max: config.engine.out_buffer_bytes_max as usize,
        queued_bytes_max: usize::try_from(all).unwrap_or(usize::MAX) / shards.max(1),
        handshake_timeout_ms: config.tls.handshake_timeout_ms,
        http2: H2Limits {
            http: HttpLimits {
                head_bytes_max: config.limits.head_bytes_max as usize,
                headers_max: HEADERS_CAP,
                body_bytes_max: u64::MAX,
            },
            streams_max: config.listen.http2_streams_max,
            ..H2Limits::default()
        },
        frame_timeout_ms: config.limits.head_timeout_ms,
        idle_timeout_ms: config.limits.keepalive_timeout_ms,
        ..ConnLimits::default()
    }
}

const LOCAL_PAGES: [&str; 6] = [
    "http://localhost:*",
    "http://127.0.0.1:*",
    "http://[::1]:*",
    "https://localhost:*",
    "https://127.0.0.1:*",
    "https://[::1]:*",
];

/// The rules by which ports keep web pages away; `own` are the gateways' ports. A port that asks
/// for no key is protected by these rules alone: pages of this machine may use it, by an address or
/// a name that nobody else can give. Where a key or a token is needed, a page may use the host that
/// it came from, because it would have to bring the key.
fn guards(config: &Config, own: &[OwnPort]) -> Result<Guards, StartError> {
    let keyless = |mut addresses: Box<dyn Iterator<Item = SocketAddr> + '_>| {
        let is_reachable = addresses.any(|address| !address.ip().to_canonical().is_loopback());
        let names = config.auth.allowed_hosts.iter().map(String::as_str);
        Ok::<_, StartError>(Guard {
            origins: origins(config, &LOCAL_PAGES, false)?,
            hosts: Some(Hosts::new(names, is_reachable)?),
            programs_by_any_name: false,
        })
    };
    let keyed = || {
        Ok::<_, StartError>(Guard {
            origins: origins(config, &[], true)?,
            hosts: None,
            programs_by_any_name: false,
        })
    };
    Ok(Guards {
        client: match config.open_mode() {
            true => {
                let clients = config.listen.client.iter();
                keyless(Box::new(clients.map(|listener| listener.address)))?
            }
            false => keyed()?,
        },
        api: match config.auth.api_keys_set() {
            true => keyed()?,
            false => keyless(Box::new([config.listen.api.address].into_iter()))?,
        },
        // Publishers of GRIP have no keys, and Pushpin, whose file this is, looks at no `Host`.
        own: Guard {
            programs_by_any_name: { config.grip.as_ref() }
                .is_some_and(|grip| grip.pushpin_conf.is_some()),
            ..keyless(Box::new(own.iter().map(|port| port.address)))?
        },
    })
}

fn origins(config: &Config, more: &[&str], same_host: bool) -> Result<Origins, OriginError> {
    let listed = config.auth.allowed_origins.iter().map(String::as_str);
    Origins::new(listed.chain(more.iter().copied()), same_host)
}

/// Whether publications are logged.
pub(crate) fn wants_published() -> bool {
    tracing::enabled!(target: "throng::audit", tracing::Level::DEBUG)
}
