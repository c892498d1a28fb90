//! A reload from a shard's side: the new version is copied to where sessions, hub and engine look.

use throng_engine::{Conns, Kernel};
use throng_types::Now;

use crate::list::GatewayList;
use crate::live::Live;
use crate::shard::ShardApp;

impl<L: GatewayList> ShardApp<L> {
    /// Another version holds from now on; connections stay.
    pub(crate) fn renew<K: Kernel>(
        &mut self,
        live: &Live,
        conns: &mut Conns<L::Session, K>,
        now: Now,
    ) {
        let parts = &mut self.parts;
        parts.hub.renew(live.subscriptions_max, &live.broker, now);
        parts.connections_max = live.connections_max;
        conns.set_limits(live.conns);
        let shared = &mut parts.shared;
        shared.limits = live.limits.clone();
        shared.namespaces = live.broker.namespaces.clone();
        shared.verifier.clone_from(&live.verifier);
        shared.anonymous = live.anonymous;
        shared.personal_channel = live.personal_channel;
        shared.api_for_clients = live.api_for_clients;
        shared.guards = live.guards.clone();
        shared.api_keys = live.api_keys.clone();
        shared.forwarded.renew(live.proxies.clone());
        shared.meter.renew(live.work);
        shared
            .notices
            .want_published(crate::notices::wants_published());
    }
}
