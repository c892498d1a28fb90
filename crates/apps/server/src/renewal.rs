//! A reload from the handle's side: everything is made and checked first, and only then is anybody
//! told.
//!
//! Owns the ways to all who have to hear of it. Never: reads the configuration's file, exits.
//!
//! Invariant: either every part takes over the configuration, or none does.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use throng_config::Config;
use throng_engine::MailboxSender;
use throng_types::lock;

use crate::gateways::GatewaysRenewer;
use crate::hooks::{HookStart, Webhooks};
use crate::live::{LiveMould, Renewed};
use crate::peers::Peers;
use crate::shard::{Message, ShardMail};
use crate::stats::{Observatory, access};
use crate::tls::Watched;

/// Longest wait for shards to take a new configuration over.
const TAKEN_WITHIN: Duration = Duration::from_secs(10);

/// Everything that takes part.
pub(crate) struct Renewal {
    pub(crate) mould: LiveMould,
    pub(crate) peers: Arc<Peers>,
    pub(crate) observatory: Arc<Observatory>,
    pub(crate) gateways: GatewaysRenewer,
    pub(crate) tls: Option<Arc<Watched>>,
    pub(crate) hook_start: HookStart,
    /// None until the configuration has the first one.
    pub(crate) webhooks: Option<Arc<Webhooks>>,
    pub(crate) mailboxes: Vec<MailboxSender<ShardMail>>,
}

impl Renewal {
    /// Takes over a configuration. Error: sentences on what is wrong with it; nothing has changed
    /// then.
    pub(crate) fn renew(&mut self, config: &Config) -> Result<(), Vec<String>> {
        let mut faults = Vec::new();
        let live = self.mould.make(config);
        let live = live.map_err(|error| faults.push(error.to_string())).ok();
        // With another address nobody could come in before its keys are there.
        let keys = live.as_ref().and_then(|live| live.token_keys.as_ref());
        faults.extend(keys.and_then(|keys| keys.wait().err()));
        let tls = self
            .tls
            .as_ref()
            .map(|_| Watched::prepare(config))
            .transpose();
        let tls = tls.map_err(|wrong| faults.extend(wrong)).ok().flatten();
        let prepared = self.gateways.prepare(config);
        faults.extend(prepared.err().into_iter().flatten());
        let hooks = Webhooks::prepare(config);
        let hooks = hooks.map_err(|error| faults.push(error.to_string()));
        let mut first = None;
        if faults.is_empty() && self.webhooks.is_none() {
            let started = Webhooks::start(config, self.hook_start.clone(), false);
            first = started.unwrap_or_else(|error| {
                faults.push(error.to_string());
                None
            });
        }
        let Some(live) = live.filter(|_| faults.is_empty()) else {
            return Err(faults);
        };
        if let (Some(watched), Some(fresh)) = (&self.tls, tls) {
            watched.commit(fresh);
        }
        if let (Some(webhooks), Ok(hooks)) = (&self.webhooks, hooks) {
            webhooks.commit(hooks);
        }
        self.webhooks = self.webhooks.take().or_else(|| first.clone());
        self.peers.renew(config);
        self.observatory
            .open_mode
            .store(config.open_mode(), Relaxed);
        *lock(&self.observatory.access) = access(config);
        self.observatory.watch.renew(config);
        let live = Arc::new(live);
        // Bound: always empty, since shards only drop their senders.
        let (done, taken) = channel();
        for (shard, mailbox) in self.mailboxes.iter().enumerate() {
            let renewed = Renewed {
                live: live.clone(),
                mail: self.gateways.commit(),
                webhooks: self.webhooks.clone(),
                done: done.clone(),
            };
            if !ShardMail(Message::Renew(Box::new(renewed))).send_patiently(mailbox) {
                // It has ended, and the server with it.
                tracing::error!("shard {shard} did not take the new configuration");
            }
        }
        drop(done);
        self.observatory.show_apps(self.gateways.pusher());
        // No message comes: the shards drop their senders once they have it.
        if taken.recv_timeout(TAKEN_WITHIN) == Err(RecvTimeoutError::Timeout) {
            tracing::warn!(
                "a shard has not applied the new configuration yet; it will when it has time"
            );
        }
        first.iter().for_each(|webhooks| webhooks.begin());
        // Once no shard lets anybody in by an old key.
        self.observatory.logins.renew(&live.api_keys);
        Ok(())
    }
}
