//! What Appwrite Realtime needs outside the shards: the queue of news, and a count of openings.
//!
//! Rule for "full": the driver waits, and with it Appwrite's Redis.

use std::net::IpAddr;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::time::Duration;

use throng_appwrite::FeedMessage;
use throng_appwrite_feed::{AppwriteApi, Feed, Inlet, Offered};
use throng_engine::MailboxSender;
use throng_gateway_appwrite::{Inbox, Lookup, News, Outside, PresenceCall, QueueFull};
use throng_session::counted_as;
use throng_types::Now;

use crate::plan::Sources;

/// News that may wait for one shard. Queue: `news`.
const NEWS_MAX: usize = 1024;
/// How long a process that hands over takes events that came before the new one listened.
const CATCH_UP: Duration = Duration::from_secs(8);
/// Addresses counted in one minute; beyond that nobody new is counted, and nobody refused for it.
const ADDRESSES_MAX: usize = 1 << 20;

/// A shard's end of its queue. The feed ends with the last of them.
pub(crate) struct ShardInbox {
    pub(crate) news: Receiver<News>,
    pub(crate) feed: Arc<Feed>,
}

impl Inbox for ShardInbox {
    fn next(&mut self) -> Option<News> {
        self.news.try_recv().ok()
    }
}

impl Drop for ShardInbox {
    fn drop(&mut self) {
        self.feed.end();
    }
}

/// The driver's end of a shard's queue.
struct ShardInlet<M> {
    sender: SyncSender<News>,
    mailbox: MailboxSender<M>,
}

/// An inlet and the queue behind it.
pub(crate) fn inlet<M: Send + 'static>(
    mailbox: MailboxSender<M>,
) -> (Arc<dyn Inlet>, Receiver<News>) {
    let (sender, receiver) = sync_channel(NEWS_MAX);
    (Arc::new(ShardInlet { sender, mailbox }), receiver)
}

impl<M: Send> Inlet for ShardInlet<M> {
    fn send(&self, news: News, on_full: &dyn Fn()) -> bool {
        let sent = match self.sender.try_send(news) {
            Ok(()) => true,
            Err(TrySendError::Full(news)) => {
                on_full();
                self.sender.send(news).is_ok()
            }
            Err(TrySendError::Disconnected(_)) => false,
        };
        self.mailbox.ring();
        sent
    }
}

/// Who answers look-ups: the driver, or what stands in for it.
pub trait Lookups: Send + Sync {
    /// Takes a question; [`Feed::answer`] follows for certain unless it is refused.
    ///
    /// # Errors
    /// [`QueueFull`] if too many wait.
    fn ask(&self, lookup: Lookup) -> Result<(), QueueFull>;
}

impl Lookups for AppwriteApi {
    fn ask(&self, lookup: Lookup) -> Result<(), QueueFull> {
        self.look_up(lookup)
    }
}

/// What is outside the shards, for all of them.
pub(crate) struct World {
    pub(crate) openings: Openings,
    /// Set before the first connection is accepted.
    pub(crate) offered: OnceLock<Offered>,
    pub(crate) directory: OnceLock<Arc<dyn Lookups>>,
    /// Set if there is an API of Appwrite.
    pub(crate) presences: OnceLock<Arc<AppwriteApi>>,
    /// Set if Appwrite's Redis is listened to. The shards keep it.
    pub(crate) feed: OnceLock<Weak<Feed>>,
}

impl World {
    fn feed(&self) -> Option<Arc<Feed>> {
        self.feed.get()?.upgrade()
    }
}

impl Sources for World {
    fn stand_still(&self) -> Result<(), String> {
        match self.feed() {
            Some(feed) if !feed.stand_still(CATCH_UP) => Err(
                "Appwrite's events come faster than they go out, so the new process cannot go on \
                 where this one stops"
                    .to_owned(),
            ),
            _ => Ok(()),
        }
    }

    fn go_on(&self) {
        if let Some(feed) = self.feed() {
            feed.go_on();
        }
    }
}

impl Outside for World {
    fn admit(&self, address: IpAddr, now: Now) -> bool {
        self.openings.admit(address, now)
    }

    fn identify(&self, lookup: Lookup) -> Result<(), QueueFull> {
        self.directory.get().ok_or(QueueFull)?.ask(lookup)
    }

    fn presence(&self, call: PresenceCall) -> Result<(), QueueFull> {
        self.presences.get().ok_or(QueueFull)?.presence(call)
    }

    fn publish(&self, event: FeedMessage) -> Result<(), QueueFull> {
        self.offered.get().ok_or(QueueFull)?.put(event)
    }
}

/// How many connections each address has opened in this window, over all shards.
pub(crate) struct Openings {
    opens_max: u32,
    window_ms: u64,
    counts: Mutex<Counts>,
}

#[derive(Default)]
struct Counts {
    window: u64,
    by_address: std::collections::HashMap<IpAddr, u32>,
}

impl Openings {
    /// So many in a window; zero is no limit.
    pub(crate) fn new(opens_max: u32, window_ms: u64) -> Self {
        Self {
            opens_max,
            window_ms,
            counts: Mutex::default(),
        }
    }

    fn admit(&self, address: IpAddr, now: Now) -> bool {
        if self.opens_max == 0 {
            return true;
        }
        let Ok(mut counts) = self.counts.lock() else {
            return true;
        };
        let window = now.mono.0 / self.window_ms.max(1);
        if counts.window != window {
            *counts = Counts {
                window,
                ..Counts::default()
            };
        }
        let address = counted_as(address);
        if counts.by_address.len() >= ADDRESSES_MAX && !counts.by_address.contains_key(&address) {
            return true;
        }
        let count = counts.by_address.entry(address).or_insert(0);
        *count = count.saturating_add(1);
        *count <= self.opens_max
    }
}

#[cfg(test)]
mod tests {
    use throng_types::Millis;

    use super::*;

    #[test]
    fn openings_are_counted_by_address_and_window() {
        let openings = Openings::new(2, 1000);
        let at = |ms| Now {
            mono: Millis(ms),
            unix_ms: 0,
        };
        let admit = |address: &str, ms| openings.admit(address.parse().unwrap(), at(ms));
        assert!(admit("203.0.113.1", 0) && admit("203.0.113.1", 999));
        assert!(!admit("203.0.113.1", 999));
        assert!(admit("203.0.113.2", 999));
        assert!(admit("203.0.113.1", 1000));
        assert!(admit("2001:db8::1", 1000) && admit("2001:db8::2", 1000));
        assert!(!admit("2001:db8::3", 1000) && admit("2001:db8:0:1::3", 1000));
        assert!(Openings::new(0, 1000).admit("203.0.113.1".parse().unwrap(), at(0)));
    }
}
