//! The server without threads and drivers, for the simulator, which runs its shards.
//!
//! Owns what all shards share, and the ways in which drivers speak to them. Never: binds, starts
//! a thread, waits.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use throng_appwrite_api::{AppwritePeer, Call, Reply};
use throng_broker::HookJournal;
use throng_config::Config;
use throng_engine::{ConnLimits, Kernel, MailboxSender, Running};
use throng_gateway_grip::OriginClient;
use throng_hooks::HookCall;
use throng_http1::origin::OriginEvent;
use throng_metrics::Counters;
use throng_outward::{Deliver, Host};
use throng_remote::RemoteBroker;
use throng_types::{ConnId, ShardId, lock};

use crate::broker::{BrokerHost, rings};
use crate::drain::DrainOptions;
use crate::gateways::{GatewaysPart, GatewaysPlan, deliver};
use crate::handover::{Parcel, steps};
use crate::hooks::{HooksPeer, Webhooks};
use crate::live::conn_limits;
use crate::options::{Options, Start, StartError};
use crate::settings::Blueprint;
use crate::shard::{Message, ShardApp, ShardMail};

pub type Mailbox = MailboxSender<ShardMail>;

/// Parts from which [`ShardApp`]s are made.
pub struct Assembly {
    blueprint: Blueprint,
    plan: GatewaysPlan,
    limits: ConnLimits,
    drain: DrainOptions,
    listeners: usize,
    /// The part of each shard that has no app yet, once they are made.
    parts: Mutex<Option<Vec<Option<GatewaysPart>>>>,
}

impl Assembly {
    /// Builds the state that this many shards share. Fails if the configuration names keys, routes
    /// or origins that cannot be used.
    pub fn new(options: &Options, shards: usize, start: Start) -> Result<Self, StartError> {
        let config = &options.config;
        let counters = Arc::new(Counters::new());
        let plan = GatewaysPlan::new(config, shards, &counters)?;
        let blueprint = Blueprint::new(options, shards as u8, &plan, start, counters)?;
        let own_ports = blueprint.mould.own_ports.len();
        Ok(Self {
            limits: conn_limits(config, shards, options.memory_bytes),
            drain: DrainOptions::of(config),
            listeners: config.listen.client.len() + 1 + own_ports,
            blueprint,
            plan,
            parts: Mutex::default(),
        })
    }

    /// Listeners of each shard: those for clients, the API's, and those of GRIP in the order of
    /// `http_publish`, `zmq_pull`, `zmq_sub`, `zmq_command`, `prometheus`, `zmq_stats`, as far as
    /// they are configured.
    pub const fn listeners(&self) -> usize {
        self.listeners
    }

    pub const fn limits(&self) -> ConnLimits {
        self.limits
    }

    /// Makes the app of one shard, with its part of a remote broker if there is one; `mailboxes`
    /// are those of all, and requests to GRIP backends go to `backends`. Call it once a shard.
    pub fn app(
        &self,
        shard: ShardId,
        mailboxes: &[Mailbox],
        backends: Box<dyn OriginClient>,
        broker: Option<RemoteBroker>,
    ) -> ShardApp {
        let mut part = None;
        if let Ok(mut parts) = self.parts.lock() {
            let parts = parts.get_or_insert_with(|| {
                let parts = self.plan.parts(mailboxes, Vec::new());
                parts.into_iter().map(Some).collect()
            });
            part = parts.get_mut(shard.index()).and_then(Option::take);
        }
        let gateways = part.map(|part| part.gateways_with(Some(backends)));
        self.blueprint
            .app_with(shard, gateways.unwrap_or_default(), (broker, None))
    }

    /// Has `host` serve the broker of the configuration, if it is elsewhere; gives each shard's
    /// part.
    pub fn start_broker(
        &self,
        mailboxes: &[Mailbox],
        host: &mut impl BrokerHost,
    ) -> Result<Vec<Option<RemoteBroker>>, StartError> {
        self.blueprint.start_broker(rings(mailboxes), host)
    }

    /// Has `host` serve Appwrite's peer, if it is configured; before any app is made.
    ///
    /// # Errors
    /// If the addresses of Redis or of the API are not good.
    pub fn start_appwrite(
        &self,
        mailboxes: &[Mailbox],
        host: impl FnOnce(AppwritePeer, Deliver<Reply>) -> Host<Call>,
    ) -> Result<(), StartError> {
        let parts = self.plan.with_appwrite(mailboxes, host)?;
        let parts = parts.into_iter().map(Some).collect();
        *lock(&self.parts) = Some(parts);
        Ok(())
    }

    /// Has `host` serve the peer of webhooks, with a journal and what that holds; before any app is
    /// made. They tell nothing before [`Self::begin_webhooks`].
    ///
    /// # Errors
    /// If a webhook of the configuration cannot be used.
    pub fn start_webhooks(
        &mut self,
        config: &Config,
        kept: (Box<dyn HookJournal>, Vec<u8>),
        unix_ms: u64,
        host: impl FnOnce(HooksPeer, Deliver<Infallible>) -> Host<HookCall>,
    ) -> Result<(), StartError> {
        let kept = (Some(kept.0), kept.1);
        let host = |peer, deliver| Ok(host(peer, deliver));
        let start = self.blueprint.hook_start();
        let webhooks = Webhooks::hosted(config, start, kept, unix_ms, host)?;
        self.blueprint.tell(Some(webhooks));
        Ok(())
    }

    /// Webhooks begin to tell, from what the journal held.
    pub fn begin_webhooks(&self) {
        self.blueprint.webhooks.iter().for_each(|it| it.begin());
    }

    /// Delivers a backend's answer to a shard. Error: the event, if the shard has no room or has
    /// ended.
    pub fn answer(
        mailboxes: &[Mailbox],
        conn: ConnId,
        token: u32,
        event: OriginEvent,
    ) -> Result<(), OriginEvent> {
        deliver(mailboxes, conn, token, event)
    }

    /// A shard lets go of what another process has taken, and drains what stays.
    pub fn leave<K: Kernel>(&self, running: &mut Running<ShardApp, K>, parcel: Parcel<K>) {
        steps::leave(running, parcel, self.drain);
    }

    /// Begins to end a shard gracefully; false if it has no room for that word or has ended.
    #[must_use]
    pub fn drain(&self, mailbox: &Mailbox) -> bool {
        mailbox.send(ShardMail(Message::Drain(self.drain))).is_ok()
    }
}
