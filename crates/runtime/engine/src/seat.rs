//! Where a shard will run: all of it that may still move between threads.
//!
//! Owns the reactor, the listeners and the ends of the mailboxes until the shard starts.
//! Connections, queues and frames come into being on the shard's own thread, because
//! they are shared there without locks and may not leave it.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::time::Instant;

use mio::unix::SourceFd;
use mio::{Interest, Poll, Token};
use throng_types::ShardId;

use crate::mailbox::{Bell, Mailboxes};
use crate::shard::Running;
use crate::{App, ConnLimits, Conns, LoopStats};

pub(crate) const BELL: Token = Token(usize::MAX);
/// Listeners count downwards from here.
pub(crate) const LISTENER_FIRST: usize = usize::MAX - 1;
pub(crate) const LISTENERS_MAX: usize = 16;

/// What a shard is made of.
pub struct ShardOptions {
    /// Which shard this is.
    pub shard: ShardId,
    /// What it listens on, at most 16; the place in this list is the number that the app is told.
    pub listeners: Vec<OwnedFd>,
    /// Bounds of its connections.
    pub limits: ConnLimits,
    /// The start of the process, from which monotonic time counts; the same for all shards.
    pub started: Instant,
}

/// The part of a seat that must exist before mailboxes can be made.
pub(crate) struct Core {
    poll: Poll,
    bell: Arc<Bell>,
}

impl Core {
    pub(crate) fn new() -> io::Result<Self> {
        let poll = Poll::new()?;
        let bell = Arc::new(Bell::new(mio::Waker::new(poll.registry(), BELL)?));
        Ok(Self { poll, bell })
    }

    pub(crate) fn bell(&self) -> Arc<Bell> {
        self.bell.clone()
    }
}

/// A shard without its app: make it anywhere, send it to the thread that shall run it.
pub struct Seat<M> {
    pub(crate) shard: ShardId,
    pub(crate) limits: ConnLimits,
    pub(crate) started: Instant,
    pub(crate) listeners: Vec<OwnedFd>,
    pub(crate) poll: Poll,
    pub(crate) bell: Arc<Bell>,
    pub(crate) mail: Mailboxes<M>,
}

impl<M: Send + 'static> Seat<M> {
    pub(crate) fn new(core: Core, options: ShardOptions, mail: Mailboxes<M>) -> io::Result<Self> {
        if LISTENERS_MAX < options.listeners.len() {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        for (number, fd) in options.listeners.iter().enumerate() {
            core.poll.registry().register(
                &mut SourceFd(&fd.as_raw_fd()),
                Token(LISTENER_FIRST - number),
                Interest::READABLE,
            )?;
        }
        Ok(Self {
            shard: options.shard,
            limits: options.limits,
            started: options.started,
            listeners: options.listeners,
            poll: core.poll,
            bell: core.bell,
            mail,
        })
    }

    /// Which shard it will be.
    #[must_use]
    pub const fn shard(&self) -> ShardId {
        self.shard
    }

    /// Puts an app on the seat. Call it on the shard's thread if the app cannot move between
    /// threads.
    pub const fn with<A: App<Mail = M>>(self, app: A) -> Shard<A> {
        Shard { seat: self, app }
    }
}

/// A shard that is ready to run. It may move to another thread if its app may.
pub struct Shard<A: App> {
    seat: Seat<A::Mail>,
    app: A,
}

impl<A: App> Shard<A> {
    /// Runs until the app says that it is finished; gives the app back.
    ///
    /// `observe` is called at the end of each turn. Connections that are still open
    /// when it ends are closed as they are.
    ///
    /// # Errors
    /// If the reactor itself fails, which leaves nothing to run on.
    pub fn run(self, observe: impl FnMut(&A, &Conns<A::Session>, LoopStats)) -> io::Result<A> {
        Running::new(self.seat, self.app).run(observe)
    }
}
