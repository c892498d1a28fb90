//! State that Appwrite sessions share, and their calls beyond the shard.

use std::net::IpAddr;
use std::sync::Arc;

use throng_appwrite::{CONSOLE, FeedMessage, MessageLimits, Platforms, Rates, RefusalStyle};
pub use throng_appwrite::{
    Credential, Lookup, LookupPart, LookupPriority, LookupReply, News, PresenceCall, PresenceReply,
    QueueFull,
};
use throng_types::Now;

use crate::projects::{AppwriteProject, Projects};

/// Configuration, and the way out of the shard. Each shard has a copy with equal contents.
#[derive(Clone)]
pub struct AppwriteShared {
    pub(crate) projects: Projects,
    pub limits: MessageLimits,
    /// Rates of messages for one client; the rate of openings is [`Outside::admit`]'s to keep.
    pub rates: Rates,
    pub style: RefusalStyle,
    /// Whether lookups at Appwrite are configured. If not, all clients are guests.
    pub identifies: bool,
    /// Milliseconds that known roles stay while Appwrite does not answer.
    pub grace_ms: u64,
    /// Whether clients are pinged, which Appwrite does not do.
    pub pings: bool,
    pub outside: Arc<dyn Outside>,
}

impl AppwriteShared {
    /// Options with these projects; the console is always one of them, for pages of this machine
    /// and of the server's own host if nothing else is said.
    #[must_use]
    pub fn new(mut projects: Vec<AppwriteProject>, outside: Arc<dyn Outside>) -> Self {
        if projects.iter().all(|project| &*project.id != CONSOLE) {
            projects.push(AppwriteProject {
                id: CONSOLE.into(),
                platforms: Platforms::new(&["localhost"]),
            });
        }
        Self {
            projects: Projects::new(projects),
            limits: MessageLimits::default(),
            rates: Rates::default(),
            style: RefusalStyle::default(),
            identifies: false,
            grace_ms: 120_000,
            pings: false,
            outside,
        }
    }
}

/// Calls that leave the shard. They return at once.
pub trait Outside: Send + Sync {
    /// Whether this address may open one more connection now.
    fn admit(&self, address: IpAddr, now: Now) -> bool;

    /// Looks up a client; [`News::Found`] follows for certain unless it is refused.
    ///
    /// # Errors
    /// [`QueueFull`] if too many questions wait.
    fn identify(&self, lookup: Lookup) -> Result<(), QueueFull>;

    /// Has a presence written or deleted, behind earlier calls for the same user;
    /// [`News::Presence`] follows a call that writes for certain unless it is refused.
    ///
    /// # Errors
    /// [`QueueFull`] if too many calls wait.
    fn presence(&self, call: PresenceCall) -> Result<(), QueueFull>;

    /// Hands an event to all shards.
    ///
    /// # Errors
    /// [`QueueFull`] if too many events wait.
    fn publish(&self, event: FeedMessage) -> Result<(), QueueFull>;
}

/// The queue of [`News`] for one shard.
pub trait Inbox {
    fn next(&mut self) -> Option<News>;
}
