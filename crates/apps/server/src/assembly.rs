//! The server without threads and drivers, for whoever runs its shards: the simulator.
//!
//! Owns what all shards share, and the ways in which drivers speak to them. Never: binds, starts
//! a thread, waits.

use std::sync::{Arc, Mutex};

use throng_appwrite_feed::Feed;
use throng_engine::{ConnLimits, Door};
use throng_grip::exchange::OriginEvent;
use throng_origin::Backend;
use throng_types::{ConnId, ShardId};

use crate::appwrite::Part;
use crate::build::{Options, Shared, StartError, conn_limits};
use crate::drain::DrainOptions;
use crate::shard::{Mail, Message, ShardApp};

/// What [`ShardApp`]s are made from.
pub struct Assembly {
    shared: Shared,
    limits: ConnLimits,
    drain: DrainOptions,
    listeners: usize,
    feed: Mutex<Option<Fed>>,
}

/// The feed, and what each shard has not taken of it yet.
type Fed = (Arc<Feed>, Vec<Option<Part>>);

impl Assembly {
    /// What so many shards share. Requests to GRIP backends go to `backend`.
    ///
    /// # Errors
    /// If the configuration names keys, routes or origins that cannot be used.
    pub fn new(
        options: &Options,
        shards: usize,
        backend: Arc<dyn Backend>,
    ) -> Result<Self, StartError> {
        let config = &options.config;
        let mut shared = Shared::new(options, shards)?;
        if let Some(plan) = &mut shared.grip {
            plan.start_with(backend);
        }
        Ok(Self {
            limits: conn_limits(config),
            drain: DrainOptions::of(config),
            listeners: config.listen.client.len() + 1 + shared.grip_listeners.len(),
            shared,
            feed: Mutex::default(),
        })
    }

    /// Listeners of each shard: those for clients, the API's, and those of GRIP in the order of
    /// `http_publish`, `zmq_pull`, `zmq_sub`, `zmq_command`, `prometheus`, as far as they are
    /// configured.
    #[must_use]
    pub const fn listeners(&self) -> usize {
        self.listeners
    }

    /// Bounds of connections.
    #[must_use]
    pub const fn limits(&self) -> ConnLimits {
        self.limits
    }

    /// What runs on one shard; `doors` are those of all. To be called once for each shard.
    pub fn app(&self, shard: ShardId, doors: &[Door<Mail>]) -> ShardApp {
        let mut part = None;
        if let Ok(mut feed) = self.feed.lock()
            && let Some(plan) = &self.shared.appwrite
        {
            let (_, parts) = feed.get_or_insert_with(|| {
                let (feed, parts) = plan.feed(doors);
                (feed, parts.into_iter().map(Some).collect())
            });
            part = parts.get_mut(shard.index()).and_then(Option::take);
        }
        ShardApp::new(self.shared.parts(shard, part))
    }

    /// Where Appwrite's events go in, if it is configured and the apps are made.
    #[must_use]
    pub fn feed(&self) -> Option<Arc<Feed>> {
        let feed = self.feed.lock().ok()?;
        feed.as_ref().map(|(feed, _)| feed.clone())
    }

    /// Tells a shard what a backend answered.
    ///
    /// # Errors
    /// The event, if the shard has no room or has ended.
    pub fn answer(
        doors: &[Door<Mail>],
        conn: ConnId,
        token: u32,
        event: OriginEvent,
    ) -> Result<(), OriginEvent> {
        crate::grip::answer(doors, conn, token, event)
    }

    /// Begins to end a shard gracefully; false if it has no room for that word or has ended.
    #[must_use]
    pub fn drain(&self, door: &Door<Mail>) -> bool {
        door.send(Mail(Message::Drain(self.drain))).is_ok()
    }
}
