//! A NATS server of a test's own, with JetStream, which can stop, go away and come back.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::Command;

use rustix::process::Signal;
use tempfile::TempDir;

use crate::{Process, until};

/// Runs until it is dropped, on a port that the kernel chose, with its files in a temporary folder.
pub struct NatsServer {
    port: u16,
    process: Option<Process>,
    folder: TempDir,
    /// A copy of the folder, with which it begins when it comes back.
    saved: Option<TempDir>,
    is_durable: bool,
}

impl NatsServer {
    /// Keeps nothing over its end.
    #[must_use]
    #[track_caller]
    pub fn start() -> Self {
        Self::with(false)
    }

    /// Has all its data again when it comes back.
    #[must_use]
    #[track_caller]
    pub fn durable() -> Self {
        Self::with(true)
    }

    #[track_caller]
    fn with(is_durable: bool) -> Self {
        let free = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = free.local_addr().expect("its address").port();
        drop(free);
        let mut server = Self {
            port,
            process: None,
            folder: tempfile::tempdir().expect("a temporary folder"),
            saved: None,
            is_durable,
        };
        server.come_back();
        server
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], self.port))
    }

    /// `nats://…`
    #[must_use]
    pub fn url(&self) -> String {
        format!("nats://{}", self.address())
    }

    /// Ends it without a word to anybody.
    pub fn go_away(&mut self) {
        self.process = None;
    }

    /// Makes a copy of all its data, with which it begins when it comes back. Nobody may publish
    /// meanwhile.
    ///
    /// # Panics
    /// If that cannot be done.
    #[track_caller]
    pub fn save(&mut self) {
        let copy = tempfile::tempdir().expect("a temporary folder");
        copy_folder(self.folder.path(), copy.path()).expect("a copy of its files");
        self.saved = Some(copy);
    }

    /// Starts it again, and waits until it serves.
    ///
    /// # Panics
    /// If it does not.
    #[track_caller]
    pub fn come_back(&mut self) {
        if let Some(saved) = self.saved.take() {
            self.folder = saved;
        } else if !self.is_durable {
            self.folder = tempfile::tempdir().expect("a temporary folder");
        }
        let mut command = Command::new("nats-server");
        command.args(["-js", "-a", "127.0.0.1", "-p", &self.port.to_string()]);
        command.arg("-sd").arg(self.folder.path());
        let process = Process::start(&mut command, "install nats-server, see .ci/packages");
        process.err("readiness", |lines| {
            let mut lines = lines.iter();
            lines
                .any(|line| line.contains("Server is ready"))
                .then_some(())
        });
        self.process = Some(process);
    }

    /// It does nothing any more, and its connections stay.
    ///
    /// # Panics
    /// If it does not run.
    #[track_caller]
    pub fn pause(&self) {
        let process = self.running();
        process.signal(Signal::STOP);
        // Its threads stop one after the other.
        let stat = format!("/proc/{}/stat", process.id());
        until("a server that is stopped", || {
            let stat = std::fs::read_to_string(&stat).ok()?;
            stat.rsplit_once(") ")?.1.starts_with('T').then_some(())
        });
    }

    /// It goes on.
    ///
    /// # Panics
    /// If it does not run.
    #[track_caller]
    pub fn resume(&self) {
        self.running().signal(Signal::CONT);
    }

    #[track_caller]
    fn running(&self) -> &Process {
        self.process.as_ref().expect("it runs")
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
