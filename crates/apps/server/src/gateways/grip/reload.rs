//! Routes that change while the server runs: by hand (SIGHUP), or because their file has changed.
//!
//! A thread of its own looks at the file, reads it when it has changed and stays as it is, and
//! gives all shards the new routes. All or nothing: if anything is wrong with them the old ones
//! stay, and the log says what. What is under way goes on with the route that it began with.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::Duration;

use throng_config::Grip as Section;
use throng_engine::MailboxSender;
use throng_gateway_grip::{Mail as GripMail, RouteBook};

use super::routes;
use crate::files::Stamp;
use crate::gateways::GatewayMail;
use crate::shard::ShardMail;

/// Between two looks at the file. One that is the same at two looks in a row is written to its end.
const LOOK_EVERY: Duration = Duration::from_millis(700);

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
    pub(crate) fn read(section: &Section) -> Result<Self, Vec<String>> {
        let stamp = stamp(section);
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
        read: stamp(section),
    };
    (Reload(send), watch)
}

impl Watch {
    /// Starts it for the shards with these mailboxes.
    pub(super) fn start(self, shards: Vec<MailboxSender<ShardMail>>) -> io::Result<()> {
        let thread = thread::Builder::new().name("routes".to_owned());
        thread.spawn(move || self.run(&shards)).map(drop)
    }

    fn run(mut self, shards: &[MailboxSender<ShardMail>]) {
        let mut before = self.read;
        loop {
            match self.orders.recv_timeout(LOOK_EVERY) {
                Ok(fresh) => {
                    self.section = fresh.section;
                    self.read = fresh.stamp;
                    before = fresh.stamp;
                    spread(&fresh.book, shards);
                }
                Err(RecvTimeoutError::Timeout) => {
                    let now = stamp(&self.section);
                    // A file that is not there may be on its way.
                    if now.is_some() && now == before && now != self.read {
                        self.load(now, shards);
                    }
                    before = now;
                }
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    fn load(&mut self, stamp: Option<Stamp>, shards: &[MailboxSender<ShardMail>]) {
        self.read = stamp;
        match Fresh::read(&self.section) {
            Ok(fresh) => spread(&fresh.book, shards),
            Err(faults) => {
                for fault in faults {
                    tracing::error!("the old routes stay: {fault}");
                }
            }
        }
    }
}

fn stamp(section: &Section) -> Option<Stamp> {
    Stamp::of(section.routes_file.as_ref()?)
}

/// Gives all shards new routes.
fn spread(book: &Arc<RouteBook>, shards: &[MailboxSender<ShardMail>]) {
    for (shard, mailbox) in shards.iter().enumerate() {
        let mail = ShardMail::to_gateway(GatewayMail::Grip(GripMail::Routes(book.clone())));
        if !mail.send_patiently(mailbox) {
            tracing::error!("shard {shard} did not take the new routes");
        }
    }
    tracing::info!(routes = book.routes.len(), "new routes are in force");
}
