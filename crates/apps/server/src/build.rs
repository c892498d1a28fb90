//! From a configuration to running shards.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use throng_auth::{ApiKeys, EmptyKey, KeyConfig, KeyError, OriginError, Origins, Verifier};
use throng_broker::{ChannelOptions, HomeOptions, MemoryBroker, Namespaces, Overflow, Retention};
use throng_config::{Config, SlowConsumer};
use throng_engine::{ConnLimits, Seat, ShardOptions};
use throng_hub::{Hub, HubOptions};
use throng_metrics::Board;
use throng_session::{Desk, GripDesk, NodeKey, SessionLimits};
use throng_sys::{cpu, memory, random};
use throng_types::ShardId;

use crate::appwrite::{Part, Plan};
use crate::broker::home_options;
use crate::drain::DrainOptions;
use crate::grip::{GripPlan, Listener};
use crate::handle::Handle;
use crate::listeners::Listeners;
use crate::observe::Observer;
use crate::pages::ServerPages;
use crate::peers::Peers;
use crate::shard::{Mail, ShardApp, ShardParts};
use crate::stats::{Capacity, Observatory, Ticker};

/// What a server is started with.
pub struct Options {
    /// The validated configuration, its key files read.
    pub config: Config,
    /// Shown to clients and operators.
    pub version: &'static str,
    /// What this machine can hold, for the dashboard.
    pub capacity: Option<Capacity>,
}

