//! A Redis server of a test's own, which can stop, go away and come back.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::Command;

use rustix::process::Signal;
use tempfile::TempDir;

use crate::Process;

/// Runs until it is dropped, on a port that the kernel chose, with its files in a temporary folder.
pub struct RedisServer {
    port: u16,
    process: Option<Process>,
    folder: TempDir,
    arguments: Vec<String>,
}

impl RedisServer {
    /// Keeps nothing over its end.
    #[must_use]
    #[track_caller]
    pub fn start() -> Self {
        Self::with(&["--save", "", "--appendonly", "no"])
    }

    /// Has all its data again when it comes back.
    #[must_use]
    #[track_caller]
    pub fn durable() -> Self {
        Self::with(&[
            "--save",
            "",
            "--appendonly",
            "yes",
            "--appendfsync",
            "always",
        ])
    }

    /// With these options.
    ///
    /// # Panics
    /// If it cannot be started.
    #[must_use]
    #[track_caller]
    pub fn with(arguments: &[&str]) -> Self {
        let free = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = free.local_addr().expect("its address").port();
        drop(free);
        let mut server = Self {
            port,
            process: None,
            folder: tempfile::tempdir().expect("a temporary folder"),
            arguments: arguments.iter().map(|&argument| argument.into()).collect(),
        };
        server.come_back();
        server
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], self.port))
    }

    /// `redis://…`
    #[must_use]
    pub fn url(&self) -> String {
        format!("redis://{}/0", self.address())
    }

    /// Ends it without a word to anybody.
    pub fn go_away(&mut self) {
        self.process = None;
    }

    /// Starts it again, and waits until it serves.
    ///
    /// # Panics
    /// If it does not.
    #[track_caller]
    pub fn come_back(&mut self) {
        let mut command = Command::new("redis-server");
        command.args(["--port", &self.port.to_string(), "--bind", "127.0.0.1"]);
        command
            .arg("--dir")
            .arg(self.folder.path())
            .args(&self.arguments);
        let process = Process::start(&mut command, "install redis-server, see .ci/packages");
        process.out("readiness", |lines| {
            let mut lines = lines.iter();
            let ready = |line: &String| line.contains("Ready to accept connections");
            lines.any(ready).then_some(())
        });
        self.process = Some(process);
    }

    /// Writes a copy of all its data, which it begins with when it comes back.
    ///
    /// # Panics
    /// If it does not.
    #[track_caller]
    pub fn save(&self) {
        let mut redis = TcpStream::connect(self.address()).expect("it listens");
        redis.write_all(b"SAVE\r\n").expect("it reads");
        let mut answer = [0; 5];
        redis.read_exact(&mut answer).expect("it answers");
        assert_eq!(&answer, b"+OK\r\n");
    }

    /// It does nothing any more, and its connections stay.
    ///
    /// # Panics
    /// If it does not run.
    #[track_caller]
    pub fn pause(&self) {
        self.running().signal(Signal::STOP);
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
