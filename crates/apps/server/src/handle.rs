//! The handle to a running server.

use std::io;
use std::net::SocketAddr;
use std::thread::JoinHandle;

use throng_engine::Door;

use crate::drain::DrainOptions;
use crate::shard::{Mail, Message};

/// Why a running server ended.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// A shard's reactor failed.
    #[error("shard {shard} failed: {error}")]
    Reactor {
        /// Which.
        shard: usize,
        /// How.
        error: io::Error,
    },
    /// A shard panicked; the message was printed when it did.
    #[error("shard {shard} panicked; this is a bug")]
    Panic {
        /// Which.
        shard: usize,
    },
}

/// See the module's head. Dropping it leaves the server running.
pub struct Handle {
    pub(crate) clients: Vec<SocketAddr>,
    pub(crate) api: SocketAddr,
    pub(crate) grip: Vec<(&'static str, SocketAddr)>,
    pub(crate) doors: Vec<Door<Mail>>,
    pub(crate) threads: Vec<JoinHandle<io::Result<()>>>,
    pub(crate) drain: DrainOptions,
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

    /// Where GRIP's publishers connect, by the options of `[grip]`.
    #[must_use]
    pub fn grip_addresses(&self) -> &[(&'static str, SocketAddr)] {
        &self.grip
    }

    /// Whether every shard is at work. Once one has ended, so should the others.
    #[must_use]
    pub fn is_running(&self) -> bool {
        !self.threads.iter().any(JoinHandle::is_finished)
    }

    /// Begins a graceful stop: no new connections, clients are told to come back, and the
    /// server ends when they have left or the drain's time is up.
    pub fn drain(&self) {
        let drain = self.drain;
        self.tell(|| Mail(Message::Drain(drain)));
    }

    /// Ends at once; connections are cut.
    pub fn stop(&self) {
        self.tell(|| Mail(Message::Stop));
    }

    fn tell(&self, mut mail: impl FnMut() -> Mail) {
        for (door, thread) in self.doors.iter().zip(&self.threads) {
            let mut mail = mail();
            // A full door empties with the shard's next turn; an ended shard takes nothing.
            while let Err(back) = door.send(mail) {
                if thread.is_finished() {
                    break;
                }
                mail = back;
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
