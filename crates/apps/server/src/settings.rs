//! From a configuration to what all shards have in common.

use std::cell::{Cell, RefCell};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use throng_broker::{Broker, MemoryOptions};
use throng_config::Config;
use throng_feeds::Feed;
use throng_hub::{Hub, HubOptions};
use throng_metrics::{Counters, Gauge, NamespaceLabels};
use throng_remote::{RemoteBroker, WakeShard};
use throng_session::{
    ClientTraces, DateCell, Follow, Followers, Forwarded, Meter, NodeKey, Notices, Port, Shared,
    Tracer, Users,
};
use throng_sys::{memory, random};
use throng_types::{Rng, ShardId};

use crate::broker::{BrokerHost, Part, RemoteStart, broker_peers, home_options};
use crate::feeds::feeds_of;
use crate::gateways::{Gateways, GatewaysPlan, pushpin_metrics};
use crate::history::Kept;
use crate::hooks::{HookStart, Webhooks};
use crate::live::{Live, LiveMould};
use crate::logins::Table;
use crate::oidc::Oidc;
use crate::options::{AskReload, Options, Start, StartError};
use crate::pages::ServerPages;
use crate::peers::Peers;
use crate::shard::{ListenerKind, ShardApp, ShardParts};
use crate::stats::{Observatory, Ticker, access};
use crate::token_keys::TokenKeys;
use crate::traces::Traces;
use crate::watch::Watch;

/// Longest wait of a process that takes over for its broker.
const BROKER: Duration = Duration::from_secs(5);

/// State that all shards have in common, ready to be given to each.
#[derive(Clone)]
pub(crate) struct Blueprint {
    /// Options that can change while the server runs, as they were at the start.
    live: Arc<Live>,
    /// From which the next one is made.
    pub(crate) mould: LiveMould,
    work_secret: [u64; 2],
    pub(crate) observatory: Arc<Observatory>,
    pub(crate) peers: Arc<Peers>,
    followers: Arc<Followers>,
    node: NodeKey,
    seed: u64,
    pub(crate) home: MemoryOptions,
    broker: Option<RemoteStart>,
    /// Feeds, which start after the shards.
    pub(crate) feeds: Arc<[Feed]>,
    listeners: Arc<[ListenerKind]>,
    ask_reload: Option<AskReload>,
    pub(crate) handle_counters: Arc<Counters>,
    pub(crate) history_counters: Arc<Counters>,
    pub(crate) webhook_counters: Arc<Counters>,
    pub(crate) webhooks: Option<Arc<Webhooks>>,
    /// Way to the collector of traces, if there is one.
    traces: Option<Arc<Traces>>,
}

/// A process that takes over waits for the events of Appwrite's Redis for a while: the other
/// process stops to hear them. `counters` are those of drivers.
pub(crate) fn await_events(config: &Config, counters: &Counters, has_predecessor: bool) {
    let section = config.appwrite.as_ref().filter(|_| has_predecessor);
    if section.is_none_or(|section| section.redis.is_none()) {
        return;
    }
    wait_until(|| counters.gauge(Gauge::AppwriteFeedUp) > 0);
}

/// Waits for something that is elsewhere, at most [`BROKER`].
fn wait_until(is_there: impl Fn() -> bool) {
    let until = Instant::now() + BROKER;
    while !is_there() && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(5));
    }
}

