//! Routes that change while the server runs: by hand (SIGHUP), or because their file has changed.
//!
//! A thread of its own looks at the file, reads it when it has changed and stays as it is, and
//! gives all shards the new routes. All or nothing: if anything is wrong with them the old ones
//! stay, and the log says what. What is under way goes on with the route that it began with.

use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::Duration;

use throng_config::Grip as Section;
use throng_gateway_grip::RouteBook;

use super::routes;

/// Between two looks at the file. One that is the same at two looks in a row is written to its end.
const LOOK_EVERY: Duration = Duration::from_millis(700);
/// Between two tries to reach a shard whose mailbox is full, and how many there are.
const TRY_EVERY: Duration = Duration::from_millis(10);
const TRIES: usize = 1000;

/// The way to the thread that has the routes. It ends with the last of these.
#[derive(Clone)]
pub(crate) struct Reload(Sender<Box<Fresh>>);

/// Routes that were read, and do not hold yet.
pub(crate) struct Fresh {
    section: Section,
    stamp: Option<Stamp>,
    book: Arc<RouteBook>,
    /// Dropped once they hold.
    done: Option<Sender<()>>,
}

impl Fresh {
    /// Reads the routes of this section, and those of its file as it is now.
    ///
    /// # Errors
    /// Everything that is wrong with them.
    pub(crate) fn read(section: &Section) -> Result<Self, Vec<String>> {
        let stamp = Stamp::of(section);
        let read = routes::read(section);
        let faults: Vec<String> = read.refused.into_iter().chain(read.skipped).collect();
        if !faults.is_empty() {
            return Err(faults);
        }
        Ok(Self {
            section: section.clone(),
            stamp,
            book: Arc::new(read.book),
            done: None,
        })
    }
}

impl Reload {
    /// Lets these routes hold, on every shard before it returns.
    pub(crate) fn apply(&self, mut fresh: Fresh) {
        // Bound: always empty, since the sender is only dropped.
        let (done, told) = std::sync::mpsc::channel();
        fresh.done = Some(done);
        // The thread outlives all callers; it drops the sender once it is done.
        let _ = self.0.send(Box::new(fresh));
        let _ = told.recv();
    }
}

/// Attributes that tell one version of a file from another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    changed_s: i64,
    changed_ns: i64,
    bytes: u64,
    inode: u64,
}

impl Stamp {
    /// None if there is no such file.
    fn of(section: &Section) -> Option<Self> {
        let file = std::fs::metadata(section.routes_file.as_ref()?).ok()?;
        Some(Self {
            changed_s: file.mtime(),
            changed_ns: file.mtime_nsec(),
            bytes: file.len(),
            inode: file.ino(),
        })
    }
}

/// The thread before it runs.
pub(super) struct Watch {
    orders: Receiver<Box<Fresh>>,
    section: Section,
    /// Stamp of the routes file as it was read last, good or not.
    read: Option<Stamp>,
}

/// A thread that watches this section's file from now on, and the way to it.
pub(super) fn channel(section: &Section) -> (Reload, Watch) {
    // Bound: one a caller of `Reload::apply`, which waits until its order is carried out.
    let (send, orders) = std::sync::mpsc::channel();
    let watch = Watch {
        orders,
        section: section.clone(),
        read: Stamp::of(section),
    };
    (Reload(send), watch)
}

impl Watch {
    /// Starts it. `tell` gives a shard new routes: none if there is no such shard, false if it has
    /// no room at the moment.
    pub(super) fn start(
        self,
        tell: impl Fn(&Arc<RouteBook>, usize) -> Option<bool> + Send + 'static,
    ) -> io::Result<()> {
        let thread = thread::Builder::new().name("routes".to_owned());
        thread.spawn(move || self.run(tell)).map(drop)
    }

    fn run(mut self, tell: impl Fn(&Arc<RouteBook>, usize) -> Option<bool>) {
        let mut before = self.read;
        loop {
            match self.orders.recv_timeout(LOOK_EVERY) {
                Ok(fresh) => {
                    self.section = fresh.section;
                    self.read = fresh.stamp;
                    before = fresh.stamp;
                    spread(&fresh.book, &tell);
                }
                Err(RecvTimeoutError::Timeout) => {
                    let now = Stamp::of(&self.section);
                    // A file that is not there may be on its way.
                    if now.is_some() && now == before && now != self.read {
                        self.load(now, &tell);
                    }
                    before = now;
                }
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    fn load(
        &mut self,
        stamp: Option<Stamp>,
        tell: &impl Fn(&Arc<RouteBook>, usize) -> Option<bool>,
    ) {
        self.read = stamp;
        match Fresh::read(&self.section) {
            Ok(fresh) => spread(&fresh.book, tell),
            Err(faults) => {
                for fault in faults {
                    tracing::error!("the old routes stay: {fault}");
                }
            }
        }
    }
}

/// Gives all shards new routes.
fn spread(book: &Arc<RouteBook>, tell: &impl Fn(&Arc<RouteBook>, usize) -> Option<bool>) {
    let mut shard = 0;
    let mut tries = 0;
    while let Some(is_taken) = tell(book, shard) {
        if is_taken {
            (shard, tries) = (shard + 1, 0);
        } else if tries < TRIES {
            tries += 1;
            thread::sleep(TRY_EVERY);
        } else {
            tracing::error!("shard {shard} did not take the new routes");
            (shard, tries) = (shard + 1, 0);
        }
    }
    tracing::info!(routes = book.routes.len(), "new routes are in force");
}
