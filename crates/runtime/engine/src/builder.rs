//! Where a shard will run: all of it that may still move between threads.
//!
//! Owns the kernel, the listeners and the ends of the mailboxes until the shard starts.
//! Connections, queues and frames come into being on the shard's own thread, because
//! they are shared there without locks and may not leave it.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Instant;

use throng_tls::ServerTls;
use throng_types::ShardId;

use crate::mailbox::{self, MailboxSender, Mailboxes, Waker};
use crate::{App, ConnLimits, Conns, Kernel, Linux, LoopStats, Running, ShardParts};

const LISTENERS_MAX: usize = 16;

/// Parts from which a shard on Linux is built.
pub struct ShardOptions {
    pub shard: ShardId,
    /// Listening sockets, at most 16; the place in this list is the number that the app gets.
    pub listeners: Vec<OwnedFd>,
    pub limits: ConnLimits,
    /// The start of the process, from which monotonic time counts; the same for all shards.
    pub started: Instant,
}

/// Shards without their apps, and the ways into their mailboxes, in the same order.
pub type ShardBuilders<M, K = Linux> = (Vec<ShardBuilder<M, K>>, Vec<MailboxSender<M>>);

/// Makes shards on Linux without their apps, and the ways into their mailboxes, in the same order.
///
/// A [`ShardBuilder`] can be sent to its thread, where [`ShardBuilder::with`] puts an app on it.
/// Fails if the kernel gives no reactor (descriptors) or a listener cannot be watched;
/// `InvalidInput` for more than 16 listeners.
pub fn builders<M: Send + 'static>(options: Vec<ShardOptions>) -> io::Result<ShardBuilders<M>> {
    let parts = options.into_iter().map(|options| {
        Ok(ShardParts {
            shard: options.shard,
            kernel: Linux::new(options.started)?,
            listeners: options.listeners,
            limits: options.limits,
        })
    });
    builders_on(parts.collect::<io::Result<_>>()?)
}

/// Makes shards on any kernel, as [`builders`] does.
pub fn builders_on<M: Send + 'static, K: Kernel>(
    mut parts: Vec<ShardParts<K>>,
) -> io::Result<ShardBuilders<M, K>> {
    let wakers = parts
        .iter_mut()
        .map(|parts| Ok(Arc::new(Waker::new(parts.kernel.make_wake()?))))
        .collect::<io::Result<Vec<_>>>()?;
    let mut kernels: Vec<&mut K> = parts.iter_mut().map(|parts| &mut parts.kernel).collect();
    let (ends, mailboxes) = mailbox::connect(&mut kernels, &wakers);
    let builders = parts
        .into_iter()
        .zip(ends)
        .map(|(parts, mail)| ShardBuilder::new(parts, mail))
        .collect::<io::Result<_>>()?;
    Ok((builders, mailboxes))
}

/// A shard without its app: make it anywhere, send it to the thread that shall run it.
pub struct ShardBuilder<M, K: Kernel = Linux> {
    parts: ShardParts<K>,
    tls: Vec<Option<ServerTls>>,
    mail: Mailboxes<M, K>,
}

impl<M, K: Kernel> ShardBuilder<M, K> {
    fn new(mut parts: ShardParts<K>, mail: Mailboxes<M, K>) -> io::Result<Self> {
        if LISTENERS_MAX < parts.listeners.len() {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        for (number, listener) in parts.listeners.iter().enumerate() {
            parts.kernel.watch_listener(listener, number as u8)?;
        }
        Ok(Self {
            parts,
            tls: Vec::new(),
            mail,
        })
    }

    /// Speaks TLS on listeners, by their places; those that are missing or `None` are plain.
    pub fn secure(mut self, tls: Vec<Option<ServerTls>>) -> Self {
        self.tls = tls;
        self
    }

    pub const fn shard(&self) -> ShardId {
        self.parts.shard
    }

    /// Puts an app on the shard. Call it on the shard's thread if the app cannot move between
    /// threads.
    pub const fn with<A: App<K, Mail = M>>(self, app: A) -> Shard<A, K> {
        Shard { builder: self, app }
    }
}

/// A shard that is ready to run. It may move to another thread if its app may.
pub struct Shard<A: App<K>, K: Kernel = Linux> {
    builder: ShardBuilder<A::Mail, K>,
    app: A,
}

impl<A: App<K>, K: Kernel> Shard<A, K> {
    /// Runs until the app says that it is finished; gives the app back.
    ///
    /// `observe` is called at the end of each turn. Connections that are still open when it ends
    /// are closed as they are. Fails if the reactor itself fails, which leaves nothing to run on.
    pub fn run(
        self,
        mut observe: impl FnMut(&A, &Conns<A::Session, K>, LoopStats),
    ) -> io::Result<A> {
        let mut running = self.start();
        loop {
            running.turn()?;
            observe(running.app(), running.conns(), running.stats());
            if running.finished() {
                return Ok(running.into_app());
            }
        }
    }

    /// Starts it without running it: the caller takes one turn after the other.
    pub fn start(self) -> Running<A, K> {
        let ShardBuilder { parts, tls, mail } = self.builder;
        Running::new(parts, tls, mail, self.app)
    }
}
