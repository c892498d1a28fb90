//! The one order of events, and the way into every shard.
//!
//! Rule for "full": whoever publishes waits for the slowest shard. The subscriber does not read
//! from Redis meanwhile, and an offer that finds its queue full is refused; nothing is lost unsaid.
//!
//! Invariants
//! - Every shard gets the same events in the same order: they are sent under one lock.
//! - Offsets rise by one; a new epoch means that events may have been lost before it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;
use std::{io, thread};

use throng_appwrite::FeedMessage;
use throng_appwrite_api::Known;
use throng_gateway_appwrite::{LookupReply, News, QueueFull};
use throng_metrics::Counter;
use throng_types::{ConnId, Epoch, Position};

use crate::Meter;
use crate::standstill::Standstill;

/// Events from the server API that may wait for their turn. Queue: `offers`.
const OFFERS_MAX: usize = 1024;

/// The way into one shard.
pub trait Inlet: Send + Sync {
    /// Hands news in and wakes the shard; waits while there is no room, and says so before it
    /// does. False once the shard has ended.
    fn send(&self, news: News, on_full: &dyn Fn()) -> bool;
}

/// Gives every event to every shard, in one order.
pub struct Feed {
    inlets: Vec<Arc<dyn Inlet>>,
    position: Mutex<Position>,
    meter: Meter,
    /// Changed users are noted there before the shards hear of them.
    known: OnceLock<Arc<Mutex<Known>>>,
    over: AtomicBool,
    standstill: Standstill,
}

/// The end of the server API's queue at which events are put in.
pub struct Offered(SyncSender<FeedMessage>);

/// Locks what every change leaves whole between any two statements.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Feed {
    /// A feed into these shards. `epoch` must differ from those of earlier processes.
    #[must_use]
    pub fn new(inlets: Vec<Arc<dyn Inlet>>, epoch: u64, meter: Meter) -> Arc<Self> {
        let feed = Self {
            inlets,
            position: Mutex::new(Position {
                epoch: Epoch(epoch),
                offset: 0,
            }),
            meter,
            known: OnceLock::new(),
            over: AtomicBool::new(false),
            standstill: Standstill::default(),
        };
        feed.tell_beginning();
        Arc::new(feed)
    }

    /// Notes users that change there, before the shards hear of it.
    pub(crate) fn also_tell(&self, known: &Arc<Mutex<Known>>) {
        let _ = self.known.set(known.clone());
    }

    fn tell_beginning(&self) {
        if let Ok(position) = self.position.lock() {
            self.send_to_all(&News::Began(*position));
        }
    }

    /// Hands an event to every shard.
    pub fn publish(&self, event: FeedMessage) {
        let event = Arc::new(event);
        let Ok(mut position) = self.position.lock() else {
            return;
        };
        if let Some(known) = self.known.get()
            && let Some(change) = event.identity_change()
        {
            lock(known).changed(&event.project, &change.user_id);
        }
        position.offset += 1;
        self.meter.count(Counter::PublicationsAppwrite);
        self.send_to_all(&News::Event {
            event,
            position: *position,
        });
    }

    /// Events may have been lost: positions from before mean nothing any more, and neither does
    /// what is known of users.
    pub fn begin_anew(&self) {
        let Ok(mut position) = self.position.lock() else {
            return;
        };
        if let Some(known) = self.known.get() {
            lock(known).all_changed();
        }
        *position = Position {
            epoch: Epoch(position.epoch.0.wrapping_add(1)),
            offset: 0,
        };
        self.send_to_all(&News::Began(*position));
    }

    /// Does something between two events: no shard hears of one meanwhile.
    pub(crate) fn between_events<R>(&self, act: impl FnOnce() -> R) -> R {
        let _position = self.position.lock();
        act()
    }

    /// Whether an event could come now.
    #[cfg(test)]
    pub(crate) fn is_free(&self) -> bool {
        self.position.try_lock().is_ok()
    }

    /// Tells one shard something that concerns it alone.
    pub(crate) fn tell(&self, shard: usize, news: News) {
        if let Some(inlet) = self.inlets.get(shard) {
            self.send_to(inlet, news);
        }
    }

    /// Answers a look-up, in the directory's place. What it says must be newer than every change
    /// that was published before.
    pub fn answer(&self, conn: ConnId, token: u32, found: LookupReply) {
        self.between_events(|| {
            self.tell(conn.shard().index(), News::Found { conn, token, found });
        });
    }

    /// Lets the subscriber stand still once it has taken everything that was published so far,
    /// until [`Feed::go_on`]. True if it has, or hears nothing anyway.
    pub fn stand_still(&self, longest: Duration) -> bool {
        self.standstill.ask(longest)
    }

    /// The subscriber goes on.
    pub fn go_on(&self) {
        self.standstill.end();
    }

    pub(crate) const fn standstill(&self) -> &Standstill {
        &self.standstill
    }

    /// Whether a shard has ended, and so must everything that feeds it.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    /// The shards end: so do the threads that feed them, within about a second.
    pub fn end(&self) {
        self.over.store(true, Ordering::Relaxed);
        self.standstill.end();
    }

    fn send_to_all(&self, news: &News) {
        for inlet in &self.inlets {
            self.send_to(inlet, news.clone());
        }
    }

    fn send_to(&self, inlet: &Arc<dyn Inlet>, news: News) {
        let on_full = || self.meter.count(Counter::AppwriteFeedWaits);
        if !inlet.send(news, &on_full) {
            self.end();
        }
    }

    /// Starts the thread that takes events from the server API.
    ///
    /// # Errors
    /// If the kernel gives no thread.
    pub fn offer(self: &Arc<Self>) -> io::Result<Offered> {
        let (sender, offers) = sync_channel(OFFERS_MAX);
        let feed = self.clone();
        thread::Builder::new()
            .name("appwrite-api".to_owned())
            .spawn(move || feed.take_offers(&offers))?;
        Ok(Offered(sender))
    }

    fn take_offers(&self, offers: &Receiver<FeedMessage>) {
        for event in offers {
            self.meter.count(Counter::AppwriteEventsApi);
            self.publish(event);
            if self.is_over() {
                return;
            }
        }
    }
}

impl Offered {
    /// Puts an event in.
    ///
    /// # Errors
    /// [`QueueFull`] if too many wait.
    pub fn put(&self, event: FeedMessage) -> Result<(), QueueFull> {
        self.0.try_send(event).map_err(|error| match error {
            TrySendError::Full(_) | TrySendError::Disconnected(_) => QueueFull,
        })
    }
}
