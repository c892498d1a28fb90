//! From `[appwrite]` to what shards and drivers need.

use std::sync::mpsc::Receiver;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use throng_appwrite::{Platforms, Rates, RefusalStyle};
use throng_appwrite_feed::{
    AccountApi, Directory, DirectoryOptions, Feed, Meter, RedisUrlError, Subscriber, UrlError,
};
use throng_config::Config;
use throng_engine::Door;
use throng_metrics::Board;
use throng_session::{AppwriteDesk, AppwriteProject, News, Room, RoomOptions};
use throng_sys::random;

use super::{Appwrite, Openings, World, inlet};
use crate::build::StartError;
use crate::shard::Mail;

/// What all shards have in common.
#[derive(Clone)]
pub(crate) struct Plan {
    pub(crate) desk: Arc<AppwriteDesk>,
    world: Arc<World>,
    meter: Meter,
    room: RoomOptions,
    queue_bytes_max: usize,
}

/// What moves to one shard's thread.
pub(crate) struct Part {
    news: Receiver<News>,
    feed: Arc<Feed>,
    plan: Plan,
}

impl Plan {
    /// Reads the section, if it is there. `board` is for the drivers alone.
    pub(crate) fn new(config: &Config, shards: usize, board: &Arc<Board>) -> Option<Self> {
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
        });
        let projects = options.projects.iter().map(|project| AppwriteProject {
            id: project.id.as_str().into(),
            platforms: Platforms::new(&project.id, &project.platforms),
        });
        let mut desk = AppwriteDesk::new(projects.collect(), world.clone());
        let message_bytes_max = config.limits.message_bytes_max as usize;
        desk.limits.message_bytes_max = desk.limits.message_bytes_max.min(message_bytes_max);
        desk.rates = rates;
        desk.style = RefusalStyle {
            close_codes: options.close_codes,
            mask: options.hide_errors,
        };
        desk.identifies = options.api.is_some();
        Some(Self {
            desk: Arc::new(desk),
            world,
            meter: Meter::new(board.clone()),
            room: RoomOptions {
                seed: 0,
                history_ms: options.history_ms,
                // Shards share the events that they keep.
                history_bytes_max: config.limits.history_bytes_max as usize / shards.max(1),
            },
            queue_bytes_max: config.engine.out_buffer_bytes_max as usize,
        })
    }

    /// The feed, without what feeds it; the parts are in the order of the doors.
    pub(crate) fn feed(&self, doors: &[Door<Mail>]) -> (Arc<Feed>, Vec<Part>) {
        let (inlets, news): (Vec<_>, Vec<_>) = doors.iter().cloned().map(inlet).unzip();
        let feed = Feed::new(inlets, random::seed(), self.meter.clone());
        let parts = news.into_iter().map(|news| Part {
            news,
            feed: feed.clone(),
            plan: self.clone(),
        });
        (feed.clone(), parts.collect())
    }

    /// Starts the drivers; the parts are in the order of the doors.
    pub(crate) fn start(
        &self,
        config: &Config,
        doors: &[Door<Mail>],
    ) -> Result<Vec<Part>, StartError> {
        let (feed, parts) = self.feed(doors);
        let offered = feed.offer().map_err(StartError::Shard)?;
        let _ = self.world.offered.set(offered);
        let Some(options) = config.appwrite.as_ref() else {
            return Ok(parts);
        };
        if let Some(url) = &options.api {
            let api = AccountApi::new(url, Duration::from_millis(options.api_timeout_ms))?;
            let bounds = DirectoryOptions::default();
            let directory = Directory::start(api, bounds, feed.clone(), self.meter.clone());
            let _ = self
                .world
                .directory
                .set(directory.map_err(StartError::Shard)?);
        }
        if let Some(url) = &options.redis {
            // A longer event would close every queue that it is put on.
            let bytes_max = self.queue_bytes_max;
            Subscriber::new(url.expose(), bytes_max, feed, self.meter.clone())?
                .start()
                .map_err(StartError::Shard)?;
        }
        Ok(parts)
    }
}

impl Part {
    /// The shard's own room; on its thread.
    pub(crate) fn room(self) -> Appwrite {
        let options = RoomOptions {
            seed: random::seed(),
            ..self.plan.room
        };
        let bytes_max = self.plan.queue_bytes_max;
        Appwrite::new(Room::new(options), self.news, self.feed, bytes_max)
    }
}

impl From<UrlError> for StartError {
    fn from(error: UrlError) -> Self {
        Self::Appwrite("appwrite.api", error.to_string())
    }
}

impl From<RedisUrlError> for StartError {
    fn from(error: RedisUrlError) -> Self {
        Self::Appwrite("appwrite.redis", error.to_string())
    }
}
