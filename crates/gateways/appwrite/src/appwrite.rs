//! One shard's part of the gateway.

use std::rc::Rc;

use throng_types::ConnId;

use crate::event_hub::EventHub;
use crate::order::EventHubOptions;
use crate::shared::{AppwriteShared, Inbox};

/// One shard's Appwrite clients.
pub struct Appwrite {
    /// Dropped before `shared`: the end of the world outside may wait for those who fill this.
    pub(crate) news: Box<dyn Inbox>,
    pub(crate) shared: Rc<AppwriteShared>,
    pub(crate) hub: EventHub,
    /// Bytes that may wait for one connection.
    pub(crate) queue_bytes_max: usize,
    /// Connections from another process whose project is not served here, until they are closed.
    pub(crate) unserved: Vec<ConnId>,
}

impl Appwrite {
    /// With an event hub of its own and the shard's queue of news.
    #[must_use]
    pub fn new(
        shared: AppwriteShared,
        options: EventHubOptions,
        news: Box<dyn Inbox>,
        queue_bytes_max: usize,
    ) -> Self {
        Self {
            news,
            shared: Rc::new(shared),
            hub: EventHub::new(options),
            queue_bytes_max,
            unserved: Vec::new(),
        }
    }
}
