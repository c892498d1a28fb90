//! From `[appwrite]` to what shards and drivers need.

use std::sync::mpsc::Receiver;
use std::sync::{Arc, OnceLock};

use throng_appwrite::{Platforms, Rates, RefusalStyle};
use throng_appwrite_feed::{
    Address, AppwriteApi, DirectoryOptions, Feed, Meter, RedisUrlError, Subscriber,
};
use throng_config::Config;
use throng_engine::MailboxSender;
use throng_gateway_appwrite::{Appwrite, AppwriteProject, AppwriteShared, EventHubOptions, News};
use throng_metrics::Counters;
use throng_sys::random;

use super::appwrite_feed::{Lookups, Openings, ShardInbox, World, inlet};
use crate::options::StartError;
use crate::plan::Sources;

/// What all shards have in common.
#[derive(Clone)]
pub(crate) struct AppwritePlan {
    shared: AppwriteShared,
    world: Arc<World>,
    meter: Meter,
    hub: EventHubOptions,
    queue_bytes_max: usize,
}

/// What moves to one shard's thread.
pub(crate) struct AppwritePart {
    news: Receiver<News>,
    feed: Arc<Feed>,
    plan: AppwritePlan,
}

impl AppwritePlan {
    /// Reads the section, if it is there. `counters` is for the drivers alone.
    pub(crate) fn new(config: &Config, shards: usize, counters: &Arc<Counters>) -> Option<Self> {
        let options = config.appwrite.as_ref()?;
        let rates = Rates {
            messages_max: options.messages_per_minute,
            opens_max: options.connections_per_minute,
            ..Rates::default()
        };
        let world = Arc::new(World {
            openings: Openings::new(rates.opens_max, rates.window_ms),
            offered: OnceLock::new(),
            directory: OnceLock::new(),
            presences: OnceLock::new(),
            feed: OnceLock::new(),
        });
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
            meter: Meter::new(counters.clone()),
            hub: EventHubOptions {
                seed: 0,
                history_ms: options.history_ms,
                // Shards share the events that they keep.
                history_bytes_max: config.limits.history_bytes_max as usize / shards.max(1),
            },
            queue_bytes_max: config.engine.out_buffer_bytes_max as usize,
        })
    }

    /// The feed, without what feeds it; the parts are in the order of the mailboxes.
    pub(crate) fn feed<M: Send + 'static>(
        &self,
        mailboxes: &[MailboxSender<M>],
    ) -> (Arc<Feed>, Vec<AppwritePart>) {
        let (inlets, news): (Vec<_>, Vec<_>) = mailboxes.iter().cloned().map(inlet).unzip();
        let feed = Feed::new(inlets, random::seed(), self.meter.clone());
        let parts = news.into_iter().map(|news| AppwritePart {
            news,
            feed: feed.clone(),
            plan: self.clone(),
        });
        let parts = parts.collect();
        (feed, parts)
    }

    /// What stands still while the server hands over.
    pub(crate) fn sources(&self) -> Arc<dyn Sources> {
        self.world.clone()
    }

    /// Gives look-ups to whoever answers them.
    pub(crate) fn look_up_with(&self, lookups: Arc<dyn Lookups>) {
        let _ = self.world.directory.set(lookups);
    }

    /// Starts the drivers; the parts are in the order of the mailboxes.
    pub(crate) fn start<M: Send + 'static>(
        &self,
        config: &Config,
        mailboxes: &[MailboxSender<M>],
    ) -> Result<Vec<AppwritePart>, StartError> {
        let (feed, parts) = self.feed(mailboxes);
        let offered = feed.offer().map_err(StartError::Shard)?;
        let _ = self.world.offered.set(offered);
        let Some(options) = config.appwrite.as_ref() else {
            return Ok(parts);
        };
        if let Some(url) = &options.api {
            let address = Address::from_url(url, options.api_timeout_ms)
                .map_err(|fault| StartError::Appwrite("appwrite.api", fault.to_string()))?;
            let bounds = DirectoryOptions {
                grace_ms: options.api_grace_ms,
                ..DirectoryOptions::default()
            };
            let meter = self.meter.clone();
            let api = AppwriteApi::start(&address, options.api_timeout_ms, bounds, &feed, meter);
            let api = api.map_err(StartError::Shard)?;
            let _ = self.world.presences.set(api.clone());
            self.look_up_with(api);
        }
        if let Some(url) = &options.redis {
            let _ = self.world.feed.set(Arc::downgrade(&feed));
            // A longer event would close every queue that it is put on.
            let bytes_max = self.queue_bytes_max;
            Subscriber::new(url.expose(), bytes_max, feed, self.meter.clone())?
                .start()
                .map_err(StartError::Shard)?;
        }
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
        let inbox = ShardInbox {
            news: self.news,
            feed: self.feed,
        };
        let bytes_max = self.plan.queue_bytes_max;
        Appwrite::new(self.plan.shared, options, Box::new(inbox), bytes_max)
    }
}

impl From<RedisUrlError> for StartError {
    fn from(error: RedisUrlError) -> Self {
        Self::Appwrite("appwrite.redis", error.to_string())
    }
}
