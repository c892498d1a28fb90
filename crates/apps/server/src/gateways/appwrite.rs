//! From `[appwrite]` to what shards and drivers need.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::Receiver;

use throng_appwrite::{Platforms, Rates, RefusalStyle};
use throng_appwrite_api::{
    Address, ApiOptions, AppwriteOptions, Call, DirectoryOptions, Offers, RedisSource,
    RedisUrlError, Reply,
};
use throng_config::Config;
use throng_engine::MailboxSender;
use throng_gateway_appwrite::{Appwrite, AppwriteProject, AppwriteShared, EventHubOptions, News};
use throng_metrics::Counters;
use throng_outward::{Deliver, Host};
use throng_sys::random;

use super::Sources;
use super::appwrite_feed::{Inlet, Lookups, MakePeer, Openings, ShardInbox, World, inlet};
use crate::options::StartError;
use crate::shard::ShardMail;

#[derive(Clone)]
pub(crate) struct AppwritePlan {
    shared: AppwriteShared,
    world: Arc<World>,
    counters: Arc<Counters>,
    hub: EventHubOptions,
    queue_bytes_max: usize,
}

pub(crate) struct AppwritePart {
    news: Receiver<News>,
    plan: AppwritePlan,
}

impl AppwritePlan {
    /// Reads the section, if it is there. `counters` are for the peer alone.
    pub(crate) fn new(config: &Config, shards: usize, counters: &Arc<Counters>) -> Option<Self> {
        let options = config.appwrite.as_ref()?;
        let rates = Rates {
            messages_max: options.messages_per_minute,
            opens_max: options.connections_per_minute,
            ..Rates::default()
        };
        let openings = Openings::new(rates.opens_max, rates.window_ms);
        let world = Arc::new(World::new(openings));
        let projects = options.projects.iter().map(|project| {
            let mut platforms = Platforms::new(&project.platforms);
            for scheme in &project.schemes {
                platforms.allow_scheme(scheme);
            }
            let id = project.id.as_str().into();
            AppwriteProject { id, platforms }
        });
        let mut shared = AppwriteShared::new(projects.collect(), world.clone());
        let message_bytes_max = config.limits.message_bytes_max as usize;
        shared.limits.message_bytes_max = shared.limits.message_bytes_max.min(message_bytes_max);
        shared.rates = rates;
        shared.style = RefusalStyle {
            close_codes: options.close_codes,
            mask: options.hide_errors,
        };
        shared.identifies = options.api.is_some();
        shared.grace_ms = options.api_grace_ms;
        shared.pings = options.pings;
        Some(Self {
            shared,
            world,
            counters: counters.clone(),
            hub: EventHubOptions {
                seed: 0,
                history_ms: options.history_ms,
                // Shards share the events that they keep.
                history_bytes_max: config.limits.history_bytes_max as usize / shards.max(1),
            },
            queue_bytes_max: config.engine.out_buffer_bytes_max as usize,
        })
    }

    /// The ways into the shards, and their parts, both in the order of the mailboxes.
    pub(crate) fn parts(
        &self,
        mailboxes: &[MailboxSender<ShardMail>],
    ) -> (Vec<Inlet>, Vec<AppwritePart>) {
        let part = |mailbox| {
            let (inlet, news) = inlet(mailbox);
            let plan = self.clone();
            (inlet, AppwritePart { news, plan })
        };
        mailboxes.iter().cloned().map(part).unzip()
    }

    /// Sources that stand still while the server hands over.
    pub(crate) fn sources(&self) -> Arc<dyn Sources> {
        self.world.clone()
    }

    /// Gives look-ups to the caller, which answers them.
    pub(crate) fn look_up_with(&self, lookups: Arc<dyn Lookups>) {
        let _ = self.world.lookups.set(lookups);
    }

    /// Has `host` serve the peer; the parts are in the order of the mailboxes.
    pub(crate) fn start(
        &self,
        config: &Config,
        mailboxes: &[MailboxSender<ShardMail>],
        host: impl FnOnce(MakePeer, Deliver<Reply>) -> io::Result<Host<Call>>,
    ) -> Result<Vec<AppwritePart>, StartError> {
        let (inlets, parts) = self.parts(mailboxes);
        let section = config.appwrite.as_ref();
        let api = section.and_then(|section| {
            let timeout_ms = section.api_timeout_ms;
            let address = Address::from_url(section.api.as_ref()?, timeout_ms)
                .map_err(|fault| StartError::Appwrite("appwrite.api", fault.to_string()));
            Some(address.map(|address| ApiOptions {
                address,
                timeout_ms,
                directory: DirectoryOptions {
                    grace_ms: section.api_grace_ms,
                    ..DirectoryOptions::default()
                },
            }))
        });
        let redis = section.and_then(|section| section.redis.as_ref());
        let redis = redis
            .map(|url| RedisSource::new(url.expose()))
            .transpose()?;
        let options = AppwriteOptions {
            shards: inlets.len(),
            epoch: random::seed(),
            // A longer event would close every queue that it is put on.
            redis: redis.map(|source| (source, self.queue_bytes_max)),
            api: api.transpose()?,
            offers: Offers::default(),
            counters: self.counters.clone(),
        };
        let started = self.world.start(inlets, options, host);
        started.map_err(StartError::Shard)?;
        Ok(parts)
    }
}

impl AppwritePart {
    /// The shard's own gateway; on its thread.
    pub(crate) fn gateway(self) -> Appwrite {
        let options = EventHubOptions {
            seed: random::seed(),
            ..self.plan.hub
        };
        let inbox = ShardInbox(self.news);
        let bytes_max = self.plan.queue_bytes_max;
        Appwrite::new(self.plan.shared, options, Box::new(inbox), bytes_max)
    }
}

impl From<RedisUrlError> for StartError {
    fn from(error: RedisUrlError) -> Self {
        Self::Appwrite("appwrite.redis", error.to_string())
    }
}
