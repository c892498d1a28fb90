//! A NATS server of a test's own, with JetStream, which can stop, go away and come back.

use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use tempfile::TempDir;

use crate::daemon::{Daemon, new_folder};

/// Runs until it is dropped, on a port that the kernel chose, with its files in a temporary folder.
pub struct NatsServer {
    daemon: Daemon,
    arguments: Vec<String>,
    /// A copy of the folder, with which it begins when it comes back.
    saved: Option<TempDir>,
    is_durable: bool,
}

impl NatsServer {
    /// Keeps nothing over its end.
    #[must_use]
    #[track_caller]
    pub fn start() -> Self {
        Self::begin(Daemon::new(), &[], false)
    }

    /// Has all its data again when it comes back.
    #[must_use]
    #[track_caller]
    pub fn durable() -> Self {
        Self::with(&[])
    }

    /// The same, with these options.
    ///
    /// # Panics
    /// If it cannot be started.
    #[must_use]
    #[track_caller]
    pub fn with(arguments: &[&str]) -> Self {
        Self::begin(Daemon::new(), arguments, true)
    }

    #[track_caller]
    fn begin(daemon: Daemon, arguments: &[&str], is_durable: bool) -> Self {
        let mut server = Self {
            daemon,
            arguments: arguments.iter().map(|&argument| argument.into()).collect(),
            saved: None,
            is_durable,
        };
        server.come_back();
        server
    }

    /// Where it listens.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.daemon.address()
    }

    /// `nats://…`
    #[must_use]
    pub fn url(&self) -> String {
        format!("nats://{}", self.address())
    }

    /// Ends it without a word to anybody.
    pub fn go_away(&mut self) {
        self.daemon.go_away();
    }

    /// Makes a copy of all its data, with which it begins when it comes back. Nobody may publish
    /// meanwhile.
    ///
    /// # Panics
    /// If that cannot be done.
    #[track_caller]
    pub fn save(&mut self) {
        let copy = new_folder();
        copy_folder(self.daemon.folder(), copy.path()).expect("a copy of its files");
        self.saved = Some(copy);
    }

    /// Starts it again, and waits until it serves.
    ///
    /// # Panics
    /// If it does not.
    #[track_caller]
    pub fn come_back(&mut self) {
        if let Some(saved) = self.saved.take() {
            self.daemon.set_folder(saved);
        } else if !self.is_durable {
            self.daemon.set_folder(new_folder());
        }
        let mut command = Command::new("nats-server");
        command.args(["-js", "-a", "127.0.0.1", "-p"]);
        command.arg(self.daemon.port().to_string()).arg("-sd");
        command.arg(self.daemon.folder()).args(&self.arguments);
        self.daemon.start(&mut command, |process| {
            process.err("readiness", |lines| {
                let is_ready = |line: &String| line.contains("Server is ready");
                lines.iter().any(is_ready).then_some(())
            });
        });
    }

    /// It does nothing any more, and its connections stay.
    ///
    /// # Panics
    /// If it does not run.
    #[track_caller]
    pub fn pause(&self) {
        self.daemon.pause();
    }

    /// It goes on.
    ///
    /// # Panics
    /// If it does not run.
    #[track_caller]
    pub fn resume(&self) {
        self.daemon.resume();
    }
}

fn copy_folder(from: &Path, to: &Path) -> io::Result<()> {
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let there = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_folder(&entry.path(), &there)?;
        } else {
            std::fs::copy(entry.path(), there)?;
        }
    }
    Ok(())
}
