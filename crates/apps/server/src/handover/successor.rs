//! The old process's side: it starts the new one, and lets go when that has everything.

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use throng_types::Save as _;

use super::hello::{Group, Hello};
use super::link::Link;

/// Longest wait for a step of the new process once it is ready.
const STEP: Duration = Duration::from_secs(20);

/// Longest time for one write of a shard's state; clients wait meanwhile.
const TRANSFER: Duration = Duration::from_secs(5);

/// Program to start as the new process. It finds the old one's end of the socket as its standard
/// input, see [`crate::handover::Predecessor::greet`].
#[derive(Clone, Debug)]
pub struct Program {
    pub path: PathBuf,
    pub arguments: Vec<OsString>,
    /// Longest time until the new process is ready.
    pub patience: Duration,
}

/// Why nothing was handed over. The old process serves as before.
#[derive(Debug, thiserror::Error)]
pub enum HandOverError {
    /// The binary cannot be started.
    #[error("cannot start {path}: {error}")]
    Program { path: String, error: io::Error },
    /// The new process said why it does not take over.
    #[error("the new process refused: {0}")]
    Refused(String),
    /// The new process did not answer in time, or ended.
    #[error("{0}")]
    Silent(String),
    /// This process could not do its part.
    #[error("{0}")]
    Here(String),
}

/// A new process that is not in charge yet. Dropping it ends that process.
pub(crate) struct Successor {
    child: Option<Child>,
    link: Link,
    /// The way of each shard to the new one of its number.
    pub(crate) shards: Vec<Link>,
    /// Longest wait for its next message.
    patience: Duration,
}

impl Successor {
    /// Starts the program and sends it everything that it needs before it is ready.
    pub(crate) fn start(
        program: &Program,
        hello: &Hello,
        groups: &[Group],
    ) -> Result<Self, HandOverError> {
        let here = |error: io::Error| HandOverError::Here(format!("no socket: {error}"));
        let (link, theirs) = Link::pair(program.patience).map_err(here)?;
        let pairs = (0..hello.shards).map(|_| Link::pair(TRANSFER).map_err(here));
        let (shards, ends): (Vec<Link>, Vec<OwnedFd>) =
            pairs.collect::<Result<Vec<_>, _>>()?.into_iter().unzip();
        let mut command = Command::new(&program.path);
        command.args(&program.arguments).stdin(Stdio::from(theirs));
        let child = command.spawn().map_err(|error| HandOverError::Program {
            path: program.path.display().to_string(),
            error,
        })?;
        // The command keeps the other end open as long as it lives.
        drop(command);
        let mut successor = Self {
            child: Some(child),
            link,
            shards,
            patience: program.patience,
        };
        let greeted = successor.greet(hello, ends, groups);
        // A process that refused may have ended before it read everything: its word counts.
        match (successor.hear("to be ready"), greeted) {
            (Ok(()), Ok(())) => {
                successor.patience = STEP;
                successor.link.set_longest(STEP).map_err(here)?;
                Ok(successor)
            }
            (Ok(()), Err(error)) => Err(here(error)),
            (Err(error), _) => Err(error),
        }
    }

    fn greet(&self, hello: &Hello, ends: Vec<OwnedFd>, groups: &[Group]) -> io::Result<()> {
        let fds: Vec<BorrowedFd<'_>> = ends.iter().map(|fd| fd.as_fd()).collect();
        self.link.send(&hello.to_bytes(), &fds)?;
        // So that the end of the new process is seen.
        drop(ends);
        for group in groups {
            let fds: Vec<BorrowedFd<'_>> = group.listeners.iter().map(|fd| fd.as_fd()).collect();
            self.link.send(&(group.wanted, group.bound).saved(), &fds)?;
        }
        Ok(())
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.as_ref().map_or(0, Child::id)
    }

    /// Waits for its word. Without one it is ended, so that it certainly never begins, and then
    /// asked once more: its word may have been under way.
    pub(crate) fn hear(&mut self, step: &str) -> Result<(), HandOverError> {
        let heard = self.link.hear().or_else(|error| {
            let ended = self.end();
            self.link.hear().map_err(|_| (error, ended))
        });
        match heard {
            Ok(Ok(())) if self.child.is_some() => Ok(()),
            Ok(Ok(())) => Err(HandOverError::Silent(format!(
                "the new process took longer than {} s {step} and was ended",
                self.patience.as_secs()
            ))),
            Ok(Err(why)) => Err(HandOverError::Refused(why)),
            // One that ends before it has read what it was told resets the connection.
            Err((error, ended))
                if error.kind() == io::ErrorKind::UnexpectedEof || !ended.is_empty() =>
            {
                Err(HandOverError::Silent(format!(
                    "the new process ended{ended} instead of {step}; its output is above"
                )))
            }
            Err((error, _))
                if !matches!(
                    error.kind(),
                    io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock
                ) =>
            {
                Err(HandOverError::Silent(format!(
                    "the new process cannot be heard {step} and was ended: {error}"
                )))
            }
            Err(_) => Err(HandOverError::Silent(format!(
                "the new process took longer than {} s {step} and was ended",
                self.patience.as_secs()
            ))),
        }
    }

    /// Sends the order to begin: from then on all of it is its own. Before that it sends nothing,
    /// so that no byte is sent twice, and no nonce of TLS used twice, whichever of the two goes on.
    pub(crate) fn begin(&self) -> Result<(), HandOverError> {
        let said = self.link.say(&Ok(()));
        said.map_err(|_| HandOverError::Silent("the new process ended before it began".to_owned()))
    }

    /// Ends the process, and waits until it is gone; how it ended, if by itself.
    fn end(&mut self) -> String {
        let Some(mut child) = self.child.take() else {
            return String::new();
        };
        // One that ends by itself is given a moment, so that its exit code can be told.
        for _ in 0..20 {
            match child.try_wait() {
                Ok(Some(status)) => return format!(" ({status})"),
                _ => std::thread::sleep(Duration::from_millis(5)),
            }
        }
        let _ = child.kill();
        let _ = child.wait();
        String::new()
    }

    /// Leaves the new process in charge: dropping it no longer ends it.
    pub(crate) fn release(mut self) {
        self.child = None;
    }
}

impl Drop for Successor {
    fn drop(&mut self) {
        self.end();
    }
}