impl Blueprint {
    /// Checks the configuration as far as it concerns all shards. The gateways' own ports listen
    /// behind the client ports and the API port.
    pub(crate) fn new(
        options: &Options,
        shards: u8,
        gateways: &GatewaysPlan,
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
        let broker_counters = (0..broker_peers(config)).map(|_| Arc::new(Counters::new()));
        let broker_counters: Vec<_> = broker_counters.collect();
        counters.extend(broker_counters.iter().cloned());
        let feeds = feeds_of(config)?;
        counters.extend(feeds.iter().map(|feed| feed.counters.clone()));
        let own: [_; 5] = std::array::from_fn(|_| Arc::new(Counters::new()));
        counters.extend(own.iter().cloned());
        let [
            handle_counters,
            history_counters,
            key_counters,
            webhook_counters,
            trace_counters,
        ] = own;
        let logins = Arc::<Table>::default();
        let oidc = Oidc::start(config, logins.clone()).map_err(StartError::Oidc)?;
        let labels = Arc::<Mutex<NamespaceLabels>>::default();
        let observatory = Observatory {
            counters,
            version: options.version,
            started_unix_ms: start.unix_ms,
            open_mode: config.open_mode().into(),
            access: access(config).into(),
            capacity: options.capacity.clone(),
            pushpin: config.grip.as_ref().map(pushpin_metrics),
            broker: std::sync::OnceLock::new(),
            feeds: feeds.iter().map(|feed| feed.status.clone()).collect(),
            apps: gateways.pusher().clone().into(),
            history: std::sync::OnceLock::new(),
            base_bytes: memory::process(None).map_or(0, |process| process.rss_bytes),
            watch: Watch::new(config, shards),
            logins,
            sign_in: oidc.map(|oidc| Box::new(oidc) as Box<_>),
            labels: labels.clone(),
            exemplars: Arc::default(),
        };
        let mould = LiveMould {
            own_ports: gateways.ports().into(),
            closed_namespaces: Gateways::namespaces(),
            subscriptions_max: gateways.subscriptions_max(),
            shards,
            memory_bytes: options.memory_bytes,
            token_keys: TokenKeys::new(key_counters),
            labels,
        };
        let live = Arc::new(mould.make(config)?);
        observatory.logins.renew(&live.api_keys);
        let client_ports = config.listen.client.iter().map(|_| Port::Client);
        let public = { config.listeners() }.zip(client_ports.chain([Port::Api]));
        let public = public.map(|(listener, port)| ListenerKind {
            port,
            is_proxied: config.listen.proxy_protocol.contains(&listener.address),
            is_tls: listener.is_tls,
        });
        let own = mould.own_ports.iter().map(|own| ListenerKind {
            port: Port::Own {
                gateway: own.gateway,
                port: own.port,
            },
            is_proxied: false,
            is_tls: false,
        });
        let listeners = public.chain(own).collect();
        let home = home_options(config, &live.broker, shards, &mut random);
        let broker = RemoteStart::new(config, &home, &broker_counters, &mut secret);
        let work_secret = [secret.next_u64(), secret.next_u64()];
        let node = NodeKey::new(start.secret);
        let counted = (trace_counters, observatory.exemplars.clone());
        let traces = Traces::start(config, (&node.name(), options.version), counted)?;
        Ok(Self {
            broker,
            feeds: feeds.into(),
            work_secret,
            home,
            live,
            mould,
            ask_reload: options.ask_reload.clone(),
            observatory: Arc::new(observatory),
            peers: Arc::new(Peers::new(config, work_secret)),
            followers: Arc::default(),
            node,
            seed: random.next_u64(),
            listeners,
            handle_counters,
            history_counters,
            webhook_counters,
            webhooks: None,
            traces,
        })
    }

    /// Facts that webhooks begin with. A process that takes over is the same node.
    pub(crate) fn hook_start(&self) -> HookStart {
        let started = self.observatory.started_unix_ms;
        HookStart {
            counters: self.webhook_counters.clone(),
            node: { self.broker.as_ref() }.map(|_| (started, u64::from(self.home.nonce))),
            name: self.node.name(),
        }
    }

    /// Has all shards tell webhooks.
    pub(crate) fn tell(&mut self, webhooks: Option<Arc<Webhooks>>) {
        self.webhooks = webhooks;
    }

    /// Starts the peers of a broker on the other side of a network, if one is configured. Each
    /// ring wakes a shard; gives each shard's part, in the order of the rings.
    pub(crate) fn start_broker(
        &self,
        rings: Vec<WakeShard>,
        host: &mut impl BrokerHost,
    ) -> Result<Vec<Part>, StartError> {
        let Some(mut options) = self.broker.clone() else {
            return Ok(rings.iter().map(|_| None).collect());
        };
        options.reseed(random::seed());
        let (parts, health) = options.start(rings, host).map_err(StartError::Broker)?;
        let _ = self.observatory.broker.set(health);
        Ok(parts.into_iter().map(Some).collect())
    }

