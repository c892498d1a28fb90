//! The handle to a running server.

use std::io;
use std::net::SocketAddr;
use std::thread::JoinHandle;

use throng_config::Config;
use throng_engine::MailboxSender;

use crate::drain::DrainOptions;
use crate::gateways::Reload;
use crate::shard::{Letter, Mail};
use crate::tls::Watched;

/// Why a running server ended.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// A shard's reactor failed.
    #[error("shard {shard} failed: {error}")]
    Reactor {
        /// The number of the shard.
        shard: usize,
        /// What the kernel said.
        error: io::Error,
    },
    /// A shard panicked; the message was printed when it did.
    #[error("shard {shard} panicked; this is a bug")]
    Panic {
        /// The number of the shard.
        shard: usize,
    },
}

/// What the handle tells a shard.
#[derive(Clone, Copy)]
pub(crate) enum Command {
    Drain(DrainOptions),
    Stop,
}

/// The handle's way into one shard, whatever its gateways.
pub(crate) struct Control(Box<dyn Fn(Command) -> bool + Send + Sync>);

impl Control {
    pub(crate) fn new<M: Send + 'static>(mailbox: MailboxSender<Mail<M>>) -> Self {
        Self(Box::new(move |command| {
            let letter = match command {
                Command::Drain(options) => Letter::Drain(options),
                Command::Stop => Letter::Stop,
            };
            mailbox.send(Mail(letter)).is_ok()
        }))
    }
}

/// A running server. Dropping it leaves the server running.
pub struct Handle {
    pub(crate) clients: Vec<SocketAddr>,
    pub(crate) api: SocketAddr,
    pub(crate) own: Vec<(&'static str, SocketAddr)>,
    pub(crate) shards: Vec<Control>,
    pub(crate) threads: Vec<JoinHandle<io::Result<()>>>,
    pub(crate) drain: DrainOptions,
    /// The server's own gateways can take other routes.
    pub(crate) reload: Option<Reload>,
    /// Certificates, if any are shown.
    pub(crate) tls: Option<Watched>,
}

impl Handle {
    /// Where clients connect.
    #[must_use]
    pub fn client_addresses(&self) -> &[SocketAddr] {
        &self.clients
    }

    /// Where the server API is.
    #[must_use]
    pub const fn api_address(&self) -> SocketAddr {
        self.api
    }

    /// Where the gateways' own ports are, by the options that name them.
    #[must_use]
    pub fn own_addresses(&self) -> &[(&'static str, SocketAddr)] {
        &self.own
    }

    /// Whether every shard is at work. Once one has ended, so should the others.
    #[must_use]
    pub fn is_running(&self) -> bool {
        !self.threads.iter().any(JoinHandle::is_finished)
    }

    /// Begins a graceful stop: no new connections, clients are told to come back, and the
    /// server ends when they have left or the drain's time is up.
    pub fn drain(&self) {
        self.tell(Command::Drain(self.drain));
    }

    /// Takes over what of a configuration can change while the server runs: certificates, and
    /// GRIP's routes, with their files as they are now. What came of it is logged.
    pub fn reload(&self, config: &Config) {
        if let Some(tls) = &self.tls {
            tls.reload(config);
        }
        if let (Some(reload), Some(section)) = (&self.reload, &config.grip) {
            reload.apply(section);
        }
    }

    /// Looks whether files of certificates have changed, and shows them if so; to be called every
    /// few seconds. Connections keep what they have.
    pub fn look_after_certificates(&self) {
        if let Some(tls) = &self.tls {
            tls.look();
        }
    }

    /// Whether an option can change while the server runs, by its path.
    #[must_use]
    pub fn reloads(&self, path: &str) -> bool {
        const ROUTES: [&str; 4] = [
            "grip.routes_file",
            "grip.cross_origin",
            "grip.debug",
            "grip.response_timeout",
        ];
        let is_route = ROUTES.contains(&path) || path.starts_with("grip.route[");
        let is_certificate =
            matches!(path, "tls.certificate" | "tls.key") || path.starts_with("tls.site[");
        self.reload.is_some() && is_route || self.tls.is_some() && is_certificate
    }

    /// Ends at once; connections are cut.
    pub fn stop(&self) {
        self.tell(Command::Stop);
    }

    fn tell(&self, command: Command) {
        for (shard, thread) in self.shards.iter().zip(&self.threads) {
            // A full mailbox empties with the shard's next turn; an ended shard takes nothing.
            while !(shard.0)(command) && !thread.is_finished() {
                std::thread::yield_now();
            }
        }
    }

    /// Waits until all shards have ended.
    ///
    /// # Errors
    /// The first failure of a shard.
    pub fn wait(self) -> Result<(), ServeError> {
        let mut result = Ok(());
        for (shard, thread) in self.threads.into_iter().enumerate() {
            let ended = match thread.join() {
                Ok(Ok(())) => Ok(()),
                Ok(Err(error)) => Err(ServeError::Reactor { shard, error }),
                Err(_) => Err(ServeError::Panic { shard }),
            };
            result = result.and(ended);
        }
        result
    }
}