/// Why a server did not start. Nothing of it is left behind.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// An address cannot be listened on.
    #[error("cannot listen on {address}: {error}{}", hint(error))]
    Listen {
        /// Which.
        address: SocketAddr,
        /// Why not.
        error: io::Error,
    },
    /// A key for tokens is not good.
    #[error("the keys for tokens cannot be used: {0}")]
    Key(#[from] KeyError),
    /// An API key is not good.
    #[error("auth.api_keys: {0}")]
    ApiKey(#[from] EmptyKey),
    /// An allowed origin is not good.
    #[error("auth.allowed_origins: {0}")]
    Origin(#[from] OriginError),
    /// Something outside that Appwrite Realtime needs cannot be used.
    #[error("{0}: {1}")]
    Appwrite(&'static str, String),
    /// A route or key of GRIP is not good.
    #[error("{0}")]
    Grip(String),
    /// The kernel gave no reactor or thread.
    #[error("a shard cannot be made: {0}")]
    Shard(io::Error),
}

fn hint(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::AddrInUse => {
            "; another program listens there: end it, or choose another address with --listen or --api"
        }
        io::ErrorKind::PermissionDenied => {
            "; ports below 1024 need the capability CAP_NET_BIND_SERVICE"
        }
        io::ErrorKind::AddrNotAvailable => "; this machine does not have that address",
        _ => "",
    }
}

/// The most shards: interest in a channel is kept in the bits of one word.
const SHARDS_MAX: usize = 64;
/// Binds, and starts the shards' threads.
///
/// # Errors
/// See [`StartError`].
pub fn start(options: Options) -> Result<Handle, StartError> {
    let config = &options.config;
    let wanted = config.engine.shards as usize;
    let shards = if wanted == 0 { cpu::count() } else { wanted }.clamp(1, SHARDS_MAX);
    let mut shared = Shared::new(&options, shards)?;
    let Listeners {
        per_shard,
        clients,
        api,
        grip,
    } = Listeners::bind(config, shards)?;
    let started = Instant::now();
    let limits = conn_limits(config);
    let seats = per_shard
        .into_iter()
        .enumerate()
        .map(|(number, listeners)| ShardOptions {
            shard: ShardId(number as u8),
            listeners,
            limits,
            started,
        });
    let (seats, doors) =
        throng_engine::seats::<Mail>(seats.collect()).map_err(StartError::Shard)?;
    let mut rooms = match &shared.appwrite {
        Some(plan) => plan.start(config, &doors)?,
        None => Vec::new(),
    }
    .into_iter();
    let wanted = shared.grip_listeners.iter().copied();
    let grip: Vec<(Listener, SocketAddr)> = wanted.zip(grip).collect();
    if let Some(plan) = &mut shared.grip {
        plan.bound(&grip);
        plan.start(&doors)?;
    }
    let mut threads = Vec::new();
    for seat in seats {
        let shared = shared.clone();
        let name = format!("shard-{}", seat.shard().0);
        let room = rooms.next();
        let thread = std::thread::Builder::new()
            .name(name)
            .spawn(move || run(seat, &shared, room));
        threads.push(thread.map_err(StartError::Shard)?);
    }
    let drain = DrainOptions::of(config);
    Ok(Handle {
        clients,
        api,
        grip: grip
            .into_iter()
            .map(|(listener, at)| (listener.option(), at))
            .collect(),
        doors,
        threads,
        drain,
    })
}

/// Bounds of connections.
pub(crate) fn conn_limits(config: &Config) -> ConnLimits {
    ConnLimits {
        queue_bytes_max: config.engine.out_buffer_bytes_max as usize,
        ..ConnLimits::default()
    }
}

fn run(seat: Seat<Mail>, shared: &Shared, room: Option<Part>) -> io::Result<()> {
    let app = ShardApp::new(shared.parts(seat.shard(), room));
    let mut observer = Observer::default();
    let shard = seat.with(app);
    shard
        .run(|app, conns, turns| observer.observe(app, conns, turns))
        .map(drop)
}

/// What all shards have in common, ready to be given to each.
#[derive(Clone)]
pub(crate) struct Shared {
    shards: u8,
    limits: SessionLimits,
    namespaces: Arc<Namespaces>,
    verifier: Option<Arc<Verifier>>,
    anonymous: bool,
    origins: Arc<Origins>,
    api_keys: Arc<ApiKeys>,
    observatory: Arc<Observatory>,
    peers: Arc<Peers>,
    node: NodeKey,
    home: HomeOptions,
    connections_max: usize,
    api_listener: u8,
    pub(crate) appwrite: Option<Plan>,
    pub(crate) grip: Option<GripPlan>,
    pub(crate) grip_listeners: Vec<Listener>,
}

impl Shared {
    pub(crate) fn new(options: &Options, shards: usize) -> Result<Self, StartError> {
        let config = &options.config;
        let started = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        let mut boards: Vec<Arc<Board>> = (0..shards).map(|_| Arc::new(Board::new())).collect();
        // Drivers are no shards, and a board has one writer.
        let drivers_board = Arc::new(Board::new());
        boards.push(drivers_board.clone());
        let observatory = Observatory {
            boards,
            version: options.version,
            started_unix_ms: started.as_millis() as u64,
            open_mode: config.open_mode(),
            capacity: options.capacity.clone(),
            pushpin: config.grip.as_ref().map(crate::grip::metrics),
            base_bytes: memory::process(None).map_or(0, |process| process.rss_bytes),
        };
        let namespaces = Arc::new(namespaces(config));
        Ok(Self {
            shards: shards as u8,
            limits: limits(config),
            home: home_options(config, namespaces.clone(), shards),
            namespaces,
            verifier: verifier(config)?.map(Arc::new),
            anonymous: config.anonymous_allowed(),
            origins: Arc::new(origins(config)?),
            api_keys: Arc::new(ApiKeys::new(config.auth.api_keys.iter().map(|key| &**key))?),
            observatory: Arc::new(observatory),
            peers: Arc::new(Peers::new(config.limits.connections_per_ip)),
            node: NodeKey(random::seed()),
            connections_max: per_shard(config.engine.connections_max as usize, shards),
            api_listener: config.listen.client.len() as u8,
            grip: GripPlan::new(config)?,
            grip_listeners: crate::grip::listeners(config)
                .into_iter()
                .map(|(listener, _)| listener)
                .collect(),
            appwrite: Plan::new(config, shards, &drivers_board),
        })
    }

    pub(crate) fn parts(&self, shard: ShardId, room: Option<Part>) -> ShardParts {
        let options = HubOptions {
            subscriptions_max: GripPlan::channels_max(&self.grip, self.limits.channels_max),
            hash_seed: self.home.hash_seed,
            namespaces: self.namespaces.clone(),
        };
        let broker = MemoryBroker::new(shard, self.shards, self.home.clone());
        let hub = Hub::new(options, broker);
        let desk = Desk {
            limits: self.limits.clone(),
            namespaces: self.namespaces.clone(),
            verifier: self.verifier.clone(),
            anonymous: self.anonymous,
            origins: self.origins.clone(),
            api_keys: self.api_keys.clone(),
            node: self.node,
            board: self.observatory.boards[shard.index()].clone(),
            pages: Arc::new(ServerPages(self.observatory.clone())),
            version: self.observatory.version,
            started_unix_ms: self.observatory.started_unix_ms,
            appwrite: self.appwrite.as_ref().map(|plan| plan.desk.clone()),
            grip: self
                .grip
                .as_ref()
                .map(|plan| GripDesk::new(plan.options.clone())),
            draining: false,
        };
        ShardParts {
            shard,
            shards: self.shards,
            hub,
            desk,
            peers: self.peers.clone(),
            connections_max: self.connections_max,
            api_listener: self.api_listener,
            ticker: Ticker::new(self.observatory.clone()),
            appwrite: room.map(Part::room),
            grip: self.grip.as_ref().and_then(GripPlan::part),
            grip_listeners: self.grip_listeners.clone(),
            tells_topics: self
                .grip_listeners
                .contains(&Listener::Zmq(throng_session::GripSocket::Sub)),
        }
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
        messages_per_s_max: limits.messages_per_second_max,
        head_timeout_ms: limits.head_timeout_ms,
        keepalive_timeout_ms: limits.keepalive_timeout_ms,
        ping_interval_ms: config.websocket.ping_interval_ms,
        pong_timeout_ms: config.websocket.pong_timeout_ms,
        stream_keepalive_ms: config.stream.keepalive_interval_ms,
        drain_jitter_ms: config.drain.jitter_ms,
        ..SessionLimits::default()
    }
}

fn namespaces(config: &Config) -> Namespaces {
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
    // The channels in which GRIP backends hold clients.
    named.retain(|(name, _)| &**name != throng_session::GRIP_NAMESPACE);
    named.push((
        throng_session::GRIP_NAMESPACE.into(),
        ChannelOptions::default(),
    ));
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
        anonymous_subscribe: options.anonymous_subscribe,
        anonymous_publish: options.anonymous_publish,
        publish: options.publish,
        subscribe_token: options.subscribe_token,
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

/// Pages of this machine may connect to a server that only this machine reaches. There the
/// header Host proves nothing (a page can give its own name our address), so it is not trusted.
const LOCAL_PAGES: [&str; 6] = [
    "http://localhost:*",
    "http://127.0.0.1:*",
    "http://[::1]:*",
    "https://localhost:*",
    "https://127.0.0.1:*",
    "https://[::1]:*",
];

fn origins(config: &Config) -> Result<Origins, OriginError> {
    let listed = config.auth.allowed_origins.iter().map(String::as_str);
    if config.open_mode() {
        Origins::new(listed.chain(LOCAL_PAGES), false)
    } else {
        Origins::new(listed, true)
    }
}