    /// A process that takes over waits for its broker for a while, so that what is delivered goes
    /// on without a gap; it may be that the other process has none either.
    pub(crate) fn await_broker(&self, has_predecessor: bool) {
        let Some(health) = self.observatory.broker.get().filter(|_| has_predecessor) else {
            return;
        };
        wait_until(|| {
            let (up, all) = health.servers_up();
            up == all
        });
    }

    /// Waits until keys for tokens were asked for, if they are to be fetched. A server that begins
    /// goes on without them, since its issuer may begin later; one that takes over from another
    /// does not, for that one has keys.
    pub(crate) fn await_token_keys(&self, has_predecessor: bool) -> Result<(), StartError> {
        let keys = self.live.token_keys.as_ref();
        match keys.and_then(|keys| keys.wait().err()) {
            Some(why) if has_predecessor => Err(StartError::TokenKeys(why)),
            Some(why) => {
                tracing::error!(
                    "{why}; tokens are refused with a temporary error until keys are fetched"
                );
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// A shard's app with its part of a broker elsewhere, and of the history on disk, if there is
    /// one; on its thread.
    pub(crate) fn app_with(
        &self,
        shard: ShardId,
        gateways: Gateways,
        (remote, kept): (Part, Option<Kept>),
    ) -> ShardApp {
        let options = HubOptions {
            subscriptions_max: self.live.subscriptions_max,
            hash_seed: self.home.hash_seed,
            namespaces: self.live.broker.namespaces.clone(),
            hooks: None,
        };
        let mut memory = Broker::new(shard, self.mould.shards, self.home.clone());
        let is_stored = kept.is_some();
        if let Some(kept) = kept {
            memory = kept.restore(memory);
        }
        let nodes = remote.as_ref().map(RemoteBroker::nodes);
        if let Some(part) = remote {
            memory = memory.with_remote(Box::new(part));
        }
        if let Some(nodes) = &nodes {
            nodes.name(&self.node.name());
        }
        let live = &*self.live;
        let shared = Shared {
            limits: live.limits.clone(),
            namespaces: live.broker.namespaces.clone(),
            closed_namespaces: self.mould.closed_namespaces.clone(),
            verifier: live.verifier.clone(),
            anonymous: live.anonymous,
            personal_channel: live.personal_channel,
            api_for_clients: live.api_for_clients,
            guards: live.guards.clone(),
            api_keys: live.api_keys.clone(),
            node: self.node.clone(),
            notices: Notices::new(crate::live::wants_published()),
            follow: Follow::new(self.followers.clone(), shard),
            forwarded: Forwarded::new(live.proxies.clone(), Some(self.peers.clone())),
            meter: Meter::new(live.work, self.work_secret),
            users: Users::new(live.users, self.peers.clone()),
            is_tls: Cell::new(false),
            http2: Cell::default(),
            counters: self.observatory.counters[shard.index()].clone(),
            pages: Arc::new(ServerPages(self.observatory.clone())),
            hooks: None,
            ends: RefCell::default(),
            dates: DateCell::default(),
            client_traces: ClientTraces::default(),
            turn_times: Default::default(),
            tracer: { self.traces.as_ref() }
                .map(|_| Tracer::new(Rng::for_member(self.seed, shard.0.into()))),
            version: self.observatory.version,
            started_unix_ms: self.observatory.started_unix_ms,
            draining: false,
        };
        let mut parts = ShardParts {
            shard,
            shards: self.mould.shards,
            hub: Hub::new(options, memory),
            webhooks: None,
            traces: self.traces.clone(),
            nodes,
            is_stored,
            shared,
            peers: self.peers.clone(),
            connections_max: live.connections_max,
            ask_reload: self.ask_reload.clone(),
            listeners: self.listeners.clone(),
            ticker: Ticker::new(self.observatory.clone()),
            observatory: self.observatory.clone(),
            seed: self.seed ^ u64::from(shard.0),
        };
        parts.tell(self.webhooks.clone());
        ShardApp::new(parts, gateways)
    }
}
